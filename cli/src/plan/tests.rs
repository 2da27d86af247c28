mod helpers;
mod said;

use hitless_store::inputs::Input as _;
use hitless_store::inputs::rows::{DrainPolicies, NodeTransitions, Services};
use serde_json::json;

use super::*;
use crate::args::{Cli, Command};
use crate::scene::{pod, rollout, with_budget, with_drain_policy, with_gap, with_rule, with_service};
use crate::snapshot::Unread;
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
    plan(snapshot, &arguments(line), &assumed, now())
}

fn files(text: &str, line: &[&str]) -> Result<Report, Failure> {
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    files::parse("web.yaml", text, "team", &mut objects, &mut unreadable);
    assert!(unreadable.is_empty(), "{unreadable:?}");
    let arguments = arguments(line);
    let (mut snapshot, notes) = from_files::snapshot(&objects, arguments.nodes)?;
    snapshot.namespace = Some("team".to_owned());
    let assumed = Assumed { operation_seconds: arguments.operation_seconds, from_files: true };
    let mut report = plan(&snapshot, &arguments, &assumed, now())?;
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
fn where_the_registry_is_asked_the_digest_is_not_known_yet() {
    let notes = |text: &str, image: &str| files(text, &["web", "--image", image]).unwrap().notes.join("\n");
    let always = web(2).replace("image: web:v1", "image: web:v1, imagePullPolicy: Always");
    assert!(notes(&always, "web=web:v2").contains("asked what web:v2 means"), "{}", notes(&always, "web=web:v2"));
    assert!(!notes(&always, &format!("web=web@sha256:{}", "2".repeat(64))).contains("asked what"));
    assert!(!notes(&web(2), "web=web:v2").contains("asked what"));
}

#[test]
fn a_rule_that_never_passes_is_named_with_what_would_unblock() {
    let report = live(&with_rule(rollout(&[pod("a", "web:v2")]), 0), &["web", "--image", "web=web:v3"]).unwrap();
    insta::assert_snapshot!("stuck", text::render(&report));
    assert!(matches!(report.ending(), Ending::Stuck(held) if held.rule == "never/budget" && held.is_rule));
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
fn labels_are_changed_in_place_unless_somebody_finds_the_pods_by_them() {
    let report = files(&web(2), &["-f", "x", "web", "--label", "helm.sh/chart=web-2"]).unwrap();
    let text = text::render(&report);
    assert_eq!((report.way, report.pods), ("InPlace", 2));
    for words in [
        "deployment/web in team, label helm.sh/chart: none -> web-2",
        "labels that are changed in place, too: helm.sh/chart",
        "Stay — LabelsOnly: nothing in the pod is replaced",
        "clients: nothing: nothing in the pod is replaced, and it stays in service",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let both = files(&web(2), &["-f", "x", "web", "--image", "web:v2", "--label", "helm.sh/chart=web-2"]).unwrap();
    assert!(text::render(&both).contains("web: web:v1 -> web:v2, label helm.sh/chart: none -> web-2"));
    let selected = format!("{}{}", web(2), budget("maxUnavailable: 1").replace("app: web", "app: web, version: '1'"));
    let report = files(&selected, &["-f", "x", "web", "--label", "version=1"]).unwrap();
    assert!(
        report.way == "Native" && report.why.contains("TransitionBudget") && report.why.contains("labels[version]"),
        "{report:?}"
    );
    let same = files(&web(2), &["-f", "x", "web", "--label", "app=web"]).unwrap();
    assert_eq!((same.way, same.why.as_str()), ("Nothing", "all pods have this already"));
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

fn two() -> Snapshot {
    with_rule(rollout(&[pod("a", "web:v2"), pod("b", "web:v2")]), 2)
}

#[test]
fn who_goes_in_the_same_wave_does_not_serve_the_next_one() {
    let report = live(&two(), &["web", "--image", "web:v3"]).unwrap();
    insta::assert_snapshot!("modes", text::render(&report));
    insta::assert_snapshot!("modes_json", serde_json::to_string_pretty(&report.steps).unwrap());
}

#[test]
fn two_that_are_held_go_one_after_the_other_where_one_service_has_but_them() {
    let snapshot = with_service(with_gap(two(), 300), &json!({"port": 80}));
    insta::assert_snapshot!("held", text::render(&live(&snapshot, &["web", "--image", "web:v3"]).unwrap()));
}

#[test]
fn a_single_replica_is_held_and_its_clients_are_refused_when_the_gap_is_longer_than_the_cap() {
    let snapshot = with_gap(rollout(&[pod("a", "web:v2")]), 4000);
    let text = text::render(&live(&snapshot, &["web", "--image", "web:v3"]).unwrap());
    assert!(text.contains("Hold — OnlyPod: no other pod serves; its workload was away for 4000 ms"), "{text}");
    assert!(text.contains("clients: new connections wait for 2500 ms and are refused then"), "{text}");
}

#[test]
fn policies_of_the_namespace_come_before_the_clusters() {
    let say = |snapshot: &Snapshot| text::render(&live(snapshot, &["web", "--image", "web:v3"]).unwrap());
    let default = json!({"mode": "Hold", "drain": {"holdCapMilliseconds": 1000}});
    let snapshot = with_drain_policy(with_gap(two(), 300), "default", "hitless-system", &default);
    let text = say(&snapshot);
    assert!(text.contains("Hold — Wished: by DrainPolicy hitless-system/default"), "{text}");
    assert!(text.contains("wait about 300 ms (learned gap), at most 1000 ms"), "{text}");
    let own = json!({"selector": {}, "mode": "Leave", "drain": {"stragglers": "Wait", "deadlineSeconds": 90}});
    let text = say(&with_drain_policy(snapshot, "own", "team", &own));
    assert!(text.contains("Leave — Wished: by DrainPolicy team/own"), "{text}");
    assert!(text.contains("waited for up to 90 s, then cut off"), "{text}");
}

#[test]
fn what_may_not_be_read_leaves_the_mode_open_and_nothing_else() {
    let default = DrainPolicies::SYSTEM.map(|system| system.part);
    for part in [Services::PART, DrainPolicies::PART, default, NodeTransitions::PART].map(Option::unwrap) {
        let mut snapshot = two();
        snapshot.unread.insert(part, Unread::Refused("it is forbidden".to_owned()));
        let report = live(&snapshot, &["web", "--image", "web:v3"]).unwrap();
        let text = text::render(&report);
        let said = format!("note: {part} not read: it is forbidden; ");
        let line = text.lines().find(|line| line.starts_with(&said)).unwrap();
        assert!(line.contains("which mode pods would get") && line.ends_with("not known"), "{line}");
        assert!(text.contains("wave 1 of ") && !text.contains("clients"), "{text}");
        assert!(!serde_json::to_string(&report).unwrap().contains("clientsSee"));
    }
}

#[test]
fn services_and_policies_of_files_count() {
    let more = "
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080, appProtocol: kubernetes.io/ws}]}
---
apiVersion: hitless.dev/v1alpha1
kind: DrainPolicy
metadata: {name: slow}
spec: {selector: {}, drain: {stragglerAfterSeconds: 7}}
";
    let web = web(2).replace("image: web:v1}", "image: web:v1, ports: [{containerPort: 8080}]}");
    let report = files(&format!("{web}{more}"), &["-f", "x", "web", "--image", "web=web:v2"]).unwrap();
    let text = text::render(&report);
    assert!(text.contains("Leave — LongConnections: those to port 8080 outlast a request"), "{text}");
    assert!(text.contains("waited for up to 7 s, then cut off"), "{text}");
}

#[test]
fn stateful_sets_and_daemon_sets_from_files_go_as_their_own_strategies_say() {
    let manifest = |kind: &str, more: &str| {
        format!(
            "
---
apiVersion: apps/v1
kind: {kind}
metadata: {{name: db, annotations: {{hitless.dev/update: in-place}}}}
spec:
  {more}
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec: {{containers: [{{name: db, image: db:v1}}]}}
"
        )
    };
    let strategy = "updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1, maxUnavailable: 2}}";
    let text = manifest("StatefulSet", &format!("replicas: 4\n  ordinals: {{start: 5}}\n  {strategy}"));
    let left_out = files(&text.replace("partition: 1", "partition: 4"), &["-f", "x", "sts/db", "--image", "db:v2"]);
    assert!(left_out.unwrap().why.contains("(partition)"));
    let report = files(&text, &["-f", "x", "sts/db", "--image", "db:v2"]).unwrap();
    insta::assert_snapshot!("stateful_set", text::render(&report));
    let strategy = "updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 50%}}";
    let report = files(&manifest("DaemonSet", strategy), &["-f", "x", "--nodes", "4", "ds/db", "--image", "db:v2"]);
    insta::assert_snapshot!("daemon_set", text::render(&report.unwrap()));
}

#[test]
fn made_up_pods_of_stateful_sets_have_the_labels_by_which_a_service_selects_one_of_them() {
    let service = |name: &str, selector: &str| {
        format!(
            "
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{clusterIP: 10.0.0.1, selector: {selector}, ports: [{{port: 80}}]}}
"
        )
    };
    let set = "
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, annotations: {hitless.dev/update: in-place, hitless.dev/gap: '{\"a\": 6300}'}}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: db:v1}]}
";
    let one = service("db-1", "{statefulset.kubernetes.io/pod-name: db-1}");
    let text = format!("{set}{}{one}", service("db", "{app: db}"));
    let said = text::render(&files(&text, &["-f", "x", "sts/db", "--image", "db:v2"]).unwrap());
    assert!(said.contains("another pod serves, but not clients of Service db-1"), "{said}");
}

/// Two Deployments whose selectors match each other's pods.
fn web_and_canary() -> String {
    let deployment = |name: &str, labels: &str| {
        format!(
            "
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, annotations: {{hitless.dev/update: in-place}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {labels}}}
  template: {{metadata: {{labels: {labels}}}, spec: {{containers: [{{name: web, image: web:v1}}]}}}}
"
        )
    };
    let pod = |name: &str, set: &str| {
        format!(
            "
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: web, track: canary}}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: {set}, uid: {set}, controller: true}}]}}
spec: {{containers: [{{name: web, image: web:v1}}]}}
"
        )
    };
    let deployments = [deployment("web", "{app: web}"), deployment("web-canary", "{app: web, track: canary}")];
    format!("{}{}{}", deployments.concat(), pod("w1", "web-5d4f"), pod("c1", "web-canary-77aa"))
}

#[test]
fn a_pod_of_the_files_belongs_to_the_workload_that_it_names() {
    for (workload, pod) in [("deployment/web", "w1"), ("deployment/web-canary", "c1")] {
        let report = files(&web_and_canary(), &["-f", "x", workload, "--image", "web:v2"]).unwrap();
        let text = text::render(&report);
        assert!(text.contains("in place, 1 pod,") && text.contains(pod), "{workload}: {text}");
    }
}

#[test]
fn what_is_no_template_is_named() {
    let text = web(1).replace("  template:", "  template: x\n  other:");
    let error = files(&text, &["-f", "x", "deployment/web", "--image", "web:v2"]).map(drop).unwrap_err().to_string();
    assert!(error.contains("spec.template is no map of fields"), "{error}");
}
