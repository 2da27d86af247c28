//! What a plan says besides its waves.

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_api::{Hook, HookTime};
use hitless_gate::{DisruptionBudget, RuleSet, selector};
use hitless_workloads::{Object, OncePerPod, RestartAnnotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::output;
use crate::snapshot::Snapshot;

/// Most objects that are named of those that govern nobody.
const NAMED: usize = 5;

/// Rules and budgets of the namespace that are not what their authors believe: with something to mend, or for nobody.
pub(super) fn of_rules(snapshot: &Snapshot, namespace: &str) -> Vec<String> {
    let (mut notes, mut for_nobody) = (Vec::new(), Vec::new());
    let mut look = |name: String, selector: Option<&LabelSelector>, faults: Vec<String>| {
        if faults.is_empty() && governs_nobody(snapshot, namespace, selector) {
            for_nobody.push(name);
        } else {
            notes.extend(faults.into_iter().map(|fault| format!("{name}: {fault}")));
        }
    };
    for rule in snapshot.cluster.rules.iter().filter(|rule| rule.namespace == namespace) {
        let set = RuleSet::from(&**rule);
        look(format!("PodTransitionRule/{}", rule.name), rule.spec.selector.as_ref(), set.faults());
    }
    for budget in snapshot.cluster.budgets.iter().filter(|budget| budget.namespace == namespace) {
        look(format!("TransitionBudget/{}", budget.name), budget.spec.selector.as_ref(), budget.faults());
    }
    let own = |budget: &&std::sync::Arc<DisruptionBudget>| budget.namespace == namespace;
    for budget in snapshot.cluster.disruption_budgets.iter().filter(own) {
        look(format!("PodDisruptionBudget/{}", budget.name), budget.selector.as_ref(), budget.faults());
    }
    if !for_nobody.is_empty() {
        let select = if for_nobody.len() == 1 { "selects" } else { "select" };
        notes.push(format!("{} {select} no pod that is known here", output::names(&for_nobody, NAMED)));
    }
    notes
}

/// Whether none of the pods that are known is selected, although some are known.
fn governs_nobody(snapshot: &Snapshot, namespace: &str, wanted: Option<&LabelSelector>) -> bool {
    let mut own = snapshot.cluster.pods.iter().filter(|pod| pod.id.namespace == namespace).peekable();
    own.peek().is_some() && !own.any(|pod| wanted.is_some_and(|wanted| selector::limits(wanted, &pod.labels)))
}

/// One note for each hook: its time is its own.
pub(super) fn of_hooks(hooks: &BTreeMap<String, Hook>) -> impl Iterator<Item = String> {
    hooks.values().map(|hook| {
        let when = match hook.when {
            HookTime::BeforeDrain => "before each pod is drained",
            HookTime::AfterDrain => "when each pod's connections are gone",
            HookTime::AfterStart => "when each pod's new containers are ready",
        };
        format!(
            "hook {} is called {when} and may take up to {} s each time, which is not in the times above",
            hook.name, hook.deadline_seconds
        )
    })
}

/// What the new image would not bring, because it is done once for each pod.
pub(super) fn once_per_pod(object: &Object, pods: &[&PodView]) -> Vec<String> {
    let Some(template) = object.template() else { return Vec::new() };
    let restarts = RestartAnnotations::of(object, template);
    OncePerPod::all(template, pods).iter().map(|each| each.beforehand(&restarts)).collect()
}

/// What a new image means where no other pod serves, and nobody knows how long it takes to start. `is_tried`: a companion pod may run
/// beside it, and tries the image first.
pub(super) fn only_pod(pod: &str, is_tried: bool) -> String {
    let alone =
        format!("no other pod serves while {pod} is operated, and how long the new image takes to start is not known");
    if is_tried {
        format!("{alone}; a companion pod tries it first, so that one that does not start never gets to {pod}")
    } else {
        format!(
            "warning: {alone}. If it does not start, there is no service until it is rolled back; a second replica would serve meanwhile"
        )
    }
}
