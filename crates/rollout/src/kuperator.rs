//! Whether KusionStack's own manager runs in the cluster. Then its kinds are its own: two controllers of one CollaSet would both
//! make pods.

use std::fmt;
use std::sync::Arc;

use hitless_api::GroupKind;
use hitless_workloads::{Component, Holder, Installed, Object, registry};
use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::api::coordination::v1::Lease;

use crate::snapshot::Snapshot;

/// Namespace that it is installed in.
pub const NAMESPACE: &str = "kusionstack-system";
/// Name of the Lease by which its processes elect a leader.
pub const LEASE: &str = "kusionstack-controller-manager";
/// Names of its webhook configurations, the mutating one first.
pub const WEBHOOKS: [&str; 2] =
    ["kusionstack-controller-manager-mutating", "kusionstack-controller-manager-validating"];

/// A Lease that nobody has renewed for so long is nobody's, whatever its own duration says.
const STALE: SignedDuration = SignedDuration::from_mins(2);
/// So coarse is what is kept of the time of the last renewal: every renewal would be a change else.
const COARSE: SignedDuration = SignedDuration::from_secs(30);

/// Its Lease, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it; empty where it was given back.
    pub holder: String,
    /// When it was renewed last, a little earlier at most.
    pub renewed: Option<Timestamp>,
    /// After so long without a renewal it is nobody's.
    pub stale_after: SignedDuration,
}

impl LeaseView {
    /// Of the Lease; nothing of another one.
    #[must_use]
    pub fn of(lease: &Lease) -> Option<Self> {
        let meta = &lease.metadata;
        if meta.namespace.as_deref() != Some(NAMESPACE) || meta.name.as_deref() != Some(LEASE) {
            return None;
        }
        let spec = lease.spec.clone().unwrap_or_default();
        let duration = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or_default().into());
        let renewed = spec.renew_time.map(|time| time.0);
        let coarse = |time: Timestamp| {
            let time = time.round(Unit::Second).unwrap_or(time);
            let over = time.as_second().rem_euclid(COARSE.as_secs());
            time.checked_sub(SignedDuration::from_secs(over)).unwrap_or(time)
        };
        Some(Self {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: renewed.map(coarse),
            stale_after: STALE.max(duration * 4) + COARSE,
        })
    }

    /// Whether somebody holds it.
    fn is_held(&self, now: Timestamp) -> bool {
        let last = self.renewed.and_then(|renewed| renewed.checked_add(self.stale_after).ok());
        !self.holder.is_empty() && last.is_some_and(|last| now < last)
    }
}

/// By what it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kuperator {
    /// This process of it leads.
    Leads(String),
    /// This webhook configuration of its is there: it changes pods even where no process of it leads.
    Webhooks(String),
}

impl Kuperator {
    /// What is seen of it: its Lease, and the names of its webhook configurations that are there. Nothing: it is not there.
    #[must_use]
    pub fn seen(lease: Option<&LeaseView>, webhooks: &[String], now: Timestamp) -> Option<Self> {
        let leads = lease.filter(|lease| lease.is_held(now)).map(|lease| Self::Leads(lease.holder.clone()));
        leads.or_else(|| webhooks.first().map(|name| Self::Webhooks(name.clone())))
    }
}

/// For people.
impl fmt::Display for Kuperator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leads(holder) => {
                write!(formatter, "KusionStack's own manager runs here: {holder} holds Lease {NAMESPACE}/{LEASE}")
            }
            Self::Webhooks(name) => {
                write!(formatter, "KusionStack's own manager is installed here: webhook configuration {name} is there")
            }
        }
    }
}

/// The kinds that are left alone: all of KusionStack's while its own manager is there, else those that are not on.
pub fn left(installed: &Installed, kuperator: Option<&Kuperator>) -> impl Iterator<Item = &'static GroupKind> {
    let of_kusionstack = registry::holders().filter(|holder| holder.component() == Component::KusionStack);
    of_kusionstack.filter(move |holder| kuperator.is_some() || !installed.has(*holder)).filter_map(Holder::own)
}

impl Snapshot {
    /// With this seen of KusionStack's manager, and these kinds on. The objects of kinds that are left alone are set apart.
    #[must_use]
    pub fn leaving_alone(mut self, installed: &Installed, kuperator: Option<Kuperator>) -> Self {
        self.left = left(installed, kuperator.as_ref()).cloned().collect();
        let is_left = |object: &Arc<Object>| self.left.contains(&object.id.group_kind);
        let (left, objects): (Vec<_>, Vec<_>) = std::mem::take(&mut self.objects).into_iter().partition(is_left);
        (self.left_objects, self.objects) = (left, objects);
        self.kuperator = kuperator;
        self.installed = Arc::new(installed.clone());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(holder: &str, renewed: &str) -> LeaseView {
        let lease = json!({"metadata": {"namespace": NAMESPACE, "name": LEASE},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}});
        LeaseView::of(&serde_json::from_value(lease).unwrap()).unwrap()
    }

    #[test]
    fn it_is_there_as_long_as_somebody_renews_the_lease_or_a_webhook_is_left() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let seen = |lease: Option<&LeaseView>, webhooks: &[&str]| {
            let webhooks: Vec<String> = webhooks.iter().map(|name| (*name).to_owned()).collect();
            Kuperator::seen(lease, &webhooks, now)
        };
        assert_eq!(seen(None, &[]), None);
        let (fresh, old) = (lease("m-0", "2026-01-01T00:09:40.000000Z"), lease("m-0", "2026-01-01T00:05:00.000000Z"));
        assert_eq!(seen(Some(&fresh), &[]), Some(Kuperator::Leads("m-0".into())));
        assert_eq!(seen(Some(&old), &[]), None, "nobody has renewed it for long");
        assert_eq!(seen(Some(&lease("", "2026-01-01T00:09:59.000000Z")), &[]), None, "it was given back");
        assert_eq!(seen(Some(&old), &[WEBHOOKS[0]]), Some(Kuperator::Webhooks(WEBHOOKS[0].into())));
    }

    #[test]
    fn the_lease_of_another_name_says_nothing_and_renewals_close_together_are_one() {
        let other = json!({"metadata": {"namespace": "default", "name": LEASE}});
        assert_eq!(LeaseView::of(&serde_json::from_value(other).unwrap()), None);
        assert_eq!(lease("m", "2026-01-01T00:00:01.000000Z"), lease("m", "2026-01-01T00:00:28.900000Z"));
    }
}
