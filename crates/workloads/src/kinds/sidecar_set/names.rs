//! Labels and annotations of OpenKruise's SidecarSets (upstream v1.9; docs/contract.md#sidecarset), and what they say.

use hitless_api::pod::PodView;

/// On a SidecarSet, value `true`: it comes in the place of another one.
pub(super) const CANARY: &str = "apps.kruise.io/sidecarset-canary";
/// On a canary: name of that one.
pub(super) const BASE: &str = "apps.kruise.io/sidecarset-base";
/// On a SidecarSet of v1alpha1: what v1beta1 says by `spec.customVersion`.
pub(super) const OLD_CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
/// On a pod, ours, written by admission: which SidecarSets it has, in which version: `<name>=<hash>`, with commas between them.
pub(crate) const SIDECAR_SETS: &str = "hitless.dev/sidecarsets";
/// On a pod, upstream's, written by admission: names of its SidecarSets.
pub(super) const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
/// On a pod, upstream's, written by admission: JSON, which version of each SidecarSet it has.
pub(super) const HASH: &str = "kruise.io/sidecarset-hash";
/// The same without images.
pub(super) const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
/// An environment variable of each container that was injected.
pub(super) const IS_INJECTED: &str = "IS_INJECTED";
/// Type of the condition that says whether new pods get what the SidecarSet says now.
pub(super) const INJECTED: &str = "Injected";
/// Type of the condition that says whether the pods that are there have got what the SidecarSet says now.
pub(super) const UPDATED: &str = "Updated";

/// Names of the SidecarSets of which the pod has containers, and which version of them.
pub(crate) fn of_pod(pod: &PodView) -> impl Iterator<Item = (&str, &str)> {
    let all = pod.annotations.get(SIDECAR_SETS).map_or("", String::as_str);
    all.split(',').filter_map(|each| each.split_once('='))
}

/// A version, and that without images: pods of which only the first differs are updated in place.
pub(super) fn versions(hash: &str) -> (&str, &str) {
    hash.split_once('.').unwrap_or((hash, ""))
}
