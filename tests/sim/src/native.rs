//! Kubernetes' controllers of workloads: what `tests/world` says that they do, carried out.

use hitless_world::kubelet::set_condition;
use hitless_world::native::{self, Act, NewPod, Seen};
use serde_json::json;

use crate::clock::MS;
use crate::ground::Ground;
use crate::kubernetes::{Job, Kubernetes, pod};
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
        let pods = ground.server.pods.values().map(|pod| &pod.view);
        let seen = Seen::new(object, ground.server.objects.values(), pods).on_nodes(nodes);
        for act in native::sync(&seen) {
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
                // Here it never may, and the run ends.
                Act::Rolls(what) => return ground.checks.fail(ground.now, what),
            }
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

/// Whether a later sync has seen more: a native controller never does two at a time for one object.
fn is_overtaken(object: &WorkloadObject, ground: &Ground) -> bool {
    let known = ground.server.objects.get(&object.key());
    let observed = known.map(|known| known.json["status"]["observedGeneration"].as_i64().unwrap_or_default());
    observed.is_none_or(|observed| observed > object.view.generation)
}
