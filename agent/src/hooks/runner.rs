//! The calls, one task each.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hitless_api::{ExecHook, Grant, Hook, HookCall, PodRef};
use hitless_kernel::exec::Node;
use jiff::Timestamp;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::answer::{Answer, Verdict};
use super::called::Ask;
use super::{exec, http};
use crate::decision::Decision;
use crate::lock::lock;
use crate::memory::Memory;
use crate::view::NodePod;

/// Calls that are under way at a time; others wait their turn.
const CONCURRENT: usize = 16;

/// A call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSpec {
    /// Which one.
    pub call: CallKey,
    /// The hook.
    pub hook: Hook,
    /// The pod's address, if it has one.
    pub address: Option<IpAddr>,
    /// The pod.
    pub pod: PodRef,
    /// containerID of the container of an [`ExecHook`], if it has one.
    pub container_id: Option<String>,
}

/// Tells a call from all others of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallKey {
    /// Id of the grant.
    pub grant: String,
    /// `granted` of the grant: its id may come again.
    pub granted: Timestamp,
    /// Name of the hook.
    pub hook: String,
    /// Which of its calls, from 1.
    pub attempt: u32,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Which one.
    pub call: CallKey,
    /// How it ended.
    pub answer: Answer,
}

/// Makes calls. Dropping it gives those up that are under way.
#[derive(Debug)]
pub struct Runner {
    running: Mutex<Running>,
    replies: Arc<Mutex<Vec<Reply>>>,
    turns: Arc<Semaphore>,
    wake: Arc<Notify>,
    node: Node,
}

#[derive(Debug, Default)]
struct Running {
    tasks: JoinSet<()>,
    /// By id of the grant.
    calls: BTreeMap<String, (CallKey, AbortHandle)>,
}

impl CallSpec {
    /// The call that a decision asks for; `None` if the grant has no such hook.
    #[must_use]
    pub fn new(grant: &Grant, ask: &Ask, pod: &NodePod) -> Option<Self> {
        let hook = grant.hooks.iter().find(|hook| hook.name == ask.name)?.clone();
        let container_id = |exec: &ExecHook| {
            let id = &pod.view.container(&exec.container)?.status.as_ref()?.container_id;
            (!id.is_empty()).then(|| id.clone())
        };
        let call =
            CallKey { grant: grant.id.clone(), granted: grant.granted.0, hook: ask.name.clone(), attempt: ask.attempt };
        Some(Self {
            call,
            address: pod.view.ip.as_ref().and_then(|ip| ip.parse().ok()),
            pod: grant.pod.clone(),
            container_id: hook.exec.as_ref().and_then(container_id),
            hook,
        })
    }
}

/// The calls that decisions ask for.
#[must_use]
pub fn calls(steps: &[(&Grant, Decision)], pods: &BTreeMap<String, Arc<NodePod>>) -> Vec<CallSpec> {
    let spec = |(grant, decision): &(&Grant, Decision)| {
        CallSpec::new(grant, decision.hook.as_ref()?, pods.get(&grant.pod.uid)?)
    };
    steps.iter().filter_map(spec).collect()
}

impl Runner {
    /// Nothing is called yet. `wake` is notified of replies; `node` is where commands are run.
    #[must_use]
    pub fn new(wake: Arc<Notify>, node: Node) -> Self {
        let (running, replies, turns) = (Mutex::default(), Arc::default(), Arc::new(Semaphore::new(CONCURRENT)));
        Self { running, replies, turns, wake, node }
    }

    /// These calls are under way from now on, and no others: what is not asked for any more is given up, and nothing that is
    /// under way is begun again.
    pub fn set_calls(&self, wanted: Vec<CallSpec>) {
        let mut running = lock(&self.running);
        let Running { tasks, calls } = &mut *running;
        while tasks.try_join_next().is_some() {}
        calls.retain(|_, (call, task)| {
            let is_wanted = wanted.iter().any(|spec| spec.call == *call);
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
        for spec in wanted {
            if !calls.contains_key(&spec.call.grant) {
                let (call, grant) = (spec.call.clone(), spec.call.grant.clone());
                let work = self.work(spec);
                calls.insert(grant, (call, tasks.spawn(work)));
            }
        }
    }

    /// What has come since this was asked last.
    #[must_use]
    pub fn replies(&self) -> Vec<Reply> {
        std::mem::take(&mut lock(&self.replies))
    }

    /// Notes what has come in the memories of the grants, by id.
    pub fn tell(&self, memories: &mut BTreeMap<String, Memory>, now: Timestamp) {
        for Reply { call, answer } in self.replies() {
            let memory = memories.get_mut(&call.grant).filter(|memory| memory.granted == Some(call.granted));
            if let Some(memory) = memory {
                memory.hook_answered(&call.hook, call.attempt, answer, now);
            }
        }
    }

    fn work(&self, spec: CallSpec) -> impl Future<Output = ()> + use<> {
        let (replies, turns, wake) = (self.replies.clone(), self.turns.clone(), self.wake.clone());
        let node = self.node.clone();
        async move {
            let Ok(_turn) = turns.acquire().await else { return };
            let begun = Instant::now();
            let (verdict, output) = call(&spec, node).await;
            let milliseconds = u32::try_from(begun.elapsed().as_millis()).unwrap_or(u32::MAX);
            tracing::info!(
                namespace = spec.pod.namespace,
                pod = spec.pod.name,
                hook = spec.hook.name,
                attempt = spec.call.attempt,
                ?verdict,
                milliseconds,
                output,
                "hook"
            );
            lock(&replies).push(Reply { call: spec.call, answer: Answer { verdict, milliseconds, output } });
            wake.notify_one();
        }
    }
}

async fn call(spec: &CallSpec, node: Node) -> (Verdict, String) {
    let key = Hook::key(&spec.call.grant, &spec.call.hook);
    let limit = Duration::from_secs(spec.hook.timeout_seconds.into());
    match (spec.hook.call(), spec.address) {
        (Some(HookCall::Http(http)), Some(address)) => {
            timeout(limit, http::call(http, address, &key)).await.unwrap_or_else(|_| {
                (Verdict::Failed, format!("no answer within {} s (timeoutSeconds)", spec.hook.timeout_seconds))
            })
        }
        (Some(HookCall::Http(_)), None) => (Verdict::Failed, "the pod has no address".to_owned()),
        (Some(HookCall::Exec(hook)), _) => match &spec.container_id {
            Some(container) => {
                // Nobody else writes down what runs there: it is no request to the API server.
                tracing::info!(
                    namespace = spec.pod.namespace,
                    pod = spec.pod.name,
                    container = hook.container,
                    hook = spec.hook.name,
                    operation = key,
                    program = hook.command.first(),
                    "runs a command in a container"
                );
                exec::call(hook, &spec.pod.uid, container, key, limit, node).await
            }
            None => (Verdict::Failed, format!("container {} does not run", hook.container)),
        },
        (None, _) => (Verdict::Failed, "the hook has neither http nor exec".to_owned()),
    }
}

#[cfg(test)]
mod tests;
