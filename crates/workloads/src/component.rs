//! What has to be installed for a kind.

use std::str::FromStr;

/// What has to be installed for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// hitless itself.
    Base,
    /// The component `manifests/kusionstack`, too: definitions, rights, and the setting that lets the controller act.
    KusionStack,
}

/// Components as a setting names them, comma-separated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentNames(pub Vec<Component>);

impl FromStr for ComponentNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let component = |name: &str| match name {
            "kusionstack" => Ok(Component::KusionStack),
            other => Err(format!("there is no component {other}; known is kusionstack")),
        };
        named(text).map(component).collect::<Result<_, _>>().map(Self)
    }
}

/// What a setting names, comma-separated.
pub(crate) fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}
