//! PersistentVolumes for claims: the test cluster has nobody who makes them.

use serde_json::{Value, json};

use crate::Kubectl;

/// One volume of each size for the claims of a class; they are deleted when this is dropped.
pub struct Volumes {
    kubectl: Kubectl,
    names: Vec<String>,
}

impl Volumes {
    /// Makes them, as directories of the nodes.
    pub fn make(kubectl: &Kubectl, class: &str, sizes: &[&str]) -> anyhow::Result<Self> {
        let mut volumes = Self { kubectl: kubectl.in_namespace(kubectl.namespace()), names: Vec::new() };
        for size in sizes {
            let name = format!("{class}-{}", size.to_lowercase());
            let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                    "persistentVolumeReclaimPolicy": "Retain",
                    "hostPath": {"path": format!("/tmp/{name}"), "type": "DirectoryOrCreate"}}});
            kubectl.feed(&["apply"], &volume)?;
            volumes.names.push(name);
        }
        Ok(volumes)
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        for name in &self.names {
            // A test that failed has said so already; a volume that is left over goes with the cluster.
            let _ = self.kubectl.run(&["delete", "persistentvolume", name, "--wait=false"]);
        }
    }
}

/// `volumeClaimTemplates` with one claim, `data`, of that class and size.
#[must_use]
pub fn templates(class: &str, size: &str) -> Value {
    json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": size}}}}])
}
