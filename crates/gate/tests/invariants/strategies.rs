//! Makes any cluster, and anything that happens to it.

use std::collections::BTreeMap;

use hitless_api::TransitionLedgerSpec;
use hitless_gate::{ImplicitBudget, OwnerFacts, PodFacts, RuleSet};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Churn, Cluster, owner_key};

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    (0..3_u8, 0..3_u8).prop_map(|(app, zone)| {
        BTreeMap::from([("app".to_owned(), format!("app{app}")), ("zone".to_owned(), format!("z{zone}"))])
    })
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
            leaving: false,
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

pub(crate) fn a_cluster() -> impl Strategy<Value = Cluster> {
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

pub(crate) fn churn() -> impl Strategy<Value = Churn> {
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
