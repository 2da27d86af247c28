//! More policies in a namespace than are looked at.

use std::sync::Arc;

use hitless_api::{Lenient, PodTransitionRule, crowd};
use hitless_gate::Budget;
use hitless_rollout::snapshot::{RuleView, Snapshot};
use serde_json::json;

use super::left_out;
use super::scene::{self, decide};

fn rule(namespace: &str, number: usize) -> Arc<RuleView> {
    let rules = json!([{"name": "max", "availablePolicy": {"maxUnavailableValue": 1}}]);
    let object = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule",
        "metadata": {"namespace": namespace, "name": format!("r-{number:04}"), "uid": format!("{namespace}-{number}")},
        "spec": {"selector": {"matchLabels": {"app": "nobody"}}, "rules": rules}});
    Arc::new(RuleView::from(serde_json::from_value::<Lenient<PodTransitionRule>>(object).unwrap()))
}

fn budget(number: usize) -> Arc<Budget> {
    let spec = json!({"selector": {"matchLabels": {"app": "nobody"}}, "maxUnavailable": 1});
    let (name, namespace, uid) = (format!("b-{number:04}"), "dark".to_owned(), number.to_string());
    Arc::new(Budget { name, namespace, uid, spec: serde_json::from_value(spec).unwrap(), unreadable: None })
}

/// Namespaces in which something is granted, and what the rules say in `dark`.
fn judged(snapshot: &Snapshot) -> (Vec<String>, Option<String>) {
    let round = decide(snapshot);
    let told = round.events.iter().filter(|note| note.reason == "InvalidSpec").count();
    assert!(told <= 1, "one Event, not hundreds");
    assert!(scene::written(&round, "rule-status").len() <= crowd::MOST);
    let mut granted: Vec<String> =
        scene::grants(&round).unwrap_or_default().into_iter().map(|grant| grant.pod.namespace).collect();
    granted.sort();
    let dark = round.verdicts.iter().find(|verdict| verdict.pod.namespace == "dark");
    (granted, dark.and_then(hitless_rollout::round::PodVerdict::text))
}

#[test]
fn of_too_many_rules_or_budgets_one_says_no_to_the_whole_namespace_and_to_no_other() {
    let (asked, _) = left_out::granted();
    let both = vec!["dark".to_owned(), "light".to_owned()];
    let of = |count: usize| (0..count).rev();
    let rules = |count| Snapshot { rules: of(count).map(|number| rule("dark", number)).collect(), ..asked.clone() };
    let budgets = |count| Snapshot { budgets: of(count).map(budget).collect(), ..asked.clone() };
    assert_eq!(judged(&rules(crowd::MOST)), (both.clone(), None), "none of them selects the pod");
    assert_eq!(judged(&budgets(crowd::MOST)), (both, None));
    for (kinds, name, snapshot) in [
        ("PodTransitionRules", "r-0000", rules(crowd::MOST + 1)),
        ("TransitionBudgets", "b-0000", budgets(crowd::MOST + 1)),
    ] {
        let (granted, text) = judged(&snapshot);
        let text = text.unwrap();
        assert_eq!(granted, ["light"], "{kinds}");
        assert!(text.contains(name) && text.contains(&format!("{} {kinds}", crowd::MOST + 1)), "{text}");
    }
}
