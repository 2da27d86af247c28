//! Holds pods, rules and a ledger, and changes them as others and the controller do.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::GroupKind;
use hitless_api::ledger::LedgerLeader;
use hitless_api::{MicroTime, Reservation, TransitionLedgerSpec};
use hitless_gate::{
    Approvals, Candidate, Gate, GateInput, ImplicitBudget, ObjectRef, OwnerFacts, PodFacts, Reserved, RuleSet,
    Settings, Verdict, decide, release, reserve,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) pods: Vec<PodFacts>,
    pub(crate) owners: BTreeMap<ObjectRef, OwnerFacts>,
    pub(crate) rule_sets: Vec<RuleSet>,
    pub(crate) ledger: TransitionLedgerSpec,
    pub(crate) implicit: Option<ImplicitBudget>,
}

/// What happens between two rounds, to the pod with that number.
#[derive(Clone, Debug)]
pub(crate) enum Churn {
    Break(usize),
    Mend(usize),
    Delete(usize),
    Add(Box<PodFacts>),
    Relabel(usize, BTreeMap<String, String>),
    Adopt(usize, Option<u8>),
    Forget(usize),
    Reselect(usize, Value),
    Scale(usize, u32),
    Done(usize),
}

impl Cluster {
    pub(crate) fn reserved(&self) -> BTreeSet<String> {
        self.ledger.reservations.keys().cloned().collect()
    }

    pub(crate) fn decide(&self, candidates: &[Candidate]) -> Vec<Verdict> {
        let held = Reserved { since: Timestamp::UNIX_EPOCH, is_over: false };
        let input = GateInput {
            pods: &self.pods,
            owners: &self.owners,
            nodes: &BTreeMap::new(),
            rule_sets: &self.rule_sets,
            budgets: &[],
            disruption_budgets: &[],
            reserved: &self.reserved().into_iter().map(|uid| (uid, held.clone())).collect(),
            failed: &BTreeSet::new(),
            approvals: &Approvals::new(),
            settings: &Settings { implicit: self.implicit, ..Settings::default() },
        };
        decide(&input, candidates, Timestamp::UNIX_EPOCH)
    }

    pub(crate) fn apply(&mut self, churn: &Churn) {
        let count = self.pods.len().max(1);
        let number = |wanted: usize| wanted % count;
        match churn {
            Churn::Break(pod) => self.pods.get_mut(number(*pod)).into_iter().for_each(|pod| pod.available = false),
            Churn::Mend(pod) => self.pods.get_mut(number(*pod)).into_iter().for_each(|pod| pod.available = true),
            Churn::Delete(pod) if !self.pods.is_empty() => drop(self.pods.remove(number(*pod))),
            Churn::Add(pod) => {
                if self.pods.iter().all(|known| known.uid != pod.uid) {
                    self.pods.push(PodFacts::clone(pod));
                }
            }
            Churn::Relabel(pod, labels) => {
                self.pods.get_mut(number(*pod)).into_iter().for_each(|pod| pod.labels.clone_from(labels));
            }
            Churn::Adopt(pod, owner) => {
                self.pods.get_mut(number(*pod)).into_iter().for_each(|pod| pod.owner = owner.map(owner_key));
            }
            Churn::Forget(set) if !self.rule_sets.is_empty() => {
                self.rule_sets.remove(set % self.rule_sets.len());
            }
            Churn::Delete(_) | Churn::Forget(_) => {}
            Churn::Reselect(set, selector) => {
                let count = self.rule_sets.len().max(1);
                let selector: Option<LabelSelector> = serde_json::from_value(selector.clone()).unwrap();
                self.rule_sets.get_mut(set % count).into_iter().for_each(|set| set.spec.selector.clone_from(&selector));
            }
            Churn::Scale(owner, desired) => {
                let count = self.owners.len().max(1);
                self.owners.values_mut().nth(owner % count).into_iter().for_each(|facts| facts.desired = *desired);
            }
            Churn::Done(pod) => {
                let done = self.pods.get(number(*pod)).map(|pod| pod.uid.clone());
                release(&mut self.ledger, done);
            }
        }
    }

    /// Tells a gate that was told of `before` what has changed since.
    pub(crate) fn tell(&self, gate: &mut Gate, before: &Self) {
        for gone in before.pods.iter().filter(|pod| self.pods.iter().all(|known| known.uid != pod.uid)) {
            gate.remove_pod(&gone.uid);
        }
        for pod in self.pods.iter().filter(|pod| !before.pods.contains(pod)) {
            gate.upsert_pod(pod);
        }
        for gone in before.rule_sets.iter().filter(|set| self.rule_sets.iter().all(|known| known.name != set.name)) {
            gate.remove_rule_set(&gone.namespace, &gone.name);
        }
        for set in self.rule_sets.iter().filter(|set| !before.rule_sets.contains(set)) {
            gate.set_rule_set(set);
        }
        for (owner, facts) in &self.owners {
            gate.set_owner(owner, Some(*facts));
        }
        let held = Reserved { since: Timestamp::UNIX_EPOCH, is_over: false };
        gate.set_reserved(self.reserved().into_iter().map(|uid| (uid, held.clone())).collect());
    }

    /// Reserves what was allowed, as the controller does.
    pub(crate) fn reserve(&mut self, verdicts: &[Verdict]) {
        let reservation = |uid: &String| Reservation {
            id: format!("{uid}.op"),
            pod: uid.clone(),
            node: String::new(),
            owner: String::new(),
            rules: Vec::new(),
            since: MicroTime(Timestamp::UNIX_EPOCH),
            images: [].into(),
            from_images: [].into(),
            removal: false,
            while_unavailable: false,
            labels: [].into(),
            from_labels: [].into(),
            annotations: [].into(),
            from_annotations: [].into(),
        };
        let batch = verdicts
            .iter()
            .filter(|verdict| verdict.allowed)
            .map(|verdict| (verdict.pod_uid.clone(), reservation(&verdict.pod_uid)))
            .collect();
        reserve(&mut self.ledger, batch, &LedgerLeader::default()).unwrap();
    }

    pub(crate) fn members(&self, rule_set: &RuleSet) -> Vec<&PodFacts> {
        self.pods.iter().filter(|pod| rule_set.selects(pod)).collect()
    }

    /// Base, unavailable, available.
    pub(crate) fn counts(&self, members: &[&PodFacts]) -> (u64, u64, u64) {
        let free = |pod: &&&PodFacts| pod.available && !self.ledger.reservations.contains_key(&pod.uid);
        let available = members.iter().filter(free).count() as u64;
        let mut base = 0;
        let mut missing = 0;
        let owners: BTreeSet<Option<&ObjectRef>> = members.iter().map(|pod| pod.owner.as_ref()).collect();
        for owner in owners {
            let here = members.iter().filter(|pod| pod.owner.as_ref() == owner).count();
            let everywhere = self.pods.iter().filter(|pod| pod.owner.as_ref() == owner).count();
            let desired = owner.and_then(|owner| self.owners.get(owner)).map(|facts| u64::from(facts.desired));
            let wanted = desired.filter(|_| here == everywhere).unwrap_or(here as u64);
            base += wanted;
            missing += wanted.saturating_sub(here as u64);
        }
        (base, members.len() as u64 - available + missing, available)
    }
}

pub(crate) fn owner_key(number: u8) -> ObjectRef {
    let name = format!("owner{number}");
    ObjectRef { group_kind: GroupKind::new("apps", "Deployment"), namespace: "default".into(), uid: name.clone(), name }
}
