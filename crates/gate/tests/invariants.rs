//! What holds for any rules and any pods, over rounds in which others delete, break, mend and add pods.
//!
//! The counts are taken here a second time, in the plainest way, and compared with what the gate let go.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::GroupKind;
use hitless_api::ledger::LedgerLeader;
use hitless_api::{MicroTime, Reservation, TransitionLedgerSpec};
use hitless_gate::{
    Approvals, Candidate, Gate, GateInput, ImplicitBudget, ObjectRef, OwnerFacts, PodFacts, Reason, Reserved, RuleSet,
    Settings, Verdict, decide, release, reserve,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
struct Cluster {
    pods: Vec<PodFacts>,
    owners: BTreeMap<ObjectRef, OwnerFacts>,
    rule_sets: Vec<RuleSet>,
    ledger: TransitionLedgerSpec,
    implicit: Option<ImplicitBudget>,
}

/// What happens between two rounds, to the pod with that number.
#[derive(Clone, Debug)]
enum Churn {
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
    fn reserved(&self) -> BTreeSet<String> {
        self.ledger.reservations.keys().cloned().collect()
    }

    fn decide(&self, candidates: &[Candidate]) -> Vec<Verdict> {
        let held = Reserved { since: Timestamp::UNIX_EPOCH };
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

    fn apply(&mut self, churn: &Churn) {
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
    fn tell(&self, gate: &mut Gate, before: &Self) {
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
        let held = Reserved { since: Timestamp::UNIX_EPOCH };
        gate.set_reserved(self.reserved().into_iter().map(|uid| (uid, held.clone())).collect());
    }

    /// Reserves what was allowed, as the controller does.
    fn reserve(&mut self, verdicts: &[Verdict]) {
        let reservation = |uid: &String| Reservation {
            id: format!("{uid}.op"),
            pod: uid.clone(),
            node: String::new(),
            owner: String::new(),
            rules: Vec::new(),
            since: MicroTime(Timestamp::UNIX_EPOCH),
            images: [].into(),
            from_images: [].into(),
            while_unavailable: false,
            labels: [].into(),
        };
        let batch = verdicts
            .iter()
            .filter(|verdict| verdict.allowed)
            .map(|verdict| (verdict.pod_uid.clone(), reservation(&verdict.pod_uid)))
            .collect();
        reserve(&mut self.ledger, batch, &LedgerLeader::default()).unwrap();
    }

    fn members(&self, rule_set: &RuleSet) -> Vec<&PodFacts> {
        self.pods.iter().filter(|pod| rule_set.selects(pod)).collect()
    }

    /// Base, unavailable, available.
    fn counts(&self, members: &[&PodFacts]) -> (u64, u64, u64) {
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

/// The limit in plain words: `None` where there is none, or where it is not to be understood.
fn limit(value: Option<&Value>, base: u64, round: u64) -> Option<u64> {
    match value? {
        Value::Number(count) => count.as_u64(),
        Value::String(text) => Some((base * text.strip_suffix('%')?.parse::<u64>().ok()? + round) / 100),
        _ => None,
    }
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    (0..3_u8, 0..3_u8).prop_map(|(app, zone)| {
        BTreeMap::from([("app".to_owned(), format!("app{app}")), ("zone".to_owned(), format!("z{zone}"))])
    })
}

fn owner_key(number: u8) -> ObjectRef {
    let name = format!("owner{number}");
    ObjectRef { group_kind: GroupKind::new("apps", "Deployment"), namespace: "default".into(), uid: name.clone(), name }
}

fn a_pod() -> impl Strategy<Value = PodFacts> {
    (0..40_u8, labels(), prop::option::weighted(0.8, 0..3_u8), prop::bool::weighted(0.8)).prop_map(
        |(number, labels, owner, available)| PodFacts {
            uid: format!("uid{number}"),
            namespace: "default".into(),
            name: format!("pod{number}"),
            labels,
            node: None,
            owner: owner.map(owner_key),
            available,
            unavailable_since: None,
            returned_at: None,
        },
    )
}

fn a_limit() -> impl Strategy<Value = Value> {
    prop_oneof![(0..6_u8).prop_map(|count| json!(count)), (0..=100_u8).prop_map(|percent| json!(format!("{percent}%"))),]
}

fn a_selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        (0..3_u8).prop_map(|app| json!({"matchLabels": {"app": format!("app{app}")}})),
        (0..3_u8).prop_map(
            |zone| json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": [format!("z{zone}")]}]})
        ),
    ]
}

fn a_rule() -> impl Strategy<Value = Value> {
    let max = a_limit().prop_map(|max| json!({"name": "max", "availablePolicy": {"maxUnavailableValue": max}}));
    let min = a_limit().prop_map(|min| json!({"name": "min", "availablePolicy": {"minAvailableValue": min}}));
    let both = (a_limit(), a_limit()).prop_map(
        |(max, min)| json!({"name": "both", "availablePolicy": {"maxUnavailableValue": max, "minAvailableValue": min}}),
    );
    let check = a_selector().prop_map(|requires| json!({"name": "labels", "labelCheck": {"requires": requires}}));
    let webhook = Just(json!({"name": "hook", "webhook": {"clientConfig": {"url": "http://x"}}}));
    prop_oneof![8 => max, 8 => min, 6 => both, 2 => check, 1 => webhook]
}

fn a_cluster() -> impl Strategy<Value = Cluster> {
    let rule_sets = prop::collection::vec((a_selector(), prop::collection::vec(a_rule(), 0..3)), 0..4);
    let pods = prop::collection::vec(a_pod(), 0..16);
    let owners = prop::collection::btree_map(0..3_u8, 0..12_u32, 0..4);
    (pods, owners, rule_sets, prop::bool::ANY).prop_map(|(mut pods, owners, rule_sets, implicit)| {
        pods.sort_by(|a, b| a.uid.cmp(&b.uid));
        pods.dedup_by(|a, b| a.uid == b.uid);
        let rule_sets = rule_sets.into_iter().enumerate().map(|(number, (selector, rules))| RuleSet {
            name: format!("ptr{number}"),
            namespace: "default".into(),
            spec: serde_json::from_value(json!({"selector": selector, "rules": rules})).unwrap(),
            unreadable: None,
        });
        Cluster {
            pods,
            owners: owners.into_iter().map(|(owner, desired)| (owner_key(owner), OwnerFacts::of(desired))).collect(),
            rule_sets: rule_sets.collect(),
            ledger: TransitionLedgerSpec::default(),
            implicit: implicit.then(ImplicitBudget::default),
        }
    })
}

fn churn() -> impl Strategy<Value = Churn> {
    prop_oneof![
        any::<usize>().prop_map(Churn::Break),
        any::<usize>().prop_map(Churn::Mend),
        any::<usize>().prop_map(Churn::Delete),
        a_pod().prop_map(|pod| Churn::Add(Box::new(pod))),
        (any::<usize>(), labels()).prop_map(|(pod, labels)| Churn::Relabel(pod, labels)),
        (any::<usize>(), prop::option::of(0..3_u8)).prop_map(|(pod, owner)| Churn::Adopt(pod, owner)),
        any::<usize>().prop_map(Churn::Forget),
        (any::<usize>(), a_selector()).prop_map(|(set, selector)| Churn::Reselect(set, selector)),
        (any::<usize>(), 0..12_u32).prop_map(|(owner, desired)| Churn::Scale(owner, desired)),
        any::<usize>().prop_map(Churn::Done),
    ]
}

fn candidates(cluster: &Cluster, wishes: &[(usize, i32)]) -> Vec<Candidate> {
    let pod = |&(number, priority): &(usize, i32)| {
        let pod = cluster.pods.get(number % cluster.pods.len().max(1))?;
        Some(Candidate { priority, ..Candidate::new(&pod.uid) })
    };
    wishes.iter().filter_map(pod).collect()
}

/// Budgets after a round, given who was newly taken out of service in it.
fn check_budgets(cluster: &Cluster, taken: &[&PodFacts]) {
    for rule_set in &cluster.rule_sets {
        let members = cluster.members(rule_set);
        let (base, unavailable, available) = cluster.counts(&members);
        if !taken.iter().any(|pod| rule_set.selects(pod)) {
            // What others have broken is not ours to mend.
            continue;
        }
        for rule in &rule_set.spec.rules {
            let rule = serde_json::to_value(rule).unwrap();
            assert!(rule.get("webhook").is_none(), "a webhook rule let somebody go");
            let Some(policy) = rule.get("availablePolicy") else { continue };
            if let Some(max) = limit(policy.get("maxUnavailableValue"), base, 99) {
                assert!(unavailable <= max, "{unavailable} unavailable of {base} in {}, at most {max}", rule_set.name);
            }
            if let Some(min) = limit(policy.get("minAvailableValue"), base, 0) {
                assert!(available >= min, "{available} available of {base} in {}, at least {min}", rule_set.name);
            }
        }
    }
    let implicit = |pod: &&&PodFacts| !cluster.rule_sets.iter().any(|set| set.selects(pod));
    for owner in taken.iter().filter(implicit).filter_map(|pod| pod.owner.as_ref()) {
        let members: Vec<&PodFacts> = cluster.pods.iter().filter(|pod| pod.owner.as_ref() == Some(owner)).collect();
        // Others of the owner may be governed by a rule set that allows more, and be decided later in the round.
        if cluster.implicit.is_some() && members.iter().all(|pod| implicit(&pod)) {
            let (base, unavailable, _) = cluster.counts(&members);
            let quota = (base / 4).max(1);
            assert!(unavailable <= quota, "{unavailable} unavailable of {base}, implicitly at most {quota}");
        }
    }
}

/// Whoever was refused a place was refused for a reason that still holds when the round is over.
fn check_denials(cluster: &Cluster, verdicts: &[Verdict]) {
    for denied in verdicts.iter().filter(|verdict| !verdict.allowed) {
        assert!(denied.denied().count() > 0, "{denied}");
        for rule in denied.denied() {
            let Some(set) = cluster.rule_sets.iter().find(|set| Some(set.name.as_str()) == rule.rule_set()) else {
                continue;
            };
            let (base, unavailable, available) = cluster.counts(&cluster.members(set));
            match rule.because {
                Reason::MaxUnavailable { quota, total, .. } => {
                    assert!(unavailable >= quota && total == base, "{rule}");
                }
                Reason::MinAvailable { quota, total, .. } => {
                    assert!(available <= quota && total == base, "{rule}");
                }
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_budget_is_overspent_by_us_whatever_happens(
        mut cluster in a_cluster(),
        rounds in prop::collection::vec(
            (prop::collection::vec(churn(), 0..4), prop::collection::vec((any::<usize>(), -1..2_i32), 0..10)),
            1..8,
        ),
    ) {
        let mut gate = Gate::new(Settings { implicit: cluster.implicit, ..Settings::default() });
        let mut told = Cluster {
            pods: Vec::new(),
            owners: BTreeMap::new(),
            rule_sets: Vec::new(),
            ledger: TransitionLedgerSpec::default(),
            implicit: None,
        };
        for (churns, wishes) in rounds {
            for churn in &churns {
                cluster.apply(churn);
            }
            let before = cluster.reserved();
            let verdicts = cluster.decide(&candidates(&cluster, &wishes));
            cluster.tell(&mut gate, &told);
            told = cluster.clone();
            let step_by_step = gate.decide(&candidates(&cluster, &wishes), &Approvals::new(), Timestamp::UNIX_EPOCH);
            prop_assert_eq!(&step_by_step, &verdicts);
            cluster.reserve(&verdicts);
            let newly = cluster.ledger.reservations.keys().filter(|uid| !before.contains(*uid));
            let taken: Vec<&PodFacts> = newly
                .filter_map(|uid| cluster.pods.iter().find(|pod| pod.uid == *uid))
                .filter(|pod| pod.available)
                .collect();
            check_budgets(&cluster, &taken);
            check_denials(&cluster, &verdicts);
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(
        cluster in a_cluster(),
        wishes in prop::collection::vec((any::<usize>(), -1..2_i32), 0..12),
        broken in prop::collection::vec(any::<usize>(), 0..3),
        shift in 0..16_usize,
    ) {
        let mut cluster = cluster;
        for pod in broken {
            cluster.apply(&Churn::Break(pod));
        }
        let wishes = candidates(&cluster, &wishes);
        let expected = cluster.decide(&wishes);
        let mut shuffled = wishes.clone();
        shuffled.reverse();
        cluster.pods.reverse();
        let middle = shift % cluster.pods.len().max(1);
        cluster.pods.rotate_left(middle);
        cluster.rule_sets.reverse();
        prop_assert_eq!(cluster.decide(&shuffled), expected);
    }

    #[test]
    fn nothing_that_can_be_written_into_a_rule_is_a_panic(
        cluster in a_cluster(),
        rules in prop::collection::vec(weird_rule(), 0..4),
        selector in weird_selector(),
        desired in prop::collection::vec(any::<u32>(), 3),
        percent in any::<u32>(),
    ) {
        let mut cluster = cluster;
        cluster.implicit = Some(ImplicitBudget { percent });
        for (number, desired) in desired.into_iter().enumerate() {
            cluster.owners.insert(owner_key(number.try_into().unwrap()), OwnerFacts::of(desired));
        }
        let spec = serde_json::from_value(json!({"selector": selector, "rules": rules})).unwrap();
        cluster.rule_sets.push(RuleSet { name: "weird".into(), namespace: "default".into(), spec, unreadable: None });
        let wishes: Vec<_> =
            cluster.pods.iter().map(|pod| Candidate { priority: i32::MAX, ..Candidate::new(&pod.uid) }).collect();
        let verdicts = cluster.decide(&wishes);
        prop_assert_eq!(verdicts.len(), wishes.len());
        for rule in verdicts.iter().flat_map(|verdict| &verdict.rules) {
            prop_assert!(!rule.reason().is_empty() && serde_json::to_string(rule).is_ok());
        }
        for fault in cluster.rule_sets.iter().flat_map(RuleSet::faults) {
            prop_assert!(!fault.is_empty());
        }
    }
}

fn weird_limit() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(|count| json!(count)),
        ".*".prop_map(|text| json!(text)),
        "[0-9]{0,30}%".prop_map(|text| json!(text)),
        Just(Value::Null),
    ]
}

fn weird_selector() -> impl Strategy<Value = Value> {
    let requirement = (".{0,4}", "(In|NotIn|Exists|DoesNotExist|.{0,3})", prop::collection::vec(".{0,4}", 0..3))
        .prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}));
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        prop::collection::vec(requirement, 0..3).prop_map(|expressions| json!({"matchExpressions": expressions})),
    ]
}

fn weird_rule() -> impl Strategy<Value = Value> {
    let stage = prop::option::of("(PreCheck|PostCheck|.{0,3})");
    (".{0,6}", stage, weird_limit(), weird_limit(), weird_selector(), weird_selector(), 0..8_u8).prop_map(
        |(name, stage, max, min, filter, requires, parts)| {
            let mut rule = json!({"name": name, "stage": stage, "filter": {"labelSelector": filter}});
            if parts & 1 != 0 {
                rule["availablePolicy"] = json!({"maxUnavailableValue": max, "minAvailableValue": min});
            }
            if parts & 2 != 0 {
                rule["labelCheck"] = json!({"requires": requires});
            }
            if parts & 4 != 0 {
                rule["availablePolicy"]["maxUnavailablePolicy"] = json!({"expFunc": {"coeff": name}});
            }
            rule
        },
    )
}
