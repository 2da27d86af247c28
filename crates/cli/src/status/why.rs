//! Why a pod waits. The same rules are asked as the controller asks, with what is seen from here.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;
use hitless_gate::{Approvals, Candidate, GateInput, Held, OwnerFacts, OwnerKey, PodFacts, RuleSet, Settings};
use jiff::Timestamp;

use super::observe::Owners;
use crate::snapshot::{EventView, Snapshot};

/// The rules' answers by uid of the pod: `None` allows it.
pub(super) type Denials = BTreeMap<String, Option<String>>;

/// Asks the rules about all `candidates` (uids of pods).
pub(super) fn denials(
    snapshot: &Snapshot,
    owners: &Owners<'_>,
    candidates: &BTreeSet<String>,
    now: Timestamp,
) -> Denials {
    let pods: Vec<PodFacts> = snapshot.pods.iter().map(|pod| facts(pod, owners)).collect();
    let desired: BTreeMap<OwnerKey, OwnerFacts> = snapshot
        .deployments
        .iter()
        .map(|deployment| {
            let desired = u32::try_from(deployment.replicas).unwrap_or_default();
            (owner_key("Deployment", &deployment.namespace, &deployment.name, &deployment.uid), OwnerFacts { desired })
        })
        .collect();
    let rules: Vec<RuleSet> = snapshot.rules.iter().map(|rule| RuleSet::clone(rule)).collect();
    let places = snapshot.ledgers.iter().flat_map(|ledger| &ledger.reservations);
    let reserved = places.map(|(uid, place)| (uid.clone(), Held { since: place.since.0 })).collect();
    let input = GateInput {
        pods: &pods,
        owners: &desired,
        nodes: &BTreeMap::new(),
        rule_sets: &rules,
        budgets: &[],
        disruption_budgets: &[],
        reserved: &reserved,
        failed: &BTreeSet::new(),
        approvals: &Approvals::new(),
        settings: &Settings::default(),
    };
    let candidates: Vec<Candidate> = candidates.iter().map(Candidate::new).collect();
    hitless_gate::decide(&input, &candidates, now)
        .into_iter()
        .map(|verdict| {
            let denied: Vec<String> = verdict.denied().map(ToString::to_string).collect();
            (verdict.pod_uid.clone(), (!verdict.allowed).then(|| denied.join("; ")))
        })
        .collect()
}

fn facts(pod: &PodView, owners: &Owners<'_>) -> PodFacts {
    let deployment = owners.deployment(pod);
    let namespace = &pod.id.namespace;
    let owner = deployment
        .map(|deployment| owner_key("Deployment", namespace, &deployment.name, &deployment.uid))
        .or_else(|| pod.owner.as_ref().map(|owner| owner_key(&owner.kind, namespace, &owner.name, &owner.uid)));
    PodFacts::of(pod, owner)
}

fn owner_key(kind: &str, namespace: &str, name: &str, uid: &str) -> OwnerKey {
    OwnerKey { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
}

/// What in the pod itself keeps it from being operated.
pub(crate) fn unfit(pod: &PodView) -> Option<&'static str> {
    if pod.terminating {
        Some("the pod is being deleted")
    } else if pod.node.is_none() {
        Some("the pod has no node yet")
    } else if pod.is_mirror() || pod.host_network {
        Some("NotSupported: pods with hostNetwork and static pods are not operated")
    } else if !pod.gated {
        Some(
            "NoReadinessGate: the pod was made without the readiness gate hitless.dev/InService; label its template \
             hitless.dev/gate=enabled, and delete the pod once",
        )
    } else {
        None
    }
}

/// The last thing that the controller said of an object, if it was of the kind that explains waiting.
pub(super) fn last_event<'a>(events: impl IntoIterator<Item = &'a EventView>, uid: &str) -> Option<String> {
    let last = events.into_iter().filter(|event| event.regarding == uid).max_by_key(|event| event.time)?;
    let waits = !matches!(last.reason.as_str(), "RolloutHeld" | "RolloutFinished" | "NativeRollout");
    waits.then(|| format!("{}: {}", last.reason, last.note))
}
