//! The watched caches, and the snapshot that is taken of them.

mod known_pods;
mod managers;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use hitless_api::{GroupKind, ObjectRef, TransitionLedger, names};
use hitless_rollout::foreign_manager::PresentManagers;
use hitless_rollout::snapshot::{Namespaces, Snapshot};
use hitless_runtime::readiness::Readiness;
use hitless_runtime::shutdown::BoxError;
use hitless_runtime::watch::{self, Cache, Definition, Listing, Outline, Selection, Source};
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::inputs::rows::Pods;
use hitless_store::inputs::{Input, Inputs, Visit, each};
use hitless_store::{Cached, Empty, api_of, api_resource};
use hitless_workloads::retention::Retention;
use hitless_workloads::{Holder, Installed, KINDS, Kind, Object, REQUESTS, Resource, large};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use known_pods::KnownPods;
pub(crate) use known_pods::UnreadPods;
use managers::ManagerCaches;

/// Objects in one page of a list.
const PAGED: Listing = Listing::Paged(500);
/// The same of workloads and their parts, whose templates are long.
const LONG: Listing = Listing::Paged(100);
/// Single objects that are read at a time.
const READS_AT_A_TIME: usize = 16;

/// Everything that is watched. Clones share the content.
#[derive(Clone)]
pub struct Caches {
    pub(crate) objects: Arc<[Objects]>,
    pub(crate) inputs: Arc<Inputs<Cached>>,
    retention: Arc<Mutex<Retention>>,
    known_pods: Arc<KnownPods>,
    installed: Arc<Installed>,
    managers: Arc<[ManagerCaches]>,
}

/// The objects of one resource of workloads' kinds.
pub(crate) struct Objects {
    pub(crate) resource: &'static Resource,
    pub(crate) cache: Cache<DynamicObject, Object>,
}

/// A task that keeps a cache up to date, and its name.
pub type Watch = (&'static str, BoxFuture<'static, Result<(), BoxError>>);

impl Caches {
    /// Empty caches that notify `wake`, for what is installed.
    #[must_use]
    pub fn new(installed: &Installed, wake: &Arc<Notify>, metrics: &watch::Metrics) -> Self {
        let managers = installed.components.iter().map(|component| ManagerCaches::new(component, wake, metrics));
        Self {
            installed: Arc::new(installed.clone()),
            managers: managers.collect(),
            ..Self::of(installed.resources(), wake, metrics)
        }
    }

    fn of(
        resources: impl Iterator<Item = (Holder, &'static Resource)>,
        wake: &Arc<Notify>,
        metrics: &watch::Metrics,
    ) -> Self {
        let retention = Arc::new(Mutex::new(Retention::default()));
        let known_pods = Arc::new(KnownPods::default());
        let known = Arc::clone(&known_pods);
        let mut empty = Empty { wake, metrics };
        let pods = empty.viewing::<Pods>(move |pod| known.view(&pod));
        Self {
            installed: Arc::default(),
            managers: Arc::default(),
            objects: resources
                .map(|(holder, resource)| {
                    let retention = Arc::clone(&retention);
                    let view = move |object| {
                        let object = read(holder, resource, object)?;
                        // What a panic has left is as good as any: too little is found, and read again.
                        Some(retention.lock().unwrap_or_else(PoisonError::into_inner).view(object))
                    };
                    let outline = Some(large::outline as Outline);
                    let cache = Cache::outlining(resource.plural, view, outline, wake.clone(), metrics.clone());
                    Objects { resource, cache }
                })
                .collect(),
            inputs: Arc::new(Inputs::<Cached> { pods, ..Inputs::new(&mut empty) }),
            retention,
            known_pods,
        }
    }

    /// The tasks that fill them.
    #[must_use]
    pub fn watches(&self, client: &Client, readiness: &Readiness, token: &CancellationToken) -> Vec<Watch> {
        let start = Start { client, readiness, token };
        let objects = self.objects.iter().map(|Objects { resource, cache }| {
            let api = Api::all_with(client.clone(), &api_resource(resource));
            if resource.optional {
                start.watch_optional(resource, api, cache)
            } else {
                start.watch(resource.plural, api, Selection::all(LONG), cache)
            }
        });
        let mut inputs = WatchInputs { start: &start, inputs: &self.inputs, watches: objects.collect() };
        each(&mut inputs);
        let WatchInputs { mut watches, .. } = inputs;
        watches.extend(self.managers.iter().flat_map(|manager| manager.watches(&start)));
        watches
    }

    /// The managers that are there and that kinds come from.
    fn present(&self, now: Timestamp) -> PresentManagers {
        self.managers.iter().filter_map(|manager| manager.present(now)).collect()
    }

    /// Newest resourceVersion of a NodeTransition that was read.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.inputs.node_transitions.newest()
    }

    /// Whether every cache has been filled once. One of an optional resource need not be, as long as its definition is not there or its
    /// objects can't be listed.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.objects.iter().all(|objects| objects.cache.synced() || objects.cache.unreadable())
            && self.inputs.synced()
            && self.managers.iter().all(ManagerCaches::synced)
    }

    /// Reads a workload and its namespace's ledger afresh. What is gone stays until the watch tells.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub(crate) async fn read(&self, client: &Client, workload: &ObjectRef) -> Result<(), WriteError> {
        let known = self.objects.iter().find(|known| known.resource.group_kind == workload.group_kind);
        let Some(Objects { resource, cache }) = known else { return Ok(()) };
        let api: Api<DynamicObject> = api_of(client, resource, &workload.namespace);
        fetch(api.into(), cache, &workload.name).await?;
        // What its pods have reached says nothing while one of them may still be brought back.
        let ledgers: Api<TransitionLedger> = Api::namespaced(client.clone(), &workload.namespace);
        if let Some(ledger) = Writes::read(ledgers.get_opt(names::LEDGER)).await? {
            self.inputs.ledgers.put(ledger);
        }
        Ok(())
    }

    /// Reads parts of workloads that were seen before these opted in; says how many are there.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub(crate) async fn read_parts(&self, client: &Client, parts: &[ObjectRef]) -> Result<usize, WriteError> {
        let read = |part: ObjectRef| async move {
            let known = self.objects.iter().find(|known| known.resource.group_kind == part.group_kind);
            let Some(Objects { resource, cache }) = known else { return Ok::<_, WriteError>(false) };
            let api: Api<DynamicObject> = api_of(client, resource, &part.namespace);
            fetch(api.into(), cache, &part.name).await
        };
        let answers: Vec<bool> =
            stream::iter(parts.to_vec()).map(read).buffer_unordered(READS_AT_A_TIME).try_collect().await?;
        Ok(answers.into_iter().filter(|is_there| *is_there).count())
    }

    /// Where pods are not known of the namespaces in which something may be decided. They are being read, and `wake` is notified when
    /// they have been.
    pub(crate) fn unread_pods(
        &self,
        client: &Client,
        wanted: &Namespaces,
        named: &BTreeSet<String>,
        wake: &Arc<Notify>,
    ) -> UnreadPods {
        self.known_pods.unread(client, &self.inputs.pods, wanted, named, wake)
    }

    /// Workloads of kinds of which some resource can't be listed: without a part of their objects nothing may be decided about them.
    fn unreadable(&self) -> BTreeSet<GroupKind> {
        let failing = self.objects.iter().filter(|objects| objects.cache.unreadable());
        let failing: Vec<&GroupKind> = failing.map(|objects| &objects.resource.group_kind).collect();
        let needs = |kind: &&&dyn Kind| kind.resources().iter().any(|part| failing.contains(&&part.group_kind));
        let own = KINDS.iter().filter(needs).filter_map(|kind| kind.resources().first());
        let own = own.map(|own| own.group_kind.clone());
        let requests = REQUESTS.iter().flat_map(|kind| kind.resources()).map(|resource| &resource.group_kind);
        own.chain(requests.filter(|kind| failing.contains(kind)).cloned()).collect()
    }

    /// Namespaces of which more would have to be kept than may be, as of the last snapshot: nothing is to be decided there.
    pub(crate) fn full(&self) -> BTreeSet<String> {
        self.retention.lock().unwrap_or_else(PoisonError::into_inner).full()
    }

    /// What is in them at this time. Who leads and what is remembered is added by the caller.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        let all: Vec<Arc<Object>> = self.objects.iter().flat_map(|objects| objects.cache.values()).collect();
        self.retention.lock().unwrap_or_else(PoisonError::into_inner).keep_only(&all);
        let unreadable = self.unreadable();
        let is_readable = |object: &Arc<Object>| !unreadable.contains(&object.id.group_kind);
        let objects = all.into_iter().filter(is_readable).collect();
        Snapshot { objects, unreadable, ..self.inputs.snapshot() }.leaving_alone(&self.installed, self.present(now))
    }
}

struct Start<'a> {
    client: &'a Client,
    readiness: &'a Readiness,
    token: &'a CancellationToken,
}

impl Start<'_> {
    fn watch<K, T>(
        &self,
        name: &'static str,
        source: impl Into<Source>,
        selection: Selection,
        cache: &Cache<K, T>,
    ) -> Watch
    where
        K: kube::Resource + DeserializeOwned + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let guard = self.readiness.guard(format!("{name} listed"));
        let run = watch::run(source.into(), selection, cache.clone(), guard, self.token.clone());
        (name, Box::pin(async move { run.await.map_err(Into::into) }))
    }

    fn watch_optional(
        &self,
        resource: &Resource,
        api: Api<DynamicObject>,
        cache: &Cache<DynamicObject, Object>,
    ) -> Watch {
        let name = resource.plural;
        let definition = Definition { name: resource.definition(), version: resource.version.to_owned() };
        let (guard, selection) = (self.readiness.guard(format!("{name} listed")), Selection::all(LONG));
        let (client, cache, token) = (self.client.clone(), cache.clone(), self.token.clone());
        let run = watch::run_optional(client, definition, api, selection, cache, guard, token);
        (name, Box::pin(async move { run.await.map_err(Into::into) }))
    }
}

/// Watches each of the inputs.
struct WatchInputs<'a> {
    start: &'a Start<'a>,
    inputs: &'a Inputs<Cached>,
    watches: Vec<Watch>,
}

impl Visit for WatchInputs<'_> {
    fn visit<R: Input>(&mut self) {
        let api = R::api(self.start.client, None);
        self.watches.push(self.start.watch(R::PLURAL, api, R::SELECT.watch(PAGED), R::of(self.inputs)));
    }
}

/// Reads an object afresh; says whether it is there.
async fn fetch(source: Source, cache: &Cache<DynamicObject, Object>, name: &str) -> Result<bool, WriteError> {
    let text = Writes::read(source.get(name)).await?;
    let object = text.as_deref().and_then(|text| cache.read(text).ok());
    if let Some(object) = object {
        cache.put(object);
    }
    Ok(text.is_some())
}

/// An object of a workload's kind; one that does not parse is left out and logged.
fn read(holder: Holder, resource: &Resource, object: DynamicObject) -> Option<Object> {
    let name = object.metadata.name.clone();
    let value = serde_json::to_value(object).inspect_err(|error| tracing::error!(?name, %error, "not JSON")).ok()?;
    let object = holder.read(&resource.group_kind, value);
    object.inspect_err(|error| tracing::error!(?name, %error, "skipping an object that does not parse")).ok()
}

#[cfg(test)]
mod tests;
