//! The stand-ins for agents: they take pods out of service and put them back.

use std::collections::BTreeMap;

use hitless_api::names::IN_SERVICE;
use hitless_api::pod::ConditionView;
use hitless_api::{Grant, GrantOp, MicroTime, NodeTransitionStatus, Outcome, Phase, Transition, TransitionResult};
use hitless_world::kubelet::set_condition;

use super::World;
use crate::clock::SECOND;
use crate::server::{Object, Request};
use crate::watch::Key;

impl World {
    /// Agents take note of grants and take the pods out of service.
    pub(super) fn begin(&mut self) {
        let end = self.server.now + self.fleet.operation_seconds * SECOND;
        let mut begun = Vec::new();
        for change in &self.server.outbox {
            let crate::server::Told::Is(Object::NodeTransition(each)) = &change.what else { continue };
            for grant in &each.view.spec.grants {
                if each.view.transition(grant).is_none() && self.begun.insert((grant.id.clone(), grant.granted.clone()))
                {
                    begun.push((change.key.clone(), grant.clone()));
                }
            }
        }
        for (_, grant) in &begun {
            let wall = self.server.stamp();
            self.server.change_pod(&mut self.checks, &grant.pod.uid, |pod| {
                let condition = ConditionView::new(false, "Leaving", grant.id.as_str(), Some(wall));
                pod.view.conditions.insert(IN_SERVICE, condition);
                set_condition(&mut pod.view, "Ready", false, wall);
            });
            *self.server.written.entry("pods/status").or_default() += 1;
        }
        if !begun.is_empty() {
            self.running.entry(end).or_default().extend(begun);
        }
        self.report.most = self.report.most.max(self.running.values().map(Vec::len).sum());
    }

    /// Agents whose operations have ended: images, InService, one report for each node.
    pub(super) fn agents(&mut self) {
        let mut results: BTreeMap<Key, Vec<Transition>> = BTreeMap::new();
        while let Some(entry) = self.running.first_entry().filter(|entry| *entry.key() <= self.server.now) {
            for (node, grant) in entry.remove() {
                let wall = self.server.stamp();
                if grant.op == GrantOp::Drain {
                    // It stays out of service, and its workload's controller deletes it.
                    results.entry(node).or_default().push(done(&grant, wall));
                    continue;
                }
                self.server.change_pod(&mut self.checks, &grant.pod.uid, |pod| {
                    for container in &mut pod.view.containers {
                        if let Some(change) = grant.containers.get(&container.name) {
                            container.image.clone_from(&change.to);
                        }
                    }
                    let set =
                        grant.annotations.iter().filter_map(|(name, change)| Some((name.clone(), change.to.clone()?)));
                    pod.view.annotations.extend(set);
                    let set = grant.labels.iter().filter_map(|(name, change)| Some((name.clone(), change.to.clone()?)));
                    pod.view.labels.extend(set);
                    set_condition(&mut pod.view, IN_SERVICE, true, wall);
                    set_condition(&mut pod.view, "Ready", true, wall);
                });
                *self.server.written.entry("pods").or_default() += 1;
                *self.server.written.entry("pods/status").or_default() += 1;
                results.entry(node).or_default().push(done(&grant, wall));
            }
        }
        for (node, mut transitions) in results {
            let Some(known) = self.server.transitions.get(&node) else { continue };
            let live = |old: &Transition| known.view.spec.grants.iter().any(|grant| old.is_of(grant));
            transitions.extend(known.view.transitions.iter().filter(|old| live(old)).cloned());
            let version = known.view.version.clone();
            let status = Box::new(NodeTransitionStatus { agent: None, transitions });
            self.server.serve(Request::Report { node, version, status }, &mut self.checks);
        }
    }
}

fn done(grant: &Grant, wall: jiff::Timestamp) -> Transition {
    let result = TransitionResult { outcome: Outcome::Done, reason: "Done".to_owned(), report: BTreeMap::new() };
    Transition { result: Some(result), ..Transition::at(grant, Phase::Returning, MicroTime(wall)) }
}
