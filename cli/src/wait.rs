//! `kubectl hitless wait`: blocks until a rollout has ended. Unlike `kubectl rollout status` it does not take a Deployment
//! that somebody has paused for done.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::{Instant, timeout};

use crate::args::{Target, TargetKind, WaitArgs, workload_targets};
use crate::failure::Failure;
use crate::output::{self, remark};
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Live, Scope};
use crate::status::{self, OPERATING, PodStatus, RESTARTING, State, WorkloadStatus};

/// For so long nothing may have moved and everything may have waited for a change of what was written until that is believed: right
/// after a change the objects that it consists of are seen one after the other, and the controller has not looked at them yet.
const SETTLE: Duration = Duration::from_secs(5);

pub(crate) async fn run(client: Client, namespace: String, arguments: &WaitArgs) -> Result<(), Failure> {
    if arguments.target.kind == TargetKind::Pod {
        return Err(Failure::Usage(format!("a rollout is a workload's; write {}", workload_targets())));
    }
    let scope = Scope::Namespace(namespace);
    let first = source::read(&client, &scope).await?;
    let target = &arguments.target;
    let (mut last, mut told, mut since) = (String::new(), None, None);
    let mut step = |snapshot: &Snapshot| {
        let workload = find(snapshot, target, Timestamp::now())?;
        let text = summary(&workload);
        if text != last {
            say(&text)?;
            last = text;
        }
        let is_done = done(&workload)?;
        let trouble = snapshot.controller.trouble().filter(|_| !is_done);
        if trouble != told {
            if let Some(trouble) = &trouble {
                remark(&format!("note: {trouble}"));
            }
            told = trouble;
        }
        match stuck(&workload) {
            Some(failure) if since.get_or_insert_with(Instant::now).elapsed() >= SETTLE => {
                return Err(with_trouble(failure, snapshot));
            }
            Some(_) => {}
            None => since = None,
        }
        Ok(is_done)
    };
    if step(&first)? {
        return Ok(());
    }
    let live = Live::new(&client, &scope, first);
    let waiting = async {
        loop {
            // Also without a change: that what is in the way is still there is told by time.
            let _ = timeout(SETTLE, live.changed()).await;
            if let Some(snapshot) = live.snapshot()
                && step(&snapshot)?
            {
                return Ok(());
            }
        }
    };
    if let Ok(result) = timeout(arguments.timeout, waiting).await {
        return result;
    }
    let snapshot = source::read(&client, &scope).await?;
    let workload = find(&snapshot, target, Timestamp::now())?;
    let left = workload.pods.iter().filter(|pod| pod.state != State::UpToDate);
    let failure = stuck(&workload).unwrap_or_else(|| late(&target.to_string(), &workload.arguments(), left));
    Err(with_trouble(failure, &snapshot))
}

/// The same with a word about the controller, where none runs.
pub(crate) fn with_trouble(late: Failure, snapshot: &Snapshot) -> Failure {
    match (snapshot.controller.trouble(), late) {
        (None, late) => late,
        (Some(trouble), Failure::Blocked(text)) => Failure::Blocked(format!("{text}; {trouble}")),
        (Some(trouble), late) => Failure::TimedOut(format!("{late}; {trouble}")),
    }
}

pub(crate) fn find(snapshot: &Snapshot, target: &Target, now: Timestamp) -> Result<WorkloadStatus, Failure> {
    if snapshot.find(target).is_none() {
        return Err(snapshot.missing(&format!("{target} does not exist")));
    }
    let workload = status::observe(snapshot, now).only(Some(target)).workloads.pop();
    let place = snapshot.namespace.as_ref().map(|namespace| format!("-n {namespace} ")).unwrap_or_default();
    workload.filter(|workload| workload.driven).ok_or_else(|| {
        Failure::Failed(format!(
            "{target} has not opted in to updates in place, so its native controller rolls it; use: kubectl rollout status {place}{target}"
        ))
    })
}

/// Whether the rollout has ended well; an error if it has ended otherwise, or does not go on by itself.
pub(crate) fn done(workload: &WorkloadStatus) -> Result<bool, Failure> {
    let end = format!("{}: {}", workload.name, workload.why);
    match workload.stage {
        "Refused" => return Err(Failure::Blocked(end)),
        "Halted" => return Err(Failure::Failed(end)),
        _ => {}
    }
    if let Some(pod) = workload.pods.iter().find(|pod| pod.halts)
        && !["Idle", RESTARTING, OPERATING].contains(&workload.stage)
    {
        let message = format!("{}: halted, because {} ended as {}: {}", workload.name, pod.name, pod.state, pod.why);
        return Err(Failure::Failed(message));
    }
    // As `kubectl rollout status` ends.
    if let Some(overdue) = &workload.overdue {
        return Err(Failure::Failed(format!("{}: {overdue}", workload.name)));
    }
    // The pod may be gone.
    if let Some(halted) = &workload.halted {
        return Err(Failure::Failed(format!("{}: {halted}", workload.name)));
    }
    let running = |pod: &PodStatus| matches!(pod.state, State::Running(_) | State::Reserved | State::Waiting);
    // Nobody waits for one that is being deleted: Kubernetes gives it hours, if its grace period says so.
    let pods = || workload.pods.iter().filter(|pod| !pod.leaves);
    let is_done = workload.stage == "Idle"
        && !workload.held
        && workload.updated == workload.total
        && workload.replicas.is_none_or(|wanted| {
            u32::try_from(pods().count()).is_ok_and(|there| (wanted..=wanted + workload.surplus).contains(&there))
        })
        && pods().all(|pod| pod.ready && !running(pod));
    match &workload.paused {
        Some(paused) if !is_done && workload.stage != "Native" && !is_moving(workload) => {
            Err(Failure::Blocked(format!("{}: {paused}", workload.name)))
        }
        Some(_) | None => Ok(is_done),
    }
}

fn is_moving(workload: &WorkloadStatus) -> bool {
    workload.pods.iter().any(|pod| pod.state.is_moving())
}

/// Nothing moves, and all that is left waits for a change of what was written: no time helps, and nobody who acts unasked does.
pub(crate) fn stuck(workload: &WorkloadStatus) -> Option<Failure> {
    let mut waiting = workload.pods.iter().filter(|pod| pod.state == State::Waiting).peekable();
    if is_moving(workload) || waiting.peek().is_none() || !waiting.all(|pod| pod.needs_change) {
        return None;
    }
    let waiting = workload.pods.iter().filter(|pod| pod.state == State::Waiting);
    Some(blocked(&workload.name, &alike(waiting).join("; "), &workload.arguments()))
}

fn blocked(what: &str, list: &str, on: &str) -> Failure {
    Failure::Blocked(format!("{what} is blocked: {list}; waiting alone does not help, see: kubectl hitless why {on}"))
}

/// One line about how far it is.
pub(crate) fn summary(workload: &WorkloadStatus) -> String {
    let whole = format!("{}: {}", workload.name, workload.count("pods "));
    let busy = workload.pods.iter().filter(|pod| matches!(pod.state, State::Running(_)));
    let mut parts = vec![whole];
    parts.extend(busy.map(|pod| format!("{} {}", pod.name, pod.state)));
    // What a pause or a halt means is said once it ends the wait.
    let is_over = workload.paused.is_some() || workload.stage == "Halted";
    parts.extend(alike(workload.pods.iter().filter(|pod| pod.blocked || pod.stays && !is_over)));
    parts.join(", ")
}

/// Most pods that are named where all have the same answer.
const NAMED: usize = 3;

/// Each reason once, with the pods that it is true of.
fn alike<'a>(pods: impl Iterator<Item = &'a PodStatus>) -> Vec<String> {
    let mut groups: Vec<(String, &str, Vec<&str>)> = Vec::new();
    for pod in pods {
        let state = pod.state.to_string();
        match groups.iter_mut().find(|(known, why, _)| (known, *why) == (&state, pod.why.as_str())) {
            Some((_, _, names)) => names.push(&pod.name),
            None => groups.push((state, &pod.why, vec![&pod.name])),
        }
    }
    let text = |(state, why, names): (String, &str, Vec<&str>)| {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        format!("{} {state}{why}", output::names(&names, NAMED))
    };
    groups.into_iter().map(text).collect()
}

/// What a command that ran out of time says: exit code 3 if nothing moves and all that waits does until what was written is changed,
/// else 4. `on`: what it waited for, as it is pasted behind a command.
pub(crate) fn late<'a>(what: &str, on: &str, pods: impl Iterator<Item = &'a PodStatus>) -> Failure {
    let pods: Vec<&PodStatus> = pods.collect();
    // As long as one may go on, the others only wait for their turn.
    let moves = pods.iter().any(|pod| pod.state.is_moving() || pod.state == State::Waiting && !pod.stays);
    let list = alike(pods.iter().copied()).join("; ");
    let is_stuck = !moves && pods.iter().any(|pod| pod.stays);
    let mut waiting = pods.iter().filter(|pod| pod.state == State::Waiting).peekable();
    if is_stuck && waiting.peek().is_some() && waiting.all(|pod| pod.needs_change) {
        return blocked(what, &list, on);
    }
    Failure::TimedOut(match (list.is_empty(), is_stuck) {
        (true, _) => format!("{what} was not over in time; look again: kubectl hitless status {on} -w"),
        (false, true) => format!("{what} was not over in time: {list}; see: kubectl hitless why {on}"),
        (false, false) => format!("{what} was not over in time: {list}"),
    })
}

#[cfg(test)]
mod tests;
