//! Finds what is in the way of any operation of a pod: in the pod itself, its Node, or the agent there.

use hitless_api::names;
use hitless_api::pod::PodView;

use crate::mode::{AgentStatus, OperationSettings, PodContext, Policies, Traffic, WorkloadFacts};
use crate::round::wait_reason::WaitReason;
use crate::snapshot::{AgentState, Snapshot, is_agent};

/// What is in the way of any operation of the pod, whatever the rules say, the first reason first.
pub(crate) fn in_the_way<'s>(pod: &'s PodView, snapshot: &'s Snapshot) -> impl Iterator<Item = WaitReason> + 's {
    let checks: [fn(&PodView, &Snapshot) -> Option<WaitReason>; 3] = [|pod, _| of_pod(pod), node_gone, no_agent];
    checks.into_iter().filter_map(|check| check(pod, snapshot))
}

/// What in the pod itself is in the way.
pub(crate) fn of_pod(pod: &PodView) -> Option<WaitReason> {
    if pod.is_mirror() {
        Some(WaitReason::StaticPod)
    } else if let Some(large) = pod.too_large() {
        Some(WaitReason::TooLarge(large))
    } else if pod.host_network {
        Some(WaitReason::HostNetwork)
    } else if pod.owner.as_ref().is_some_and(|owner| owner.group_kind.is("batch", "Job")) {
        Some(WaitReason::Job)
    } else if pod.terminating || pod.finished {
        Some(WaitReason::Terminating)
    } else if pod.node.is_none() {
        Some(WaitReason::NotScheduled)
    } else {
        None
    }
}

fn node_gone(pod: &PodView, snapshot: &Snapshot) -> Option<WaitReason> {
    let node = pod.node.as_ref().filter(|_| !snapshot.unknown.nodes)?;
    let known = snapshot.nodes.get(node).filter(|known| !known.deleting);
    let created_again =
        |uid: &str| snapshot.node_transitions.get(node).is_some_and(|transition| transition.spec.node_uid != uid);
    known.is_none_or(|known| created_again(&known.uid)).then(|| WaitReason::NodeGone(node.clone()))
}

/// That no Ready agent is on the pod's node, with what is known of the one there.
#[must_use]
pub fn no_agent(pod: &PodView, snapshot: &Snapshot) -> Option<WaitReason> {
    let node = pod.node.as_ref().filter(|_| !snapshot.unknown.agents)?;
    match snapshot.agents.get(node) {
        Some(AgentState::Ready) => None,
        Some(AgentState::Never) => Some(WaitReason::NoAgentPossible(node.clone())),
        Some(AgentState::MissingSince(_)) | None => {
            Some(WaitReason::AgentNotReady { node: node.clone(), why: about_agent(snapshot, node) })
        }
    }
}

/// What the agent's own pod says. Its owner is an administrator; who waits for it often may not even see that pod.
fn about_agent(snapshot: &Snapshot, node: &str) -> String {
    if let Some(since) = snapshot.nodes.get(node).and_then(|known| known.not_ready_since) {
        return format!("the node itself is not Ready, {}", since.strftime("since %Y-%m-%dT%H:%M:%SZ"));
    }
    let agents = snapshot.pods.iter().filter(|pod| is_agent(pod) && !pod.finished && pod.node.as_deref() == Some(node));
    // During an update of the DaemonSet the next one.
    let Some(agent) = agents.min_by_key(|pod| pod.terminating) else {
        return if snapshot.unknown.lists(names::system_namespace()) {
            format!("the DaemonSet {} has no pod there", names::AGENT)
        } else {
            format!("its pod is in namespace {}, which was not read", names::system_namespace())
        };
    };
    let ready = agent.conditions.get("Ready").filter(|ready| !ready.is_true);
    let since =
        ready.and_then(|ready| ready.since).map(|since| since.strftime(", since %Y-%m-%dT%H:%M:%SZ").to_string());
    let state = if agent.terminating { "is being deleted" } else { "is not Ready" };
    let statuses = agent.containers.iter().filter_map(|container| container.status.as_ref());
    let words: Vec<String> = statuses
        .flat_map(|status| [status.waiting.clone(), status.trouble.as_deref().map(str::to_owned)])
        .flatten()
        .collect();
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(": ")) };
    format!("its pod {} {state}{}{words}", agent.id.name, since.unwrap_or_default())
}

/// Why the pod can't be operated, as far as the pod itself tells: nothing else is known of the cluster.
#[must_use]
pub fn unfit(pod: &PodView) -> Option<WaitReason> {
    of_pod(pod).or_else(|| {
        let context = PodContext {
            pod,
            workload: WorkloadFacts::default(),
            post_check: false,
            agent: AgentStatus::default(),
            operation: None,
            delay_seconds: 0,
            is_unfetched: false,
        };
        let why = OperationSettings::of(context, &Policies::default(), &Traffic::new(&[], &[])).err()?;
        Some(WaitReason::not_operable(why, pod.node.as_deref().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeMap;
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use crate::snapshot::{NodeView, Unknown};

    fn view(pod: Value) -> PodView {
        PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    pub(crate) fn of(agents: &[Value]) -> Snapshot {
        Snapshot {
            pods: agents.iter().cloned().map(view).map(Arc::new).collect(),
            agents: BTreeMap::from([("n1".to_owned(), AgentState::MissingSince(Timestamp::UNIX_EPOCH))]),
            ..Snapshot::default()
        }
    }

    fn said_of(snapshot: &Snapshot) -> String {
        let pod = view(
            json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"nodeName": "n1", "containers": []}}),
        );
        no_agent(&pod, snapshot).unwrap().text()
    }

    fn text(agents: &[Value]) -> String {
        said_of(&of(agents))
    }

    /// Who waits may be a tenant who can't see the agent's pod, so the words say what that pod says.
    #[test]
    fn why_no_agent_is_ready_is_told_with_its_pod_since_when_and_what_to_look_at() {
        let agent = |node: &str, status: Value| {
            json!({"metadata": {"namespace": "hitless-system", "name": format!("hitless-agent-{node}"),
                "labels": {"app.kubernetes.io/name": "hitless-agent"}},
                "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "a"}]}, "status": status})
        };
        let killed = json!({
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "containerStatuses": [{"name": "agent", "image": "a", "imageID": "", "ready": false, "restartCount": 4,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]});
        let said = text(&[agent("n2", killed.clone()), agent("n1", killed)]);
        assert_eq!(
            said,
            "no Ready hitless-agent is on its node n1: its pod hitless-agent-n1 is not Ready, since 2026-01-02T03:04:05Z \
             (CrashLoopBackOff: OOMKilled with exit code 137); an administrator finds out why with kubectl -n hitless-system describe pods \
             -l app.kubernetes.io/name=hitless-agent --field-selector spec.nodeName=n1"
        );
        let (outside, since) = (Some("shop".to_owned()), "2026-01-02T03:04:05Z".parse().unwrap());
        let unread = Snapshot { unknown: Unknown { outside, ..Unknown::default() }, ..of(&[]) };
        assert!(said_of(&unread).contains("its pod is in namespace hitless-system, which was not read"));
        let lost = NodeView { not_ready_since: Some(since), ..NodeView::default() };
        let lost = Snapshot { nodes: BTreeMap::from([("n1".to_owned(), Arc::new(lost))]), ..of(&[]) };
        assert!(said_of(&lost).contains("the node itself is not Ready, since 2026-01-02T03:04:05Z"));
        let none = text(&[]);
        assert!(none.contains("the DaemonSet hitless-agent has no pod there"), "{none}");
    }
}
