//! What else has to be read to say which way pods go.

use std::sync::Arc;

use hitless_api::drain_policy::DEFAULT;
use hitless_api::{DrainPolicy, names};
use hitless_rollout::mode::PolicyView;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::ListParams;

use super::{Scope, list, optional, read, typed};
use crate::failure::Failure;
use crate::snapshot::{Part, Snapshot};

/// Reads everything once, with Services and DrainPolicies.
pub(crate) async fn read_with_modes(client: &Client, scope: &Scope) -> Result<Snapshot, Failure> {
    let (services, policies) = (typed::<Service>(client, scope), typed::<DrainPolicy>(client, scope));
    let default = async {
        let Some(system) = scope.besides_system() else { return Ok(Vec::new()) };
        // By name, so that a role that names it is enough.
        let only = ListParams::default().fields(&format!("metadata.name={DEFAULT}"));
        let what = format!("get DrainPolicy {DEFAULT} in {}", names::SYSTEM_NAMESPACE);
        list(&what, &typed::<DrainPolicy>(client, &system), only).await
    };
    let (snapshot, services, policies, default) = futures::join!(
        read(client, scope),
        list("list Services", &services, ListParams::default()),
        list("list DrainPolicies", &policies, ListParams::default()),
        default,
    );
    let mut snapshot = snapshot?;
    let unread = &mut snapshot.unread;
    let services = optional(Part::Services, services, unread)?.unwrap_or_default();
    let mut policies: Vec<Arc<PolicyView>> = optional(Part::DrainPolicies, policies, unread)?.unwrap_or_default();
    policies.extend(optional(Part::DefaultDrainPolicy, default, unread)?.unwrap_or_default());
    (snapshot.services, snapshot.drain_policies) = (services, policies);
    Ok(snapshot)
}
