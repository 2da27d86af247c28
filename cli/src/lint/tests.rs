mod claims;
mod drain;
mod endpoint;
mod input;
mod limits;
mod pages;
mod task;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:00:30Z".parse().unwrap()
}

fn lint(text: &str) -> Report {
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    files::parse("rules.yaml", text, "team", &mut objects, &mut unreadable);
    check(&objects, unreadable, None, now())
}

const WEB: &str = "
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web:v1}]}
";

#[test]
fn what_is_in_order_is_clean() {
    let clean = "
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  rules:
  - name: budget
    availablePolicy: {maxUnavailableValue: 10%}
  - name: office
    webhook: {clientConfig: {url: https://approver.example}, failurePolicy: Fail}
---
apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {name: web}
spec:
  selector: {}
  minAvailable: 60%
  paused: false
  windows:
  - {days: [Mon], start: '22:00', end: '04:00', timeZone: Europe/Berlin}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
";
    let report = lint(&format!("{clean}{WEB}"));
    assert_eq!(report.text(), "4 objects, 0 errors, 0 warnings\n");
}

#[test]
fn misspelt_fields_and_wrong_values_are_named_with_their_lines() {
    insta::assert_snapshot!(
        "schema",
        lint(
            "
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {name: web}
spec:
  selector:
    matchLabels: {app: web}
  rules:
  - name: budget
    availablepolicy: {maxUnavailableValue: 1}
  - name: typed
    disabled: 'yes'
    labelCheck: {requires: {matchExpressions: [{key: a, operator: Equals}]}}
---
apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {name: b}
spec:
  scope: Cluster
  selector: {}
  maxUnavailable: 110%
  maxConcurrent: -1
  perNodeMinAvailable: 0
  windows:
  - {days: [Monday], start: '22:00', end: '04:00'}
---
apiVersion: hitless.dev/v1beta1
kind: TransitionBudget
metadata: {name: c}
spec:
  selector: {}
  windows:
  - {start: '25:00', end: '04:00'}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: p}
spec: {selector: {matchLabels: {app: web}}, maxUnavailible: 1}
---
a: [
"
        )
        .text()
    );
}

#[test]
fn rules_that_can_never_pass_are_found_by_the_gate_itself() {
    insta::assert_snapshot!(
        "never",
        lint(&format!(
            "
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  rules:
  - {{name: zero, availablePolicy: {{maxUnavailableValue: 0}}}}
  - {{name: all, availablePolicy: {{minAvailableValue: 5}}}}
  - {{name: most, availablePolicy: {{minAvailableValue: 4}}}}
---
apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {{name: few}}
spec: {{selector: {{}}, maxUnavailable: 10%, maxConcurrent: 0}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: strict}}
spec: {{selector: {{matchLabels: {{app: web}}}}, minAvailable: 100%}}
---
apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {{name: nobody}}
spec: {{selector: {{matchLabels: {{app: wep}}}}, minAvailable: 100%}}
{WEB}"
        ))
        .text()
    );
}

#[test]
fn contradictions_between_objects_are_found() {
    insta::assert_snapshot!(
        "contradictions",
        lint(&format!(
            "
apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {{name: nights}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  maxUnavailable: 2
  windows: [{{start: '22:00', end: '04:00'}}]
---
apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {{name: days}}
spec:
  selector: {{}}
  minAvailable: 5
  windows: [{{start: '08:00', end: '16:00'}}]
---
apiVersion: hitless.dev/v1alpha1
kind: TransitionBudget
metadata: {{name: frozen}}
spec:
  selector: {{}}
  windows: [{{days: [Mon], start: '08:00', end: '16:00'}}]
  blackouts: [{{start: '2025-01-01T00:00:00.000000Z', end: '2036-01-01T00:00:00.000000Z', reason: audit}}]
---
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {{name: labels}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  rules:
  - {{name: blue, labelCheck: {{requires: {{matchLabels: {{color: blue}}}}}}}}
  - {{name: green, labelCheck: {{requires: {{matchLabels: {{color: green}}}}}}}}
  - {{name: green, labelCheck: {{requires: {{}}}}}}
  - {{name: maybe, stage: Later, webhook: {{clientConfig: {{url: 'https://a.example'}}, failurePolicy: Ignore}}}}
  - {{name: both, availablePolicy: {{maxUnavailableValue: 1}}, labelCheck: {{requires: {{}}}}}}
---
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {{name: labels}}
spec: {{selector: {{matchLabels: {{app: web}}}}, rules: []}}
{WEB}"
        ))
        .text()
    );
}

#[test]
fn a_report_is_data_too_and_selecting_nothing_needs_somebody_to_select() {
    let lonely = "apiVersion: hitless.dev/v1alpha1\nkind: TransitionBudget\nmetadata: {name: a}\nspec:\n  selector: {matchLabels: {app: x}}\n  maxUnavailable: 1\n";
    assert!(lint(lonely).findings.is_empty(), "nobody knows the pods");
    let report = lint(&format!("{lonely}{WEB}"));
    assert_eq!((report.errors, report.warnings), (0, 1));
    insta::assert_snapshot!("json", serde_json::to_string_pretty(&report).unwrap());
    let live = Pods {
        namespace: "team".into(),
        labels: [("app".into(), "x".into())].into(),
        count: 3,
        is_assumed: false,
        of: "Pod/x".into(),
    };
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    files::parse("rules.yaml", lonely, "team", &mut objects, &mut unreadable);
    assert!(check(&objects, unreadable, Some(&[live]), now()).findings.is_empty());
}

#[test]
fn restart_annotations_that_mean_nothing_are_named() {
    let text = WEB.replace(
        "metadata: {name: web}",
        "metadata:\n  name: web\n  annotations:\n    hitless.dev/restart-annotations: 'example.com/*, no key,*'",
    );
    let errors: Vec<(u64, String)> = lint(&text).findings.into_iter().map(|found| (found.line, found.text)).collect();
    assert_eq!(
        errors,
        [
            (8, r#"the entry "*" of hitless.dev/restart-annotations would be every annotation; name keys, or prefixes such as example.com/*"#.to_owned()),
            (8, r#"the entry "no key" of hitless.dev/restart-annotations is no key of an annotation; correct it"#.to_owned()),
        ]
    );
}

#[test]
fn a_wish_for_restarts_that_means_nothing_is_named() {
    let wanted = |value: &str| {
        let metadata = format!("metadata: {{name: web, annotations: {{hitless.dev/restarts: {value}}}}}");
        lint(&WEB.replace("metadata: {name: web}", &metadata)).findings
    };
    assert!(wanted("pod")[0].text.contains("write auto, containers or pods"), "{:?}", wanted("pod"));
    assert!(wanted("pods").is_empty());
}

#[test]
fn a_decoration_that_makes_no_sense_is_named() {
    let decoration = |selector: &str, template: &str| {
        lint(&format!(
            "
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodDecoration
metadata: {{name: log}}
spec:
  selector: {selector}
  template: {template}
"
        ))
        .text()
    };
    let clean = decoration("{matchLabels: {app: web}}", "{containers: [{name: log, image: log:v1}]}");
    assert!(clean.contains(" 0 errors"), "{clean}");
    let selector = decoration("{matchExpressions: [{key: app, operator: Near}]}", "{}");
    let words =
        r#"rules.yaml:6: error: PodDecoration/log: spec.selector.matchExpressions[0].operator is "Near"; use In, "#;
    assert!(selector.contains(words) && selector.contains("1 error"), "{selector}");
    let template = decoration("{}", "{volumes: none}");
    assert!(template.contains("1 error") && template.contains("none"), "{template}");
}

#[test]
fn a_sidecar_set_that_makes_no_sense_is_named() {
    let sidecar_set = |spec: &str| {
        lint(&format!(
            "\napiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata: {{name: log}}\nspec: {spec}\n"
        ))
        .text()
    };
    let clean = sidecar_set("{selector: {matchLabels: {app: web}}, containers: [{name: log, image: 'log:v1'}]}");
    assert!(clean.contains(" 0 errors"), "{clean}");
    let mount = "{selector: {matchLabels: {app: web}}, containers: [{name: log, volumeMounts: [{name: logs, mountPath: /logs}]}]}";
    let mount = sidecar_set(mount);
    assert!(
        mount.contains(
            "rules.yaml:5: error: SidecarSet/log: spec.containers[log] mounts logs, which is not in spec.volumes"
        ),
        "{mount}"
    );
    let undone =
        "{selector: {matchLabels: {app: web}}, containers: [{name: log, upgradeStrategy: {upgradeType: HotUpgrade}}]}";
    assert!(sidecar_set(undone).contains("HotUpgrade is not done here"));
}

#[test]
fn an_autoscaler_keeps_more_pods_than_the_deployment_says() {
    let budget = "apiVersion: hitless.dev/v1alpha1\nkind: TransitionBudget\nmetadata: {name: a}\nspec: {selector: {}, minAvailable: 5}\n";
    let scaler = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {minReplicas: 6, \
                  scaleTargetRef: {kind: Deployment, name: web}}\n";
    assert_eq!(lint(&format!("{budget}{WEB}")).warnings, 1);
    assert_eq!(lint(&format!("{budget}{WEB}{scaler}")).warnings, 0);
}

#[test]
fn a_file_that_is_cut_anywhere_is_no_reason_to_panic() {
    let whole = format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: p}}\nspec: {{maxUnavailable: 1, selector: {{}}}}{WEB}"
    );
    for end in 0..whole.len() {
        assert!(lint(&whole[..end]).objects <= 2);
    }
    let deep = lint(&"[".repeat(20_000));
    assert_eq!((deep.errors, deep.findings[0].line), (1, 1));
}

#[test]
fn a_service_whose_pool_it_does_not_get_is_named_and_so_is_a_provider_that_makes_no_sense() {
    let text = "
apiVersion: hitless.dev/v1alpha1
kind: TrafficProvider
metadata: {name: edge}
spec:
  haproxy: {endpoint: tcp://10.0.0.9:9999, pasword: x}
  pools:
  - {name: shop, namespaces: [shop]}
---
apiVersion: v1
kind: Service
metadata:
  name: web
  labels: {kusionstack.io/control: 'true'}
  annotations:
    hitless.dev/traffic: edge
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: none, labels: {kusionstack.io/control: 'true'}}
spec: {selector: {app: web}, ports: [{port: 80}]}
";
    let report = lint(text).text();
    for words in
        ["rules.yaml:6", "pasword", "rules.yaml:16", "write PROVIDER/POOL", "names no pool", "2 errors, 1 warning"]
    {
        assert!(report.contains(words), "{words}: {report}");
    }
}

/// Two rules that leave room for one of four pods, and none of three.
const FOUR: &str = "
---
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {name: a}
spec: {selector: {matchLabels: {app: web}}, rules: [{name: r, availablePolicy: {maxUnavailableValue: 3}}]}
---
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {name: b}
spec: {selector: {matchLabels: {app: web}}, rules: [{name: r, availablePolicy: {minAvailableValue: 3}}]}
";

fn web_pod(name: &str, owner: &str) -> String {
    format!(
        "
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: web, pod-template-hash: x}}, ownerReferences: {owner}}}
spec: {{containers: [{{name: web, image: web:v1}}]}}
"
    )
}

#[test]
fn pods_count_once_beside_what_has_made_them() {
    let of_set = "[{kind: ReplicaSet, name: web-5d4f}]";
    let set = "
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-5d4f, ownerReferences: [{kind: Deployment, name: web}]}
spec: {replicas: 4, template: {metadata: {labels: {app: web, pod-template-hash: x}}, spec: {containers: [{name: web}]}}}
";
    let web = WEB.replace("replicas: 5", "replicas: 4");
    for owner in ["[]", of_set] {
        let pods: String = (0..4).map(|number| web_pod(&format!("p{number}"), owner)).collect();
        for objects in [format!("{web}{pods}"), format!("{web}{set}{pods}"), format!("{set}{pods}")] {
            let report = lint(&format!("{FOUR}{objects}"));
            assert_eq!(report.errors, 0, "{}", report.text());
        }
    }
    let pods: String = (0..4).map(|number| web_pod(&format!("p{number}"), of_set)).collect();
    assert_eq!(lint(&format!("{FOUR}{pods}")).errors, 0, "four pods of one owner are four");
    let pods: String = (0..3).map(|number| web_pod(&format!("p{number}"), of_set)).collect();
    let report = lint(&format!("{FOUR}{pods}"));
    assert!(
        report.text().contains("b/r leaves no room for what a/r allows for pods of ReplicaSet/web-5d4f"),
        "{}",
        report.text()
    );
}

#[test]
fn an_approver_that_cannot_be_asked_is_an_error() {
    for config in ["{url: not a url}", "{url: 'ftp://x'}", "{url: 'https://a', poll: {url: bad}}"] {
        let report = lint(&format!(
            "
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {{name: a}}
spec: {{selector: {{}}, rules: [{{name: ask, webhook: {{clientConfig: {config}}}}}]}}
"
        ));
        assert_eq!(report.errors, 1, "{config}: {}", report.text());
        assert!(report.text().contains("webhook.clientConfig."), "{}", report.text());
    }
}
