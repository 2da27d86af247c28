//! The watched caches, and the snapshot that is taken of them.

mod known_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use hitless_api::large::outline_of_pod;
use hitless_api::names::{self, AGENT, OTHER_PODS, PREFETCH_PODS};
use hitless_api::pod::PodView;
use hitless_api::{
    DrainPolicy, GroupKind, Lenient, NodeTransition, ObjectRef, PodTransitionRule, TrafficProvider, TransitionBudget,
    TransitionLedger,
};
use hitless_gate::{Budget, DisruptionBudget};
use hitless_rollout::kuperator::{self, Kuperator, LeaseView};
use hitless_rollout::mode::{PolicyView, ServiceView};
use hitless_rollout::pools::ProviderView;
use hitless_rollout::prefetch::{NamePool, PrefetchView};
use hitless_runtime::readiness::Readiness;
use hitless_runtime::shutdown::BoxError;
use hitless_runtime::watch::{self, Cache, Definition, Listing, Outline, Selection, Source};
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::api_resource;
use hitless_workloads::interest::Interest;
use hitless_workloads::{Component, Holder, Installed, KINDS, Kind, Object, REQUESTS, Resource, large, registry};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use hitless_rollout::snapshot::{
    BindingView, LedgerView, Namespaces, NodeTransitionView, NodeView, RuleView, Snapshot,
};
use known_pods::KnownPods;
pub(crate) use known_pods::UnreadPods;

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
    pub(crate) pods: Cache<Pod, PodView>,
    pub(crate) prefetches: Cache<Pod, PrefetchView>,
    pub(crate) nodes: Cache<Node, NodeView>,
    pub(crate) node_transitions: Cache<NodeTransition, NodeTransitionView>,
    pub(crate) ledgers: Cache<TransitionLedger, LedgerView>,
    pub(crate) bindings: Cache<RoleBinding, BindingView>,
    pub(crate) rules: Cache<Lenient<PodTransitionRule>, RuleView>,
    pub(crate) budgets: Cache<Lenient<TransitionBudget>, Budget>,
    pub(crate) disruption_budgets: Cache<PodDisruptionBudget, DisruptionBudget>,
    pub(crate) services: Cache<Service, ServiceView>,
    pub(crate) drain_policies: Cache<Lenient<DrainPolicy>, PolicyView>,
    pub(crate) providers: Cache<TrafficProvider, ProviderView>,
    interest: Arc<Mutex<Interest>>,
    known_pods: Arc<KnownPods>,
    installed: Arc<Installed>,
    kuperator: KuperatorCaches,
}

/// By what KusionStack's own manager is seen. They are filled only where a component of KusionStack's is installed.
#[derive(Clone)]
struct KuperatorCaches {
    leases: Cache<Lease, LeaseView>,
    mutating: Cache<MutatingWebhookConfiguration, String>,
    validating: Cache<ValidatingWebhookConfiguration, String>,
}

impl KuperatorCaches {
    fn new(wake: &Arc<Notify>, metrics: &watch::Metrics) -> Self {
        let (wake, metrics) = (|| wake.clone(), || metrics.clone());
        Self {
            leases: Cache::new("Lease", |lease| LeaseView::of(&lease), wake(), metrics()),
            mutating: Cache::new(
                "MutatingWebhookConfiguration",
                |each: MutatingWebhookConfiguration| each.metadata.name,
                wake(),
                metrics(),
            ),
            validating: Cache::new(
                "ValidatingWebhookConfiguration",
                |each: ValidatingWebhookConfiguration| each.metadata.name,
                wake(),
                metrics(),
            ),
        }
    }

    fn synced(&self) -> bool {
        self.leases.synced() && self.mutating.synced() && self.validating.synced()
    }
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
        Self { installed: Arc::new(installed.clone()), ..Self::of(registry::resources_of(installed), wake, metrics) }
    }

    fn of(
        resources: impl Iterator<Item = (Holder, &'static Resource)>,
        wake: &Arc<Notify>,
        metrics: &watch::Metrics,
    ) -> Self {
        let interest = Arc::new(Mutex::new(Interest::default()));
        let known_pods = Arc::new(KnownPods::default());
        Self {
            installed: Arc::default(),
            kuperator: KuperatorCaches::new(wake, metrics),
            objects: resources
                .map(|(holder, resource)| {
                    let interest = Arc::clone(&interest);
                    let view = move |object| {
                        let object = read(holder, resource, object)?;
                        // What a panic has left is as good as any: too little is found, and read again.
                        Some(interest.lock().unwrap_or_else(PoisonError::into_inner).view(object))
                    };
                    let outline = Some(large::outline as Outline);
                    let cache = Cache::outlining(resource.plural, view, outline, wake.clone(), metrics.clone());
                    Objects { resource, cache }
                })
                .collect(),
            pods: {
                let known = Arc::clone(&known_pods);
                Cache::outlining(
                    "Pod",
                    move |pod| known.view(&pod),
                    Some(outline_of_pod),
                    wake.clone(),
                    metrics.clone(),
                )
            },
            interest,
            known_pods,
            prefetches: {
                let view = |pod| PrefetchView::of(&pod);
                Cache::outlining("prefetch Pod", view, Some(outline_of_pod), wake.clone(), metrics.clone())
            },
            nodes: {
                let names = Mutex::new(NamePool::default());
                let view = move |node| {
                    // A panic while it was locked leaves a pool that is as good as any.
                    let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
                    Some(NodeView::of(&node, &mut names))
                };
                Cache::new("Node", view, wake.clone(), metrics.clone())
            },
            node_transitions: Cache::new(
                "NodeTransition",
                |each| Some(NodeTransitionView::from(each)),
                wake.clone(),
                metrics.clone(),
            ),
            ledgers: Cache::new("TransitionLedger", LedgerView::of, wake.clone(), metrics.clone()),
            bindings: Cache::new("RoleBinding", |each| BindingView::of(&each), wake.clone(), metrics.clone()),
            rules: Cache::new("PodTransitionRule", |rule| Some(RuleView::from(rule)), wake.clone(), metrics.clone()),
            budgets: Cache::new("TransitionBudget", |each| Some(Budget::from(each)), wake.clone(), metrics.clone()),
            disruption_budgets: Cache::new(
                "PodDisruptionBudget",
                |each| Some(DisruptionBudget::from(each)),
                wake.clone(),
                metrics.clone(),
            ),
            services: Cache::new("Service", |each| Some(ServiceView::from(&each)), wake.clone(), metrics.clone()),
            providers: Cache::new(
                "TrafficProvider",
                |each| Some(ProviderView::from(each)),
                wake.clone(),
                metrics.clone(),
            ),
            drain_policies: Cache::new(
                "DrainPolicy",
                |each| Some(PolicyView::from(each)),
                wake.clone(),
                metrics.clone(),
            ),
        }
    }

    /// The tasks that fill them.
    #[must_use]
    pub fn watches(&self, client: &Client, readiness: &Readiness, token: &CancellationToken) -> Vec<Watch> {
        let start = Start { readiness, token };
        let all = || Selection::all(PAGED);
        // RBAC knows objects of one name, in all namespaces, as a right to that name.
        let named = |name: &str| Selection::fields(format!("metadata.name={name}"), PAGED);
        let objects = self.objects.iter().map(|Objects { resource, cache }| {
            let api = Api::all_with(client.clone(), &api_resource(resource));
            if resource.optional {
                start.watch_optional(resource, client.clone(), api, cache)
            } else {
                start.watch(resource.plural, api, Selection::all(LONG), cache)
            }
        });
        let others = [
            start.watch("pods", Api::all(client.clone()), Selection::labels(OTHER_PODS, PAGED), &self.pods),
            start.watch(
                "prefetch pods",
                Api::all(client.clone()),
                Selection::labels(PREFETCH_PODS, PAGED),
                &self.prefetches,
            ),
            start.watch("nodes", Api::all(client.clone()), all(), &self.nodes),
            start.watch("nodetransitions", Api::all(client.clone()), all(), &self.node_transitions),
            start.watch("transitionledgers", Api::all(client.clone()), all(), &self.ledgers),
            start.watch("rolebindings", Api::all(client.clone()), named(AGENT), &self.bindings),
            start.watch("podtransitionrules", Api::all(client.clone()), all(), &self.rules),
            start.watch("transitionbudgets", Api::all(client.clone()), all(), &self.budgets),
            start.watch("poddisruptionbudgets", Api::all(client.clone()), all(), &self.disruption_budgets),
            start.watch("services", Api::all(client.clone()), all(), &self.services),
            start.watch("trafficproviders", Api::all(client.clone()), all(), &self.providers),
            start.watch("drainpolicies", Api::all(client.clone()), all(), &self.drain_policies),
        ];
        let mut watches: Vec<Watch> = objects.chain(others).collect();
        if self.looks_for_kuperator() {
            let [mutating, validating] = kuperator::WEBHOOKS;
            let KuperatorCaches { leases, mutating: first, validating: second } = &self.kuperator;
            watches.extend([
                start.watch("leases", Api::all(client.clone()), named(kuperator::LEASE), leases),
                start.watch("mutating webhooks", Api::all(client.clone()), named(mutating), first),
                start.watch("validating webhooks", Api::all(client.clone()), named(validating), second),
            ]);
        }
        watches
    }

    fn looks_for_kuperator(&self) -> bool {
        self.installed.components.contains(&Component::KusionStack)
    }

    /// KusionStack's own manager, if it is there.
    fn kuperator(&self, now: Timestamp) -> Option<Kuperator> {
        let KuperatorCaches { leases, mutating, validating } = &self.kuperator;
        let webhooks = mutating.values().into_iter().chain(validating.values());
        let webhooks: Vec<String> = webhooks.map(|name| String::clone(&name)).collect();
        Kuperator::seen(leases.values().first().map(|lease| &**lease), &webhooks, now)
    }

    /// Newest resourceVersion of a NodeTransition that was read.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.node_transitions.newest()
    }

    /// Whether every cache has been filled once. One of an optional resource need not be, as long as its definition is not there or its
    /// objects can't be listed.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.objects.iter().all(|objects| objects.cache.synced() || objects.cache.unreadable())
            && self.pods.synced()
            && self.prefetches.synced()
            && self.nodes.synced()
            && self.node_transitions.synced()
            && self.ledgers.synced()
            && self.bindings.synced()
            && self.rules.synced()
            && self.budgets.synced()
            && self.disruption_budgets.synced()
            && self.services.synced()
            && self.drain_policies.synced()
            && self.providers.synced()
            && (!self.looks_for_kuperator() || self.kuperator.synced())
    }

    /// Reads a workload and its namespace's ledger afresh. What is gone stays until the watch tells.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub(crate) async fn read(&self, client: &Client, workload: &ObjectRef) -> Result<(), WriteError> {
        let known = self.objects.iter().find(|known| known.resource.group_kind == workload.group_kind);
        let Some(Objects { resource, cache }) = known else { return Ok(()) };
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &workload.namespace, &api_resource(resource));
        fetch(api.into(), cache, &workload.name).await?;
        // What its pods have reached says nothing while one of them may still be brought back.
        let ledgers: Api<TransitionLedger> = Api::namespaced(client.clone(), &workload.namespace);
        if let Some(ledger) = Writes::read(ledgers.get_opt(names::LEDGER)).await? {
            self.ledgers.put(ledger);
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
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), &part.namespace, &api_resource(resource));
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
        self.known_pods.unread(client, &self.pods, wanted, named, wake)
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
        self.interest.lock().unwrap_or_else(PoisonError::into_inner).full()
    }

    /// What is in them at this time. Who leads and what is remembered is added by the caller.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        let all: Vec<Arc<Object>> = self.objects.iter().flat_map(|objects| objects.cache.values()).collect();
        self.interest.lock().unwrap_or_else(PoisonError::into_inner).keep_only(&all);
        let unreadable = self.unreadable();
        let is_readable = |object: &Arc<Object>| !unreadable.contains(&object.id.group_kind);
        Snapshot {
            objects: all.into_iter().filter(is_readable).collect(),
            prefetches: self.prefetches.values(),
            nodes: by_name(&self.nodes),
            node_transitions: by_name(&self.node_transitions),
            ledgers: self.ledgers.values().into_iter().map(|ledger| (ledger.namespace.clone(), ledger)).collect(),
            bindings: self.bindings.values().into_iter().map(|each| (each.namespace.clone(), each)).collect(),
            rules: self.rules.values(),
            budgets: self.budgets.values(),
            disruption_budgets: self.disruption_budgets.values(),
            services: self.services.values(),
            drain_policies: self.drain_policies.values(),
            providers: self.providers.values(),
            unreadable,
            ..Snapshot::default()
        }
        .with_pods(self.pods.values())
        .leaving_alone(&self.installed, self.kuperator(now))
    }
}

struct Start<'a> {
    readiness: &'a Readiness,
    token: &'a CancellationToken,
}

impl Start<'_> {
    fn watch<K, T>(&self, name: &'static str, api: Api<K>, selection: Selection, cache: &Cache<K, T>) -> Watch
    where
        K: kube::Resource + DeserializeOwned + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let guard = self.readiness.guard(format!("{name} listed"));
        let run = watch::run(api, selection, cache.clone(), guard, self.token.clone());
        (name, Box::pin(async move { run.await.map_err(Into::into) }))
    }

    fn watch_optional(
        &self,
        resource: &Resource,
        client: Client,
        api: Api<DynamicObject>,
        cache: &Cache<DynamicObject, Object>,
    ) -> Watch {
        let name = resource.plural;
        let definition = Definition { name: resource.definition(), version: resource.version.to_owned() };
        let (guard, selection) = (self.readiness.guard(format!("{name} listed")), Selection::all(LONG));
        let run = watch::run_optional(client, definition, api, selection, cache.clone(), guard, self.token.clone());
        (name, Box::pin(async move { run.await.map_err(Into::into) }))
    }
}

fn by_name<K, T>(cache: &Cache<K, T>) -> BTreeMap<String, Arc<T>> {
    cache.snapshot().into_iter().map(|(key, value)| (key.name, value)).collect()
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
