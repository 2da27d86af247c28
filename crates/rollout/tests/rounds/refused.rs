//! A pod whose application has said never.

use hitless_api::MicroTime;
use hitless_api::pod::PodView;
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::{Evidence, OperationKey};
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, decide, grants, meta, now, transition, view};

/// A pod that is to be restarted, with these annotations beside.
fn pod(annotations: &Value) -> PodView {
    let id = format!("r.io/web@sha256:{}", "1".repeat(64));
    let mut pod = scene::pod(&meta("web"), "r.io/web:v1", &id, LONG_AGO);
    pod["metadata"]["annotations"] = annotations.clone();
    pod["metadata"]["annotations"]["hitless.dev/restart"] = json!("now");
    view(&pod)
}

/// What is decided once its agent has reported the refusal, and these hooks.
fn refused(annotations: &Value, hooks: &Value) -> Round {
    let mut snapshot = scene::snapshot(&[], pod(annotations), &["r.io/web:v1"]);
    let mut granted = grants(&decide(&snapshot)).unwrap();
    granted[0].granted = MicroTime(LONG_AGO.parse().unwrap());
    let grant = granted[0].clone();
    let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": grant.granted, "hooks": hooks,
        "result": {"outcome": "Refused", "reason": "TaskRefused", "report": {}}}]);
    snapshot.evidence.insert(OperationKey::granted(&grant), Evidence::Ready);
    snapshot.node_transitions.insert("n1".to_owned(), std::sync::Arc::new(transition(granted, &report)));
    decide(&snapshot)
}

fn reasons(round: &Round) -> Vec<&'static str> {
    round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()).map(WaitReason::reason).collect()
}

#[test]
fn never_lasts_until_the_owner_takes_the_permission_away() {
    let allowed = json!({"hitless.dev/task": "allowed"});
    assert_eq!(reasons(&refused(&allowed, &json!([]))), ["ApplicationRefused"]);
    let overruled = refused(&json!({}), &json!([]));
    assert_eq!(reasons(&overruled), [""; 0]);
    let again = grants(&overruled).unwrap();
    assert_eq!(again.iter().map(|grant| grant.granted.0).collect::<Vec<_>>(), [now()], "it is granted anew");
    let hooks = json!([{"name": "ask", "outcome": "Refused", "attempts": 1, "milliseconds": 1, "output": ""}]);
    assert_eq!(
        reasons(&refused(&json!({}), &hooks)),
        ["ApplicationRefused"],
        "a hook's answer is its owner's own wish"
    );
}
