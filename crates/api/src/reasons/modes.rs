//! Why a pod leaves service or is held.

use super::Reason;

/// In no order that matters.
pub(super) const ALL: &[Reason] = &[
    Reason::new(
        "Wished",
        "an annotation or a DrainPolicy says which way the pod goes",
        "nothing; take it away to let hitless choose",
    ),
    Reason::new(
        "NoReadinessGate",
        "held: the pod has no readiness gate, so it can't leave service",
        "label the namespace hitless.dev/update=in-place, and delete the pod once",
    ),
    Reason::new("NotServing", "leaves: the pod is not Ready, and has no clients to protect", "nothing"),
    Reason::new(
        "HostPort",
        "held: a port of the node leads to the container, and no other pod serves its clients",
        "nothing",
    ),
    Reason::new(
        "AlwaysPublished",
        "held: a Service sends it connections whether it is Ready or not",
        "nothing; publishNotReadyAddresses of the Service decides",
    ),
    Reason::new(
        "ConnectionsLost",
        "held: connections of such a pod were cut off when it became not Ready",
        "nothing; docs/draining.md says what does that",
    ),
    Reason::new("LongConnections", "leaves: a port has long-lived connections, and another pod serves", "nothing"),
    Reason::new(
        "UnheldPort",
        "leaves: a Service leads to a port of the pod by UDP or SCTP, where nobody can be held",
        "nothing",
    ),
    Reason::new(
        "LoadBalancerKeepsIt",
        "held: a load balancer sends connections to the pod whether it is Ready or not",
        "nothing",
    ),
    Reason::new("Companion", "leaves: its companion pod serves until the new process is ready", "nothing"),
    Reason::new(
        "StillInFlight",
        "leaves: requests take longer than clients can be held, and another pod serves",
        "nothing",
    ),
    Reason::new(
        "ShortGap",
        "held: the workload's last restarts were short enough for new connections to wait",
        "nothing",
    ),
    Reason::new("ServesNobody", "only containers that serve nobody are replaced; nothing is held", "nothing"),
    Reason::new(
        "LongGap",
        "leaves: a restart takes longer than clients can be held, and another pod serves",
        "a faster start, or a higher holdCapMilliseconds, lets it be held",
    ),
    Reason::new(
        "UnknownGap",
        "leaves: how long a restart takes is not known yet, and another pod serves",
        "nothing: it is learned from this one",
    ),
    Reason::new("OnlyPod", "held: no other pod serves, and a Hold spares its clients", "a second replica"),
    Reason::new("PostCheck", "leaves: a rule is asked before the pod returns, so it can't be held", "nothing"),
    Reason::new("HookAfterDrain", "leaves: a hook runs when the pod is drained, so it can't be held", "nothing"),
    Reason::new("OperationDelay", "leaves: a rule delays the operation, so it can't be held", "nothing"),
    Reason::new(
        "AgentCannotHold",
        "leaves: the agent has said that it can't hold this pod",
        "nothing; the agent's log says why",
    ),
    Reason::new("LabelsOnly", "no container is replaced", "nothing"),
];
