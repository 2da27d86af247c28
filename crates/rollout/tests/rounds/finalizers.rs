//! Pods that others protect by a finalizer are operated by us as by others: out of service first, told by a label, and not before the
//! finalizer is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::{Grant, GrantMode, WaitState};
use hitless_rollout::round::Round;
use hitless_rollout::snapshot::{NodeTransitionView, Snapshot};
use hitless_workloads::Request;
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, agent, decide, grants, meta, template, transition, view, written};

const GROUP: &str = "apps.kusionstack.io/v1alpha1";
const FINALIZER: &str = "prot.podopslifecycle.kusionstack.io/slb";

/// The pod of a CollaSet whose image has changed; it is protected or not, and in service or out of it for the grant.
fn snapshot(is_protected: bool, out_for: Option<&Grant>) -> Snapshot {
    let owner = json!([{"apiVersion": GROUP, "kind": "CollaSet", "name": "set", "uid": "uid-set", "controller": true}]);
    let revision = |name: &str, number: u32, image: &str| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(name), "revision": number,
            "data": {"spec": {"template": template(image)}}});
        object["metadata"]["ownerReferences"] = owner.clone();
        object
    };
    let objects = [
        json!({"apiVersion": GROUP, "kind": "CollaSet", "metadata": meta("set"),
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template("r.io/web:v2")}}),
        revision("set-1", 1, "r.io/web:v1"),
        revision("set-2", 2, "r.io/web:v2"),
    ];
    let mut pod = scene::pod(&meta("web"), "r.io/web:v1", "r.io/web@sha256:1", LONG_AGO);
    pod["metadata"]["ownerReferences"] = owner;
    pod["metadata"]["finalizers"] = if is_protected { json!([FINALIZER]) } else { json!([]) };
    pod["metadata"]["labels"] = json!({"app": "web", "kusionstack.io/control": "true",
        "collaset.kusionstack.io/instance-id": "0", "controller-revision-hash": "set-1"});
    if let Some(grant) = out_for {
        let out = |name: &str| json!({"type": name, "status": "False", "reason": "Leaving", "message": grant.id});
        pod["status"]["conditions"] = json!([out("Ready"), out("hitless.dev/InService")]);
    }
    let grants: Vec<Grant> = out_for.into_iter().cloned().collect();
    let known = NodeTransitionView { agent: Some(agent(&["hold", "waits"])), ..transition(grants, &json!([])) };
    Snapshot {
        node_transitions: BTreeMap::from([("n1".to_owned(), Arc::new(known))]),
        ..scene::snapshot(&objects, view(&pod), &["r.io/web:v1", "r.io/web:v2"])
    }
}

/// The patch of the pod's labels, if the round makes one.
fn labels(round: &Round) -> Option<Value> {
    written(round, "lifecycle-labels").into_iter().find_map(|write| match &write.request {
        Request::Patch(patch) => Some(json!(patch.clone().operations())),
        _ => None,
    })
}

#[test]
fn a_protected_pod_leaves_and_waits_for_whoever_protects_it() {
    let round = decide(&snapshot(true, None));
    let grant = grants(&round).unwrap_or_else(|| panic!("{:?}", round.verdicts)).remove(0);
    assert_eq!((&grant.mode, grant.waits.len()), (&GrantMode::Leave, 1), "{}", grant.mode_reason);
    assert!(grant.waits[0].is_for_finalizers() && grant.waits[0].message.contains(FINALIZER), "{:?}", grant.waits);
    // It is told, and the operation waits.
    let round = decide(&snapshot(true, Some(&grant)));
    let told = labels(&round).map(|patch| patch.to_string()).unwrap_or_default();
    assert!(told.contains("preparing.podopslifecycle.kusionstack.io~1hitless"), "{told}");
    let waits = |round: &Round| grants(round).map(|all| all[0].waits[0].state.clone());
    assert_ne!(waits(&round), Some(WaitState::Passed));
    // The finalizer is gone.
    assert_eq!(waits(&decide(&snapshot(false, Some(&grant)))), Some(WaitState::Passed));
}

#[test]
fn a_finalizer_that_stays_for_longer_than_an_hour_is_told_on_the_pod() {
    let mut grant = grants(&decide(&snapshot(true, None))).unwrap().remove(0);
    let late = |grant: &Grant| {
        let round = decide(&snapshot(true, Some(grant)));
        round.events.iter().find(|note| note.reason == "OperationOverdue").map(|note| note.text.clone())
    };
    assert_eq!(late(&grant), None, "it was granted a moment ago");
    grant.granted.0 -= jiff::SignedDuration::from_mins(61);
    let text = late(&grant).unwrap_or_default();
    assert!(text.contains("finalizers of others have kept us from pod web") && text.contains(FINALIZER), "{text}");
}

#[test]
fn nobody_is_waited_for_where_nobody_protects_the_pod() {
    let round = decide(&snapshot(false, None));
    let grant = grants(&round).unwrap_or_else(|| panic!("{:?}", round.verdicts)).remove(0);
    assert_eq!((&grant.mode, grant.waits.len()), (&GrantMode::Hold, 0));
}
