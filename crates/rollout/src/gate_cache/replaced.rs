//! Pods that are being deleted and count no more: others are there in their place.
//!
//! Kubernetes' own controllers leave them out as well: neither a Deployment's `maxUnavailable` nor a PodDisruptionBudget waits for a
//! pod that takes an hour to end. One that nobody has replaced yet (a StatefulSet's, say) counts as unavailable until it is.

use std::collections::{BTreeSet, HashMap, HashSet};

use hitless_api::pod::PodView;
use hitless_workloads::{World, registry};

use crate::companion;
use crate::snapshot::Snapshot;

/// Their uids: of workloads that have as many other pods as they are meant to have. Not those that are being operated: what is reserved
/// counts until that is over.
pub(super) fn replaced<'a>(snapshot: &'a Snapshot, world: &World<'a>) -> HashSet<&'a str> {
    let leaving = snapshot.pods.iter().map(|pod| &**pod).filter(|pod| pod.terminating && !pod.finished);
    let leaving: Vec<(&PodView, &str)> = leaving
        .filter_map(|pod| Some((pod, world.top(pod)?.uid.as_str())))
        .filter(|(pod, _)| !is_ours(pod, snapshot))
        .collect();
    let tops: BTreeSet<&str> = leaving.iter().map(|(_, top)| *top).collect();
    if tops.is_empty() {
        return HashSet::new();
    }
    // By direct owner: each pod of the cluster is asked this.
    let owners: HashMap<&str, &str> = tops
        .iter()
        .flat_map(|top| {
            let children = world.children(top).iter().map(|child| child.id.uid.as_str());
            children.chain([*top]).map(|owner| (owner, *top))
        })
        .collect();
    let mut there: HashMap<&str, usize> = HashMap::new();
    for pod in snapshot.pods.iter().filter(|pod| !pod.terminating && !pod.finished && !companion::is_companion(pod)) {
        let owner = pod.owner.as_ref().and_then(|owner| owners.get(owner.uid.as_str()));
        if let Some(top) = owner {
            *there.entry(*top).or_default() += 1;
        }
    }
    let is_complete = |top: &str| {
        let wanted = world.object(top).and_then(registry::size).and_then(|size| usize::try_from(size.desired).ok());
        wanted.is_some_and(|wanted| there.get(top).copied().unwrap_or_default() >= wanted)
    };
    let complete: BTreeSet<&str> = tops.into_iter().filter(|top| is_complete(top)).collect();
    leaving.into_iter().filter(|(_, top)| complete.contains(top)).map(|(pod, _)| pod.id.uid.as_str()).collect()
}

/// It has a reservation, or a grant.
fn is_ours(pod: &PodView, snapshot: &Snapshot) -> bool {
    let uid = pod.id.uid.as_str();
    let ledger = snapshot.ledgers.get(&pod.id.namespace);
    let node = pod.node.as_ref().and_then(|node| snapshot.node_transitions.get(node));
    ledger.is_some_and(|ledger| ledger.spec.reservations.contains_key(uid))
        || node.is_some_and(|node| node.spec.grants.iter().any(|grant| grant.pod.uid == uid))
}
