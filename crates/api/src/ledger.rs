//! `TransitionLedger`: the truth about budgets, one object per namespace.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MicroTime;

/// Which leader wrote the ledger last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerLeader {
    /// Its epoch (`leaseTransitions` of the Lease).
    #[serde(default)]
    pub epoch: i64,
    /// Its identity.
    #[serde(default)]
    pub holder: String,
}

/// Stands in place of a namespace for the ledger of the whole cluster ([`crate::names::CLUSTER_LEDGER`] in `hitless-system`), in
/// which pods that a cluster-wide budget counts are reserved first.
pub const CLUSTER: &str = "";

/// One pod's place in the budgets, and what its agent may write to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// Id of the grant.
    pub id: String,
    /// Name of the pod; in the ledger of the whole cluster `<namespace>/<name>`.
    pub pod: String,
    /// Name of its node.
    pub node: String,
    /// `<kind>/<name>` of the workload, or empty.
    #[serde(default)]
    pub owner: String,
    /// Names of the rules that allowed it.
    #[serde(default)]
    pub rules: Vec<String>,
    /// When the place was taken.
    pub since: MicroTime,
    /// Images that the agent may set, by container.
    pub images: BTreeMap<String, String>,
    /// Images that the agent may set on the way back, by container.
    #[serde(default)]
    pub from_images: BTreeMap<String, String>,
    /// Taken without room in the budgets, because the pod was unavailable anyway: the grant says so too, and the agent refuses it
    /// once the pod is Ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_unavailable: bool,
    /// Labels that the agent may set. One that only `fromLabels` names it may take away.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Labels that the agent may set on the way back. One that only `labels` names was absent before.
    #[serde(default)]
    pub from_labels: BTreeMap<String, String>,
    /// Annotations of a template that the agent may set. One that only `fromAnnotations` names it may take away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Annotations of a template that the agent may set on the way back. One that only `annotations` names was absent before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub from_annotations: BTreeMap<String, String>,
    /// The pod serves nobody, and the controller deletes it as soon as this is written. No agent is asked, and no grant belongs to
    /// this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removal: bool,
}

/// Reservations of one namespace. Written by the controller only, each write a compare-and-swap on resourceVersion, *before*
/// the grants that it covers. Admission reads it: an agent may set only the images that stand here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "hitless.dev",
    version = "v1alpha1",
    kind = "TransitionLedger",
    plural = "transitionledgers",
    namespaced,
    derive = "PartialEq",
    validation = Rule::new("self.metadata.name in ['ledger', 'cluster']").message("a ledger is named 'ledger': admission looks it up by that name"),
    printcolumn = r#"{"name":"Pods","type":"string","jsonPath":".spec.reservations[*].pod"}"#,
    printcolumn = r#"{"name":"Epoch","type":"integer","jsonPath":".spec.leader.epoch"}"#
)]
pub struct TransitionLedgerSpec {
    /// The last writer.
    #[serde(default)]
    pub leader: LedgerLeader,
    /// Written to make sure that nothing prepared on an older version of this ledger arrives any more; names what it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<String>,
    /// Reservations by pod uid.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 4000))]
    pub reservations: BTreeMap<String, Reservation>,
}

impl TransitionLedgerSpec {
    /// Most reservations in one ledger, about 1 MB.
    pub const MAX_RESERVATIONS: usize = 4000;
}
