//! What the API server refuses, and what YAML makes of it.

use super::*;

fn budget(spec: &str) -> String {
    format!(
        "apiVersion: hitless.dev/v1alpha1\nkind: TransitionBudget\nmetadata: {{name: b}}\nspec:\n  selector: {{}}\n  {spec}\n"
    )
}

fn rule(rule: &str) -> String {
    format!(
        "apiVersion: apps.kusionstack.io/v1alpha1\nkind: PodTransitionRule\nmetadata: {{name: r}}\nspec:\n  selector: {{}}\n  rules:\n  - {rule}\n"
    )
}

/// Each finding with its line.
fn found(text: &str) -> Vec<String> {
    lint(text).findings.into_iter().map(|each| format!("{}: {}", each.line, each.text)).collect()
}

#[test]
fn forms_that_the_schemas_do_not_allow_are_named_once() {
    assert_eq!(
        found(&budget("maxUnavailable: 05%")),
        [
            r#"6: spec.maxUnavailable is "05%"; it must be a count, or a percentage from 0% to 100% without zeros before it"#
        ]
    );
    let window = found(&budget("windows: [{start: '9:00', end: '17:00'}]"));
    let words = r#"6: spec.windows[0].start is "9:00"; it must be a time of day with two digits each, HH:MM, from 00:00 to 23:59"#;
    assert_eq!(window, [words]);
    let both = found(&budget("windows: [{start: '9:00', end: '17:00', timeZone: Mars/Olympus}]"));
    assert!(
        both.len() == 2 && both.iter().any(|each| each.contains("Mars/Olympus")),
        "neither hides the other: {both:?}"
    );
    let failures = found(&budget("maxFailures: 0"));
    assert_eq!(failures, ["6: spec.maxFailures is 0; it must be 1 or more"]);
}

#[test]
fn a_kind_or_a_group_of_ours_that_is_misspelt_is_named_with_the_nearest() {
    let misspelt = |from: &str, to: &str| found(&budget("maxUnavailable: 1").replace(from, to));
    for (from, to, line) in [
        ("TransitionBudget", "TransitonBudget", 2),
        ("TransitionBudget", "transitionbudget", 2),
        ("TransitionBudget", "TransitionBudgets", 2),
        ("hitless.dev", "hitless.io", 1),
        ("hitless.dev", "apps.kusionstack.io", 1),
        ("hitless.dev/v1alpha1", "v1", 1),
    ] {
        let found = misspelt(from, to);
        let ending = "did you mean kind TransitionBudget of apiVersion hitless.dev/v1alpha1?";
        assert!(found.len() == 1 && found[0].ends_with(ending), "{to}: {found:?}");
        assert!(found[0].starts_with(&format!("{line}: kind ")), "{to}: {found:?}");
    }
    let unknown = misspelt("TransitionBudget", "Something");
    assert!(unknown[0].contains("kind Something of apiVersion hitless.dev/v1alpha1 is not known; known are: "));
    for foreign in ["example.com/v1", "apps/v1"] {
        let text =
            budget("maxUnavailable: 1").replace("hitless.dev/v1alpha1", foreign).replace("TransitionBudget", "Other");
        assert!(found(&text).is_empty(), "{foreign}");
    }
    let drain = "apiVersion: example.com/v1\nkind: DrainPolicy\nmetadata: {name: a}\n";
    assert!(found(drain).is_empty(), "another vendor's kind of that name");
}

#[test]
fn schemas_of_all_kinds_of_ours_are_looked_at() {
    let policy = "
apiVersion: hitless.dev/v1alpha1
kind: DrainPolicy
metadata: {name: a}
spec:
  selector: {}
  hooks:
  - {name: a, when: BeforeDrain, http: {port: 80, path: /a}, exec: {container: a, command: [b]}}
  - {name: a, when: Sometime, http: {port: 0, path: a}}
";
    let found = found(policy);
    let expected = [
        "7: spec.hooks[1] has the name of an earlier one",
        "8: spec.hooks[0]: a hook has exactly one of http and exec",
        "9: spec.hooks[1].http.path is \"a\"; it must be of the form ^/",
        "9: spec.hooks[1].http.port is 0; it must be 1 or more",
        "9: spec.hooks[1].when is \"Sometime\"; use BeforeDrain",
    ];
    for words in &expected[1..] {
        assert!(found.iter().any(|each| each.starts_with(words)), "{words}: {found:#?}");
    }
    assert!(found.iter().any(|each| each.contains("has the name of an earlier one")), "{found:#?}");
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn a_disruption_budget_has_one_side_only() {
    let text = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: p}
spec:
  selector: {}
  maxUnavailable: 1
  minAvailable: 1
";
    let words = "8: has both minAvailable and maxUnavailable, and the API server takes only one of them; remove one";
    assert_eq!(found(text), [words]);
}

#[test]
fn a_number_that_is_too_large_has_its_field_and_its_line() {
    let rule = rule("{name: a, availablePolicy: {maxUnavailableValue: 2147483648}}");
    let words = "7: spec.rules[0].availablePolicy.maxUnavailableValue is 2147483648; it must be 2147483647 or less";
    assert_eq!(found(&rule), [words]);
    let pdb = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: p}\nspec:\n  selector: {}\n  minAvailable: 2147483648\n";
    let found = found(pdb);
    assert!(found.len() == 1 && found[0].starts_with("6: spec.minAvailable: invalid value: integer `2147483648`"));
}

#[test]
fn what_yaml_reads_as_no_text_is_to_be_quoted() {
    let labels = WEB.replace("metadata: {labels: {app: web}}", "metadata:\n      labels:\n        app: yes");
    let words = "12: spec.template.metadata.labels.app: invalid type: boolean `true`, expected a string; quote it (YAML reads y,";
    assert!(found(&labels).iter().any(|each| each.starts_with(words)), "{:#?}", found(&labels));
    let name = found(&rule("{name: y, availablePolicy: {maxUnavailableValue: 1}}"));
    let words = "7: spec.rules[0].name is true; it must be text; quote it (YAML reads y, yes and on as true, n, no and off as false)";
    assert_eq!(name, [words]);
    let object = found(&budget("maxUnavailable: 1").replace("{name: b}", "{name: 8, labels: {on: 1}}"));
    assert!(object.iter().any(|each| each.starts_with("3: metadata.") && each.contains("quote it")), "{object:?}");
    let selector = found(&budget("maxUnavailable: 1").replace("selector: {}", "selector: {matchLabels: {a: 1}}"));
    assert_eq!(selector, ["5: spec.selector.matchLabels.a is 1; it must be text; quote it"]);
}

#[test]
fn a_time_without_its_zone_is_named_with_one_that_is_right() {
    let text = budget("blackouts:\n  - {start: 2026-11-01, end: '2026-12-01T00:00:00Z'}");
    let words = r#"7: spec.blackouts[0].start is "2026-11-01"; write a time with its zone, e.g. 2026-11-01T00:00:00Z"#;
    assert_eq!(found(&text), [words]);
}

#[test]
fn the_nearest_field_is_suggested() {
    let found = found(&rule("{name: a, availablePolicy: {maxUnavailable: 1}}"));
    assert!(found[0].ends_with("did you mean maxUnavailableValue?"), "{found:?}");
}

#[test]
fn two_objects_of_one_name_are_named_whatever_they_are() {
    let found = found(&format!("{WEB}{WEB}"));
    assert_eq!(found, ["14: has the name of the one at rules.yaml:3 and would replace it; rename one"]);
    let other = WEB.replace("metadata: {name: web}", "metadata: {name: web, namespace: other}");
    assert!(lint(&format!("{WEB}{other}")).findings.is_empty());
}

#[test]
fn a_document_that_is_too_large_is_named_as_that() {
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, last) in ["b", "c", "d", "e", "f", "g"].iter().zip(["a", "b", "c", "d", "e", "f"]) {
        bomb = format!("{bomb}{name}: &{name} [{}]\n", vec![format!("*{last}"); 10].join(","));
    }
    let found = |text: &str| lint(text).findings.remove(0).text;
    assert_eq!(found(&bomb), "has more than 250000 values, with what its aliases expand to");
    // Unoptimised code needs more for 64 levels than a test's thread has.
    let deep = move || found(&format!("{}{}", "[".repeat(70), "]".repeat(70)));
    let deep = std::thread::Builder::new().stack_size(16 << 20).spawn(deep).unwrap().join().unwrap();
    assert_eq!(deep, "is nested deeper than 64 levels");
}

#[test]
fn texts_of_objects_stay_on_their_line() {
    let text = lint(&rule(r#"{name: "r\e[31m\nnote: fine", availablePolicy: {maxUnavailableValue: 0}}"#)).text();
    assert!(text.contains(r"rule r\u001b[31m\nnote: fine: never lets"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}
