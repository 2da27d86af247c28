//! What pods wait for.

use super::Reason;

/// In no order that matters.
pub(super) const ALL: &[Reason] = &[
    Reason::new("InProgress", "the pod is being operated now", "wait; `kubectl hitless status -w` shows how far it is"),
    Reason::new(
        "ReleasePending",
        "its earlier operation has ended, and its place in the budgets is being given back",
        "wait, it takes seconds",
    ),
    Reason::new(
        "PodNotCached",
        "another pod of the namespace is being operated that the controller has not seen yet, so budgets can't be counted",
        "wait, it takes seconds",
    ),
    Reason::new(
        "Rules",
        "rules or budgets that select the pod do not let it go now",
        "do what `kubectl hitless why` says behind each rule; raise the budget, wait for the window, or answer as the approver",
    ),
    Reason::new(
        "DigestUnknown",
        "the container's image was loaded into its node, and no registry has it by a digest; a restart in place needs a second name of the image",
        "use an image from a registry, or restart with new pods: kubectl hitless restart --new-pods",
    ),
    Reason::new(
        "NotStarted",
        "a container of the pod has never run, so which image it gets is not known",
        "wait until it starts; `kubectl describe pod` says why it does not",
    ),
    Reason::new(
        "NotReplaced",
        "the kubelet has not replaced a container of the operation before",
        "wait; if it stays so look at the node's kubelet and container runtime",
    ),
    Reason::new(
        "RestartNotRecorded",
        "the pod's last restart was for an OperationJob or ContainerRecreateRequest whose status does not say so yet",
        "wait, it takes seconds",
    ),
    Reason::new(
        "NotItsTurn",
        "pods of this workload go in order, and another one is first",
        "see why that one waits: kubectl hitless why pod/NAME",
    ),
    Reason::new(
        "NewPodsUnavailable",
        "maxUnavailable allows no more unavailable pods of the new version",
        "see why they are: kubectl describe pod; correct the version, or go back",
    ),
    Reason::new(
        "UnknownRevision",
        "the ControllerRevision that the pod was made from is not there",
        "wait; if it was deleted, delete the pod, so that it is made anew",
    ),
    Reason::new(
        "UnknownContainer",
        "the restart that was asked for names a container that the pod does not have",
        "ask again with the right name",
    ),
    Reason::new(
        "InvalidDrain",
        "the pod's drain, mode or hooks make no sense, by its annotations or a DrainPolicy",
        "correct what the message names; `kubectl hitless lint` finds it in files",
    ),
    Reason::new(
        "NoReadinessGate",
        "the pod was made without the readiness gate hitless.dev/InService, so it can't leave service, and it would have to",
        "label its namespace hitless.dev/update=in-place or hitless.dev/gate=enabled, and delete the pod once",
    ),
    Reason::new(
        "HooksUnsupported",
        "the agent on the pod's node can't carry its hooks out",
        "update the DaemonSet hitless-agent, or use http instead of exec (docs/hooks.md)",
    ),
    Reason::new(
        "ServicePublishing",
        "a Service is being opened, so that it keeps its only endpoint while the pod is held",
        "wait, it takes seconds",
    ),
    Reason::new(
        "ServiceOpen",
        "a Service of the pod is open for another pod that is held",
        "wait until that operation ends",
    ),
    Reason::new(
        "ServiceBusy",
        "a Service has no other endpoint, and another pod of it is being operated or deleted",
        "wait until that pod is back or gone",
    ),
    Reason::new(
        "SiblingAway",
        "no other pod serves before the one that is being operated is back",
        "wait until that operation ends",
    ),
    Reason::new(
        "TooLarge",
        "the pod or its template has more than hitless reads of one object",
        "make it smaller: long environments, many annotations; until then it is updated natively",
    ),
    Reason::new(
        "HostNetwork",
        "the pod uses its node's network, whose connections are not its own",
        "nothing: such pods are updated natively",
    ),
    Reason::new("StaticPod", "the kubelet runs the pod from a file", "nothing: change the file on the node"),
    Reason::new("Job", "the pod belongs to a Job, which ends by itself", "nothing: such pods are not operated"),
    Reason::new("Terminating", "the pod is being deleted", "wait until it is gone"),
    Reason::new("NotScheduled", "the pod has no node yet", "its Events say why: kubectl describe pod"),
    Reason::new(
        "NodeGone",
        "the pod's node is gone, or was created again",
        "the pod goes with it; delete it if it does not",
    ),
    Reason::new(
        "PullSecretsChanged",
        "the pod can't pull the image with the secrets that it was made with, and new pods have others",
        "kubectl hitless restart --new-pods, or delete the pod",
    ),
    Reason::new(
        "NodeLost",
        "a pod that goes before it is on a node that does not answer",
        "bring the node back, or delete the Node object if it is gone for good",
    ),
    Reason::new(
        "PodNotRunning",
        "a pod that goes before it has the version and does not run",
        "kubectl describe pod of that pod; set another image if the version is bad",
    ),
    Reason::new(
        "PodNotReady",
        "a pod that goes before it has the version and has not become Ready in its time",
        "kubectl describe pod of that pod; set another image if the version is bad",
    ),
    Reason::new(
        "AgentNotReady",
        "no agent is Ready on the pod's node",
        "see why: kubectl -n hitless-system describe pods -l app.kubernetes.io/name=hitless-agent",
    ),
    Reason::new(
        "NoAgentPossible",
        "the agents' DaemonSet wants no pod on that node (Fargate, virtual nodes)",
        "let the pod run on another node, or take the opt-in away",
    ),
    Reason::new("NodeFull", "the node has as many operations at a time as fit", "wait until some of them end"),
    Reason::new("ImagePulling", "an image is being fetched to the node; the pod serves meanwhile", "wait"),
    Reason::new(
        "ImageNotFetched",
        "an image can't be fetched to the node: a bad tag, a missing secret, a registry that is away, a pod that is not accepted",
        "correct the image or the cause; it is tried again by itself, and the pods stay as they are",
    ),
    Reason::new(
        "Learning",
        "how long the workload is away in a restart is not known, and one pod goes alone first",
        "wait, at most 30 s",
    ),
    Reason::new("Companion", "a companion pod tries the new version, or serves meanwhile", "wait"),
    Reason::new(
        "CompanionFailed",
        "the companion pod that tries the new version does not become Ready",
        "kubectl logs of the companion pod; set another image, or the old one again",
    ),
    Reason::new(
        "TrafficUnreadable",
        "what a load balancer outside of the cluster has registered can't be read",
        "it goes on by itself when the load balancer answers; the TrafficProvider's status says what it says",
    ),
    Reason::new(
        "TrafficLast",
        "the pod's server is the last one that serves in a pool of a load balancer",
        "add a replica, or wait until another server is healthy",
    ),
    Reason::new(
        "TrafficNotOurs",
        "others have registered the pod's server in a pool, so it can't be taken out",
        "take it out there, and let hitless register it",
    ),
    Reason::new(
        "TrafficPending",
        "another pod has to serve in a pool of a load balancer first",
        "wait until the load balancer finds it healthy",
    ),
    Reason::new(
        "TrafficInvalid",
        "the pod's Service names a pool that can't be had",
        "correct its annotation hitless.dev/traffic",
    ),
    Reason::new(
        "WaitsUnsupported",
        "the agent on the pod's node is too old for pools of load balancers",
        "update the DaemonSet hitless-agent",
    ),
    Reason::new("MadeAnew", "as many pods of the workload as may be are being made anew", "wait"),
    Reason::new(
        "PrefetchOnly",
        "the images are on the node, and the workload has hitless.dev/prefetch: only",
        "remove the annotation to go on",
    ),
    Reason::new("Paused", "somebody has paused the workload", "kubectl hitless resume, or what `why` names"),
    Reason::new(
        "DependencyAway",
        "pods of the version before became not Ready, too, while the first one was operated: what all of them need is away",
        "mend that (a database, a DNS name); it goes on by itself",
    ),
    Reason::new(
        "Reload",
        "a ConfigMap or Secret of the pod has changed a moment ago; both changes are made at once",
        "wait, it takes seconds",
    ),
    Reason::new(
        "NamespaceUnread",
        "the controller has not read all pods and rollouts of the namespace",
        "wait; after minutes see the log of Deployment hitless-controller",
    ),
    Reason::new(
        "NamespaceTooLarge",
        "the workloads of the namespace and their revisions are more than the controller keeps of one",
        "delete workloads or old revisions (revisionHistoryLimit), or use several namespaces",
    ),
    Reason::new(
        "OwnerUnreadable",
        "the objects of the workload's kind can't be listed",
        "see the log of Deployment hitless-controller for what the API server says",
    ),
    Reason::new(
        "LeftToKuperator",
        "KusionStack's own manager runs, and its kinds are left to it",
        "docs/migration.md says how to change over",
    ),
    Reason::new(
        "LeftToKruise",
        "Kruise's own manager runs, and its kinds are left to it",
        "docs/kruise.md says when that is so",
    ),
    Reason::new(
        "LedgerFull",
        "the namespace's ledger has as many reservations as fit",
        "wait until some operations end",
    ),
    Reason::new(
        "AgentTooOld",
        "the agent on the pod's node is of an earlier version",
        "update the DaemonSet hitless-agent",
    ),
    Reason::new(
        "NotDrained",
        "the pod could not be taken out of service for another operator",
        "take the operation back (label undo-operation-type) and begin anew",
    ),
    Reason::new(
        "ApplicationRefused",
        "the application, or a hook that asks it, has said never; other pods go on",
        "ask its owner; to overrule it: kubectl annotate pod NAME hitless.dev/task-",
    ),
    Reason::new(
        "NativeRollout",
        "the workload is about to be rolled by its native controller, whose way costs the pod's clients less",
        "wait",
    ),
    Reason::new(
        "LossExpected",
        "operated in place the pod's clients would be refused, and its owner allows no native way",
        "a second replica, a companion pod, or a mode: kubectl annotate pod NAME hitless.dev/mode=Hold",
    ),
    Reason::new(
        "Halted",
        "an operation of the workload failed on the way to this version, and no other pod gets it",
        "kubectl hitless undo, or retry if the cause is mended; or set another image",
    ),
];
