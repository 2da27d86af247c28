//! Namespaces, also on a cluster on which there may be more than what this harness makes.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::Kubectl;
use crate::app::PATIENCE;

/// Label of namespaces that may be deleted by the next one who needs the name.
const MARK: (&str, &str) = ("app.kubernetes.io/managed-by", "hitless-demo");

/// Makes kubectl's namespace, or gives it these labels. One of that name that is still being deleted, after a test that runs once more,
/// would take all that is made in it with it.
pub fn apply(kubectl: &Kubectl, labels: &Value) -> anyhow::Result<()> {
    let name = kubectl.namespace();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    loop {
        let applied = kubectl.feed(&["apply", "-o=json"], &namespace)?;
        let applied: Value = serde_json::from_str(&applied).context("kubectl apply did not print JSON")?;
        if applied["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        kubectl.run(&["wait", "--for=delete", &format!("namespace/{name}"), &timeout])?;
    }
}

/// Makes kubectl's namespace. One that an earlier demo has left is deleted first; everything else of that name is left alone, which is
/// an error.
pub fn make(kubectl: &Kubectl) -> anyhow::Result<()> {
    let name = kubectl.namespace();
    let found = kubectl.run(&["get", "namespace", name, "--ignore-not-found", "-o", "json"])?;
    if !found.trim().is_empty() {
        let found: Value = serde_json::from_str(&found)?;
        ensure!(
            found["metadata"]["labels"][MARK.0] == MARK.1,
            "there is a namespace {name} that the demo has not made: it stays as it is, and the demo needs the name"
        );
        kubectl.run(&["delete", "namespace", name, "--wait=true", "--timeout=120s"])?;
    }
    let metadata = json!({"name": name, "labels": {MARK.0: MARK.1}});
    kubectl.feed(&["create"], &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).map(drop)
}
