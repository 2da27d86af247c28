//! Restarts because of ConfigMaps and Secrets (docs/contract.md#config-reload): which namespaces have to be read, and what is in them for
//! each workload that reloads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::digest::Key;
use hitless_api::names::annotations;
use hitless_workloads::config::{Config, InitConfig, Missing};
use hitless_workloads::{ConfigContent, ConfigRef, ConfigUse, Object};
use jiff::Timestamp;

/// The ClusterRole with the right to read ConfigMaps and Secrets. Nobody has it until it is bound in a namespace.
pub const ROLE: &str = "hitless-reload";

/// ConfigMaps and Secrets of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamespaceConfig {
    /// Not read yet.
    #[default]
    Unread,
    /// The controller has no right to read them.
    Denied,
    /// These are there of those that are used.
    Read(BTreeMap<ConfigRef, Arc<ConfigContent>>),
}

/// What a workload that reloads finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Not read yet.
    Unread,
    /// The controller has no right to read what its pods use.
    Denied,
    /// Its pods use no ConfigMap and no Secret.
    Nothing,
    /// Something is not there without which no container would start.
    Missing(Missing),
    /// This.
    There(Content),
}

/// What is there, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// What is there.
    pub config: Config,
    /// Since when this has been seen.
    pub since: Timestamp,
    /// Since when anything else than what is recorded on the workload has been seen; the same as `since` while that is recorded.
    pub differs_since: Timestamp,
}

/// What each workload that reloads finds, by its uid.
pub type Finds = BTreeMap<String, Found>;

/// ConfigMaps and Secrets that are used, by namespace.
pub type Wanted<'a> = BTreeMap<&'a str, BTreeSet<&'a ConfigRef>>;

/// What workloads use that reload.
#[derive(Debug, Default)]
pub struct Uses<'a> {
    of: Vec<(&'a Object, ConfigUse)>,
    key: Option<&'a Key>,
}

impl<'a> Uses<'a> {
    /// Of those of these workloads that reload.
    #[must_use]
    pub fn of(objects: &'a [Arc<Object>]) -> Self {
        let reloading = objects.iter().map(|object| &**object).filter(|object| object.reloads());
        let of = reloading.filter_map(|object| Some((object, ConfigUse::of(object.template()?.content()))));
        Self { of: of.collect(), key: None }
    }

    /// With a key for what is recorded of it.
    #[must_use]
    pub fn keyed(self, key: Option<&'a Key>) -> Self {
        Self { key, ..self }
    }

    /// Namespaces in which a workload reloads, with the ConfigMaps and Secrets that are used there.
    #[must_use]
    pub fn by_namespace(&self) -> Wanted<'_> {
        let mut namespaces = Wanted::new();
        for (object, uses) in &self.of {
            namespaces.entry(&object.id.namespace).or_default().extend(uses.objects());
        }
        namespaces
    }

    /// What workloads find now. `known` is the answer of last time: it tells since when.
    #[must_use]
    pub fn find(&self, namespaces: &BTreeMap<String, NamespaceConfig>, known: &Finds, now: Timestamp) -> Finds {
        let found = self.of.iter().map(|(object, uses)| {
            let found = match namespaces.get(&object.id.namespace) {
                _ if uses.is_empty() => Found::Nothing,
                None | Some(NamespaceConfig::Unread) => Found::Unread,
                Some(NamespaceConfig::Denied) => Found::Denied,
                Some(NamespaceConfig::Read(all)) => {
                    match uses.look(|object| all.get(object).map(|content| &**content), self.key) {
                        Err(missing) => Found::Missing(missing),
                        Ok(config) => Found::There(Content::of(config, object, known.get(&object.id.uid), now)),
                    }
                }
            };
            (object.id.uid.clone(), found)
        });
        found.collect()
    }
}

impl Content {
    fn of(config: Config, object: &Object, known: Option<&Found>, now: Timestamp) -> Self {
        let known = match known {
            Some(Found::There(known)) => Some(known),
            Some(Found::Unread | Found::Denied | Found::Nothing | Found::Missing(_)) | None => None,
        };
        let since = known.filter(|known| known.config == config).map_or(now, |known| known.since);
        let init = InitConfig::of(object);
        let is_recorded = |config: &Config| {
            let is_same = object.annotations.get(annotations::CONFIG).is_some_and(|known| config.hash.is(known));
            is_same && init.as_ref().is_none_or(|init| init.changed(config).is_empty())
        };
        let differed = known.filter(|known| !is_recorded(&known.config));
        let differs_since =
            if is_recorded(&config) { since } else { differed.map_or(since, |known| known.differs_since) };
        Self { config, since, differs_since }
    }
}

/// How a user gives the controller the right in a namespace.
#[must_use]
pub fn command(namespace: &str) -> String {
    format!(
        "kubectl create rolebinding {ROLE} --namespace {namespace} --clusterrole {ROLE} \
         --serviceaccount {}:{}",
        hitless_api::names::system_namespace(),
        hitless_api::names::CONTROLLER
    )
}

#[cfg(test)]
mod tests;
