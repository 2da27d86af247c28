//! CollaSets that somebody deletes in the foreground, and makes anew once they are gone. Their claims are to outlive that. All of it is
//! drawn apart.

use serde_json::{Value, json};

use super::World;
use crate::clock::{Micros, SECOND};
use crate::faults::Fault;
use crate::server::WorkloadObject;
use crate::trace::Who;
use crate::user::Deed;

const KIND: &str = "CollaSet";

impl World {
    /// Which CollaSets are deleted in this round; says when the last of that happens.
    pub(super) fn plan_deletions(&mut self) -> Micros {
        let (start, mut last) = (self.ground.now, self.ground.now);
        for index in 0..self.user.desired.len() {
            let Some(chance) = &mut self.ground.deletions else { return last };
            if self.user.desired[index].kind == KIND && chance.happens(4_000) {
                let at = start + chance.delay(0, 40 * SECOND);
                self.user.at(at, Deed::DeleteInForeground(index));
                last = last.max(at);
            }
        }
        last
    }

    pub(super) fn delete_in_foreground(&mut self, index: usize) {
        let wanted = &self.user.desired[index];
        let Some(known) = self.ground.server.object(KIND, &wanted.namespace, &wanted.name).cloned() else { return };
        if known.view.deleting {
            return;
        }
        self.ground.fault(Fault::DeletedInForeground);
        self.ground.say(Who::User, || format!("deletes CollaSet {} in the foreground", known.view.id.name));
        self.ground.checks.keep_claims(&self.ground.server, &known);
        let now = self.ground.server.stamp().to_string();
        self.ground.server.change_object(&known.key(), |object| {
            object["metadata"]["deletionTimestamp"] = json!(now);
        });
        self.ground.server.leaving.insert(known.view.id.uid.clone());
        self.ground.server.end_of_deletion(&known.key());
        self.collect_garbage();
        self.user.gone.insert(index, Value::clone(&known.json));
        self.user.at(self.ground.now + SECOND, Deed::MakeAnew(index));
    }

    /// Its owner applies the same manifest once it is gone.
    pub(super) fn make_anew(&mut self, index: usize) {
        self.collect_garbage();
        let wanted = &self.user.desired[index];
        let next = self.ground.now + SECOND;
        if self.ground.server.object(KIND, &wanted.namespace, &wanted.name).is_some() {
            return self.user.at(next, Deed::MakeAnew(index));
        }
        let Some(mut json) = self.user.gone.remove(&index) else { return };
        let (name, image) = (wanted.name.clone(), wanted.image);
        self.ground.say(Who::User, || format!("makes CollaSet {name} anew"));
        let uid = format!("{}+", json["metadata"]["uid"].as_str().unwrap_or_default());
        json["metadata"] = json!({"namespace": wanted.namespace, "name": name, "uid": uid, "generation": 1});
        json.as_object_mut().map(|json| json.remove("status"));
        json["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("{name}:v{image}"));
        let set = self.ground.server.put_object(json);
        self.ground.checks.wanted(&self.ground.server, &set, false);
    }

    /// The garbage collector takes what an owner leaves that is deleted in the foreground, or gone: also what is made since.
    pub(super) fn collect_garbage(&mut self) {
        let ground = &mut self.ground;
        for uid in ground.server.leaving.clone() {
            let objects = ground.server.objects.iter().filter(|(_, each)| has_owner(each, &uid));
            for key in objects.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                ground.server.remove_object(&key);
            }
            let own = |owner: Option<&str>| owner == Some(uid.as_str());
            let pods = ground.server.pods.values().map(|pod| &pod.view);
            let pods = pods.filter(|pod| !pod.terminating && own(pod.owner.as_ref().map(|owner| owner.uid.as_str())));
            let pods: Vec<(String, bool)> = pods.map(|pod| (pod.id.uid.clone(), pod.node.is_some())).collect();
            for (pod, is_on_a_node) in pods {
                if is_on_a_node {
                    ground.server.change_pod(&mut ground.checks, &pod, |pod| pod.view.terminating = true);
                } else {
                    ground.server.remove_pod(&mut ground.checks, &pod);
                }
            }
        }
    }
}

fn has_owner(object: &WorkloadObject, uid: &str) -> bool {
    let owners = object.json["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid))
}
