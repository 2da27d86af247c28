//! What the gate is told: pods, their owners, nodes, the rules and who holds a reservation.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::{ContainerView, PodView};
use hitless_api::transition_budget::TransitionBudgetSpec;
use hitless_api::{Lenient, ObjectRef, PodTransitionRuleSpec, TransitionBudget, names};
use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{Approvals, Settings};

/// A pod, reduced to what rules look at. Pods that have finished for good (Succeeded, Failed) are best left out: as long as they
/// are listed they count as unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// `metadata.uid`: the pod's identity here and in the ledger.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Node, once bound.
    pub node: Option<String>,
    /// The top workload (for a Deployment's pod the Deployment), else the direct owner, else nothing.
    pub owner: Option<ObjectRef>,
    /// Ready, not terminating, not finished.
    pub available: bool,
    /// It is being deleted: it is gone without anybody's doing once its grace period is over.
    pub leaving: bool,
    /// Since when it is not, if that is known.
    pub unavailable_since: Option<Timestamp>,
    /// When an operation brought it back to service for the last time.
    pub returned_at: Option<Timestamp>,
}

impl PodFacts {
    /// The facts of `pod`, which `owner` owns in the end.
    #[must_use]
    pub fn of(pod: &PodView, owner: Option<ObjectRef>) -> Self {
        let ready = pod.conditions.get("Ready");
        Self {
            uid: pod.id.uid.clone(),
            namespace: pod.id.namespace.clone(),
            name: pod.id.name.clone(),
            labels: BTreeMap::clone(&pod.labels),
            node: pod.node.clone(),
            owner,
            available: pod.available(),
            leaving: pod.terminating,
            unavailable_since: ready.filter(|ready| !ready.is_true).and_then(|ready| ready.since),
            // A pod is in service from its first moment on; only an operated one has returned to it. A pod that is held never
            // leaves service: it is back when its new containers run.
            returned_at: pod
                .in_service()
                .filter(|state| state.is_true && pod.is_operated())
                .and_then(|state| state.since)
                .map(|since| pod.containers.iter().filter_map(started).fold(since, Timestamp::max)),
        }
    }
}

fn started(container: &ContainerView) -> Option<Timestamp> {
    container.status.as_ref()?.running_since
}

/// What is known of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerFacts {
    /// How many pods it is meant to have.
    pub desired: u32,
    /// How many of them may be unavailable, as the workload itself says. It takes the place of the implicit budget and counts
    /// beside all others.
    pub max_unavailable: Option<u32>,
    /// Pods that are available beyond the desired ones make room under that limit.
    pub counts_extra_pods: bool,
}

impl OwnerFacts {
    /// A workload that says nothing of how many of its pods may be unavailable.
    #[must_use]
    pub const fn of(desired: u32) -> Self {
        Self { desired, max_unavailable: None, counts_extra_pods: false }
    }
}

/// One PodTransitionRule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    /// Name of the object.
    pub name: String,
    /// Its namespace; it governs pods of this namespace only.
    pub namespace: String,
    /// Its spec.
    pub spec: PodTransitionRuleSpec,
    /// Why the spec can't be read, but for whom it selects: none of these passes.
    pub unreadable: Option<String>,
}

/// One TransitionBudget.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Name of the object.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// `metadata.uid`.
    pub uid: String,
    /// Its spec.
    pub spec: TransitionBudgetSpec,
    /// Why the spec can't be read, but for whom it selects: none of these passes.
    pub unreadable: Option<String>,
}

impl Budget {
    /// Whether it limits the pods of all namespaces.
    #[must_use]
    pub fn is_cluster_wide(&self) -> bool {
        self.spec.scope == hitless_api::transition_budget::Scope::Cluster && self.namespace == names::system_namespace()
    }
}

impl From<TransitionBudget> for Budget {
    fn from(object: TransitionBudget) -> Self {
        Lenient { object, unreadable: None }.into()
    }
}

impl From<Lenient<TransitionBudget>> for Budget {
    fn from(Lenient { object, unreadable }: Lenient<TransitionBudget>) -> Self {
        Self {
            name: object.metadata.name.unwrap_or_default(),
            namespace: object.metadata.namespace.unwrap_or_default(),
            uid: object.metadata.uid.unwrap_or_default(),
            spec: object.spec,
            unreadable,
        }
    }
}

/// One PodDisruptionBudget (policy/v1). An in-place operation never pushes it below its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct DisruptionBudget {
    /// Name of the object.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// `spec.selector`; absent selects nobody, empty everybody (policy/v1).
    pub selector: Option<LabelSelector>,
    /// `spec.minAvailable`; a percentage rounds up, as the disruption controller has it.
    pub min_available: Option<IntOrString>,
    /// `spec.maxUnavailable`; a percentage rounds up, as the disruption controller has it.
    pub max_unavailable: Option<IntOrString>,
}

impl From<PodDisruptionBudget> for DisruptionBudget {
    fn from(object: PodDisruptionBudget) -> Self {
        let spec = object.spec.unwrap_or_default();
        Self {
            name: object.metadata.name.unwrap_or_default(),
            namespace: object.metadata.namespace.unwrap_or_default(),
            selector: spec.selector,
            min_available: spec.min_available,
            max_unavailable: spec.max_unavailable,
        }
    }
}

/// A reservation in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Since when.
    pub since: Timestamp,
    /// Its operation has ended and left the pod not Ready: nobody brings it back.
    pub is_over: bool,
}

/// Everything that a decision depends on, for a caller that keeps no [`crate::Gate`].
#[derive(Clone, Copy, Debug)]
pub struct GateInput<'a> {
    /// All pods that any rule may count, not only those that want something.
    pub pods: &'a [PodFacts],
    /// Owners whose desired number of pods is known. An owner that is missing here counts with its listed pods.
    pub owners: &'a BTreeMap<ObjectRef, OwnerFacts>,
    /// Labels of nodes by name, for topologies.
    pub nodes: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// All PodTransitionRules.
    pub rule_sets: &'a [RuleSet],
    /// All TransitionBudgets.
    pub budgets: &'a [Budget],
    /// All PodDisruptionBudgets.
    pub disruption_budgets: &'a [DisruptionBudget],
    /// Places in ledgers by pod uid.
    pub reserved: &'a BTreeMap<String, Reserved>,
    /// uids of pods whose last operation has failed and not been superseded.
    pub failed: &'a BTreeSet<String>,
    /// What approvers have said.
    pub approvals: &'a Approvals,
    /// What holds for the whole cluster.
    pub settings: &'a Settings,
}

/// What operating a pod that is not available may cost. Asked only of one that is not.
///
/// "Costs no availability now" is not "needs no permission": a pod that is not Ready for a reason that passes (its probe asks something
/// that is away) is worth as much as a Ready one, and an unverified version on it spends that. As natively (`reconcileOldReplicaSets`
/// of the Deployment controller: `maxCleanupCount` is all pods less `minAvailable` less the new version's unavailable ones).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absence {
    /// It may come back by itself, and the operation brings another version. It goes as an available pod would, or while fewer pods
    /// than may be unavailable (and always one) are being operated or have the new version and are not available.
    #[default]
    NewVersion,
    /// It may come back by itself, and its version stays: the same, but only operations that are under way count.
    SameVersion,
    /// Nothing: its version was judged bad, or it is between two versions, or its own container fails and the new version has been
    /// verified, or it leaves for good.
    CostsNothing,
}

/// A pod that wants to be operated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// uid of the pod.
    pub pod_uid: String,
    /// Id of the operation, see [`crate::Question`].
    pub operation: String,
    /// Its last attempt was cancelled or failed: it goes before all others.
    pub again: bool,
    /// Annotation `hitless.dev/priority`: higher goes first.
    pub priority: i32,
    /// `hitless.dev/leader`: goes last among equal priorities.
    pub leader: bool,
    /// In which order the workload wants its pods to go: lower goes first.
    pub rank: i32,
    /// Where everything else is equal it goes first, because it saves a write.
    pub preferred: bool,
    /// Rules that the pod's annotation excuses it from, see [`skipped_rules`].
    pub skips: BTreeSet<String>,
    /// Types of the pod's conditions that are True, for rules with `conditions`.
    pub conditions: BTreeSet<String>,
    /// What operating it may cost while it is not available.
    pub absence: Absence,
}

impl Candidate {
    /// A candidate without any circumstances.
    #[must_use]
    pub fn new(pod_uid: impl Into<String>) -> Self {
        Self { pod_uid: pod_uid.into(), ..Self::default() }
    }

    /// The candidate that `pod` is, for the operation with that id.
    ///
    /// Annotations and labels that make no sense count as absent, except that nobody is excused by them.
    #[must_use]
    pub fn of(pod: &PodView, operation: impl Into<String>) -> Self {
        use names::annotations::{LEADER, PRIORITY, SKIP_RULES};
        let annotation = |name: &str| pod.annotations.get(name).map(String::as_str);
        let says_true = |value: Option<&str>| value == Some("true");
        Self {
            pod_uid: pod.id.uid.clone(),
            operation: operation.into(),
            again: false,
            priority: annotation(PRIORITY).and_then(|value| value.trim().parse().ok()).unwrap_or_default(),
            leader: says_true(annotation(LEADER)) || says_true(pod.labels.get(LEADER).map(String::as_str)),
            rank: 0,
            preferred: false,
            skips: annotation(SKIP_RULES).map(skipped_rules).unwrap_or_default(),
            conditions: pod.conditions.true_ones().map(ToOwned::to_owned).collect(),
            absence: Absence::default(),
        }
    }
}

/// Names of rules in upstream's skip annotation, JSON `{"skipRules": ["a", …]}`; none if it is not of that form.
#[must_use]
pub fn skipped_rules(annotation: &str) -> BTreeSet<String> {
    parse_skipped_rules(annotation).unwrap_or_default()
}

/// The same.
///
/// # Errors
/// If it is not of that form.
pub fn parse_skipped_rules(annotation: &str) -> serde_json::Result<BTreeSet<String>> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Skip {
        skip_rules: BTreeSet<String>,
    }
    serde_json::from_str::<Skip>(annotation).map(|skip| skip.skip_rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    /// A pod with one container, whose InService condition was last written at 10 o'clock.
    fn returned_at(annotations: &serde_json::Value, started: &str) -> Option<String> {
        let pod = json!({
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "web", "image": "web:v2"}]},
            "status": {
                "conditions": [{"type": "hitless.dev/InService", "status": "True", "lastTransitionTime": "2026-01-01T10:00:00Z"}],
                "containerStatuses": [{"name": "web", "image": "web:v2", "imageID": "", "ready": true, "restartCount": 0,
                    "containerID": "containerd://1", "state": {"running": {"startedAt": started}}}]
            }
        });
        let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
        PodFacts::of(&pod, None).returned_at.map(|at| at.to_string())
    }

    #[test]
    fn an_operated_pod_is_back_when_it_is_in_service_and_its_containers_run_in_either_mode() {
        let operated = json!({"hitless.dev/revision": "abc"});
        let left = returned_at(&operated, "2026-01-01T09:59:58Z");
        assert_eq!(left.as_deref(), Some("2026-01-01T10:00:00Z"));
        let held = returned_at(&operated, "2026-01-01T11:00:00Z");
        assert_eq!(held.as_deref(), Some("2026-01-01T11:00:00Z"));
        assert_eq!(returned_at(&json!({}), "2026-01-01T11:00:00Z"), None, "it was never operated");
    }
}
