//! What a controller needs in a cluster with many ReplicaSets that have nothing to do with hitless.

use std::sync::Arc;
use std::thread;

use anyhow::bail;
use hitless_e2e::stack::main_process;
use hitless_e2e::{Kubectl, Stack};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::process::memory_mib;

const NAMESPACE: &str = "bench-many";
/// Environment variables of a template: about 25 KiB.
const VARIABLES: usize = 320;
/// kubectl limits its own requests a second, so several create at a time.
const AT_A_TIME: usize = 8;
const IN_A_LIST: usize = 100;

#[derive(Serialize)]
pub(super) struct Many {
    pub(super) replica_sets: usize,
    /// Of one as JSON.
    pub(super) kib_each: usize,
    /// Of each controller when all of them are there.
    pub(super) rss_mib: Vec<f64>,
    /// The most that each has needed until then.
    pub(super) most_mib: Vec<f64>,
}

/// Makes so many ReplicaSets without pods.
pub(super) fn measure(stack: &Stack, count: usize) -> anyhow::Result<Many> {
    let kubectl = Kubectl::new(Arc::clone(&stack.cluster), NAMESPACE);
    kubectl.feed(&["apply"], &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))?;
    let lists: Vec<Vec<usize>> = (0..count).collect::<Vec<_>>().chunks(IN_A_LIST).map(<[usize]>::to_vec).collect();
    thread::scope(|scope| {
        let share = lists.len().div_ceil(AT_A_TIME).max(1);
        let workers: Vec<_> = lists.chunks(share).map(|lists| scope.spawn(|| create(&kubectl, lists))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a thread panicked")))
    })?;
    // They are not started anew: the native controllers are busy with the ReplicaSets for many minutes.
    let pods = stack.system().list(&["pods", "-l", "app.kubernetes.io/name=hitless-controller"])?;
    let of = |line: &str| pods.iter().map(|pod| memory_mib(main_process(pod)?, line)).collect::<anyhow::Result<_>>();
    let figures = Many {
        replica_sets: count,
        kib_each: replica_set(0).to_string().len() / 1024,
        rss_mib: of("VmRSS:")?,
        most_mib: of("VmHWM:")?,
    };
    kubectl.run(&["delete", "namespace", NAMESPACE, "--wait=false"])?;
    Ok(figures)
}

fn create(kubectl: &Kubectl, lists: &[Vec<usize>]) -> anyhow::Result<()> {
    for numbers in lists {
        let items: Vec<Value> = numbers.iter().copied().map(replica_set).collect();
        kubectl.feed(&["create"], &json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
    }
    Ok(())
}

fn replica_set(number: usize) -> Value {
    let name = format!("web-{number}");
    let variable = |index: usize| json!({"name": format!("SOME_SETTING_{index}"), "value": format!("a value of {name} that is not short")});
    let environment: Vec<Value> = (0..VARIABLES).map(variable).collect();
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": "web:1", "env": environment}]}}}})
}
