//! Carries out writes with the user's own rights.

use hitless_api::names::annotations;
use hitless_api::{JsonPatch, ObjectRef};
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::api_resource;
use hitless_workloads::{Object, OptIn, Request, Write, kind};
use kube::api::{DynamicObject, PatchParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::failure::Failure;

/// Patches the object, which is of a workload's kind. Fails if it is not as the patch says.
pub(crate) async fn patch(client: &Client, on: &ObjectRef, patch: JsonPatch, what: &str) -> Result<(), Failure> {
    let Some((_, resource)) = kind::resource(&on.group_kind) else {
        return Err(Failure::Failed(format!("can't {what}: a {} is no workload", on.group_kind)));
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &on.namespace, &api_resource(resource));
    let patch = patch.build();
    let sent = Writes::default().send(resource.plural, api.patch(&on.name, &PatchParams::default(), &patch)).await;
    changed(sent.map(|_| ()), what)
}

/// Sets an annotation of the object, if that is as it was seen: its absence is tested, too.
pub(crate) fn annotated(patch: JsonPatch, object: &Object, name: &str, value: &str) -> JsonPatch {
    let at = ["metadata", "annotations", name];
    let patch = match object.annotations.get(name) {
        Some(known) => patch.test(&at, known.as_str()),
        None if object.annotations.is_empty() => patch.new_map(&at[..2]),
        None => patch.test(&at, Value::Null),
    };
    patch.add(&at, value)
}

/// A change of the workload's template, and in the same write what holds it. The guard would do that itself where the API server has
/// one; where it has none, changes that nobody holds are refused (`manifests/refusing`). `raw` is the workload as the API server has it.
pub(crate) fn held(change: JsonPatch, object: &Object, raw: &Value) -> JsonPatch {
    let kind = kind::of_workload(&object.id.group_kind).filter(|kind| kind.guard().is_some());
    let has_pods = kind::size(object).is_some_and(|size| size.desired > 0);
    let is_paused = raw["spec"]["paused"] == true;
    let Some(kind) = kind.filter(|_| has_pods && !is_paused && object.opt_in() != OptIn::No) else { return change };
    let held = kind.held(raw.clone());
    let spec = ["paused", "updateStrategy"].into_iter().filter(|field| held["spec"][field] != raw["spec"][field]);
    let change = spec.fold(change, |change, field| change.add(&["spec", field], held["spec"][field].clone()));
    let marks = [annotations::ROLLOUT, annotations::UPDATE_STRATEGY].into_iter().filter_map(|name| {
        let value = held["metadata"]["annotations"][name].as_str()?;
        (object.annotations.get(name).map(String::as_str) != Some(value)).then(|| (name, value.to_owned()))
    });
    marks.fold(change, |change, (name, value)| annotated(change, object, name, &value))
}

/// A write that a kind of workload has decided.
pub(crate) async fn carry_out(client: &Client, write: &Write, what: &str) -> Result<(), Failure> {
    match &write.request {
        Request::Patch(decided) => patch(client, &write.on, decided.clone(), what).await,
        Request::Create(_) | Request::Status(_) | Request::Delete { .. } | Request::Look | Request::Absent { .. } => {
            Err(Failure::Failed(format!("can't {what}: no such write is known")))
        }
    }
}

/// What the answer means for the user.
pub(crate) fn changed(answer: Result<(), WriteError>, what: &str) -> Result<(), Failure> {
    match answer {
        Ok(()) => Ok(()),
        // Also a test of the patch that has failed.
        Err(WriteError::Conflict { .. } | WriteError::Gone { .. }) => {
            Err(Failure::Failed(format!("can't {what}: it has just been changed; look at it and try again")))
        }
        Err(error) => Err(Failure::of(what.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is stored where the template's image is changed.
    fn stored(object: &Value) -> Value {
        let view = kind::read(object.clone()).unwrap().unwrap();
        let change = JsonPatch::of("u").replace(&["spec", "template", "spec", "containers", "0", "image"], "web:2");
        let mut stored = object.clone();
        // The API server takes what is absent for null in a test; this library does not.
        for name in [annotations::ROLLOUT, annotations::UPDATE_STRATEGY] {
            stored["metadata"]["annotations"].as_object_mut().unwrap().entry(name).or_insert(Value::Null);
        }
        json_patch::patch(&mut stored, &held(change, &view, object).operations()).unwrap();
        assert_eq!(stored["spec"]["template"]["spec"]["containers"][0]["image"], "web:2");
        stored
    }

    fn workload(of: &str, spec: &Value) -> Value {
        let mut object = json!({"apiVersion": "apps/v1", "kind": of,
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "annotations": {"hitless.dev/update": "in-place"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        object
    }

    #[test]
    fn a_change_holds_the_workload_in_the_same_write_as_the_guard_does() {
        let deployment = stored(&workload("Deployment", &json!({})));
        assert_eq!(
            (&deployment["spec"]["paused"], &deployment["metadata"]["annotations"]["hitless.dev/rollout"]),
            (&json!(true), &json!("held"))
        );
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": "25%"}});
        let set = stored(&workload("StatefulSet", &json!({"updateStrategy": strategy})));
        assert_eq!(set["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
        assert_eq!(
            set["metadata"]["annotations"]["hitless.dev/update-strategy"],
            r#"{"type":"RollingUpdate","rollingUpdate":{"partition":1,"maxUnavailable":"25%"}}"#,
            "the one form that admission accepts"
        );
    }

    #[test]
    fn what_would_not_roll_is_not_held() {
        let mut foreign = workload("Deployment", &json!({}));
        foreign["metadata"]["annotations"] = json!({"example.com/a": "b"});
        let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
        for object in [
            foreign,
            workload("Deployment", &json!({"paused": true})),
            workload("Deployment", &json!({"replicas": 0})),
            workload("StatefulSet", &on_delete),
        ] {
            let stored = stored(&object);
            assert_eq!(stored["metadata"]["annotations"]["hitless.dev/rollout"], Value::Null, "{object}");
            assert_eq!(stored["spec"]["updateStrategy"], object["spec"]["updateStrategy"]);
        }
    }
}
