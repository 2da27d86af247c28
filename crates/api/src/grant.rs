//! A grant: the controller's permission for one pod to be operated, to exactly one outcome.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    DrainSpec, GroupKind, Hook, MicroTime, MountedConfig, ObjectRef, VerifySpec, Wait, WaitPoint, digest, names,
};

/// Identity of a pod; a name alone never identifies one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PodRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl PodRef {
    /// The same as an object among others.
    #[must_use]
    pub fn object(&self) -> ObjectRef {
        let Self { namespace, name, uid } = self.clone();
        ObjectRef { group_kind: GroupKind::POD, namespace, name, uid }
    }
}

/// What is done to the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrantOp {
    /// New images.
    Update,
    /// The same images under another equal name, so that the kubelet restarts the containers.
    Restart,
    /// Labels and annotations only: nothing is replaced, and the pod stays in service.
    Relabel,
    /// Nothing but to leave service, for good: it is deleted then.
    Drain,
    /// The pod leaves service, others operate it as its labels say ([`crate::lifecycle`]), and it returns when all have finished.
    Foreign,
    /// A value this build does not know: parsed, and refused by name.
    #[serde(untagged)]
    Unknown(String),
}

impl GrantOp {
    /// What an agent's features must contain to be asked to [`Self::Drain`].
    pub const DRAIN_FEATURE: &str = "drain";
    /// What an agent's features must contain to be asked for [`Self::Foreign`].
    pub const FOREIGN_FEATURE: &str = "foreign";
    /// What an agent's features must contain to be asked to [`Self::Relabel`].
    pub const RELABEL_FEATURE: &str = "relabel";
}

/// How the pod is kept from losing requests meanwhile; decided by the controller, never by the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrantMode {
    /// The pod leaves service, its connections are drained, it returns.
    Leave,
    /// New connections are parked while the container is replaced.
    Hold,
    /// The pod stays in service and nothing is parked, because nothing is replaced.
    Stay,
    /// A value this build does not know: parsed, and refused by name.
    #[serde(untagged)]
    Unknown(String),
}

impl GrantMode {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Leave => "Leave",
            Self::Hold => "Hold",
            Self::Stay => "Stay",
            Self::Unknown(word) => word,
        }
    }

    /// Whether the pod serves all the time, as far as is known.
    #[must_use]
    pub const fn stays_in_service(&self) -> bool {
        match self {
            Self::Hold | Self::Stay => true,
            Self::Leave | Self::Unknown(_) => false,
        }
    }
}

/// A change of one value, exact in both directions; `None` stands for "absent".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The value before; the patch tests it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A change of one container's image reference, exact in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageChange {
    /// Image reference in the pod's spec before.
    pub from: String,
    /// Image reference in the pod's spec after.
    pub to: String,
}

/// A request to end a grant early: honoured until the container is operated; rolls back after, where it [undoes](Self::undoes).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancel {
    /// Why, in CamelCase.
    pub reason: String,
    /// Since when.
    pub since: MicroTime,
}

impl Cancel {
    /// Reason: the pod has left because others served, and nobody else serves any more. It is to come back as it is; once its
    /// containers are replaced that brings it back soonest, so then it is not undone.
    pub const LAST_ENDPOINT: &str = "LastEndpoint";
    /// Feature of agents that do not undo for that reason.
    pub const LAST_ENDPOINT_FEATURE: &str = "lastEndpoint";
    /// Reason: somebody has deleted the pod's reservation, and admission refuses its patch. The pod is granted anew. Once its
    /// containers are replaced it needs no reservation to return, and could not be patched back without one.
    pub const NO_RESERVATION: &str = "NoReservation";

    /// Whether an operation that has been carried out is undone.
    #[must_use]
    pub fn undoes(&self) -> bool {
        ![Self::LAST_ENDPOINT, Self::NO_RESERVATION].contains(&self.reason.as_str())
    }
}

/// Whether rules of stage PostCheck let an operated and verified pod return to service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PostCheck {
    /// Not yet: the agent waits in phase [`crate::Phase::Checking`], at most `verify.progressSeconds`, then rolls back.
    Pending,
    /// Yes.
    Passed,
}

/// Permission for one pod. Written by the controller only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent word on the wire")]
pub struct Grant {
    /// `<pod uid>.<hash of the operation>`, see [`Grant::id_for`]; also the id of the ledger's reservation.
    pub id: String,
    /// Epoch of the leader that granted it (`leaseTransitions` of the Lease).
    pub epoch: i64,
    /// The pod.
    pub pod: PodRef,
    /// The topmost workload that the pod belongs to; a pod may belong to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef>,
    /// What is done.
    #[schemars(with = "String")]
    pub op: GrantOp,
    /// How requests are kept safe meanwhile.
    #[schemars(with = "String")]
    pub mode: GrantMode,
    /// Why this mode, in CamelCase and words; for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub mode_reason: String,
    /// The pod is held because nothing tells of anybody whom the containers serve, and another container stays: they are replaced
    /// without a drain. The agent looks first, and refuses (`ContainerServes`) where it can't be certain (docs/contract.md#containers-that-serve-nobody).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unless_serving: bool,
    /// The pod need not be held: where requests are still in flight when clients have been held for as long as those may take, the agent
    /// refuses (`StillInFlight`) and the controller grants anew, another way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unless_in_flight: bool,
    /// An image is not on the node and was not fetched there: the kubelet pulls it while the containers are down. How long they are away
    /// says nothing of the server then, and is not reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfetched: bool,
    /// Image changes by container name.
    #[schemars(extend("maxProperties" = 32))]
    pub containers: BTreeMap<String, ImageChange>,
    /// Label changes that go into the same patch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub labels: BTreeMap<String, Change>,
    /// Annotation changes that go into the same patch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub annotations: BTreeMap<String, Change>,
    /// containerID by container name when the grant was made: what must have changed in the end.
    pub before: BTreeMap<String, String>,
    /// How the pod is drained.
    pub drain: DrainSpec,
    /// How the result is judged.
    pub verify: VerifySpec,
    /// What the pod is told or asked meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub hooks: Vec<Hook>,
    /// What the pod's volumes have to contain before it leaves service or is held; absent: nothing is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Box<MountedConfig>>,
    /// Names of the rules that allowed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// When it was granted.
    pub granted: MicroTime,
    /// The agent refuses to begin it later than this many seconds (and 30 more for skewed clocks) after `granted`.
    pub ttl_seconds: u32,
    /// Granted only because the pod is unavailable anyway, so that operating it takes nothing from a budget: the agent refuses
    /// (`PodAvailable`) to begin if the pod has become Ready meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_unavailable: bool,
    /// Present where a rule of stage PostCheck concerns the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_check: Option<PostCheck>,
    /// What is waited for outside of the pod. None in a Hold. [`Self::post_check`] is the same for rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "before"]))]
    pub waits: Vec<Wait>,
    /// The clock by which the new version is judged stands since then: pods of the version before have become not Ready meanwhile, too
    /// (docs/contract.md#bad-version). When it goes on, `verify.progressSeconds` is longer by the time that it stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<MicroTime>,
    /// Present when the controller wants it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancel>,
}

impl Grant {
    /// Most characters in [`Grant::mode_reason`] (its schema).
    pub const LONGEST_MODE_REASON: usize = 512;
    /// Default of [`Grant::ttl_seconds`].
    pub const DEFAULT_TTL_SECONDS: u32 = 60;
    /// What an agent's features must contain to be given a grant with [`Grant::unless_serving`].
    pub const UNLESS_SERVING_FEATURE: &str = "unlessServing";
    /// What an agent's features must contain to be given a grant with the annotation [`crate::names::annotations::DECORATIONS`].
    pub const DECORATIONS_FEATURE: &str = "decorations";
    /// What an agent's features must contain to be given a grant with annotations of a template.
    pub const ANNOTATIONS_FEATURE: &str = "templateAnnotations";
    /// Allowance for clocks that disagree, in seconds (docs/contract.md#grant-expiry).
    pub const CLOCK_SKEW_SECONDS: u32 = 30;

    /// The id of an operation: the pod's uid and the [`Self::digest`] of what the operation writes to the pod, so that the same
    /// operation always has the same id and another one another id.
    #[must_use]
    pub fn id_for(pod_uid: &str, digest: &str) -> String {
        format!("{pod_uid}.{digest}")
    }

    /// uid of the pod that an id made by [`Self::id_for`] is about; nothing of another text.
    #[must_use]
    pub fn pod_uid_of(id: &str) -> Option<&str> {
        id.rsplit_once('.').map(|(uid, _)| uid)
    }

    /// Message of the InService condition that its agent has raised on behalf of this grant. The time tells a grant from an earlier one
    /// of the same operation, which has the same id.
    #[must_use]
    pub fn returned_mark(&self) -> String {
        Self::mark_of_return(&self.id, &self.granted)
    }

    /// The same, of an operation with this id that was granted then.
    #[must_use]
    pub fn mark_of_return(id: &str, granted: &MicroTime) -> String {
        format!("{id}@{}", granted.0)
    }

    /// Whether hitless itself knows pods by this annotation, so that its value is tested before it is changed. All others in
    /// [`Grant::annotations`] are of a template: nobody here reads them, and views of pods do not have them.
    #[must_use]
    pub fn is_own_annotation(key: &str) -> bool {
        key.starts_with(names::PREFIX) || key == names::annotations::DECORATIONS
    }

    /// Its waits before that point that are not over.
    pub fn pending_waits(&self, before: WaitPoint) -> impl Iterator<Item = &Wait> {
        self.waits.iter().filter(move |wait| wait.before == before && wait.is_pending())
    }

    /// Of everything that an operation writes to its pod.
    #[must_use]
    pub fn digest(
        op: &GrantOp,
        containers: &BTreeMap<String, ImageChange>,
        annotations: &BTreeMap<String, Change>,
        labels: &BTreeMap<String, Change>,
    ) -> String {
        digest::short(
            &serde_json::json!({"op": op, "containers": containers, "annotations": annotations, "labels": labels}),
        )
    }
}
