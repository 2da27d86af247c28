//! Every name that hitless puts into, or looks for in, somebody else's object.

use std::sync::OnceLock;

/// API group of our own kinds.
pub const GROUP: &str = "hitless.dev";

/// What our own labels and annotations begin with.
pub const PREFIX: &str = "hitless.dev/";
/// Namespace that the agent and the controller run in where nobody says another one.
pub const DEFAULT_SYSTEM_NAMESPACE: &str = "hitless-system";
/// The setting that says another one.
pub const SYSTEM_NAMESPACE_SETTING: &str = "HITLESS_NAMESPACE";

static SYSTEM_NAMESPACE: OnceLock<String> = OnceLock::new();

/// Namespace that the agent and the controller run in. Rights and admission policies name the same one: a controller that is told a wrong
/// one may have no Lease there, so it never leads and writes nothing.
#[must_use]
pub fn system_namespace() -> &'static str {
    SYSTEM_NAMESPACE.get().map_or(DEFAULT_SYSTEM_NAMESPACE, String::as_str)
}

/// Says the namespace; a program does that once, before anything else.
pub fn set_system_namespace(name: String) {
    // A second one would make decisions that contradict each other.
    _ = SYSTEM_NAMESPACE.set(name);
}
/// Namespace of the cluster's own programs. hitless changes no template there.
pub const KUBE_SYSTEM: &str = "kube-system";

/// Whether pods of this namespace belong to the cluster or to hitless itself: nothing is operated, made or deleted there for others.
#[must_use]
pub fn is_system(namespace: &str) -> bool {
    namespace == KUBE_SYSTEM || namespace == system_namespace()
}

/// User name of the controller's service account in [`DEFAULT_SYSTEM_NAMESPACE`], as admission sees it.
pub const CONTROLLER_USER: &str = "system:serviceaccount:hitless-system:hitless-controller";
/// Field manager of the agent.
pub const AGENT: &str = "hitless-agent";
/// Field manager of the controller, name of its Lease, and value of the label `app.kubernetes.io/name` on its pods.
pub const CONTROLLER: &str = "hitless-controller";
/// Label by which the controller recognises the agent's pods (value [`AGENT`]).
pub const APP_LABEL: &str = "app.kubernetes.io/name";
/// Port of the agent's HTTP endpoint on the node's address.
pub const AGENT_PORT: u16 = 9754;
/// Port of the controller's health and metrics endpoint.
pub const CONTROLLER_PORT: u16 = 9755;

/// Pod condition and readiness gate; written only by the agent of the pod's node (once by the controller where no agent is).
pub const IN_SERVICE: &str = "hitless.dev/InService";
/// The kubelet's reason of `Ready` False where all containers are ready, and a readiness gate is not
/// (`GeneratePodReadyCondition` in pkg/kubelet/status).
pub const GATES_NOT_READY: &str = "ReadinessGatesNotReady";
/// Reason of [`IN_SERVICE`] False: nobody is connected to the pod any more, and others may operate it. The message is the grant's id.
pub const DRAINED: &str = "Drained";
/// Name of the one [`crate::TransitionLedger`] of each namespace: admission looks it up by this name.
pub const LEDGER: &str = "ledger";
/// Name of the [`crate::TransitionLedger`] in [`system_namespace`] that holds the places in cluster-wide budgets.
pub const CLUSTER_LEDGER: &str = "cluster";

/// Readiness gates that OpenKruise's manager gives pods and keeps True. Without it nobody does.
pub const KRUISE_GATES: [&str; 2] = ["InPlaceUpdateReady", "KruisePodReady"];

/// Annotation names.
pub mod annotations {
    /// On a workload: opts it in. Values [`super::UPDATE_IN_PLACE`] and [`super::UPDATE_IN_PLACE_ONLY`]; [`super::UPDATE_NATIVE`] keeps it
    /// out where its namespace opts its workloads in.
    pub const UPDATE: &str = "hitless.dev/update";
    /// On a workload: its own restart annotations, comma-separated keys of its template's annotations; a `*` at the end makes a prefix.
    pub const RESTART_ANNOTATIONS: &str = "hitless.dev/restart-annotations";
    /// On a workload: what a change of a restart annotation means. Values [`super::RESTARTS_AUTO`], [`super::RESTARTS_CONTAINERS`] and
    /// [`super::RESTARTS_PODS`]; absent: the first.
    pub const RESTARTS: &str = "hitless.dev/restarts";
    /// On a workload's template: a change of it asks for new pods. The value is free; `kubectl hitless restart --new-pods` writes the time.
    pub const NEW_PODS: &str = "hitless.dev/new-pods";
    /// On a workload, value [`super::RELOAD_AUTO`]: its pods restart in place when a ConfigMap or Secret that they use changes.
    pub const RELOAD: &str = "hitless.dev/reload";
    /// On a workload and on its template: hash of the content of the ConfigMaps and Secrets that its pods use. On the template it is a
    /// restart annotation. Written by the controller.
    pub const CONFIG: &str = "hitless.dev/config";
    /// On a workload: JSON `{"containers": {"<init container>": "<hash>", …}, "newPods": {"config": …, "for": […]}}`, what its init
    /// containers are given of ConfigMaps and Secrets, and the value of [`CONFIG`] of the template that only new pods bring. Written by
    /// the controller.
    pub const INIT_CONFIG: &str = "hitless.dev/init-config";
    /// On a pod: when its agent last wanted the kubelet to look at its volumes. Written by the agent.
    pub const CONFIG_SYNC: &str = "hitless.dev/config-sync";
    /// On a pod: JSON `{"<container>": "<containerID>", …}`, the containers that the last image patch was to end. Written by the agent in
    /// that patch. The next agent would take one that had crashed after the grant for the new one; and a restart would give the image
    /// that still runs the name of the next one.
    pub const REPLACED: &str = "hitless.dev/replaced";
    /// On a workload: `held` while the guard policy keeps the native controller from rolling it. Set by the guard policy, lifted by
    /// the controller.
    pub const ROLLOUT: &str = "hitless.dev/rollout";
    /// On a StatefulSet or DaemonSet that is held: the `updateStrategy` that its owner wants, as JSON. Set by the guard policy.
    pub const UPDATE_STRATEGY: &str = "hitless.dev/update-strategy";
    /// On a StatefulSet or DaemonSet: JSON `{"revision": …, "backTo": …}`, the template that was judged bad and the one that was put
    /// back. The bad one is not tried again as long as this stands there. Written by the controller.
    pub const HALTED: &str = "hitless.dev/halted";
    /// The API server's count of a DaemonSet's template changes.
    pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
    /// On a pod: the port at which its agent's endpoint is to be inside of the pod, for hooks that may name no host.
    pub const ENDPOINT: &str = "hitless.dev/endpoint";
    /// On a pod (usually from its template), value [`super::TASK_ALLOWED`]: what its application says of itself at the node's endpoint
    /// counts, so it may refuse to be operated.
    pub const TASK: &str = "hitless.dev/task";
    /// On a pod: hash of the template it was last brought to; where present it alone decides the pod's revision.
    pub const REVISION: &str = "hitless.dev/revision";
    /// On a pod: token of a wanted restart; wanted until `RESTARTED` has the same value. On a workload, value [`super::KEEP_DIGEST`]:
    /// a restart of its template is one of the same bytes.
    pub const RESTART: &str = "hitless.dev/restart";
    /// On a pod: comma-separated containers that `RESTART` means; absent means all.
    pub const RESTART_CONTAINERS: &str = "hitless.dev/restart-containers";
    /// On a pod: token of the last restart that was carried out; set by the image patch itself.
    pub const RESTARTED: &str = "hitless.dev/restarted";
    /// On a pod (usually from its template): JSON that overrides single fields of the drain, see [`crate::DrainSpec`].
    pub const DRAIN: &str = "hitless.dev/drain";
    /// On a pod (usually from its template): how requests are kept safe, see [`crate::DesiredMode`].
    pub const MODE: &str = "hitless.dev/mode";
    /// On a pod (usually from its template): JSON list of its hooks, see [`crate::Hook`].
    pub const HOOKS: &str = "hitless.dev/hooks";
    /// On a Deployment: JSON `{"<revision>": milliseconds, …}`, how long its containers were away (image patch → LISTEN) when
    /// they were brought to each of the last revisions, the newest last. Written by the controller.
    pub const GAP: &str = "hitless.dev/gap";
    /// The same until they were ready.
    pub const GAP_TO_READY: &str = "hitless.dev/gap-to-ready";
    /// On a workload: JSON `{"pod": …, "lost": …, "open": …, "at": …}`, connections of a pod that were cut off when it became not
    /// Ready. Written by the controller.
    pub const LOSSES: &str = "hitless.dev/losses";
    /// On a Service with the label [`super::labels::CONTROL`]: the pools of external load balancers that its pods are in, as
    /// `<TrafficProvider>/<pool>`, separated by commas; with `<port name>=` before it where the Service has several ports.
    pub const TRAFFIC: &str = "hitless.dev/traffic";
    /// On a Service whose `publishNotReadyAddresses` the controller has set for a Hold: `<grant id>,<value before>`.
    pub const HELD_BY: &str = "hitless.dev/held-by";
    /// `kubectl apply` keeps what it applied last in this one.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    /// On a pod (usually from its template): pods with a higher number go first; a whole number, default 0.
    pub const PRIORITY: &str = "hitless.dev/priority";
    /// On a pod, as annotation or label, value `true`: it leads its peers and goes last.
    pub const LEADER: &str = "hitless.dev/leader";
    /// On a pod, upstream's name: JSON `{"skipRules": ["<rule>", …]}`; the pod is not asked about by these rules.
    pub const SKIP_RULES: &str = "podtransitionrule.kusionstack.io/skip-rule-conditions";
    /// On a pod of a CollaSet, upstream's name: JSON list of the PodDecorations that it has, with their revisions.
    pub const DECORATIONS: &str = "poddecoration.kusionstack.io/revisions";
    /// On a workload, value [`super::PREFETCH_ONLY`]: the images of its next version are fetched, and no pod is operated.
    pub const PREFETCH: &str = "hitless.dev/prefetch";
    /// On a prefetch pod: the image that it was made for. Admission may have given it another one.
    pub const IMAGE: &str = "hitless.dev/image";
    /// On a workload: any value but [`super::PAUSED_FALSE`] and no operation of its pods begins. That value: it is driven although its
    /// owner has paused it by `spec.paused`, for good.
    pub const PAUSED: &str = "hitless.dev/paused";
    /// On a workload: whether a companion pod tries its next version first. Values [`super::COMPANION_ALWAYS`] and
    /// [`super::COMPANION_NEVER`]; absent: where it has a single pod.
    pub const COMPANION: &str = "hitless.dev/companion";
    /// On a workload: JSON `{"revision": …, "outcome": …}`, what became of the last companion pod that was not to serve. Written by
    /// the controller.
    pub const TRIED: &str = "hitless.dev/tried";
    /// On a workload: JSON list of what the API server does not accept of the pods that fetch images for it and of its companion pod, with
    /// its words. Written by the controller.
    pub const REFUSED: &str = "hitless.dev/refused";
    /// On a workload: JSON `{"revision": …, "at": …}`, this version has been tried once more since then although it had failed. Written by
    /// the controller.
    pub const TRIED_AGAIN: &str = "hitless.dev/tried-again";
    /// On a workload that is held: the version that the native controller is going to roll, because that costs its clients less,
    /// and why. The controller sets it, and takes it away as it lifts the hold.
    pub const WAY: &str = "hitless.dev/way";
    /// On a workload: JSON `{"revision": …, "message": …}`, this version did not start in place and went natively. While pods of it serve,
    /// the next one goes natively at once. Written by the controller.
    pub const IN_PLACE_FAILED: &str = "hitless.dev/in-place-failed";
    /// On a live ReplicaSet's template during a rollout: makes it equal to neither the old nor the new template. Value: digest of the
    /// new one's annotations, a dot, and its revision; pods that are made meanwhile carry it, and those that are brought to it.
    pub const MIXED: &str = "hitless.dev/mixed";
    /// `kubectl rollout restart` writes this into the template.
    pub const KUBECTL_RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
    /// Reloader has paused the Deployment to collect changes, since then; it takes both away when its time is up.
    pub const RELOADER_PAUSED_AT: &str = "deployment.reloader.stakater.com/paused-at";
    /// The Deployment controller's revision number on ReplicaSets and Deployments.
    pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";
    /// On a pod as hitless reads it, never at the API server: how many values it has, of which too many to look after it.
    pub const TOO_LARGE: &str = "hitless.dev/too-large";
    /// On a pod, Kubernetes' own: pods with a lower number are removed first.
    pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// On a pod of a CloneSet, OpenKruise's own: when the label `lifecycle.apps.kruise.io/state` changed last (RFC 3339).
    pub const LIFECYCLE_TIMESTAMP: &str = "lifecycle.apps.kruise.io/timestamp";
    /// On a CloneSet: which ids its pods have, by name, and what is under way with them. Written by the controller.
    pub const INSTANCES: &str = "hitless.dev/instances";
    /// The kubelet marks mirror pods of static pods with this.
    pub const MIRROR: &str = "kubernetes.io/config.mirror";
}

/// Label names.
pub mod labels {
    /// On an empty ReplicaSet that keeps the template of an earlier rollout for `kubectl rollout undo`.
    pub const HISTORY: &str = "hitless.dev/history";
    /// On the ReplicaSet that owns a held Deployment's pods: only the garbage collector may delete it. Value: digest of the annotations
    /// of the template that it had before the rollout.
    pub const LIVE: &str = "hitless.dev/live";
    /// On a live ReplicaSet, `<uid of the Deployment>.<its generation>`: a rollout was brought to its end at that generation, so
    /// whoever sees an earlier one has an old view of the Deployment and writes nothing.
    pub const SETTLED: &str = "hitless.dev/settled";
    /// On a pod of ours that fetches an image to a node: which image, for whom and where, as a hash.
    pub const PREFETCH: &str = "hitless.dev/prefetch";
    /// On a companion pod of ours: which revision of which workload it runs, as a hash.
    pub const COMPANION: &str = "hitless.dev/companion";
    /// On a pod that the controller makes, as the controller of its workload: the workload's kind. Admission knows them by it.
    pub const MADE_FOR: &str = "hitless.dev/made-for";
    /// On a PersistentVolumeClaim: uid of the CollaSet that it is of, whether that owns it or not.
    pub const CLAIM_OF: &str = "hitless.dev/claim-of";
    /// On a Service, upstream's name, value `true`: load balancers outside of the cluster follow its pods.
    pub const CONTROL: &str = "kusionstack.io/control";
    /// On a namespace: workloads that are made there get the annotation of this name with its value, if they have none. The values are
    /// those of [`super::annotations::UPDATE`].
    pub const UPDATE: &str = "hitless.dev/update";
    /// On a pod or a namespace, value `enabled`: pods get the readiness gate at creation.
    pub const GATE: &str = "hitless.dev/gate";
    /// On a pod that is only tried and never made: name of the SidecarSet of which it has the containers.
    pub const SIDECAR_SET: &str = "hitless.dev/sidecarset";
    /// Label by which the StatefulSet and DaemonSet controllers know a pod's revision.
    pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
    /// On a StatefulSet's pod, by its controller: the pod's name.
    pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
    /// On a StatefulSet's pod, by its controller: the pod's ordinal.
    pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
    /// Label that the DaemonSet controller adds to its pods.
    pub const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";
    /// Label the Deployment controller adds to ReplicaSets and their pods.
    pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
}

/// Label selector of the pods that fetch images.
pub const PREFETCH_PODS: &str = labels::PREFETCH;
/// Label selector of all other pods.
pub const OTHER_PODS: &str = "!hitless.dev/prefetch";
/// Value of [`annotations::UPDATE`]: in place where possible, else the native way.
pub const UPDATE_IN_PLACE: &str = "in-place";
/// Value of [`annotations::UPDATE`]: a change that cannot be made in place is refused and waits.
pub const UPDATE_IN_PLACE_ONLY: &str = "in-place-only";
/// Value of [`annotations::UPDATE`]: natively, whatever its namespace says.
pub const UPDATE_NATIVE: &str = "native";
/// Value of [`annotations::RESTART`] on a workload.
pub const KEEP_DIGEST: &str = "keep-digest";
/// Value of [`annotations::RESTARTS`]: in place, unless that can't bring what the restart is for.
pub const RESTARTS_AUTO: &str = "auto";
/// Value of [`annotations::RESTARTS`]: always the containers, in place.
pub const RESTARTS_CONTAINERS: &str = "containers";
/// Value of [`annotations::RESTARTS`]: always new pods, natively.
pub const RESTARTS_PODS: &str = "pods";
/// Value of [`annotations::RELOAD`].
pub const RELOAD_AUTO: &str = "auto";
/// Value of [`annotations::TASK`].
pub const TASK_ALLOWED: &str = "allowed";
/// Value of [`annotations::PREFETCH`].
pub const PREFETCH_ONLY: &str = "only";
/// Value of [`annotations::PAUSED`]: no operation begins. Any other value but [`PAUSED_FALSE`] means the same.
pub const PAUSED_TRUE: &str = "true";
/// Value of [`annotations::PAUSED`]: its owner's own `spec.paused` keeps no operation from beginning.
pub const PAUSED_FALSE: &str = "false";
/// Value of [`annotations::COMPANION`]: a companion pod tries each version, however many pods there are.
pub const COMPANION_ALWAYS: &str = "Always";
/// Value of [`annotations::COMPANION`]: no companion pod is made.
pub const COMPANION_NEVER: &str = "Never";
/// Finalizer of a CollaSet: its pods leave service before it goes.
pub const COLLA_SET_FINALIZER: &str = "apps.kusionstack.io/pre-reclaim";
/// Value of [`annotations::ROLLOUT`].
pub const ROLLOUT_HELD: &str = "held";
