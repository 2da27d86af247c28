//! What has to be installed for a kind, and whose kinds these are.

use std::str::FromStr;

/// What has to be installed for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// hitless itself.
    Base,
    /// The component `manifests/kusionstack`, too: definitions, rights, and the setting that lets the controller act.
    KusionStack,
    /// The component `manifests/kruise`, too.
    Kruise,
}

/// The manager that a component's kinds come from. Two controllers of one object would both make pods, so while it is in the cluster
/// its kinds are its own.
#[derive(Debug, PartialEq, Eq)]
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

/// KusionStack's kuperator, v0.7.4.
static KUSIONSTACK: ForeignManager = ForeignManager {
    name: "KusionStack's own manager",
    left: "LeftToKuperator",
    namespace: "kusionstack-system",
    lease: "kusionstack-controller-manager",
    mutating: "kusionstack-controller-manager-mutating",
    validating: "kusionstack-controller-manager-validating",
};

/// OpenKruise's manager, v1.9. Its definitions stay when it is removed, so they tell nothing.
static KRUISE: ForeignManager = ForeignManager {
    name: "Kruise's own manager",
    left: "LeftToKruise",
    namespace: "kruise-system",
    lease: "kruise-manager",
    mutating: "kruise-mutating-webhook-configuration",
    validating: "kruise-validating-webhook-configuration",
};

impl Component {
    /// All that may be installed beside hitless itself.
    pub const OPTIONAL: [Self; 2] = [Self::KusionStack, Self::Kruise];

    /// Its name in the setting; hitless itself is not named there.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Base => None,
            Self::KusionStack => Some("kusionstack"),
            Self::Kruise => Some("kruise"),
        }
    }

    /// The manager that its kinds come from.
    #[must_use]
    pub const fn manager(self) -> Option<&'static ForeignManager> {
        match self {
            Self::Base => None,
            Self::KusionStack => Some(&KUSIONSTACK),
            Self::Kruise => Some(&KRUISE),
        }
    }
}

/// Components as a setting names them, comma-separated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentNames(pub Vec<Component>);

impl FromStr for ComponentNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Component::OPTIONAL.iter().filter_map(|each| each.name()).collect::<Vec<_>>().join(", ");
        let component = |name: &str| {
            let found = Component::OPTIONAL.into_iter().find(|each| each.name() == Some(name));
            found.ok_or_else(|| format!("there is no component {name}; known is {}", known()))
        };
        named(text).map(component).collect::<Result<_, _>>().map(Self)
    }
}

/// What a setting names, comma-separated.
pub(crate) fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}
