//! Compares what the gate let go, and what it refused, with the counts.

use hitless_gate::{Denies, PodFacts, Verdict};
use serde_json::Value;

use crate::cluster::Cluster;

/// The limit in plain words: `None` where there is none, or where it is not to be understood.
fn limit(value: Option<&Value>, base: u64, round: u64) -> Option<u64> {
    match value? {
        Value::Number(count) => count.as_u64(),
        Value::String(text) => Some((base * text.strip_suffix('%')?.parse::<u64>().ok()? + round) / 100),
        _ => None,
    }
}

/// Budgets after a round, given who was newly taken out of service in it.
pub(crate) fn check_budgets(cluster: &Cluster, taken: &[&PodFacts]) {
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
pub(crate) fn check_denials(cluster: &Cluster, verdicts: &[Verdict]) {
    for denied in verdicts.iter().filter(|verdict| !verdict.allowed) {
        assert!(denied.denied().count() > 0, "{denied}");
        for rule in denied.denied() {
            let Some(set) = cluster.rule_sets.iter().find(|set| Some(set.name.as_str()) == rule.rule_set()) else {
                continue;
            };
            let (base, unavailable, available) = cluster.counts(&cluster.members(set));
            match rule.denies() {
                Some(Denies::MaxUnavailable { quota, total, .. }) => {
                    assert!(unavailable >= *quota && *total == base, "{rule}");
                }
                Some(Denies::MinAvailable { quota, total, .. }) => {
                    assert!(available <= *quota && *total == base, "{rule}");
                }
                _ => {}
            }
        }
    }
}
