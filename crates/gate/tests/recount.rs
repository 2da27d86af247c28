//! Limits of TransitionBudgets and PodDisruptionBudgets hold whatever happens: counted here a second time, in the plainest way.
//! And a gate that was told of every change answers as one that is told all at once.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::GroupKind;
use hitless_gate::{
    Approvals, Budget, Candidate, DisruptionBudget, Gate, GateInput, ImplicitBudget, ObjectRef, OwnerFacts, PodFacts,
    Reserved, Settings, Verdict,
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug, Default)]
struct Cluster {
    pods: BTreeMap<String, PodFacts>,
    nodes: BTreeMap<String, BTreeMap<String, String>>,
    budgets: BTreeMap<String, Budget>,
    disruption_budgets: BTreeMap<String, DisruptionBudget>,
    owners: BTreeMap<ObjectRef, OwnerFacts>,
    held: BTreeMap<String, Reserved>,
    failed: BTreeSet<String>,
    recently_ready: BTreeSet<String>,
    overdue: BTreeSet<String>,
    lost: BTreeSet<String>,
}

#[derive(Clone, Debug)]
enum Change {
    Pod(Box<PodFacts>),
    Gone(u8),
    Node(u8, Option<u8>),
    Budget(u8, Option<Value>),
    Disruption(u8, Option<(Value, Value, Value)>),
    Owner(u8, Option<u32>),
    Failed(u8),
    RecentlyReady(u8),
    Overdue(u8),
    Lost(u8),
    Done(u8),
}

fn uid(number: u8) -> String {
    // Of both forms.
    if number.is_multiple_of(2) { format!("uid-{number}") } else { format!("00000000-0000-4000-8000-{number:012x}") }
}

fn owner(number: u8) -> ObjectRef {
    let name = format!("web{number}");
    ObjectRef {
        group_kind: GroupKind::new("apps", "Deployment"),
        namespace: format!("ns{}", number % 2),
        uid: name.clone(),
        name,
    }
}

fn namespace(number: u8) -> &'static str {
    ["ns0", "ns1", "hitless-system"][usize::from(number % 3)]
}

impl Cluster {
    fn decide(&self, candidates: &[Candidate], now: Timestamp) -> Vec<Verdict> {
        let input = GateInput {
            pods: &self.pods.values().cloned().collect::<Vec<_>>(),
            owners: &self.owners,
            nodes: &self.nodes,
            rule_sets: &[],
            budgets: &self.budgets.values().cloned().collect::<Vec<_>>(),
            disruption_budgets: &self.disruption_budgets.values().cloned().collect::<Vec<_>>(),
            reserved: &self.held,
            failed: &self.failed,
            approvals: &Approvals::new(),
            settings: &Settings { implicit: Some(ImplicitBudget { percent: 100 }), ..Settings::default() },
        };
        let mut gate = Gate::of(&input);
        gate.set_recently_ready(self.recently_ready.iter().map(String::as_str));
        gate.set_overdue(self.overdue.iter().map(String::as_str));
        gate.set_lost(self.lost.iter().map(String::as_str));
        gate.decide(candidates, input.approvals, now)
    }

    /// Changes the cluster and tells the gate.
    fn apply(&mut self, gate: &mut Gate, change: Change) {
        match change {
            Change::Pod(pod) => {
                gate.upsert_pod(&pod);
                self.pods.insert(pod.uid.clone(), *pod);
            }
            Change::Gone(number) => {
                gate.remove_pod(&uid(number));
                self.pods.remove(&uid(number));
            }
            Change::Node(number, zone) => {
                let node = format!("n{number}");
                if let Some(zone) = zone {
                    let labels = BTreeMap::from([("zone".to_owned(), format!("z{zone}"))]);
                    gate.set_node(&node, &labels);
                    self.nodes.insert(node, labels);
                } else {
                    gate.remove_node(&node);
                    self.nodes.remove(&node);
                }
            }
            Change::Budget(number, spec) => {
                let (name, namespace) = (format!("b{number}"), namespace(number));
                if let Some(mut spec) = spec {
                    if namespace == "hitless-system" {
                        spec["scope"] = json!("Cluster");
                    }
                    let spec = serde_json::from_value(spec).unwrap();
                    let budget = Budget {
                        name: name.clone(),
                        namespace: namespace.into(),
                        uid: name.clone(),
                        spec,
                        unreadable: None,
                    };
                    gate.set_budget(&budget);
                    self.budgets.insert(name, budget);
                } else {
                    gate.remove_budget(namespace, &name);
                    self.budgets.remove(&name);
                }
            }
            Change::Disruption(number, spec) => {
                let (name, namespace) = (format!("d{number}"), namespace(number));
                if let Some((selector, min, max)) = spec {
                    let budget = DisruptionBudget {
                        name: name.clone(),
                        namespace: namespace.into(),
                        selector: serde_json::from_value(selector).unwrap(),
                        min_available: serde_json::from_value(min).unwrap(),
                        max_unavailable: serde_json::from_value(max).unwrap(),
                    };
                    gate.set_disruption_budget(&budget);
                    self.disruption_budgets.insert(name, budget);
                } else {
                    gate.remove_disruption_budget(namespace, &name);
                    self.disruption_budgets.remove(&name);
                }
            }
            Change::Owner(number, desired) => {
                let facts = desired.map(OwnerFacts::of);
                gate.set_owner(&owner(number), facts);
                match facts {
                    Some(facts) => drop(self.owners.insert(owner(number), facts)),
                    None => drop(self.owners.remove(&owner(number))),
                }
            }
            Change::Failed(number) => {
                if !self.failed.remove(&uid(number)) {
                    self.failed.insert(uid(number));
                }
                gate.set_failed(&self.failed);
            }
            Change::RecentlyReady(number) => {
                if !self.recently_ready.remove(&uid(number)) {
                    self.recently_ready.insert(uid(number));
                }
                gate.set_recently_ready(self.recently_ready.iter().map(String::as_str));
            }
            Change::Overdue(number) => {
                if !self.overdue.remove(&uid(number)) {
                    self.overdue.insert(uid(number));
                }
                gate.set_overdue(self.overdue.iter().map(String::as_str));
            }
            Change::Lost(number) => {
                if !self.lost.remove(&uid(number)) {
                    self.lost.insert(uid(number));
                }
                gate.set_lost(self.lost.iter().map(String::as_str));
            }
            Change::Done(number) => {
                self.held.remove(&uid(number));
                gate.set_reserved(self.held.clone());
            }
        }
    }

    fn is_free(&self, pod: &PodFacts) -> bool {
        pod.available && !self.held.contains_key(&pod.uid) && !self.recently_ready.contains(&pod.uid)
    }

    /// Limits after a round, given who was newly taken in it.
    fn check(&self, taken: &[&PodFacts]) {
        for budget in self.budgets.values() {
            // What others have operated for too long counts in its own namespace only.
            let is_aside = |pod: &PodFacts| self.overdue.contains(&pod.uid) && self.held.contains_key(&pod.uid);
            let counts = |pod: &&PodFacts| !budget.is_cluster_wide() || !is_aside(pod);
            let members: Vec<&PodFacts> = self.pods.values().filter(|pod| budget.selects(pod)).filter(counts).collect();
            let taken: Vec<&&PodFacts> = taken.iter().filter(|pod| budget.selects(pod)).collect();
            let Some(spec) = (!taken.is_empty()).then_some(&budget.spec) else { continue };
            let running = members.iter().filter(|pod| self.held.contains_key(&pod.uid)).count();
            assert!(spec.max_concurrent.is_none_or(|most| running <= most as usize), "{running} in {}", budget.name);
            assert!(!spec.paused && budget.faults().is_empty());
            // What is taken and was down before costs nothing, whatever others have broken.
            if !taken.iter().any(|pod| pod.available) {
                continue;
            }
            let down: Vec<&&PodFacts> = members.iter().filter(|pod| !self.is_free(pod)).collect();
            let nodes: BTreeSet<_> = members.iter().filter_map(|pod| pod.node.as_ref()).collect();
            let down_on: BTreeSet<_> = down.iter().filter_map(|pod| pod.node.as_ref()).collect();
            let newly_on: BTreeSet<_> =
                taken.iter().filter(|pod| pod.available).filter_map(|pod| pod.node.as_ref()).collect();
            let others_on: BTreeSet<_> = down
                .iter()
                .filter(|pod| !taken.iter().any(|taken| taken.uid == pod.uid && taken.available))
                .filter_map(|pod| pod.node.as_ref())
                .collect();
            if let Some(value) = &spec.max_unavailable_nodes {
                let value = serde_json::to_value(value).unwrap();
                let most = value.as_u64().unwrap_or_else(|| {
                    nodes.len() as u64 * value.as_str().unwrap().trim_end_matches('%').parse::<u64>().unwrap() / 100
                });
                let on_new_ones = newly_on.iter().any(|node| !others_on.contains(node));
                assert!(!on_new_ones || down_on.len() as u64 <= most, "{down_on:?} in {}, at most {most}", budget.name);
            }
            if let Some(topology) = &spec.topology {
                let domain = |node: &&&String| self.nodes.get(**node).and_then(|labels| labels.get(&topology.key));
                let domains: BTreeSet<_> = down_on.iter().map(|node| domain(&node)).collect();
                let others: BTreeSet<_> = others_on.iter().map(|node| domain(&node)).collect();
                let on_new_ones = newly_on.iter().any(|node| !others.contains(&domain(&node)));
                assert!(!on_new_ones || domains.len() <= topology.max_unavailable_domains as usize, "{domains:?}");
            }
            if let Some(fewest) = spec.per_node_min_available {
                for node in newly_on {
                    let free =
                        members.iter().filter(|pod| pod.node.as_ref() == Some(node) && self.is_free(pod)).count();
                    assert!(free >= fewest as usize, "{free} on {node} in {}, at least {fewest}", budget.name);
                }
            }
        }
    }
}

fn a_pod() -> impl Strategy<Value = PodFacts> {
    let place = (0..24_u8, 0..2_u8, 0..2_u8, prop::option::weighted(0.9, 0..5_u8));
    let state = (prop::option::weighted(0.7, 0..3_u8), prop::bool::weighted(0.8), prop::option::of(0..90_i64));
    (place, state).prop_map(|((number, namespace, app, node), (owned, available, returned))| PodFacts {
        uid: uid(number),
        namespace: format!("ns{namespace}"),
        name: format!("web-{number}"),
        labels: BTreeMap::from([("app".to_owned(), format!("app{app}"))]),
        node: node.map(|node| format!("n{node}")),
        owner: owned.map(owner),
        available,
        leaving: false,
        unavailable_since: None,
        returned_at: returned.map(|second| Timestamp::from_second(second).unwrap()),
    })
}

fn a_selector() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({})), (0..2_u8).prop_map(|app| json!({"matchLabels": {"app": format!("app{app}")}}))]
}

fn a_limit() -> impl Strategy<Value = Value> {
    prop_oneof![(0..4_u8).prop_map(|count| json!(count)), (0..=100_u8).prop_map(|share| json!(format!("{share}%")))]
}

fn a_budget() -> impl Strategy<Value = Value> {
    let limits = (
        prop::option::weighted(0.5, a_limit()),
        prop::option::weighted(0.4, 1..3_u8),
        prop::option::weighted(0.4, 1..2_u8),
        prop::option::weighted(0.4, 0..5_u8),
    );
    let others =
        (prop::option::weighted(0.2, 0..60_u8), prop::option::weighted(0.2, 1..3_u8), prop::bool::weighted(0.05));
    (a_selector(), limits, others).prop_map(
        |(selector, (nodes, domains, per_node, concurrent), (soak, failures, paused))| {
            let mut spec = json!({"selector": selector, "paused": paused});
            if let Some(domains) = domains {
                spec["topology"] = json!({"key": "zone", "maxUnavailableDomains": domains});
            }
            for (field, value) in [
                ("maxUnavailableNodes", nodes),
                ("perNodeMinAvailable", per_node.map(Value::from)),
                ("maxConcurrent", concurrent.map(Value::from)),
                ("soakSeconds", soak.map(Value::from)),
                ("maxFailures", failures.map(Value::from)),
            ] {
                if let Some(value) = value {
                    spec[field] = value;
                }
            }
            spec
        },
    )
}

fn a_change() -> impl Strategy<Value = Change> {
    let disruption = (a_selector(), a_limit(), prop::bool::ANY).prop_map(|(selector, limit, is_min)| {
        if is_min { (selector, limit, Value::Null) } else { (selector, Value::Null, limit) }
    });
    prop_oneof![
        10 => a_pod().prop_map(|pod| Change::Pod(Box::new(pod))),
        2 => (0..24_u8).prop_map(Change::Gone),
        2 => (0..5_u8, prop::option::weighted(0.8, 0..3_u8)).prop_map(|(node, zone)| Change::Node(node, zone)),
        2 => (0..4_u8, prop::option::weighted(0.8, a_budget())).prop_map(|(number, spec)| Change::Budget(number, spec)),
        1 => (0..2_u8, prop::option::weighted(0.8, disruption)).prop_map(|(number, spec)| Change::Disruption(number, spec)),
        1 => (0..3_u8, prop::option::weighted(0.8, 0..9_u32)).prop_map(|(number, desired)| Change::Owner(number, desired)),
        1 => (0..24_u8).prop_map(Change::Failed),
        2 => (0..24_u8).prop_map(Change::RecentlyReady),
        1 => (0..24_u8).prop_map(Change::Overdue),
        1 => (0..24_u8).prop_map(Change::Lost),
        3 => (0..24_u8).prop_map(Change::Done),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_overstepped_by_us_and_step_by_step_is_all_at_once(
        pods in prop::collection::vec(a_pod(), 0..20),
        budgets in prop::collection::vec(a_budget(), 0..4),
        rounds in prop::collection::vec(
            (prop::collection::vec(a_change(), 0..6), prop::collection::btree_set(0..24_u8, 0..16), 0..100_i64),
            1..8,
        ),
    ) {
        let mut cluster = Cluster::default();
        let mut gate = Gate::new(Settings { implicit: Some(ImplicitBudget { percent: 100 }), ..Settings::default() });
        let first = pods.into_iter().map(|pod| Change::Pod(Box::new(pod)));
        let first = first.chain((0..4).zip(budgets).map(|(number, spec)| Change::Budget(number, Some(spec))));
        first.chain((0..5).map(|node| Change::Node(node, Some(node % 3)))).for_each(|change| cluster.apply(&mut gate, change));
        for (changes, desired, second) in rounds {
            for change in changes {
                cluster.apply(&mut gate, change);
            }
            let now = Timestamp::from_second(second).unwrap();
            let candidates: Vec<_> = desired.into_iter().map(|number| Candidate::new(uid(number))).collect();
            let verdicts = gate.decide(&candidates, &Approvals::new(), now);
            prop_assert_eq!(&verdicts, &cluster.decide(&candidates, now));
            let newly: Vec<String> = verdicts
                .iter()
                .filter(|verdict| verdict.allowed && !cluster.held.contains_key(&verdict.pod_uid))
                .map(|verdict| verdict.pod_uid.clone())
                .collect();
            cluster.held.extend(newly.iter().map(|uid| (uid.clone(), Reserved { since: now, is_over: false })));
            gate.set_reserved(cluster.held.clone());
            cluster.check(&newly.iter().filter_map(|uid| cluster.pods.get(uid)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn two_pods_do_not_go_each_because_the_other_has_its_domain_down() {
    let mut cluster = Cluster::default();
    let mut gate = Gate::new(Settings { implicit: Some(ImplicitBudget { percent: 100 }), ..Settings::default() });
    let pod = |number: u8, node: &str, available| PodFacts {
        uid: uid(number),
        namespace: "ns1".to_owned(),
        name: format!("web-{number}"),
        labels: BTreeMap::new(),
        node: Some(node.to_owned()),
        owner: None,
        available,
        leaving: false,
        unavailable_since: None,
        returned_at: None,
    };
    // Zone z1 has a pod that is down, and in z0 one of two has only just become Ready.
    for change in [
        Change::Node(0, Some(0)),
        Change::Node(1, Some(1)),
        Change::Node(3, Some(0)),
        Change::Pod(Box::new(pod(1, "n3", true))),
        Change::Pod(Box::new(pod(3, "n0", true))),
        Change::Pod(Box::new(pod(6, "n1", false))),
        Change::RecentlyReady(3),
        Change::Budget(1, Some(json!({"selector": {}, "topology": {"key": "zone", "maxUnavailableDomains": 1}}))),
    ] {
        cluster.apply(&mut gate, change);
    }
    let candidates = [Candidate::new(uid(1)), Candidate::new(uid(3))];
    let verdicts = gate.decide(&candidates, &Approvals::new(), Timestamp::UNIX_EPOCH);
    assert_eq!(verdicts.iter().filter(|verdict| verdict.allowed).count(), 1, "{verdicts:?}");
}
