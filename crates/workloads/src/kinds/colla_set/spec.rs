//! A CollaSet as a set of pods.

use super::{COLLA_SET, CollaSet, names};
use crate::pod_set::{Delays, Ids, Limits, Names, PodNames, Reasons, Spec, naming};

/// Pods that are made at once at most.
const BURST: usize = 500;

const REASONS: Reasons = Reasons {
    made: "Scaled",
    made_to_replace: "CreatePairTarget",
    deleted: ["TargetDeleted", "TargetsDeleted"],
    claims_deleted: "ClaimsDeleted",
};

/// Names of the pods of most CollaSets.
static NAMES: Names = names_with(PodNames::OfPod(naming::next_pod), false);
/// Where pods are named in sequence.
static IN_SEQUENCE: Names = names_with(PodNames::OfId(naming::in_sequence), true);

const fn names_with(pod: PodNames, is_host_name: bool) -> Names {
    Names {
        resource: const { &COLLA_SET },
        instance_id: names::INSTANCE_ID,
        id_text: |id| id.to_string(),
        read_id: |text| text.parse().ok(),
        pod,
        is_host_name,
        claim: naming::claim,
        claim_labels: &[(names::CONTROL, "true")],
        claim_template: names::CLAIM_TEMPLATE,
        claim_hash: names::CLAIM_HASH,
        orphaned: names::ORPHANED,
        reasons: REASONS,
    }
}

/// What its owner wants.
pub(super) fn spec(set: CollaSet<'_>) -> Spec<'_> {
    let body = set.body;
    Spec {
        object: set.object,
        replicas: body.replicas,
        template: &body.template,
        claims: &body.claims,
        has_claims_in_revisions: true,
        selector: &body.label_selector,
        policy: body.policy,
        // They are its own and what decorates its pods.
        has_metadata_in_place: false,
        scope: body.scope,
        paused: body.paused,
        limits: Limits { surge: surge(body.replicas), anew: (body.replicas / 4).max(1), burst: BURST },
        delays: Delays { update: body.update_delay_seconds, removal: body.scale_delay_seconds },
        keeps_claims: body.keeps_claims,
        ids: Ids::Stay,
        history_limit: body.history_limit,
        current: &body.status.current_revision,
        names: if body.in_sequence { &IN_SEQUENCE } else { &NAMES },
    }
}

/// Upstream doubles all pods at once; here as many pods more than wanted are there at most as a Deployment has by default: a quarter,
/// rounded up. Of pods that serve nobody a quarter, rounded down, at least one, are made anew at a time, as Deployments have it, too
/// (`maxUnavailable`; upstream's `cleanupUnhealthyReplicas`).
fn surge(replicas: usize) -> usize {
    replicas.div_ceil(4).max(1)
}
