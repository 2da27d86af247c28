//! Metrics that name workloads and budgets: of those at which something happens, and of a limited number.

mod memory;
#[cfg(test)]
mod tests;

use hitless_api::ObjectRef;
use hitless_rollout::round::{ByWorkload, Round};
use hitless_rollout::snapshot::Snapshot;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use memory::{Memory, Outcome};

/// Most workloads that are named: five series each.
const MOST_WORKLOADS: usize = 200;
/// Most budgets that are named: two series each.
const MOST_BUDGETS: usize = 200;
/// Most workloads whose restarts are counted by name in a term.
const MOST_COUNTED: usize = 1_000;
/// Upper bounds in seconds: from a single pod to a fleet within its windows.
const ROLLOUT: [f64; 10] = [5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkloadLabels {
    namespace: String,
    kind: String,
    workload: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    namespace: String,
    kind: String,
    workload: String,
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PodLabels {
    namespace: String,
    kind: String,
    workload: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlaceLabels {
    namespace: String,
    budget: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

impl WorkloadLabels {
    fn of(workload: &ObjectRef) -> Self {
        let ObjectRef { group_kind, namespace, name, .. } = workload;
        Self { namespace: namespace.clone(), kind: group_kind.kind.to_string(), workload: name.clone() }
    }
}

/// What is told, and what was seen before.
#[derive(Debug)]
pub(super) struct Named {
    stage: Family<StageLabels, Gauge>,
    pods: Family<PodLabels, Gauge>,
    unnamed: Gauge,
    restarts: Family<WorkloadLabels, Counter>,
    places: Family<PlaceLabels, Gauge>,
    seconds: Family<OutcomeLabels, Histogram, fn() -> Histogram>,
    memory: Memory,
}

impl Named {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(ROLLOUT);
        let named = Self {
            stage: Family::default(),
            pods: Family::default(),
            unnamed: Gauge::default(),
            restarts: Family::default(),
            places: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            memory: Memory::default(),
        };
        let words = "1: where a workload is at which something happens";
        registry.register("hitless_workload_stage", words, named.stage.clone());
        let words = "Pods of a workload at which something happens";
        registry.register("hitless_workload_pods", words, named.pods.clone());
        let words = "Workloads at which something happens and that are too many to be named";
        registry.register("hitless_workloads_unnamed", words, named.unnamed.clone());
        let words = "Restarts of containers by operations, which are no crashes";
        registry.register("hitless_restarts_intended", words, named.restarts.clone());
        let words = "Pods of a TransitionBudget that may be unavailable, and that are";
        registry.register("hitless_budget_places", words, named.places.clone());
        let words = "Time from the first pod of a rollout to its end";
        registry.register("hitless_rollout_seconds", words, named.seconds.clone());
        for outcome in Outcome::ALL {
            drop(named.seconds.get_or_create(&OutcomeLabels { outcome: outcome.name() }));
        }
        named
    }

    /// This process does not lead any more: what it has told is not true any more.
    pub(super) fn end_of_term(&mut self) {
        self.stage.clear();
        self.pods.clear();
        self.unnamed.set(0);
        self.places.clear();
        self.memory = Memory::default();
    }

    pub(super) fn decided(&mut self, snapshot: &Snapshot, round: &Round, now: Timestamp) {
        self.tell_workloads(&round.by_workload);
        self.places.clear();
        for places in round.places.iter().take(MOST_BUDGETS) {
            for (state, number) in [("most", places.most), ("taken", places.taken)] {
                let (namespace, budget) = (places.namespace.clone(), places.name.clone());
                let labels = PlaceLabels { namespace, budget, state };
                self.places.get_or_create(&labels).set(i64::try_from(number).unwrap_or(i64::MAX));
            }
        }
        for (workload, restarts) in self.memory.restarts(snapshot) {
            self.counter(&workload, |counter| {
                counter.inc_by(restarts);
            });
        }
        for (outcome, took) in self.memory.rollouts(snapshot, round, now) {
            let labels = OutcomeLabels { outcome: outcome.name() };
            self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    fn tell_workloads(&mut self, all: &[ByWorkload]) {
        self.stage.clear();
        self.pods.clear();
        let mut told: Vec<&ByWorkload> = all.iter().collect();
        told.sort_by_key(|each| (urgency(each.stage), &each.workload.namespace, &each.workload.name));
        self.unnamed.set(i64::try_from(told.len().saturating_sub(MOST_WORKLOADS)).unwrap_or(i64::MAX));
        for each in told.into_iter().take(MOST_WORKLOADS) {
            let WorkloadLabels { namespace, kind, workload } = WorkloadLabels::of(&each.workload);
            let states = [("updated", each.updated), ("operated", each.operated), ("waiting", each.waiting)];
            for (state, count) in states {
                let labels =
                    PodLabels { namespace: namespace.clone(), kind: kind.clone(), workload: workload.clone(), state };
                self.pods.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
            self.stage.get_or_create(&StageLabels { namespace, kind, workload, stage: each.stage }).set(1);
            // Before the first restart: a counter that is born with it has no increase.
            self.counter(&each.workload, |_| ());
        }
    }

    /// The counter of the workload; of one too many that of all others, which has no name.
    fn counter(&mut self, workload: &ObjectRef, change: impl FnOnce(&Counter)) {
        let is_named = self.memory.is_counted(&workload.uid, MOST_COUNTED);
        // So many are at work that not all can be named.
        let labels = if is_named { WorkloadLabels::of(workload) } else { WorkloadLabels::default() };
        change(&self.restarts.get_or_create(&labels));
    }
}

/// What people have to look at is named first.
fn urgency(stage: &str) -> usize {
    const FIRST: [&str; 5] = ["Halted", "Refused", "SteppingAside", "Rolling", "Finishing"];
    FIRST.iter().position(|first| *first == stage).unwrap_or(FIRST.len())
}
