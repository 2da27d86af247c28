//! Ids of pairs. Both name each other, in one write. A pair counts as one pod.

use std::collections::{BTreeMap, BTreeSet};

use super::{Instance, Instances};
use crate::pod_set::record::Pair;

impl<'a> Instances<'a> {
    /// Ids of pairs: old, new. A name that is not answered is none.
    pub(crate) fn pairs(&self) -> BTreeMap<i32, i32> {
        let pair = |(id, instance): (&i32, &Instance<'_>)| {
            let new = instance.record.pair.new?;
            let answers = self.by_id.get(&new)?.record.pair.origin == Some(*id);
            answers.then_some((*id, new))
        };
        self.by_id.iter().filter_map(pair).collect()
    }

    /// Ids of the new pods of pairs, with the old ones.
    pub(crate) fn origins(&self) -> BTreeMap<i32, i32> {
        self.pairs().into_iter().map(|(origin, new)| (new, origin)).collect()
    }

    /// The ids that count: those that are not given up, and of a pair the old one.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (i32, &Instance<'a>)> {
        let news = self.origins();
        let counts = move |(id, instance): &(i32, &Instance<'_>)| !instance.is_given_up() && !news.contains_key(id);
        self.by_id.iter().map(|(id, instance)| (*id, instance)).filter(counts)
    }

    /// Pods that there are, or are to be: a pair counts as one.
    pub(crate) fn count(&self) -> usize {
        self.counted().count()
    }

    /// Makes a pair of two ids.
    pub(in crate::pod_set) fn link(&mut self, origin: i32, new: i32) {
        if let Some(instance) = self.by_id.get_mut(&origin) {
            instance.record.pair.new = Some(new);
        }
        if let Some(instance) = self.by_id.get_mut(&new) {
            instance.record.pair.origin = Some(origin);
        }
    }

    /// Takes a pair apart.
    pub(in crate::pod_set) fn unlink(&mut self, ids: [i32; 2]) {
        for id in ids {
            if let Some(instance) = self.by_id.get_mut(&id) {
                instance.record.pair = Pair::default();
            }
        }
    }

    /// Links that are not answered go.
    pub(in crate::pod_set) fn drop_lone_links(&mut self) {
        let pairs = self.pairs();
        let news: BTreeSet<i32> = pairs.values().copied().collect();
        for (id, instance) in &mut self.by_id {
            let pair = &mut instance.record.pair;
            pair.new = pair.new.filter(|_| pairs.contains_key(id));
            pair.origin = pair.origin.filter(|_| news.contains(id));
        }
    }
}
