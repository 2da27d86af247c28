//! `cargo xtask demo kruise`: the examples of OpenKruise's announcement of `maxSurge` for CloneSets (0.5.0), under load. Five pods, one more
//! at a time (`maxSurge: 20%`), none unavailable, three kept (`partition: 3`) and then none: by new pods, and in place.

use std::collections::BTreeSet;
use std::time::Instant;

use hitless_e2e::app::{App, PATIENCE, Shape};
use hitless_e2e::measure::{self, Rollout};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{Stack, Traffic};
use serde::Serialize;
use serde_json::{Value, json};

use super::say::Say;

/// Pods of the CloneSet.
const REPLICAS: u32 = 5;
/// Pods that the first phase keeps.
const KEPT: u32 = 3;

/// The last line of `--json`.
#[derive(Serialize)]
pub(super) struct Outcome {
    runs: Vec<Run>,
    /// From the start of the command, builds included.
    total_seconds: f64,
}

#[derive(Serialize)]
struct Run {
    /// Three replicas in place.
    in_place: Rollout,
    /// By new pods.
    recreate: Phases,
    /// In place, with one more pod meanwhile.
    surge_in_place: Phases,
}

/// An update in two phases.
#[derive(Serialize)]
struct Phases {
    requests: u64,
    failed: u64,
    seconds: f64,
    /// The rows that the announcement shows, which the status said at some time.
    shown: Vec<Row>,
    /// Those of them that it never said.
    missed: Vec<Row>,
    /// Fewest pods that were Ready.
    ready_at_least: u64,
    /// Most pods that there were.
    pods_at_most: u64,
}

/// A line of `kubectl get clone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Row {
    desired: u64,
    updated: u64,
    updated_ready: u64,
    ready: u64,
    total: u64,
}

const fn row(updated: u64, updated_ready: u64, ready: u64, total: u64) -> Row {
    Row { desired: REPLICAS as u64, updated, updated_ready, ready, total }
}

/// What the announcement shows of an update by new pods: one more pod, the end of the first phase, one more pod, the end.
const BY_NEW_PODS: [Row; 4] = [row(1, 0, 5, 6), row(2, 2, 5, 5), row(3, 2, 5, 6), row(5, 5, 5, 5)];
/// It shows none of an update in place: the ends of both phases.
const IN_PLACE: [Row; 2] = [row(2, 2, 5, 5), row(5, 5, 5, 5)];

impl Row {
    fn of(set: &Value) -> Self {
        let number = |path: &str| set.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        Self {
            desired: number("/spec/replicas"),
            updated: number("/status/updatedReplicas"),
            updated_ready: number("/status/updatedReadyReplicas"),
            ready: number("/status/readyReplicas"),
            total: number("/status/replicas"),
        }
    }

    fn text(self) -> String {
        let Self { desired, updated, updated_ready, ready, total } = self;
        format!("{desired:>7} {updated:>7} {updated_ready:>13} {ready:>5} {total:>5}")
    }
}

impl Outcome {
    /// No request has failed, each row was shown, and no limit was passed.
    pub(super) fn is_good(&self) -> bool {
        self.runs.iter().all(|run| {
            let phases = [&run.recreate, &run.surge_in_place];
            run.in_place.failed == 0 && run.in_place.pods_recreated == 0 && phases.iter().all(|phases| phases.is_good())
        })
    }
}

impl Phases {
    fn is_good(&self) -> bool {
        let (least, most) = (u64::from(REPLICAS), u64::from(REPLICAS) + 1);
        self.failed == 0 && self.missed.is_empty() && self.ready_at_least >= least && self.pods_at_most <= most
    }
}

pub(super) fn play(say: &Say, stack: &Stack, runs: u32) -> anyhow::Result<Outcome> {
    let runs = (1..=runs).map(|number| run(say, stack, number)).collect::<anyhow::Result<_>>()?;
    Ok(Outcome { runs, total_seconds: say.seconds() })
}

fn run(say: &Say, stack: &Stack, number: u32) -> anyhow::Result<Run> {
    say.line(&format!("run {number}: a new image for a CloneSet of three, type InPlaceIfPossible"));
    let patch = json!({"spec": {"updateStrategy": {"type": "InPlaceIfPossible"}}});
    let shape = Shape { patch, mode: None, ..Shape::clone_set(3) };
    let app = App::start(&stack.cluster, &format!("kruise-in-place-{number}"), &shape)?;
    let in_place = measure::rollout(stack, &app, "v2", Rate::default(), 0, &mut |_, _| {})?;
    drop(app);
    Say::more(&format!(
        "{} of {} requests failed, {:.1} s, {} pods made anew",
        in_place.failed, in_place.requests, in_place.seconds, in_place.pods_recreated
    ));
    say.line("the announcement's example: maxSurge 20%, maxUnavailable 0, partition 3, then 0, by new pods");
    let recreate = phases(stack, &format!("kruise-recreate-{number}"), "ReCreate", &BY_NEW_PODS)?;
    say.line("the same in place");
    let surge_in_place = phases(stack, &format!("kruise-surge-{number}"), "InPlaceIfPossible", &IN_PLACE)?;
    Ok(Run { in_place, recreate, surge_in_place })
}

fn strategy(kind: &str, partition: u32) -> Value {
    json!({"spec": {"updateStrategy": {"type": kind, "maxSurge": "20%", "maxUnavailable": 0, "partition": partition}}})
}

fn phases(stack: &Stack, namespace: &str, kind: &str, expected: &[Row]) -> anyhow::Result<Phases> {
    let shape = Shape { patch: strategy(kind, KEPT), mode: None, ..Shape::clone_set(REPLICAS) };
    let app = App::start(&stack.cluster, namespace, &shape)?;
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let (mut states, begin) = (app.workloads.follow(), Instant::now());
    let mut seen = BTreeSet::new();
    app.set_version("v2")?;
    for updated in [REPLICAS - KEPT, REPLICAS] {
        if updated == REPLICAS {
            let patch = strategy(kind, 0).to_string();
            app.kubectl.run(&["patch", "cloneset", "web", "--type=merge", "-p", &patch])?;
        }
        let end = row(updated.into(), updated.into(), REPLICAS.into(), REPLICAS.into());
        states.wait(&format!("{updated} updated pods"), PATIENCE, |sets| {
            let set = sets.get("web")?;
            let (generation, seen_generation) = (&set["metadata"]["generation"], &set["status"]["observedGeneration"]);
            seen.insert(Row::of(set));
            (generation == seen_generation && Row::of(set) == end).then_some(())
        })?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    let (shown, missed) = expected.iter().partition(|row| seen.contains(row));
    let phases = Phases {
        requests: report.requests(),
        failed: report.failed(),
        seconds,
        shown,
        missed,
        ready_at_least: seen.iter().map(|row| row.ready).min().unwrap_or_default(),
        pods_at_most: seen.iter().map(|row| row.total).max().unwrap_or_default(),
    };
    tell(&phases);
    Ok(phases)
}

fn tell(phases: &Phases) {
    Say::more("DESIRED UPDATED UPDATED_READY READY TOTAL");
    for row in &phases.shown {
        Say::more(&row.text());
    }
    for row in &phases.missed {
        Say::more(&format!("{}   was not seen", row.text()));
    }
    let Phases { requests, failed, seconds, ready_at_least, pods_at_most, .. } = phases;
    Say::more(&format!(
        "{failed} of {requests} requests failed, {seconds:.1} s; at least {ready_at_least} pods Ready, at most {pods_at_most} there"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_kubectl_prints_of_the_set() {
        let set = json!({"spec": {"replicas": 5},
            "status": {"updatedReplicas": 1, "readyReplicas": 5, "replicas": 6}});
        assert_eq!(Row::of(&set), BY_NEW_PODS[0]);
        assert_eq!(Row::of(&set).text(), "      5       1             0     5     6");
    }

    #[test]
    fn a_row_that_is_missed_and_a_pod_too_few_are_not_good() {
        let good = || Phases {
            requests: 1,
            failed: 0,
            seconds: 1.0,
            shown: BY_NEW_PODS.to_vec(),
            missed: Vec::new(),
            ready_at_least: 5,
            pods_at_most: 6,
        };
        assert!(good().is_good());
        assert!(!Phases { missed: vec![BY_NEW_PODS[0]], ..good() }.is_good());
        assert!(!Phases { ready_at_least: 4, ..good() }.is_good());
        assert!(!Phases { failed: 1, ..good() }.is_good());
    }
}
