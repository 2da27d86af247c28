//! What is seen: the pods of this node, as the API server has them, and what the kernel shows of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use hitless_api::pod::PodView;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};

use crate::config_mounts;
use crate::decision::Direction;
use crate::readiness::{self, Question};

/// What the API server fills in where a pod says nothing.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// A pod of this node, with what a JSON patch must know beside [`PodView`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePod {
    /// The pod.
    pub view: PodView,
    /// Whether `metadata.labels` is there at all: a JSON patch can't add to a map that is absent.
    pub has_labels: bool,
    /// Whether `metadata.annotations` is there at all.
    pub has_annotations: bool,
    /// `status.podIPs`.
    pub ips: Vec<IpAddr>,
    /// The preStop hooks of its containers, by name of the container.
    pub pre_stop: BTreeMap<String, PreStop>,
    /// Their readiness probes, by the same.
    pub readiness: BTreeMap<String, Question>,
    /// Which of its containers mount a ConfigMap or a Secret: files that the kubelet renews.
    pub config_mounts: BTreeSet<String>,
    /// `spec.terminationGracePeriodSeconds`: a process that has not ended by then after SIGTERM is killed.
    pub grace: Duration,
}

impl From<&Pod> for NodePod {
    fn from(pod: &Pod) -> Self {
        let has = |map: &Option<BTreeMap<String, String>>| map.as_ref().is_some_and(|map| !map.is_empty());
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        Self {
            view: PodView::from(pod),
            has_labels: has(&pod.metadata.labels),
            has_annotations: has(&pod.metadata.annotations),
            ips: ips(pod),
            pre_stop: pre_stops(pod),
            readiness: readiness::questions(pod),
            config_mounts: config_mounts::of(pod),
            grace: grace.and_then(|seconds| u64::try_from(seconds).ok()).map_or(DEFAULT_GRACE, Duration::from_secs),
        }
    }
}

/// How long a container's process serves on after the kubelet was told to stop it, and before it is told itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreStop {
    /// The hook sleeps for so long.
    Sleeps(Duration),
    /// It does something else, for nobody knows how long.
    Runs,
}

impl PreStop {
    fn of(hook: &LifecycleHandler) -> Self {
        let sleep = hook.sleep.as_ref().and_then(|sleep| u64::try_from(sleep.seconds).ok());
        let command = || {
            let command = hook.exec.as_ref()?.command.as_ref()?.join(" ");
            let shell = ["/bin/sh -c ", "sh -c ", "/bin/bash -c ", "bash -c "];
            let command = shell.iter().find_map(|shell| command.strip_prefix(shell)).unwrap_or(&command);
            let seconds = command.strip_prefix("/bin/").unwrap_or(command).strip_prefix("sleep ")?;
            seconds.trim().trim_end_matches('s').parse().ok()
        };
        sleep.or_else(command).map_or(Self::Runs, |seconds| Self::Sleeps(Duration::from_secs(seconds)))
    }

    /// Of these containers, which the kubelet stops one after another in no known order: as long as one of them serves on, all of them may.
    #[must_use]
    pub fn of_all(known: &BTreeMap<String, Self>, names: &[&str]) -> Option<Self> {
        match names {
            [name] => known.get(*name).copied(),
            names => (!names.is_empty() && names.iter().all(|name| known.contains_key(*name))).then_some(Self::Runs),
        }
    }
}

fn pre_stops(pod: &Pod) -> BTreeMap<String, PreStop> {
    let Some(spec) = &pod.spec else { return BTreeMap::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let hook = |container: &Container| {
        let hook = PreStop::of(container.lifecycle.as_ref()?.pre_stop.as_ref()?);
        Some((container.name.clone(), hook))
    };
    containers.filter_map(hook).collect()
}

/// All addresses of the pod; API servers before dual-stack have only one.
fn ips(pod: &Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).chain(status.pod_ip.as_deref());
    let mut ips: Vec<IpAddr> = all.filter_map(|ip| ip.parse().ok()).map(|ip: IpAddr| ip.to_canonical()).collect();
    ips.sort_unstable();
    ips.dedup();
    ips
}

/// This node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// Where the pod of a grant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodLookup<'a> {
    /// On this node.
    Found(&'a NodePod),
    /// Not in the cache of this node's pods; the API server has not been asked yet.
    NotCached,
    /// The API server said why it is not in the cache.
    Missing(Missing),
}

/// Why a pod is not in the cache of this node's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no pod of that name.
    Gone,
    /// A pod of that name has another uid.
    OtherUid,
    /// The pod is bound to another node or to none.
    OtherNode,
}

/// What the kernel shows of a pod that is to be drained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Observation {
    /// Nobody has looked yet.
    #[default]
    None,
    /// Looking failed, for this reason. Never to be taken for "drained".
    Failed(String),
    /// Counted.
    Counted(Count),
    /// New connections are held, or about to be.
    Held(Held),
}

/// Inbound connections of a pod, those on ignored ports left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them that certainly are no probes, and are waited for.
    pub inbound: u32,
    /// Those that have a request in flight, or may have.
    pub busy: u32,
    /// Those that certainly have none. Closed kindly where the port is HTTP/1.
    pub idle: u32,
    /// Those that are not waited for, because nobody has used them for `idleAfterSeconds`. Not among [`Self::inbound`].
    pub unused: u32,
    /// Those that may be probes: a process of the node has opened them in the last two seconds. Waited for, because they may be
    /// clients on the node too; none if some have always been there. Not among [`Self::inbound`].
    pub perhaps_probes: u32,
    /// New connections have stopped coming, the kubelet's probes apart.
    pub quiet: bool,
    /// When the last of them came, to within some 20 ms; absent if none has come, and if more still come.
    pub came_until: Option<Timestamp>,
    /// The most that were there at once since the pod left.
    pub most: u32,
    /// Closed kindly so far.
    pub closed: u32,
    /// Reset so far.
    pub destroyed: u32,
    /// Connections that were opened after the pod had left, the kubelet's probes included.
    pub newcomers: u32,
    /// More have been opened since all were listed, so there may be others.
    pub unlisted: bool,
    /// What became of them when the pod became not Ready, where that was looked at.
    pub losses: Option<Losses>,
    /// The new processes listen.
    pub listening: Option<Listening>,
}

/// Connections that were lost right after the pod had become not Ready, by nothing that the agent did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Those that were open when it became not Ready.
    pub open: u32,
    /// Those of them that were reset by somebody else.
    pub reset: u32,
    /// Those on which the pod sends and nobody acknowledges it any more, the most at once.
    pub unanswered: u32,
}

impl Count {
    /// Nobody is left and nobody comes.
    #[must_use]
    pub const fn drained(self) -> bool {
        self.quiet && self.is_empty()
    }

    /// How many are waited for.
    #[must_use]
    pub const fn waited(self) -> u32 {
        self.inbound.saturating_add(self.perhaps_probes)
    }

    /// Nobody is left.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.waited() == 0 && !self.unlisted
    }
}

/// When a process was replaced, by this node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The first of the old containers' processes had ended; unknown if nobody saw it.
    pub killed: Option<Timestamp>,
    /// Each port that was listened on had a new listener.
    pub at: Timestamp,
}

/// A Hold, as the thread that carries it out tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which operation it is for.
    pub direction: Direction,
    /// How far it is.
    pub stage: Stage,
    /// What happened so far.
    pub numbers: HoldNumbers,
    /// The new processes listen.
    pub listening: Option<Listening>,
}

/// How far a Hold is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Everything is open; nothing is held yet. So many ports can be.
    Prepared(usize),
    /// New connections are held, and so many connections have a request in flight.
    Settling(u32),
    /// New connections are held, and what was in flight has been answered but for so many connections: time to operate.
    Settled(u32),
    /// New connections are let in again.
    Released,
    /// It can't be done, for this reason; nothing is held.
    Failed(String),
}

/// What happened in a Hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldNumbers {
    /// Inbound connections when it began.
    pub connections: u32,
    /// Those that were closed kindly.
    pub closed: u32,
    /// Those that were reset.
    pub destroyed: u32,
    /// Those that were still there when the containers could be operated.
    pub left: u32,
    /// New clients that had to wait.
    pub waited: u32,
    /// Those of them who were let in by replay, rather than by their own repetition.
    pub replayed: u32,
    /// How long the first of them waited, in milliseconds: nobody waited longer.
    pub longest_milliseconds: u32,
    /// It had to end before the new processes listened.
    pub expired: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pre_stop(hooks: &[Value]) -> Option<PreStop> {
        let names: Vec<String> = (0..hooks.len()).map(|number| format!("c{number}")).collect();
        let containers = names.iter().zip(hooks).map(|(name, hook)| json!({"name": name, "lifecycle": hook}));
        let pod = json!({"metadata": {}, "spec": {"containers": containers.collect::<Vec<_>>()}});
        let pod = NodePod::from(&serde_json::from_value::<Pod>(pod).unwrap());
        PreStop::of_all(&pod.pre_stop, &names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn how_long_a_process_serves_on_is_told_by_a_sleep_and_by_nothing_else() {
        let sleeps = |seconds| Some(PreStop::Sleeps(Duration::from_secs(seconds)));
        let exec = |command: Value| json!({"preStop": {"exec": {"command": command}}});
        for (hook, expected) in [
            (json!({}), None),
            (json!({"postStart": {"sleep": {"seconds": 9}}}), None),
            (json!({"preStop": {"sleep": {"seconds": 10}}}), sleeps(10)),
            (exec(json!(["sleep", "15"])), sleeps(15)),
            (exec(json!(["/bin/sh", "-c", "sleep 15"])), sleeps(15)),
            (exec(json!(["sh", "-c", "/bin/sleep 5s"])), sleeps(5)),
            (exec(json!(["/bin/sh", "-c", "sleep 5 && nginx -s quit"])), Some(PreStop::Runs)),
            (exec(json!(["/bin/sh", "-c", "sleep $DELAY"])), Some(PreStop::Runs)),
            (json!({"preStop": {"httpGet": {"port": 80}}}), Some(PreStop::Runs)),
        ] {
            assert_eq!(pre_stop(std::slice::from_ref(&hook)), expected, "{hook}");
        }
    }

    #[test]
    fn of_several_containers_nobody_knows_which_one_is_told_when() {
        let sleeps = || json!({"preStop": {"sleep": {"seconds": 10}}});
        assert_eq!(pre_stop(&[sleeps(), sleeps()]), Some(PreStop::Runs));
        assert_eq!(pre_stop(&[sleeps(), json!({})]), None, "the other one may be the server, and end at once");
    }
}
