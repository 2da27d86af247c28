//! What there is to put back, read from the API server. A cluster has many objects, so they are looked at a page at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::GroupKind;
use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_rollout::mode::ServiceView;
use hitless_runtime::list;
use hitless_runtime::write::WriteError;
use hitless_workloads::{Kind, Object, Resource};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::{DynamicObject, ListParams};

use super::companions::{Farewell, farewells};
use super::{Found, Restore, RestoreError, Restorer, wanted};
use crate::api_resource;

impl Restorer {
    /// What is to be put back now.
    pub async fn look(&self) -> Found {
        let mut found = Found::default();
        let pods = found.take(self.pods().await.map_err(|error| reading("pods", error)));
        // Pods come first, because requests wait for them.
        found.wanted.extend(wanted::raise(&pods).chain(wanted::delete(&pods)));
        let mut without_parts: Vec<&GroupKind> = Vec::new();
        for (kind, resource) in wanted::resources(&self.components) {
            // A workload that is let go may need its parts: it waits until they can be read.
            if without_parts.contains(&&resource.group_kind) {
                continue;
            }
            let released = self.released(kind, resource).await;
            if released.is_err() {
                without_parts.extend(kind.resources().first().map(|workload| &workload.group_kind));
            }
            for restore in found.take(released) {
                let restore = found.take(restore.map(Some));
                found.wanted.extend(restore);
            }
        }
        match self.services().await {
            Ok(services) => {
                found.wanted.extend(wanted::close(&services));
                for farewell in farewells(&pods, &services, Timestamp::now()) {
                    match farewell {
                        Farewell::Delete(pod) => found.wanted.push(Restore::delete(&pod)),
                        Farewell::Lower { pod, resource_version } => {
                            found.wanted.push(Restore::Lower { pod, resource_version });
                        }
                        Farewell::Wait(pod, why) => found.waiting.push((pod, why)),
                    }
                }
            }
            // Without them nobody knows whether a companion has clients.
            Err(error) => found.take(Err(reading("services", error))),
        }
        found
    }

    /// Whether any Service is open, and those that can be closed.
    pub(super) async fn look_at_open(&self, live: &BTreeSet<String>) -> (bool, Found) {
        let mut found = Found::default();
        let services = found.take(self.services().await.map_err(|error| reading("services", error)));
        let open: Vec<Arc<ServiceView>> = services.into_iter().filter(|service| service.held_by.is_some()).collect();
        let namespaces: BTreeSet<&str> = open.iter().map(|service| service.namespace.as_str()).collect();
        let mut pods = Vec::new();
        for namespace in namespaces {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let of_namespace = list::all(&api, ListParams::default(), |pod| Some(Arc::new(PodView::from(&pod)))).await;
            pods.extend(found.take(of_namespace.map_err(|error| reading("pods", error))));
        }
        if found.failed.is_empty() {
            found.wanted.extend(wanted::close_ended(&open, &pods, live, Timestamp::now()));
        }
        (!open.is_empty(), found)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match &self.namespace {
            None => Api::all(self.client.clone()),
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
        }
    }

    /// Those pods that something may have to be done about: all are kept only in namespaces with companion pods, which wait for the
    /// others there.
    async fn pods(&self) -> Result<Vec<Arc<PodView>>, WriteError> {
        let all: Api<Pod> = self.api();
        let companions = ListParams::default().labels(labels::COMPANION);
        let namespaces = list::all_metadata(&all, companions, |pod| pod.metadata.namespace).await?;
        let namespaces: BTreeSet<String> = namespaces.into_iter().collect();
        let matters = |pod: PodView| {
            let is_kept = wanted::is_out(&pod)
                || pod.labels.contains_key(labels::PREFETCH)
                || namespaces.contains(&pod.id.namespace);
            is_kept.then(|| Arc::new(pod))
        };
        list::all(&all, ListParams::default(), |pod| matters(PodView::from(&pod))).await
    }

    async fn services(&self) -> Result<Vec<Arc<ServiceView>>, WriteError> {
        let services: Api<Service> = self.api();
        list::all(&services, ListParams::default(), |service| Some(Arc::new(ServiceView::from(&service)))).await
    }

    /// What is to be done about the resource's objects, of which only that is kept.
    async fn released(
        &self,
        kind: &dyn Kind,
        resource: &'static Resource,
    ) -> Result<Vec<Result<Restore, RestoreError>>, RestoreError> {
        let known = api_resource(resource);
        let api: Api<DynamicObject> = match &self.namespace {
            None => Api::all_with(self.client.clone(), &known),
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &known),
        };
        let all = ListParams::default();
        let view = |object| read(kind, resource, object).map(|object| wanted::release(kind, &object?)).transpose();
        let listed = if resource.optional {
            list::all_if_served(&api, all, view).await.map(Option::unwrap_or_default)
        } else {
            list::all(&api, all, view).await
        };
        listed.map_err(|error| reading(resource.plural, error))
    }
}

fn reading(what: &'static str, error: WriteError) -> RestoreError {
    RestoreError::Read { what, error }
}

fn read(kind: &dyn Kind, resource: &Resource, object: DynamicObject) -> Result<Option<Object>, RestoreError> {
    let meta = &object.metadata;
    let name = format!(
        "{} {}/{}",
        resource.group_kind,
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    );
    let object = serde_json::to_value(object)?;
    kind.read(&resource.group_kind, object).map(Some).map_err(|error| RestoreError::Parse { name, error })
}
