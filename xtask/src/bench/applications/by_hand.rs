//! What somebody does to the cluster beside an application.

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use hitless_e2e::stack::image;
use hitless_e2e::until::until_answered;
use hitless_e2e::{Kubectl, Stack};
use serde_json::{Value, json};

use super::case::Moment;

/// An image that was loaded into the nodes, and that no registry has.
pub(super) const LOADED: &str = "loaded.test/echo:v1";

pub(super) fn load(stack: &Stack, moment: Moment) -> anyhow::Result<()> {
    match moment {
        Moment::Before => stack.load_echo(LOADED),
        Moment::Serving | Moment::Rolling | Moment::Over => Ok(()),
    }
}

/// The reference server, which migrates for a minute at the start of version v2.
pub(super) const MIGRATING: &str = "echo-migrating";

pub(super) fn push_migrating(stack: &Stack, moment: Moment) -> anyhow::Result<()> {
    push(stack, moment, MIGRATING, &[("v1", "0"), ("v2", "60000")])
}

/// The reference server under a name that nodes have only from the mirror.
pub(super) const MIRRORED: &str = "echo-mirrored";

pub(super) fn push_mirrored(stack: &Stack, moment: Moment) -> anyhow::Result<()> {
    push(stack, moment, MIRRORED, &[("v1", "0"), ("v2", "0")])
}

/// Versions of the reference server, with how many milliseconds each needs to start.
fn push(stack: &Stack, moment: Moment, repository: &str, versions: &[(&str, &str)]) -> anyhow::Result<()> {
    match moment {
        Moment::Before => versions.iter().try_for_each(|(version, delay)| {
            let environment = [("START_DELAY", *delay), ("REPOSITORY", repository)];
            stack.push_echo(repository, version, &environment, None).map(drop)
        }),
        Moment::Serving | Moment::Rolling | Moment::Over => Ok(()),
    }
}

pub(super) fn cordon(stack: &Stack, moment: Moment) -> anyhow::Result<()> {
    let verb = match moment {
        Moment::Before | Moment::Rolling => return Ok(()),
        Moment::Serving => "cordon",
        Moment::Over => "uncordon",
    };
    stack.system().run(&[verb, "n2"]).map(drop)
}

/// Evicts the application's pods from a node in the middle of each rollout, as an upgrade of nodes does.
pub(super) fn drain(stack: &Stack, moment: Moment) -> anyhow::Result<()> {
    match moment {
        Moment::Before | Moment::Serving | Moment::Over => Ok(()),
        Moment::Rolling => {
            let evict = [
                "drain",
                "n2",
                "--pod-selector=app=web",
                "--ignore-daemonsets",
                "--delete-emptydir-data",
                "--timeout=120s",
            ];
            let evicted = stack.system().run(&evict);
            stack.system().run(&["uncordon", "n2"]).and(evicted).map(drop)
        }
    }
}

/// Deletes a pod of the application in the middle of each rollout, as somebody does to whom it is too slow.
pub(super) fn delete(stack: &Stack, moment: Moment) -> anyhow::Result<()> {
    if moment != Moment::Rolling {
        return Ok(());
    }
    let all = stack.system().run(&["get", "pods", "-A", "-l", "app=web", "--no-headers"])?;
    let first = all.lines().next().context("no pod of the application is there")?;
    let [namespace, pod] = first.split_whitespace().take(2).collect::<Vec<_>>()[..] else { bail!("no pod: {first}") };
    stack.system().run(&["delete", "pod", pod, "-n", namespace, "--wait=false"]).map(drop)
}

/// What each pod of the full cluster asks for.
pub(super) const SHARE: &str = "200m";

/// Has as many other pods run as find room, so that no node has room for another pod of the application.
pub(super) fn fill(stack: &Stack, moment: Moment) -> anyhow::Result<()> {
    let space = Kubectl::new(Arc::clone(&stack.cluster), "default");
    match moment {
        Moment::Before | Moment::Rolling => Ok(()),
        Moment::Serving => fill_up(&space),
        Moment::Over => {
            let delete =
                ["delete", "deployment/filler", "--ignore-not-found", "--cascade=foreground", "--timeout=120s"];
            space.run(&delete).map(drop)
        }
    }
}

fn fill_up(space: &Kubectl) -> anyhow::Result<()> {
    /// Pods more at a time, until one finds no room.
    const MORE: usize = 5;
    let labels = json!({"app": "filler"});
    let container = json!({"name": "filler", "image": image("echo", "v1"), "resources": {"requests": {"cpu": SHARE}}});
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "filler"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}}});
    for replicas in (MORE..).step_by(MORE) {
        deployment["spec"]["replicas"] = replicas.into();
        space.feed(&["apply"], &deployment)?;
        let placed = until_answered(|| placed(space, replicas))?;
        if placed < replicas {
            // Those without a node go first.
            space.run(&["scale", "deployment/filler", &format!("--replicas={placed}")])?;
            return until_answered(|| {
                let pods = space.list(&["pods", "-l", "app=filler"])?;
                ensure!(pods.len() == placed, "{} pods fill the nodes, {placed} are wanted", pods.len());
                Ok(())
            });
        }
    }
    Ok(())
}

/// How many of the pods have a node, once the scheduler has looked at all.
fn placed(space: &Kubectl, replicas: usize) -> anyhow::Result<usize> {
    let pods = space.list(&["pods", "-l", "app=filler"])?;
    let scheduled = |pod: &Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.find_map(|condition| (condition["type"] == "PodScheduled").then(|| condition["status"] == "True"))
    };
    let looked_at: Vec<bool> = pods.iter().filter_map(scheduled).collect();
    ensure!(looked_at.len() == replicas, "the scheduler has looked at {} of {replicas} pods", looked_at.len());
    Ok(looked_at.into_iter().filter(|has_node| *has_node).count())
}
