//! KusionStack's PodOpsLifecycle: a protocol in a pod's labels between operators and whoever keeps pods from losing requests.
//!
//! Keys, their values and their order are upstream's (kuperator v0.7.4). Values are Unix nanoseconds as decimal strings, but
//! where a value is the type of an operation. docs/contract.md#podopslifecycle says who writes what.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

use crate::names::labels::COMPANION;

/// On pods and Services, value `true`: they take part.
pub const CONTROL: &str = "kusionstack.io/control";
/// On a pod: it is to leave and to be deleted.
pub const TO_DELETE: &str = "collaset.kusionstack.io/to-delete";
/// Readiness gate and condition: False while an operation is prepared or under way.
pub const SERVICE_READY: &str = "pod.kusionstack.io/service-ready";
/// Message of that condition.
pub const SERVICE_READY_MESSAGE: &str = "updated by PodOpsLifecycle";
/// Annotation: JSON of the finalizers that must be there before a pod counts as back.
pub const AVAILABLE_CONDITIONS: &str = "pod.kusionstack.io/available-conditions";
/// Beginning of finalizers that keep an operation from being begun: somebody still sends the pod requests.
pub const PROTECTION: &str = "prot.podopslifecycle.kusionstack.io";
/// Id of the operations of ours that a protected pod leaves service for.
pub const OWN_ID: &str = "hitless";
/// Label: the pod serves, since then.
pub const SERVICE_AVAILABLE: &str = "podopslifecycle.kusionstack.io/service-available";
/// Label: the operation that comes deletes the pod.
pub const PREPARING_TO_DELETE: &str = "podopslifecycle.kusionstack.io/preparing-to-delete";
/// Label: the pod does not count as serving, as somebody wants.
pub const STAY_OFFLINE: &str = "podopslifecycle.kusionstack.io/stay-offline";
/// Labels that a CollaSet of upstream's puts on pods that it has just made; they go when the pod serves.
pub const NEW: [&str; 2] = ["podopslifecycle.kusionstack.io/creating", "podopslifecycle.kusionstack.io/completing"];
/// Id of the operation that deletes a pod.
pub const DELETE_ID: &str = "pod-delete";
/// Its type.
pub const DELETE_TYPE: &str = "delete";

const SUFFIX: &str = ".podopslifecycle.kusionstack.io/";

/// The labels of one operation: `<word>.podopslifecycle.kusionstack.io/<id>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The operator has begun and not finished.
    Operating,
    /// What it does; the value is a type.
    OperationType,
    /// The rules are asked.
    PreCheck,
    /// They have agreed.
    PreChecked,
    /// The pod leaves service.
    Preparing,
    /// The operator may operate, since then.
    Operate,
    /// It has finished.
    Operated,
    /// What it has done; the value is a type.
    DoneOperationType,
    /// The rules are asked whether the pod may return.
    PostCheck,
    /// They have agreed.
    PostChecked,
    /// The pod returns.
    Completing,
    /// The operator takes it back; the value is a type.
    UndoOperationType,
}

impl Step {
    /// All of them, in the order of an operation.
    pub const ALL: [Self; 12] = [
        Self::Operating,
        Self::OperationType,
        Self::PreCheck,
        Self::PreChecked,
        Self::Preparing,
        Self::Operate,
        Self::Operated,
        Self::DoneOperationType,
        Self::PostCheck,
        Self::PostChecked,
        Self::Completing,
        Self::UndoOperationType,
    ];

    /// The word in the key.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Operating => "operating",
            Self::OperationType => "operation-type",
            Self::PreCheck => "pre-check",
            Self::PreChecked => "pre-checked",
            Self::Preparing => "preparing",
            Self::Operate => "operate",
            Self::Operated => "operated",
            Self::DoneOperationType => "done-operation-type",
            Self::PostCheck => "post-check",
            Self::PostChecked => "post-checked",
            Self::Completing => "completing",
            Self::UndoOperationType => "undo-operation-type",
        }
    }

    /// The label's key for the operation with this id.
    #[must_use]
    pub fn key(self, id: &str) -> String {
        format!("{}{SUFFIX}{id}", self.word())
    }

    /// The step and the id that a label's key names.
    #[must_use]
    pub fn of(key: &str) -> Option<(Self, &str)> {
        let (word, id) = key.split_once(SUFFIX)?;
        Self::ALL.into_iter().find(|step| step.word() == word).map(|step| (step, id))
    }
}

/// The label by which operations of this type are permitted.
#[must_use]
pub fn permission(kind: &str) -> String {
    format!("operation-permission{SUFFIX}{kind}")
}

/// The type that a label's key permits.
#[must_use]
pub fn permitted(key: &str) -> Option<&str> {
    key.strip_prefix("operation-permission")?.strip_prefix(SUFFIX)
}

/// Ids of all operations of which the labels say anything.
#[must_use]
pub fn ids(labels: &BTreeMap<String, String>) -> BTreeSet<&str> {
    labels.keys().filter_map(|key| Step::of(key)).map(|(_, id)| id).collect()
}

/// Ids with this step.
pub fn at(labels: &BTreeMap<String, String>, step: Step) -> impl Iterator<Item = &str> {
    labels.keys().filter_map(move |key| Step::of(key).filter(|(other, _)| *other == step).map(|(_, id)| id))
}

/// Whether some operator has begun and has neither finished nor taken it back.
#[must_use]
pub fn is_operating(labels: &BTreeMap<String, String>) -> bool {
    at(labels, Step::Operating).any(|id| !labels.contains_key(&Step::UndoOperationType.key(id)))
}

/// What of a pod that takes part is not in its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecycleView {
    /// [`SERVICE_READY`] is one of its readiness gates.
    pub gated: bool,
    /// Index of that condition in its status.
    pub condition: Option<usize>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The finalizers that must be there before it counts as back, with who is to add them, as `<kind>/<namespace>/<name>`.
    /// `None`: the annotation can't be understood.
    pub expected: Option<Vec<(String, String)>>,
}

impl LifecycleView {
    /// Of a pod with the label [`CONTROL`]. Companion pods have the labels of their workload's pods and are nobody's to operate.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Box<Self>> {
        let meta = &pod.metadata;
        let labels = meta.labels.as_ref()?;
        if labels.get(CONTROL)? != "true" || labels.contains_key(COMPANION) {
            return None;
        }
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
        let annotation = meta.annotations.as_ref().and_then(|all| all.get(AVAILABLE_CONDITIONS));
        Some(Box::new(Self {
            gated: gates.is_some_and(|gates| gates.iter().any(|gate| gate.condition_type == SERVICE_READY)),
            condition: conditions.and_then(|all| all.iter().position(|each| each.type_ == SERVICE_READY)),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            expected: expected(annotation.map(String::as_str)),
        }))
    }

    /// Whether somebody still sends the pod requests.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.protections().next().is_some()
    }

    /// The finalizers that say so.
    pub fn protections(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().map(String::as_str).filter(|finalizer| finalizer.starts_with(PROTECTION))
    }

    /// Who has not added the finalizer that is expected; `None`: nobody knows, because the annotation can't be understood.
    #[must_use]
    pub fn missing(&self) -> Option<impl Iterator<Item = &str>> {
        let expected = self.expected.as_ref()?.iter();
        Some(expected.filter(|(_, finalizer)| !self.finalizers.contains(finalizer)).map(|(by, _)| by.as_str()))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AvailableConditions {
    #[serde(default)]
    expected_finalizers: BTreeMap<String, String>,
}

fn expected(annotation: Option<&str>) -> Option<Vec<(String, String)>> {
    let Some(text) = annotation else { return Some(Vec::new()) };
    let conditions: AvailableConditions = serde_json::from_str(text).ok()?;
    Some(conditions.expected_finalizers.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_upstreams_and_are_read_back() {
        assert_eq!(Step::PreChecked.key("collaset"), "pre-checked.podopslifecycle.kusionstack.io/collaset");
        for step in Step::ALL {
            assert_eq!(Step::of(&step.key("a.b")), Some((step, "a.b")));
        }
        assert_eq!(permitted(&permission("update")), Some("update"));
        assert_eq!(Step::of(SERVICE_AVAILABLE), None);
        assert_eq!(Step::of(NEW[1]), None, "the plain label completing is no step of an operation");
        assert_eq!(permitted(&Step::OperationType.key("update")), None);
    }

    #[test]
    fn an_operation_that_is_taken_back_operates_no_more() {
        let mut labels = BTreeMap::from([(Step::Operating.key("a"), "1".to_owned())]);
        assert!(is_operating(&labels));
        labels.insert(Step::UndoOperationType.key("a"), "update".to_owned());
        assert!(!is_operating(&labels));
        labels.insert(Step::Operating.key("b"), "1".to_owned());
        assert!(is_operating(&labels));
        assert_eq!(ids(&labels), BTreeSet::from(["a", "b"]));
    }

    #[test]
    fn only_a_pod_with_the_label_takes_part() {
        let view = |metadata: serde_json::Value| {
            let status =
                json!({"conditions": [{"type": "Ready", "status": "True"}, {"type": SERVICE_READY, "status": "True"}]});
            let pod = json!({"metadata": metadata, "status": status,
                "spec": {"containers": [], "readinessGates": [{"conditionType": SERVICE_READY}]}});
            LifecycleView::of(&serde_json::from_value(pod).unwrap())
        };
        assert_eq!(view(json!({})), None);
        assert_eq!(view(json!({"labels": {CONTROL: "false"}})), None);
        let plain = view(json!({"labels": {CONTROL: "true"}})).unwrap();
        assert_eq!((plain.gated, plain.condition, plain.is_protected()), (true, Some(1), false));
        let finalizer = format!("{PROTECTION}/slb");
        let annotation = json!({"expectedFinalizers": {"Service/shop/web": finalizer}}).to_string();
        let waits =
            view(json!({"labels": {CONTROL: "true"}, "annotations": {AVAILABLE_CONDITIONS: annotation}})).unwrap();
        assert_eq!(waits.missing().unwrap().collect::<Vec<_>>(), ["Service/shop/web"]);
        let back = LifecycleView { finalizers: vec![finalizer], ..*waits };
        assert_eq!((back.missing().unwrap().count(), back.is_protected()), (0, true));
        let wrong = view(json!({"labels": {CONTROL: "true"}, "annotations": {AVAILABLE_CONDITIONS: "{"}})).unwrap();
        assert!(wrong.missing().is_none());
    }
}
