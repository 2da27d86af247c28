//! Which of the kinds that not every cluster has are installed and on, as settings say it.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::component::{COMPONENTS, Component, Switch};
use crate::kind::Resource;
use crate::registry::{self, Holder};

/// What is installed and switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Components beside hitless itself.
    pub components: Vec<&'static Component>,
    /// Kinds that are off although their component is installed.
    pub off: BTreeSet<Switch>,
}

impl Installed {
    /// The setting that names components.
    pub const COMPONENTS: &str = "HITLESS_COMPONENTS";
    /// The setting that names kinds that are off.
    pub const SWITCHED_OFF: &str = "HITLESS_SWITCHED_OFF";

    /// hitless itself and these components, with every kind of theirs.
    #[must_use]
    pub fn with(components: &[&'static Component]) -> Self {
        Self { components: components.to_vec(), off: BTreeSet::new() }
    }

    /// Whether a kind with this component and this switch is on.
    #[must_use]
    pub fn has(&self, holder: Holder) -> bool {
        let is_there = holder.component().is_none_or(|component| self.components.contains(&component));
        is_there && holder.switch().is_none_or(|switch| !self.off.contains(&switch))
    }

    /// All resources that are watched where this is installed and switched on, each once, with who reads it.
    pub fn resources(&self) -> impl Iterator<Item = (Holder, &'static Resource)> {
        let is_wanted = |resource: &Resource| {
            let mut holders = registry::holders().filter(|holder| holder.resources().contains(resource));
            holders.any(|holder| self.has(holder))
        };
        registry::resources().filter(move |(_, resource)| is_wanted(resource))
    }
}

/// Components as a setting names them, comma-separated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentNames(pub Vec<&'static Component>);

impl FromStr for ComponentNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let component = |name: &str| {
            let found = COMPONENTS.into_iter().find(|each| each.name == name);
            found.ok_or_else(|| {
                let known = COMPONENTS.map(|each| each.name).join(", ");
                format!("there is no component {name}; known is {known}")
            })
        };
        words(text).map(component).collect::<Result<_, _>>().map(Self)
    }
}

/// Kinds as a setting names them, comma-separated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchNames(pub BTreeSet<Switch>);

impl FromStr for SwitchNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        words(text).map(switch).collect::<Result<_, _>>().map(Self)
    }
}

/// The switch with this word, whatever its case.
fn switch(word: &str) -> Result<Switch, String> {
    let known = registry::switches();
    known.iter().find(|each| each.to_string().eq_ignore_ascii_case(word)).copied().ok_or_else(|| {
        let known = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!("there is no kind {word} to switch off; known are {known}")
    })
}

/// What a setting names, comma-separated.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::KUSIONSTACK;

    #[test]
    fn a_word_that_is_no_kind_is_refused_with_those_that_are() {
        assert_eq!(switch("collaset"), Ok(Switch::of("CollaSet")));
        let error = switch("Deployment").unwrap_err();
        assert!(error.contains("Deployment") && error.contains("PodOpsLifecycle"), "{error}");
    }

    #[test]
    fn a_word_that_is_no_component_is_refused_with_those_that_are() {
        assert_eq!("kusionstack,".parse(), Ok(ComponentNames(vec![&KUSIONSTACK])));
        let error = "kuberator".parse::<ComponentNames>().unwrap_err();
        assert!(error.contains("kuberator") && error.contains("kusionstack"), "{error}");
    }

    fn plurals(installed: &Installed) -> Vec<&'static str> {
        installed.resources().map(|(_, resource)| resource.plural).collect()
    }

    #[test]
    fn a_kind_that_is_off_is_not_read_and_the_others_are() {
        let all = Installed::with(&[&KUSIONSTACK]);
        let read = plurals(&all);
        assert!(
            ["collasets", "resourcecontexts", "operationjobs", "deployments"].iter().all(|each| read.contains(each))
        );
        let off = |word: &'static str| plurals(&Installed { off: [Switch::of(word)].into(), ..all.clone() });
        let without_sets = off("CollaSet");
        assert!(
            !without_sets.contains(&"collasets") && !without_sets.contains(&"resourcecontexts"),
            "{without_sets:?}"
        );
        assert!(without_sets.contains(&"controllerrevisions"), "StatefulSets need them, too");
        assert!(without_sets.contains(&"operationjobs"));
        assert!(!off("OperationJob").contains(&"operationjobs"));
        assert!(!plurals(&Installed::default()).contains(&"operationjobs"), "the component is not there");
        let mut without_components = registry::holders().filter(|holder| Installed::default().has(*holder));
        assert!(without_components.all(|holder| holder.switch().is_none()));
    }

    #[test]
    fn each_kind_of_a_component_can_be_turned_off_by_itself() {
        let of_components: Vec<Holder> = registry::holders().filter(|each| each.component().is_some()).collect();
        assert!(of_components.len() > 3 && of_components.iter().all(|each| each.switch().is_some()));
    }
}
