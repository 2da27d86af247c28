//! Limits that are none, and limits that nothing fits into.

use super::*;

fn rules(rules: &str) -> String {
    format!(
        "
---
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {{name: web}}
spec: {{selector: {{matchLabels: {{app: web}}}}, rules: {rules}}}
"
    )
}

fn budget(spec: &str) -> String {
    format!(
        "
---
apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {{name: web}}
spec: {{selector: {{}}, {spec}}}
"
    )
}

#[test]
fn pods_of_rules_that_limit_no_number_may_all_go() {
    let warns = |text: &str| lint(text).text().contains("lose the built-in limit");
    let label = "{name: a, labelCheck: {requires: {matchLabels: {go: ok}}}}";
    for none in [
        format!("[{label}]"),
        "[{name: a, disabled: true, availablePolicy: {maxUnavailableValue: 1}}]".to_owned(),
        "[{name: a, stage: PostCheck, availablePolicy: {maxUnavailableValue: 1}}]".to_owned(),
        "[{name: a, stage: Later, availablePolicy: {maxUnavailableValue: 1}}]".to_owned(),
    ] {
        assert!(warns(&format!("{WEB}{}", rules(&none))), "{none}");
        assert!(warns(&rules(&none)), "{none}: nobody knows the pods");
    }
    let of = |rule: &str| format!("{WEB}{}", rules(rule));
    assert!(!warns(&of(&format!("[{label}, {{name: b, availablePolicy: {{maxUnavailableValue: 1}}}}]"))));
    assert!(!warns(&of("[{name: a, webhook: {clientConfig: {url: 'https://a'}}}]")), "the approver may limit");
    assert!(!warns(&format!("{}{}", of(&format!("[{label}]")), budget("maxConcurrent: 1"))), "something else limits");
    let set = of(&format!("[{label}]")).replace("kind: Deployment", "kind: StatefulSet");
    assert!(!warns(&set), "its own strategy limits");
    assert!(lint(&of("[]")).text().contains("have no limit at all"));
}

#[test]
fn so_many_on_a_node_as_there_are_at_all_is_never_enough() {
    let text = |fewest: u32| lint(&format!("{WEB}{}", budget(&format!("perNodeMinAvailable: {fewest}")))).text();
    let never = text(5);
    assert!(
        never.contains(
            "never lets a pod of Deployment/web go, even if all are available: at least 5 must stay on each node, and no \
             node has more than 5; lower it below 5, or add pods"
        ),
        "{never}"
    );
    assert!(text(4).contains(" 0 errors"), "{}", text(4));
}

#[test]
fn a_share_of_few_nodes_is_named_as_none() {
    let text = lint(&format!("{WEB}{}", budget("maxUnavailableNodes: 10%"))).text();
    assert!(text.contains("10% of 5 nodes rounds down to 0; use a count, or a higher percentage"), "{text}");
}
