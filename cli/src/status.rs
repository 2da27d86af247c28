//! `kubectl hitless status`: what runs, what waits and why.

mod jobs;
mod observe;
mod report;
mod table;

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::{MissedTickBehavior, interval, sleep};

pub(crate) use observe::{BLOCKED, observe, observe_all};
pub(crate) use report::{PodStatus, State, WorkloadStatus};
pub(crate) use table::span;

use self::report::Report;

use crate::args::{Output, StatusArgs, Target, TargetKind};
use crate::failure::Failure;
use crate::source::{self, Live, Scope};

/// Changes that come closer together than this are shown as one.
const SETTLE: Duration = Duration::from_millis(100);

pub(crate) async fn run(client: Client, scope: Scope, arguments: &StatusArgs) -> Result<(), Failure> {
    let first = source::read(&client, &scope).await?;
    let report = observe(&first, Timestamp::now()).only(arguments.workload.as_ref());
    if let Some(target) = &arguments.workload
        && report.workloads.is_empty()
        && report.jobs.is_empty()
    {
        return Err(nothing_about(&first, target));
    }
    for note in first.notes() {
        eprintln!("note: {note}");
    }
    let mut screen = Screen::new(arguments, matches!(scope, Scope::All));
    screen.show(&report)?;
    if !arguments.watch {
        return Ok(());
    }
    let live = Live::new(&client, &scope, first);
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = live.changed() => sleep(SETTLE).await,
            _ = seconds.tick(), if screen.redraws() => {}
        }
        if let Some(snapshot) = live.snapshot() {
            screen.show(&observe(&snapshot, Timestamp::now()).only(arguments.workload.as_ref()))?;
        }
    }
}

fn nothing_about(snapshot: &crate::snapshot::Snapshot, target: &Target) -> Failure {
    if snapshot.find(target).is_none() {
        return Failure::NotFound(format!("{target} does not exist in this namespace; is -n the right one?"));
    }
    let left = match &target.kind {
        TargetKind::Workload(kind) => snapshot.left_alone(kind),
        TargetKind::Pod => None,
    };
    if let Some(why) = left {
        return Failure::NotFound(format!("nothing is done for {target}: {why}"));
    }
    Failure::NotFound(match &target.kind {
        TargetKind::Workload(kind) => format!(
            "{target} has not opted in, so its rollouts are Kubernetes' own; opt it in with: \
             kubectl annotate {} {} hitless.dev/update=in-place",
            kind.to_string().to_lowercase(),
            target.name
        ),
        TargetKind::Pod => format!(
            "nothing is done or wished for {target}; restart it with: kubectl hitless restart pod/{}",
            target.name
        ),
    })
}

/// Where the report goes.
struct Screen {
    output: Output,
    all_namespaces: bool,
    /// A terminal that is watched: the table is drawn over itself.
    redraws: bool,
    last: String,
}

impl Screen {
    fn new(arguments: &StatusArgs, all_namespaces: bool) -> Self {
        let redraws = arguments.watch && arguments.output == Output::Table && stdout().is_terminal();
        Self { output: arguments.output, all_namespaces, redraws, last: String::new() }
    }

    const fn redraws(&self) -> bool {
        self.redraws
    }

    fn show(&mut self, report: &Report) -> Result<(), Failure> {
        let text = match self.output {
            Output::Table => table::render(report, self.all_namespaces),
            Output::Json => format!("{}\n", serde_json::to_string(report).map_err(std::io::Error::from)?),
        };
        // Times go on although nothing has changed; that is no news for who reads line by line.
        let news = match self.output {
            Output::Table => table::render(&report.without_times(), self.all_namespaces),
            Output::Json => serde_json::to_string(&report.without_times()).map_err(std::io::Error::from)?,
        };
        let mut out = stdout().lock();
        if self.redraws {
            // Home, each line cleared to its end, the rest of the screen cleared: no flicker.
            let lines = text.replace('\n', "\x1b[K\n");
            write!(out, "\x1b[H{lines}\x1b[J")?;
        } else if news != self.last {
            if !self.last.is_empty() && self.output == Output::Table {
                writeln!(out)?;
            }
            write!(out, "{text}")?;
        }
        self.last = news;
        out.flush()?;
        Ok(())
    }
}
