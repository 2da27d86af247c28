//! Resources of kinds as the client knows them.

use hitless_api::GroupKind;
use hitless_workloads::Resource;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};

/// A workload's resource as requests name it. Its objects are read as raw JSON: a template must survive being copied.
#[must_use]
pub fn api_resource(resource: &Resource) -> ApiResource {
    let GroupKind { group, kind } = &resource.group_kind;
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, resource.version, kind), resource.plural)
}

/// The interface of a resource's objects in a namespace; of one that is in none, whatever the namespace.
#[must_use]
pub fn api_of(client: &Client, resource: &Resource, namespace: &str) -> Api<DynamicObject> {
    let kind = api_resource(resource);
    if resource.is_namespaced {
        Api::namespaced_with(client.clone(), namespace, &kind)
    } else {
        Api::all_with(client.clone(), &kind)
    }
}
