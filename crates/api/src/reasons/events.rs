//! Events.

use super::Reason;

/// In no order that matters.
pub(super) const ALL: &[Reason] = &[
    Reason::new(
        "OptInInvalid",
        "the workload's hitless.dev/update means nothing",
        "write in-place, in-place-only or native",
    ),
    Reason::new(
        "OptInRemoved",
        "a change came without the opt-in that was there, and the pods are made anew",
        "keep the annotation in what is applied, if that was not meant",
    ),
    Reason::new(
        "NoGuard",
        "the policies are missing that hold changes of opted-in workloads",
        "install hitless again; kubectl hitless doctor names them",
    ),
    Reason::new("RolloutHeld", "a change is being brought to the pods in place", "nothing: kubectl hitless status -w"),
    Reason::new("RolloutFinished", "all pods have the version", "nothing"),
    Reason::new(
        "RolloutHalted",
        "a version was judged bad on one pod, and its rollout stopped",
        "kubectl hitless undo, retry, or another image (docs/runbooks/HitlessRolloutHalted.md)",
    ),
    Reason::new(
        "RolloutRefused",
        "a change can't be made in place, and nothing else is allowed",
        "take it back, or hitless.dev/update: in-place",
    ),
    Reason::new(
        "RolloutBlocked",
        "a rule lets no pod of the workload go, and waiting alone does not help",
        "kubectl hitless why",
    ),
    Reason::new("RolloutPaused", "somebody has paused the rollout", "kubectl hitless resume"),
    Reason::new(
        "RolloutUnfinished",
        "a native rollout was there before, and its pods are brought to the version in place",
        "nothing",
    ),
    Reason::new("NativeRollout", "the change is rolled natively, for the reason that it names", "nothing"),
    Reason::new(
        "FetchingImages",
        "pods fetch the new images to the nodes; the workload's own serve meanwhile",
        "nothing",
    ),
    Reason::new("ImageNotFetched", "an image can't be fetched", "correct the image or the cause"),
    Reason::new(
        "CompanionRefused",
        "the companion pod is not accepted",
        "let pods with the label hitless.dev/companion pass, or run two replicas",
    ),
    Reason::new(
        "PrefetchLabelsLeftOut",
        "a label that prefetch pods were to get would let a Service or a rule select them",
        "choose another label in HITLESS_PREFETCH_LABELS",
    ),
    Reason::new(
        "DependencyAway",
        "pods of both versions are not Ready: what all of them need is away",
        "mend that; it goes on by itself",
    ),
    Reason::new("NodeLost", "a pod is on a node that does not answer", "bring the node back"),
    Reason::new("OperationOverdue", "an operation takes longer than it may", "the agent's log; kubectl describe pod"),
    Reason::new("OperationFailed", "an operation could neither be done nor undone", "kubectl hitless why pod/NAME"),
    Reason::new(
        "PausedByReloader",
        "Reloader has paused the Deployment to collect changes",
        "nothing: it ends the pause",
    ),
    Reason::new("PodMadeAnew", "a pod that can't be operated was made anew", "nothing"),
    Reason::new("PodNotReady", "a pod has the version and has not become Ready in its time", "kubectl describe pod"),
    Reason::new("Reloading", "a ConfigMap or Secret has changed, and the pods restart in place", "nothing"),
    Reason::new("RestartAnnotationsInvalid", "hitless.dev/restart-annotations can't be read", "correct it"),
    Reason::new("RestartsInvalid", "hitless.dev/restarts means nothing", "write auto, containers or pods"),
    Reason::new("RestartRequested", "somebody asks for a restart", "nothing"),
    Reason::new(
        "SlowStart",
        "the version starts more slowly than clients can be held",
        "nothing: pods leave service instead",
    ),
    Reason::new("TooMany", "more objects of a kind select the pods than are read", "fewer of them"),
    Reason::new("TriedAgain", "a version that had failed was tried once more", "nothing"),
    Reason::new("NotTriedAgain", "a version that had failed is not tried again", "kubectl hitless retry"),
    Reason::new("WriteRefused", "the API server refuses a write of the controller", "its words are in the Event"),
    Reason::new("EndpointInvalid", "hitless.dev/endpoint names no port that can be had", "correct it"),
    Reason::new(
        "InjectionRefused",
        "admission does not accept what new pods would get of a SidecarSet; they get what it said before",
        "what the Event says; SidecarSets need an API server with mutating admission policies",
    ),
    Reason::new(
        "SidecarUpdateHalted",
        "a version of a SidecarSet's containers was judged bad by one of its pods; no other pod gets it",
        "another image, or take the annotation hitless.dev/halted off the SidecarSet to try it again",
    ),
    Reason::new(
        "SidecarsNotAccepted",
        "the API server does not accept a pod with the containers of a SidecarSet; new pods get what it said before",
        "correct what the Event names in the API server's words",
    ),
    Reason::new("InvalidSpec", "an object that limits operations can't be obeyed", "correct what the Event names"),
    Reason::new("InvalidDrain", "a pod's drain, mode or hooks make no sense", "correct what the Event names"),
    Reason::new(
        "NamespaceUnread",
        "pods or rollouts of the namespace can't be read, so nothing begins there",
        "docs/runbooks/HitlessNamespaceLeftOut.md",
    ),
    Reason::new(
        "NamespaceTooLarge",
        "the workloads of the namespace are more than the controller keeps",
        "docs/runbooks/HitlessNamespaceLeftOut.md",
    ),
    Reason::new("LeftToKuperator", "KusionStack's own manager runs, and its kinds are left to it", "docs/migration.md"),
    Reason::new("LeftToKruise", "Kruise's own manager runs, and its kinds are left to it", "docs/kruise.md"),
    Reason::new(
        "TooManyReplicas",
        "a CloneSet wants more pods than it has room to keep ids of",
        "use several CloneSets",
    ),
    Reason::new(
        "ScaleUpLimited",
        "fewer pods are made at a time than are missing, as scaleStrategy.maxUnavailable says",
        "wait until the pods that were made are ready, or raise it",
    ),
    Reason::new(
        "PodNameTaken",
        "a pod that is to be made anew with its claims has the name of one that is still being deleted",
        "wait; kubectl describe pod says what the old one waits for",
    ),
    Reason::new(
        "HookPending",
        "a pod of a CloneSet waits for a hook of spec.lifecycle for longer than five minutes",
        "look at the operator of that hook; without it, set or take off the label or the finalizer yourself",
    ),
];
