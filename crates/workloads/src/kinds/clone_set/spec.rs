//! A CloneSet as a set of pods.

use hitless_api::pod::PodView;

use super::difference::{Counted, Difference, Wanted, difference};
use super::hooks::State;
use super::rules::is_named;
use super::{CLONE_SET, CloneSet, names};
use crate::pod_set::pods::{is_at, stays};
use crate::pod_set::policy::{KeepsClaims, Scope};
use crate::pod_set::{Delays, Ids, Limits, Names, PodNames, Reasons, Spec};

/// Pods that are made at once at most.
const BURST: usize = 500;

static NAMES: Names = Names {
    resource: const { &CLONE_SET },
    instance_id: names::INSTANCE_ID,
    id_text: names::id_text,
    read_id: names::read_id,
    pod: PodNames::OfId(names::pod),
    is_host_name: false,
    claim: names::claim,
    claim_labels: &[],
    claim_template: names::CLAIM_TEMPLATE,
    claim_hash: names::CLAIM_HASH,
    orphaned: names::ORPHANED,
    reasons: Reasons {
        made: "SuccessfulCreate",
        made_to_replace: "SuccessfulCreate",
        deleted: ["SuccessfulDelete", "SuccessfulDelete"],
        claims_deleted: "SuccessfulDelete",
    },
};

/// What its owner wants, whatever pods there are.
pub(super) fn without_pods(set: CloneSet<'_>) -> Spec<'_> {
    let body = set.body;
    Spec {
        object: set.object,
        replicas: body.replicas,
        template: &body.template,
        claims: &body.claims,
        has_claims_in_revisions: false,
        selector: &body.label_selector,
        policy: body.policy,
        has_metadata_in_place: true,
        scope: Scope::Partition(body.partition),
        paused: body.paused || body.on_delete,
        limits: Limits { surge: 0, anew: body.max_unavailable, burst: BURST },
        delays: Delays { update: body.grace_seconds, removal: 0 },
        keeps_claims: KeepsClaims::default(),
        ids: if body.reuses_claims && !body.claims.is_empty() { Ids::StayWithClaims } else { Ids::GoWithPods },
        history_limit: body.history_limit,
        current: &body.status.current_revision,
        names: &NAMES,
    }
}

/// The same with the pods that are there: how many more of them an update needs, and how many may be made at once.
///
/// An update's extra pods are wanted like all others while there are some. They are of the update revision and count among the ones that are to
/// have it, so as many more keep their version.
pub(super) fn with_pods<'a>(set: CloneSet<'a>, found: &Difference, pods: &[&PodView]) -> Spec<'a> {
    let body = set.body;
    let spec = without_pods(set);
    let there = pods.iter().filter(|pod| stays(pod)).count();
    let beyond = there.saturating_sub(body.replicas);
    // One that its owner has named is replaced before its hook is over, where that is wanted.
    let is_excluded = |pod: &&&PodView| stays(pod) && is_named(set, pod) && State::of(pod) == State::PreparingDelete;
    let excluded = if body.excludes_preparing_delete { pods.iter().filter(is_excluded).count() } else { 0 };
    let burst = if body.scale_max_unavailable.is_some() && found.to_make > 0 { found.to_make_now } else { BURST };
    Spec {
        replicas: body.replicas + found.surge + excluded,
        scope: Scope::Partition(body.partition + found.surge + excluded),
        limits: Limits { anew: body.max_unavailable + beyond, burst: burst.min(BURST), ..spec.limits },
        ..spec
    }
}

/// What is missing and what is too much, as upstream counts. `target`: name of the update revision.
pub(super) fn found(
    set: CloneSet<'_>,
    target: &str,
    pods: &[&PodView],
    is_available: &dyn Fn(&PodView) -> bool,
) -> Difference {
    let body = set.body;
    let counted = pods.iter().filter(|pod| stays(pod)).map(|pod| Counted {
        is_new: is_at(pod, target),
        is_available: is_available(pod),
        is_to_delete: is_named(set, pod),
        is_preparing_delete: State::of(pod) == State::PreparingDelete,
    });
    let wanted = Wanted {
        replicas: body.replicas,
        partition: body.partition,
        max_surge: body.max_surge,
        max_unavailable: body.max_unavailable,
        scale_max_unavailable: body.scale_max_unavailable,
        excludes_preparing_delete: body.excludes_preparing_delete,
        goes_back: false,
    };
    difference(&wanted, &counted.collect::<Vec<_>>())
}
