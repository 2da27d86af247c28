//! The situations.

use std::sync::Arc;

use hitless_api::names::annotations;
use hitless_api::{PodRef, PodTransitionRule};
use hitless_rollout::prefetch::{PrefetchState, PrefetchView, Pull};
use serde_json::{Value, json};

use super::now;
use crate::scene::{
    pod, restarting, rollout, with_annotation, with_budget, with_event, with_grant, with_object, with_reservation,
    with_rule,
};
use crate::snapshot::{Controller, Snapshot, WorkloadObject};

/// One of them.
pub(super) struct Scene {
    pub(super) title: &'static str,
    /// What is so, in a sentence.
    pub(super) what: &'static str,
    pub(super) snapshot: Snapshot,
    /// What `why` is asked about.
    pub(super) asked: &'static str,
    /// How `why` and `wait` end.
    pub(super) codes: [u8; 2],
    /// What has to be said.
    pub(super) words: &'static [&'static str],
}

const WEB: &str = "deployment/web";

pub(super) fn all() -> Vec<Scene> {
    waiting().into_iter().chain(others()).chain(further()).collect()
}

fn waiting() -> Vec<Scene> {
    vec![
        Scene {
            title: "A rollout that goes well",
            what: "One pod has the new version, one is being drained, one follows. No rule selects them, so a quarter may be away, but at least one.",
            snapshot: under_way(),
            asked: WEB,
            codes: [0, 4],
            words: &["under way: web-1", "nothing to do"],
        },
        Scene {
            title: "Waiting for its turn",
            what: "A PodTransitionRule lets one pod be away, and another one is.",
            snapshot: with_rule(under_way(), 1),
            asked: "pod/web-2",
            codes: [0, 4],
            words: &["never/budget", "held by: web-1"],
        },
        Scene {
            title: "A window is closed",
            what: "A TransitionBudget lets operations begin from 9 to 17 only. It is half past midnight.",
            snapshot: with_budget(
                old_pods(),
                "office-hours",
                "team",
                &json!({"selector": {}, "windows": [{"start": "09:00", "end": "17:00", "timeZone": "UTC"}]}),
            ),
            asked: WEB,
            codes: [0, 4],
            words: &["office-hours/windows", "2026-01-01T09:00:00Z"],
        },
        Scene {
            title: "A rule lets no pod go",
            what: "A PodTransitionRule says that no pod may be away. Nobody waits for that.",
            snapshot: with_rule(old_pods(), 0),
            asked: WEB,
            codes: [3, 3],
            words: &["never/budget", "waiting alone does not help", "kubectl hitless why -n team deployment/web"],
        },
        Scene {
            title: "A drain that makes no sense",
            what: "The pods have an annotation that can't be read.",
            snapshot: rollout(&[invalid(0), invalid(1)]),
            asked: WEB,
            codes: [3, 3],
            words: &["InvalidDrain", "waiting alone does not help"],
        },
        Scene {
            title: "An approver is silent",
            what: "A webhook rule was asked and has not answered.",
            snapshot: silent_approver(),
            asked: WEB,
            codes: [0, 4],
            words: &["change-board/office", "has not answered yet"],
        },
        Scene {
            title: "A tag that does not exist",
            what: "The image can't be fetched to the pods' node, so none of them leaves service.",
            snapshot: bad_tag(),
            asked: WEB,
            codes: [1, 4],
            words: &["ImageNotFetched", "not found", "its pods stay as they are"],
        },
    ]
}

fn others() -> Vec<Scene> {
    vec![
        Scene {
            title: "The new version crashes",
            what: "It has just been started in the first pod, which is out of service. It is rolled back when it has crashed often enough.",
            snapshot: with_container(
                "Operating",
                &json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}),
            ),
            asked: WEB,
            codes: [0, 4],
            words: &["kubelet: web: CrashLoopBackOff"],
        },
        Scene {
            title: "The new version is never ready",
            what: "It runs in the first pod, and its readiness probe says no. It is rolled back at the deadline.",
            snapshot: with_container("Verifying", &json!({"running": {"startedAt": "2026-01-01T00:00:05Z"}})),
            asked: WEB,
            codes: [0, 4],
            words: &["kubelet: web runs and is not ready", "at most 9m50s more"],
        },
        Scene {
            title: "Halted",
            what: "The first pod was rolled back. New pods get the version before.",
            snapshot: halted(),
            asked: WEB,
            codes: [1, 1],
            words: &[
                "Halted",
                "kubectl hitless undo -n team deployment/web",
                "kubectl hitless retry -n team deployment/web",
            ],
        },
        Scene {
            title: "Paused",
            what: "Somebody has run `kubectl hitless pause deployment/web`.",
            snapshot: with_annotation(old_pods(), annotations::PAUSED, "true"),
            asked: WEB,
            codes: [3, 3],
            words: &["Paused", "kubectl hitless resume -n team deployment/web"],
        },
        Scene {
            title: "Refused",
            what: "Something was changed that can't be changed in a running pod, and the workload is `in-place-only`.",
            snapshot: refused(),
            asked: WEB,
            codes: [3, 3],
            words: &["Refused", "change it back"],
        },
        Scene {
            title: "A restart",
            what: "Somebody has run `kubectl hitless restart deployment/web`. One pod has restarted, one is to be drained, one follows.",
            snapshot: restarting(),
            asked: WEB,
            codes: [0, 4],
            words: &["Restarting", "1 of 3 restarted", "1 of 3 pods restarted"],
        },
    ]
}

fn further() -> Vec<Scene> {
    vec![
        Scene {
            title: "A native rollout",
            what: "Something was changed that can't be changed in a running pod, so the Deployment controller makes new pods.",
            snapshot: native(),
            asked: WEB,
            codes: [0, 4],
            words: &[
                "Native",
                "1 of 3",
                "wishes nothing, and waits: its native controller, which replaces it",
                "NativeRollout: a change of spec.template.spec.hostPID",
            ],
        },
        Scene {
            title: "A pod that does not start any more",
            what: "The version was judged bad and the workload is halted. One pod does not start with the version before either.",
            snapshot: dead(),
            asked: WEB,
            codes: [1, 1],
            words: &[
                "its workload is halted; not ready; kubelet: web: CrashLoopBackOff",
                "kubectl delete pod -n team web-0",
            ],
        },
        Scene {
            title: "A single replica is held",
            what: "Nobody else serves, so its new connections wait in the kernel until the new process listens.",
            snapshot: held(),
            asked: WEB,
            codes: [0, 4],
            words: &["Hold (OnlyPod", "Holding"],
        },
        Scene {
            title: "A hook says not yet",
            what: "The application was asked whether it may be operated, and is busy.",
            snapshot: not_yet(),
            asked: WEB,
            codes: [0, 4],
            words: &["says not yet", "exporting"],
        },
        Scene {
            title: "No controller runs",
            what: "Somebody has scaled Deployment `hitless-controller` to 0.",
            snapshot: Snapshot { controller: Controller::ScaledToZero, ..old_pods() },
            asked: WEB,
            codes: [0, 4],
            words: &[
                "note: no controller runs: ",
                "kubectl -n hitless-system scale deployment hitless-controller --replicas=2",
                "only that no controller runs is in the way",
            ],
        },
    ]
}

fn old(number: u32) -> Value {
    pod(&format!("web-{number}"), "web:v1")
}

fn new(number: u32) -> Value {
    pod(&format!("web-{number}"), "web:v2")
}

fn old_pods() -> Snapshot {
    rollout(&[old(0), old(1), old(2)])
}

/// The pod that is being operated, as it has been for ten seconds.
fn operated(snapshot: Snapshot, name: &str, phase: &str, more: &[(&str, Value)]) -> Snapshot {
    let mut transition = json!({"id": "g", "phase": phase, "since": "2026-01-01T00:00:20.000000Z"});
    for (field, value) in more {
        transition[*field] = value.clone();
    }
    with_reservation(with_grant(snapshot, name, &transition), name)
}

fn invalid(number: u32) -> Value {
    let mut pod = old(number);
    pod["metadata"]["annotations"] = json!({annotations::DRAIN: "soon"});
    pod
}

fn refused() -> Snapshot {
    with_object(old_pods(), 0, |deployment| {
        deployment["metadata"]["annotations"]["hitless.dev/update"] = "in-place-only".into();
        deployment["spec"]["template"]["spec"]["hostPID"] = true.into();
    })
}

fn under_way() -> Snapshot {
    let draining = [
        ("deadline", json!("2026-01-01T00:01:20.000000Z")),
        ("connections", json!(3)),
        ("message", json!("3 connections to end")),
    ];
    operated(rollout(&[new(0), old(1), old(2)]), "web-1", "Draining", &draining)
}

fn silent_approver() -> Snapshot {
    let mut snapshot = old_pods();
    let rule: PodTransitionRule = serde_json::from_value(json!({
        "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule",
        "metadata": {"name": "change-board", "namespace": "team"},
        "spec": {"selector": {}, "rules": [{"name": "office", "webhook": {"clientConfig": {"url": "https://approver.example"}}}]},
        "status": {"ruleStates": [{"name": "office", "webhookStatus": {"taskStates": [{"taskId": "1",
            "processing": ["web-0", "web-1", "web-2"], "beginTime": "2026-01-01T00:00:05Z", "message": "CHG-1 is looked at"}]}}]}
    }))
    .unwrap();
    snapshot.cluster.rules.push(Arc::new(rule.into()));
    snapshot
}

fn bad_tag() -> Snapshot {
    let mut snapshot = old_pods();
    let pulls = snapshot.cluster.pods.iter().filter_map(|pod| Pull::of(pod, pod.container("web")?, "web:v2"));
    let failed = PrefetchState::Failed {
        reason: "ErrImagePull".into(),
        message: "failed to resolve reference \"docker.io/library/web:v2\": not found".into(),
    };
    let view = |pull: Pull| PrefetchView {
        pod: PodRef { namespace: pull.namespace.clone(), name: format!("{}-1", pull.key()), uid: pull.key() },
        key: pull.key(),
        attempt: 1,
        node: pull.node,
        image: pull.image,
        rewritten: None,
        given: None,
        created: Some(now()),
        deleting: false,
        state: failed.clone(),
    };
    snapshot.cluster.prefetches = pulls.map(view).map(Arc::new).collect();
    snapshot
}

/// The first pod has the new image, and its container is in this state.
fn with_container(phase: &str, state: &Value) -> Snapshot {
    let mut first = new(0);
    first["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    first["status"]["containerStatuses"] =
        json!([{"name": "web", "image": "web:v2", "imageID": "", "ready": false, "restartCount": 1, "state": state}]);
    let deadline = [("deadline", json!("2026-01-01T00:10:20.000000Z"))];
    operated(rollout(&[first, old(1), old(2)]), "web-0", phase, &deadline)
}

fn halted() -> Snapshot {
    let snapshot = old_pods();
    let revision = snapshot.cluster.objects[0].template().unwrap().revision().to_owned();
    let mark = json!({"revision": revision, "backTo": "x", "pod": "web-0", "reason": "CrashLoopBackOff",
        "message": "web: back-off 10s restarting failed container"});
    with_annotation(snapshot, "hitless.dev/halted", &mark.to_string())
}

/// The first pod does not start with the version before either.
fn dead() -> Snapshot {
    let mut snapshot = halted();
    let mut first = old(0);
    first["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    let state =
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}});
    first["status"]["containerStatuses"] =
        json!([{"name": "web", "image": "web:v1", "imageID": "", "ready": false, "restartCount": 1, "state": state}]);
    snapshot.cluster.pods[0] = Arc::new(crate::scene::view(&first));
    snapshot
}

fn native() -> Snapshot {
    let snapshot = with_object(rollout(&[old(0), old(1)]), 0, |deployment| {
        deployment["spec"]["paused"] = false.into();
        deployment["spec"]["replicas"] = 3.into();
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
        deployment["spec"]["template"]["spec"]["hostPID"] = true.into();
    });
    let snapshot = with_object(snapshot, 1, |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = "web:v1".into();
        set["spec"]["template"]["metadata"].as_object_mut().unwrap().remove("annotations");
    });
    let mut objects = snapshot.objects.clone();
    let mut set = objects[1].raw.clone();
    (set["metadata"]["name"], set["metadata"]["uid"]) = ("web-n".into(), "new".into());
    set["spec"]["replicas"] = 1.into();
    set["spec"]["template"] = objects[0].raw["spec"]["template"].clone();
    objects.push(Arc::new(WorkloadObject::of(set).unwrap()));
    let mut snapshot = snapshot.with_objects(objects);
    let mut third = new(2);
    third["metadata"]["ownerReferences"][0]["uid"] = "new".into();
    snapshot.cluster.pods.push(Arc::new(crate::scene::view(&third)));
    with_event(
        snapshot,
        "NativeRollout",
        "a change of spec.template.spec.hostPID can't be made to running pods; the Deployment controller rolls it",
    )
}

fn held() -> Snapshot {
    let mut snapshot =
        operated(rollout(&[old(0)]), "web-0", "Holding", &[("deadline", json!("2026-01-01T00:10:20.000000Z"))]);
    let node = Arc::make_mut(snapshot.cluster.node_transitions.get_mut("n1").unwrap());
    let grant = &mut node.spec.grants[0];
    (grant.mode, grant.mode_reason) = (hitless_api::GrantMode::Hold, "OnlyPod: no other pod serves".to_owned());
    snapshot
}

fn not_yet() -> Snapshot {
    let waits = [
        ("deadline", json!("2026-01-01T00:10:20.000000Z")),
        ("message", json!("hook may-i that says not yet; it is called again at 2026-01-01T00:00:50Z: exporting")),
    ];
    operated(old_pods(), "web-0", "Leaving", &waits)
}
