//! What besides rules keeps a pod from being operated.

use std::fmt;

use hitless_api::pod::PodView;
use hitless_api::{Hook, InvalidDrain, NodeTransitionSpec, TransitionResult};
use hitless_rollout::mode::{AgentSays, Hindrance, Policies, Prospect, Subject, Traffic};
use serde::Serialize;

use super::Wish;

/// Something that is in the way and no rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InTheWay {
    /// In CamelCase, for machines.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) text: String,
    /// The smallest change that would unblock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unblock: Option<String>,
}

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.text)?;
        self.unblock.as_ref().map_or(Ok(()), |unblock| write!(f, "; {unblock}"))
    }
}

fn found(reason: &'static str, text: impl Into<String>, unblock: Option<&str>) -> InTheWay {
    InTheWay { reason, text: text.into(), unblock: unblock.map(ToOwned::to_owned) }
}

/// What in the pod itself keeps it from being operated.
pub(crate) fn unfit(pod: &PodView) -> Option<InTheWay> {
    never(pod).or_else(|| {
        // With nothing else known: what it says of its own drain.
        let subject = Subject { pod, workload: None, post_check: false, agent: AgentSays::default() };
        let hindrance = Prospect::of(subject, &Policies::default(), &Traffic::new(&[], &[])).err()?;
        Some(of_hindrance(&hindrance, pod))
    })
}

/// The same, whatever it says.
pub(super) fn never(pod: &PodView) -> Option<InTheWay> {
    let never = |text: &str| Some(found("NotSupported", text, None));
    if pod.is_mirror() {
        never("it is a static pod of its kubelet; such pods are not operated")
    } else if pod.host_network {
        never("it uses its node's network (hostNetwork); such pods are not operated")
    } else if pod.owner.as_ref().is_some_and(|owner| owner.kind == "Job") {
        never("it belongs to a Job; such pods are not operated")
    } else if pod.terminating || pod.finished {
        Some(found("Terminating", "the pod is being deleted", None))
    } else if pod.node.is_none() {
        let hint = "see why with: kubectl describe pod";
        Some(found("NotScheduled", "the pod has no node yet", Some(hint)))
    } else {
        None
    }
}

pub(super) fn of_wish(wish: Option<&Wish>) -> Option<InTheWay> {
    wish?.obstacle.as_ref().map(of_obstacle)
}

pub(crate) fn of_obstacle(obstacle: &hitless_workloads::Obstacle) -> InTheWay {
    found(obstacle.reason(), obstacle.to_string(), None)
}

/// What the controller would say of it.
pub(super) fn of_hindrance(hindrance: &Hindrance, pod: &PodView) -> InTheWay {
    match hindrance {
        Hindrance::Drain(invalid) => {
            let unblock = match invalid {
                InvalidDrain::Unreadable { .. } | InvalidDrain::Mode { .. } | InvalidDrain::Hooks { .. } => {
                    "correct it in the pod's template and on the pod"
                }
                InvalidDrain::Policy { .. } => "correct the DrainPolicy",
            };
            found("InvalidDrain", invalid.to_string(), Some(unblock))
        }
        Hindrance::HooksUnsupported(feature) => no_hooks(pod.node.as_deref().unwrap_or_default(), feature),
        // Without the gate a pod can only be held, and something says that it has to leave.
        Hindrance::NoReadinessGate(because) => {
            let text = format!("the pod was made without the readiness gate hitless.dev/InService, {because}");
            let hint = "label its template or namespace hitless.dev/gate=enabled, and delete the pod once";
            found("NoReadinessGate", text, Some(hint))
        }
    }
}

/// The agent on its node leaves out what it does not know.
fn no_hooks(node: &str, feature: &str) -> InTheWay {
    let text = format!("it has hooks, and the agent on its node {node} does not have the feature {feature}");
    let hint = if feature == Hook::EXEC_FEATURE {
        "use http instead of exec, or let agents run commands (docs/hooks.md)"
    } else {
        "update the DaemonSet hitless-agent"
    };
    found("HooksUnsupported", text, Some(hint))
}

pub(super) fn node_gone(node: &str) -> InTheWay {
    found("NodeGone", format!("its node {node} is gone"), Some("the pod goes with it; delete it if it does not"))
}

pub(super) fn no_agent(node: &str) -> InTheWay {
    let hint =
        "look at the DaemonSet: kubectl -n hitless-system get pods -o wide -l app.kubernetes.io/name=hitless-agent";
    found("AgentNotReady", format!("no Ready hitless-agent is on its node {node}"), Some(hint))
}

pub(super) fn node_full(node: &str) -> InTheWay {
    let text = format!("node {node} has as many grants as fit ({})", NodeTransitionSpec::MAX_GRANTS);
    found("NodeFull", text, Some("wait until some of its operations end"))
}

/// `count` operations of the workload have failed, that of `pod` among them.
pub(super) fn halted(pod: &str, result: &TransitionResult, count: usize) -> InTheWay {
    let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    let text = format!("the operation of pod {pod} ended as {:?}/{}{more}", result.outcome, result.reason);
    found("Halted", text, Some("set another image, or the old one again"))
}
