//! A pod that is replaced by another one: the new one first, then the old one leaves (upstream's protocol of labels, and
//! `podUpgradePolicy: Replace`).
//!
//! Both ids of a pair name each other in the ResourceContext, in one write. A pair counts as one pod. The old pod leaves service once
//! the new one serves, and is deleted then; so they are never both removed. Upstream doubles all pods at once; here so many pods
//! more than wanted are there at most as a Deployment has by default: a quarter, rounded up.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;

use super::body::UpgradePolicy;
use super::names;
use super::plan::Work;
use super::roster::{Instance, Roster};

/// So many pods more than wanted.
pub(super) fn surge(replicas: usize) -> usize {
    replicas.div_ceil(4).max(1)
}

impl Instance<'_> {
    fn link(&self, key: &str) -> Option<i32> {
        self.data.get(key)?.parse().ok()
    }
}

impl<'a> Roster<'a> {
    /// Ids of pairs: old, new. A name that is not answered is none.
    pub(super) fn pairs(&self) -> BTreeMap<i32, i32> {
        let pair = |(id, instance): (&i32, &Instance<'_>)| {
            let new = instance.link(names::REPLACE_NEW)?;
            let answers = self.instances.get(&new)?.link(names::REPLACE_ORIGIN) == Some(*id);
            answers.then_some((*id, new))
        };
        self.instances.iter().filter_map(pair).collect()
    }

    /// Ids of the new pods of pairs.
    pub(super) fn news(&self) -> BTreeSet<i32> {
        self.pairs().into_values().collect()
    }

    /// The ids that count: those that are not given up, and of a pair the old one.
    pub(super) fn counted(&self) -> impl Iterator<Item = (i32, &Instance<'a>)> {
        let news = self.news();
        let counts = move |(id, instance): &(i32, &Instance<'_>)| !instance.is(names::SCALE_IN) && !news.contains(id);
        self.instances.iter().map(|(id, instance)| (*id, instance)).filter(counts)
    }

    /// Takes a pair apart.
    pub(super) fn unlink(&mut self, ids: [i32; 2]) {
        for id in ids {
            if let Some(instance) = self.instances.get_mut(&id) {
                instance.data.remove(names::REPLACE_NEW);
                instance.data.remove(names::REPLACE_ORIGIN);
            }
        }
    }

    /// Links that are not answered go.
    pub(super) fn drop_lone_links(&mut self) {
        let pairs = self.pairs();
        let news: BTreeSet<i32> = pairs.values().copied().collect();
        for (id, instance) in &mut self.instances {
            if !pairs.contains_key(id) {
                instance.data.remove(names::REPLACE_NEW);
            }
            if !news.contains(id) {
                instance.data.remove(names::REPLACE_ORIGIN);
            }
        }
    }
}

impl Work<'_, '_> {
    /// Whether the pod is to be replaced by another one.
    fn is_to_be_replaced(&self, id: i32, pod: &PodView, scope: &BTreeSet<i32>) -> bool {
        let is_asked = pod.labels.contains_key(names::TO_REPLACE) && !pod.labels.contains_key(names::REPLACED_BY);
        let body = self.set.body;
        let is_behind = || (scope.contains(&id) && !self.is_at_target(pod)) || !self.is_decorated(pod);
        let is_updated = body.policy == UpgradePolicy::Replace && !body.paused && is_behind();
        (is_asked || is_updated) && !self.going.contains(&id)
    }

    /// The revision that the new pod of a pair is made from.
    fn revision_of_new(&self, origin: i32, scope: &BTreeSet<i32>) -> String {
        let body = self.set.body;
        if scope.contains(&origin) && !body.paused && body.policy != UpgradePolicy::InPlaceOnly {
            return self.target.to_owned();
        }
        let known = self.roster.instances.get(&origin).map_or("", Instance::revision);
        if self.revisions.has(known) { known.to_owned() } else { self.target.to_owned() }
    }

    /// Pairs go on: to the end, back, or to a newer revision.
    pub(super) fn go_on_replacing(&mut self) {
        self.roster.drop_lone_links();
        let scope = self.scope();
        for (origin, new) in self.roster.pairs() {
            let pod_of = |id: i32| self.roster.instances.get(&id).and_then(|instance| instance.pod);
            match (pod_of(origin), pod_of(new)) {
                (None, Some(_)) => {
                    // Somebody has deleted it.
                    self.roster.unlink([origin, new]);
                    self.mark(origin, names::SCALE_IN);
                }
                (Some(old), pod) if self.is_to_be_replaced(origin, old, &scope) => {
                    self.replace(origin, old, new, pod, &scope);
                }
                (_, pod) => {
                    self.roster.unlink([origin, new]);
                    if pod.is_none() {
                        self.mark(new, names::SCALE_IN);
                    }
                }
            }
        }
    }

    fn replace(&mut self, origin: i32, old: &PodView, new: i32, pod: Option<&PodView>, scope: &BTreeSet<i32>) {
        let revision = self.revision_of_new(origin, scope);
        let is_named = |pod: &PodView| {
            pod.labels.contains_key(names::TO_DELETE) || self.set.body.pods_to_delete.contains(&pod.id.name)
        };
        let serves = |pod: &PodView| {
            pod.available()
                && !self.world.left.contains(&pod.id.uid)
                && !self.world.recently_ready.contains_key(pod.id.uid.as_str())
                && !is_named(pod)
        };
        let has_left = self.world.left.contains(&old.id.uid);
        match pod {
            Some(pod) if serves(pod) || has_left => {
                self.going.insert(origin);
                self.successors.insert(old.id.uid.clone(), pod.id.clone());
                if self.remove(origin, self.set.body.update_delay_seconds) {
                    self.mark(origin, names::SCALE_IN);
                    self.roster.unlink([origin, new]);
                }
            }
            Some(pod) => {
                let is_outdated = self.roster.instances.get(&new).is_some_and(|each| each.revision() != revision);
                if (is_outdated || !self.is_decorated(pod)) && !self.going.contains(&new) && self.remove(new, 0) {
                    self.going.insert(new);
                    self.set_revision(new, revision);
                    self.mark(new, names::RECREATE);
                }
            }
            None => self.set_revision(new, revision),
        }
    }

    /// New pairs, as far as there is room.
    pub(super) fn begin_replacing(&mut self, taken: &BTreeSet<&str>) {
        if self.is_paused() {
            return;
        }
        let scope = self.scope();
        let pairs = self.roster.pairs();
        let most = self.set.body.replicas + surge(self.set.body.replicas);
        let is_open = |(id, instance): (i32, &Instance<'_>)| {
            let pod = instance.pod?;
            let is_open = !pairs.contains_key(&id)
                && !self.world.left.contains(&pod.id.uid)
                && self.is_to_be_replaced(id, pod, &scope);
            is_open.then_some(id)
        };
        let open: Vec<i32> = self.roster.counted().filter_map(is_open).collect();
        for origin in open {
            if self.roster.instances.len() >= most || self.is_full() {
                break;
            }
            let revision = self.revision_of_new(origin, &scope);
            let new = self.roster.add(self.set, taken, &revision);
            self.link(origin, names::REPLACE_NEW, new);
            self.link(new, names::REPLACE_ORIGIN, origin);
        }
    }

    pub(super) fn mark(&mut self, id: i32, mark: &str) {
        if let Some(instance) = self.roster.instances.get_mut(&id) {
            instance.mark(mark);
            // Nobody makes a pod for an id that is given up.
            instance.is_free &= mark != names::SCALE_IN;
        }
    }

    fn set_revision(&mut self, id: i32, revision: String) {
        if let Some(instance) = self.roster.instances.get_mut(&id) {
            instance.data.insert(names::REVISION.to_owned(), revision);
        }
    }

    fn link(&mut self, id: i32, key: &str, other: i32) {
        if let Some(instance) = self.roster.instances.get_mut(&id) {
            instance.data.insert(key.to_owned(), other.to_string());
        }
    }
}
