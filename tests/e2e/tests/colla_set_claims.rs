//! Volumes of CollaSets outlive what their owners and their versions do wrong.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{App, PATIENCE, Shape, is_ready};
use hitless_e2e::volumes::{self, Volumes};
use hitless_e2e::{Stack, Watch};
use serde_json::{Value, json};

/// Whose deletions in the foreground nobody refuses.
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

fn keeping(when_deleted: &str) -> Value {
    json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted}})
}

fn patch(app: &App, spec: &Value) -> anyhow::Result<()> {
    app.kubectl.run(&["patch", "collaset", "web", "--type=merge", "-p", &json!({"spec": spec}).to_string()]).map(drop)
}

/// With one pod and one claim of 1 Gi.
fn start(stack: &Stack, class: &str, when_deleted: &str) -> anyhow::Result<App> {
    let spec =
        json!({"volumeClaimTemplates": volumes::templates(class, "1Gi"), "scaleStrategy": keeping(when_deleted)});
    let shape = Shape { patch: json!({"spec": spec}), ..Shape::colla_set(1) };
    App::create(&stack.cluster, class, &shape)
}

fn only_claim(app: &App) -> anyhow::Result<Value> {
    let claims = app.kubectl.list(&["persistentvolumeclaims"])?;
    ensure!(claims.len() == 1, "there are {} claims: {claims:?}", claims.len());
    claims.into_iter().next().context("no claim")
}

#[test]
fn kept_claims_outlive_a_deletion_in_the_foreground_and_the_next_collaset_has_them() -> anyhow::Result<()> {
    const CLASS: &str = "t-cls-keep";
    let stack = Stack::attach()?;
    let app = start(&stack, CLASS, "Retain")?;
    let _volumes = Volumes::make(&app.kubectl, CLASS, &["1Gi"])?;
    app.wait_ready(1)?;
    let (claim, set) = (only_claim(&app)?, app.kubectl.get(&["collaset", "web"])?);
    let (name, uid) = (claim["metadata"]["name"].as_str().context("no name")?, &set["metadata"]["uid"]);
    ensure!(claim["metadata"]["ownerReferences"].is_null(), "{claim}");
    ensure!(claim["metadata"]["labels"]["hitless.dev/claim-of"] == *uid, "{claim}");
    // The policy says whether it has an owner, at once.
    let claims = Watch::start(&app.kubectl, &["persistentvolumeclaims"])?;
    for (policy, owner) in [("Delete", uid), ("Retain", &Value::Null)] {
        patch(&app, &json!({"scaleStrategy": keeping(policy)}))?;
        claims.wait(&format!("the owner under {policy}"), PATIENCE, |all| {
            (all.get(name)?["metadata"]["ownerReferences"][0]["uid"] == *owner).then_some(())
        })?;
    }
    let pods = app.identities();
    let refused = app.kubectl.refused(&["delete", "collaset", "web", "--cascade=foreground"])?;
    ensure!(refused.contains("--cascade=background") && refused.contains("PrunePropagationPolicy"), "{refused}");
    ensure!(app.identities() == pods, "a pod is gone");
    app.kubectl.run(&[
        "delete",
        "collaset",
        "web",
        "--cascade=foreground",
        "--wait=true",
        "--timeout=60s",
        "--as",
        COLLECTOR,
    ])?;
    let after = only_claim(&app)?;
    ensure!(after["metadata"]["uid"] == claim["metadata"]["uid"] && after["status"]["phase"] == "Bound", "{after}");
    ensure!(after["metadata"]["deletionTimestamp"].is_null(), "{after}");
    // The same volume for the next one.
    let next =
        json!({"apiVersion": set["apiVersion"], "kind": set["kind"], "metadata": {"name": "web"}, "spec": set["spec"]});
    app.kubectl.feed(&["apply"], &next)?;
    app.pods.wait("the next pod", PATIENCE, |all| {
        let is_it = |pod: &&Value| is_ready(pod) && pods.iter().all(|old| pod["metadata"]["uid"] != old.uid.as_str());
        let pod = all.values().find(is_it)?;
        let mut volumes = pod["spec"]["volumes"].as_array()?.iter();
        volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == name).then_some(())
    })?;
    ensure!(only_claim(&app)?["metadata"]["uid"] == claim["metadata"]["uid"], "the next pod has another claim");
    Ok(())
}

#[test]
fn a_version_that_does_not_start_with_its_new_volume_keeps_the_old_one_until_another_one_serves() -> anyhow::Result<()>
{
    const CLASS: &str = "t-cls-old-claims";
    let stack = Stack::attach()?;
    let app = start(&stack, CLASS, "Delete")?;
    let _volumes = Volumes::make(&app.kubectl, CLASS, &["1Gi", "2Gi"])?;
    app.wait_ready(1)?;
    let old = only_claim(&app)?["metadata"]["name"].as_str().context("no name")?.to_owned();
    // When it was asked to go.
    let gone = Arc::new(Mutex::new(None));
    let (noted, wanted) = (Arc::clone(&gone), old.clone());
    let claims = Watch::start_seeing(&app.kubectl, &["persistentvolumeclaims"], move |event| {
        let meta = &event["object"]["metadata"];
        if meta["name"] == wanted.as_str()
            && let Some(at) = meta["deletionTimestamp"].as_str()
        {
            noted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(at.to_owned());
        }
    })?;
    let change = |version: &str| {
        let patch = json!([
            {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": app.image(version)},
            {"op": "replace", "path": "/spec/volumeClaimTemplates", "value": volumes::templates(CLASS, "2Gi")},
        ]);
        app.kubectl.run(&["patch", "collaset", "web", "--type=json", "-p", &patch.to_string()]).map(drop)
    };
    change("unready")?;
    let is_new = |pod: &&Value| {
        let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"].as_str().is_some_and(|claim| claim != old))
    };
    app.pods.wait("a pod with a new volume that runs", PATIENCE, |all| {
        let pod = all.values().find(is_new)?;
        pod["status"]["containerStatuses"][0]["state"]["running"].is_object().then_some(())
    })?;
    change("v2")?;
    let ready = app.pods.wait("a pod of the next version", PATIENCE, |all| {
        let pod = all.values().filter(is_new).find(|pod| is_ready(pod))?;
        let conditions = pod["status"]["conditions"].as_array()?;
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
        ready["lastTransitionTime"].as_str().map(ToOwned::to_owned)
    })?;
    app.wait_event_saying("ClaimsDeleted", &old)?;
    claims.wait("the old claim to go", PATIENCE, |all| (!all.contains_key(&old)).then_some(()))?;
    let gone = gone.lock().unwrap_or_else(PoisonError::into_inner).clone().context("it was not seen to go")?;
    // Both are in seconds, and sort as text.
    ensure!(gone >= ready, "the old claim went at {gone}, before the pod was Ready at {ready}");
    Ok(())
}
