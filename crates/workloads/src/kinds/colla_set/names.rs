//! Labels, keys, the finalizer and the switch of KusionStack's (upstream v0.7.4; docs/contract.md#collaset).

pub(crate) use hitless_api::lifecycle::{CONTROL, TO_DELETE};
pub(crate) use hitless_api::names::COLLA_SET_FINALIZER as FINALIZER;

use crate::component::Switch;

/// API group of KusionStack's workloads.
pub(crate) const GROUP: &str = "apps.kusionstack.io";
/// CollaSets, and what is nothing without them, are on and off together.
pub(crate) const SWITCH: Switch = Switch::of("CollaSet");

/// On a pod or claim: its instance id.
pub(crate) const INSTANCE_ID: &str = "collaset.kusionstack.io/instance-id";
/// On a pod: it is updated where the CollaSet goes by label.
pub(crate) const UPDATE_INCLUDED: &str = "collaset.kusionstack.io/update-included";
/// On a pod: another one is made, and this one leaves once that serves. Taken off again, the replacement is cancelled.
pub(crate) const TO_REPLACE: &str = "collaset.kusionstack.io/to-replace";
/// On a pod that is replaced because of an update: the revision that replaces it.
pub(crate) const REPLACED_BY: &str = "collaset.kusionstack.io/replaced-by-replace-update";
/// On the new pod of a pair: name of the one that it replaces.
pub(crate) const PAIR_ORIGIN: &str = "collaset.kusionstack.io/replace-pair-origin-name";
/// On the old pod of a pair: instance id of the new one.
pub(crate) const PAIR_NEW: &str = "collaset.kusionstack.io/replace-pair-new-id";
/// On a pod: the CollaSet lets it go.
pub(crate) const TO_EXCLUDE: &str = "collaset.kusionstack.io/to-exclude";
/// On a pod or claim that a CollaSet has let go, value `true`.
pub(crate) const ORPHANED: &str = "collaset.kusionstack.io/orphaned";
/// On a claim: name of its template.
pub(crate) const CLAIM_TEMPLATE: &str = "collaset.kusionstack.io/pvc-template-name";
/// On a claim: hash of its template.
pub(crate) const CLAIM_HASH: &str = "collaset.kusionstack.io/pvc-template-hash";

/// In a ResourceContext: name of the CollaSet that has the id.
pub(crate) const OWNER: &str = "Owner";
/// In a ResourceContext: name of the ControllerRevision that its pod is made from.
pub(crate) const REVISION: &str = "Revision";
/// In a ResourceContext: its pod was never made.
pub(crate) const JUST_CREATE: &str = "PodJustCreate";
/// In a ResourceContext: its pod is removed and made anew at another revision.
pub(crate) const RECREATE: &str = "PodRecreateUpdate";
/// In a ResourceContext: its pod is removed, and the id becomes free.
pub(crate) const SCALE_IN: &str = "ScaleIn";
/// In a ResourceContext: id of the pod that replaces this one.
pub(crate) const REPLACE_NEW: &str = "ReplaceNewPodID";
/// In a ResourceContext: id of the pod that this one replaces.
pub(crate) const REPLACE_ORIGIN: &str = "ReplaceOriginPodID";
/// In a ResourceContext, ours: name of the pod that stands for the id. Nobody makes a pod that is not named here, and a name
/// is used once at a time: so there is never a pod too many.
pub(crate) const POD: &str = "hitless.dev/pod";
