//! What holds for any rules and any pods, over rounds in which others delete, break, mend and add pods.
//!
//! The counts are taken here a second time, in the plainest way, and compared with what the gate let go.

#![allow(clippy::unwrap_used, reason = "a test")]

mod checks;
mod cluster;
mod strategies;
mod weird;

use std::collections::BTreeMap;

use hitless_api::TransitionLedgerSpec;
use hitless_gate::{Approvals, Candidate, Gate, ImplicitBudget, OwnerFacts, PodFacts, RuleSet, Settings};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use checks::{check_budgets, check_denials};
use cluster::{Churn, Cluster, owner_key};
use strategies::{a_cluster, churn};
use weird::{weird_rule, weird_selector};

fn candidates(cluster: &Cluster, desired: &[(usize, i32)]) -> Vec<Candidate> {
    let pod = |&(number, priority): &(usize, i32)| {
        let pod = cluster.pods.get(number % cluster.pods.len().max(1))?;
        Some(Candidate { priority, ..Candidate::new(&pod.uid) })
    };
    desired.iter().filter_map(pod).collect()
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
        for (churns, desired) in rounds {
            for churn in &churns {
                cluster.apply(churn);
            }
            let before = cluster.reserved();
            let verdicts = cluster.decide(&candidates(&cluster, &desired));
            cluster.tell(&mut gate, &told);
            told = cluster.clone();
            let step_by_step = gate.decide(&candidates(&cluster, &desired), &Approvals::new(), Timestamp::UNIX_EPOCH);
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
        desired in prop::collection::vec((any::<usize>(), -1..2_i32), 0..12),
        broken in prop::collection::vec(any::<usize>(), 0..3),
        shift in 0..16_usize,
    ) {
        let mut cluster = cluster;
        for pod in broken {
            cluster.apply(&Churn::Break(pod));
        }
        let desired = candidates(&cluster, &desired);
        let expected = cluster.decide(&desired);
        let mut shuffled = desired.clone();
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
        let desired: Vec<_> =
            cluster.pods.iter().map(|pod| Candidate { priority: i32::MAX, ..Candidate::new(&pod.uid) }).collect();
        let verdicts = cluster.decide(&desired);
        prop_assert_eq!(verdicts.len(), desired.len());
        for rule in verdicts.iter().flat_map(|verdict| &verdict.rules) {
            prop_assert!(!rule.reason().is_empty() && serde_json::to_string(rule).is_ok());
        }
        for fault in cluster.rule_sets.iter().flat_map(RuleSet::faults) {
            prop_assert!(!fault.is_empty());
        }
    }
}
