//! Pods of a CloneSet with hooks: an operation begins as ever, and waits out of service until the hook is off the pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::{Grant, GrantMode, GrantOp, WaitState};
use hitless_rollout::round::Round;
use hitless_rollout::snapshot::{NodeTransitionView, Snapshot};
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, agent, decide, grants, meta, template, transition, view, written};

const GROUP: &str = "apps.kruise.io/v1alpha1";
const LABEL: &str = "example.com/registered";

/// A pod of the set: its letters, its version, upstream's state, and whether the hook is on it.
#[derive(Clone, Copy)]
struct Pod<'g> {
    id: &'static str,
    version: u32,
    state: &'static str,
    is_hooked: bool,
    /// The grant for which it is out of service.
    out_for: Option<&'g Grant>,
}

/// Pods of v1 with the hook, in service.
const OLD: [Pod<'static>; 2] = [old("bbbbb"), old("ccccc")];

const fn old(id: &'static str) -> Pod<'static> {
    Pod { id, version: 1, state: "Normal", is_hooked: true, out_for: None }
}

/// A set that is to run v2, with this hook.
fn snapshot(hook: &str, replicas: usize, pods: &[Pod<'_>]) -> Snapshot {
    let owner = json!([{"apiVersion": GROUP, "kind": "CloneSet", "name": "set", "uid": "uid-set", "controller": true}]);
    let revision = |number: u32| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(&format!("set-{number}")),
            "revision": number, "data": {"spec": {"template": template(&format!("r.io/web:v{number}"))}}});
        object["metadata"]["ownerReferences"] = owner.clone();
        object
    };
    let set = json!({"apiVersion": GROUP, "kind": "CloneSet", "metadata": meta("set"),
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("r.io/web:v2"),
            "updateStrategy": {"type": "InPlaceIfPossible", "maxUnavailable": 1}, "lifecycle": {hook: {"labelsHandler": {LABEL: "yes"}}}}});
    let view = |pod: &Pod<'_>| {
        let Pod { id, version, state, is_hooked, out_for } = *pod;
        let mut object =
            scene::pod(&meta(&format!("set-{id}")), &format!("r.io/web:v{version}"), "r.io/web@sha256:1", LONG_AGO);
        object["metadata"]["ownerReferences"] = owner.clone();
        object["metadata"]["labels"] = json!({"app": "web", "apps.kruise.io/cloneset-instance-id": id,
            "controller-revision-hash": format!("set-{version}"), "lifecycle.apps.kruise.io/state": state});
        if is_hooked {
            object["metadata"]["labels"][LABEL] = json!("yes");
        }
        if let Some(grant) = out_for {
            let out = |name: &str| json!({"type": name, "status": "False", "reason": "Leaving", "message": grant.id});
            object["status"]["conditions"] = json!([out("Ready"), out("hitless.dev/InService")]);
        }
        Arc::new(view(&object))
    };
    let granted: Vec<Grant> = pods.iter().filter_map(|pod| pod.out_for.cloned()).collect();
    let known = NodeTransitionView { agent: Some(agent(&["hold", "waits"])), ..transition(granted, &json!([])) };
    let pods: Vec<_> = pods.iter().map(view).collect();
    let first = scene::snapshot(&[set, revision(1), revision(2)], (*pods[0]).clone(), &["r.io/web:v1", "r.io/web:v2"]);
    Snapshot { node_transitions: BTreeMap::from([("n1".to_owned(), Arc::new(known))]), ..first.with_pods(pods) }
}

fn granted(snapshot: &Snapshot) -> Grant {
    let round = decide(snapshot);
    grants(&round).unwrap_or_else(|| panic!("{:?}", round.verdicts)).remove(0)
}

/// The state that is written to a pod.
fn state(round: &Round) -> Option<Value> {
    let writes = written(round, "lifecycle-state");
    writes.first()?.content("/metadata/labels/lifecycle.apps.kruise.io~1state")
}

/// These pods, of which the grant's is out of service for it.
fn leaving<'g>(pods: [Pod<'g>; 2], grant: &'g Grant, state: &'static str, is_hooked: bool) -> [Pod<'g>; 2] {
    pods.map(|pod| {
        let is_it = grant.pod.name.ends_with(pod.id);
        Pod {
            out_for: is_it.then_some(grant),
            state: if is_it { state } else { pod.state },
            is_hooked: is_hooked || !is_it,
            ..pod
        }
    })
}

#[test]
fn an_update_waits_out_of_service_until_the_hook_is_off() {
    let grant = granted(&snapshot("inPlaceUpdate", 2, &OLD));
    assert_eq!(
        (&grant.op, &grant.mode, grant.waits.len()),
        (&GrantOp::Update, &GrantMode::Leave, 1),
        "{}",
        grant.mode_reason
    );
    assert!(grant.waits[0].is_for_finalizers() && grant.waits[0].message.contains(LABEL), "{:?}", grant.waits);
    // It is out of service, and the operator of the hook is told.
    let round = decide(&snapshot("inPlaceUpdate", 2, &leaving(OLD, &grant, "Normal", true)));
    assert_eq!(state(&round), Some(json!("PreparingUpdate")));
    let wait = |round: &Round| grants(round).map(|all| all[0].waits[0].state.clone());
    assert_ne!(wait(&round), Some(WaitState::Passed));
    // The hook is off.
    let round = decide(&snapshot("inPlaceUpdate", 2, &leaving(OLD, &grant, "PreparingUpdate", false)));
    assert_eq!((wait(&round), state(&round)), (Some(WaitState::Passed), Some(json!("Updating"))));
}

#[test]
fn a_pod_that_is_too_many_waits_out_of_service_until_the_hook_is_off() {
    let new = OLD.map(|pod| Pod { version: 2, ..pod });
    let grant = granted(&snapshot("preDelete", 1, &new));
    assert_eq!((&grant.op, grant.waits.len()), (&GrantOp::Drain, 1));
    let round = decide(&snapshot("preDelete", 1, &leaving(new, &grant, "Normal", true)));
    assert_eq!(state(&round), Some(json!("PreparingDelete")));
    assert!(written(&round, "delete-pod").is_empty());
    let round = decide(&snapshot("preDelete", 1, &leaving(new, &grant, "PreparingDelete", false)));
    assert_eq!(grants(&round).map(|all| all[0].waits[0].state.clone()), Some(WaitState::Passed));
}

/// Upstream counts only pods that are `Normal` as available: the registry has not let clients come back to the first one.
#[test]
fn no_other_pod_goes_while_the_hook_of_an_updated_one_is_not_back() {
    let with =
        |state, is_hooked| snapshot("inPlaceUpdate", 2, &[Pod { version: 2, state, is_hooked, ..OLD[0] }, OLD[1]]);
    let round = decide(&with("Updated", false));
    assert!(grants(&round).unwrap_or_default().is_empty(), "{:?}", round.verdicts);
    assert_eq!(granted(&with("Normal", true)).pod.name, "set-ccccc");
}

#[test]
fn a_hook_that_stays_for_longer_than_an_hour_is_told_on_the_pod() {
    let mut grant = granted(&snapshot("inPlaceUpdate", 2, &OLD));
    grant.granted.0 -= jiff::SignedDuration::from_mins(61);
    let round = decide(&snapshot("inPlaceUpdate", 2, &leaving(OLD, &grant, "PreparingUpdate", true)));
    let text = round.events.iter().find(|note| note.reason == "OperationOverdue").map(|note| note.text.clone());
    let text = text.unwrap_or_default();
    assert!(text.contains("a hook of its workload has kept us from pod set-") && text.contains(LABEL), "{text}");
}
