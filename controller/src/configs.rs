//! ConfigMaps and Secrets of namespaces in which a workload reloads (docs/contract.md#config-reload). Of what is in them only hashes are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::digest;
use hitless_rollout::reload::{NamespaceConfig, Wanted};
use hitless_runtime::watch::{self, Access, Cache, Listing, Metrics, Selection};
use hitless_workloads::{ConfigContent, ConfigKind, ConfigRef};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Objects in one page of a list.
const PAGE: u32 = 100;
/// Helm keeps its releases in Secrets: many, large, and used by no pod.
const NO_RELEASES: &str = "type!=helm.sh/release.v1";

/// The watches. They are begun and ended while the controller runs.
pub struct Configs {
    client: Client,
    wake: Arc<Notify>,
    metrics: Metrics,
    namespaces: BTreeMap<String, Namespace>,
}

/// The watches of one namespace; they end with it.
struct Namespace {
    config_maps: Cache<ConfigMap, ConfigContent>,
    secrets: Cache<Secret, ConfigContent>,
    access: [Access; 2],
    _token: DropGuard,
}

impl Configs {
    /// Nothing is watched yet; `wake` is notified of changes.
    #[must_use]
    pub fn new(client: Client, wake: Arc<Notify>, metrics: Metrics) -> Self {
        Self { client, wake, metrics, namespaces: BTreeMap::new() }
    }

    /// Watches these namespaces and no other.
    pub fn watch(&mut self, wanted: &Wanted<'_>) {
        self.namespaces.retain(|name, _| wanted.contains_key(name.as_str()));
        for name in wanted.keys() {
            if !self.namespaces.contains_key(*name) {
                self.namespaces.insert((*name).to_owned(), self.begin(name));
            }
        }
    }

    /// What is known of these objects of each.
    #[must_use]
    pub fn content(&self, wanted: &Wanted<'_>) -> BTreeMap<String, NamespaceConfig> {
        let known = wanted.iter().filter_map(|(name, objects)| Some((*name, self.namespaces.get(*name)?, objects)));
        known.map(|(name, namespace, objects)| (name.to_owned(), namespace.content(name, objects))).collect()
    }

    fn begin(&self, namespace: &str) -> Namespace {
        let config_maps = Cache::new(
            "ConfigMap",
            |map: ConfigMap| Some(of_config_map(&map)),
            self.wake.clone(),
            self.metrics.clone(),
        );
        let secrets =
            Cache::new("Secret", |secret: Secret| Some(of_secret(&secret)), self.wake.clone(), self.metrics.clone());
        let access = [Access::new(self.wake.clone()), Access::new(self.wake.clone())];
        let token = CancellationToken::new();
        let [maps_access, secrets_access] = access.clone();
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let all = Selection::all(Listing::Paged(PAGE));
        tokio::spawn(watch::run_if_allowed(maps, all, config_maps.clone(), maps_access, token.clone()));
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let others = Selection::fields(NO_RELEASES, Listing::Paged(PAGE));
        tokio::spawn(watch::run_if_allowed(api, others, secrets.clone(), secrets_access, token.clone()));
        Namespace { config_maps, secrets, access, _token: token.drop_guard() }
    }
}

impl Namespace {
    fn content(&self, namespace: &str, wanted: &BTreeSet<&ConfigRef>) -> NamespaceConfig {
        if self.access.iter().any(Access::is_denied) {
            return NamespaceConfig::Denied;
        }
        if !self.config_maps.synced() || !self.secrets.synced() {
            return NamespaceConfig::Unread;
        }
        let get = |object: &ConfigRef| match object.kind {
            ConfigKind::ConfigMap => self.config_maps.get(namespace, &object.name),
            ConfigKind::Secret => self.secrets.get(namespace, &object.name),
        };
        NamespaceConfig::Read(wanted.iter().filter_map(|object| Some(((*object).clone(), get(object)?))).collect())
    }
}

fn of_config_map(map: &ConfigMap) -> ConfigContent {
    let text = map.data.iter().flatten().map(|(key, value)| (key.clone(), digest::of_bytes(value.as_bytes())));
    let binary = map.binary_data.iter().flatten().map(|(key, value)| (key.clone(), digest::of_bytes(&value.0)));
    text.chain(binary).collect()
}

fn of_secret(secret: &Secret) -> ConfigContent {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), digest::of_bytes(&value.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_and_bytes_of_the_same_value_are_the_same_and_nothing_of_it_is_kept() {
        let map = json!({"data": {"a": "hunter2"}, "binaryData": {"b": "aHVudGVyMg=="}});
        let map = of_config_map(&serde_json::from_value(map).unwrap());
        let secret = of_secret(&serde_json::from_value(json!({"data": {"a": "aHVudGVyMg=="}})).unwrap());
        assert_eq!((&map["a"], &map["a"]), (&map["b"], &secret["a"]));
        assert!(!format!("{map:?}{secret:?}").contains("hunter2"));
    }
}
