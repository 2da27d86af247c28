//! How operations end.

use super::Reason;
use crate::Outcome;

/// In no order that matters.
pub(super) const ALL: &[(Outcome, Reason)] = &[
    (Outcome::Done, Reason::new("Done", "the pod has the version and serves", "nothing")),
    (
        Outcome::Done,
        Reason::new(
            "ReadyPending",
            "the pod was put back into service, and is not Ready because of something outside of the version",
            "see its readiness probe",
        ),
    ),
    (
        Outcome::Done,
        Reason::new(
            "NotServing",
            "the pod is Ready and in service, and what is waited for outside has not come in its time",
            "see the load balancer",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "CrashLoopBackOff",
            "the new container crashed",
            "kubectl logs --previous; then undo, or another image",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "ContainerCannotRun",
            "the container runtime could not run the new container",
            "kubectl describe pod; then undo, or another image",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "CreateContainerConfigError",
            "a ConfigMap or Secret that the new container needs is not there",
            "create it, then kubectl hitless retry",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "CreateContainerError",
            "the container runtime could not create the new container",
            "kubectl describe pod; then undo, or another image",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "RunContainerError",
            "the new container could not be started",
            "kubectl describe pod; often the command is not in the image",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "StartError",
            "the new container could not be started",
            "kubectl describe pod; often the command is not in the image",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new("ErrImagePull", "the image could not be pulled", "correct the tag, the secret or the registry"),
    ),
    (
        Outcome::RolledBack,
        Reason::new("ImagePullBackOff", "the image could not be pulled", "correct the tag, the secret or the registry"),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "ErrImageNeverPull",
            "the image is not on the node, and imagePullPolicy is Never",
            "load it, or change the policy",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new("ImageInspectError", "the node's image is broken", "look at the node's container runtime"),
    ),
    (Outcome::RolledBack, Reason::new("InvalidImageName", "the image's name can't be one", "correct it")),
    (
        Outcome::RolledBack,
        Reason::new("RegistryUnavailable", "the registry did not answer", "bring it back, then kubectl hitless retry"),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "ProgressDeadlineExceeded",
            "the new version was not ready in the time that its owner and its probes allow",
            "kubectl logs; a longer progressDeadlineSeconds, or another image",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "PostCheckTimedOut",
            "no rule of stage PostCheck has said that the pod may return",
            "see the approver",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "HookFailed",
            "a hook failed whose policy undoes the operation",
            "see `hooks` in kubectl hitless status -o json",
        ),
    ),
    (
        Outcome::RolledBack,
        Reason::new(
            "TaskRefused",
            "the application said never when it was too late for nothing to be touched",
            "ask its owner",
        ),
    ),
    (
        Outcome::Failed,
        Reason::new(
            "NotReplaced",
            "the kubelet has not ended or replaced the containers in its time: the node's fault",
            "look at the node's kubelet and container runtime",
        ),
    ),
    (
        Outcome::Failed,
        Reason::new(
            "NotLeaving",
            "the kubelet has not lowered the pod's Ready in its time: the node's fault, and nothing was touched",
            "look at the node's kubelet",
        ),
    ),
    (
        Outcome::Failed,
        Reason::new(
            "RollbackNotReady",
            "it was undone, and the version before does not start again either",
            "kubectl logs; delete the pod if nothing else helps",
        ),
    ),
    (
        Outcome::Failed,
        Reason::new(
            "DeadlineAborted",
            "connections were left at the deadline, and the drain is to be given up then",
            "a longer deadlineSeconds, or another onDeadline",
        ),
    ),
    (
        Outcome::Failed,
        Reason::new(
            "InServiceOverridden",
            "somebody else has written the pod's condition hitless.dev/InService",
            "find out who: the audit log",
        ),
    ),
    (
        Outcome::Failed,
        Reason::new(
            "AdmissionDenied",
            "an admission policy or webhook refuses the agent's write",
            "the agent's log has its words",
        ),
    ),
    (
        Outcome::Failed,
        Reason::new("PatchConflict", "the pod was changed again and again by others", "the audit log says by whom"),
    ),
    (
        Outcome::Failed,
        Reason::new(
            "HookFailed",
            "a hook failed whose policy gives the operation up",
            "see `hooks` in kubectl hitless status -o json",
        ),
    ),
    (
        Outcome::Failed,
        Reason::new(
            "ImageChanged",
            "somebody else has changed the pod's image meanwhile",
            "find out who: the audit log",
        ),
    ),
    (
        Outcome::Refused,
        Reason::new("Expired", "the grant was too old when the agent saw it", "nothing: it is granted again"),
    ),
    (
        Outcome::Refused,
        Reason::new("Busy", "the agent is doing something else with the pod", "nothing: it is granted again"),
    ),
    (
        Outcome::Refused,
        Reason::new("NodeUIDMismatch", "the Node was created again meanwhile", "nothing: it is granted again"),
    ),
    (
        Outcome::Refused,
        Reason::new("WrongNode", "the pod is on another node than the grant says", "nothing: it is granted again"),
    ),
    (
        Outcome::Refused,
        Reason::new(
            "PodAvailable",
            "the pod has become available, and the budget was asked for one that is not",
            "nothing: it is granted again",
        ),
    ),
    (
        Outcome::Refused,
        Reason::new(
            "HoldFailed",
            "new connections can't be held on this node",
            "nothing: the pod leaves service instead where another one serves",
        ),
    ),
    (
        Outcome::Refused,
        Reason::new(
            "StillInFlight",
            "requests are in flight that take longer than clients can be held",
            "nothing: the pod leaves service instead where another one serves",
        ),
    ),
    (
        Outcome::Refused,
        Reason::new(
            "ContainerServes",
            "a container serves that was thought to serve nobody",
            "nothing: it is drained then",
        ),
    ),
    (
        Outcome::Refused,
        Reason::new("ContainerChanged", "a container is another one than was granted", "nothing: it is granted again"),
    ),
    (
        Outcome::Refused,
        Reason::new(
            "ConfigNotMounted",
            "the kubelet has not written the changed ConfigMap or Secret into the pod's volumes",
            "nothing: it is granted again; look at the node's kubelet if it stays so",
        ),
    ),
    (Outcome::Refused, Reason::new("TaskRefused", "the application has said never", "ask its owner")),
    (
        Outcome::Refused,
        Reason::new(
            "NoReadinessGate",
            "the pod can't leave service",
            "label the namespace hitless.dev/update=in-place, and delete the pod once",
        ),
    ),
    (
        Outcome::Refused,
        Reason::new(
            "NotSupported",
            "the agent does not know what is asked of it",
            "update the DaemonSet hitless-agent",
        ),
    ),
    (
        Outcome::Refused,
        Reason::new("UnsupportedMode", "the agent can't do it that way", "nothing: another way is chosen"),
    ),
    (
        Outcome::Refused,
        Reason::new("UnsupportedOp", "the agent does not know this operation", "update the DaemonSet hitless-agent"),
    ),
    (
        Outcome::Refused,
        Reason::new(
            "UnsupportedHook",
            "the agent can't carry a hook out",
            "update the DaemonSet hitless-agent (docs/hooks.md)",
        ),
    ),
    (
        Outcome::Refused,
        Reason::new(
            "UnsupportedWait",
            "the agent does not know waits for load balancers",
            "update the DaemonSet hitless-agent",
        ),
    ),
    (Outcome::Refused, Reason::new("TooLarge", "the pod is more than the agent reads of one", "make it smaller")),
];
