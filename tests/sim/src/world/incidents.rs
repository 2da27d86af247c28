//! Deeds and faults, planned and carried out.

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_workloads::{OptIn, registry};
use serde_json::json;

use super::World;
use crate::agent::LONGEST_AWAY;
use crate::checks::allowed;
use crate::clock::{MS, Micros, SECOND};
use crate::faults::{Fault, Weather};
use crate::ground::Ground;
use crate::kubelet::Image;
use crate::manifest::Manage;
use crate::server::WorkloadObject;
use crate::trace::Who;
use crate::user::Deed;

impl World {
    /// What happens in one round; says when its faults end.
    pub(super) fn plan(&mut self, round: u32) -> Micros {
        let start = self.ground.now;
        let chance = &mut self.ground.chance;
        let mut last = start;
        for index in 0..self.user.desired.len() {
            if round > 0 && chance.happens(2_500) {
                continue;
            }
            let at = start + chance.delay(0, 10 * SECOND);
            self.user.at(at, Deed::SetImage(index));
            if chance.happens(1_500) {
                let again = at + chance.delay(100 * MS, 15 * SECOND);
                let deed = if chance.happens(5_000) { Deed::ChangeBack(index) } else { Deed::SetImage(index) };
                self.user.at(again, deed);
            }
            last = last.max(at);
        }
        let nodes = self.nodes.len();
        let incidents = chance.between(0, self.weather.incidents);
        for _ in 0..incidents {
            let at = start + chance.delay(0, 40 * SECOND);
            let who = chance.index(1_000);
            let some = chance.delay(100 * MS, 30 * SECOND);
            let deed = match chance.index(105) {
                0..14 => Deed::Scale(who, chance.pick(&[-2, -1, 1, 2])),
                14..30 => Deed::CrashPod(who),
                30..42 => Deed::DeletePod(who),
                42..54 if who.is_multiple_of(2) => Deed::NewChecksum(who),
                42..54 => Deed::RestartPod(who),
                54..59 => {
                    let back = chance.happens(5_000).then_some(some);
                    Deed::KillNode(chance.index(nodes), back)
                }
                59..66 => Deed::ServerAway(some.min(20 * SECOND)),
                66..78 => Deed::KillController(who, some),
                78..88 => Deed::Usurp(some),
                88..97 => Deed::KillAgent(chance.index(nodes), some),
                97..100 => Deed::RefuseAgent(chance.index(nodes), true),
                _ => {
                    let open = chance.pick(&[None, Some(false), Some(true)]);
                    let how = chance.pick(&[Manage::Apply(open), Manage::Replace(open), Manage::Delete]);
                    Deed::Manage(who, how)
                }
            };
            self.user.at(at, deed);
            last = last.max(at);
        }
        let jobs = &mut self.ground.jobs;
        if self.ground.has_jobs && jobs.happens(7_000) {
            let at = start + jobs.delay(0, 30 * SECOND);
            let who = jobs.index(1_000);
            self.user.at(at, Deed::MakeJob(who));
            let more = jobs.happens(3_000).then(|| at + jobs.delay(100 * MS, 15 * SECOND));
            if let Some(at) = more {
                let deed = if jobs.happens(5_000) { Deed::DeleteJob(who) } else { Deed::MakeJob(who) };
                self.user.at(at, deed);
            }
            last = last.max(more.unwrap_or(at));
        }
        if self.ground.has_companions && chance.happens(2_000) {
            let at = start + chance.delay(0, 40 * SECOND);
            self.user.at(at, Deed::RemoveBinding(chance.index(1_000)));
            last = last.max(at);
        }
        self.plan_operators(start);
        last = last.max(self.orders()).max(self.plan_pauses()).max(self.plan_deletions());
        last = last.max(self.plan_dependencies()).max(self.plan_nodes()).max(self.plan_helpers());
        last + if self.weather.agent_away_long > 0 { LONGEST_AWAY } else { 20 * SECOND }
    }

    /// The end of all faults: whoever is down comes back.
    pub(super) fn calm(&mut self) {
        self.ground.weather = Weather::default();
        let now = self.ground.now;
        self.ground.server.away_until = self.ground.server.away_until.min(now);
        self.dependencies_back();
        for controller in &mut self.controllers {
            controller.end_of_delusion(now);
            controller.down_until = controller.down_until.map(|_| now);
        }
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if !node.kubelet.dead && !node.has_no_agent {
                node.agent.down_until = node.agent.down_until.map(|_| now);
            }
            if node.agent.refuses {
                self.user.at(now + SECOND, Deed::RefuseAgent(index, false));
            }
        }
        self.ground.say(Who::User, || "no more faults".to_owned());
    }

    /// Good images for everybody.
    pub(super) fn cure(&mut self) {
        let start = self.ground.now;
        for index in 0..self.user.desired.len() {
            self.user.images += 1;
            let image = self.user.images;
            self.ground.add_image(image, Image::Good(500 * MS));
            self.lift(index);
            self.pause(index, false);
            self.set_image(index, image);
        }
        self.flush();
        self.ground.say(Who::User, || format!("good images for all, at {start}"));
    }

    pub(super) fn incident(&mut self, deed: Deed) {
        let now = self.ground.now;
        match deed {
            Deed::SetImage(index) => {
                self.user.images += 1;
                let image = self.user.images;
                let kind = self.draw_image(index, image);
                self.ground.add_image(image, kind);
                let busy = self.is_held_by_guard(index);
                if busy {
                    self.ground.fault(Fault::SecondChange);
                }
                self.set_image(index, image);
            }
            Deed::ChangeBack(index) => {
                let before = self.user.desired[index].before;
                if self.is_held_by_guard(index) {
                    self.ground.fault(Fault::ChangedBack);
                }
                self.set_image(index, before);
            }
            Deed::Scale(who, by) => self.scale(who, by),
            Deed::DeletePod(who) => {
                if let Some(uid) = self.some_pod(who) {
                    self.ground.fault(Fault::PodDeleted);
                    if self.is_held(Some(&uid)) {
                        self.ground.fault(Fault::PodDeletedInHold);
                    }
                    self.ground.say(Who::User, || format!("deletes pod {uid}"));
                    let ground = &mut self.ground;
                    ground.server.change_pod(&mut ground.checks, &uid, |pod| pod.view.terminating = true);
                }
            }
            Deed::CrashPod(who) => {
                let Some(uid) = self.some_pod(who) else { return };
                let node = self.ground.server.pods[uid.as_str()].view.node.as_deref().and_then(super::node_index);
                if node.is_some_and(|node| self.nodes[node].kubelet.crash(&uid, now)) {
                    self.ground.fault(Fault::PodCrashed);
                    self.disturb(|pod| pod.id.uid == uid);
                }
            }
            Deed::DependencyAway(who, length) => self.dependency_away(who, length),
            Deed::DependencyBack(who) => self.dependency_back(who),
            Deed::LoseNode(tries) => self.lose_node(tries),
            Deed::RefuseHelpers(who, words) => self.refuse_helpers(who, words),
            Deed::RestartPod(who) => self.restart_pod(who),
            Deed::MakeJob(who) => self.make_job(who),
            Deed::DeleteJob(who) => self.delete_job(who),
            Deed::NewChecksum(who) => self.new_checksum(who),
            Deed::KillNode(index, back) => self.kill_node(index, back),
            Deed::ReturnNode(index) => self.return_node(index),
            Deed::RemakeNode(index) => self.remake_node(index),
            Deed::ServerAway(length) => {
                self.ground.fault(Fault::ServerAway);
                self.ground.say(Who::Server, || format!("away for {} ms", length / MS));
                self.ground.server.away_until = now + length;
            }
            Deed::KillController(who, length) => {
                if self.is_held(None) {
                    self.ground.fault(Fault::ControllerKilledInHold);
                }
                let count = self.controllers.len();
                let controller = &mut self.controllers[who % count];
                if controller.down_until.is_none() {
                    self.ground.faults.add(Fault::ControllerKilled);
                    controller.kill(&mut self.ground, now + length);
                }
            }
            Deed::Usurp(length) => self.usurp(length),
            Deed::KillAgent(index, length) => {
                let node = &mut self.nodes[index];
                if node.agent.down_until.is_none() && !node.kubelet.dead {
                    self.ground.faults.add(Fault::AgentKilled);
                    node.agent.kill(&mut self.ground, now + length);
                }
            }
            Deed::RefuseAgent(index, refuses) => {
                if refuses {
                    self.ground.faults.add(Fault::AgentRefuses);
                }
                let node = &mut self.nodes[index];
                if !node.kubelet.dead && !node.has_no_agent {
                    node.agent.kill(&mut self.ground, now + SECOND);
                }
                node.agent.refuses = refuses;
            }
            Deed::Manage(index, how) => self.manage(index, how),
            Deed::RemoveBinding(who) => self.remove_binding(who),
            Deed::RemakeService(index) => self.remake_service(index),
            Deed::Begin(who) => self.begin(who),
            Deed::Operator(index) => self.operator(index),
            Deed::LabelForDeletion(who) => self.label_for_deletion(who),
            Deed::CollaSet(index, order) => self.order(index, order),
            Deed::DeleteInForeground(index) => self.delete_in_foreground(index),
            Deed::MakeAnew(index) => self.make_anew(index),
            Deed::Pause(index, paused) => self.pause(index, paused),
        }
    }

    /// Something happens from outside to these pods.
    pub(super) fn disturb(&mut self, is_one: impl Fn(&PodView) -> bool) {
        let Ground { now, server, checks, .. } = &mut self.ground;
        for pod in server.pods.values().map(|pod| &pod.view).filter(|pod| is_one(pod)) {
            let image = pod.containers.first().map_or("", |container| container.image.as_str());
            checks.disturbed(*now, &pod.id.namespace, image.split([':', '@']).next().unwrap_or_default());
        }
    }

    fn restart_pod(&mut self, who: usize) {
        let Some(uid) = self.some_pod(who) else { return };
        self.user.tokens += 1;
        let token = format!("t{}", self.user.tokens);
        let ground = &mut self.ground;
        ground.fault(Fault::Restarted);
        ground.say(Who::User, || format!("asks for a restart of {uid} ({token})"));
        ground.server.change_pod(&mut ground.checks, &uid, |pod| {
            pod.view.annotations.insert(annotations::RESTART.to_owned(), token);
            pod.has_annotations = true;
        });
    }

    fn remove_binding(&mut self, who: usize) {
        let wanted = &self.user.desired[who % self.user.desired.len()];
        self.ground.say(Who::User, || format!("deletes the agents' RoleBinding in {}", wanted.namespace));
        self.ground.server.remove_binding(&wanted.namespace);
        let now = self.ground.now;
        self.controllers.iter_mut().for_each(|controller| controller.notify(now));
    }

    fn draw_image(&mut self, index: usize, number: u32) -> Image {
        let allowed = self.workload(index).map(|known| allowed(&self.ground.server, &known.json, true).0);
        if let (Some(servers), Some(allowed)) = (&mut self.ground.servers, allowed) {
            let wanted = &self.user.desired[index];
            let (image, fault) = servers.image(number, (&wanted.namespace, &wanted.name), allowed);
            if let Some(fault) = fault {
                self.ground.fault(fault);
            }
            return image;
        }
        let chance = &mut self.ground.chance;
        let start = chance.delay(100 * MS, 5 * SECOND);
        let kind = match chance.index(100) {
            0..3 => Image::Missing,
            3..6 => Image::Crashes,
            6..9 => Image::NeverReady,
            _ => return Image::Good(start),
        };
        self.ground.fault(Fault::BadImage);
        kind
    }

    pub(super) fn workload(&self, index: usize) -> Option<&WorkloadObject> {
        let wanted = &self.user.desired[index];
        self.ground.server.object(wanted.kind, &wanted.namespace, &wanted.name)
    }

    fn is_held_by_guard(&self, index: usize) -> bool {
        self.workload(index).is_some_and(|known| known.view.held_by_guard())
    }

    /// `kubectl set image`.
    fn set_image(&mut self, index: usize, image: u32) {
        let Some(known) = self.workload(index) else { return };
        let reference = format!("{}:v{image}", known.view.id.name);
        let wanted = &mut self.user.desired[index];
        (wanted.before, wanted.image) = (wanted.image, image);
        self.user.rollouts += 1;
        let kind = self.ground.images.get(&image.to_string()).copied();
        self.ground.say(Who::User, || format!("sets image {reference} ({kind:?})"));
        self.change_template(index, |template| template["spec"]["containers"][0]["image"] = json!(reference));
    }

    /// What a chart does when the configuration has changed.
    fn new_checksum(&mut self, who: usize) {
        let index = who % self.user.desired.len();
        let overtakes = self.is_held_by_guard(index);
        self.ground.fault(if overtakes { Fault::ChecksumOvertaken } else { Fault::ChecksumChanged });
        self.user.tokens += 1;
        let checksum = format!("sum{}", self.user.tokens);
        self.ground.say(Who::User, || format!("gives workload {index} the checksum {checksum}"));
        self.change_template(index, |template| {
            template["metadata"]["annotations"]["checksum/config"] = json!(checksum);
        });
    }

    /// A change of a workload's template, with what the guard policy makes of it.
    fn change_template(&mut self, index: usize, change: impl FnOnce(&mut serde_json::Value)) {
        let Some(known) = self.workload(index).cloned() else { return };
        let mut next = serde_json::Value::clone(&known.json);
        change(&mut next["spec"]["template"]);
        if next["spec"]["replicas"] != 0
            && (known.view.held_by_guard()
                || known.view.opt_in() != OptIn::No && next["spec"]["template"] != known.json["spec"]["template"])
            && let Some(kind) = registry::of_workload(&known.view.id.group_kind)
        {
            next = kind.held(next);
        }
        self.ground.server.change_object(&known.key(), |object| *object = next);
    }

    fn scale(&mut self, who: usize, by: i32) {
        let index = who % self.user.desired.len();
        let Some(known) = self.workload(index).cloned() else { return };
        if known.view.daemon_set().is_some() {
            return;
        }
        let before = known.json["spec"]["replicas"].as_i64().unwrap_or(1);
        let replicas = (before + i64::from(by)).clamp(1, 8);
        if replicas == before {
            return;
        }
        self.ground.fault(if replicas > before { Fault::ScaledUp } else { Fault::ScaledDown });
        self.ground.say(Who::User, || format!("scales {} to {replicas}", known.view.id.name));
        let Ground { server, checks, .. } = &mut self.ground;
        server.change_object(&known.key(), |object| object["spec"]["replicas"] = json!(replicas));
        if let Some(set) = server.objects.get(&known.key()).filter(|set| set.view.is_pod_set()) {
            checks.wanted(server, set, false);
        }
    }

    /// uids of the pods of workloads that run.
    pub(super) fn some_pods(&self) -> Vec<&String> {
        let all = self.ground.server.pods.values().map(|pod| &pod.view);
        let live = all.filter(|pod| pod.gated && !pod.terminating && pod.node.is_some());
        live.map(|pod| &pod.id.uid).collect()
    }

    /// One of them.
    fn some_pod(&self, who: usize) -> Option<String> {
        let pods = self.some_pods();
        (!pods.is_empty()).then(|| pods[who % pods.len()].clone())
    }

    fn usurp(&mut self, length: Micros) {
        let now = self.ground.now;
        let Some(old) = self.controllers.iter().position(|each| each.leads(now)) else { return };
        let next = (old + 1) % self.controllers.len();
        if self.controllers[next].down_until.is_some() || next == old {
            return;
        }
        self.ground.fault(Fault::TwoLeaders);
        self.controllers[old].term = self.controllers[old].term.map(|(epoch, _)| (epoch, now + length));
        self.elevate(next);
    }
}
