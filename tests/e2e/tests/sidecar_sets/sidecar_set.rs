//! A SidecarSet on the cluster.

use anyhow::Context as _;
use hitless_e2e::app::{PATIENCE, Shape, Workload};
use hitless_e2e::{Kubectl, Stack, Watch};
use serde_json::{Value, json};

const RESOURCE: &str = "sidecarsets.apps.kruise.io";

/// The announcement's example: a log collector with a volume of its own, and the application's volume of the same name.
pub(crate) fn collector(name: &str, namespaces: &[String], image: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]},
        "containers": [{"name": "log", "image": image, "env": [{"name": "PORT", "value": "15090"}],
            "volumeMounts": [{"name": "log-volume", "mountPath": "/var/log"}]}],
        "volumes": [{"name": "log-volume", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}]}})
}

/// The application has a volume of the name of the collector's.
pub(crate) fn shape(workload: Workload, replicas: u32) -> Shape {
    let own = match workload {
        Workload::CloneSet => Shape::clone_set(replicas),
        _ => Shape { workload, replicas, mode: None, ..Shape::default() },
    };
    let spec = json!({"volumes": [{"name": "log-volume", "emptyDir": {"medium": "Memory"}}]});
    Shape { patch: json!({"spec": {"template": {"spec": spec}}}), ..own }
}

/// Deletes it at the end, whatever has become of the test.
pub(crate) struct SidecarSet {
    kubectl: Kubectl,
    name: String,
    all: Watch,
}

impl SidecarSet {
    pub(crate) fn apply(stack: &Stack, set: &Value) -> anyhow::Result<Self> {
        let kubectl = stack.system();
        let name = set["metadata"]["name"].as_str().context("a SidecarSet without a name")?.to_owned();
        kubectl.feed(&["apply"], set)?;
        Ok(Self { all: Watch::start(&kubectl, &[RESOURCE])?, kubectl, name })
    }

    /// Waits for a condition of the SidecarSet as it is now, and returns it.
    pub(crate) fn wait_condition(&self, type_: &str, is: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        self.all.wait(&format!("SidecarSet {}: {type_}", self.name), PATIENCE, |all| {
            let set = all.get(&self.name)?;
            let condition = set["status"]["conditions"].as_array()?.iter().find(|each| each["type"] == type_)?;
            let is_of_now = condition["observedGeneration"] == set["metadata"]["generation"];
            (is_of_now && is(condition)).then(|| condition.clone())
        })
    }

    /// Waits until new pods get, or do not get, what it says now.
    pub(crate) fn wait_injected(&self, status: &str) -> anyhow::Result<Value> {
        self.wait_condition("Injected", |condition| condition["status"] == status)
    }

    pub(crate) fn wait_counts(&self, matched: u32, updated: u32) -> anyhow::Result<()> {
        self.all.wait(&format!("{updated} updated of {matched} pods with its containers"), PATIENCE, |all| {
            let status = &all.get(&self.name)?["status"];
            let is_so =
                status["matchedPods"] == matched && status["updatedPods"] == updated && status["readyPods"] == matched;
            is_so.then_some(())
        })
    }

    pub(crate) fn patch(&self, patch: &Value) -> anyhow::Result<()> {
        self.kubectl.run(&["patch", RESOURCE, &self.name, "--type=json", "-p", &patch.to_string()]).map(drop)
    }

    /// Another image of its container.
    pub(crate) fn set_image(&self, image: &str) -> anyhow::Result<()> {
        self.patch(&json!([{"op": "replace", "path": "/spec/containers/0/image", "value": image}]))
    }
}

impl Drop for SidecarSet {
    fn drop(&mut self) {
        if let Err(error) = self.kubectl.run(&["delete", RESOURCE, &self.name]) {
            eprintln!("SidecarSet {} stays: {error:#}", self.name);
        }
    }
}
