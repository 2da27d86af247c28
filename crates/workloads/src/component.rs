//! Kinds that an installation may leave out: what they are called together, and whose kinds they are.

use std::fmt;

/// Kinds that come from another project, with a folder of manifests of their own: definitions, policies, rights, and the setting that
/// lets the controller act. A kind that names none belongs to hitless itself.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Component {
    /// In settings, and of its folder in `manifests`.
    pub name: &'static str,
    /// The manager that its kinds come from.
    pub manager: ForeignManager,
}

/// The manager that a component's kinds come from. Two controllers of one object would both make pods, so while it is in the cluster
/// its kinds are its own.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignManager {
    /// For people.
    pub name: &'static str,
    /// The reason, of Events and of pods that wait, for leaving its kinds to it.
    pub left: &'static str,
    /// Namespace that it is installed in.
    pub namespace: &'static str,
    /// Name of the Lease by which its processes elect a leader.
    pub lease: &'static str,
    /// Name of its mutating webhook configuration.
    pub mutating: &'static str,
    /// Name of its validating webhook configuration.
    pub validating: &'static str,
}

/// All components, in the order in which people read them. A new one is a row here and a folder in `manifests`.
pub static COMPONENTS: [&Component; 2] = [&KUSIONSTACK, &KRUISE];

/// The kinds of KusionStack's kuperator, v0.7.4.
pub static KUSIONSTACK: Component = Component {
    name: "kusionstack",
    manager: ForeignManager {
        name: "KusionStack's own manager",
        left: "LeftToKuperator",
        namespace: "kusionstack-system",
        lease: "kusionstack-controller-manager",
        mutating: "kusionstack-controller-manager-mutating",
        validating: "kusionstack-controller-manager-validating",
    },
};

/// The kinds of OpenKruise's manager, v1.9. Its definitions stay when it is removed, so they tell nothing.
pub static KRUISE: Component = Component {
    name: "kruise",
    manager: ForeignManager {
        name: "Kruise's own manager",
        left: "LeftToKruise",
        namespace: "kruise-system",
        lease: "kruise-manager",
        mutating: "kruise-mutating-webhook-configuration",
        validating: "kruise-validating-webhook-configuration",
    },
};

/// The word by which kinds of a component are turned off by themselves. Kinds with the same word are on and off together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Switch(&'static str);

impl Switch {
    /// The switch of the kind with this name.
    #[must_use]
    pub const fn of(kind: &'static str) -> Self {
        Self(kind)
    }
}

/// The word in settings.
impl fmt::Display for Switch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}
