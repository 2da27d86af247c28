//! Workloads: how many pods they want, how many there are, and which budgets count some of these.

use std::hash::BuildHasher;

use super::{Gate, Group, groups, id};
use crate::policy::Policy;
use hitless_api::ObjectRef;

/// How many pods of a workload may be unavailable, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnLimit {
    pub(crate) most: u32,
    /// Pods that are available beyond the desired ones make room.
    pub(crate) counts_extra_pods: bool,
}

/// A known workload.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) key: ObjectRef,
    /// How many pods it is meant to have.
    pub(super) desired: Option<u32>,
    /// How many of these may be unavailable, as it says itself.
    pub(crate) limit: Option<OwnLimit>,
    /// How many are listed.
    pub(super) live: u64,
    /// The group of all its pods.
    pub(super) group: u32,
    /// All groups with a pod of it.
    pub(super) groups: Vec<u32>,
}

impl Owner {
    /// What its `members` add to a budget's base, and how many of these are missing.
    ///
    /// An owner counts with the pods it desires (docs/contract.md#unavailable-pods), and those of them that are not there are unavailable: else a
    /// scale-up would let all old pods go at once before the first new one is there. An owner of which only some pods are
    /// members (say, one zone) counts with these alone, since nobody can tell how many of them it desires.
    pub(super) fn adds(&self, members: u64) -> (u64, u64) {
        let base = self.desired.map(u64::from).filter(|_| self.live == members).unwrap_or(members);
        (base, base.saturating_sub(members))
    }
}

impl Gate {
    pub(super) fn owner_id(&mut self, key: &ObjectRef) -> u32 {
        if let Some(known) = self.known_owner(key) {
            return known;
        }
        let namespace = self.symbols.intern(&key.namespace);
        let group = id(self.groups.insert(Group::new(Some(namespace), super::Selector::Nobody, Policy::implicit())));
        let owner = Owner { key: key.clone(), desired: None, limit: None, live: 0, group, groups: vec![group] };
        let known = id(self.owners.insert(owner));
        if let Some(group) = self.groups.get_mut(group as usize) {
            group.members.insert(known, 0);
        }
        let Self { owner_ids, owners, hasher, .. } = self;
        let rehash = |known: &u32| owners.get(*known as usize).map_or(0, |owner| hasher.hash_one(&owner.key));
        owner_ids.insert_unique(hasher.hash_one(key), known, rehash);
        known
    }

    pub(super) fn known_owner(&self, key: &ObjectRef) -> Option<u32> {
        let same = |known: &u32| self.owners.get(*known as usize).is_some_and(|owner| owner.key == *key);
        self.owner_ids.find(self.hasher.hash_one(key), same).copied()
    }

    /// Changes an owner and the base of every budget that counts pods of it.
    pub(super) fn with_owner(&mut self, known: u32, change: impl FnOnce(&mut Owner)) {
        let Some(owner) = self.owners.get_mut(known as usize) else { return };
        groups::each_base(&mut self.groups, owner, known, groups::Counts::without_owner);
        change(owner);
        groups::each_base(&mut self.groups, owner, known, groups::Counts::with_owner);
    }

    pub(super) fn drop_owner_if_unused(&mut self, known: u32) {
        let unused = |owner: &Owner| owner.live == 0 && owner.desired.is_none();
        if self.owners.get(known as usize).is_none_or(|owner| !unused(owner)) {
            return;
        }
        let owner = self.owners.remove(known as usize);
        if let Ok(entry) = self.owner_ids.find_entry(self.hasher.hash_one(&owner.key), |other| *other == known) {
            entry.remove();
        }
        let group = self.groups.remove(owner.group as usize);
        group.release(&mut self.symbols);
    }
}
