//! Pods, and the rules that are about them.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::DEFAULT_SYSTEM_NAMESPACE;
use hitless_api::{GroupKind, Lenient, ObjectRef, PodTransitionRule, TransitionBudget};
use hitless_gate::{
    Approvals, Budget, Candidate, DisruptionBudget, GateInput, PodFacts, Reserved, RuleSet, Settings, Verdict, decide,
};
use hitless_rollout::snapshot::RuleView;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

const NAMESPACE: &str = "shop";
const MOST_PODS: u8 = 8;

/// What the gate is asked about.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) pods: Vec<PodFacts>,
    pub(super) reserved: BTreeMap<String, Reserved>,
    pub(super) rule_sets: Vec<RuleSet>,
    pub(super) budgets: Vec<Budget>,
    pub(super) disruption_budgets: Vec<DisruptionBudget>,
    failed: BTreeSet<String>,
    now: Timestamp,
}

impl Cluster {
    /// `head`: number of pods, who of them is available, who has a reservation, whose last operation has failed, how many hours after
    /// 1970 it is, and which of them have an owner. Objects that the API server would not take are left out.
    pub(super) fn of(head: [u8; 6], objects: Vec<Value>) -> Self {
        let [count, available, reserved, failed, hours, owned] = head;
        let now = Timestamp::UNIX_EPOCH.saturating_add(SignedDuration::from_hours(i64::from(hours) * 7));
        let now = now.expect("some days after 1970");
        let numbers: Vec<u8> = (0..count % (MOST_PODS + 1)).collect();
        let has = |bits: u8, number: u8| bits & (1 << number) != 0;
        let of = |bits: u8| numbers.iter().filter(move |number| has(bits, **number)).map(|number| format!("u{number}"));
        let pods =
            numbers.iter().map(|number| pod(*number, has(available, *number), has(owned, *number), now)).collect();
        let mut cluster = Self {
            pods,
            reserved: of(reserved).map(|uid| (uid, Reserved { since: now, is_over: false })).collect(),
            rule_sets: Vec::new(),
            budgets: Vec::new(),
            disruption_budgets: Vec::new(),
            failed: of(failed).collect(),
            now,
        };
        for (number, object) in objects.into_iter().enumerate() {
            cluster.add(number, object);
        }
        cluster
    }

    fn add(&mut self, number: usize, mut object: Value) {
        let Some(fields) = object.as_object_mut() else { return };
        let is_system = fields.get("spec").and_then(|spec| spec.get("scope")).is_some_and(|scope| scope == "Cluster");
        let namespace = if is_system { DEFAULT_SYSTEM_NAMESPACE } else { NAMESPACE };
        let metadata = json!({"name": format!("o{number}"), "namespace": namespace, "uid": format!("b{number}")});
        fields.insert("metadata".to_owned(), metadata);
        fields.insert("apiVersion".to_owned(), json!("v1"));
        match fields.get("kind").and_then(Value::as_str).unwrap_or_default() {
            "PodTransitionRule" => {
                let read = serde_json::from_value::<Lenient<PodTransitionRule>>(object);
                self.rule_sets.extend(read.map(|read| RuleSet::from(&RuleView::from(read))));
            }
            "TransitionBudget" => {
                self.budgets.extend(serde_json::from_value::<Lenient<TransitionBudget>>(object).map(Budget::from));
            }
            "PodDisruptionBudget" => {
                let read = serde_json::from_value::<PodDisruptionBudget>(object);
                self.disruption_budgets.extend(read.map(DisruptionBudget::from));
            }
            _ => {}
        }
    }

    pub(super) fn decide(&self) -> Vec<Verdict> {
        let input = GateInput {
            pods: &self.pods,
            owners: &BTreeMap::new(),
            nodes: &(0..3).map(|node| (format!("n{node}"), zone(node))).collect(),
            rule_sets: &self.rule_sets,
            budgets: &self.budgets,
            disruption_budgets: &self.disruption_budgets,
            reserved: &self.reserved,
            failed: &self.failed,
            approvals: &Approvals::new(),
            settings: &Settings::default(),
        };
        let candidates: Vec<Candidate> = self.pods.iter().map(|pod| Candidate::new(&pod.uid)).collect();
        decide(&input, &candidates, self.now)
    }

    /// The same in the opposite order.
    pub(super) fn turned(&self) -> Self {
        let mut turned = self.clone();
        turned.pods.reverse();
        turned.rule_sets.reverse();
        turned.budgets.reverse();
        turned.disruption_budgets.reverse();
        turned
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let of_rules = self.rule_sets.iter().flat_map(RuleSet::faults);
        of_rules.chain(self.budgets.iter().flat_map(Budget::faults))
    }
}

fn zone(node: u8) -> BTreeMap<String, String> {
    [("zone".to_owned(), format!("z{}", node % 2))].into()
}

fn pod(number: u8, available: bool, is_owned: bool, now: Timestamp) -> PodFacts {
    let labels = [("app", "web".to_owned()), ("tier", (number % 2).to_string())];
    let owner = ObjectRef {
        group_kind: GroupKind::new("apps", "Deployment"),
        namespace: NAMESPACE.to_owned(),
        name: "web".to_owned(),
        uid: "web".to_owned(),
    };
    PodFacts {
        uid: format!("u{number}"),
        namespace: NAMESPACE.to_owned(),
        name: format!("web-{number}"),
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        node: Some(format!("n{}", number % 3)),
        owner: is_owned.then_some(owner),
        available,
        leaving: false,
        unavailable_since: (!available).then_some(now),
        returned_at: (number % 4 == 3).then_some(now),
    }
}
