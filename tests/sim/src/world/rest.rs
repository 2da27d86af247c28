//! What must be true once nothing happens any more.

use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use hitless_api::{Grant, Outcome};
use hitless_rollout::round::{Round, WaitReason};
use hitless_workloads::{Body, Object, Template};
use hitless_world::native::stateful_set::ordinal;
use serde_json::Value;

use super::World;
use crate::checks::{colla_set_unfinished, image_number, partition};
use crate::kubelet::Image;
use crate::server::WorkloadObject;
use crate::trace::Who;
use crate::user::Wanted;

impl World {
    /// Checks everything; `cured`: every rollout that is not hopeless must have reached its target.
    pub(super) fn rest(&mut self, cured: bool) -> bool {
        let sets = self.colla_sets_at_rest();
        let faults = sets
            .or_else(|| self.pods_at_rest(cured))
            .or_else(|| self.places_at_rest())
            .or_else(|| self.services_at_rest());
        let faults = faults
            .or_else(|| self.operations_at_rest())
            .or_else(|| self.bad_versions_at_rest())
            .or_else(|| self.halted_deployments_at_rest())
            .or_else(|| self.rollouts_at_rest(cured));
        let faults = faults.or_else(|| self.jobs_at_rest(cured));
        if let Some(what) = faults {
            let waits = self.unrest();
            self.ground.say(Who::User, || format!("finds it at rest: {waits}"));
            self.ground.checks.fail(self.ground.now, what);
            return false;
        }
        true
    }

    fn pods_at_rest(&self, cured: bool) -> Option<String> {
        self.ground.server.pods.values().map(|pod| &pod.view).find_map(|pod| {
            let name = &pod.id.name;
            if pod.terminating && self.is_on_lost_node(pod.node.as_deref()) {
                return None;
            }
            if pod.terminating {
                return Some(format!("pod {name} is still being deleted"));
            }
            if !pod.gated {
                return None;
            }
            if pod.labels.contains_key(labels::COMPANION) && pod.in_service().is_none() {
                // It waits for its version to run, or for a rollout that waits for something else.
                let owner = pod.owner.as_ref().map_or("", |owner| owner.uid.as_str());
                let mut held = self.ground.server.objects.values().filter(|each| each.view.held_by_guard());
                let is_needed = held.any(|each| each.view.id.uid == owner);
                return (!is_needed).then(|| format!("companion pod {name} was left behind"));
            }
            if pod.labels.contains_key(labels::COMPANION) && self.is_unneeded(pod) && !self.is_kept_by_rules(pod, cured)
            {
                return Some(format!("companion pod {name} was left in service: {}", self.unrest()));
            }
            if !pod.in_service().is_some_and(|is| is.is_true) && !self.is_on_lost_node(pod.node.as_deref()) {
                return Some(format!("pod {name} was left out of service"));
            }
            let is_lost = self.is_on_lost_node(pod.node.as_deref());
            (self.runs_well(pod) && !pod.ready() && !is_lost).then(|| format!("pod {name} was left not Ready"))
        })
    }

    /// A companion pod whose workload's rollout has ended, and whose own pods serve; some rules never let it go.
    fn is_unneeded(&self, companion: &PodView) -> bool {
        let server = &self.ground.server;
        let Some(owner) = &companion.owner else { return true };
        let Some(workload) = server.object(&owner.group_kind.kind, &owner.namespace, &owner.name) else { return true };
        let own = |pod: &PodView| {
            let mut sets = server.owned_by(&owner.uid);
            sets.any(|set| pod.owner.as_ref().is_some_and(|owner| owner.uid == set.view.id.uid))
        };
        let wanted =
            self.user.desired.iter().find(|wanted| wanted.name == owner.name && wanted.namespace == owner.namespace);
        let is_served = server.pods.values().any(|pod| own(&pod.view) && pod.view.available());
        is_served && !workload.view.held_by_guard() && wanted.is_none_or(|wanted| !wanted.hopeless)
    }

    /// The last decision names a rule that does not let the pod go. Once all is cured none does.
    fn is_kept_by_rules(&self, pod: &PodView, cured: bool) -> bool {
        let leader = self.controllers.iter().find(|each| each.leads(self.ground.now)).filter(|_| !cured);
        let mut verdicts = leader.into_iter().flat_map(|leader| &leader.last.verdicts);
        verdicts.any(|verdict| verdict.pod.uid == pod.id.uid && verdict.waiting == Some(WaitReason::Rules))
    }

    fn runs_well(&self, pod: &PodView) -> bool {
        pod.containers.iter().all(|container| {
            let number = image_number(&container.image).unwrap_or_default();
            let repository = container.image.split([':', '@']).next().unwrap_or_default();
            let servers = self.ground.servers.as_ref();
            let probe = servers.and_then(|servers| servers.probe((&pod.id.namespace, repository)));
            match self.ground.images.get(number) {
                Some(Image::Good(after)) => probe.is_none_or(|probe| *after <= probe),
                _ => false,
            }
        })
    }

    fn places_at_rest(&self) -> Option<String> {
        let server = &self.ground.server;
        let places = server.ledgers.values().flat_map(|ledger| &ledger.spec.reservations);
        let place = places.into_iter().find_map(|(uid, place)| {
            let pod = server.pods.get(uid.as_str());
            // On a node that is lost it stays as long as the pod.
            let is_lost = pod.is_some_and(|pod| self.is_on_lost_node(pod.view.node.as_deref()));
            (!is_lost && pod.is_none_or(|pod| pod.view.ready()))
                .then(|| format!("a place of {} was left in the ledger", place.pod))
        });
        place.or_else(|| {
            server.transitions.values().find_map(|node| {
                let live = node.view.unfinished().next().filter(|_| !self.is_on_lost_node(Some(&node.view.node)));
                live.map(|grant| format!("the grant of {} was left on {}", grant.pod.name, node.view.node))
            })
        })
    }

    /// No ReplicaSet makes pods of a version that was judged bad, as far as its Deployment knows a version before.
    fn halted_deployments_at_rest(&self) -> Option<String> {
        let objects = || self.ground.server.objects.values().map(|each| &*each.view);
        let sets_of = |owner: &str| {
            let is_own = |object: &&Object| object.owner.as_ref().is_some_and(|of| of.uid == owner);
            objects().filter(is_own).filter_map(Object::replica_set).collect::<Vec<_>>()
        };
        objects().filter_map(Object::deployment).find_map(|deployment| {
            let mark = deployment.annotations.get(annotations::HALTED)?;
            let mark: Value = serde_json::from_str(mark).ok()?;
            let bad = deployment.body.template.revision();
            let sets = sets_of(&deployment.id.uid);
            let has_good = sets.iter().any(|set| mark["backTo"] == set.body.template.revision());
            let makes_bad = sets.iter().any(|set| set.body.replicas > 0 && set.body.template.revision() == bad);
            (deployment.body.paused && mark["revision"] == bad && has_good && makes_bad)
                .then(|| format!("{} is halted, and its ReplicaSet makes pods of the bad version", deployment.id.name))
        })
    }

    /// No pod of a StatefulSet or DaemonSet is made from a version that was judged bad: its template was put back.
    fn bad_versions_at_rest(&self) -> Option<String> {
        let server = &self.ground.server;
        // A restart that fails where nothing is rolled says nothing of the version.
        let is_restart = |grant: &Grant| {
            let name = |image: &str| image.split('@').next().map(str::to_owned);
            !grant.containers.is_empty()
                && grant.containers.values().all(|change| name(&change.from) == name(&change.to))
        };
        let judged = server.transitions.values().flat_map(|node| {
            let is_bad = |grant: &&Grant| {
                if is_restart(grant) {
                    return false;
                }
                let result = node.view.transition(grant).and_then(|transition| transition.result.as_ref());
                result.is_some_and(|result| result.outcome == Outcome::RolledBack)
            };
            node.view.spec.grants.iter().filter(is_bad)
        });
        judged.into_iter().find_map(|grant| {
            let (owner, bad) = (grant.owner.as_ref()?, grant.annotations.get(annotations::REVISION)?.to.as_deref()?);
            let workload = server.object(&owner.group_kind.kind, &owner.namespace, &owner.name)?;
            let template = match &workload.view.body {
                Body::StatefulSet(body) => &body.template,
                Body::DaemonSet(body) => &body.template,
                Body::Deployment(_)
                | Body::ReplicaSet(_)
                | Body::CollaSet(_)
                | Body::CloneSet(_)
                | Body::ResourceContext(_)
                | Body::Claim(_)
                | Body::PodDecoration(_)
                | Body::SidecarSet(_)
                | Body::SidecarInjection(_)
                | Body::ControllerRevision(_)
                | Body::Request(_)
                | Body::Omitted(_) => return None,
            };
            (template.revision() == bad).then(|| {
                format!("{} was judged bad at pod {}, and its pods are made from it still", owner.name, grant.pod.name)
            })
        })
    }

    fn rollouts_at_rest(&mut self, cured: bool) -> Option<String> {
        let now = self.ground.now;
        let Some(leader) = self.controllers.iter().find(|each| each.leads(now)) else {
            return Some("nobody leads".to_owned());
        };
        let explained = self.explained().unwrap_or_default();
        for wanted in &self.user.desired {
            let Some(workload) = self.ground.server.object(wanted.kind, &wanted.namespace, &wanted.name) else {
                continue;
            };
            let Some(unfinished) = self.unfinished(workload) else { continue };
            // Its native controller has it, and names its own obstacles.
            if !cured && self.ground.checks.rolls(&workload.view.id.uid) {
                *self.obstacles.entry("Native".to_owned()).or_default() += 1;
                continue;
            }
            let Some(obstacle) = obstacle(&leader.last, &workload.view) else {
                return Some(format!("{}: {unfinished}, and nothing says why", wanted.name));
            };
            if self.ground.servers.is_some()
                && let Err(what) = Self::exit(&explained, &workload.view.id)
            {
                return Some(format!("{}: {unfinished}, and there is no exit: {what}", wanted.name));
            }
            if matches!(obstacle.as_str(), "ServicePublishing" | "ServiceOpen") {
                return Some(format!("{}: {unfinished}, and its Services are not at rest ({obstacle})", wanted.name));
            }
            // Nobody takes the only server out of its load balancer. Its sessions may last longer than a drain, and then the rule
            // may want that the operation is given up; those of a pod that leaves for good, too.
            // A rule may count pods of others, which stay on lost nodes, and keep one before whose turn no other one goes.
            let is_kept = obstacle == "TrafficLast"
                || (matches!(obstacle.as_str(), "Rules" | "NotItsTurn") && self.has_bad_nodes(&wanted.namespace))
                || self.was_aborted(&workload.view)
                || self.is_on_bad_nodes(wanted);
            if cured && !wanted.hopeless && !is_kept && !self.waits_for_deletion(&workload.view.id.uid) {
                let why = self.unrest();
                return Some(format!(
                    "{}: {unfinished} though nothing should be in the way ({obstacle}): {why}",
                    wanted.name
                ));
            }
            *self.obstacles.entry(obstacle).or_default() += 1;
        }
        None
    }

    /// Some pod of the workload is on a node that is lost or has no agent, or cannot be replaced where helper pods are refused.
    fn is_on_bad_nodes(&self, wanted: &Wanted) -> bool {
        let mut pods = self.ground.server.pods.values().map(|pod| &pod.view);
        let is_own = |pod: &PodView| {
            pod.id.namespace == wanted.namespace && pod.labels.get("app").is_some_and(|app| *app == wanted.name)
        };
        pods.any(|pod| is_own(pod) && self.is_on_bad_node(pod.node.as_deref()))
            || self.ground.server.refuses_helpers(&wanted.namespace)
    }

    fn has_bad_nodes(&self, namespace: &str) -> bool {
        let mut pods = self.ground.server.pods.values().filter(|pod| pod.view.id.namespace == namespace);
        pods.any(|pod| self.is_on_bad_node(pod.view.node.as_deref()))
    }

    fn was_aborted(&self, workload: &Object) -> bool {
        let server = &self.ground.server;
        let mut results = server.transitions.values().flat_map(|node| {
            let own = node
                .view
                .spec
                .grants
                .iter()
                .filter(|grant| grant.owner.as_ref().is_some_and(|owner| owner.uid == workload.id.uid));
            own.filter_map(|grant| node.view.transition(grant)?.result.as_ref())
        });
        let may_be = server.balancer.is_some() || self.ground.colla_sets.is_some();
        may_be && results.any(|result| result.reason == "DeadlineAborted")
    }

    /// Why the rollout is not at its target.
    fn unfinished(&self, workload: &WorkloadObject) -> Option<String> {
        let server = &self.ground.server;
        if workload.view.held_by_guard() || workload.json["spec"]["paused"] == true {
            return Some("it is still held".to_owned());
        }
        if workload.view.is_pod_set() {
            return colla_set_unfinished(server, workload);
        }
        let image = workload.json["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
        let wanted = image.and_then(image_number);
        let uid = &workload.view.id.uid;
        let mut owners: Vec<&str> = server.owned_by(uid).map(|each| each.view.id.uid.as_str()).collect();
        owners.push(uid);
        let partition = partition(&workload.view);
        let mut pods: Vec<&PodView> = server.pods.values().map(|pod| &*pod.view).collect();
        pods.retain(|pod| {
            // One that is being deleted on a lost node stays there, and another one is made.
            let is_lost = pod.terminating && self.is_on_lost_node(pod.node.as_deref());
            !is_lost
                && !pod.labels.contains_key(labels::COMPANION)
                && pod.owner.as_ref().is_some_and(|owner| owners.contains(&owner.uid.as_str()))
                && (partition == 0 || ordinal(pod).is_some_and(|ordinal| ordinal >= partition))
        });
        if let Some(pod) = pods.iter().find(|pod| image_number(&pod.containers[0].image) != wanted) {
            return Some(format!("pod {} has image {}", pod.id.name, pod.containers[0].image));
        }
        // A pod that was brought to no revision has the annotations with which it was made.
        let template = Template::new(workload.json["spec"]["template"].clone());
        let checksum = template.content()["metadata"]["annotations"]["checksum/config"].as_str();
        let was_started = |pod: &&&PodView| match pod.annotations.get(annotations::REVISION) {
            Some(revision) => revision == template.revision(),
            None => pod.annotations.get("checksum/config").map(String::as_str) == checksum,
        };
        if let Some(pod) = pods.iter().find(|pod| !was_started(pod)) {
            return Some(format!("pod {} was not restarted for {checksum:?}", pod.id.name));
        }
        let mut sets = server.owned_by(uid).filter_map(|each| each.view.replica_set());
        let mixed = sets.find(|set| set.body.template.is_mixed());
        mixed.map(|set| format!("ReplicaSet {} has a mixed template", set.id.name))
    }

    /// What is still going on, for people.
    pub(super) fn unrest(&self) -> String {
        let now = self.ground.now;
        let leader = self.controllers.iter().find(|each| each.leads(now));
        let waits = leader.map(|leader| {
            let waits = leader.last.verdicts.iter().map(|verdict| {
                format!("{}: {}", verdict.pod.name, verdict.text().unwrap_or_else(|| "granted".to_owned()))
            });
            waits.collect::<Vec<_>>().join("; ")
        });
        waits.unwrap_or_else(|| "nobody leads".to_owned())
    }
}

/// The reason that the last decision names for a workload that does not go on.
fn obstacle(last: &Round, workload: &Object) -> Option<String> {
    let of_pods = last.verdicts.iter().filter(|verdict| verdict.owner.as_ref() == Some(&workload.id));
    let waiting = of_pods.filter_map(|verdict| verdict.waiting.as_ref()).find(|waiting| !waiting.is_brief());
    let event = || {
        let of_workload =
            |note: &&hitless_api::event::EventNote| note.regarding.uid.as_deref() == Some(&workload.id.uid);
        last.events.iter().filter(of_workload).find(|note| note.severity == hitless_runtime::events::Severity::Warning)
    };
    waiting.map(|waiting| waiting.reason().to_owned()).or_else(|| event().map(|note| note.reason.to_owned()))
}
