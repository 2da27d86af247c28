//! What the managers are seen by that kinds come from.

use std::sync::Arc;

use hitless_rollout::foreign_manager::{LeaseView, PresentManager};
use hitless_runtime::watch::{self, Cache};
use hitless_store::inputs::Select;
use hitless_workloads::{Component, ForeignManager};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::Notify;

use super::{PAGED, Start, Watch};

/// By what the manager of a component's kinds is seen.
pub(super) struct ManagerCaches {
    component: &'static Component,
    leases: Cache<Lease, LeaseView>,
    mutating: Cache<MutatingWebhookConfiguration, String>,
    validating: Cache<ValidatingWebhookConfiguration, String>,
}

impl ManagerCaches {
    pub(super) fn new(component: &'static Component, wake: &Arc<Notify>, metrics: &watch::Metrics) -> Self {
        let manager = &component.manager;
        let (wake, metrics) = (|| wake.clone(), || metrics.clone());
        Self {
            component,
            leases: Cache::new("Lease", |lease| LeaseView::of(manager, &lease), wake(), metrics()),
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

    /// The tasks that fill them.
    pub(super) fn watches(&self, start: &Start<'_>) -> [Watch; 3] {
        let named = |name| Select::Named(name).watch(PAGED);
        let ForeignManager { lease, mutating, validating, .. } = &self.component.manager;
        let client = || start.client.clone();
        [
            start.watch("leases", Api::<Lease>::all(client()), named(lease), &self.leases),
            start.watch(
                "mutating webhooks",
                Api::<MutatingWebhookConfiguration>::all(client()),
                named(mutating),
                &self.mutating,
            ),
            start.watch(
                "validating webhooks",
                Api::<ValidatingWebhookConfiguration>::all(client()),
                named(validating),
                &self.validating,
            ),
        ]
    }

    pub(super) fn synced(&self) -> bool {
        self.leases.synced() && self.mutating.synced() && self.validating.synced()
    }

    /// The manager, if it is there.
    pub(super) fn present(&self, now: Timestamp) -> Option<(&'static Component, PresentManager)> {
        let webhooks = self.mutating.values().into_iter().chain(self.validating.values());
        let webhooks: Vec<String> = webhooks.map(|name| String::clone(&name)).collect();
        let lease = self.leases.values();
        let present =
            PresentManager::seen(&self.component.manager, lease.first().map(|lease| &**lease), &webhooks, now)?;
        Some((self.component, present))
    }
}
