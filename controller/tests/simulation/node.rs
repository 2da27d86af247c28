//! Agents in miniature: one step of one operation at a time, and every moment checked against the ledger.

use std::collections::BTreeMap;

use hitless_api::{
    Cancel, Change, Grant, GrantMode, MicroTime, Outcome, Phase, PostCheck, Propagation, Transition, TransitionResult,
};
use serde_json::{Value, json};

use crate::cluster::{Cluster, NAMESPACE, view};

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    RolledBack,
    Expired,
    /// Undone, and not ready for a while.
    Failed,
    /// Not known to this agent.
    UnsupportedMode,
    /// The agent sees that a container serves that was not thought to.
    ContainerServes,
}

fn annotate(pod: &mut Value, changes: &BTreeMap<String, Change>, to: impl Fn(&Change) -> Option<&String>) {
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    for (name, change) in changes {
        match to(change) {
            Some(value) => annotations.insert(name.clone(), json!(value)),
            None => annotations.remove(name),
        };
    }
}

impl Cluster {
    pub(crate) fn report(&mut self, grant: &Grant, phase: Phase, result: Option<(Outcome, &str)>) {
        let (version, since) = (self.bump(), MicroTime(self.now));
        let gap_milliseconds = self.gap_milliseconds.filter(|_| result.is_some());
        let resets = self.resets.filter(|_| grant.mode == GrantMode::Leave);
        let numbers = [
            (Propagation::REPORTED, self.propagation),
            (TransitionResult::OPEN_WHEN_NOT_READY, resets.map(|_| 4)),
            (TransitionResult::RESET_WHEN_NOT_READY, resets),
        ];
        let report: BTreeMap<String, i64> =
            numbers.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?))).collect();
        let Some(node) =
            self.transitions.values_mut().find(|node| node.spec.grants.iter().any(|each| each.id == grant.id))
        else {
            return;
        };
        let result =
            result.map(|(outcome, reason)| TransitionResult { outcome, reason: reason.into(), report: report.clone() });
        node.transitions.retain(|each| each.id != grant.id);
        node.transitions.push(Transition {
            gap_milliseconds,
            ready_milliseconds: gap_milliseconds,
            result,
            ..Transition::at(grant, phase, since)
        });
        node.agent = Some(self.agent.clone());
        node.version.resource_version = version;
    }

    /// Entries whose grant is gone are dropped.
    pub(crate) fn agents_forget(&mut self) {
        let version = self.bump();
        for node in self.transitions.values_mut() {
            let before = node.transitions.len();
            node.transitions.retain(|each| node.spec.grants.iter().any(|grant| grant.id == each.id));
            if node.transitions.len() != before {
                node.version.resource_version.clone_from(&version);
            }
        }
    }

    pub(crate) fn change_pod(&mut self, uid: &str, change: impl FnOnce(&mut serde_json::Value)) {
        let version = self.bump();
        if let Some(pod) = self.pods.get_mut(uid) {
            change(pod);
            pod["metadata"]["resourceVersion"] = json!(version);
        }
    }

    pub(crate) fn set_ready(&mut self, uid: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let since = self.now.round(jiff::Unit::Second).unwrap().to_string();
        self.change_pod(uid, |pod| {
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": status, "lastTransitionTime": since}, {"type": "hitless.dev/InService", "status": status}]);
        });
    }

    /// The next step of the `index`-th operation that has not ended. `fate` is how it ends once it is operated.
    pub(crate) fn agent(&mut self, index: usize, fate: Fate) -> bool {
        self.agents_forget();
        let live: Vec<(Grant, Option<Phase>)> = self
            .transitions
            .values()
            .flat_map(|node| node.spec.grants.iter().map(|grant| (grant.clone(), node.transition(grant).cloned())))
            .filter(|(_, transition)| transition.as_ref().is_none_or(|transition| transition.result.is_none()))
            .map(|(grant, transition)| (grant, transition.map(|transition| transition.phase)))
            .collect();
        let Some((grant, phase)) = live.get(index % live.len().max(1)) else { return false };
        let uid = grant.pod.uid.as_str();
        let Some(pod) = self.pods.get(uid).map(view) else {
            self.report(grant, Phase::Returning, Some((Outcome::Cancelled, "PodGone")));
            return true;
        };
        let change = &grant.containers["web"];
        match phase {
            None if fate == Fate::Expired => self.report(grant, Phase::Granted, Some((Outcome::Refused, "Expired"))),
            None if fate == Fate::UnsupportedMode => {
                self.report(grant, Phase::Granted, Some((Outcome::Refused, "UnsupportedMode")));
            }
            None if fate == Fate::ContainerServes => {
                self.report(grant, Phase::Granted, Some((Outcome::Refused, "ContainerServes")));
            }
            None | Some(Phase::Draining) if grant.cancel.is_some() => {
                self.set_ready(uid, true);
                self.report(grant, Phase::Returning, Some((Outcome::Cancelled, "WishGone")));
            }
            None if pod.containers[0].image != change.from => {
                self.report(grant, Phase::Granted, Some((Outcome::Refused, "ImageChanged")));
            }
            None => {
                self.set_ready(uid, false);
                self.report(grant, Phase::Draining, None);
            }
            Some(Phase::Draining) => {
                self.change_pod(uid, |pod| {
                    pod["spec"]["containers"][0]["image"] = json!(change.to);
                    annotate(pod, &grant.annotations, |change| change.to.as_ref());
                });
                self.report(grant, Phase::Verifying, None);
            }
            Some(_)
                if matches!(fate, Fate::RolledBack | Fate::Failed)
                    || grant.cancel.as_ref().is_some_and(Cancel::undoes) =>
            {
                self.change_pod(uid, |pod| {
                    pod["spec"]["containers"][0]["image"] = json!(change.from);
                    annotate(pod, &grant.annotations, |change| change.from.as_ref());
                });
                if fate != Fate::Failed {
                    self.set_ready(uid, true);
                }
                self.report(
                    grant,
                    Phase::Returning,
                    Some((if fate == Fate::Failed { Outcome::Failed } else { Outcome::RolledBack }, "NotReady")),
                );
            }
            Some(Phase::Checking) if grant.post_check == Some(PostCheck::Pending) => return false,
            Some(_) if grant.post_check == Some(PostCheck::Pending) => self.report(grant, Phase::Checking, None),
            Some(_) => {
                self.set_ready(uid, true);
                self.report(grant, Phase::Returning, Some((Outcome::Done, "Done")));
            }
        }
        true
    }

    /// A pod whose operation has ended without it becomes ready after all.
    pub(crate) fn recover(&mut self) {
        let over = self.transitions.values().flat_map(|node| {
            let over = |grant: &&Grant| node.transition(grant).is_some_and(|transition| transition.result.is_some());
            node.spec.grants.iter().filter(over).map(|grant| grant.pod.uid.clone())
        });
        for uid in over.collect::<Vec<_>>() {
            if self.pods.get(&uid).is_some_and(|pod| !view(pod).ready()) {
                self.set_ready(&uid, true);
            }
        }
    }

    /// Pods that are out of service because of us never outnumber the budget, and each has its place in the ledger.
    pub(crate) fn assert_within_budget(&self, max_unavailable: usize) {
        let out: Vec<_> = self.pods.values().map(view).filter(|pod| !pod.ready()).collect();
        assert!(out.len() <= max_unavailable, "{} pods are out of service", out.len());
        for pod in out {
            let place = self.ledgers.get(NAMESPACE).and_then(|ledger| ledger.spec.reservations.get(&pod.id.uid));
            assert!(place.is_some(), "{} is out of service without a place in the ledger", pod.id.name);
        }
    }
}
