//! What a kind gives: one set's numbers, templates and names.

use std::collections::BTreeMap;

use hitless_api::names::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::naming::ClaimFor;
use super::policy::{KeepsClaims, Scope, UpgradePolicy};
use crate::kind::Resource;
use crate::object::Object;
use crate::template::Template;

/// One set, as its owner wants it.
#[derive(Clone, Copy)]
pub(crate) struct Spec<'a> {
    pub(crate) object: &'a Object,
    /// How many pods are wanted.
    pub(crate) replicas: usize,
    pub(crate) template: &'a Template,
    /// Templates of the claims of each pod.
    pub(crate) claims: &'a [Value],
    /// A change of the claim templates makes a revision of its own, and new pods.
    pub(crate) has_claims_in_revisions: bool,
    /// Claims that an earlier set of this selector has left are taken on.
    pub(crate) selector: &'a LabelSelector,
    pub(crate) policy: UpgradePolicy,
    /// Labels are changed in place where nobody finds the pods by them, and annotations that nobody reads only when a pod is made; else
    /// only with new pods.
    pub(crate) has_metadata_in_place: bool,
    pub(crate) scope: Scope,
    /// No pod is updated. It is still scaled.
    pub(crate) paused: bool,
    pub(crate) limits: Limits,
    pub(crate) delays: Delays,
    pub(crate) keeps_claims: KeepsClaims,
    pub(crate) ids: Ids,
    /// How many unused revisions are kept.
    pub(crate) history_limit: usize,
    /// The revision that places outside of the scope have, by its name; empty: none yet.
    pub(crate) current: &'a str,
    pub(crate) names: &'static Names,
}

/// How many at a time.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Pods more than wanted, where pods are replaced.
    pub(crate) surge: usize,
    /// Pods that serve nobody and are made anew. (Of pods that serve, the rules and the budgets decide.)
    pub(crate) anew: usize,
    /// Pods that are made.
    pub(crate) burst: usize,
}

/// Shortest times between leaving service and what follows, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Delays {
    pub(crate) update: u32,
    pub(crate) removal: u32,
}

/// What becomes of an id whose pod goes, and another one is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// The next pod has it.
    Stay,
    /// The next pod has another one. The claims of the id go with it.
    GoWithPods,
    /// The next pod has it and its claims, if somebody else has deleted the pod; else as [`Self::GoWithPods`].
    StayWithClaims,
}

/// Names that a kind uses: the same for all of its sets, but for a choice of few.
pub(crate) struct Names {
    pub(crate) resource: &'static Resource,
    /// On a pod or claim: its instance id.
    pub(crate) instance_id: &'static str,
    /// An id as the value of that label, and back.
    pub(crate) id_text: fn(i32) -> String,
    pub(crate) read_id: fn(&str) -> Option<i32>,
    pub(crate) pod: PodNames,
    /// A pod's host name is its name.
    pub(crate) is_host_name: bool,
    /// Name of a claim.
    pub(crate) claim: fn(&ClaimFor<'_>) -> String,
    /// Labels of each claim beside those of its template and of the selector.
    pub(crate) claim_labels: &'static [(&'static str, &'static str)],
    /// On a claim: name of its template, and the template's hash.
    pub(crate) claim_template: &'static str,
    pub(crate) claim_hash: &'static str,
    /// On a claim that a set has let go, value `true`.
    pub(crate) orphaned: &'static str,
    pub(crate) reasons: Reasons,
}

/// How pods are named.
#[derive(Clone, Copy)]
pub(crate) enum PodNames {
    /// Each id has one name, from the set's name and the id. A new pod waits until the name is free.
    OfId(fn(&str, i32) -> String),
    /// Each pod has a name of its own, from the set's name and uid, the id, and the name before.
    OfPod(fn(&str, &str, i32, &str) -> String),
}

/// Reasons of Events.
pub(crate) struct Reasons {
    /// Pods are made.
    pub(crate) made: &'static str,
    /// A pod is made that replaces another one.
    pub(crate) made_to_replace: &'static str,
    /// One pod is deleted; several are.
    pub(crate) deleted: [&'static str; 2],
    /// Claims are deleted.
    pub(crate) claims_deleted: &'static str,
}

impl Spec<'_> {
    /// An entry of `ownerReferences` of what belongs to the set.
    pub(crate) fn owner(&self) -> Value {
        let (id, resource) = (&self.object.id, self.names.resource);
        json!({"apiVersion": resource.api_version(), "kind": resource.group_kind.kind, "name": id.name, "uid": id.uid,
            "controller": true, "blockOwnerDeletion": true})
    }

    /// Labels of each pod beside those that its kind gives: its revision, and that it was made here.
    pub(crate) fn own_labels(&self, revision: &str) -> BTreeMap<&'static str, String> {
        let kind = self.names.resource.group_kind.kind.to_string();
        [(labels::CONTROLLER_REVISION_HASH, revision.to_owned()), (labels::MADE_FOR, kind)].into()
    }

    /// The instance id that these labels say, if they say one.
    pub(crate) fn id_in(&self, labels: &BTreeMap<String, String>) -> Option<i32> {
        labels.get(self.names.instance_id).and_then(|text| (self.names.read_id)(text))
    }

    /// Namespace of the set and of all that belongs to it.
    pub(crate) fn namespace(&self) -> &str {
        &self.object.id.namespace
    }
}
