//! Namespaces on a cluster on which there may be more than what this harness makes.

use anyhow::ensure;
use serde_json::json;

use crate::Kubectl;

/// Label of namespaces that may be deleted by the next one who needs the name.
const MARK: (&str, &str) = ("app.kubernetes.io/managed-by", "hitless-demo");

/// Makes kubectl's namespace. One that an earlier demo has left is deleted first; everything else of that name is left alone, which is
/// an error.
pub fn make(kubectl: &Kubectl) -> anyhow::Result<()> {
    let name = kubectl.namespace();
    let found = kubectl.run(&["get", "namespace", name, "--ignore-not-found", "-o", "json"])?;
    if !found.trim().is_empty() {
        let found: serde_json::Value = serde_json::from_str(&found)?;
        ensure!(
            found["metadata"]["labels"][MARK.0] == MARK.1,
            "there is a namespace {name} that the demo has not made: it stays as it is, and the demo needs the name"
        );
        kubectl.run(&["delete", "namespace", name, "--wait=true", "--timeout=120s"])?;
    }
    let metadata = json!({"name": name, "labels": {MARK.0: MARK.1}});
    kubectl.feed(&["create"], &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).map(drop)
}
