use super::*;
use hitless_api::{Change, PodRef, grant::ImageChange};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Patch;
use proptest::prelude::*;
use serde_json::{Value, json};

type Map = BTreeMap<String, String>;

fn object(labels: &Map, annotations: &Map, image: &str) -> Value {
    let mut metadata = json!({"name": "p", "namespace": "n", "uid": "u-1", "resourceVersion": "7"});
    for (name, map) in [("labels", labels), ("annotations", annotations)] {
        if !map.is_empty() {
            metadata[name] = json!(map);
        }
    }
    json!({"metadata": metadata, "spec": {"containers": [{"name": "side", "image": "s:1"}, {"name": "c", "image": image}]}})
}

fn node_pod(object: &Value) -> NodePod {
    NodePod::from(&serde_json::from_value::<Pod>(object.clone()).unwrap())
}

fn grant(labels: &BTreeMap<String, Change>, annotations: &BTreeMap<String, Change>) -> Grant {
    let pod = PodRef { namespace: "n".into(), name: "p".into(), uid: "u-1".into() };
    let change = ImageChange { from: "c:1".into(), to: "c:2".into() };
    serde_json::from_value(json!({
        "id": "g", "epoch": 1, "pod": pod, "op": "Update", "mode": "Leave", "containers": {"c": change},
        "labels": labels, "annotations": annotations, "before": {}, "drain": {}, "verify": {},
        "granted": "2026-01-01T00:00:00.000000Z", "ttlSeconds": 60,
    }))
    .unwrap()
}

/// As the API server does it: a `test` for null passes where the value is absent, and empty maps are not kept.
fn apply(object: &Value, patch: JsonPatch) -> Result<Value, String> {
    let Patch::Json(patch) = patch.build() else { panic!("not a JSON patch") };
    let operations = serde_json::to_value(patch).unwrap();
    let mut patched = object.clone();
    for operation in operations.as_array().unwrap() {
        let absent = patched.pointer(operation["path"].as_str().unwrap()).is_none();
        if operation["op"] == "test" && operation["value"].is_null() && absent {
            continue;
        }
        let one: json_patch::Patch = serde_json::from_value(json!([operation])).unwrap();
        json_patch::patch(&mut patched, &one).map_err(|error| error.to_string())?;
    }
    let metadata = patched["metadata"].as_object_mut().unwrap();
    metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    Ok(patched)
}

/// Which containers were to end stays there, as they may be those that run after the way back.
fn as_before(back: &Value) -> Value {
    let mut before = back.clone();
    let annotations = before["metadata"]["annotations"].as_object_mut().unwrap();
    assert!(annotations.remove("hitless.dev/replaced").is_some());
    before["metadata"].as_object_mut().unwrap().retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    before
}

/// Values before and after: what is there before is what the grant says.
fn changes() -> impl Strategy<Value = (Map, BTreeMap<String, Change>)> {
    let value = || prop::option::of("[a-z]{0,3}");
    let key = prop::string::string_regex("[a-z]{1,3}[/~.a-z]{0,4}").unwrap();
    let foreign = prop::collection::btree_map("foreign[0-9]", "[a-z]{1,3}", 0..2);
    (prop::collection::btree_map(key, (value(), value()), 0..4), foreign).prop_map(|(changes, mut present)| {
        present.extend(changes.iter().filter_map(|(key, (from, _))| Some((key.clone(), from.clone()?))));
        let changes = changes.into_iter().map(|(key, (from, to))| (key, Change { from, to })).collect();
        (present, changes)
    })
}

proptest! {
    #[test]
    fn there_and_back_is_where_it_began((labels, label_changes) in changes(), (annotations, changes) in changes()) {
        let before = object(&labels, &annotations, "c:1");
        let grant = grant(&label_changes, &changes);
        let after = apply(&before, Deed::of(&grant).patch(&node_pod(&before), Direction::Forward)).unwrap();
        prop_assert_eq!(&after["spec"]["containers"][1]["image"], "c:2");
        prop_assert_eq!(&after["spec"]["containers"][0]["image"], "s:1");
        for (key, change) in &changes {
            let value = after["metadata"].get("annotations").and_then(|map| map.get(key));
            prop_assert_eq!(value.and_then(Value::as_str), change.to.as_deref());
        }
        let back = apply(&after, Deed::of(&grant).patch(&node_pod(&after), Direction::Back)).unwrap();
        prop_assert_eq!(as_before(&back), before);
    }

    #[test]
    fn a_patch_is_never_applied_twice_nor_to_another_state((labels, label_changes) in changes(), image in "c:[2-4]") {
        let other = object(&labels, &Map::new(), &image);
        let patch = Deed::of(&grant(&label_changes, &BTreeMap::new())).patch(&node_pod(&other), Direction::Forward);
        prop_assert!(apply(&other, patch).is_err());
    }
}

#[test]
fn another_pod_of_the_same_name_is_not_patched() {
    let mut other = object(&Map::new(), &Map::new(), "c:1");
    let patch = Deed::of(&grant(&BTreeMap::new(), &BTreeMap::new())).patch(&node_pod(&other), Direction::Forward);
    other["metadata"]["uid"] = json!("u-2");
    assert!(apply(&other, patch).is_err());
}

/// The index is that of the list in the spec, which has init containers that have run, too.
#[test]
fn a_restartable_init_container_is_patched_in_its_own_list() {
    let mut before = object(&Map::new(), &Map::new(), "web:1");
    before["spec"]["containers"][1]["name"] = json!("web");
    before["spec"]["initContainers"] =
        json!([{"name": "setup", "image": "c:1"}, {"name": "c", "image": "c:1", "restartPolicy": "Always"}]);
    let grant = grant(&BTreeMap::new(), &BTreeMap::new());
    let after = apply(&before, Deed::of(&grant).patch(&node_pod(&before), Direction::Forward)).unwrap();
    let images: Vec<_> = ["containers/0", "containers/1", "initContainers/0", "initContainers/1"]
        .map(|place| after.pointer(&format!("/spec/{place}/image")).unwrap().clone())
        .to_vec();
    assert_eq!(images, ["s:1", "web:1", "c:1", "c:2"]);
    let back = apply(&after, Deed::of(&grant).patch(&node_pod(&after), Direction::Back)).unwrap();
    assert_eq!(as_before(&back), before);
}

#[test]
fn a_digest_that_admission_adds_is_the_image_that_was_granted() {
    let grant = grant(&BTreeMap::new(), &BTreeMap::new());
    let images = Images::new(&grant);
    let at = |image: &str| node_pod(&object(&Map::new(), &Map::new(), image));
    for (image, progress) in [
        ("c:1", Progress::NotPatched),
        ("c:1@sha256:11", Progress::NotPatched),
        ("c:2", Progress::Patched),
        ("c:2@sha256:22", Progress::Patched),
    ] {
        assert_eq!((images.progress(&at(image).view), images.refusal(&at(image).view)), (progress, None), "{image}");
    }
    for image in ["c:20", "c:2@sha512:22", "mirror/c:2@sha256:22", "c:3", "c@sha256:22"] {
        let other = at(image);
        assert!(matches!(images.progress(&other.view), Progress::Other("ImageChanged", _)), "{image}");
        assert_eq!(images.refusal(&other.view).map(|(reason, _)| reason), Some("ImageChanged"), "{image}");
    }
    // The way back begins where admission has led to.
    let after = object(&Map::new(), &Map::new(), "c:2@sha256:22");
    let back = apply(&after, Deed::of(&grant).patch(&node_pod(&after), Direction::Back)).unwrap();
    assert_eq!(back["spec"]["containers"][1]["image"], "c:1");
}

#[test]
fn a_name_and_the_same_one_with_a_digest_are_two_images_where_the_grant_names_both() {
    let change = |from: &str, to: &str| ImageChange { from: from.into(), to: to.into() };
    let restart = change("c:1", "c:1@sha256:11");
    assert_eq!(is_changed("c:1", &restart), Some(false));
    assert_eq!(is_changed("c:1@sha256:11", &restart), Some(true));
    let unpinned = change("c:1@sha256:11", "c:1");
    assert_eq!(is_changed("c:1@sha256:11", &unpinned), Some(false));
    assert_eq!(is_changed("c:1@sha256:22", &unpinned), Some(true));
    assert_eq!(is_changed("c:1@sha256:11@sha256:22", &unpinned), None);
}

/// A container crashes after the grant, and the kubelet starts it again during the drain. The agent that patches is killed at once: the
/// next one has only the pod.
#[test]
fn what_the_patch_was_to_end_is_never_taken_for_the_new_container() {
    let mut grant = grant(&BTreeMap::new(), &BTreeMap::new());
    grant.before.insert("c".into(), "c://1".into());
    let running = |id: &str, object: &Value| {
        let mut object = object.clone();
        object["status"]["containerStatuses"] = json!([{"name": "c", "image": "c:1", "imageID": "", "ready": true, "restartCount": 1,
            "containerID": id, "state": {"running": {"startedAt": "2026-01-01T00:00:20Z"}}}]);
        object
    };
    let effect = |object: &Value| {
        let out_since = Some("2026-01-01T00:00:10Z".parse().unwrap());
        Images::new(&grant).effect(&node_pod(object).view, Baseline { ids: None, out_since })
    };
    let before = object(&Map::new(), &Map::new(), "c:1");
    let patched = |id: &str| {
        let crashed = running(id, &before);
        apply(&crashed, Deed::of(&grant).patch(&node_pod(&crashed), Direction::Forward)).unwrap()
    };
    // As granted. Whoever looks when there is no grant any more is told by the pod.
    let as_granted = patched("c://1");
    assert_eq!(as_granted["metadata"]["annotations"]["hitless.dev/replaced"], r#"{"c":"c://1"}"#);
    assert_eq!(effect(&as_granted), Effect::Stopping("c".into()));
    let again = patched("c://2");
    assert_eq!(again["metadata"]["annotations"]["hitless.dev/replaced"], r#"{"c":"c://2"}"#);
    assert_eq!(effect(&again), Effect::Stopping("c".into()));
    assert_eq!(effect(&running("c://3", &again)), Effect::Ready);
}
