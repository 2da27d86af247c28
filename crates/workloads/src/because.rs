//! Why a change is left to the native controller, refused, or stopped.

use hitless_api::large::TooLarge;

/// Which kind of reason it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A field, a label or an annotation that can't be changed in a running pod.
    Field,
    /// The template is too large to look after.
    TooLarge,
    /// What an init container uses has changed, and that runs only when a pod is started.
    InitContainer,
    /// A volume is mounted once for each pod.
    VolumeMountedOnce,
    /// Its pods have containers that their template does not have.
    InjectionChanged,
    /// Its owner asks for new pods.
    NewPodsWished,
    /// A native rollout has not ended, or is the way that was chosen.
    NativeRollout,
    /// There is no ReplicaSet whose pods could be operated.
    NoReplicaSet,
    /// It belongs to the cluster itself.
    SystemNamespace,
    /// Its pods use their nodes' network.
    HostNetwork,
    /// The version was judged bad.
    Halted,
    /// Its specification makes no sense.
    InvalidSpec,
    /// A PodDecoration makes no sense for it.
    InvalidDecoration,
    /// A new pod is not accepted.
    PodNotAccepted,
    /// It could be brought to its pods in place, at a price for their clients that the native way does not have; its owner allows no other.
    LossExpected,
    /// A restart in place starts the same image under another name, and an image has none.
    DigestUnknown,
    /// The pods that would fetch its images are not accepted.
    PrefetchRefused,
    /// One of its pods is on a node on which no agent is ever going to be.
    NoAgentPossible,
}

impl Cause {
    /// All of them.
    const ALL: [Self; 18] = [
        Self::Field,
        Self::TooLarge,
        Self::InitContainer,
        Self::VolumeMountedOnce,
        Self::InjectionChanged,
        Self::NewPodsWished,
        Self::NativeRollout,
        Self::NoReplicaSet,
        Self::SystemNamespace,
        Self::HostNetwork,
        Self::Halted,
        Self::InvalidSpec,
        Self::InvalidDecoration,
        Self::PodNotAccepted,
        Self::LossExpected,
        Self::DigestUnknown,
        Self::PrefetchRefused,
        Self::NoAgentPossible,
    ];

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// In CamelCase, for machines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Field => "FieldNotInPlace",
            Self::TooLarge => "TooLarge",
            Self::InitContainer => "InitContainer",
            Self::VolumeMountedOnce => "VolumeMountedOnce",
            Self::InjectionChanged => "InjectionChanged",
            Self::NewPodsWished => "NewPodsWished",
            Self::NativeRollout => "NativeRollout",
            Self::NoReplicaSet => "NoReplicaSet",
            Self::SystemNamespace => "SystemNamespace",
            Self::HostNetwork => "HostNetwork",
            Self::Halted => "Halted",
            Self::InvalidSpec => "InvalidSpec",
            Self::InvalidDecoration => "InvalidDecoration",
            Self::PodNotAccepted => "PodNotAccepted",
            Self::LossExpected => "LossExpected",
            Self::DigestUnknown => "DigestUnknown",
            Self::PrefetchRefused => "PrefetchRefused",
            Self::NoAgentPossible => "NoAgentPossible",
        }
    }
}

/// Why a template change is left to the native controller, or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Because {
    /// For machines.
    pub cause: Cause,
    /// For people, a clause: "a change of … can't be made to running pods".
    pub text: String,
}

impl Because {
    pub(crate) fn of(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into() }
    }

    /// This field can't be changed in a running pod.
    #[must_use]
    pub fn field(path: &str) -> Self {
        Self::of(Cause::Field, format!("a change of {path} can't be made to running pods"))
    }

    /// This field of an init container can't: it would have to run again, and others of the pod rely on its having run before them.
    pub(crate) fn init_container(path: &str, name: &str) -> Self {
        let Self { cause, text } = Self::field(path);
        Self { cause, text: format!("{text}: init container {name} runs only when a pod is started") }
    }

    /// This annotation of the template can't, and that is why.
    pub(crate) fn annotation(key: &str, why: &str) -> Self {
        Self::annotation_for(Cause::Field, key, why)
    }

    /// This label of the template can't, and that is why.
    pub(crate) fn label(key: &str, why: &str) -> Self {
        let Self { cause, text } = Self::field(&format!("spec.template.metadata.labels[{key}]"));
        Self { cause, text: format!("{text}, {why}") }
    }

    /// The same for another reason than what reads it.
    pub(crate) fn annotation_for(cause: Cause, key: &str, why: &str) -> Self {
        let Self { text, .. } = Self::field(&format!("spec.template.metadata.annotations[{key}]"));
        Self { cause, text: format!("{text}{why}") }
    }

    /// Its owner asks for new pods, by this.
    pub(crate) fn new_pods(by: &str) -> Self {
        Self::of(Cause::NewPodsWished, format!("the annotation {by} asks for new pods"))
    }

    /// The pod that would fetch the image first is not accepted. Whether that means the image, a new pod of the workload's own shows.
    pub(crate) fn unaccepted(image: &str, words: &str) -> Self {
        let text = format!("the pod that would fetch {image} to its nodes is not accepted ({words})");
        Self::of(Cause::PrefetchRefused, text)
    }

    /// This node never has an agent, and without one nothing is done to its pods.
    pub(crate) fn no_agent(pod: &str, node: &str) -> Self {
        let text =
            format!("pod {pod} is on node {node}, where the DaemonSet hitless-agent has no pod by its own affinity");
        Self::of(Cause::NoAgentPossible, text)
    }

    /// A restart in place starts the same image under another name, and this container's has none.
    pub(crate) fn no_other_name(container: &str) -> Self {
        let text = format!(
            "container {container} can't be restarted in place, because its image was loaded into the node and no registry has it by a digest"
        );
        Self::of(Cause::DigestUnknown, text)
    }

    /// Its template, or the one that its pods have, is too large to look after.
    #[must_use]
    pub fn too_large(large: TooLarge) -> Self {
        Self::of(Cause::TooLarge, large.to_string())
    }
}
