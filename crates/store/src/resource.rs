//! Resources of kinds as the client knows them.

use hitless_api::GroupKind;
use hitless_workloads::Resource;
use kube::api::{ApiResource, GroupVersionKind};

/// A workload's resource as requests name it. Its objects are read as raw JSON: a template must survive being copied.
#[must_use]
pub fn api_resource(resource: &Resource) -> ApiResource {
    let GroupKind { group, kind } = &resource.group_kind;
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, resource.version, kind), resource.plural)
}
