//! CollaSets: those that a run begins with, and what their owners do to them. All of it is drawn apart.

use hitless_api::lifecycle::TO_DELETE;
use hitless_api::names::annotations;
use serde_json::{Value, json};

use super::{World, clone_sets};
use crate::chance::Chance;
use crate::clock::{Micros, SECOND};
use crate::faults::Fault;
use crate::ground::Ground;
use crate::server::WorkloadObject;
use crate::trace::Who;
use crate::user::{Deed, Order, Wanted};

const KIND: &str = "CollaSet";
const CLONE: &str = "CloneSet";
/// Kinds whose pods a controller of ours makes.
const KINDS: [&str; 2] = [KIND, CLONE];

/// None, or up to two CollaSets, without pods as yet.
pub(super) fn colla_sets(namespace: &str, number: &mut usize, ground: &mut Ground) -> Vec<Wanted> {
    let Ground { colla_sets: Some(chance), has_clone_sets, deletions, server, checks, .. } = ground else {
        return Vec::new();
    };
    let has_clone_sets = *has_clone_sets;
    let count = chance.pick(&[1, 1, 1, 2]);
    let mut desired = Vec::new();
    for _ in 0..count {
        *number += 1;
        let name = format!("cola{number}");
        let mut set = if has_clone_sets {
            clone_sets::manifest(namespace, &name, chance)
        } else {
            manifest(namespace, &name, chance)
        };
        if deletions.is_some() {
            set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
            set["spec"]["scaleStrategy"] =
                json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}});
        }
        let set = server.put_object(set);
        checks.wanted(server, &set, false);
        let kind = if has_clone_sets { CLONE } else { KIND };
        desired.push(Wanted { kind, namespace: namespace.to_owned(), name, image: 1, before: 1, hopeless: false });
    }
    desired
}

fn manifest(namespace: &str, name: &str, chance: &mut Chance) -> Value {
    let tier = chance.pick(&["front", "back"]);
    let stragglers = chance.pick(&["Close", "Wait", "Abort", "Destroy"]);
    let drain = json!({"minSeconds": 1, "stragglerAfterSeconds": 4, "deadlineSeconds": 8, "stragglers": stragglers});
    let mut template = json!({
        "metadata": {"labels": {"app": name, "tier": tier, "all": "yes"}},
        "spec": {"containers": [{"name": "web", "image": format!("{name}:v1"), "ports": [{"containerPort": 80}]}]}
    });
    if chance.happens(2_500) {
        template["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    }
    if chance.happens(7_000) {
        template["metadata"]["annotations"] = json!({annotations::DRAIN: drain.to_string()});
    }
    let mut strategy = json!({});
    if chance.happens(5_000) {
        strategy["podUpgradePolicy"] = json!(chance.pick(&["ReCreate", "InPlaceIfPossible"]));
    }
    if chance.happens(2_500) {
        strategy["rollingUpdate"] = json!({"byPartition": {"partition": 1}});
    }
    let mut spec = json!({
        "replicas": chance.pick(&[1, 2, 2, 3, 3, 3, 4, 5]),
        "selector": {"matchLabels": {"app": name}},
        "template": template,
        "updateStrategy": strategy,
        "historyLimit": chance.pick(&[20, 2, 1, 0]),
    });
    if chance.happens(2_500) {
        spec["namingStrategy"] = json!({"podNamingSuffixPolicy": "PersistentSequence"});
    }
    json!({
        "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": KIND,
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"), "generation": 1},
        "spec": spec,
    })
}

impl World {
    /// What the owners of CollaSets do in one round; says when the last of it is.
    pub(super) fn orders(&mut self) -> Micros {
        let (now, user) = (self.ground.now, &mut self.user);
        let Some(chance) = &mut self.ground.colla_sets else { return now };
        let sets: Vec<usize> =
            (0..user.desired.len()).filter(|index| KINDS.contains(&user.desired[*index].kind)).collect();
        let mut last = now;
        for index in sets {
            for _ in 0..chance.between(0, 3) {
                let at = now + chance.delay(0, 40 * SECOND);
                let who = chance.index(1_000);
                let deed = match chance.index(10) {
                    0..2 => Deed::Scale(index, chance.pick(&[-2, -1, 1, 2])),
                    2..4 => Deed::CollaSet(index, Order::Command),
                    4 => Deed::CollaSet(index, Order::Partition(chance.pick(&[0, 0, 1, 2, 9]))),
                    5 => Deed::CollaSet(
                        index,
                        Order::Policy(chance.pick(&["ReCreate", "InPlaceIfPossible", "InPlaceOnly"])),
                    ),
                    6..8 => Deed::CollaSet(index, Order::Label(who)),
                    _ => Deed::CollaSet(index, Order::Name(who)),
                };
                user.at(at, deed);
                last = last.max(at);
            }
        }
        last
    }

    pub(super) fn order(&mut self, index: usize, order: Order) {
        let wanted = &self.user.desired[index];
        let Some(known) = self.ground.server.object(wanted.kind, &wanted.namespace, &wanted.name).cloned() else {
            return;
        };
        self.ground.say(Who::User, || format!("{} {}: {order:?}", known.view.id.group_kind.kind, known.view.id.name));
        let is_clone = known.view.clone_set().is_some();
        match order {
            Order::Command => {
                self.user.tokens += 1;
                let command = format!("/c{}", self.user.tokens);
                self.ground.fault(Fault::MadeAnew);
                self.change(&known, |spec| spec["template"]["spec"]["containers"][0]["command"] = json!([command]));
            }
            Order::Partition(kept) => {
                self.ground.fault(Fault::PartitionChanged);
                self.change(&known, |spec| {
                    if is_clone {
                        spec["updateStrategy"]["partition"] = json!(kept);
                    } else {
                        spec["updateStrategy"]["rollingUpdate"] = json!({"byPartition": {"partition": kept}});
                    }
                });
            }
            Order::Policy(policy) => {
                self.ground.fault(Fault::PolicyChanged);
                self.change(&known, |spec| {
                    if is_clone {
                        clone_sets::follow(&mut spec["updateStrategy"], policy);
                    } else {
                        spec["updateStrategy"]["podUpgradePolicy"] = json!(policy);
                    }
                });
            }
            Order::Label(who) => {
                let Some((uid, _)) = self.one_of(&known, who) else { return };
                self.ground.fault(Fault::PodLabelled);
                let Ground { server, checks, .. } = &mut self.ground;
                let label = if is_clone { clone_sets::SPECIFIED_DELETE } else { TO_DELETE };
                server.change_pod(checks, &uid, |pod| _ = pod.view.labels.insert(label.to_owned(), "1".to_owned()));
            }
            Order::Name(who) => {
                let Some((_, name)) = self.one_of(&known, who) else { return };
                let replicas = known.json["spec"]["replicas"].as_u64().unwrap_or(1);
                self.ground.fault(Fault::PodNamed);
                self.change(&known, |spec| {
                    let list = if is_clone { "podsToDelete" } else { "podToDelete" };
                    spec["scaleStrategy"][list] = json!([name]);
                    spec["replicas"] = json!(replicas.saturating_sub(1).max(1));
                });
            }
        }
    }

    /// uid and name of a pod of it.
    fn one_of(&self, set: &WorkloadObject, who: usize) -> Option<(String, String)> {
        let own = self
            .ground
            .server
            .pods
            .values()
            .map(|pod| &pod.view)
            .filter(|pod| pod.owner.as_ref().is_some_and(|owner| owner.uid == set.view.id.uid) && !pod.terminating);
        let own: Vec<_> = own.collect();
        let pod = own.get(who % own.len().max(1))?;
        Some((pod.id.uid.clone(), pod.id.name.clone()))
    }

    fn change(&mut self, set: &WorkloadObject, change: impl FnOnce(&mut Value)) {
        let Ground { server, checks, .. } = &mut self.ground;
        server.change_object(&set.key(), |object| change(&mut object["spec"]));
        if let Some(set) = server.objects.get(&set.key()) {
            checks.wanted(server, set, false);
        }
    }

    /// Nothing keeps a pod of a CollaSet at its version any more.
    pub(super) fn lift(&mut self, index: usize) {
        let wanted = &self.user.desired[index];
        let Some(known) = self.ground.server.object(wanted.kind, &wanted.namespace, &wanted.name).cloned() else {
            return;
        };
        if known.view.is_pod_set() {
            self.change(&known, |spec| spec["updateStrategy"] = json!({}));
        }
    }

    /// What must be true of CollaSets that are at rest.
    pub(super) fn colla_sets_at_rest(&mut self) -> Option<String> {
        if let Some(lost) = self.ground.checks.lost_claim(&self.ground.server) {
            return Some(lost);
        }
        let Ground { server, checks, .. } = &mut self.ground;
        let sets: Vec<WorkloadObject> = KINDS.iter().flat_map(|kind| server.objects_of(kind)).cloned().collect();
        for set in &sets {
            checks.wanted(server, set, true);
        }
        sets.iter().find_map(|set| crate::checks::colla_set_at_rest(server, set))
    }
}
