//! Pods, and their classes: pods of one namespace with the same labels are selected by the same budgets.

use std::hash::BuildHasher;

use jiff::Timestamp;

use super::labels::Labels;
use super::symbols::Symbol;
use super::{Gate, Group, id};
use crate::facts::{Held, PodFacts};

/// Stands for "no owner": a table never has so many entries.
const NONE: u32 = u32::MAX;

/// A known pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) uid: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) class: u32,
    /// Its place among the members of its class.
    place: u32,
    owner: u32,
    pub(crate) node: Option<Symbol>,
    pub(crate) available: bool,
    held: bool,
    failed: bool,
    unavailable_since: Option<Timestamp>,
    returned_at: Option<Timestamp>,
}

impl Pod {
    /// Available, and nobody has reserved it.
    pub(crate) fn is_free(&self) -> bool {
        self.available && !self.held
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed
    }

    pub(crate) fn unavailable_since(&self) -> Option<Timestamp> {
        self.unavailable_since
    }

    pub(crate) fn returned_at(&self) -> Option<Timestamp> {
        self.returned_at
    }

    pub(crate) fn owner(&self) -> Option<u32> {
        (self.owner != NONE).then_some(self.owner)
    }
}

/// Pods of one namespace with the same labels.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) namespace: Symbol,
    pub(super) labels: Labels,
    pub(super) members: Vec<u32>,
    /// Groups that select it, in the order in which they are asked.
    pub(super) groups: Vec<u32>,
}

impl Gate {
    pub(crate) fn pod_id(&self, uid: &str) -> Option<u32> {
        let same = |known: &u32| self.pods.get(*known as usize).is_some_and(|pod| &*pod.uid == uid);
        self.uids.find(self.hasher.hash_one(uid), same).copied()
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(self.pod_id(uid)? as usize)
    }

    /// The budgets that select the pod, then that of its owner.
    pub(crate) fn groups_of<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = (u32, &'a Group)> {
        let selecting = self.classes.get(pod.class as usize).into_iter().flat_map(|class| &class.groups).copied();
        selecting
            .chain(self.owner_group(pod))
            .filter_map(|known| self.groups.get(known as usize).map(|group| (known, group)))
    }

    /// The group of all pods of the pod's owner.
    pub(crate) fn owner_group(&self, pod: &Pod) -> Option<u32> {
        pod.owner().and_then(|owner| self.owners.get(owner as usize)).map(|owner| owner.group)
    }

    /// Counts the pod anew after what is known of it elsewhere has changed.
    pub(super) fn recount(&mut self, uid: &str) {
        let Some(known) = self.pod_id(uid) else { return };
        let (held, failed) = (self.held.contains_key(uid), self.failed.contains(uid));
        change(self, known, |pod| {
            pod.held = held;
            pod.failed = failed;
        });
    }

    /// When the pod was reserved, if it is.
    pub(crate) fn held_since(&self, pod: &Pod) -> Option<&Held> {
        self.held(&pod.uid)
    }
}

pub(super) fn upsert(gate: &mut Gate, facts: &PodFacts) {
    if let Some(known) = gate.pod_id(&facts.uid) {
        if is_elsewhere(gate, known, facts) {
            remove(gate, &facts.uid);
        } else {
            change(gate, known, |pod| {
                pod.available = facts.available;
                pod.unavailable_since = facts.unavailable_since;
                pod.returned_at = facts.returned_at;
            });
            return;
        }
    }
    insert(gate, facts);
}

/// Whether something has changed that decides which budgets count the pod, and where.
fn is_elsewhere(gate: &Gate, known: u32, facts: &PodFacts) -> bool {
    let Some(pod) = gate.pods.get(known as usize) else { return true };
    let Some(class) = gate.classes.get(pod.class as usize) else { return true };
    let node = pod.node.map(|node| gate.symbols.text(node));
    let owner = pod.owner().and_then(|owner| gate.owners.get(owner as usize)).map(|owner| &owner.key);
    *pod.name != *facts.name
        || node != facts.node.as_deref()
        || owner != facts.owner.as_ref()
        || gate.symbols.text(class.namespace) != facts.namespace
        || Labels::find(&gate.symbols, &facts.labels).as_ref() != Some(&class.labels)
}

fn insert(gate: &mut Gate, facts: &PodFacts) {
    let class = class_of(gate, facts);
    let owner = facts.owner.as_ref().map_or(NONE, |owner| gate.owner_id(owner));
    let node = facts.node.as_deref().map(|node| gate.symbols.intern(node));
    let place = gate.classes.get(class as usize).map_or(0, |class| id(class.members.len()));
    let pod = Pod {
        uid: facts.uid.as_str().into(),
        name: facts.name.as_str().into(),
        class,
        place,
        owner,
        node,
        available: facts.available,
        held: gate.held.contains_key(facts.uid.as_str()),
        failed: gate.failed.contains(&facts.uid),
        unavailable_since: facts.unavailable_since,
        returned_at: facts.returned_at,
    };
    let known = id(gate.pods.insert(pod));
    if let Some(class) = gate.classes.get_mut(class as usize) {
        class.members.push(known);
    }
    let Gate { uids, pods, hasher, .. } = gate;
    let rehash = |known: &u32| pods.get(*known as usize).map_or(0, |pod| hasher.hash_one(&*pod.uid));
    uids.insert_unique(hasher.hash_one(facts.uid.as_str()), known, rehash);
    if owner != NONE {
        gate.with_owner(owner, |owner| owner.live += 1);
    }
    gate.count(known, true);
}

pub(super) fn remove(gate: &mut Gate, uid: &str) {
    let Some(known) = gate.pod_id(uid) else { return };
    gate.count(known, false);
    let same = |other: &u32| *other == known;
    if let Ok(entry) = gate.uids.find_entry(gate.hasher.hash_one(uid), same) {
        entry.remove();
    }
    let pod = gate.pods.remove(known as usize);
    if let Some(owner) = pod.owner() {
        gate.with_owner(owner, |owner| owner.live -= 1);
        gate.drop_owner_if_unused(owner);
    }
    if let Some(node) = pod.node {
        gate.symbols.release(node);
    }
    leave_class(gate, &pod);
}

fn leave_class(gate: &mut Gate, pod: &Pod) {
    let Some(class) = gate.classes.get_mut(pod.class as usize) else { return };
    class.members.swap_remove(pod.place as usize);
    if let Some(moved) = class.members.get(pod.place as usize)
        && let Some(moved) = gate.pods.get_mut(*moved as usize)
    {
        moved.place = pod.place;
    }
    if class.members.is_empty() {
        let class = gate.classes.remove(pod.class as usize);
        if let Some(others) = gate.classes_of.get_mut(&class.namespace) {
            others.remove(&pod.class);
            if others.is_empty() {
                gate.classes_of.remove(&class.namespace);
            }
        }
        class.labels.release(&mut gate.symbols);
        gate.symbols.release(class.namespace);
        gate.class_ids.remove(&(class.namespace, class.labels));
    }
}

fn class_of(gate: &mut Gate, facts: &PodFacts) -> u32 {
    let namespace = gate.symbols.intern(&facts.namespace);
    let labels = Labels::intern(&mut gate.symbols, &facts.labels);
    let key = (namespace, labels);
    if let Some(known) = gate.class_ids.get(&key) {
        key.1.release(&mut gate.symbols);
        gate.symbols.release(namespace);
        return *known;
    }
    let groups = gate.selecting(namespace, &key.1);
    let class = Class { namespace, labels: key.1.clone(), members: Vec::new(), groups };
    let known = id(gate.classes.insert(class));
    gate.classes_of.entry(namespace).or_default().insert(known);
    gate.class_ids.insert(key, known);
    known
}

/// Changes a pod and every counter that it is in.
fn change(gate: &mut Gate, known: u32, with: impl FnOnce(&mut Pod)) {
    let Some(pod) = gate.pods.get(known as usize) else { return };
    let mut next = pod.clone();
    with(&mut next);
    let counted = |pod: &Pod| (pod.available, pod.held, pod.failed, pod.returned_at);
    if counted(pod) != counted(&next) {
        gate.count(known, false);
        if let Some(pod) = gate.pods.get_mut(known as usize) {
            *pod = next;
        }
        gate.count(known, true);
    } else if let Some(pod) = gate.pods.get_mut(known as usize) {
        *pod = next;
    }
}
