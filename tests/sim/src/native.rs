//! Kubernetes' controllers of workloads: what `tests/world` says that they do, carried out.

use hitless_workloads::Body;
use hitless_workloads::kinds::deployment::ReplicaSet;
use hitless_world::kubelet::set_condition;
use hitless_world::native::deployment::new_set;
use hitless_world::native::rolling::Share;
use hitless_world::native::{self, Act, NewPod, Seen};
use serde_json::json;

use crate::clock::MS;
use crate::ground::Ground;
use crate::kubernetes::{Job, Kubernetes, pod};
use crate::ports::POD_NAME;
use crate::server::{WorkloadObject, object_key};
use crate::trace::Who;

impl Kubernetes {
    /// One sync of an object by the controller of its kind, with the object as it was when it was looked at.
    pub(crate) fn sync(&mut self, object: &WorkloadObject, ground: &mut Ground) {
        // A ReplicaSet's controller may be as late as it likes.
        if object.view.replica_set().is_none() && is_overtaken(object, ground) {
            return;
        }
        let nodes = self.usable.iter().map(|node| format!("n{node}"));
        let nodes = nodes.filter(|node| ground.server.nodes.contains_key(node.as_str())).collect();
        let rolls = ground.checks.rolls(&object.view.id.uid);
        if let Some(acts) = rolling(object, ground).filter(|_| rolls) {
            return acts.into_iter().for_each(|act| self.carry_out(object, act, ground));
        }
        let pods = ground.server.pods.values().map(|pod| &pod.view);
        let seen = Seen::new(object, ground.server.objects.values(), pods).on_nodes(nodes);
        let mut is_next = false;
        for act in native::sync(&seen) {
            match act {
                // Elsewhere it never may.
                Act::Rolls(what) if !rolls => return ground.checks.fail(ground.now, what),
                Act::Rolls(_) => is_next = true,
                Act::RemovePod(uid) if std::mem::take(&mut is_next) && others_are_away(object, &uid, ground) => {
                    ground.say(Who::Kubernetes, || format!("{uid} is to go natively, and others are away"));
                }
                // Nobody runs before the controller has scaled it by its bounds.
                Act::Make(mut manifest) if rolls && manifest["kind"] == "ReplicaSet" => {
                    manifest["spec"]["replicas"] = json!(0);
                    self.carry_out(object, Act::Make(manifest), ground);
                }
                act => self.carry_out(object, act, ground),
            }
        }
    }

    /// Deployments that roll see all of their pods.
    pub(crate) fn look_at_rolling(&mut self, ground: &mut Ground) {
        let rolling = ground.server.objects_of("Deployment").filter(|each| ground.checks.rolls(&each.view.id.uid));
        for at in rolling.map(WorkloadObject::key).collect::<Vec<_>>() {
            self.look(at, ground);
        }
    }

    fn carry_out(&mut self, object: &WorkloadObject, act: Act, ground: &mut Ground) {
        match act {
            Act::Scale { child, replicas } => {
                let at = object_key(&child.group_kind.kind, &child.namespace, &child.name);
                ground.server.change_object(&at, |set| set["spec"]["replicas"] = json!(replicas));
            }
            Act::Renumber { child, number } => {
                let at = object_key(&child.group_kind.kind, &child.namespace, &child.name);
                ground.server.change_object(&at, |revision| revision["revision"] = json!(number));
            }
            Act::Make(manifest) => _ = ground.server.create_object(manifest),
            Act::MakePod(new) => self.make(object, new, ground),
            Act::RemovePod(uid) => {
                let Ground { server, checks, .. } = ground;
                server.change_pod(checks, &uid, |pod| pod.view.terminating = true);
            }
            Act::Status(status) => {
                let known = ground.server.objects.get(&object.key());
                if known.is_some_and(|known| known.view.id.uid == object.view.id.uid) {
                    ground.server.change_object(&object.key(), |known| native::report(known, &status));
                }
            }
            Act::Rolls(_) => {}
        }
    }

    fn make(&mut self, owner: &WorkloadObject, new: NewPod, ground: &mut Ground) {
        self.made += 1;
        let owner = &owner.view.id;
        let (name, uid) = match new.name {
            Some(name) => (name.clone(), format!("{}/{name}-{}", owner.namespace, self.made)),
            None => {
                (format!("{}-{}", owner.name, self.made), format!("{}/{}-{}", owner.namespace, owner.name, self.made))
            }
        };
        let mut pod = pod(owner, Some(&new.template), (name, uid), ground.wall(0));
        pod.view.labels.extend(new.labels);
        if ground.ports.is_some() && owner.group_kind.kind == "StatefulSet" {
            pod.view.labels.insert(POD_NAME.to_owned(), pod.view.id.name.clone());
        }
        let uid = pod.view.id.uid.clone();
        let is_bound = new.node.is_some();
        if let Some(node) = new.node {
            // The DaemonSet controller chooses the node, and the scheduler follows.
            pod.view.node = Some(node);
            set_condition(&mut pod.view, "PodScheduled", true, ground.wall(0));
        } else {
            ground.say(Who::Kubernetes, || format!("makes pod {uid} with {}", pod.view.containers[0].image));
        }
        let Ground { server, checks, .. } = ground;
        server.put_pod(checks, pod);
        if !is_bound {
            let due = ground.now + ground.chance.delay(5 * MS, 300 * MS);
            self.later(due, Job::Bind(uid));
        }
    }
}

/// What a Deployment controller does that is in the middle of a rolling update; `None`: something else comes first.
fn rolling(object: &WorkloadObject, ground: &Ground) -> Option<Vec<Act>> {
    let Body::Deployment(body) = &object.view.body else { return None };
    let share = |set: ReplicaSet<'_>| {
        let pods = ground.server.pods.values().map(|pod| &pod.view);
        let own = pods.filter(|pod| pod.owner.as_ref().is_some_and(|owner| owner.uid == set.object.id.uid));
        i32::try_from(own.filter(|pod| pod.available()).count()).unwrap_or_default()
    };
    let sets: Vec<ReplicaSet<'_>> =
        ground.server.owned_by(&object.view.id.uid).filter_map(|each| each.view.replica_set()).collect();
    let new = new_set(&body.template, sets.iter().copied()).filter(|_| !body.paused)?;
    let olds: Vec<Share<'_>> = sets
        .iter()
        .filter(|set| set.object.id != new.object.id)
        .map(|set| Share { set: *set, available: share(*set) })
        .collect();
    let new = Share { set: new, available: share(new) };
    Some(native::rolling::sync(body, &object.json["spec"]["strategy"], new, &olds))
}

/// Whether some pod beside this one of a StatefulSet or DaemonSet that rolls is away.
fn others_are_away(object: &WorkloadObject, uid: &str, ground: &Ground) -> bool {
    let mut pods = ground.server.pods.values().map(|pod| &pod.view);
    pods.any(|pod| {
        let is_own = pod.owner.as_ref().is_some_and(|owner| owner.uid == object.view.id.uid);
        is_own && pod.id.uid != uid && (pod.terminating || !pod.ready())
    })
}

/// Whether a later sync has seen more: a native controller never does two at a time for one object.
fn is_overtaken(object: &WorkloadObject, ground: &Ground) -> bool {
    let known = ground.server.objects.get(&object.key());
    let observed = known.map(|known| known.json["status"]["observedGeneration"].as_i64().unwrap_or_default());
    observed.is_none_or(|observed| observed > object.view.generation)
}
