//! `kubectl hitless status`: what runs, what waits and why.

mod at_rest;
mod jobs;
mod observe;
mod report;
mod table;
mod unwell;

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::{MissedTickBehavior, interval, sleep};

pub(crate) use at_rest::{OPERATING, RESTARTING};
pub(crate) use observe::{BLOCKED, observe, observe_all};
pub(crate) use report::{PodStatus, State, WorkloadStatus};
pub(crate) use table::span;

use self::report::Report;
use self::table::Shape;

use crate::args::{Output, StatusArgs, Target, TargetKind};
use crate::failure::Failure;
use crate::output::{self, remark};
use crate::snapshot::Snapshot;
use crate::source::{self, Live, Scope};

/// Changes that come closer together than this are shown as one.
const SETTLE: Duration = Duration::from_millis(100);

pub(crate) async fn run(client: Client, scope: Scope, arguments: &StatusArgs) -> Result<(), Failure> {
    let first = source::read(&client, &scope).await?;
    let first_report = report(&first, arguments);
    if first_report.workloads.is_empty() && first_report.jobs.is_empty() {
        match (&arguments.workload, &scope) {
            (Some(target), _) => return Err(nothing_about(&first, target)),
            (None, Scope::Namespace(namespace)) => source::namespace_exists(&client, namespace).await?,
            (None, Scope::All) => {}
        }
    }
    for note in first.notes() {
        remark(&format!("note: {note}"));
    }
    let mut screen = Screen::new(arguments, matches!(scope, Scope::All));
    screen.show(&first_report)?;
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
            screen.show(&report(&snapshot, arguments))?;
        }
    }
}

/// Of a workload that is named everything is said, whether or not it has opted in.
fn report(snapshot: &Snapshot, arguments: &StatusArgs) -> Report {
    let now = Timestamp::now();
    let report = match &arguments.workload {
        Some(Target { kind: TargetKind::Workload(kind), .. }) if snapshot.left_alone(kind).is_none() => {
            observe_all(snapshot, &snapshot.explain(now, |_| false), now)
        }
        Some(_) | None => observe(snapshot, now),
    };
    report.only(arguments.workload.as_ref()).selected(snapshot, arguments.selector.as_ref())
}

fn nothing_about(snapshot: &Snapshot, target: &Target) -> Failure {
    if snapshot.find(target).is_none() {
        return snapshot.missing(&format!("{target} does not exist"));
    }
    let left = match &target.kind {
        TargetKind::Workload(kind) => snapshot.left_alone(kind),
        TargetKind::Pod => None,
    };
    if let Some(why) = left {
        return Failure::NotFound(format!("nothing is done for {target}: {why}"));
    }
    let namespace = snapshot.namespace.as_ref().map_or(String::new(), |namespace| format!(" -n {namespace}"));
    Failure::NotFound(format!(
        "nothing is done or wished for {target}; restart it with: kubectl hitless restart{namespace} {target}"
    ))
}

/// The table of a namespace.
#[cfg(test)]
pub(crate) fn shown(snapshot: &Snapshot, now: Timestamp) -> String {
    table::render(&observe(snapshot, now), Shape { all_namespaces: false, wide: false, headers: true })
}

/// Where the report goes.
struct Screen {
    output: Output,
    shape: Shape,
    watch: bool,
    /// A terminal that is watched: the table is drawn over itself.
    redraws: bool,
    last: String,
}

impl Screen {
    fn new(arguments: &StatusArgs, all_namespaces: bool) -> Self {
        let redraws = arguments.watch && is_table(arguments.output) && stdout().is_terminal();
        let (output, watch) = (arguments.output, arguments.watch);
        let shape = Shape { all_namespaces, wide: output == Output::Wide, headers: !arguments.no_headers };
        Self { output, shape, watch, redraws, last: String::new() }
    }

    const fn redraws(&self) -> bool {
        self.redraws
    }

    fn show(&mut self, report: &Report) -> Result<(), Failure> {
        let text = self.text(report)?;
        let text = output::printable(&text);
        // Times go on although nothing has changed; that is no news for who reads line by line.
        let news = self.text(&report.without_times())?;
        let mut out = stdout().lock();
        if self.redraws {
            // Home, each line cleared to its end, the rest of the screen cleared: no flicker.
            let lines = text.replace('\n', "\x1b[K\n");
            write!(out, "\x1b[H{lines}\x1b[J")?;
        } else if news != self.last {
            if !self.last.is_empty() && is_table(self.output) {
                writeln!(out)?;
            }
            if self.watch && is_table(self.output) {
                writeln!(out, "# {}", Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"))?;
            }
            write!(out, "{text}")?;
        }
        self.last = news;
        out.flush()?;
        Ok(())
    }

    fn text(&self, report: &Report) -> Result<String, Failure> {
        Ok(match self.output {
            Output::Table | Output::Wide => table::render(report, self.shape),
            Output::Json => format!("{}\n", serde_json::to_string(report).map_err(std::io::Error::from)?),
            Output::Name => report.workloads.iter().flat_map(|workload| [workload.name.as_str(), "\n"]).collect(),
            Output::Yaml => format!("{}{}", if self.watch { "---\n" } else { "" }, output::yaml(report)?),
        })
    }
}

const fn is_table(output: Output) -> bool {
    match output {
        Output::Table | Output::Wide => true,
        Output::Json | Output::Yaml | Output::Name => false,
    }
}
