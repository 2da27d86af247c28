//! What a controller needs in a cluster with many objects that have nothing to do with hitless.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::bail;
use hitless_e2e::stack::main_process;
use hitless_e2e::{Kubectl, Stack, namespace};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::process::memory_mib;

/// Environment variables of a template: about 25 KiB.
const VARIABLES: usize = 360;
/// kubectl limits its own requests a second, so several create at a time.
const AT_A_TIME: usize = 8;
const IN_A_LIST: usize = 100;
/// 150,000 take a quarter of an hour, so whoever waits is told how far it is.
const TOLD_EVERY: usize = 5_000;

/// Of which there are many.
#[derive(Clone, Copy)]
pub(super) enum What {
    /// Without pods, of about 25 KiB.
    ReplicaSets,
    /// On no node, of about 2 KiB.
    Pods,
}

impl What {
    fn namespace(self) -> &'static str {
        match self {
            Self::ReplicaSets => "bench-many",
            Self::Pods => "bench-many-pods",
        }
    }

    fn object(self, number: usize) -> Value {
        match self {
            Self::ReplicaSets => replica_set(number),
            Self::Pods => pod(number),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Many {
    pub(super) count: usize,
    /// Of one as JSON.
    pub(super) kib_each: usize,
    /// Of each controller when all of them are there.
    pub(super) rss_mib: Vec<f64>,
    /// The most that each has needed until then.
    pub(super) most_mib: Vec<f64>,
}

/// Makes so many of them.
pub(super) fn measure(stack: &Stack, what: What, count: usize) -> anyhow::Result<Many> {
    let namespace = what.namespace();
    let kubectl = Kubectl::new(Arc::clone(&stack.cluster), namespace);
    namespace::apply(&kubectl, &json!({}))?;
    let lists: Vec<Vec<usize>> = (0..count).collect::<Vec<_>>().chunks(IN_A_LIST).map(<[usize]>::to_vec).collect();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        let share = lists.len().div_ceil(AT_A_TIME).max(1);
        let workers: Vec<_> =
            lists.chunks(share).map(|lists| scope.spawn(|| create(&kubectl, what, lists, &done))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a thread panicked")))
    })?;
    // They are not started anew: the native controllers are busy with the objects for many minutes.
    let pods = stack.system().list(&["pods", "-l", "app.kubernetes.io/name=hitless-controller"])?;
    let of = |line: &str| pods.iter().map(|pod| memory_mib(main_process(pod)?, line)).collect::<anyhow::Result<_>>();
    let figures = Many {
        count,
        kib_each: what.object(0).to_string().len() / 1024,
        rss_mib: of("VmRSS:")?,
        most_mib: of("VmHWM:")?,
    };
    kubectl.run(&["delete", "namespace", namespace, "--wait=false"])?;
    Ok(figures)
}

fn create(kubectl: &Kubectl, what: What, lists: &[Vec<usize>], done: &AtomicUsize) -> anyhow::Result<()> {
    for numbers in lists {
        let items: Vec<Value> = numbers.iter().copied().map(|number| what.object(number)).collect();
        kubectl.feed(&["create"], &json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
        let now = done.fetch_add(numbers.len(), Ordering::Relaxed) + numbers.len();
        if now.is_multiple_of(TOLD_EVERY) {
            eprintln!("{now} objects in {}", what.namespace());
        }
    }
    Ok(())
}

fn replica_set(number: usize) -> Value {
    let name = format!("web-{number}");
    let environment = environment(&name, VARIABLES);
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": "web:1", "env": environment}]}}}})
}

/// No scheduler of that name is there.
fn pod(number: usize) -> Value {
    let name = format!("idle-{number}");
    let environment = environment(&name, 20);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": format!("idle-{}", number / 30)}},
        "spec": {"schedulerName": "none", "containers": [{"name": "web", "image": "web:1", "env": environment}]}})
}

fn environment(name: &str, variables: usize) -> Vec<Value> {
    let variable = |index: usize| json!({"name": format!("SOME_SETTING_{index}"), "value": format!("a value of {name} that is not short")});
    (0..variables).map(variable).collect()
}
