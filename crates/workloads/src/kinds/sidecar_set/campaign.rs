//! Which pods get other images of a SidecarSet's containers now, and how: upstream's choice and order (OpenKruise v1.9,
//! `pkg/controller/sidecarset`). What has changed besides images needs new pods.

use std::collections::BTreeMap;

use hitless_api::grant::ImageChange;
use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Change, GrantOp, InjectedSet, selector};

use super::names::{SIDECAR_SETS, of_pod, versions};
use super::{SidecarSet, fault};
use crate::halted::Halted;
use crate::image;
use crate::intent::{DesiredOperation, Obstacle, Operation, PodIntent};
use crate::kinds::clone_set::order::UpdateRank;
use crate::kinds::clone_set::priority::priority;
use crate::kinds::clone_set::rounding;
use crate::requests::token;
use crate::restart_request::RestartRequest;
use crate::world::World;
use crate::write::Write;

/// Most pods that may be unavailable for it where it does not say.
const MAX_UNAVAILABLE: usize = 1;

/// Why none of its pods is updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// `type: NotUpdate`.
    NotUpdate,
    /// `paused`.
    Paused,
    /// The version was judged bad by one of its pods.
    Halted(Halted),
}

/// What becomes of the pods that have containers of one SidecarSet.
#[derive(Clone, Copy)]
pub(crate) struct Campaign<'a> {
    set: SidecarSet<'a>,
    /// What new pods get of it.
    entry: &'a InjectedSet,
}

impl<'a> Campaign<'a> {
    /// Of one of which new pods get what it says now.
    pub(crate) fn of(set: SidecarSet<'a>, world: &World<'a>) -> Option<Self> {
        let entry = super::entry_of(set, world)?;
        let is_current = entry.generation == set.object.generation && set.body.fault.is_none();
        (is_current && !set.object.deleting).then_some(Self { set, entry })
    }

    /// All of them.
    pub(crate) fn all(world: &World<'a>) -> impl Iterator<Item = Self> {
        world.sidecar_sets().iter().filter_map(|object| Self::of(object.sidecar_set()?, world))
    }

    /// Its pods are updated.
    pub(crate) fn goes_on(&self) -> bool {
        self.rest().is_none()
    }

    /// What an operation leaves on its pod that brings it this version.
    pub(crate) fn token(&self) -> String {
        format!("{}.{}", token::token(&self.set.object.id.uid), self.entry.hash)
    }

    /// Why none of its pods is updated.
    pub(super) fn rest(&self) -> Option<Rest> {
        if let Some(halted) = Halted::of(self.set.object).filter(|halted| halted.revision == self.entry.hash) {
            return Some(Rest::Halted(halted));
        }
        let strategy = self.set.body.spec.update_strategy.as_ref()?;
        match strategy.type_.as_deref() {
            Some("NotUpdate") => Some(Rest::NotUpdate),
            Some(_) | None => strategy.paused.then_some(Rest::Paused),
        }
    }

    /// A mark says that an earlier version was judged bad.
    pub(super) fn is_halted_before(&self) -> bool {
        Halted::of(self.set.object).is_some_and(|halted| halted.revision != self.entry.hash)
    }

    fn pods(&self, world: &World<'a>) -> impl Iterator<Item = (&'a str, &'a PodView)> {
        let all = world.injected(&self.set.object.id.name).iter().copied();
        all.filter(|(_, pod)| !pod.terminating && !pod.finished)
    }

    fn is_current(&self, version: &str) -> bool {
        version == self.entry.hash
    }

    /// Only images differ.
    fn is_upgradable(&self, version: &str) -> bool {
        versions(version).1 == versions(&self.entry.hash).1
    }

    /// Pods of earlier versions that only new pods can follow, and how many pods there are.
    pub(super) fn not_upgradable(&self, world: &World<'a>) -> (usize, usize) {
        let is_stuck = |version: &str| !self.is_current(version) && !self.is_upgradable(version);
        (self.pods(world).filter(|(version, _)| is_stuck(version)).count(), self.pods(world).count())
    }

    /// Pods that are to be updated in the end, the first one first.
    pub(super) fn behind(&self, world: &World<'a>) -> Vec<&'a PodView> {
        let strategy = self.set.body.spec.update_strategy.as_ref();
        let own = strategy.and_then(|strategy| strategy.selector.as_ref()).map(selector::read);
        // One that nobody understands selects nothing.
        let is_selected =
            |pod: &PodView| own.as_ref().is_none_or(|own| own.as_ref().is_ok_and(|own| own.matches(&pod.labels)));
        let is_behind = |version: &str| !self.is_current(version) && self.is_upgradable(version);
        let behind = self.pods(world).filter(|(version, pod)| is_behind(version) && is_selected(pod));
        let mut behind: Vec<&PodView> = behind.map(|(_, pod)| pod).collect();
        let own_priority = strategy.and_then(|strategy| strategy.priority_strategy.as_ref());
        behind.sort_by_cached_key(|pod| {
            (
                UpdateRank::of(pod),
                own_priority.map(|own| priority(own, &pod.labels)),
                pod.id.namespace.clone(),
                pod.id.name.clone(),
            )
        });
        let partition = strategy.and_then(|strategy| strategy.partition.as_ref());
        // What is no number keeps all of them.
        let kept = rounding::partition(self.pods(world).count(), partition).unwrap_or(usize::MAX);
        behind.truncate(behind.len().saturating_sub(kept));
        behind
    }

    /// Pods that are updated now: of those that serve no more at a time than it allows.
    fn due(&self, world: &World<'a>) -> Vec<&'a PodView> {
        let of_strategy = self.set.body.spec.update_strategy.as_ref();
        let most = of_strategy.and_then(|strategy| strategy.max_unavailable.as_ref());
        let most =
            most.map_or(Ok(MAX_UNAVAILABLE), |most| rounding::max_unavailable(self.pods(world).count(), Some(most), 0));
        // What is no number lets none go.
        let most = most.unwrap_or_default();
        let is_moving = |pod: &PodView| world.operating.contains(&pod.id.uid);
        let settling = self.pods(world).filter(|(version, pod)| self.is_current(version) && !pod.ready()).count();
        let behind = self.behind(world);
        let mut used = settling + behind.iter().filter(|pod| is_moving(pod)).count();
        let may_go = |pod: &&PodView| {
            if is_moving(pod) || !pod.ready() {
                return true;
            }
            used += 1;
            used <= most
        };
        behind.into_iter().filter(may_go).collect()
    }

    /// Operations that bring them the version.
    pub(crate) fn desired(&self, world: &World<'a>) -> Vec<DesiredOperation> {
        if self.rest().is_some() {
            return Vec::new();
        }
        let wanted = |pod: &PodView| DesiredOperation {
            asked_by: Some(self.set.object.id.clone()),
            ..DesiredOperation::new(pod, self.intent(pod))
        };
        self.due(world).into_iter().map(wanted).collect()
    }

    fn intent(&self, pod: &PodView) -> Result<PodIntent, Obstacle> {
        let mut containers = BTreeMap::new();
        let running = fault::all(&self.set.body.spec)
            .filter(|(list, each)| *list == "containers" || each["restartPolicy"] == "Always");
        for (_, sidecar) in running {
            let (Some(name), Some(wanted)) = (sidecar["name"].as_str(), sidecar["image"].as_str()) else { continue };
            let own = pod.container(name).ok_or_else(|| Obstacle::UnknownContainer { container: name.to_owned() })?;
            if !image::is_same(own, wanted) {
                containers.insert(name.to_owned(), ImageChange { from: own.image.clone(), to: wanted.to_owned() });
            }
        }
        let mut changes = BTreeMap::from([self.mark(pod)]);
        let op = if containers.is_empty() {
            GrantOp::Relabel
        } else {
            changes.extend([RestartRequest { token: self.token(), containers: None }.mark(pod)]);
            GrantOp::Update
        };
        Ok(PodIntent::new(pod, Operation::new(op, containers, changes, BTreeMap::new())))
    }

    /// That the pod has this version then.
    fn mark(&self, pod: &PodView) -> (String, Change) {
        let name = self.set.object.id.name.as_str();
        let version = |(set, version): (&str, &str)| {
            let version = if set == name { self.entry.hash.as_str() } else { version };
            format!("{set}={version}")
        };
        let to: Vec<String> = of_pod(pod).map(version).collect();
        (SIDECAR_SETS.to_owned(), Change { from: pod.annotations.get(SIDECAR_SETS).cloned(), to: Some(to.join(",")) })
    }

    /// Whether an operation that leaves this on its pod brings it the version.
    pub(crate) fn is_led_to(&self, sidecar_sets: &str) -> bool {
        let own = (self.set.object.id.name.as_str(), self.entry.hash.as_str());
        sidecar_sets.split(',').filter_map(|each| each.split_once('=')).any(|each| each == own)
    }

    /// The version was judged bad by this pod: no other one gets it.
    pub(crate) fn halt(&self, pod: &str, reason: &str, message: &str) -> Write {
        let halted = Halted::of_version(&self.entry.hash, pod, reason, message);
        Write::annotate("halt-sidecars", self.set.object, annotations::HALTED, &halted.text())
    }
}
