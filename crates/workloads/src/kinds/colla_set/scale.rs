//! Which ids come and go as the wanted number of pods changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;
use jiff::Timestamp;

use super::names;
use super::plan::Work;
use super::roster::Instance;

/// Largest ResourceContext that is written, in bytes of JSON: an object may have 1.5 MB, with all that the API server adds.
const LARGEST: usize = 1_000_000;
/// What one id takes there at most, without the names of its pod and revision.
const ENTRY: usize = 110;

impl Work<'_, '_> {
    /// Pods that there are, or are to be: a pair counts as one.
    pub(super) fn count(&self) -> usize {
        self.roster.counted().count()
    }

    /// How many ids a ResourceContext has room for.
    fn room(&self) -> usize {
        LARGEST / (ENTRY + 3 * self.set.object.id.name.len())
    }

    /// Whether it has room for no more.
    pub(super) fn is_full(&self) -> bool {
        self.roster.size() >= self.room()
    }

    pub(super) fn fullness(&self) -> String {
        let (wanted, room) = (self.set.body.replicas, self.room());
        format!("{wanted} replicas are wanted, and a ResourceContext has room for {room}; use several CollaSets")
    }

    /// Adds ids that are missing, and lets pods go that are too many. One that was to go stays if it has not left service.
    pub(super) fn scale(&mut self, taken: &BTreeSet<&str>) {
        let delay = self.set.body.scale_delay_seconds;
        for id in self.ids(|instance| instance.is(names::SCALE_IN) && instance.pod.is_some()) {
            self.going.insert(id);
            if self.remove(id, delay) {
                self.delete_claims(id);
            }
        }
        let wanted = self.set.body.replicas;
        let room = self.room().saturating_sub(self.roster.size());
        // Pods that are taken on need no other ones.
        let there = self.count() + self.included().count();
        for _ in 0..wanted.saturating_sub(there).min(room) {
            self.roster.add(self.set, taken, self.target);
        }
        let mut surplus = self.surplus(self.count().saturating_sub(wanted));
        let pairs: Vec<(i32, i32)> =
            self.roster.pairs().into_iter().filter(|(origin, _)| surplus.contains(origin)).collect();
        if !pairs.is_empty() {
            for (origin, new) in pairs {
                self.roster.unlink([origin, new]);
            }
            surplus = self.surplus(self.count().saturating_sub(wanted));
        }
        for id in surplus {
            self.going.insert(id);
            let has_pod = self.roster.instances.get(&id).is_some_and(|instance| instance.pod.is_some());
            if has_pod && self.remove(id, delay) {
                self.mark(id, names::SCALE_IN);
                self.delete_claims(id);
            } else if !has_pod && self.claims.of_id(id).next().is_some() {
                self.mark(id, names::SCALE_IN);
            } else if !has_pod {
                self.roster.give_up(id, false);
            }
        }
        // Those that are to be made anew as they are. In sequence the new pod has the name of the old one, and would have to go, too.
        let body = self.set.body;
        let named = |pod: &PodView| {
            let is_listed = !body.in_sequence && body.pods_to_delete.contains(&pod.id.name);
            is_listed || pod.labels.contains_key(names::TO_DELETE)
        };
        let anew: Vec<i32> = self.ids(|instance| instance.pod.is_some_and(named) && !instance.is(names::SCALE_IN));
        let pairs = self.roster.pairs();
        let is_open = |id: &i32| !self.going.contains(id) && !pairs.contains_key(id);
        let anew: Vec<i32> = anew.into_iter().filter(is_open).collect();
        self.going.extend(&anew);
        let room = self.made_anew(|_, _| true);
        for id in anew {
            self.remove_once_fetched(id, delay, BTreeMap::new(), room);
        }
    }

    /// So many ids that are given up: in upstream's order, but whoever leaves already goes first of all that the owner does not name.
    fn surplus(&self, count: usize) -> Vec<i32> {
        if count == 0 {
            return Vec::new();
        }
        let mut all: Vec<_> = self.roster.counted().filter(|(id, _)| !self.excluded.contains(id)).collect();
        all.sort_by_key(|(id, instance)| {
            let Some(pod) = instance.pod else {
                return (false, false, false, Reverse(None), Reverse(None), Reverse(*id));
            };
            let is_named = self.set.body.pods_to_delete.contains(&pod.id.name);
            let uid = &pod.id.uid;
            let is_leaving = self.world.left.contains(uid) || self.world.removable.contains(uid);
            let ready: Option<Timestamp> = pod.ready_since();
            (!is_named, !is_leaving, pod.available(), Reverse(ready), Reverse(pod.created), Reverse(*id))
        });
        all.into_iter().take(count).map(|(id, _)| id).collect()
    }

    fn ids(&self, is_meant: impl Fn(&Instance<'_>) -> bool) -> Vec<i32> {
        self.roster.instances.iter().filter(|(_, instance)| is_meant(instance)).map(|(id, _)| *id).collect()
    }
}
