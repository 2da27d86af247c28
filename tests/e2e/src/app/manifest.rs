//! The objects of an application.

use serde_json::{Value, json};

use super::{Shape, Workload};

/// The Service that gives a StatefulSet's pods their names.
pub(super) const HEADLESS: &str = "web-pods";

/// How the kubelet looks whether the reference server is ready, at the port of that name. One look that fails takes the pod out of its
/// Services, so it may take as long as a busy machine lets kubelet and server wait.
#[must_use]
pub fn readiness_probe(port: &str) -> Value {
    json!({"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 1})
}

/// The workload `web` of that shape.
#[must_use]
pub fn manifest(shape: &Shape) -> Value {
    let mut annotations = json!({});
    if let Some(update) = shape.update.filter(|_| !shape.by_namespace) {
        annotations["hitless.dev/update"] = json!(update);
    }
    let container = json!({
        "name": "web", "image": format!("{}/{}:{}", shape.registry, shape.repository, shape.version), "ports": [{"containerPort": 8080, "name": "http"}],
        "readinessProbe": readiness_probe("http"),
    });
    let mut workload = json!({
        "apiVersion": shape.workload.api_version(), "kind": format!("{:?}", shape.workload), "metadata": {"name": "web", "annotations": annotations},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}},
    });
    if shape.workload != Workload::DaemonSet {
        workload["spec"]["replicas"] = json!(shape.replicas);
    }
    if shape.workload == Workload::StatefulSet {
        workload["spec"]["serviceName"] = json!(HEADLESS);
    }
    if let Some(mode) = shape.mode {
        workload["spec"]["template"]["metadata"]["annotations"] = json!({"hitless.dev/mode": mode});
    }
    merge(&mut workload, &shape.patch);
    workload
}

/// A Service of the workload's pods.
pub(super) fn service(name: &str, more: &Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    merge(&mut service["spec"], more);
    service
}

/// JSON merge patch, RFC 7396, without removal.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (_, Value::Null) => {}
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}
