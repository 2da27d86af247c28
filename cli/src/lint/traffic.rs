//! Services that want a load balancer outside of the cluster: whether they get the pool that they name.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::TrafficProvider;
use hitless_rollout::mode::ServiceView;
use hitless_rollout::pools::{Flaw, Pools, ProviderView};
use k8s_openapi::api::core::v1::Service;

use super::finding::Finding;
use crate::files::Object;

/// What the controller would say of them. A TrafficProvider that is not in the files may be in the cluster.
pub(super) fn check(objects: &[Object]) -> Vec<Finding> {
    let is = |object: &&Object, group: &str, kind: &str| object.group() == group && object.kind() == kind;
    let providers = objects.iter().filter(|object| is(object, "hitless.dev", "TrafficProvider"));
    let providers: Vec<Arc<ProviderView>> = providers
        .filter_map(|object| object.read::<TrafficProvider>().ok())
        .map(|each| Arc::new(each.into()))
        .collect();
    let mut found = Vec::new();
    for object in objects.iter().filter(|object| is(object, "", "Service")) {
        let Ok(service) = object.read::<Service>() else { continue };
        let services = [Arc::new(ServiceView::from(&service))];
        for (_, flaw) in Pools::of(&services, &providers, &BTreeMap::new()).flaws() {
            let line = object.node.line_of(&["metadata", "annotations", "hitless.dev/traffic"]);
            match flaw {
                Flaw::NoProvider(_) => {}
                Flaw::NoPool => found.push(Finding::warning(object, line, flaw.to_string())),
                Flaw::Unreadable(_) | Flaw::NotAdmitted { .. } | Flaw::Port { .. } => {
                    found.push(Finding::error(object, line, flaw.to_string()));
                }
            }
        }
    }
    found
}
