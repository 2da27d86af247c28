//! The companion pod itself. `manifests/policies/controller-companion.yaml` lets the controller make no other.

use std::collections::BTreeMap;

use hitless_api::ObjectRef;
use hitless_api::names::{IN_SERVICE, labels};
use serde_json::{Value, json};

use crate::owner_reference::owner_reference;

/// Annotation: what of the pod is its workload's template's, as names with commas between them. Admission compares that with the
/// template, and the rest with the workload's pods.
const FROM_TEMPLATE: &str = "hitless.dev/from-template";

/// A pod from this template of the workload, with these images, on this node if there is room.
#[must_use]
pub fn manifest(
    workload: &ObjectRef,
    key: &str,
    template: &Value,
    images: &BTreeMap<String, String>,
    node: &str,
) -> Value {
    let mut spec = template["spec"].clone();
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let image = container["name"].as_str().and_then(|name| images.get(name)).cloned();
            if let Some(image) = image {
                container["image"] = image.into();
            }
        }
    }
    push(&mut spec["readinessGates"], json!({"conditionType": IN_SERVICE}), |gate| gate["conditionType"] == IN_SERVICE);
    let here = json!({"weight": 100, "preference": {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}});
    push(&mut spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"], here, |_| false);
    let meta = &template["metadata"];
    let mut all = meta["labels"].as_object().cloned().unwrap_or_default();
    all.insert(labels::COMPANION.to_owned(), key.into());
    // It has the gate already.
    all.insert(labels::GATE.to_owned(), "disabled".into());
    let mut notes = meta["annotations"].as_object().cloned().unwrap_or_default();
    notes.insert(FROM_TEMPLATE.to_owned(), parts(template).join(",").into());
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": super::name(workload, key),
            "namespace": workload.namespace,
            "labels": all,
            "annotations": notes,
            "ownerReferences": [owner_reference(workload, true)],
        },
        "spec": spec,
    })
}

/// Names all that the template gives a pod and that admission may add to, too (docs/contract.md#companion-pod).
fn parts(template: &Value) -> Vec<String> {
    let list = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
    let names = |of: &Value, field: &str, key: &str| -> Vec<String> {
        list(of, field).iter().filter_map(|each| each[key].as_str().map(ToOwned::to_owned)).collect()
    };
    let (meta, spec) = (&template["metadata"], &template["spec"]);
    let keys =
        |field: &str| meta[field].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let mut all = Vec::new();
    for container in list(spec, "containers").iter().chain(&list(spec, "initContainers")) {
        let name = container["name"].as_str().unwrap_or_default();
        all.push(name.to_owned());
        all.extend(names(container, "env", "name").iter().map(|variable| format!("{name}/env/{variable}")));
        all.extend(names(container, "volumeMounts", "mountPath").iter().map(|path| format!("{name}/mount/{path}")));
    }
    all.extend(names(spec, "volumes", "name").iter().map(|volume| format!("volume/{volume}")));
    all.extend(keys("labels").iter().filter(|key| *key != labels::GATE).map(|key| format!("label/{key}")));
    all.extend(keys("annotations").iter().map(|key| format!("annotation/{key}")));
    all
}

/// Adds an entry to a list, if there is none like it.
fn push(list: &mut Value, entry: Value, is_like_it: impl Fn(&Value) -> bool) {
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(entries) = list.as_array_mut()
        && !entries.iter().any(is_like_it)
    {
        entries.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::GroupKind;
    use hitless_api::pod::PodView;
    use k8s_openapi::api::core::v1::Pod;

    #[test]
    fn it_is_a_pod_of_the_template_that_waits_for_its_place() {
        let workload = ObjectRef {
            group_kind: GroupKind::new("apps", "Deployment"),
            namespace: "shop".to_owned(),
            name: "a-name-that-is-much-too-long-for-a-host-name".to_owned(),
            uid: "u".to_owned(),
        };
        let template = json!({"metadata": {"labels": {"app": "web"}, "annotations": {"team": "a"}},
            "spec": {"serviceAccountName": "web", "containers": [{"name": "web", "image": "web:v2", "env": [{"name": "A", "value": "b"}],
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}, {"name": "log", "image": "log:1"}], "volumes": [{"name": "tmp", "emptyDir": {}}],
                "initContainers": [{"name": "proxy", "image": "proxy:v2", "restartPolicy": "Always"}, {"name": "setup", "image": "web:v2"}],
                "readinessGates": [{"conditionType": "other"}]}});
        let key = crate::companion::key(&workload, "r2");
        let image = |name: &str, image: &str| (name.to_owned(), image.to_owned());
        let images = BTreeMap::from([image("web", "web:v2@sha256:22"), image("proxy", "proxy:v2@sha256:33")]);
        let pod: Pod = serde_json::from_value(manifest(&workload, &key, &template, &images, "n1")).unwrap();
        let parts = &pod.metadata.annotations.as_ref().unwrap()[FROM_TEMPLATE];
        assert_eq!(parts, "web,web/env/A,web/mount//tmp,log,proxy,setup,volume/tmp,label/app,annotation/team");
        let view = PodView::from(&pod);
        assert!(view.gated && crate::companion::is_companion(&view) && !crate::companion::has_served(&view));
        assert!(view.id.name.len() < 63, "{}", view.id.name);
        assert_eq!(view.labels["app"], "web");
        assert_eq!(view.owner.unwrap().uid, "u");
        let images: Vec<&str> = view.containers.iter().map(|container| container.image.as_str()).collect();
        assert_eq!(images, ["web:v2@sha256:22", "log:1", "proxy:v2@sha256:33"]);
        let spec = pod.spec.unwrap();
        assert_eq!(spec.readiness_gates.unwrap().len(), 2);
        let affinity = spec.affinity.unwrap().node_affinity.unwrap();
        assert_eq!(affinity.preferred_during_scheduling_ignored_during_execution.unwrap().len(), 1);
    }
}
