//! A pod leaves because another one serves, and that one serves no more.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::{Cancel, Grant, GrantMode};
use hitless_rollout::mode::{Mode, ServiceView};
use hitless_rollout::snapshot::Snapshot;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, agent, decide, grants, meta, transition, view};

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let id = format!("r.io/web@sha256:{}", "1".repeat(64));
    let mut pod = scene::pod(&meta(name), "r.io/web:v1", &id, LONG_AGO);
    pod["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "ContainersReady", "status": "True"}));
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["metadata"]["annotations"] = json!({});
    change(&mut pod);
    pod
}

/// Two pods of one Service; the first one is to be restarted.
pub(crate) fn snapshot(change: impl FnOnce(&mut Value, &mut Value)) -> Snapshot {
    let mut one = pod("one", |pod| pod["metadata"]["annotations"]["hitless.dev/restart"] = "now".into());
    let mut other = pod("other", |_| {});
    change(&mut one, &mut other);
    let service = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1"}});
    let service = ServiceView::from(&serde_json::from_value::<Service>(service).unwrap());
    let snapshot = scene::snapshot(&[], view(&one), &["r.io/web:v1"]);
    Snapshot { services: vec![Arc::new(service)], ..snapshot }
        .with_pods(vec![Arc::new(view(&one)), Arc::new(view(&other))])
}

fn serves_no_more(pod: &mut Value) {
    pod["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False"}, {"type": "hitless.dev/InService", "status": "True"}]);
}

/// The grant of the first one.
fn granted() -> Grant {
    let grant = grants(&decide(&snapshot(|_, _| {}))).unwrap().remove(0);
    assert_eq!((&grant.mode, Mode::word(&grant.mode_reason)), (&GrantMode::Leave, "UnknownGap"));
    grant
}

/// Why it is cancelled, once its agent, which has these features, reports that phase.
fn cancelled(grant: &Grant, phase: &str, features: &[&str], mut seen: Snapshot) -> Option<String> {
    let reports = json!([{"id": grant.id, "granted": grant.granted, "phase": phase, "since": grant.granted}]);
    let mut node = transition(vec![grant.clone()], &reports);
    node.agent = Some(agent(features));
    seen.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(node))]);
    let written = grants(&decide(&seen))?;
    written.iter().find(|each| each.id == grant.id)?.cancel.as_ref().map(|cancel| cancel.reason.clone())
}

#[test]
fn it_is_put_back_while_its_old_containers_run_and_not_where_its_agent_would_undo_what_is_done() {
    let (grant, knows) = (granted(), [Cancel::LAST_ENDPOINT_FEATURE]);
    let down = || snapshot(|_, other| serves_no_more(other));
    assert_eq!(cancelled(&grant, "Draining", &knows, down()).as_deref(), Some("LastEndpoint"));
    assert_eq!(cancelled(&grant, "Draining", &knows, snapshot(|_, _| {})), None, "the other one serves");
    assert_eq!(cancelled(&grant, "Operating", &knows, down()), None, "it is being replaced");
    assert_eq!(cancelled(&grant, "Draining", &[], down()), None, "an older agent");
    let crashed = snapshot(|one, other| {
        serves_no_more(other);
        one["status"]["conditions"] = json!([{"type": "ContainersReady", "status": "False"}]);
    });
    assert_eq!(cancelled(&grant, "Draining", &knows, crashed), None, "it could not serve");
    let wanted = Grant { mode_reason: "Wished: by annotation".to_owned(), ..grant };
    assert_eq!(cancelled(&wanted, "Draining", &knows, down()), None, "its owner wants it to leave");
}
