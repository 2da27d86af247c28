use super::*;
use serde_json::json;

/// What is stored where the template's image is changed.
fn stored(object: &Value) -> Value {
    let view = registry::read(object.clone()).unwrap().unwrap();
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

/// Sends to an object as the API server has it, which `meanwhile` changes before the first writes; with how often was sent.
fn sent_to(object: &Value, meanwhile: impl Fn(usize, &mut Value)) -> (Result<String, String>, usize) {
    let snapshot = |raw: &Value| {
        let object = crate::snapshot::WorkloadObject::of(raw.clone()).unwrap();
        Snapshot::default().with_objects(vec![object.into()])
    };
    let server = std::cell::RefCell::new((object.clone(), 0));
    let send = async |_: &ObjectRef, patch: JsonPatch| {
        let (object, sent) = &mut *server.borrow_mut();
        meanwhile(*sent, object);
        *sent += 1;
        json_patch::patch(object, &patch.operations())
            .map_err(|error| WriteError::Conflict { message: error.to_string() })
    };
    let read = async || Ok(snapshot(&server.borrow().0));
    let decide = |snapshot: &Snapshot| {
        let object = &snapshot.cluster.objects[0];
        let patch = JsonPatch::of("u").test(&["metadata", "resourceVersion"], object.resource_version.as_str());
        Ok(Decided {
            on: object.id.clone(),
            patch: Some(patch.replace(&["spec", "replicas"], 9)),
            said: "done".to_owned(),
        })
    };
    let attempt = attempt(snapshot(object), "scale it", decide, send, read);
    let answer = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(attempt);
    let attempts = server.borrow().1;
    (answer.map_err(|failure| failure.to_string()), attempts)
}

#[test]
fn where_only_the_controller_has_written_meanwhile_it_is_decided_again() {
    let object = || {
        let mut object = workload("Deployment", &json!({}));
        object["metadata"]["resourceVersion"] = json!("1");
        object
    };
    let controller = |until: usize| {
        move |sent: usize, object: &mut Value| {
            if sent < until {
                object["metadata"]["resourceVersion"] = json!(format!("x{sent}"));
                object["metadata"]["generation"] = json!(sent + 7);
                object["status"] = json!({"observedGeneration": sent});
                object["spec"]["paused"] = json!(sent.is_multiple_of(2));
            }
        }
    };
    assert_eq!(sent_to(&object(), controller(0)), (Ok("done".to_owned()), 1));
    assert_eq!(sent_to(&object(), controller(3)), (Ok("done".to_owned()), 4));
    let (answer, sent) = sent_to(&object(), controller(99));
    assert_eq!((answer.unwrap_err().contains("it has just been changed"), sent), (true, ATTEMPTS), "it is bounded");
    let somebody = |_: usize, object: &mut Value| {
        object["metadata"]["resourceVersion"] = json!("2");
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:7");
    };
    let (answer, sent) = sent_to(&object(), somebody);
    assert_eq!(
        (answer.unwrap_err().contains("look at it and try again"), sent),
        (true, 1),
        "that is the user's to judge"
    );
}
