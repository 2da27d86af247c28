//! Pods that leave, for whatever reason, and what they take with them.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::PodRef;
use hitless_api::grant::ImageChange;
use hitless_api::pod::PodView;

use super::claims::Claims;
use super::facts::Facts;
use super::instances::{Instance, Instances};
use crate::intent::{DesiredOperation, PodIntent};
use crate::removal::{MayGo, Removal, serves};
use crate::write::Write;

/// What has been decided about pods that leave. Each phase adds to it; none takes anything back.
#[derive(Default)]
pub(crate) struct Departures<'a> {
    /// Ids whose pods leave, those of `excluded` among them.
    pub(crate) going: BTreeSet<i32>,
    /// Ids whose pods are let go.
    pub(crate) excluded: BTreeSet<i32>,
    /// The pods that replace others, by the uid of the other one.
    pub(super) successors: BTreeMap<String, PodRef>,
    pub(crate) desired: Vec<DesiredOperation>,
    /// Pods that are deleted now.
    pub(crate) removed: Vec<MayGo<'a>>,
    /// Deletions of the claims of ids that are given up.
    pub(super) claims: Vec<Write>,
}

/// How a pod leaves.
pub(super) struct Leave {
    /// It is out of service for at least this number of seconds first, if it serves.
    pub(super) delay_seconds: u32,
    /// One that serves does not leave service before these images are on its node.
    pub(super) fetch: BTreeMap<String, ImageChange>,
    /// How it is judged if it serves nobody.
    pub(super) removal: Removal,
}

impl Leave {
    /// No pod is made in its place.
    pub(super) const fn after(delay_seconds: u32) -> Self {
        Self { delay_seconds, fetch: BTreeMap::new(), removal: Removal::Surplus }
    }
}

impl<'a> Departures<'a> {
    /// These are let go.
    pub(super) fn exclude(&mut self, excluded: BTreeSet<i32>) {
        self.going.extend(&excluded);
        self.excluded.extend(excluded);
    }

    /// The pod is to go. That is wanted, which the rules judge: one that serves leaves service first. The answer is whether it is
    /// deleted now.
    pub(super) fn remove(&mut self, facts: &Facts<'_, 'a>, pod: Option<&'a PodView>, how: Leave) -> bool {
        let Some(pod) = pod else { return false };
        if let Some(may_go) = MayGo::drained(pod, facts.world) {
            // What keeps it may have come while it left; it is out of service until then.
            let is_kept = facts.rules.is_kept(pod);
            self.removed.extend((!is_kept).then_some(may_go));
            return !is_kept;
        }
        let Leave { delay_seconds, fetch, removal } = how;
        let ends = self.successors.contains_key(&pod.id.uid);
        let removal = (!serves(pod, facts.world)).then_some(removal);
        let intent = Ok(PodIntent::drain_for(pod, fetch));
        // Also of one that is reserved: its reservation stays as long as it is wanted.
        self.desired.push(DesiredOperation { delay_seconds, ends, removal, ..DesiredOperation::new(pod, intent) });
        let may_go = MayGo::reserved(pod, facts.world).filter(|_| !facts.rules.is_kept(pod));
        self.removed.extend(may_go);
        may_go.is_some()
    }

    /// The claims of an id that is given up go, unless they are kept; says whether there are any.
    pub(super) fn delete_claims(&mut self, facts: &Facts<'_, 'a>, id: i32) -> bool {
        if facts.spec.keeps_claims.when_scaled {
            return false;
        }
        let before = self.claims.len();
        self.claims.extend(facts.claims.of_id(id).map(Claims::delete));
        self.claims.len() > before
    }

    /// How many pods that serve nobody may be made anew at a time: the kind's limit without those that are away already: ids without a
    /// pod, pods that are operated, and unavailable ones that are to stay and for which `counts` holds.
    pub(super) fn made_anew(
        &self,
        facts: &Facts<'_, 'a>,
        instances: &Instances<'a>,
        counts: impl Fn(i32, &PodView) -> bool,
    ) -> Removal {
        let is_away = |id: i32, instance: &Instance<'_>| {
            let Some(pod) = instance.pod else { return true };
            let uid = &pod.id.uid;
            let is_removable = facts.world.removable.contains(uid);
            let is_operated = facts.has_left(pod) || (facts.world.operating.contains(uid) && !is_removable);
            is_operated || (!facts.rules.is_available(pod) && !self.going.contains(&id) && counts(id, pod))
        };
        let away = instances.counted().filter(|(id, instance)| is_away(*id, instance)).count();
        let room = facts.spec.limits.anew.saturating_sub(away);
        Removal::Anew { room: u32::try_from(room).unwrap_or(u32::MAX) }
    }

    /// Whether the pod is deleted now.
    pub(crate) fn is_removed(&self, pod: &PodView) -> bool {
        self.removed.iter().any(|removed| removed.pod().id.uid == pod.id.uid)
    }
}
