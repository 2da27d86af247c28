//! What a controller keeps of 150,000 pods that run: `cargo xtask bench gate` runs this, in a fresh process for each variant.
//!
//! Prints one JSON object. With the argument `own` every pod has a label set of its own, as those of a StatefulSet have.

use std::{fs, io};

use hitless_api::pod::{PodView, Sharing};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

const PODS: u32 = 150_000;
const WORKLOADS: u32 = 8_000;
const NAMESPACES: u32 = 400;
const NODES: u32 = 5_000;
const SOME_TIME: &str = "2026-01-01T00:00:00Z";

fn main() -> io::Result<()> {
    let own_labels = std::env::args().any(|argument| argument == "own");
    let mut sharing = Sharing::default();
    let before = resident()?;
    let mut pods = Vec::new();
    for number in 0..PODS {
        let pod: Pod = serde_json::from_value(pod(number, own_labels))?;
        let mut view = PodView::from(&pod);
        sharing.share(&mut view);
        pods.push(view);
    }
    let grown = resident()?.saturating_sub(before);
    println!("{}", json!({"pods": pods.len(), "resident_bytes": grown}));
    Ok(())
}

/// Two containers and five conditions, as a pod has with a mesh's proxy.
fn pod(number: u32, own_labels: bool) -> Value {
    let workload = number % WORKLOADS;
    let app = format!("payment-service-{workload:04}");
    let namespace = format!("team-{:03}-production", workload % NAMESPACES);
    let mut labels = json!({"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "team": namespace, "version": "v1.2.3",
        "pod-template-hash": "5d4f8b7c9d"});
    if own_labels {
        labels["statefulset.kubernetes.io/pod-name"] = format!("{app}-{number}").into();
    }
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": SOME_TIME});
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let image = |name: &str| format!("registry.example.com/{name}:v1.2.3");
    let container = |name: &str, port: u16| {
        json!({"name": name, "image": image(name), "ports": [{"name": "http", "containerPort": port}],
            "readinessProbe": {"httpGet": {"path": "/", "port": port}}})
    };
    let status = |name: &str, instance: u32| {
        json!({"name": name, "ready": true, "restartCount": 0, "image": image(name), "imageID": format!("registry.example.com/{name}@sha256:{:064x}", 7),
            "containerID": format!("containerd://{instance:064x}"), "state": {"running": {"startedAt": SOME_TIME}}})
    };
    json!({
        "metadata": {"name": format!("{app}-5d4f8b7c9d-{number:05}"), "namespace": namespace, "uid": uid(number), "labels": labels,
            "resourceVersion": (100_000_000 + number).to_string(), "creationTimestamp": SOME_TIME,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-5d4f8b7c9d"), "uid": uid(workload),
                "controller": true}]},
        "spec": {"nodeName": format!("node-{:04}.example.internal", number % NODES), "containers": [container("web", 8080), container("proxy", 15_020)]},
        "status": {"phase": "Running", "podIP": format!("10.1.{}.{}", number / 250 % 250, number % 250), "conditions": conditions,
            "containerStatuses": [status("web", 2 * number), status("proxy", 2 * number + 1)]},
    })
}

fn uid(number: u32) -> String {
    format!("{number:08x}-1234-4234-8234-0123456789ab")
}

fn resident() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
    let kibibytes = kibibytes.and_then(|number| number.trim().parse::<u64>().ok());
    Ok(kibibytes.ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))? * 1024)
}
