//! A StatefulSet whose template has other labels: its only pod gets them, with another image or alone.

use std::sync::Arc;

use hitless_api::{Grant, GrantMode, GrantOp, Reservation};
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::Snapshot;
use hitless_workloads::registry;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, agent, decide, ledgers, read, transition, view};

const CHART: &str = "helm.sh/chart";

fn owned(mut object: Value) -> Value {
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": true}]);
    object
}

fn template(image: &str, chart: &str) -> Value {
    let mut template = scene::template(image);
    template["metadata"]["labels"][CHART] = chart.into();
    template
}

fn revision(name: &str, number: i64, template: &Value) -> Value {
    let mut object =
        owned(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": scene::meta(name),
        "revision": number, "data": {"spec": {"template": template}}}));
    object["metadata"]["labels"] = json!({"controller-revision-hash": name});
    object
}

/// The chart of web:v1 is 1; the template has this image and chart 2. The node's agent has these features.
fn changed(image: &str, features: &[&str]) -> Snapshot {
    let to = template(image, "2");
    let mut set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": scene::meta("web"),
        "spec": {"replicas": 1, "template": to, "updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 1, "updateRevision": "new", "currentRevision": "old", "updatedReplicas": 0}});
    set["metadata"]["annotations"] = json!({"hitless.dev/update": "in-place"});
    let held = registry::of_workload(&read(&set).id.group_kind).unwrap().held(set);
    let objects = [held, revision("old", 1, &template("web:v1", "1")), revision("new", 2, &to)];
    let mut pod = owned(scene::pod(&scene::meta("web-0"), "web:v1", "", LONG_AGO));
    pod["metadata"]["labels"] = json!({"app": "web", CHART: "1", "controller-revision-hash": "old"});
    pod["metadata"]["annotations"] = json!({"hitless.dev/hooks": json!([{"name": "ask", "when": "BeforeDrain",
        "http": {"port": 80, "path": "/"}}]).to_string()});
    let mut snapshot = scene::snapshot(&objects, view(&pod), &["web:v1", "web:v2"]);
    let mut node = transition(Vec::new(), &json!([]));
    node.agent = Some(agent(features));
    snapshot.node_transitions.insert("n1".to_owned(), Arc::new(node));
    snapshot
}

fn granted(round: &Round) -> Grant {
    let mut grants = scene::grants(round).unwrap_or_else(|| panic!("{:?}", round.verdicts));
    assert_eq!(grants.len(), 1);
    grants.remove(0)
}

fn reserved(round: &Round) -> Reservation {
    ledgers(round).remove(0).reservations.into_values().next().unwrap()
}

#[test]
fn labels_alone_are_granted_without_a_drain_and_the_ledger_names_them_there_and_back() {
    let round = decide(&changed("web:v1", &["relabel", "hold"]));
    let grant = granted(&round);
    assert_eq!((&grant.op, &grant.mode, grant.containers.len()), (&GrantOp::Relabel, &GrantMode::Stay, 0));
    assert!(grant.mode_reason.starts_with("LabelsOnly") && grant.hooks.is_empty() && grant.waits.is_empty());
    assert_eq!(grant.labels[CHART].to.as_deref(), Some("2"));
    let Reservation { labels, from_labels, images, .. } = reserved(&round);
    assert_eq!((labels[CHART].as_str(), from_labels[CHART].as_str()), ("2", "1"));
    assert_eq!(
        (labels["controller-revision-hash"].as_str(), from_labels["controller-revision-hash"].as_str()),
        ("new", "old")
    );
    assert!(images.is_empty());
    let expected = round.verdicts[0].expected.as_ref().unwrap();
    assert!(!expected.is_alone, "it serves all the time");
}

#[test]
fn with_an_image_they_go_in_the_same_operation() {
    let round = decide(&changed("web:v2", &["relabel", "hold", "hooks"]));
    let grant = granted(&round);
    assert_eq!((&grant.op, grant.containers["web"].to.as_str()), (&GrantOp::Update, "web:v2"));
    assert_ne!(grant.mode, GrantMode::Stay);
    assert_eq!((grant.labels[CHART].from.as_deref(), grant.labels[CHART].to.as_deref()), (Some("1"), Some("2")));
}

#[test]
fn a_budget_that_spares_no_pod_does_not_stop_labels_alone() {
    for (image, goes) in [("web:v1", true), ("web:v2", false)] {
        let mut snapshot = changed(image, &["relabel", "hold", "hooks"]);
        let budget = json!({"metadata": {"namespace": "shop", "name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
        let budget: PodDisruptionBudget = serde_json::from_value(budget).unwrap();
        snapshot.disruption_budgets = vec![Arc::new(budget.into())];
        let round = decide(&snapshot);
        let granted = scene::grants(&round).unwrap_or_default();
        assert_eq!(!granted.is_empty(), goes, "{image}: {:?}", round.verdicts);
    }
}

#[test]
fn an_agent_of_an_earlier_version_is_not_asked() {
    let round = decide(&changed("web:v1", &["hold"]));
    assert!(scene::grants(&round).is_none_or(|grants| grants.is_empty()));
    let Some(WaitReason::AgentTooOld { cannot, .. }) = &round.verdicts[0].waiting else {
        panic!("{:?}", round.verdicts)
    };
    assert!(cannot.contains("labels"), "{cannot}");
}

#[test]
fn a_label_by_which_a_service_finds_the_pods_is_left_to_the_native_controller() {
    for (selector, is_native) in [(json!({CHART: "1"}), true), (json!({"app": "web"}), false)] {
        let mut snapshot = changed("web:v1", &["relabel"]);
        let service = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"clusterIP": "10.0.0.1", "selector": selector}});
        snapshot.services = vec![Arc::new((&serde_json::from_value::<Service>(service).unwrap()).into())];
        let round = decide(&snapshot);
        let notes = round.steps.iter().filter_map(|step| step.write.tells.as_ref());
        let told: Vec<(&str, &str)> = notes.map(|note| (note.reason, note.text.as_str())).collect();
        let text = "a change of spec.template.metadata.labels[helm.sh/chart] can't be made to running pods, because Service web selects pods \
                    by it; the native controller rolls it";
        assert_eq!(told, if is_native { vec![("NativeRollout", text)] } else { Vec::new() }, "{selector}");
        assert_eq!(round.verdicts.iter().any(|verdict| verdict.expected.is_some()), !is_native);
    }
}
