//! Tables: what one look at the objects leads to.

use std::collections::BTreeSet;

use hitless_api::GrantOp;
use hitless_workloads::{Because, Cause, Stage};
use serde_json::{Value, json};

use crate::world::{MARK, World, image};

pub(crate) fn verbs_until_idle(world: &mut World) -> Vec<&'static str> {
    let mut verbs = Vec::new();
    for _ in 0..100 {
        let plan = world.plan(&BTreeSet::new());
        let verb = plan.writes.first().map(|write| write.verb);
        if let Some(verb) = verb.or(if plan.desired.is_empty() { None } else { Some("operate") }) {
            verbs.push(verb);
        }
        let acted = [world.step(), world.deployment_controller(), world.replica_set_controller()];
        if acted == [false; 3] {
            return verbs;
        }
    }
    panic!("never settles: {verbs:?}");
}

#[test]
fn a_new_image_goes_history_mixed_pods_exact_unpause() {
    let mut world = World::new("in-place", 2);
    let set = world.sets.keys().next().unwrap().clone();
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Idle);
    world.set_image(2);
    assert_eq!(
        verbs_until_idle(&mut world),
        ["create-history", "set-mixed", "operate", "operate", "set-exact", "unpause"]
    );
    assert_eq!(world.images(), BTreeSet::from([image(2)]));
    assert_eq!(world.deployment["spec"]["paused"], false);
    assert!(world.deployment["metadata"]["annotations"].get(MARK).is_none());
    let live = &world.sets[&set];
    assert!(live["metadata"]["labels"].get("hitless.dev/live").is_none());
    assert!(live["spec"]["template"]["metadata"].get("annotations").is_none());
}

#[test]
fn the_history_entry_can_be_undone_to() {
    let mut world = World::new("in-place", 2);
    world.set_image(2);
    world.settle();
    let history =
        world.sets.values().find(|set| set["metadata"]["labels"].get("hitless.dev/history").is_some()).unwrap().clone();
    let annotations = &history["metadata"]["annotations"];
    assert_eq!(annotations["hitless.dev/update"], "in-place");
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "1");
    assert_eq!(annotations["kubernetes.io/change-cause"], "first");
    assert!(annotations.get(MARK).is_none());
    assert_eq!(history["spec"]["replicas"], 0);
    // `kubectl rollout undo` copies the template without its hash.
    let mut template = history["spec"]["template"].clone();
    template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
    world.user(|deployment| deployment["spec"]["template"] = template);
    assert_eq!(
        verbs_until_idle(&mut world),
        ["create-history", "set-mixed", "operate", "operate", "set-exact", "delete-duplicate", "unpause"]
    );
    assert_eq!(world.images(), BTreeSet::from([image(1)]));
    assert_eq!(world.sets.len(), 2, "the live one and the template that was left");
}

#[test]
fn a_rollout_that_leads_to_a_version_that_was_complete_is_a_way_back() {
    let mut world = World::new("in-place", 2);
    world.set_image(2);
    assert!(!world.is_way_back());
    world.settle();
    // The Deployment controller numbers the set that has its template.
    let live = world.sets.values_mut().find(|set| set["spec"]["replicas"] == 2).unwrap();
    live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    world.set_image(3);
    assert!(!world.is_way_back(), "nothing is written yet");
    for _ in 0..3 {
        assert!(!world.is_way_back());
        world.step();
    }
    assert_eq!(world.whereto(true), Ok(format!("revision 2 ({})", image(2))));
    world.undo();
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Rolling);
    assert!(world.is_way_back(), "another undo would go to the first version");
    let refused = world.whereto(true).unwrap_err();
    assert!(refused.starts_with(&format!("it goes back to revision 2 ({}) already", image(2))), "{refused}");
    assert!(refused.ends_with("kubectl hitless undo -n shop deployment/web --to-revision 1"), "{refused}");
    world.settle();
    assert_eq!(world.images(), BTreeSet::from([image(2)]));
    world.set_image(3);
    assert!(!world.is_way_back(), "it was never complete");
}

#[test]
fn a_rollout_restart_restarts_every_pod_once_under_another_name() {
    let mut world = World::new("in-place", 2);
    world.user(|deployment| {
        deployment["spec"]["template"]["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "t1"});
    });
    let _ = (world.step(), world.step());
    let plan = world.plan(&BTreeSet::new());
    assert_eq!(plan.desired.len(), 2);
    assert!(plan.desired.iter().all(|wanted| wanted.intent.as_ref().unwrap().operation.op == GrantOp::Restart));
    world.settle();
    assert_eq!(world.images(), BTreeSet::from([format!("{}@sha256:1234", image(1))]));
    world.set_image(2);
    world.settle();
    assert_eq!(world.images(), BTreeSet::from([image(2)]), "an alias is left again");
    assert_eq!(world.plan(&BTreeSet::new()).stage, Stage::Idle);
}

#[test]
fn a_change_that_a_pod_cannot_take_goes_native_or_is_refused() {
    let field = "spec.template.spec.containers[echo].env[A].value".to_owned();
    let change = |world: &mut World| {
        world
            .user(|deployment| deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = json!("c"));
    };
    let mut native = World::new("in-place", 2);
    native.set_image(2);
    native.settle();
    change(&mut native);
    assert_eq!(native.plan(&BTreeSet::new()).stage, Stage::SteppingAside(Because::field(&field)));
    assert_eq!(verbs_until_idle(&mut native), ["strip-labels", "unpause"]);
    assert!(native.sets.values().all(|set| set["metadata"]["labels"].get("hitless.dev/history").is_none()));

    let mut only = World::new("in-place-only", 2);
    change(&mut only);
    let plan = only.plan(&BTreeSet::new());
    assert_eq!((plan.stage, plan.writes), (Stage::Refused(Because::field(&field)), vec![]));
}

/// An image that was loaded into the nodes has no other name, so a restart in place would wait for ever.
#[test]
fn a_restart_of_an_image_that_was_loaded_into_the_nodes_goes_native_or_is_refused() {
    let restart = |update: &str, id: &str| {
        let mut world = World::new(update, 2);
        for pod in world.pods.values_mut() {
            pod["status"]["containerStatuses"][0]["imageID"] = json!(id);
        }
        world.user(|deployment| {
            let restarted = json!({"kubectl.kubernetes.io/restartedAt": "t1"});
            deployment["spec"]["template"]["metadata"]["annotations"] = restarted;
        });
        world
    };
    let made_up = format!("docker.io/library/import-2026-11-26@sha256:{}", "1".repeat(64));
    for id in ["sha256:1234", made_up.as_str()] {
        let mut native = restart("in-place", id);
        let plan = native.plan(&BTreeSet::new());
        let Stage::SteppingAside(because) = &plan.stage else { panic!("{:?}", plan.stage) };
        assert_eq!(because.cause, Cause::DigestUnknown);
        let told = plan.writes[0].tells.as_ref().unwrap();
        assert!(told.reason == "NativeRollout" && told.text.contains("loaded into the node"), "{told:?}");
        native.settle();
        assert_eq!(native.deployment["spec"]["paused"], false);

        let mut only = restart("in-place-only", id);
        assert!(
            matches!(only.plan(&BTreeSet::new()).stage, Stage::Refused(because) if because.cause == Cause::DigestUnknown)
        );
        assert!(!only.step(), "nothing is written");
    }
    // Nothing is known yet of what has not been started.
    let starting = restart("in-place", "");
    assert!(!matches!(starting.plan(&BTreeSet::new()).stage, Stage::SteppingAside(_)));
}

/// A webhook gives new pods images of a mirror: a pod that was made from the template is up to date, whatever its images are called.
#[test]
fn images_that_admission_has_rewritten_are_those_of_the_template() {
    let mirror = "mirror.test/echo:v1";
    let mut world = World::new("in-place", 2);
    for pod in world.pods.values_mut() {
        pod["spec"]["containers"][0]["image"] = json!(mirror);
        pod["status"]["containerStatuses"][0]["imageID"] = json!("mirror.test/echo@sha256:1234");
    }
    let plan = world.plan(&BTreeSet::new());
    assert_eq!((plan.stage, plan.behind.len()), (Stage::Idle, 0));
    world.user(|deployment| {
        let restarted = json!({"kubectl.kubernetes.io/restartedAt": "t1"});
        deployment["spec"]["template"]["metadata"]["annotations"] = restarted;
    });
    let _ = (world.step(), world.step());
    let desired = world.plan(&BTreeSet::new()).desired;
    let changes: Vec<_> =
        desired.iter().map(|wanted| &wanted.intent.as_ref().unwrap().operation.containers["echo"].to).collect();
    assert_eq!(changes, [&format!("{mirror}@sha256:1234"); 2], "the same image is started again");
    world.set_image(2);
    let _ = (world.step(), world.step());
    let desired = world.plan(&BTreeSet::new()).desired;
    assert_eq!(desired[0].intent.as_ref().unwrap().operation.containers["echo"].to, image(2));
}

#[test]
fn a_version_that_goes_natively_in_the_middle_is_put_back_and_let_go_and_the_next_one_is_decided_about_anew() {
    let mut world = World::new("in-place", 1);
    world.set_image(2);
    for _ in 0..2 {
        let _ = world.step();
    }
    send_natively(&mut world, "it is the only pod");
    let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage else { panic!("it goes on in place") };
    assert_eq!((because.cause, because.text.as_str()), (Cause::NativeRollout, "it is the only pod"));
    let verbs = verbs_until_idle(&mut world);
    assert_eq!((verbs.first(), verbs.last()), (Some(&"set-exact"), Some(&"unpause")), "{verbs:?}");
    assert!(!verbs.contains(&"operate") && !verbs.contains(&"set-mixed"), "{verbs:?}");
    assert_eq!(world.images(), BTreeSet::from([image(2)]));
    assert!(world.deployment["metadata"]["annotations"].get("hitless.dev/way").is_none());
    world.set_image(3);
    assert!(verbs_until_idle(&mut world).contains(&"operate"));

    let mut only = World::new("in-place", 1);
    only.set_image(2);
    send_natively(&mut only, "it is the only pod");
    only.deployment["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place-only");
    assert!(verbs_until_idle(&mut only).contains(&"operate"), "its owner does not allow it any more");
}

/// From now on its version goes natively.
fn send_natively(world: &mut World, why: &str) {
    let write = world.natively(why).unwrap();
    assert!(world.apply(&write));
}

fn marks(world: &World) -> usize {
    let mark = |set: &&Value| !set["spec"]["template"]["metadata"]["annotations"]["hitless.dev/mixed"].is_null();
    world.sets.values().filter(mark).count()
}

#[test]
fn what_was_rolled_over_in_mid_rollout_is_kept_without_a_mark_as_the_version_that_its_owner_wished() {
    let mut world = World::new("in-place", 3);
    world.set_image(2);
    for _ in 0..3 {
        let _ = world.step();
    }
    // Back to the version before, which its history entry keeps, and natively.
    world.set_image(1);
    send_natively(&mut world, "it would cost less");
    let _ = verbs_until_idle(&mut world);
    assert_eq!((world.images(), marks(&world)), (BTreeSet::from([image(1)]), 0));
    let kept = |wanted: &str| {
        let image = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"] == wanted;
        world.sets.values().filter(|set| image(set)).count()
    };
    assert_eq!((kept(&image(1)), kept(&image(2))), (1, 1), "an undo leads to each of them");
}

#[test]
fn where_no_history_is_kept_one_that_was_rolled_over_to_its_own_version_goes() {
    let mut world = World::new("in-place", 3);
    world.deployment["spec"]["revisionHistoryLimit"] = json!(1);
    world.set_image(2);
    for _ in 0..2 {
        let _ = world.step();
    }
    send_natively(&mut world, "it would cost less");
    let _ = verbs_until_idle(&mut world);
    assert_eq!((world.images(), marks(&world)), (BTreeSet::from([image(2)]), 0));
}

#[test]
fn opting_out_in_the_middle_takes_everything_off() {
    let mut world = World::new("in-place", 3);
    world.set_image(2);
    for _ in 0..3 {
        let _ = world.step();
    }
    // The guard keeps the annotation, so this is somebody who may: our own uninstall, or an administrator without the policies.
    world.deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/update");
    let mut told = Vec::new();
    for _ in 0..20 {
        told.extend(world.plan(&BTreeSet::new()).writes.first().and_then(|write| write.tells.clone()));
        let _ = world.step();
    }
    assert_eq!(
        told.iter().map(|note| note.reason).collect::<Vec<_>>(),
        ["OptInRemoved"],
        "with the write that lifts the hold"
    );
    assert!(told[0].text.contains("the Deployment controller rolls"), "{}", told[0].text);
    world.settle();
    assert_eq!(world.deployment["spec"]["paused"], false);
    assert!(world.deployment["metadata"]["annotations"].get(MARK).is_none());
    assert_eq!(world.images(), BTreeSet::from([image(2)]));
    for set in world.sets.values() {
        let labels = set["metadata"]["labels"].as_object().unwrap();
        assert!(labels.keys().all(|name| !name.starts_with("hitless.dev/")), "{labels:?}");
        let template = &set["spec"]["template"]["metadata"];
        assert!(template["annotations"].get("hitless.dev/mixed").is_none(), "{template}");
    }
}

#[test]
fn a_foreign_deployment_is_left_alone() {
    let mut world = World::new("something", 2);
    world.deployment["spec"]["paused"] = json!(true);
    world.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(2));
    let plan = world.plan(&BTreeSet::new());
    assert_eq!((plan.stage, plan.writes), (Stage::NotOurs, vec![]));
}

#[test]
fn no_history_below_a_limit_of_two() {
    let mut world = World::new("in-place", 1);
    world.deployment["spec"]["revisionHistoryLimit"] = json!(1);
    world.set_image(2);
    assert_eq!(verbs_until_idle(&mut world), ["set-mixed", "operate", "set-exact", "unpause"]);
}

#[test]
fn a_rollout_does_not_finish_over_an_operation_or_a_pod_that_is_not_counted_yet() {
    let mut world = World::new("in-place", 2);
    world.set_image(2);
    for _ in 0..4 {
        let _ = world.step();
    }
    let _ = world.replica_set_controller();
    let uid = world.pods.values().next().unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(world.plan(&BTreeSet::from([uid])).writes, []);
    assert_eq!(world.plan(&BTreeSet::new()).writes[0].verb, "set-exact");
    world.scale(3);
    let _ = world.deployment_controller();
    assert_eq!(world.plan(&BTreeSet::new()).writes, [], "the third pod is not there yet");
}

#[test]
fn a_leader_that_has_not_seen_the_way_back_can_not_mix_the_live_replica_set_after_the_end() {
    let mut world = World::new("in-place", 2);
    world.deployment["spec"]["revisionHistoryLimit"] = json!(1);
    world.set_image(2);
    let (old, stale) = (world.deployment.clone(), world.plan(&BTreeSet::new()).writes.remove(0));
    assert_eq!(stale.verb, "set-mixed");
    world.set_image(1);
    assert_eq!(verbs_until_idle(&mut world), ["settle", "unpause"]);
    assert!(!world.apply(&stale), "what was prepared on the older ReplicaSet fails");
    let now = std::mem::replace(&mut world.deployment, old);
    assert_eq!(world.plan(&BTreeSet::new()).writes, [], "and nothing is prepared on the newer one");
    world.deployment = now;
    world.set_image(3);
    assert_eq!(verbs_until_idle(&mut world).first(), Some(&"set-mixed"), "the next rollout goes on");
}

#[test]
fn a_deleted_live_replica_set_ends_in_a_native_rollout_not_in_nothing() {
    let mut world = World::new("in-place", 2);
    world.set_image(2);
    for _ in 0..3 {
        let _ = world.step();
    }
    world.sets.retain(|_, set| set["metadata"]["labels"].get("hitless.dev/history").is_some());
    let _ = world.replica_set_controller();
    assert!(world.pods.is_empty());
    let Stage::SteppingAside(because) = world.plan(&BTreeSet::new()).stage else { panic!("it goes on in place") };
    assert_eq!(because.cause, Cause::NoReplicaSet);
    world.settle();
    assert_eq!((world.pods.len(), world.images()), (2, BTreeSet::from([image(2)])));
}

#[test]
fn an_empty_native_replica_set_with_the_target_template_is_removed_before_the_pause_is_lifted() {
    let mut world = World::new("no", 2);
    world.set_image(2);
    for _ in 0..9 {
        let _ = (world.deployment_controller(), world.replica_set_controller());
    }
    assert_eq!((world.sets.len(), world.images()), (2, BTreeSet::from([image(2)])), "natively rolled");
    world.deployment["metadata"]["annotations"]["hitless.dev/update"] = json!("in-place");
    world.set_image(1);
    assert_eq!(
        verbs_until_idle(&mut world),
        [
            "create-history",
            "set-mixed",
            "operate",
            "operate",
            "set-exact",
            "label-duplicate",
            "delete-duplicate",
            "unpause"
        ]
    );
    assert_eq!(world.images(), BTreeSet::from([image(1)]));
}
