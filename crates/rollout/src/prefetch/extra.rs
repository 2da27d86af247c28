//! Labels and annotations that prefetch pods have besides ours, because admission of others asks for them on every pod. An
//! administrator names them; where a label would have the pod counted or found as one of somebody's, it is left out.

use std::collections::BTreeMap;
use std::str::FromStr;

use hitless_api::pod::PodView;
use hitless_api::{ObjectRef, label};
use hitless_workloads::{By, Object, Selection, Template};
use serde_json::Value;

use super::Pull;
use super::manifest::own_labels;
use crate::snapshot::Snapshot;

/// Labels and annotations that a prefetch pod has besides ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extra {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What an administrator wants them to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Labels; `None` as value: that of the workload's template.
    pub labels: Labels,
    /// Annotations, in the same way.
    pub annotations: Annotations,
}

impl Settings {
    /// Variable with the [`Labels`].
    pub const LABELS: &str = "HITLESS_PREFETCH_LABELS";
    /// Variable with the [`Annotations`].
    pub const ANNOTATIONS: &str = "HITLESS_PREFETCH_ANNOTATIONS";
}

/// Labels as text: `cost-center=42,team`, separated by commas. A name alone: the value that the workload's template has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, Option<String>>);

/// Annotations as text, like [`Labels`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(BTreeMap<String, Option<String>>);

/// Labels that we set ourselves, or by which Kubernetes' or our controllers know pods.
const TAKEN: [&str; 6] = [
    "sidecar.istio.io/inject",
    "app.kubernetes.io/managed-by",
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "controller-uid",
];
/// Domains whose labels Kubernetes and hitless set on pods or read from them, but for `app.kubernetes.io`.
const OF_OTHERS: [&str; 4] = ["kubernetes.io", "k8s.io", "hitless.dev", "kusionstack.io"];
const FREE: &str = "app.kubernetes.io";
/// Annotations that we set ourselves.
const TAKEN_NOTES: [&str; 2] = ["linkerd.io/inject", "cluster-autoscaler.kubernetes.io/safe-to-evict"];

/// By one of these the ReplicaSets of Deployments, and of Argo's Rollouts, select.
const HASHES: [&str; 2] = ["pod-template-hash", "rollouts-pod-template-hash"];
/// Group of OpenKruise's workloads.
const KRUISE: &str = "apps.kruise.io";

fn is_of(domain: &str, known: &[&str]) -> bool {
    known.iter().any(|known| domain.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn entries(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let all = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    all.map(|entry| entry.split_once('=').map_or((entry, None), |(key, value)| (key.trim(), Some(value.trim()))))
}

fn named(key: &str) -> Result<(), String> {
    if label::is_key(key) { Ok(()) } else { Err(format!("{key:?} can't be the name of a label or an annotation")) }
}

impl FromStr for Labels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for (key, value) in entries(text) {
            named(key)?;
            let domain = key.split_once('/').map_or("", |(domain, _)| domain);
            if TAKEN.contains(&key) || (domain != FREE && is_of(domain, &OF_OTHERS)) {
                return Err(format!("label {key} is set or read by Kubernetes or hitless itself; take it out"));
            }
            if value.is_some_and(|value| !label::is_value(value)) {
                return Err(format!("label {key} can't have the value {:?}", value.unwrap_or_default()));
            }
            all.insert(key.to_owned(), value.map(ToOwned::to_owned));
        }
        Ok(Self(all))
    }
}

impl FromStr for Annotations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for (key, value) in entries(text) {
            named(key)?;
            let domain = key.split_once('/').map_or("", |(domain, _)| domain);
            if TAKEN_NOTES.contains(&key) || is_of(domain, &["hitless.dev", "kusionstack.io"]) {
                return Err(format!("annotation {key} is set or read by hitless itself; take it out"));
            }
            all.insert(key.to_owned(), value.map(ToOwned::to_owned));
        }
        Ok(Self(all))
    }
}

/// What a prefetch pod gets, and what it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// What it gets.
    pub extra: Extra,
    /// Labels that it does not get, each with who would select it by them, such as `Service web`.
    pub left_out: Vec<(String, String)>,
}

impl Chosen {
    /// What is left out and why, for people; `None`: nothing is.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let one = |(key, who): &(String, String)| format!("{key}, by which {who} would select them");
        let all: Vec<String> = self.left_out.iter().map(one).collect();
        (!all.is_empty()).then(|| {
            format!(
                "pods that fetch images for it do not get these labels of {}: {}. Where admission refuses such pods then, let it pass pods with \
                 the label hitless.dev/prefetch, or select by another label",
                Settings::LABELS,
                all.join("; ")
            )
        })
    }
}

/// What the prefetch pod of this pull gets for a workload with this template.
#[must_use]
pub fn choose(snapshot: &Snapshot, pull: &Pull, template: Option<&Template>) -> Chosen {
    let Settings { labels: Labels(labels), annotations: Annotations(annotations) } = &*snapshot.prefetch_settings;
    if labels.is_empty() && annotations.is_empty() {
        return Chosen::default();
    }
    let of_template = |field: &str, key: &str| {
        let value = &template?.content()["metadata"][field][key];
        value.as_str().map(ToOwned::to_owned)
    };
    let given = |all: &BTreeMap<String, Option<String>>, field: &str| -> BTreeMap<String, String> {
        let value = |key: &String, value: &Option<String>| value.clone().or_else(|| of_template(field, key));
        all.iter().filter_map(|(key, fixed)| Some((key.clone(), value(key, fixed)?))).collect()
    };
    let mut chosen = Chosen {
        extra: Extra { labels: given(labels, "labels"), annotations: given(annotations, "annotations") },
        left_out: Vec::new(),
    };
    leave_out(&mut chosen, snapshot, pull);
    chosen
}

/// Takes the labels away by which somebody would select the pod that does not select it without them.
fn leave_out(chosen: &mut Chosen, snapshot: &Snapshot, pull: &Pull) {
    let own = own_labels(pull);
    let is_here = |namespace: Option<&str>| namespace.is_none_or(|name| name == pull.namespace);
    if chosen.extra.labels.is_empty() {
        return;
    }
    let all = snapshot.selections().filter(|(namespace, _)| is_here(*namespace)).map(|(_, each)| each);
    let objects = snapshot.objects.iter().filter(|object| object.id.namespace == pull.namespace);
    let all = all.chain(objects.filter_map(|object| taking_on(object)));
    let known: Vec<Selection<'_>> = all.filter(|each| !each.selects(&own)).collect();
    for (pod, taker) in snapshot.pods.iter().filter_map(|pod| Some((pod, unknown_taker(pod)?))) {
        let is_shared = |key: &String, value: &mut String| pod.labels.get(key) == Some(&*value);
        if pod.id.namespace == pull.namespace {
            let shared = chosen.extra.labels.extract_if(.., is_shared);
            chosen.left_out.extend(shared.map(|(key, _)| (key, format!("{} {}", taker.group_kind.kind, taker.name))));
        }
    }
    loop {
        let mut all = chosen.extra.labels.clone();
        all.extend(own.clone());
        let Some(found) = known.iter().find(|each| each.selects(&all)) else { return };
        let keys = found.keys();
        let taken: Vec<String> =
            chosen.extra.labels.keys().filter(|key| keys.contains(key.as_str())).cloned().collect();
        if taken.is_empty() {
            // It selects the pod by something else: all that is more goes.
            chosen.extra.labels.clear();
            return;
        }
        for key in taken {
            chosen.extra.labels.remove(&key);
            chosen.left_out.push((key, format!("{} {}", found.kind, found.name)));
        }
    }
}

/// The selector by which a native controller takes on pods that have none. Deployments have ReplicaSets for that, which select by
/// `pod-template-hash`; StatefulSets take on only pods of their own names.
fn taking_on(object: &Object) -> Option<Selection<'_>> {
    let by = match (object.daemon_set(), object.colla_set()) {
        (Some(set), _) => &set.body.selector,
        (None, Some(set)) => &set.body.label_selector,
        (None, None) => return None,
    };
    let is_empty = by.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && by.match_expressions.as_ref().is_none_or(Vec::is_empty);
    let kind = if object.daemon_set().is_some() { "DaemonSet" } else { "CollaSet" };
    (!is_empty).then(|| Selection { kind, name: &object.id.name, by: By::Selector(by) })
}

/// Whose pod it is, if that takes on pods by a selector that is not known: of its pods' labels that consists.
fn unknown_taker(pod: &PodView) -> Option<&ObjectRef> {
    let owner = pod.owner.as_deref()?;
    let has_hash = HASHES.iter().any(|hash| pod.labels.contains_key(*hash));
    let kind = &owner.group_kind;
    let takes =
        kind.is("", "ReplicationController") || kind.group == KRUISE || (kind.is("apps", "ReplicaSet") && !has_hash);
    takes.then_some(owner)
}

impl Extra {
    /// Adds them to what the pod has; that has precedence.
    pub(super) fn add_to(&self, metadata: &mut Value) {
        for (field, all) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            let Some(known) = metadata[field].as_object_mut() else { continue };
            for (key, value) in all {
                known.entry(key.clone()).or_insert_with(|| value.as_str().into());
            }
        }
    }
}

#[cfg(test)]
mod tests;
