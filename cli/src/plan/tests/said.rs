//! What a plan says besides its waves.

use super::*;

fn planned(text: &str) -> Report {
    files(text, &["-f", "x", "web", "--image", "web=web:v2"]).unwrap()
}

fn notes(text: &str) -> String {
    planned(text).notes.join("\n")
}

fn rules(spec: &str) -> String {
    format!(
        "
---
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {{name: ptr}}
spec: {{{spec}}}
"
    )
}

/// The Deployment with its ReplicaSet and so many of its pods, of which the last is like this.
fn with_pods(replicas: u32, pods: u32, last: &str) -> String {
    let owner = |kind: &str, name: &str, uid: &str| {
        format!("ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {name}, uid: {uid}, controller: true}}]")
    };
    let set = format!(
        "
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: web-1, uid: rs, {}}}
spec: {{replicas: {replicas}, selector: {{}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: web, image: web:v1}}], initContainers: [{{name: init, image: init:v1}}]}}}}}}
",
        owner("Deployment", "web", "Deployment/team/web")
    );
    let pod = |number: u32| {
        let more = if number == pods { last } else { "" };
        format!(
            "
---
apiVersion: v1
kind: Pod
metadata: {{name: p{number}, labels: {{app: web}}, {more} {}}}
spec: {{containers: [{{name: web, image: web:v1}}]}}
",
            owner("ReplicaSet", "web-1", "rs")
        )
    };
    format!("{}{set}{}", web(replicas), (1..=pods).map(pod).collect::<String>())
}

#[test]
fn a_rule_that_governs_nobody_is_a_note() {
    let of = |spec: &str| notes(&format!("{}{}", web(2), rules(spec)));
    let absent = of("rules: [{name: a, availablePolicy: {maxUnavailableValue: 1}}]");
    assert!(absent.contains("PodTransitionRule/ptr: spec.selector is absent, so the rules govern no pod"), "{absent}");
    let bad = of("selector: {matchExpressions: [{key: a, operator: Near}]}, rules: []");
    assert!(
        bad.contains("PodTransitionRule/ptr: spec.selector: ") && bad.contains("no pod that it might mean passes"),
        "{bad}"
    );
    let other = of("selector: {matchLabels: {app: wep}}, rules: []");
    assert!(other.contains("PodTransitionRule/ptr selects no pod that is known here"), "{other}");
    let misspelt = notes(&format!("{}{}", web(2), rules("rules: []").replace("PodTransitionRule", "PodTransitonRule")));
    assert!(misspelt.contains("web.yaml:17: PodTransitonRule/ptr: kind PodTransitonRule of"), "{misspelt}");
    let nameless = notes(&format!("{}{}", web(2), rules("selector: {}, rules: []").replace("{name: ptr}", "{}")));
    assert!(nameless.contains("has no metadata.name"), "{nameless}");
    let right = of("selector: {}, rules: []");
    assert!(!right.contains("PodTransitionRule"), "{right}");
}

#[test]
fn what_can_not_be_read_is_named_with_its_field_and_line() {
    let said =
        |text: &str| files(text, &["-f", "x", "web", "--image", "web=web:v2"]).map(drop).unwrap_err().to_string();
    let number = said(&format!("{}{}", web(2), budget("maxUnavailable: 2147483648")));
    let words = "web.yaml:19: TransitionBudget/web: spec.maxUnavailable is 2147483648; it must be 2147483647 or less";
    assert!(number.starts_with(words), "{number}");
    let time = said(&format!("{}{}", web(2), budget("blackouts: [{start: 2026-11-01, end: 2026-11-02}]")));
    assert!(time.contains("spec.blackouts[0].start is \"2026-11-01\"; write a time with its zone"), "{time}");
}

#[test]
fn without_nodes_nobody_can_tell_how_many_stay_on_one() {
    let text = text::render(&planned(&format!("{}{}", web(2), budget("perNodeMinAvailable: 1"))));
    assert!(text.contains("at least 1 must stay on the pod's node, and how many are there is not known"), "{text}");
    assert!(text.contains("to unblock budget:web/perNodeMinAvailable: say how many nodes there are, with --nodes"));
    let report = files(
        &format!("{}{}", web(2), budget("perNodeMinAvailable: 1")),
        &["-f", "x", "web", "--image", "web=web:v2", "--nodes", "1"],
    );
    assert!(matches!(report.unwrap().ending(), Ending::Complete));
}

#[test]
fn a_workload_without_pods_is_told_so() {
    for image in ["web=web:v1", "web=web:v2"] {
        let report = files(&web(0), &["-f", "x", "web", "--image", image]).unwrap();
        assert_eq!((report.way, report.why.as_str()), ("Nothing", "it has no pods"));
        assert!(!report.notes.iter().any(|note| note.contains("made up")), "{:?}", report.notes);
    }
}

#[test]
fn pods_that_are_not_there_now_are_waited_for() {
    let gone = "deletionTimestamp: '2026-01-01T00:00:00Z',";
    for (text, who) in [
        (with_pods(4, 3, ""), "1 pod that is not created yet"),
        (with_pods(4, 4, gone), "p4"),
        (with_pods(5, 4, gone), "p4, 1 pod that is not created yet"),
    ] {
        let report = planned(&text);
        let said = text::render(&report);
        let words = format!("after 0s: nobody goes until these are available: {who}\n");
        assert!(said.contains(&words) && said.contains("if they come back:\n"), "{said}");
        assert!(said.contains("done after") && matches!(report.ending(), Ending::Complete), "{said}");
        assert!(said.contains("note: pods that are not available now are assumed to come back at once"), "{said}");
    }
    let never = planned(&format!("{}{}", with_pods(4, 3, ""), budget("maxUnavailable: 0")));
    assert!(
        matches!(never.ending(), Ending::Stuck(held) if held.rule == "budget:web/maxUnavailable"),
        "no pod that comes back helps"
    );
}

#[test]
fn hooks_are_named_because_their_time_is_their_own() {
    let hooks =
        r#"[{"name": "warm", "when": "BeforeDrain", "http": {"port": 80, "path": "/warm"}, "deadlineSeconds": 300}]"#;
    let text = web(2).replace(
        "metadata: {labels: {app: web}}",
        &format!("metadata: {{labels: {{app: web}}, annotations: {{hitless.dev/hooks: '{hooks}'}}}}"),
    );
    let notes = notes(&text);
    let words = "hook warm is called before each pod is drained and may take up to 300 s each time, which is not in the times above";
    assert_eq!(notes.matches(words).count(), 1, "{notes}");
}

#[test]
fn an_image_for_the_only_pod_is_a_warning_as_long_as_its_gap_is_not_known() {
    let warns = |snapshot: &Snapshot| {
        let report = live(snapshot, &["web", "--image", "web:v3"]).unwrap();
        report.notes.iter().any(|note| note.starts_with("warning: no other pod serves while a is operated"))
    };
    let one = || rollout(&[pod("a", "web:v2")]);
    assert!(warns(&one()));
    assert!(!warns(&with_gap(one(), 300)), "the gap is known");
    assert!(!warns(&two()), "another one serves");
}

#[test]
fn the_files_say_which_namespace_is_meant() {
    let objects = |text: &str| {
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        files::parse("web.yaml", text, "default", &mut objects, &mut unreadable);
        objects
    };
    let in_shop = web(1).replace("name: web, annotations", "name: web, namespace: shop, annotations");
    let target = |name: &str| arguments(&["-f", "x", name, "--image", "web:v2"]).target;
    let place = |text: &str, given, name: &str| place::namespace(&objects(text), given, &target(name));
    assert_eq!(place(&in_shop, None, "web").unwrap(), "shop");
    assert_eq!(place(&format!("{in_shop}{}", web(1)), None, "web").unwrap(), "default");
    let both = format!("{in_shop}{}", in_shop.replace("shop", "other"));
    assert_eq!(place(&both, Some("shop"), "web").unwrap(), "shop");
    let said = |text: &str, given, name: &str| place(text, given, name).unwrap_err().to_string();
    assert_eq!(said(&both, None, "web"), "the files have deployment/web in namespaces other, shop; say which with -n");
    assert_eq!(
        said(&in_shop, Some("x"), "web"),
        "the files have no deployment/web in namespace x; they have: deployment/web in namespace shop"
    );
    assert_eq!(
        said(&web(1), None, "wep"),
        "the files have no deployment/wep in namespace default; they have: deployment/web"
    );
    let text = said(&budget("paused: true"), None, "web");
    assert_eq!(text, "the files have no deployment/web in namespace default; they have no workload");
}

#[test]
fn texts_of_objects_stay_on_their_line() {
    let rule = r#"selector: {}, rules: [{name: "r\e[31m\nnote: fine", availablePolicy: {maxUnavailableValue: 0}}]"#;
    let text = text::render(&planned(&format!("{}{}", web(2), rules(rule))));
    assert!(text.contains(r"because ptr/r\u001b[31m\nnote: fine: at most 0"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("note: fine")), "{text}");
}

#[test]
fn where_nobody_goes_within_a_year_no_end_is_foretold() {
    let frozen = budget("blackouts: [{start: 2025-01-01T00:00:00Z, end: 2029-06-01T00:00:00Z}]");
    let report = planned(&format!("{}{frozen}", web(2)));
    assert!(matches!(report.ending(), Ending::Stuck(held) if held.rule == "budget:web/windows"));
    let text = text::render(&report);
    assert!(text.contains("nothing begins before 2029-06-01T00:00:00Z") && !text.contains("done after"), "{text}");
}

const ALL_STAY: &str = "
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}, minAvailable: 100%}
";

#[test]
fn under_a_budget_that_lets_none_of_all_go_pods_go_beside_a_companion_where_one_may_run() {
    let text = format!("{}{ALL_STAY}", web(3));
    let report = planned(&text);
    let said = text::render(&report);
    assert!(matches!(report.ending(), Ending::Complete), "{said}");
    assert!(said.contains("wave 3 of 3") && !said.contains("ever be updated"), "one after the other: {said}");
    let note =
        "a companion pod of the new version serves while each pod is operated, because pdb:web wants all pods to stay";
    assert!(report.notes.iter().any(|each| each == note), "{:?}", report.notes);
    let closed = ALL_STAY.replace("minAvailable: 100%", "maxUnavailable: 0");
    assert!(matches!(planned(&format!("{}{closed}", web(3))).ending(), Ending::Complete));
    assert!(matches!(planned(&format!("{}{ALL_STAY}", web(1))).ending(), Ending::Complete), "a single pod, too");
    let never =
        text.replace("hitless.dev/update: in-place", "hitless.dev/update: in-place, hitless.dev/companion: Never");
    let report = planned(&never);
    assert!(matches!(report.ending(), Ending::Stuck(held) if held.rule == "pdb:web"), "{}", text::render(&report));
    assert!(text::render(&report).contains("to unblock pdb:web: lower the minimum below 3"));
}

/// A StatefulSet `db`, with a budget that no pod ever passes.
fn closed_set() -> String {
    let set = web(3)
        .replace("kind: Deployment", "kind: StatefulSet")
        .replace("name: web, annotations", "name: db, annotations");
    format!("{set}{}", budget("topology: {key: zone, maxUnavailableDomains: 1}"))
        + "
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/os: linux}}
"
}

#[test]
fn what_stops_a_rollout_is_a_rule_and_nobodys_turn_and_all_that_are_left_are_counted() {
    let report = files(&closed_set(), &["-f", "x", "sts/db", "--image", "web=web:v2"]).unwrap();
    let said = text::render(&report);
    assert!(said.contains("then nothing moves any more; what is left: 3 pods"), "{said}");
    assert!(
        said.contains("because budget:web/topology: no node has the label zone, so this limit can never be kept"),
        "{said}"
    );
    assert!(
        said.contains("to unblock budget:web/topology: label the nodes, or take topology out of the budget"),
        "{said}"
    );
    assert!(!said.contains("NotItsTurn"), "{said}");
    let failure = show(&report, Format::Text).unwrap_err();
    assert_eq!(
        (failure.code(), failure.to_string()),
        (3, "rule budget:web/topology would stop the rollout".to_owned())
    );
}

#[test]
fn a_companion_is_promised_where_one_may_run_and_nowhere_else() {
    let deployment = notes(&web(1));
    let set =
        closed_set().split("\n---\napiVersion: hitless.dev").next().unwrap().replace("replicas: 3", "replicas: 1");
    let set = files(&set, &["-f", "x", "sts/db", "--image", "web=web:v2"]).unwrap();
    let said = text::render(&set);
    assert!(said.contains("no companion pod can serve") && !said.contains("a companion pod tries it first"), "{said}");
    assert!(said.contains("a second replica would serve meanwhile"), "{said}");
    assert!(deployment.contains("a companion pod tries it first"), "{deployment}");
}
