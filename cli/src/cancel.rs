//! `kubectl hitless cancel`: a rollout that is under way goes back to what ran before, and restarts that have not begun are withdrawn.
//!
//! The way back is that of `undo`. It differs in what it refuses: where no rollout is under way it begins none, and a rollout that is
//! a way back already, as after a first `cancel`, it does not turn round.

use std::collections::BTreeSet;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{JsonPatch, PodRef};
use hitless_runtime::write::Writes;
use hitless_workloads::{Stage, Write, restart};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PatchParams;
use kube::{Api, Client};

use crate::args::{Target, TargetArgs};
use crate::failure::Failure;
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use crate::undo::of_workload;
use crate::write::{carry_out, changed};

/// What is taken back.
#[derive(Debug)]
struct Cancel {
    /// Gives the workload the template back that it had before.
    undo: Option<Write>,
    /// Restarts of pods that nobody has begun.
    restarts: Vec<(PodRef, JsonPatch)>,
    /// What can't be taken back.
    notes: Vec<String>,
    /// Why the rollout that is under way can't go back. Restarts are withdrawn all the same.
    failed: Option<Failure>,
}

pub(crate) async fn run(client: Client, namespace: String, arguments: &TargetArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    let snapshot = source::read(&client, &Scope::Namespace(namespace.clone())).await?;
    let Cancel { undo, restarts, notes, failed } = decide(&snapshot, target, Timestamp::now())?;
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    for (pod, patch) in restarts {
        let patch = patch.build();
        let sent = Writes::default().send("pods", api.patch(&pod.name, &PatchParams::default(), &patch)).await;
        changed(sent.map(|_| ()), &format!("withdraw the restart of pod {}", pod.name))?;
        say(&format!("pod/{} restart withdrawn", pod.name))?;
    }
    if let Some(undo) = undo {
        carry_out(&client, &undo, &format!("cancel the rollout of {target}")).await?;
        say(&format!(
            "{target} goes back to what ran before, as by kubectl hitless undo; pods that have changed already change once more; watch \
             it with: kubectl hitless wait -n {namespace} {target}"
        ))?;
    }
    notes.iter().try_for_each(|note| say(note))?;
    failed.map_or(Ok(()), Err)
}

fn decide(snapshot: &Snapshot, target: &Target, now: Timestamp) -> Result<Cancel, Failure> {
    let found = snapshot.find(target).ok_or_else(|| snapshot.missing(&format!("{target} does not exist")))?;
    let nodes = snapshot.cluster.node_transitions.values();
    let granted: BTreeSet<&str> =
        nodes.flat_map(|node| node.unfinished()).map(|grant| grant.pod.uid.as_str()).collect();
    let reserved = snapshot.cluster.ledgers.values().flat_map(|ledger| ledger.spec.reservations.keys());
    let begun: BTreeSet<&str> = reserved.map(String::as_str).chain(granted).collect();
    let wishing: Vec<&PodView> = found.pods.iter().copied().filter(|pod| restart::wish(pod).is_some()).collect();
    let (under_way, waiting): (Vec<&PodView>, Vec<&PodView>) =
        wishing.into_iter().partition(|pod| begun.contains(pod.id.uid.as_str()));
    let restarts = waiting.into_iter().filter_map(|pod| Some((pod.id.clone(), withdrawal(pod)?))).collect();
    let words = under_way
        .iter()
        .map(|pod| format!("pod/{} is being restarted, and that ends as it was asked for", pod.id.name));
    let mut cancel = Cancel { undo: None, restarts, notes: words.collect(), failed: None };
    let Some(object) = found.workload else {
        return if cancel.restarts.is_empty() && cancel.notes.is_empty() { Err(nothing(target)) } else { Ok(cancel) };
    };
    let explanation = snapshot.explain(now, |_| false);
    let report = explanation.workloads.into_iter().find(|report| report.id.uid == object.id.uid);
    let namespace = &object.id.namespace;
    match report.map(|report| report.stage) {
        Some(Stage::Rolling | Stage::Finishing) => {
            match way_back(snapshot, target) {
                Ok(undo) => cancel.undo = Some(undo),
                Err(failure) => cancel.failed = Some(failure),
            }
        }
        Some(Stage::Native | Stage::SteppingAside(_)) => cancel.notes.push(format!(
            "{target} is rolled by its native controller; take that back with: kubectl rollout undo -n {namespace} {target}"
        )),
        Some(Stage::Halted(_) | Stage::Refused(_)) => cancel.notes.push(format!(
            "{target} does not move, so there is no rollout to cancel; give it the template before back with: kubectl hitless undo -n \
             {namespace} {target}"
        )),
        Some(Stage::Idle | Stage::NotOurs) | None if cancel.restarts.is_empty() && cancel.notes.is_empty() => {
            return Err(nothing(target));
        }
        Some(Stage::Idle | Stage::NotOurs) | None => {}
    }
    Ok(cancel)
}

/// Gives the workload the template back that it had before the rollout that is under way.
fn way_back(snapshot: &Snapshot, target: &Target) -> Result<Write, Failure> {
    of_workload(snapshot, target, |kind, root, world| {
        if !kind.is_way_back(root, world) {
            return kind.undo(root, world, None);
        }
        Err(format!(
            "its rollout leads to a version that it has had before, so it is a way back already; name another one with: kubectl hitless \
             undo -n {} {target} --to-revision N",
            root.id.namespace
        ))
    })
}

fn nothing(target: &Target) -> Failure {
    Failure::Failed(format!(
        "{target}: nothing is under way, and no restart waits; an earlier template is given back by: kubectl hitless undo"
    ))
}

/// Takes the wish for a restart off, if it is the one that was seen.
fn withdrawal(pod: &PodView) -> Option<JsonPatch> {
    let of = |name| ["metadata", "annotations", name];
    let token = pod.annotations.get(annotations::RESTART)?;
    let patch = JsonPatch::of(&pod.id.uid).change(&of(annotations::RESTART), Some(token), None);
    let containers = pod.annotations.get(annotations::RESTART_CONTAINERS);
    Some(patch.change(&of(annotations::RESTART_CONTAINERS), containers.map(String::as_str), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{self, rollout, with_grant, with_object};
    use hitless_workloads::Request;
    use serde_json::{Value, json};

    fn target() -> Target {
        "deployment/web".parse().unwrap()
    }

    fn wishing(name: &str, image: &str) -> Value {
        let mut pod = scene::pod(name, image);
        pod["metadata"]["annotations"] = json!({"hitless.dev/restart": "t", "hitless.dev/restart-containers": "web"});
        pod
    }

    /// All pods at `web:v2`, nothing to do.
    fn idle(pods: &[Value]) -> Snapshot {
        let snapshot = with_object(rollout(pods), 0, |deployment| {
            deployment["spec"]["paused"] = false.into();
            deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
        });
        let template = snapshot.objects[0].raw["spec"]["template"].clone();
        with_object(snapshot, 1, |set| set["spec"]["template"] = template)
    }

    fn with_history(snapshot: Snapshot) -> Snapshot {
        let mut objects = snapshot.objects.clone();
        let mut history = objects[1].raw.clone();
        history["metadata"]["name"] = "web-old".into();
        history["metadata"]["uid"] = "old".into();
        history["metadata"]["labels"] = json!({"hitless.dev/history": "x"});
        history["spec"]["replicas"] = 0.into();
        history["spec"]["template"] = json!({"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:v1"}]}});
        objects.push(crate::snapshot::WorkloadObject::of(history).unwrap().into());
        snapshot.with_objects(objects)
    }

    #[test]
    fn a_rollout_goes_back_to_what_ran_before() {
        let snapshot = with_history(rollout(&[scene::pod("a", "web:v2"), scene::pod("b", "web:v1")]));
        let cancel = decide(&snapshot, &target(), Timestamp::UNIX_EPOCH).unwrap();
        let Some(Write { request: Request::Patch(patch), .. }) = cancel.undo else { panic!("nothing is undone") };
        let mut object = snapshot.objects[0].raw.clone();
        object["metadata"]["resourceVersion"] = "".into();
        json_patch::patch(&mut object, &patch.operations()).unwrap();
        assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], "web:v1");
    }

    /// The same with the template of this image.
    fn asked_for(snapshot: Snapshot, image: &str) -> Snapshot {
        with_object(snapshot, 0, |deployment| {
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        })
    }

    #[test]
    fn a_rollout_that_is_a_way_back_already_is_not_turned_round() {
        let rolling = with_history(rollout(&[wishing("a", "web:v2"), scene::pod("b", "web:v1")]));
        let cancelled = decide(&asked_for(rolling, "web:v1"), &target(), Timestamp::UNIX_EPOCH).unwrap();
        let failure = cancelled.failed.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(cancelled.undo.is_none() && failure.contains("is a way back already"), "{cancelled:?}");
        assert!(failure.ends_with("kubectl hitless undo -n team deployment/web --to-revision N"), "{failure}");
    }

    #[test]
    fn restarts_are_withdrawn_where_the_rollout_can_not_go_back() {
        let snapshot = rollout(&[wishing("a", "web:v2"), scene::pod("b", "web:v1")]);
        let cancel = decide(&snapshot, &target(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((cancel.undo.is_none(), cancel.restarts.len()), (true, 1));
        let failure = cancel.failed.unwrap();
        assert!(failure.code() == 1 && failure.to_string().contains("no template is known"), "{failure}");
    }

    #[test]
    fn a_restart_is_withdrawn_before_it_begins_and_not_after() {
        let snapshot = idle(&[wishing("a", "web:v2"), wishing("b", "web:v2")]);
        let running = with_grant(snapshot, "a", &Value::Null);
        let cancel = decide(&running, &target(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(cancel.undo.is_none());
        let [(pod, patch)] = cancel.restarts.as_slice() else { panic!("{cancel:?}") };
        let mut after = wishing("b", "web:v2");
        json_patch::patch(&mut after, &patch.clone().operations()).unwrap();
        assert_eq!((pod.name.as_str(), &after["metadata"]["annotations"]), ("b", &json!({})));
        assert!(cancel.notes[0].starts_with("pod/a is being restarted"), "{:?}", cancel.notes);
        let again = json_patch::patch(
            &mut json!({"metadata": {"uid": "uid-b", "annotations":
            {"hitless.dev/restart": "another"}}}),
            &patch.clone().operations(),
        );
        assert!(again.is_err(), "another restart was asked for meanwhile");
    }

    #[test]
    fn where_nothing_is_under_way_no_rollout_begins() {
        let snapshot = with_history(idle(&[scene::pod("a", "web:v2")]));
        let failure = decide(&snapshot, &target(), Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(failure.to_string().contains("nothing is under way"), "{failure}");
        let native = with_object(snapshot, 0, |deployment| {
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "web:v3".into();
        });
        let cancel = decide(&native, &target(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(cancel.undo.is_none() && cancel.notes[0].contains("kubectl rollout undo -n team deployment/web"));
    }
}
