//! Says to people what a pod waits for, and what would unblock it.

use std::borrow::Cow;

use hitless_api::names::{self, system_namespace};
use hitless_api::{Hook, InvalidDrain, NodeTransitionSpec, PodRef, TransitionResult};
use jiff::Timestamp;

use crate::round::facts::lost;
use crate::round::wait_reason::{Behind, NotFetched, WaitReason};

impl Behind {
    fn text(&self) -> String {
        match self {
            Self::NodeLost(node) => format!("and the node {node} of that pod does not answer"),
            Self::NotRunning(words) => format!("has the version already, and does not run: {words}"),
            Self::NotReady(since) => {
                format!("has the version already, and is not Ready; the time that a start may take was over at {since}")
            }
        }
    }

    fn unblock(&self, pod: &PodRef) -> String {
        match self {
            Self::NodeLost(node) => lost::advice(node),
            Self::NotRunning(_) | Self::NotReady(_) => {
                let PodRef { namespace, name, .. } = pod;
                format!(
                    "it goes on once that pod is Ready; kubectl describe pod -n {namespace} {name} says more, or set another image"
                )
            }
        }
    }
}

fn halted(pod: &str, reason: &str, way_back: bool) -> String {
    if way_back {
        return format!(
            "the partition keeps pod {pod} at the version before, and its operation back to that ended as {reason}"
        );
    }
    format!("the operation of pod {pod} ended as {reason}")
}

impl WaitReason {
    /// What it waits for and what to do, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let text = self.what();
        self.unblock().map_or_else(|| text.clone(), |unblock| format!("{text}; {unblock}"))
    }

    /// What it waits for, for people.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::InProgress => "it is being operated".to_owned(),
            Self::ReleasePending => "the ledger still has its reservation for another operation".to_owned(),
            Self::PodNotCached => {
                "a pod is being operated that is not known yet, so budgets can't be counted".to_owned()
            }
            Self::Rules => "rules say no".to_owned(),
            Self::Obstacle(obstacle) => obstacle.to_string(),
            Self::Drain(error) => error.to_string(),
            Self::NoReadinessGate(because) => {
                format!("the pod was made without the readiness gate hitless.dev/InService, {because}")
            }
            Self::HooksUnsupported { node, feature } => {
                format!("it has hooks, and the agent on its node {node} does not have the feature {feature}")
            }
            Self::ServicePublishing(services) => {
                format!("its Service {services} is being opened, so that it keeps its only endpoint while it is held")
            }
            Self::ServiceOpen(service) => format!("its Service {service} is open for another pod that is held"),
            Self::ServiceBusy { service, pod } => {
                format!("Service {service} has no other endpoint and can't be opened before pod {pod} is back or gone")
            }
            Self::SiblingAway(pod) => format!("no other pod serves before pod {pod}, which is being operated, is back"),
            Self::TooLarge(large) => large.to_string(),
            Self::HostNetwork => "it uses its node's network (hostNetwork); such pods are not operated".to_owned(),
            Self::StaticPod => "it is a static pod of its kubelet; such pods are not operated".to_owned(),
            Self::Job => "it belongs to a Job; such pods are not operated".to_owned(),
            Self::Terminating => "the pod is being deleted".to_owned(),
            Self::NotScheduled => "the pod has no node yet".to_owned(),
            Self::NodeGone(node) => format!("its node {node} is gone or was created again"),
            Self::Behind { pod, why } => format!("pod {} comes before it, {}", pod.name, why.text()),
            Self::AgentNotReady { node, why } if why.is_empty() => {
                format!("no Ready hitless-agent is on its node {node}")
            }
            Self::AgentNotReady { node, why } => format!("no Ready hitless-agent is on its node {node}: {why}"),
            Self::NoAgentPossible(node) => {
                format!(
                    "no agent is ever on its node {node}: the DaemonSet hitless-agent has no pod there by its own affinity"
                )
            }
            Self::NodeFull(node) => {
                format!("node {node} has as many grants as fit ({})", NodeTransitionSpec::MAX_GRANTS)
            }
            Self::ImagePulling { image, node } => format!("image {image} is being fetched to node {node}"),
            Self::ImageNotFetched { image, node, why } => match why {
                NotFetched::Failed { reason, message, attempt: _ } => {
                    format!("image {image} can't be fetched to node {node}: {reason}: {message}")
                }
                NotFetched::Refused(words) => {
                    format!("the pod that would fetch image {image} to node {node} is not accepted: {words}")
                }
                NotFetched::NoSandbox(pod) => {
                    format!(
                        "image {image} is not on node {node}, whose kubelet has made no sandbox for pod {pod} yet, which fetches it"
                    )
                }
                NotFetched::Pressure(condition) => {
                    format!("image {image} is not on node {node}, and nothing is fetched to a node with {condition}")
                }
            },
            Self::Learning(pod) => {
                format!("how long its workload is away is not known yet; pod {pod} goes first, for at most 30 s alone")
            }
            Self::Companion { pod, stage } => stage.text(pod),
            Self::Pool { name, why } => why.text(name),
            Self::MadeAnew => {
                "as many pods of its workload as may be are being made anew, or are not Ready at their new version yet"
                    .to_owned()
            }
            Self::PrefetchOnly => {
                "its images are on its node, and the workload has the annotation hitless.dev/prefetch: only".to_owned()
            }
            Self::Paused { pause, .. } => pause.to_string(),
            Self::Dependency(pod) => format!(
                "pods of the version before have become not Ready, too, while pod {pod} is being operated: what all of them need is away"
            ),
            Self::Reload => {
                "a ConfigMap or Secret that it uses has changed a moment ago; both changes are made at once".to_owned()
            }
            Self::NamespaceUnread(unread) => unread.clause(),
            Self::OwnerUnreadable(kind) => format!("its workload is a {kind}, and the controller can't list those now"),
            Self::LeftToForeignManager(manager) => format!("{manager}, and its workload is left to it"),
            Self::LedgerFull => "the namespace's ledger has as many reservations as fit".to_owned(),
            Self::AgentTooOld { node, cannot } => {
                format!("the agent on its node {node} is of an earlier version, which can't {cannot}")
            }
            Self::NotDrained(reason) => {
                format!("it could not be taken out of service for others to operate it: {reason}")
            }
            Self::ApplicationRefused(message) if message.is_empty() => {
                "the application of this pod says never".to_owned()
            }
            Self::ApplicationRefused(words) | Self::PullSecretsChanged(words) => words.clone(),
            Self::Natively(why) => format!("{why}; the native controller rolls it"),
            Self::LossExpected(why) => format!("{why}; natively another pod would serve first"),
            Self::Halted { pod, reason, way_back, again } => {
                halted(pod, reason, *way_back) + &Self::tried_again(*again)
            }
        }
    }

    /// When an operation that has failed is tried again by itself, as the end of a sentence; nothing where it is not.
    pub(crate) fn tried_again(at: Option<Timestamp>) -> String {
        at.map_or_else(String::new, |at| at.strftime("; it is tried again at %Y-%m-%dT%H:%M:%SZ").to_string())
    }

    /// The smallest change that would unblock, for people.
    #[must_use]
    pub fn unblock(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Paused { pause, workload } => Some(pause.unblock(workload).into()),
            Self::Behind { pod, why } => Some(why.unblock(pod).into()),
            Self::AgentNotReady { node, .. } => Some(
                format!(
                    "an administrator finds out why with kubectl -n {} describe pods -l {}={} --field-selector \
                     spec.nodeName={node}",
                    system_namespace(),
                    names::APP_LABEL,
                    names::AGENT
                )
                .into(),
            ),
            Self::Halted { pod, reason, .. } if reason.ends_with(TransitionResult::ROLLBACK_NOT_READY) => Some(
                format!(
                    "it does not start again with the version before either; a new pod may: kubectl delete pod {pod}"
                )
                .into(),
            ),
            other => other.advice().map(Cow::Borrowed),
        }
    }

    /// What has no names in it.
    fn advice(&self) -> Option<&'static str> {
        match self {
            Self::InProgress
            | Self::ReleasePending
            | Self::PodNotCached
            | Self::Rules
            | Self::Obstacle(_)
            | Self::ServicePublishing(_)
            | Self::ServiceBusy { .. }
            | Self::SiblingAway(_)
            | Self::TooLarge(_)
            | Self::HostNetwork
            | Self::StaticPod
            | Self::Job
            | Self::Terminating
            | Self::Learning(_)
            | Self::ImagePulling { .. }
            | Self::MadeAnew
            | Self::Dependency(_)
            | Self::Reload
            | Self::Natively(_)
            // The workload and the node have names.
            | Self::Paused { .. }
            | Self::Behind { .. }
            | Self::AgentNotReady { .. } => None,
            Self::PullSecretsChanged(_) => {
                Some("make new pods, which have today's: kubectl hitless restart --new-pods, or delete this one")
            }
            Self::ImageNotFetched { why: NotFetched::Failed { .. } | NotFetched::Refused(_), .. } => {
                Some("its pods stay as they are, and it is tried again by itself; correct the cause or the image")
            }
            Self::ImageNotFetched { why: NotFetched::NoSandbox(_), .. } => Some(
                "its pods stay as they are, and it goes on by itself; the Events of that pod say what its node waits for, often the network plugin",
            ),
            Self::ImageNotFetched { why: NotFetched::Pressure(_), .. } => Some("make room on the node"),
            Self::Companion { stage, .. } => stage.unblock(),
            Self::Pool { why, .. } => why.unblock(),
            Self::PrefetchOnly => Some("remove the annotation to go on"),
            Self::Drain(InvalidDrain::Policy { .. }) => Some("correct the DrainPolicy"),
            Self::Drain(
                InvalidDrain::Unreadable { .. }
                | InvalidDrain::Mode { .. }
                | InvalidDrain::Hooks { .. }
                | InvalidDrain::NoContainer { .. },
            ) => Some("correct it in the pod's template and on the pod"),
            Self::NoReadinessGate(_) => {
                Some("label its template or namespace hitless.dev/gate=enabled, and delete the pod once")
            }
            Self::HooksUnsupported { feature, .. } if *feature == Hook::EXEC_FEATURE => {
                Some("use http instead of exec, or let agents run commands (docs/hooks.md)")
            }
            Self::HooksUnsupported { .. } => Some("update the DaemonSet hitless-agent (docs/hooks.md)"),
            Self::ServiceOpen(_) => Some("wait until that operation ends"),
            Self::NotScheduled => Some("its Events say why"),
            Self::NodeGone(_) => Some("the pod goes with it; delete it if it does not"),
            Self::NoAgentPossible(_) => Some("delete the pod, so that it is made anew"),
            Self::NodeFull(_) => Some("wait until some of its operations end"),
            Self::NamespaceUnread(unread) => Some(unread.advice()),
            Self::OwnerUnreadable(_) => Some("see the controller's log for what the API server says"),
            Self::LeftToForeignManager(_) => Some("remove it to go on with hitless (docs/migration.md)"),
            Self::LedgerFull => Some("wait until some operations end"),
            Self::AgentTooOld { .. } => Some("update the DaemonSet hitless-agent"),
            Self::NotDrained(_) => Some(
                "it serves as before; the operator has to take its operation back (label undo-operation-type) and to begin anew; a pod that was to leave for its deletion can be deleted by hand",
            ),
            Self::ApplicationRefused(_) => Some(
                "it serves as it is, and other pods go on; to overrule what it has said by itself: kubectl annotate pod POD hitless.dev/task-; a hook's answer counts until the target changes",
            ),
            Self::LossExpected(_) => Some(
                "to go on all the same wish a mode: kubectl annotate pod POD hitless.dev/mode=Hold, or a DrainPolicy; a companion pod or a second replica spares its clients, and hitless.dev/update: in-place lets it go natively",
            ),
            // Nothing is known of the version.
            Self::Halted { again: Some(_), .. } => Some("look at the kubelet of the pod's node, or wait; other pods go on"),
            Self::Halted { way_back: false, .. } => Some("set another image, or the old one again"),
            // The template has nothing to do with it.
            Self::Halted { way_back: true, .. } => Some(Self::WAY_BACK),
        }
    }
}
