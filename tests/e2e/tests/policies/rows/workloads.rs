//! Held Deployments, their history and their live ReplicaSet: `policies/guard.yaml` and `policies/history.yaml`.

use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{apps, workload};
use crate::request::{Call, Who};

pub(super) fn rows() -> Vec<Row> {
    [guard(), owners_pause(), history(), live()].into_iter().flatten().collect()
}

const MARK: &str = "/metadata/annotations/hitless.dev~1rollout";
const PAUSED: &str = "/spec/paused";

fn merge(name: &str, body: Value) -> Call {
    Call::merge(format!("{}/{name}", apps("deployments")), body)
}

fn image() -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}})
}

fn is_held(says: &'static str, who: Who, call: Call) -> Row {
    allowed_as(who, says, call, [(MARK, json!("held")), (PAUSED, json!(true))])
}

fn is_free(says: &'static str, who: Who, call: Call) -> Row {
    allowed_as(who, says, call, [(MARK, Value::Null), (PAUSED, Value::Null)])
}

fn guard() -> Vec<Row> {
    let with_image = |mut body: Value| {
        body["spec"]["template"] = image()["spec"]["template"].clone();
        body
    };
    let out = || json!({"metadata": {"annotations": {"hitless.dev/update": null}}});
    let mark = json!({"metadata": {"annotations": {"hitless.dev/rollout": null}}});
    let applied = |name: &str, paused: Option<bool>| {
        let mut body = workload(name, 1, &json!({"annotations": {"hitless.dev/update": "in-place"}}));
        body["apiVersion"] = json!("apps/v1");
        body["kind"] = json!("Deployment");
        body["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
        if let Some(paused) = paused {
            body["spec"]["paused"] = json!(paused);
        }
        Call::apply(&format!("{}/{name}", apps("deployments")), body)
    };
    vec![
        is_held("a new template of an opted-in Deployment is held", Who::User, merge("opted", image())),
        is_held("whoever changes it", Who::Admin, merge("opted", image())),
        is_held("also where only in place is allowed", Who::User, merge("only", image())),
        is_held("by server-side apply too", Who::User, applied("opted", None)),
        is_held("and with paused: false in the manifest", Who::User, applied("opted", Some(false))),
        is_free("a Deployment that did not opt in rolls natively", Who::User, merge("plain", image())),
        is_free("a Deployment at 0 replicas is not held", Who::User, merge("zero", image())),
        is_free(
            "nor one whose template stays",
            Who::User,
            merge("opted", json!({"metadata": {"annotations": {"a": "b"}}})),
        ),
        is_free("nor one that opts out with the same change", Who::User, merge("opted", with_image(out()))),
        denied(
            Who::User,
            "but in-place-only is not taken away with a change",
            "keep the annotation in what you apply",
            merge("only", with_image(out())),
        ),
        is_free("only by itself", Who::User, merge("only", out())),
        is_free(
            "the controller's own writes are not held",
            Who::Controller,
            merge("opted", json!({"metadata": {"annotations": {"hitless.dev/gap": "1"}}})),
        ),
        is_held("resume does not end a hold", Who::User, merge("held", json!({"spec": {"paused": null}}))),
        is_held("nor does apply with paused: false", Who::User, applied("held", Some(false))),
        is_held("nor the removal of the mark", Who::User, merge("held", mark)),
        is_held("nor another change", Who::User, merge("held", image())),
        is_held("a hold outlives the opt-in until the controller has lifted it", Who::User, merge("held", out())),
        is_held(
            "the Deployment controller's bookkeeping leaves a hold alone",
            Who::DeploymentController,
            merge("held", json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "7"}}})),
        ),
        allowed(
            Who::User,
            "scaling stays free while held",
            Call::merge(format!("{}/held/scale", apps("deployments")), json!({"spec": {"replicas": 3}})),
        ),
        allowed_as(
            Who::User,
            "at 0 replicas a hold can be ended",
            merge("held", json!({"spec": {"replicas": 0, "paused": null}})),
            [(PAUSED, Value::Null)],
        ),
    ]
}

/// A pause that the guard did not set.
fn owners_pause() -> Vec<Row> {
    let mut pause = image();
    pause["spec"]["paused"] = json!(true);
    let resume = || json!({"spec": {"paused": null}});
    let own = [(MARK, Value::Null), (PAUSED, json!(true))];
    vec![
        allowed_as(
            Who::User,
            "a change under the owner's pause gets no mark: nobody else ends that pause",
            merge("owners", image()),
            own.clone(),
        ),
        allowed_as(Who::User, "nor does a change that comes with the owner's pause", merge("opted", pause), own),
        is_held(
            "what was collected under the owner's pause is held when the pause ends",
            Who::User,
            merge("owners", resume()),
        ),
        is_free("the end of a pause under which nothing changed is just that", Who::User, merge("settled", resume())),
    ]
}

fn history() -> Vec<Row> {
    let of = |name: &str| format!("{}/{name}", apps("replicasets"));
    let scale = || json!({"spec": {"replicas": 1}});
    let words = "only keeps a template";
    vec![
        denied(
            Who::DeploymentController,
            "the Deployment controller does not scale history up",
            words,
            Call::merge(of("history"), scale()),
        ),
        denied(Who::User, "nor does a user", words, Call::merge(of("history"), scale())),
        denied(Who::User, "nor by taking the label off in the same write", words, {
            Call::merge(
                of("history"),
                json!({"metadata": {"labels": {"hitless.dev/history": null}}, "spec": {"replicas": 1}}),
            )
        }),
        allowed(
            Who::DeploymentController,
            "its bookkeeping goes on",
            Call::merge(of("history"), json!({"metadata": {"annotations": {"a": "b"}}})),
        ),
        allowed(Who::DeploymentController, "history beyond the limit is deleted", Call::delete(of("history"))),
        allowed(
            Who::Controller,
            "the controller takes the label off when the opt-in ends",
            Call::merge(of("history"), json!({"metadata": {"labels": {"hitless.dev/history": null}}})),
        ),
        allowed(
            Who::DeploymentController,
            "other ReplicaSets are scaled",
            Call::merge(of("ordinary"), json!({"spec": {"replicas": 2}})),
        ),
    ]
}

fn live() -> Vec<Row> {
    let of = |name: &str| format!("{}/{name}", apps("replicasets"));
    let words = "delete the Deployment instead";
    vec![
        denied(Who::User, "the live ReplicaSet is not deleted by a user", words, Call::delete(of("live"))),
        denied(Who::Admin, "nor by the administrator", words, Call::delete(of("live"))),
        denied(Who::User, "nor among all ReplicaSets", words, Call::delete(apps("replicasets"))),
        denied(Who::DeploymentController, "nor by the Deployment controller", words, Call::delete(of("live"))),
        allowed(Who::GarbageCollector, "it goes with its Deployment", Call::delete(of("live"))),
        allowed(Who::NamespaceController, "and with its namespace", Call::delete(of("live"))),
        allowed(Who::User, "without pods it may go", Call::delete(of("live-empty"))),
        allowed(Who::User, "as may every other", Call::delete(of("ordinary"))),
    ]
}
