//! What is wrong with how pods are to be drained.

use super::*;

fn deployment(annotations: &str) -> String {
    format!(
        "
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata:
      labels: {{app: web}}
      annotations:
        {annotations}
    spec: {{containers: [{{name: web, image: web:v1}}]}}
"
    )
}

fn found(text: &str) -> Vec<(u64, String)> {
    lint(text).findings.into_iter().map(|each| (each.line, each.text)).collect()
}

#[test]
fn annotations_of_a_template_that_make_no_sense_are_named_with_their_lines() {
    let ending = "; its pods are not operated before that is corrected";
    for (annotation, words) in [
        (
            r#"hitless.dev/drain: '{"minSecond": 3}'"#,
            "annotation hitless.dev/drain is not usable: unknown field `minSecond`",
        ),
        (
            r#"hitless.dev/drain: '{"holdCapMilliseconds": 9000}'"#,
            "annotation hitless.dev/drain is not usable: holdCapMilliseconds is 9000, and at most 4000",
        ),
        ("hitless.dev/mode: hold", r#"annotation hitless.dev/mode is "hold"; use Auto, Leave or Hold"#),
        (
            r#"hitless.dev/hooks: '[{"name": "a", "when": "Before", "http": {"port": 1, "path": "/"}}]'"#,
            "annotation hitless.dev/hooks is not usable: unknown variant `Before`",
        ),
    ] {
        let found = found(&deployment(annotation));
        let [(13, text)] = &found[..] else { panic!("{annotation}: {found:?}") };
        assert!(text.starts_with(words) && text.ends_with(ending), "{text}");
    }
    let good = r#"hitless.dev/drain: '{"minSeconds": 3}'"#;
    assert_eq!(found(&deployment(good)), []);
    let pod = "
apiVersion: v1
kind: Pod
metadata:
  name: a
  annotations: {hitless.dev/mode: hold}
spec: {containers: [{name: web, image: web:v1}]}
";
    assert_eq!(found(pod).len(), 1, "a pod is its own template");
}

#[test]
fn what_counts_as_absent_is_a_warning() {
    let report = lint(&deployment(
        "hitless.dev/priority: high\n        podtransitionrule.kusionstack.io/skip-rule-conditions: a",
    ));
    assert_eq!((report.errors, report.warnings), (0, 2));
    assert!(report.findings.iter().all(|each| each.text.contains("counts as absent")), "{}", report.text());
}

#[test]
fn a_hook_in_a_container_that_the_template_lacks_is_a_warning_whoever_has_it() {
    let policy = |container: &str, namespace: &str| {
        format!(
            "
apiVersion: hitless.dev/v1alpha1
kind: DrainPolicy
metadata: {{name: all, namespace: {namespace}}}
spec:
  selector: {{}}
  hooks: [{{name: x, when: AfterStart, exec: {{container: {container}, command: ['true']}}}}]
"
        )
    };
    let plain = deployment("example.com/a: b");
    let report = lint(&format!("{}{plain}", policy("db", "team")));
    assert_eq!((report.errors, report.warnings), (0, 1), "{}", report.text());
    let words = r#"Deployment/web: DrainPolicy team/all is not usable: x: the pod has no container "db""#;
    assert!(report.text().contains(words), "{}", report.text());
    assert_eq!(found(&format!("{}{plain}", policy("web", "team"))), []);
    assert_eq!(found(&format!("{}{plain}", policy("db", "other"))), []);
    let own = deployment(
        r#"hitless.dev/hooks: '[{"name": "a", "when": "AfterStart", "exec": {"container": "db", "command": ["a"]}}]'"#,
    );
    let report = lint(&own);
    assert_eq!((report.errors, report.warnings), (0, 1), "{}", report.text());
}

#[test]
fn misspelt_policies_are_named_by_their_fields() {
    let found = found(
        "
apiVersion: hitless.dev/v1alpha1
kind: DrainPolicy
metadata: {name: a}
spec:
  selector: {}
  mode: hold
  drain: {minSecond: 3, holdCapMilliseconds: 9000}
  hooks:
  - {name: a, when: Before, http: {port: 99999, path: /}}
",
    );
    for words in [
        "spec.mode",
        "spec.drain.minSecond",
        "spec.drain.holdCapMilliseconds",
        "spec.hooks[0].when",
        "spec.hooks[0].http.port",
    ] {
        assert!(found.iter().any(|(_, text)| text.contains(words)), "{words}: {found:#?}");
    }
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn an_opt_in_that_means_nothing_is_an_error() {
    let web = |value: &str| {
        WEB.replace(
            "metadata: {name: web}\nspec:",
            &format!("metadata:\n  name: web\n  annotations: {{hitless.dev/update: {value}}}\nspec:"),
        )
    };
    let found = found(&web("inplace"));
    assert!(found.len() == 1 && found[0].1.contains("write in-place, in-place-only or native"), "{found:?}");
    assert_eq!(self::found(&web("in-place-only")), []);
}
