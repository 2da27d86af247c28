//! Whether the managers that kinds come from run in the cluster. Then these kinds are theirs: two controllers of one CollaSet would both
//! make pods.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hitless_api::GroupKind;
use hitless_workloads::{Component, ForeignManager, Holder, Installed, Object, registry};
use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::api::coordination::v1::Lease;

use crate::snapshot::Snapshot;

/// A Lease that nobody has renewed for so long is nobody's, whatever its own duration says.
const STALE: SignedDuration = SignedDuration::from_mins(2);
/// So coarse is what is kept of the time of the last renewal: every renewal would be a change else.
const COARSE: SignedDuration = SignedDuration::from_secs(30);

/// The Lease of a manager, as far as it matters.
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
    /// Of the manager's Lease; nothing of another one.
    #[must_use]
    pub fn of(manager: &ForeignManager, lease: &Lease) -> Option<Self> {
        let meta = &lease.metadata;
        if meta.namespace.as_deref() != Some(manager.namespace) || meta.name.as_deref() != Some(manager.lease) {
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

/// A manager that is in the cluster, and by what it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentManager {
    manager: &'static ForeignManager,
    seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// This process of it leads.
    Leads(String),
    /// This webhook configuration of its is there: it changes pods even where no process of it leads.
    Webhooks(String),
}

impl PresentManager {
    /// The reason for leaving its kinds to it.
    #[must_use]
    pub const fn left(&self) -> &'static str {
        self.manager.left
    }

    /// What is seen of it: its Lease, and the names of its webhook configurations that are there. Nothing: it is not there.
    #[must_use]
    pub fn seen(
        manager: &'static ForeignManager,
        lease: Option<&LeaseView>,
        webhooks: &[String],
        now: Timestamp,
    ) -> Option<Self> {
        let leads = lease.filter(|lease| lease.is_held(now)).map(|lease| Seen::Leads(lease.holder.clone()));
        let seen = leads.or_else(|| webhooks.first().map(|name| Seen::Webhooks(name.clone())))?;
        Some(Self { manager, seen })
    }
}

/// For people.
impl fmt::Display for PresentManager {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForeignManager { name, namespace, lease, .. } = self.manager;
        match &self.seen {
            Seen::Leads(holder) => write!(formatter, "{name} runs here: {holder} holds Lease {namespace}/{lease}"),
            Seen::Webhooks(webhook) => {
                write!(formatter, "{name} is installed here: webhook configuration {webhook} is there")
            }
        }
    }
}

/// The managers that are in the cluster, by the component whose kinds are theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresentManagers(BTreeMap<&'static Component, PresentManager>);

impl PresentManagers {
    /// Whether none is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All that are there.
    pub fn iter(&self) -> impl Iterator<Item = &PresentManager> {
        self.0.values()
    }

    /// Their names for people.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.values().map(|present| present.manager.name)
    }

    /// The one whose kinds these are.
    #[must_use]
    pub fn of(&self, component: &Component) -> Option<&PresentManager> {
        self.0.get(component)
    }

    /// The one that has objects of this kind.
    #[must_use]
    pub fn of_kind(&self, kind: &GroupKind) -> Option<&PresentManager> {
        let (holder, _) = registry::resource(kind)?;
        self.of(holder.component()?)
    }

    /// The kinds that are left alone: those of managers that are there, and those that are not on.
    pub fn left(&self, installed: &Installed) -> impl Iterator<Item = &'static GroupKind> {
        let is_left = |holder: &Holder| {
            let component = holder.component();
            component.is_some_and(|component| self.of(component).is_some() || !installed.has(*holder))
        };
        registry::holders().filter(is_left).filter_map(Holder::own)
    }
}

impl FromIterator<(&'static Component, PresentManager)> for PresentManagers {
    fn from_iter<I: IntoIterator<Item = (&'static Component, PresentManager)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl Snapshot {
    /// With these managers seen, and these kinds on. The objects of kinds that are left alone are set apart.
    #[must_use]
    pub fn leaving_alone(mut self, installed: &Installed, present: PresentManagers) -> Self {
        self.left = present.left(installed).cloned().collect();
        let is_left = |object: &Arc<Object>| self.left.contains(&object.id.group_kind);
        let (left, objects): (Vec<_>, Vec<_>) = std::mem::take(&mut self.objects).into_iter().partition(is_left);
        (self.left_objects, self.objects) = (left, objects);
        self.managers = present;
        self.installed = Arc::new(installed.clone());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_workloads::COMPONENTS;
    use hitless_workloads::component::KUSIONSTACK;
    use serde_json::json;

    fn manager() -> &'static ForeignManager {
        &KUSIONSTACK.manager
    }

    fn lease(holder: &str, renewed: &str) -> LeaseView {
        let lease = json!({"metadata": {"namespace": manager().namespace, "name": manager().lease},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}});
        LeaseView::of(manager(), &serde_json::from_value(lease).unwrap()).unwrap()
    }

    #[test]
    fn it_is_there_as_long_as_somebody_renews_the_lease_or_a_webhook_is_left() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let seen = |lease: Option<&LeaseView>, webhooks: &[&str]| {
            let webhooks: Vec<String> = webhooks.iter().map(|name| (*name).to_owned()).collect();
            PresentManager::seen(manager(), lease, &webhooks, now).map(|present| present.seen)
        };
        assert_eq!(seen(None, &[]), None);
        let (fresh, old) = (lease("m-0", "2026-01-01T00:09:40.000000Z"), lease("m-0", "2026-01-01T00:05:00.000000Z"));
        assert_eq!(seen(Some(&fresh), &[]), Some(Seen::Leads("m-0".into())));
        assert_eq!(seen(Some(&old), &[]), None, "nobody has renewed it for long");
        assert_eq!(seen(Some(&lease("", "2026-01-01T00:09:59.000000Z")), &[]), None, "it was given back");
        let webhook = manager().mutating;
        assert_eq!(seen(Some(&old), &[webhook]), Some(Seen::Webhooks(webhook.into())));
    }

    #[test]
    fn the_lease_of_another_name_says_nothing_and_renewals_close_together_are_one() {
        let other = json!({"metadata": {"namespace": "default", "name": manager().lease}});
        assert_eq!(LeaseView::of(manager(), &serde_json::from_value(other).unwrap()), None);
        assert_eq!(lease("m", "2026-01-01T00:00:01.000000Z"), lease("m", "2026-01-01T00:00:28.900000Z"));
    }

    #[test]
    fn while_it_is_there_its_kinds_are_left_to_it_and_no_others() {
        let installed = Installed::with(&COMPONENTS);
        let left =
            |present: &PresentManagers| present.left(&installed).map(|kind| kind.kind.clone()).collect::<Vec<_>>();
        assert_eq!(left(&PresentManagers::default()), Vec::<String>::new());
        let webhooks = [manager().validating.to_owned()];
        let there = PresentManager::seen(manager(), None, &webhooks, Timestamp::UNIX_EPOCH).unwrap();
        let there: PresentManagers = [(&KUSIONSTACK, there)].into_iter().collect();
        let left = left(&there);
        let others = ["Deployment", "CloneSet"];
        assert!(left.iter().any(|kind| kind == "CollaSet"), "{left:?}");
        assert!(left.iter().all(|kind| !others.contains(&kind.as_ref())), "{left:?}");
        assert!(there.of_kind(&GroupKind::new("apps.kusionstack.io", "CollaSet")).is_some());
        assert_eq!(there.of_kind(&GroupKind::new("apps", "Deployment")), None);
    }
}
