//! Services: those that a run begins with, what their owners do to them, and what goes wrong around a Hold.

use hitless_api::{Grant, GrantMode};

use super::World;
use crate::balancer::Balancer;
use crate::clock::{MS, SECOND};
use crate::faults::Fault;
use crate::ground::Ground;
use crate::manifest::{Manage, Manifest};
use crate::ports;
use crate::server::key;
use crate::trace::Who;
use crate::user::{Deed, User};

/// Most applications have a Service, and sometimes a namespace has one for all of them.
pub(super) fn services(namespace: &str, user: &mut User, ground: &mut Ground) {
    let own: Vec<String> =
        user.desired.iter().filter(|wanted| wanted.namespace == namespace).map(|wanted| wanted.name.clone()).collect();
    let mut manifests = Vec::new();
    for name in own {
        if ground.chance.happens(8_500) {
            manifests.push(Manifest::new(namespace, &name, ("app", &name)));
        }
    }
    if ground.chance.happens(1_500) {
        manifests.push(Manifest::new(namespace, "all", ("all", "yes")));
    }
    manifests.extend(own_services(namespace, user, ground));
    let is_shared = ground.ports.as_mut().is_some_and(ports::is_shared);
    if is_shared && !manifests.iter().any(|manifest| manifest.name == "all") {
        manifests.push(Manifest::new(namespace, "all", ("all", "yes")));
    }
    for mut manifest in manifests {
        let Ground { chance, node_local, server, checks, has_companions, ports, .. } = ground;
        if let Some(ports) = ports {
            ports::of_service(ports, &mut manifest);
        }
        manifest.headless = chance.happens(700);
        manifest.node_local = node_local.happens(1_500);
        manifest.applied = chance.happens(6_000);
        manifest.open =
            chance.pick(&[None, None, None, None, None, Some(false), Some(false), Some(may_open(*has_companions))]);
        manifest.pool = server.balancer.as_mut().and_then(Balancer::pool);
        server.put_service(manifest.make(), checks);
        user.services.push(manifest);
    }
}

/// Some StatefulSets have a Service for each of their pods.
fn own_services(namespace: &str, user: &User, ground: &mut Ground) -> Vec<Manifest> {
    let Some(chance) = &mut ground.ports else { return Vec::new() };
    let sets = user.desired.iter().filter(|wanted| wanted.namespace == namespace && wanted.kind == "StatefulSet");
    let sets: Vec<&str> = sets.filter(|_| ports::has_own_services(chance)).map(|wanted| wanted.name.as_str()).collect();
    let pods = ground.server.pods.values().map(|pod| &pod.view.id).filter(|id| id.namespace == namespace);
    let is_own = |name: &&str| sets.iter().any(|set| name.strip_prefix(*set).is_some_and(|rest| rest.starts_with('-')));
    let names = pods.map(|id| id.name.as_str()).filter(is_own);
    names.map(|name| Manifest::new(namespace, name, (ports::POD_NAME, name))).collect()
}

impl World {
    /// What a Service's owner does to it.
    pub(super) fn manage(&mut self, index: usize, how: Manage) {
        let count = self.user.services.len();
        let Some(manifest) = self.user.services.get_mut(index % count.max(1)) else { return };
        let at = key(&manifest.namespace, &manifest.name);
        let Some(known) = self.ground.server.services.get(&at).cloned() else { return };
        let is_held = known.view.open && known.view.held_by.is_some();
        let now = self.ground.now;
        let (object, fault) = match how {
            Manage::Apply(open) if manifest.applied => {
                manifest.open = open;
                (Some(manifest.apply(&known.object)), Fault::ServiceApplied)
            }
            Manage::Apply(open) | Manage::Replace(open) => {
                manifest.open = open;
                (Some(manifest.replace(&known.view.version.uid)), Fault::ServiceReplaced)
            }
            Manage::Delete => (None, Fault::ServiceDeleted),
        };
        self.ground.say(Who::User, || format!("Service {at}: {how:?}"));
        if is_held {
            self.ground.fault(fault);
        }
        let Ground { server, checks, .. } = &mut self.ground;
        if let Some(object) = object {
            server.put_service(object, checks);
        } else {
            server.remove_service(&at, checks);
            let again = now + self.ground.chance.delay(50 * MS, 10 * SECOND);
            self.user.at(again, Deed::RemakeService(index % count));
        }
    }

    pub(super) fn remake_service(&mut self, index: usize) {
        let Some(manifest) = self.user.services.get_mut(index) else { return };
        let Ground { server, checks, .. } = &mut self.ground;
        if !server.services.contains_key(&key(&manifest.namespace, &manifest.name)) {
            server.put_service(manifest.make(), checks);
        }
    }

    /// Where a pod is held, or about to be, somebody may meddle at once.
    pub(super) fn trouble(&mut self) {
        for uid in std::mem::take(&mut self.ground.troubles) {
            if self.ground.chance.happens(self.ground.weather.meddled)
                && let Some(deed) = self.meddling(&uid)
            {
                let at = self.ground.now + self.ground.chance.delay(MS, 4 * SECOND);
                self.user.at(at, deed);
            }
        }
    }

    fn meddling(&mut self, uid: &str) -> Option<Deed> {
        let pod = self.ground.server.pods.get(uid)?.view.clone();
        let who = self.some_pods().iter().position(|known| **known == *uid)?;
        let services = &self.user.services;
        let selects = |manifest: &Manifest| {
            let (label, value) = &manifest.selector;
            manifest.namespace == pod.id.namespace && pod.labels.get(label) == Some(value)
        };
        let service = services.iter().position(selects);
        let now = self.ground.now;
        let leader = self.controllers.iter().position(|each| each.leads(now));
        let wanted = self.user.desired.iter().position(|wanted| pod.labels.get("app") == Some(&wanted.name));
        let node = pod.node.as_deref().and_then(super::node_index);
        let opens = may_open(self.ground.has_companions);
        let chance = &mut self.ground.chance;
        let some = chance.delay(100 * MS, 20 * SECOND);
        let open = chance.pick(&[None, Some(false), Some(false), Some(opens)]);
        Some(match chance.index(10) {
            0..2 => Deed::Manage(service?, Manage::Apply(open)),
            2 => Deed::Manage(service?, Manage::Replace(open)),
            3 => Deed::Manage(service?, Manage::Delete),
            4 => Deed::DeletePod(who),
            5 => Deed::CrashPod(who),
            6 => Deed::KillController(leader?, some),
            7 => Deed::KillAgent(node?, some),
            8 => Deed::ChangeBack(wanted?),
            _ => Deed::Usurp(some),
        })
    }

    /// Whether an operation holds this pod, or any pod.
    pub(super) fn is_held(&self, uid: Option<&str>) -> bool {
        let mut grants = self.ground.server.transitions.values().flat_map(|node| node.view.unfinished());
        let held = |grant: &Grant| grant.mode == GrantMode::Hold && uid.is_none_or(|uid| grant.pod.uid == uid);
        grants.any(held)
    }

    /// Every Service is as its owner wants it.
    pub(super) fn services_at_rest(&self) -> Option<String> {
        let holding = self.nodes.iter().find(|node| node.agent.is_holding());
        if let Some(node) = holding {
            return Some(format!("the agent of n{} was left holding clients", node.agent.index));
        }
        self.user.services.iter().find_map(|manifest| {
            let at = key(&manifest.namespace, &manifest.name);
            let view = &self.ground.server.services.get(&at)?.view;
            if let Some(mark) = &view.held_by {
                return Some(format!("Service {at} was left with the mark {mark}"));
            }
            let words = |open: bool| if open { "open" } else { "closed" };
            let (is, wanted) = (words(view.open), words(manifest.is_open()));
            (is != wanted).then(|| format!("Service {at} was left {is}, and its owner wants it {wanted}"))
        })
    }
}

/// An owner's Service that is open for good. Where companions may run a single pod behind it goes natively, which nobody plays here.
fn may_open(has_companions: bool) -> bool {
    !has_companions
}
