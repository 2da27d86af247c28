//! Pods, and their classes: pods of one namespace with the same labels are selected by the same budgets.

use jiff::Timestamp;

use super::compact::{Name, Time, Uid};
use super::interner::Symbol;
use super::labels::Labels;
use super::{Gate, Group, id};
use crate::facts::PodFacts;

/// Stands for "none": a table never has so many entries.
const NONE: u32 = u32::MAX;

/// A known pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) uid: Uid,
    pub(crate) name: Name,
    pub(crate) class: u32,
    /// Its neighbours among the members of its class.
    before: u32,
    after: u32,
    owner: u32,
    pub(crate) node: Option<Symbol>,
    state: PodState,
}

/// What changes in a pod's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is told by another source, and all combinations occur")]
pub(crate) struct PodState {
    available: bool,
    /// It is being deleted.
    leaving: bool,
    pub(super) reserved: bool,
    pub(super) failed: bool,
    /// Available, but not for long enough to count so for others.
    pub(super) recently_ready: bool,
    /// It has the version that its workload is being brought to, or is between two.
    pub(super) updated: bool,
    /// Others have operated it for too long to hold a place that pods of other namespaces need.
    pub(super) overdue: bool,
    /// Its node is away for too long to be waited for.
    pub(super) lost: bool,
    unavailable_since: Time,
    returned_at: Time,
}

impl PodState {
    /// Available, and nobody has reserved it.
    pub(super) fn is_free(self) -> bool {
        self.available && !self.reserved
    }

    /// It is not there, and nobody waits for it.
    pub(super) fn is_lost(self) -> bool {
        self.lost && !self.available && !self.reserved
    }

    /// What it counts as for others.
    pub(super) fn counts_available(self) -> bool {
        self.is_free() && !self.recently_ready
    }

    /// It has the new version, nobody operates it, and it is not available (for long enough): nobody has verified the version on it, or
    /// it is unavailable again.
    pub(super) fn is_unverified(self) -> bool {
        self.updated && !self.reserved && !self.counts_available()
    }

    pub(super) fn returned_at(self) -> Option<Timestamp> {
        self.returned_at.get()
    }
}

impl Pod {
    /// Available, whether reserved or not.
    pub(crate) fn is_available(&self) -> bool {
        self.state.available
    }

    /// Available, and nobody has reserved it.
    pub(crate) fn is_free(&self) -> bool {
        self.state.is_free()
    }

    /// Available and not reserved, and counted as unavailable all the same.
    pub(crate) fn is_recently_ready(&self) -> bool {
        self.state.is_free() && self.state.recently_ready
    }

    /// It is not available, and nobody waits for its node, whatever was begun there.
    pub(crate) fn is_on_lost_node(&self) -> bool {
        self.state.lost && !self.state.available
    }

    /// It is being deleted.
    pub(crate) fn is_leaving(&self) -> bool {
        self.state.leaving
    }

    /// Counted as unavailable, and nobody has reserved it: it is not available, or not for long enough.
    pub(crate) fn is_down_unreserved(&self) -> bool {
        !self.state.reserved && !self.state.counts_available()
    }

    /// It has the new version and is not available (for long enough), and nobody operates it.
    pub(crate) fn is_unverified(&self) -> bool {
        self.state.is_unverified()
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.state.reserved
    }

    pub(crate) fn unavailable_since(&self) -> Option<Timestamp> {
        self.state.unavailable_since.get()
    }

    pub(super) fn state(&self) -> PodState {
        self.state
    }

    pub(crate) fn owner(&self) -> Option<u32> {
        (self.owner != NONE).then_some(self.owner)
    }
}

/// Pods of one namespace with the same labels.
#[derive(Clone, Debug)]
pub(crate) struct LabelClass {
    pub(crate) namespace: Symbol,
    pub(super) labels: Labels,
    /// The last one that joined.
    first: u32,
    /// Groups that select it, in the order in which they are asked.
    pub(super) groups: Box<[u32]>,
}

impl Gate {
    pub(crate) fn pod_id(&self, uid: &str) -> Option<u32> {
        self.pod_id_of(&Uid::of(uid))
    }

    pub(super) fn pod_id_of(&self, uid: &Uid<&str>) -> Option<u32> {
        let same = |known: &u32| self.pods.get(*known as usize).is_some_and(|pod| pod.uid.is(uid));
        self.uids.find(uid.hash(&self.hasher), same).copied()
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

    /// Members of a class.
    pub(super) fn members<'a>(&'a self, class: &LabelClass) -> impl Iterator<Item = (u32, &'a Pod)> + use<'a> {
        let known = |id: u32| self.pods.get(id as usize).map(|pod| (id, pod));
        std::iter::successors(known(class.first), move |(_, pod)| known(pod.after))
    }

    /// Changes a pod's state and every counter that it is in.
    pub(super) fn change_state(&mut self, known: u32, with: impl FnOnce(&mut PodState)) {
        let Some(pod) = self.pods.get_mut(known as usize) else { return };
        let before = pod.state;
        with(&mut pod.state);
        let (after, node) = (pod.state, pod.node);
        let counted = |each: PodState| PodState { unavailable_since: Time::of(None), ..each };
        if counted(before) == counted(after) {
            return;
        }
        let own = pod.owner().and_then(|owner| self.owners.get(owner as usize)).map(|owner| owner.group);
        let Some(class) = self.classes.get(pod.class as usize) else { return };
        for group in class.groups.iter().copied().chain(own) {
            if let Some(group) = self.groups.get_mut(group as usize) {
                group.remove(known, (class.namespace, node), before);
                group.add(known, (class.namespace, node), after);
            }
        }
    }
}

pub(super) fn upsert(gate: &mut Gate, facts: &PodFacts) {
    match gate.pod_id(&facts.uid) {
        Some(known) if is_elsewhere(gate, known, facts) => {
            remove(gate, &facts.uid);
            insert(gate, facts);
        }
        Some(known) => gate.change_state(known, |state| {
            state.available = facts.available;
            state.leaving = facts.leaving;
            state.unavailable_since = Time::of(facts.unavailable_since);
            state.returned_at = Time::of(facts.returned_at);
        }),
        None => insert(gate, facts),
    }
}

/// Whether something has changed that decides which budgets count the pod, and where.
fn is_elsewhere(gate: &Gate, known: u32, facts: &PodFacts) -> bool {
    let Some(pod) = gate.pods.get(known as usize) else { return true };
    let Some(class) = gate.classes.get(pod.class as usize) else { return true };
    let node = pod.node.map(|node| gate.symbols.text(node));
    let owner = pod.owner().and_then(|owner| gate.owners.get(owner as usize)).map(|owner| &owner.key);
    !pod.name.is(&gate.symbols, &facts.name)
        || node != facts.node.as_deref()
        || owner != facts.owner.as_ref()
        || gate.symbols.text(class.namespace) != facts.namespace
        || !class.labels.are(&gate.symbols, &facts.labels)
}

fn insert(gate: &mut Gate, facts: &PodFacts) {
    let class = class_of(gate, facts);
    let owner = facts.owner.as_ref().map_or(NONE, |owner| gate.owner_id(owner));
    let uid = Uid::of(&facts.uid);
    let kept = uid.kept();
    let state = PodState {
        available: facts.available,
        leaving: facts.leaving,
        reserved: gate.reserved.contains_key(&kept),
        failed: gate.failed.contains(&kept),
        recently_ready: gate.recently_ready.contains(&kept),
        updated: gate.updated.contains(&kept),
        overdue: gate.overdue.contains(&kept),
        lost: gate.lost.contains(&kept),
        unavailable_since: Time::of(facts.unavailable_since),
        returned_at: Time::of(facts.returned_at),
    };
    let after = gate.classes.get(class as usize).map_or(NONE, |class| class.first);
    let pod = Pod {
        uid: kept,
        name: Name::intern(&mut gate.symbols, &facts.name),
        class,
        before: NONE,
        after,
        owner,
        node: facts.node.as_deref().map(|node| gate.symbols.intern(node)),
        state,
    };
    let known = id(gate.pods.insert(pod));
    if let Some(class) = gate.classes.get_mut(class as usize) {
        class.first = known;
    }
    if let Some(after) = gate.pods.get_mut(after as usize) {
        after.before = known;
    }
    let Gate { uids, pods, hasher, .. } = gate;
    let rehash = |known: &u32| pods.get(*known as usize).map_or(0, |pod| pod.uid.hash(hasher));
    uids.insert_unique(uid.hash(hasher), known, rehash);
    if owner != NONE {
        gate.with_owner(owner, |owner| owner.live += 1);
    }
    gate.count(known, true);
}

pub(super) fn remove(gate: &mut Gate, uid: &str) {
    let uid = Uid::of(uid);
    let Some(known) = gate.pod_id_of(&uid) else { return };
    gate.count(known, false);
    let same = |other: &u32| *other == known;
    if let Ok(entry) = gate.uids.find_entry(uid.hash(&gate.hasher), same) {
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
    pod.name.release(&mut gate.symbols);
    leave_class(gate, &pod);
}

fn leave_class(gate: &mut Gate, pod: &Pod) {
    if let Some(after) = gate.pods.get_mut(pod.after as usize) {
        after.before = pod.before;
    }
    if let Some(before) = gate.pods.get_mut(pod.before as usize) {
        before.after = pod.after;
        return;
    }
    let Some(class) = gate.classes.get_mut(pod.class as usize) else { return };
    class.first = pod.after;
    if class.first != NONE {
        return;
    }
    let class = gate.classes.remove(pod.class as usize);
    if let Some(others) = gate.classes_of.get_mut(&class.namespace) {
        others.remove(&pod.class);
        if others.is_empty() {
            gate.classes_of.remove(&class.namespace);
        }
    }
    let hash = class.labels.hash(&gate.hasher, class.namespace);
    if let Ok(entry) = gate.class_ids.find_entry(hash, |known| *known == pod.class) {
        entry.remove();
    }
    class.labels.release(&mut gate.symbols);
    gate.symbols.release(class.namespace);
}

fn class_of(gate: &mut Gate, facts: &PodFacts) -> u32 {
    let namespace = gate.symbols.intern(&facts.namespace);
    let labels = Labels::intern(&mut gate.symbols, &facts.labels);
    let hash = labels.hash(&gate.hasher, namespace);
    let same = |known: &u32| {
        let class = gate.classes.get(*known as usize);
        class.is_some_and(|class| class.namespace == namespace && class.labels == labels)
    };
    if let Some(known) = gate.class_ids.find(hash, same).copied() {
        labels.release(&mut gate.symbols);
        gate.symbols.release(namespace);
        return known;
    }
    let groups = gate.selecting(namespace, &labels).into();
    let known = id(gate.classes.insert(LabelClass { namespace, labels, first: NONE, groups }));
    gate.classes_of.entry(namespace).or_default().insert(known);
    let Gate { class_ids, classes, hasher, .. } = gate;
    let rehash = |known: &u32| {
        classes.get(*known as usize).map_or(0, |class: &LabelClass| class.labels.hash(hasher, class.namespace))
    };
    class_ids.insert_unique(hash, known, rehash);
    known
}
