//! Watches of custom resources whose definition may come and go while this program runs.
//!
//! The definition is watched by its name. While the API server serves the resource, its objects are watched. While it does
//! not, the cache is empty and counts as synced. Where the definition cannot be read, everything stays as it was. Where the resource is
//! served and its objects cannot be listed (no right, a conversion that fails), the cache says so: whoever reads it goes on without them.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ObjectMeta;
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Cache, Listing, Progress, Selection, Source, follow, is_not_found};
use crate::readiness::Guard;

#[cfg(test)]
mod tests;

/// So many times in a row "not found" means that the resource has gone, whatever is known of its definition. Fewer do not:
/// of several API servers one may learn of a new definition later than the others. With the pauses between them it is 6 s.
const NOT_FOUND: u32 = 5;
/// So many lists in a row have to fail, for whatever reason, before it counts as one that can't be read: everything else goes on without it.
const UNREADABLE: u32 = 5;
/// A resource that is defined and not found is tried again this often.
const AGAIN: Duration = Duration::from_mins(1);

/// The definition that a resource needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `<plural>.<group>`
    pub name: String,
    /// The version that is read.
    pub version: String,
}

/// The parts of a CustomResourceDefinition that say what is served. Its schema, which is most of it, is skipped.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = CustomResourceDefinition)]
struct DefinitionObject {
    metadata: ObjectMeta,
    spec: DefinitionSpec,
    #[serde(default)]
    status: DefinitionStatus,
}

#[derive(Clone, Debug, Deserialize)]
struct DefinitionSpec {
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    name: String,
    served: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct DefinitionStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl DefinitionObject {
    fn serves(&self, version: &str) -> bool {
        self.status.conditions.iter().any(|each| each.type_ == "Established" && each.status == "True")
            && self.spec.versions.iter().any(|each| each.name == version && each.served)
    }
}

/// As [`super::run`], for a resource that the API server may not serve. `ready` is done with the first complete list, or when
/// it is known that there is nothing to list.
pub async fn run_optional<K, T>(
    client: Client,
    definition: Definition,
    source: impl Into<Source>,
    selection: Selection,
    cache: Cache<K, T>,
    ready: Guard,
    token: CancellationToken,
) -> Result<(), Infallible>
where
    K: Resource + DeserializeOwned,
    T: PartialEq,
{
    let changed = Arc::new(Notify::new());
    let Definition { name, version } = definition;
    let only_this = Selection::fields(format!("metadata.name={name}"), Listing::Paged(1));
    let view = move |object: DefinitionObject| Some(object.serves(&version));
    let served = Cache::new("CustomResourceDefinition", view, changed.clone(), cache.metrics().clone());
    let all = Api::<DefinitionObject>::all(client).into();
    let definitions = follow(&all, only_this, &served, token.clone(), |_| ControlFlow::Continue(()));
    let objects =
        Objects { source: source.into(), selection, cache: &cache, served: &served, name: &name, changed: &changed };
    tokio::select! {
        () = definitions => {}
        () = objects.run(ready, &token) => {}
    }
    Ok(())
}

struct Objects<'a, K, T> {
    source: Source,
    selection: Selection,
    cache: &'a Cache<K, T>,
    served: &'a Cache<DefinitionObject, bool>,
    /// Of the definition.
    name: &'a str,
    /// Notified when the definition may have changed.
    changed: &'a Notify,
}

impl<K, T> Objects<'_, K, T>
where
    K: Resource + DeserializeOwned,
    T: PartialEq,
{
    async fn run(&self, ready: Guard, token: &CancellationToken) {
        let mut ready = Some(ready);
        while !token.is_cancelled() {
            match self.is_served() {
                None => self.changed.notified().await,
                Some(false) => {
                    self.unserved(&mut ready);
                    self.changed.notified().await;
                }
                Some(true) => {
                    tracing::info!(kind = self.cache.kind(), "the API server serves this resource, watching it");
                    self.cache.expect_list();
                    self.watch(&mut ready, token).await;
                }
            }
        }
    }

    /// As long as it is defined.
    async fn watch(&self, ready: &mut Option<Guard>, token: &CancellationToken) {
        loop {
            let (mut not_found, mut failed) = (0, 0);
            let progress = |progress: Progress<'_>| {
                match progress {
                    Progress::Listed => (not_found, failed) = (0, 0),
                    Progress::Failed(error) if is_not_found(error) => not_found += 1,
                    Progress::Failed(_) => (not_found, failed) = (0, failed + 1),
                }
                if failed >= UNREADABLE && self.cache.set_unreadable() {
                    tracing::error!(
                        kind = self.cache.kind(),
                        "the API server serves this resource and does not list it: nothing is done for its workloads until it does"
                    );
                }
                if matches!(progress, Progress::Listed) || self.cache.unreadable() {
                    ready.take().into_iter().for_each(Guard::done);
                }
                if not_found < NOT_FOUND { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            tokio::select! {
                () = self.until_undefined() => return,
                () = follow(&self.source, self.selection.clone(), self.cache, token.clone(), progress) => {}
            }
            if token.is_cancelled() {
                return;
            }
            self.unserved(ready);
            if timeout(AGAIN, self.until_undefined()).await.is_ok() {
                return;
            }
        }
    }

    fn unserved(&self, ready: &mut Option<Guard>) {
        if self.cache.set_unserved() {
            tracing::info!(kind = self.cache.kind(), "the API server does not serve this resource");
        }
        ready.take().into_iter().for_each(Guard::done);
    }

    async fn until_undefined(&self) {
        while self.is_served() != Some(false) {
            self.changed.notified().await;
        }
    }

    /// `None`: not known yet.
    fn is_served(&self) -> Option<bool> {
        let served = self.served.get("", self.name);
        self.served.synced().then(|| served.is_some_and(|served| *served))
    }
}
