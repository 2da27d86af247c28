//! Objects of one tenant that are made to take much memory of everybody who reads them: 1.4 MB of the shortest maps.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{Kubectl, Stack, namespace};

/// Variables of a template: so many fit into the 1.5 MiB that the API server's store takes.
const VARIABLES: usize = 45_000;
/// Of a pod's arguments, and of its annotations (the API server takes 256 KiB).
const LONG: (usize, usize) = (700_000, 250_000);

/// A tenant. Its namespace goes with it.
pub struct Hostile {
    /// kubectl in its namespace.
    pub kubectl: Kubectl,
}

impl Hostile {
    /// Makes its namespace.
    pub fn new(stack: &Stack, namespace: &str) -> anyhow::Result<Self> {
        let kubectl = Kubectl::new(Arc::clone(&stack.cluster), namespace);
        namespace::apply(&kubectl, &json!({}))?;
        Ok(Self { kubectl })
    }

    /// Deployments without a pod.
    pub fn deployments(&self, count: usize, are_opted_in: bool) -> anyhow::Result<()> {
        let annotations = if are_opted_in { json!({"hitless.dev/update": "in-place"}) } else { json!({}) };
        let env: Vec<Value> =
            (0..VARIABLES).map(|number| json!({"name": format!("a{number:x}"), "value": "1"})).collect();
        (0..count).try_for_each(|number| {
            let name = format!("{}-{number}", if are_opted_in { "opted-in" } else { "plain" });
            let labels = json!({"app": name});
            let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "web", "image": "web:1", "env": env}]}}}});
            self.kubectl.feed(&["create"], &deployment).map(drop)
        })
    }

    /// Pods of a node, whose image nobody has: as long as the API server takes them, and with many variables.
    pub fn pods(&self, count: usize, node: &str) -> anyhow::Result<()> {
        let env: Vec<Value> =
            (0..VARIABLES / 2).map(|number| json!({"name": format!("a{number:x}"), "value": "1"})).collect();
        (0..count).try_for_each(|number| {
            let container = if number.is_multiple_of(2) {
                json!({"name": "web", "image": "hitless.test/none:1", "args": ["a".repeat(LONG.0)]})
            } else {
                json!({"name": "web", "image": "hitless.test/none:1", "env": env})
            };
            let annotation = if number.is_multiple_of(2) { "a".repeat(LONG.1) } else { String::new() };
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("large-{number}"), "annotations": {"note": annotation}},
                "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}});
            self.kubectl.feed(&["create"], &pod).map(drop)
        })
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let namespace = self.kubectl.namespace().to_owned();
        if let Err(error) = self.kubectl.run(&["delete", "namespace", &namespace, "--wait=false"]) {
            eprintln!("namespace {namespace} stays: {error:#}");
        }
    }
}
