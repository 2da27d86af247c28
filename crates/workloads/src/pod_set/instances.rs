//! Which instance ids a set has, which pod stands for each, and which pods are to be made.

mod links;

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::labels;
use hitless_api::pod::PodView;

use super::journal::Journal;
use super::pods::stays;
use super::record::Record;
use super::spec::{Ids, PodNames, Spec};
use crate::world::World;

/// One instance id.
#[derive(Clone, Debug)]
pub(crate) struct Instance<'a> {
    /// What the journal is to say of it.
    pub(crate) record: Record,
    /// Its pod, if that is there to stay.
    pub(crate) pod: Option<&'a PodView>,
    /// No pod has its name, so one may be made.
    pub(crate) is_free: bool,
}

impl Instance<'_> {
    pub(crate) fn revision(&self) -> &str {
        &self.record.revision
    }

    pub(crate) fn pod_name(&self) -> &str {
        &self.record.pod_name
    }

    pub(crate) const fn is_given_up(&self) -> bool {
        self.record.marks.scale_in
    }
}

/// All of them.
pub(crate) struct Instances<'a> {
    /// By id.
    pub(crate) by_id: BTreeMap<i32, Instance<'a>>,
    /// Pods that are leaving, or have ended, and whose ids have got another name.
    pub(crate) leaving: Vec<&'a PodView>,
    /// Pods that were there and are seen no more, and whose ids go: whether they are gone, only the API server can tell.
    pub(crate) vanished: Vec<String>,
    /// Names that are not given to a new pod; made when the first id is added.
    used: Option<BTreeSet<String>>,
    /// Every id below is taken, or not to be used again.
    lowest: i32,
    /// An id that is given up is not used again.
    keeps_low: bool,
    /// Ids that others have.
    others: BTreeSet<i32>,
    /// How many ids the journal has room for.
    room: usize,
}

impl<'a> Instances<'a> {
    /// As the journal and the pods say.
    pub(crate) fn of(spec: &Spec<'a>, journal: &dyn Journal, world: &World<'a>) -> Self {
        let pods = world.pods(&spec.object.id.uid);
        let known = journal.read().into_iter();
        let instance = |record| Instance { record, pod: None, is_free: true };
        let mut instances = Self {
            by_id: known.map(|(id, record)| (id, instance(record))).collect(),
            leaving: Vec::new(),
            vanished: Vec::new(),
            used: None,
            lowest: journal.next(),
            keeps_low: spec.ids != Ids::Stay,
            others: journal.others(),
            room: journal.room(),
        };
        instances.let_go(spec, world);
        instances.assign(spec, pods);
        instances.give_ids_up(spec, pods);
        instances.rename(spec, pods);
        instances.follow();
        instances
    }

    /// Ids whose pods have been excluded: the pods are there, and nobody's.
    fn let_go(&mut self, spec: &Spec<'_>, world: &World<'_>) {
        let unowned = world.unowned_pods(spec.namespace()).iter().filter(|pod| !pod.terminating);
        let unowned: BTreeSet<&str> = unowned.map(|pod| pod.id.name.as_str()).collect();
        self.by_id.retain(|_, instance| !unowned.contains(instance.pod_name()));
    }

    /// Each id gets the pod that its entry names, or that says so itself; what is left gets an id of its own.
    fn assign(&mut self, spec: &Spec<'_>, pods: &[&'a PodView]) {
        let live: Vec<&PodView> = pods.iter().copied().filter(|pod| stays(pod)).collect();
        let by_name: BTreeMap<&str, &PodView> = live.iter().map(|pod| (pod.id.name.as_str(), *pod)).collect();
        let mut left: BTreeSet<&str> = by_name.keys().copied().collect();
        for instance in self.by_id.values_mut() {
            instance.pod = by_name.get(instance.pod_name()).copied();
            if let Some(pod) = instance.pod {
                left.remove(pod.id.name.as_str());
            }
        }
        for name in left {
            let pod = by_name[name];
            let open = |id: &i32| match self.by_id.get(id) {
                // One that was written by somebody who keeps no names.
                Some(instance) => instance.pod.is_none() && instance.pod_name().is_empty(),
                None => !self.others.contains(id),
            };
            let id = spec.id_in(&pod.labels).filter(open).unwrap_or_else(|| self.unused());
            let revision = pod.labels.get(labels::CONTROLLER_REVISION_HASH).cloned().unwrap_or_default();
            let known = self.by_id.remove(&id).map(|instance| instance.record);
            let known = known.unwrap_or_else(|| Record::of(String::new(), &revision));
            let record = Record { pod_name: name.to_owned(), ..known };
            self.by_id.insert(id, Instance { record, pod: Some(pod), is_free: false });
        }
    }

    /// Where ids go with their pods, an id whose pod leaves or has ended is given up, and another one takes its place.
    fn give_ids_up(&mut self, spec: &Spec<'_>, pods: &[&'a PodView]) {
        if spec.ids == Ids::Stay {
            return;
        }
        let taken: BTreeSet<&str> = pods.iter().map(|pod| pod.id.name.as_str()).collect();
        // One that we have deleted may be gone before it was seen leaving. The API server is asked before its id goes.
        let is_leaving = |(_, instance): &(&i32, &Instance<'_>)| {
            let is_seen_or_deleted = taken.contains(instance.pod_name()) || instance.record.marks.recreate;
            instance.pod.is_none() && !instance.is_given_up() && is_seen_or_deleted
        };
        let leaving: Vec<i32> = self.by_id.iter().filter(is_leaving).map(|(id, _)| *id).collect();
        for id in leaving {
            let Some(instance) = self.by_id.get_mut(&id) else { continue };
            // Which revision the next pod gets is asked as for any that is to be made.
            if spec.ids == Ids::StayWithClaims && !instance.record.marks.recreate {
                instance.record.marks.to_make = true;
                continue;
            }
            let revision = instance.revision().to_owned();
            self.mark_scale_in(id);
            self.add(spec, &taken, &revision);
        }
    }

    /// An id whose pod leaves or has ended gets the name of the next one, unless it is given up.
    fn rename(&mut self, spec: &Spec<'_>, pods: &[&'a PodView]) {
        let taken: BTreeMap<&str, &PodView> = pods.iter().map(|pod| (pod.id.name.as_str(), *pod)).collect();
        let mut used: BTreeSet<String> = self.by_id.values().map(|each| each.pod_name().to_owned()).collect();
        for (id, instance) in &mut self.by_id {
            if instance.pod.is_none() && !instance.is_given_up() {
                let known = instance.pod_name().to_owned();
                let leaving = taken.get(known.as_str());
                if known.is_empty() || leaving.is_some() {
                    let name = next_name(spec, *id, &known, &used);
                    if name != known {
                        self.leaving.extend(leaving);
                    }
                    used.insert(name.clone());
                    instance.record.pod_name = name;
                }
            }
            let is_wanted = instance.pod.is_none() && !instance.is_given_up();
            instance.is_free = is_wanted && !taken.contains_key(instance.pod_name());
        }
    }

    /// What the journal says of a pod's revision follows the pod, but for one that is to be made anew.
    fn follow(&mut self) {
        let is_made = |instance: &Instance<'_>| !instance.record.marks.to_make || instance.pod.is_some();
        let all_made = self.by_id.values().all(is_made);
        for Instance { record, pod, .. } in self.by_id.values_mut() {
            let Some(pod) = pod else { continue };
            let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH);
            if let Some(label) = label.filter(|label| **label != record.revision) {
                if !record.marks.recreate {
                    record.revision.clone_from(label);
                }
            } else {
                record.marks.recreate = false;
            }
            // One write for all of them.
            if all_made {
                record.marks.to_make = false;
            }
        }
    }

    /// The lowest id that nobody has.
    pub(crate) fn unused(&self) -> i32 {
        let is_taken = |id: &i32| self.by_id.contains_key(id) || self.others.contains(id);
        (self.lowest..i32::MAX).find(|id| !is_taken(id)).unwrap_or_default()
    }

    /// Adds an id, with a pod of this revision to be made.
    pub(super) fn add(&mut self, spec: &Spec<'_>, taken: &BTreeSet<&str>, revision: &str) -> i32 {
        let by_id = &self.by_id;
        let used = self.used.get_or_insert_with(|| {
            let own = by_id.values().map(|each| each.pod_name().to_owned());
            own.chain(taken.iter().map(|name| (*name).to_owned())).collect()
        });
        let used = std::mem::take(used);
        let mut id = self.unused();
        // Others of its name are leaving: nobody waits for that where another id will do.
        while spec.ids != Ids::Stay && used.contains(&next_name(spec, id, "", &used)) {
            self.lowest = id.saturating_add(1);
            id = self.unused();
        }
        self.lowest = id.saturating_add(1);
        let name = next_name(spec, id, "", &used);
        let is_free = !taken.contains(name.as_str());
        self.used = Some(used);
        self.used.get_or_insert_default().insert(name.clone());
        let mut record = Record::of(name, revision);
        record.marks.to_make = true;
        self.by_id.insert(id, Instance { record, pod: None, is_free });
        id
    }

    /// Gives an id up that has no pod. `is_leaving`: its pod is seen to be on its way out, so there is nothing to ask.
    pub(super) fn give_up(&mut self, id: i32, is_leaving: bool) {
        if !self.keeps_low {
            self.lowest = self.lowest.min(id);
        }
        let gone = self.by_id.remove(&id).filter(|_| !is_leaving).map(|instance| instance.record.pod_name);
        self.vanished.extend(gone.filter(|name| !name.is_empty()));
    }

    /// The id's pod is removed, and none is made in its place.
    pub(super) fn mark_scale_in(&mut self, id: i32) {
        if let Some(instance) = self.by_id.get_mut(&id) {
            instance.record.marks.scale_in = true;
            // Nobody makes a pod for an id that is given up.
            instance.is_free = false;
        }
    }

    /// The id's pod is removed and made anew, of this revision if it is given.
    pub(super) fn mark_recreate(&mut self, id: i32, revision: Option<&str>) {
        if let Some(Instance { record, .. }) = self.by_id.get_mut(&id) {
            if let Some(revision) = revision {
                revision.clone_into(&mut record.revision);
            }
            record.marks.recreate = true;
        }
    }

    pub(super) fn set_revision(&mut self, id: i32, revision: &str) {
        if let Some(instance) = self.by_id.get_mut(&id) {
            revision.clone_into(&mut instance.record.revision);
        }
    }

    pub(crate) fn pod(&self, id: i32) -> Option<&'a PodView> {
        self.by_id.get(&id).and_then(|instance| instance.pod)
    }

    /// The lowest id that the next new pod may get.
    pub(super) const fn next(&self) -> i32 {
        self.lowest
    }

    /// How many ids the journal has room for, those of others included.
    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    /// How many more it has room for.
    pub(super) fn free_room(&self) -> usize {
        self.room.saturating_sub(self.by_id.len() + self.others.len())
    }

    /// Whether it has room for no more.
    pub(crate) fn is_full(&self) -> bool {
        self.free_room() == 0
    }

    /// What the journal is to say.
    pub(super) fn records(&self) -> BTreeMap<i32, &Record> {
        self.by_id.iter().map(|(id, instance)| (*id, &instance.record)).collect()
    }
}

/// A name that nobody has; where each id has one name, that one.
fn next_name(spec: &Spec<'_>, id: i32, known: &str, used: &BTreeSet<String>) -> String {
    let (name, uid) = (&spec.object.id.name, &spec.object.id.uid);
    match spec.names.pod {
        PodNames::OfId(name_of) => name_of(name, id),
        PodNames::OfPod(next_after) => {
            let mut next = next_after(name, uid, id, known);
            while used.contains(&next) {
                next = next_after(name, uid, id, &next);
            }
            next
        }
    }
}
