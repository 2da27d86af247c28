//! A namespace with a few pods, rules and budgets.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::GroupKind;
use hitless_gate::{
    Answer, Approval, Approvals, Budget, Candidate, DisruptionBudget, Gate, GateInput, ImplicitBudget, ObjectRef,
    OwnerFacts, PodFacts, Question, Reserved, RuleSet, Settings, Verdict, decide,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Pods `p0`, `p1`, … of one Deployment, all available, with label `app=web`.
#[derive(Default)]
pub(crate) struct Namespace {
    pub(crate) pods: Vec<PodFacts>,
    pub(crate) owners: BTreeMap<ObjectRef, OwnerFacts>,
    pub(crate) nodes: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) rule_sets: Vec<RuleSet>,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) disruption_budgets: Vec<DisruptionBudget>,
    pub(crate) reserved: BTreeMap<String, Reserved>,
    pub(crate) failed: BTreeSet<String>,
    pub(crate) approvals: Approvals,
    pub(crate) implicit: Option<ImplicitBudget>,
    pub(crate) skipped_kinds: BTreeSet<String>,
    pub(crate) now: Timestamp,
}

pub(crate) fn owner(name: &str) -> ObjectRef {
    ObjectRef {
        group_kind: GroupKind::new("apps", "Deployment"),
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
    }
}

pub(crate) fn pod(name: &str, owner: Option<ObjectRef>) -> PodFacts {
    PodFacts {
        uid: format!("uid-{name}"),
        namespace: "default".into(),
        name: name.into(),
        labels: BTreeMap::from([("app".into(), "web".into())]),
        node: None,
        owner,
        available: true,
        leaving: false,
        unavailable_since: None,
        returned_at: None,
    }
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

impl Namespace {
    pub(crate) fn of(count: u32) -> Self {
        let pods = (0..count).map(|number| pod(&format!("p{number}"), Some(owner("web")))).collect();
        let owners = BTreeMap::from([(owner("web"), OwnerFacts::of(count))]);
        Self { pods, owners, ..Self::default() }
    }

    pub(crate) fn desired(mut self, desired: u32) -> Self {
        self.owners.insert(owner("web"), OwnerFacts::of(desired));
        self
    }

    /// Adds a PodTransitionRule for `app=web`.
    pub(crate) fn rules(self, name: &str, rules: impl Into<Value>) -> Self {
        let rules: Value = rules.into();
        self.rule_set(name, json!({"selector": {"matchLabels": {"app": "web"}}, "rules": rules}))
    }

    /// Adds a PodTransitionRule `ptr` for `app=web` with one rule.
    pub(crate) fn rule(self, rule: impl Into<Value>) -> Self {
        let rule: Value = rule.into();
        self.rules("ptr", json!([rule]))
    }

    pub(crate) fn rule_set(mut self, name: &str, spec: Value) -> Self {
        let spec = serde_json::from_value(spec).unwrap();
        self.rule_sets.push(RuleSet { name: name.into(), namespace: "default".into(), spec, unreadable: None });
        self
    }

    /// Adds a TransitionBudget `b` for `app=web`.
    pub(crate) fn budget(self, spec: impl Into<Value>) -> Self {
        let mut spec: Value = spec.into();
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        self.budget_in("default", "b", spec)
    }

    pub(crate) fn budget_in(mut self, namespace: &str, name: &str, spec: Value) -> Self {
        let spec = serde_json::from_value(spec).unwrap();
        self.budgets.push(Budget {
            name: name.into(),
            namespace: namespace.into(),
            uid: name.into(),
            spec,
            unreadable: None,
        });
        self
    }

    /// Adds a PodDisruptionBudget.
    pub(crate) fn pdb(mut self, selector: Value, min: Value, max: Value) -> Self {
        self.disruption_budgets.push(DisruptionBudget {
            name: format!("pdb{}", self.disruption_budgets.len()),
            namespace: "default".into(),
            selector: serde_json::from_value(selector).unwrap(),
            min_available: serde_json::from_value(min).unwrap(),
            max_unavailable: serde_json::from_value(max).unwrap(),
        });
        self
    }

    pub(crate) fn max(self, value: impl Into<Value>) -> Self {
        let value: Value = value.into();
        self.rules("max", json!([{"name": "r", "availablePolicy": {"maxUnavailableValue": value}}]))
    }

    pub(crate) fn min(self, value: impl Into<Value>) -> Self {
        let value: Value = value.into();
        self.rules("min", json!([{"name": "r", "availablePolicy": {"minAvailableValue": value}}]))
    }

    pub(crate) fn down(self, names: &[&str]) -> Self {
        self.each(names, |pod| pod.available = false)
    }

    pub(crate) fn each(mut self, names: &[&str], change: impl Fn(&mut PodFacts)) -> Self {
        self.pods.iter_mut().filter(|pod| names.contains(&pod.name.as_str())).for_each(change);
        self
    }

    pub(crate) fn reserved(mut self, names: &[&str]) -> Self {
        let held = Reserved { since: Timestamp::UNIX_EPOCH, is_over: false };
        self.reserved.extend(names.iter().map(|name| (format!("uid-{name}"), held.clone())));
        self
    }

    pub(crate) fn failed(mut self, names: &[&str]) -> Self {
        self.failed.extend(names.iter().map(|name| format!("uid-{name}")));
        self
    }

    pub(crate) fn label(self, name: &str, key: &str, value: &str) -> Self {
        self.each(&[name], |pod| drop(pod.labels.insert(key.into(), value.into())))
    }

    /// Puts the pods on these nodes in turn; a node `a1` is in zone `a`.
    pub(crate) fn on(mut self, nodes: &[&str]) -> Self {
        for (pod, node) in self.pods.iter_mut().zip(nodes.iter().cycle()) {
            pod.node = Some((*node).to_owned());
            let zone = ("topology.kubernetes.io/zone".to_owned(), node[..1].to_owned());
            self.nodes.insert((*node).to_owned(), BTreeMap::from([zone]));
        }
        self
    }

    pub(crate) fn answer(mut self, pod: &str, rule: &str, approval: Approval) -> Self {
        let question = Question { namespace: "default".into(), rule: rule.into(), operation: format!("uid-{pod}.op") };
        self.approvals.insert(question, Answer { approval, message: "so it says".into(), since: at(7) });
        self
    }

    pub(crate) fn at(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }

    pub(crate) fn decide(&self, candidates: &[Candidate]) -> Vec<Verdict> {
        self.with_input(|input| decide(input, candidates, self.now))
    }

    pub(crate) fn gate(&self) -> Gate {
        self.with_input(Gate::of)
    }

    fn with_input<T>(&self, then: impl FnOnce(&GateInput<'_>) -> T) -> T {
        then(&GateInput {
            pods: &self.pods,
            owners: &self.owners,
            nodes: &self.nodes,
            rule_sets: &self.rule_sets,
            budgets: &self.budgets,
            disruption_budgets: &self.disruption_budgets,
            reserved: &self.reserved,
            failed: &self.failed,
            approvals: &self.approvals,
            settings: &Settings { implicit: self.implicit, skipped_kinds: self.skipped_kinds.clone() },
        })
    }

    /// The candidate that a pod is, without circumstances.
    pub(crate) fn candidate(name: &str) -> Candidate {
        Candidate { operation: format!("uid-{name}.op"), ..Candidate::new(format!("uid-{name}")) }
    }

    /// Asks for all pods at once.
    pub(crate) fn all(&self) -> Vec<Verdict> {
        let candidates: Vec<_> = self.pods.iter().map(|pod| Self::candidate(&pod.name)).collect();
        self.decide(&candidates)
    }

    /// Asks for one pod.
    pub(crate) fn one(&self, name: &str) -> Verdict {
        self.decide(&[Self::candidate(name)]).remove(0)
    }

    pub(crate) fn allowed(&self) -> Vec<String> {
        self.all().into_iter().filter(|verdict| verdict.allowed).map(|verdict| verdict.pod).collect()
    }

    /// What stands in the way of the last pod in order.
    pub(crate) fn denial(&self) -> String {
        let verdicts = self.all();
        let denied: Vec<String> = verdicts.last().unwrap().denied().map(ToString::to_string).collect();
        denied.join("\n")
    }
}
