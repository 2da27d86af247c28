//! Why a change of a template is left to the native controller, or refused.

use super::Reason;

/// In no order that matters.
pub(super) const ALL: &[Reason] = &[
    Reason::new(
        "FieldNotInPlace",
        "a field, label or annotation of the template has changed that can't be changed in a running pod",
        "nothing, if new pods are fine: they are made natively; under in-place-only take the change back or allow it with in-place",
    ),
    Reason::new(
        "TooLarge",
        "the template is too large to look after",
        "make it smaller; until then it is updated natively",
    ),
    Reason::new(
        "InitContainer",
        "something that an init container uses has changed, and it runs only when a pod starts",
        "nothing: new pods are made natively",
    ),
    Reason::new(
        "VolumeMountedOnce",
        "a volume has changed that is mounted once for each pod",
        "nothing: new pods are made natively",
    ),
    Reason::new(
        "InjectionChanged",
        "the pods have containers that their template does not have, such as a mesh's, and these change with the change",
        "nothing: new pods are made natively",
    ),
    Reason::new("NewPodsWished", "the owner asks for new pods", "nothing: new pods are made natively"),
    Reason::new(
        "NativeRollout",
        "a native rollout has not ended, or is the way that was chosen",
        "wait until it has ended: kubectl rollout status",
    ),
    Reason::new(
        "NoReplicaSet",
        "there is no ReplicaSet whose pods could be operated",
        "wait until the Deployment controller has made one",
    ),
    Reason::new("SystemNamespace", "the workload belongs to the cluster itself", "nothing: it is updated natively"),
    Reason::new("HostNetwork", "the pods use their nodes' network", "nothing: they are updated natively"),
    Reason::new("Halted", "the version was judged bad", "kubectl hitless undo, retry, or another image"),
    Reason::new("InvalidSpec", "the object's specification makes no sense", "correct what the message names"),
    Reason::new(
        "InvalidDecoration",
        "a PodDecoration makes no sense for the workload",
        "correct what the message names",
    ),
    Reason::new(
        "PodNotAccepted",
        "a new pod is not accepted by the API server",
        "what the message says of quota, admission or Pod Security",
    ),
    Reason::new(
        "LossExpected",
        "in place the clients would be refused, and no other way is allowed",
        "a second replica, a companion pod, or hitless.dev/update: in-place",
    ),
    Reason::new(
        "DigestUnknown",
        "the image was loaded into the nodes, and a restart in place needs a second name of it",
        "use an image from a registry",
    ),
    Reason::new(
        "PrefetchRefused",
        "the pods that would fetch the images are not accepted",
        "let pods with the label hitless.dev/prefetch pass, or HITLESS_PREFETCH_LABELS of Deployment hitless-controller",
    ),
    Reason::new(
        "NoAgentPossible",
        "a pod is on a node on which no agent is ever going to be",
        "let it run on another node",
    ),
];
