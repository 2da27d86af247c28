use serde_json::json;

use super::*;
use crate::args::{Cli, Command};
use crate::scene::{pod, rollout, with_budget, with_rule};
use clap::Parser;

fn now() -> Timestamp {
    "2026-01-01T00:00:30Z".parse().unwrap()
}

fn arguments(line: &[&str]) -> PlanArgs {
    let line = ["kubectl-hitless", "plan"].iter().chain(line);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Plan(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

fn live(snapshot: &Snapshot, line: &[&str]) -> Result<Report, Failure> {
    let assumed = Assumed { operation_seconds: 4, from_files: false };
    plan(snapshot, "team", &arguments(line), &assumed, now())
}

fn files(text: &str, line: &[&str]) -> Result<Report, Failure> {
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    files::parse("web.yaml", text, "team", &mut objects, &mut unreadable);
    assert!(unreadable.is_empty(), "{unreadable:?}");
    let arguments = arguments(line);
    let (snapshot, notes) = from_files::snapshot(&objects, arguments.nodes)?;
    let assumed = Assumed { operation_seconds: arguments.operation_seconds, from_files: true };
    let mut report = plan(&snapshot, "team", &arguments, &assumed, now())?;
    report.notes.extend(notes);
    Ok(report)
}

fn web(replicas: u32) -> String {
    format!(
        "
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, annotations: {{hitless.dev/update: in-place}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: web, image: web:v1}}]
      initContainers: [{{name: init, image: init:v1}}]
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
spec: {{selector: {{matchLabels: {{app: web}}}}, {spec}}}
"
    )
}

#[test]
fn live_pods_go_in_waves_of_the_budget() {
    let pods: Vec<_> = ["a", "b", "c", "d", "e"].iter().map(|name| pod(name, "web:v2")).collect();
    let report = live(&with_rule(rollout(&pods), 2), &["web", "--image", "web:v3"]).unwrap();
    insta::assert_snapshot!("live", text::render(&report));
    insta::assert_snapshot!("live_json", serde_json::to_string_pretty(&report).unwrap());
    assert!(matches!(report.ending(), Ending::Complete));
}

#[test]
fn a_rule_that_never_passes_is_named_with_what_would_unblock() {
    let report = live(&with_rule(rollout(&[pod("a", "web:v2")]), 0), &["web", "--image", "web=web:v3"]).unwrap();
    insta::assert_snapshot!("stuck", text::render(&report));
    assert!(matches!(report.ending(), Ending::Stuck("never/budget")));
}

#[test]
fn windows_soaks_and_approvers_take_their_time() {
    let rule = "
---
apiVersion: apps.kusionstack.io/v1alpha1
kind: PodTransitionRule
metadata: {name: ask}
spec: {selector: {}, rules: [{name: office, webhook: {clientConfig: {url: 'https://a.example'}}}]}
";
    let spec = "maxUnavailable: 50%, soakSeconds: 60, windows: [{start: '02:00', end: '03:00'}]";
    let text = format!("{}{}{rule}", web(4), budget(spec));
    let report = files(&text, &["-f", "x", "web", "--image", "web:v2", "--nodes", "2"]).unwrap();
    insta::assert_snapshot!("windows", text::render(&report));
}

#[test]
fn a_node_and_a_zone_at_a_time() {
    let spec = "maxUnavailableNodes: 1, maxUnavailable: 100%";
    let text = format!("{}{}", web(6), budget(spec));
    let report =
        files(&text, &["-f", "x", "web", "--image", "web:v2", "--nodes", "3", "--operation-seconds", "10"]).unwrap();
    insta::assert_snapshot!("nodes", text::render(&report));
}

#[test]
fn what_is_no_matter_of_images_is_rolled_by_kubernetes_and_what_is_the_same_is_nothing() {
    let report = files(&web(2), &["-f", "x", "web", "--image", "init=init:v2"]).unwrap();
    insta::assert_snapshot!("native", text::render(&report));
    let report = files(&web(2), &["-f", "x", "web", "--image", "web:v1"]).unwrap();
    assert_eq!((report.way, report.pods), ("Nothing", 0));
}

#[test]
fn pods_that_can_not_be_operated_are_left_out_by_name() {
    let mut ungated = pod("b", "web:v2");
    ungated["spec"]["readinessGates"] = json!([]);
    ungated["metadata"]["annotations"]["hitless.dev/mode"] = json!("Leave");
    let report = live(&rollout(&[pod("a", "web:v2"), ungated]), &["web", "--image", "web:v3"]).unwrap();
    assert!(text::render(&report).contains("not operated: b: NoReadinessGate"), "{}", text::render(&report));
    assert!(matches!(report.ending(), Ending::LeftOut("b")));
}

#[test]
fn wrong_names_are_usage() {
    let failure = |line: &[&str]| live(&rollout(&[pod("a", "web:v2")]), line).err().unwrap();
    assert!(failure(&["web", "--image", "side=x:1"]).to_string().contains("there are: web"));
    assert_eq!(failure(&["pod/a", "--image", "x:1"]).code(), 2);
    assert!(failure(&["nope", "--image", "x:1"]).to_string().contains("deployment/nope does not exist"));
}

#[test]
fn a_deployment_that_has_not_opted_in_is_planned_as_if_it_had() {
    let text = web(2).replace("annotations: {hitless.dev/update: in-place}", "labels: {}");
    let report = files(&text, &["-f", "x", "web", "--image", "web:v2"]).unwrap();
    assert!(report.notes[0].contains("has not opted in") && report.pods == 2, "{report:?}");
}

#[test]
fn a_budget_of_the_whole_cluster_counts() {
    let pods: Vec<_> = ["a", "b"].iter().map(|name| pod(name, "web:v2")).collect();
    let cluster = json!({"selector": {}, "scope": "Cluster", "maxConcurrent": 1, "maxUnavailable": "100%"});
    let snapshot = with_budget(rollout(&pods), "all", "hitless-system", &cluster);
    let report = live(&snapshot, &["web", "--image", "web:v3"]).unwrap();
    assert_eq!(report.seconds, Some(8));
}
