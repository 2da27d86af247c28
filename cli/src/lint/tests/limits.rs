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

/// Somebody has typed 0 or 100%; nobody has typed a number of pods.
#[test]
fn a_number_of_pods_that_is_only_assumed_is_never_named() {
    let set = WEB.replace("kind: Deployment", "kind: DaemonSet").replace("  replicas: 5\n", "");
    for (limits, words) in [
        (
            rules("[{name: a, availablePolicy: {maxUnavailableValue: 0}}]"),
            "no pod may be unavailable; raise the maximum to at least 1",
        ),
        (
            rules("[{name: a, availablePolicy: {minAvailableValue: 100%}}]"),
            "all pods have to be available; lower the minimum",
        ),
        (budget("maxUnavailableNodes: 0"), "no node may have an unavailable pod; raise maxUnavailableNodes to 1"),
    ] {
        for text in [limits.clone(), format!("{set}{limits}")] {
            let said = lint(&text).text();
            assert!(said.contains(words) && !said.contains("1000"), "{said}");
        }
    }
    let said = lint(&format!(
        "{set}{}{}",
        rules("[{name: a, availablePolicy: {maxUnavailableValue: 1}}]"),
        budget("minAvailable: 100%")
    ));
    assert!(said.text().contains("leaves no room for what") && !said.text().contains("1000"), "{}", said.text());
    let many = lint(&rules("[{name: a, availablePolicy: {minAvailableValue: 2000}}]"));
    assert_eq!(many.errors, 0, "there may be more pods: {}", many.text());
}

#[test]
fn with_a_cluster_a_rule_has_one_error_however_many_workloads_it_selects() {
    let live: Vec<Pods> = (0..6)
        .map(|number| Pods {
            namespace: "team".into(),
            labels: [("app".into(), "web".into())].into(),
            count: 1,
            is_assumed: false,
            of: format!("Pod/p{number}"),
        })
        .collect();
    let check = |text: &str| {
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        files::parse("rules.yaml", text, "team", &mut objects, &mut unreadable);
        super::check(&objects, unreadable, Some(&live), now())
    };
    let report = check(&rules("[{name: a, availablePolicy: {maxUnavailableValue: 0}}]"));
    assert_eq!(report.errors, 1, "{}", report.text());
    assert!(
        report.findings[0]
            .text
            .contains("a pod of Pod/p0 (nor of Pod/p1, Pod/p2, Pod/p3 and 2 more) go, even if all are"),
        "{}",
        report.text()
    );
    let label = |name: &str, value: &str| {
        rules(&format!("[{{name: a, labelCheck: {{requires: {{matchLabels: {{c: {value}}}}}}}}}]"))
            .replace("name: web", &format!("name: {name}"))
    };
    let report = check(&format!("{}{}", label("x", "blue"), label("z", "green")));
    assert_eq!(report.errors, 1, "{}", report.text());
    assert!(
        report.text().contains("passes both for pods of Pod/p0, Pod/p1, Pod/p2 and 3 more; change one"),
        "{}",
        report.text()
    );
    let nobody = check(&budget("maxUnavailable: 1").replace("selector: {}", "selector: {matchLabels: {app: wep}}"));
    let said = nobody.text();
    assert!(
        said.contains("selects none of the pods of the files and of the cluster") && !said.contains("--live"),
        "{said}"
    );
}

#[test]
fn a_budget_by_a_label_that_no_node_has_is_an_error_once_the_nodes_are_known() {
    let text = "apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {name: zone}
spec:
  selector: {}
  topology:
    key: topology.kubernetes.io/zone
    maxUnavailableDomains: 1
";
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    files::parse("rules.yaml", text, "team", &mut objects, &mut unreadable);
    let found = |nodes: &[&str]| {
        let node = |labels: &str| {
            let labels: serde_json::Value = serde_json::from_str(labels).unwrap();
            let meta = serde_json::from_value(serde_json::json!({"name": "n1", "labels": labels})).unwrap();
            hitless_rollout::snapshot::NodeView::from(&meta)
        };
        let nodes: Vec<_> = nodes.iter().map(|labels| node(labels)).collect();
        topology::check(&objects, &nodes).into_iter().map(|found| (found.line, found.text)).collect::<Vec<_>>()
    };
    let words = "no node has the label topology.kubernetes.io/zone, so this limit can never be kept; label the nodes, or take \
                 topology out of the budget";
    assert_eq!(found(&[r#"{"kubernetes.io/os": "linux"}"#]), [(7, words.to_owned())]);
    assert_eq!(found(&[r#"{"topology.kubernetes.io/zone": "a"}"#]), []);
    assert_eq!(found(&[]), [], "nodes may not be read");
}
