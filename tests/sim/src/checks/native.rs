//! When a controller lets a native controller go, that must find nothing to do.

use std::sync::Arc;

use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use hitless_workloads::kinds::deployment::Deployment;
use hitless_workloads::{Body, Object};
use hitless_world::native::deployment::new_set;
use hitless_world::native::stateful_set::ordinal;

use super::{Checks, Operation, Seen, budget};
use crate::server::Server;

/// The revision that the StatefulSet of this pod had, as the deciding controller saw it.
pub(super) fn update_revision(seen: &Seen, pod: &str) -> Option<String> {
    let owner = seen.pods.iter().find(|known| known.id.uid == pod)?.owner.as_ref()?;
    let set = seen.objects.iter().find(|object| object.id.uid == owner.uid)?;
    set.stateful_set()?.body.status.update_revision.clone()
}

impl Checks {
    /// Whether the native controller of this workload may roll it: a version was sent natively, and no other one is driven since.
    pub(crate) fn rolls(&self, uid: &str) -> bool {
        self.rolling.contains(uid)
    }

    /// A controller of ours is about to store `next`.
    pub(crate) fn written(&mut self, server: &Server, before: Option<&Object>, next: &Object) {
        self.job_reported(server, next);
        if let Some(before) = before {
            self.halted(server, before, next);
        }
        if next.annotations.contains_key(annotations::WAY) {
            self.sent_natively.insert(next.id.uid.clone());
        }
        if next.held_by_guard() {
            self.rolling.remove(&next.id.uid);
        }
        let let_go = before.is_some_and(Object::held_by_guard) && !next.annotations.contains_key(annotations::ROLLOUT);
        if !let_go {
            return;
        }
        // Where admission refuses the pods that would fetch an image, new pods tell whether it means the image.
        let is_refused = self.plays_native && server.has_refused.contains(&next.id.namespace);
        // A native rollout that another version comes into is a native one to its end.
        let sets = server.owned_by(&next.id.uid).filter_map(|each| each.view.replica_set());
        let is_split = sets.filter(|set| set.body.replicas > 0).count() > 1;
        if self.sent_natively.remove(&next.id.uid) || is_refused || (self.plays_native && is_split) {
            // What its native controller makes of it is played where versions go on.
            self.is_over = !self.plays_native;
            self.rolling.insert(next.id.uid.clone());
            return;
        }
        if let Some(deployment) = next.deployment() {
            return self.unpaused(server, deployment);
        }
        // The native controller tells by itself when it finds a pod that is not up to date; a pod that is being operated would
        // come too late for that.
        let mut pods = server.pods.values().map(|pod| &pod.view);
        let own = |pod: &&Arc<PodView>| pod.owner.as_ref().is_some_and(|owner| owner.uid == next.id.uid);
        let is_out = |pod: &Arc<PodView>| !pod.terminating && pod.in_service().is_some_and(|is| !is.is_true);
        if let Some(pod) = pods.find(|pod| own(pod) && is_out(pod) && self.is_out(&pod.id.uid)) {
            self.fail(server.now, format!("{} was let go while pod {} is operated", next.id.label(), pod.id.name));
        }
    }

    /// Images of a pod are about to be patched: of a StatefulSet's pods those with a higher ordinal come first.
    pub(super) fn in_order(&mut self, server: &Server, before: &PodView, after: &PodView, operation: &Operation) {
        let name = labels::CONTROLLER_REVISION_HASH;
        let owner = before.owner.as_ref().filter(|owner| owner.group_kind.is("apps", "StatefulSet"));
        let set = owner.and_then(|owner| server.object("StatefulSet", &owner.namespace, &owner.name));
        let update = set.and_then(|set| set.json["status"]["updateRevision"].as_str());
        let (Some(owner), Some(update)) = (owner, update) else { return };
        let decided_at = self.decided_at.get(&(operation.id.clone(), operation.granted));
        if before.labels.get(name) == after.labels.get(name)
            || after.labels.get(name).is_none_or(|label| label != update)
            || decided_at.is_some_and(|revision| revision != update)
        {
            // A restart, or an operation that was granted before the template changed once more. The change may have made the
            // revision the newest to which the pod was just brought back.
            return;
        }
        if self.pods.get(&before.id.uid).is_some_and(|truth| truth.free) {
            // It was not available anyway.
            return;
        }
        let partition = set.map_or(0, |set| budget::partition(&set.view));
        let is_current = set.is_some_and(|set| set.json["status"]["currentRevision"] == update);
        if !is_current && ordinal(before).is_some_and(|ordinal| ordinal < partition) {
            self.fail(server.now, format!("pod {} is below partition {partition} and is updated", before.id.name));
        }
        let ledger = server.ledgers.get(owner.namespace.as_str());
        let is_reserved = |uid: &String| ledger.is_some_and(|ledger| ledger.spec.reservations.contains_key(uid));
        let before_it = server.pods.values().map(|pod| &pod.view).filter(|other| {
            other.owner.as_ref().is_some_and(|own| own.uid == owner.uid)
                && !other.terminating
                && ordinal(other) > ordinal(before)
                && other.labels.get(name).is_none_or(|label| label != update)
                && !is_reserved(&other.id.uid)
        });
        // So many may go side by side.
        let at_a_time = budget::strategy_limit(set.map(|set| &*set.view)).unwrap_or(1);
        let names: Vec<&str> = before_it.map(|other| other.id.name.as_str()).collect();
        if names.len() >= at_a_time {
            self.fail(server.now, format!("pod {} goes before {}", before.id.name, names.join(", ")));
        }
    }

    /// The guard's pause is about to be lifted.
    fn unpaused(&mut self, server: &Server, next: Deployment<'_>) {
        let name = format!("{}/{}", next.id.namespace, next.id.name);
        let own = || server.owned_by(&next.id.uid).filter_map(|each| each.view.replica_set());
        let Some(found) = new_set(&next.body.template, own()) else {
            return self.fail(server.now, format!("{name} was un-paused without a ReplicaSet of its template"));
        };
        if next.body.replicas > 0
            && found.body.replicas != next.body.replicas
            && own().any(|set| set.id.uid != found.id.uid && set.body.replicas > 0)
        {
            return self.fail(server.now, format!("{name} was un-paused, and history would be scaled up"));
        }
        let behind = server.pods.values().map(|pod| &pod.view).find(|pod| {
            pod.owner.as_ref().is_some_and(|owner| owner.uid == found.id.uid)
                && !pod.terminating
                && pod.containers.iter().any(|each| {
                    !next.body.template.image(&each.name).is_some_and(|wanted| budget::same_image(&each.image, wanted))
                })
        });
        if let Some(pod) = behind {
            let what = format!("{name} was un-paused while pod {} runs {}", pod.id.name, pod.containers[0].image);
            self.fail(server.now, what);
        }
    }

    /// A controller of ours is about to delete an object.
    pub(crate) fn deleted(&mut self, server: &Server, object: &Object) {
        let now = server.now;
        match object.replica_set() {
            Some(set) if set.body.replicas == 0 && set.body.status_replicas == 0 => {}
            Some(set) => {
                self.fail(
                    now,
                    format!("ReplicaSet {} was deleted with {} pods", set.id.name, set.body.status_replicas),
                );
            }
            None if object.request().is_some() => self.job_deleted(now, object),
            None if object.controller_revision().is_some() => {}
            None if matches!(object.body, Body::Claim(_)) => self.claim_deleted(server, object),
            None => self.fail(now, format!("{} was deleted", object.id.label())),
        }
    }
}
