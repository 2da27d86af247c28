//! Which instance ids a CollaSet has, which pod stands for each, and which pods are to be made.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ContextDetail;
use hitless_api::names::labels;
use hitless_api::pod::PodView;

use super::context::{Context, Data, is};
use super::pods::stays;
use super::{CollaSet, names, naming};
use crate::world::World;

/// One instance id.
#[derive(Clone, Debug)]
pub(super) struct Instance<'a> {
    /// What the ResourceContext is to say of it.
    pub(super) data: Data,
    /// Its pod, if that is there to stay.
    pub(super) pod: Option<&'a PodView>,
    /// No pod has its name, so one may be made.
    pub(super) is_free: bool,
}

impl Instance<'_> {
    pub(super) fn revision(&self) -> &str {
        self.data.get(names::REVISION).map_or("", String::as_str)
    }

    pub(super) fn pod_name(&self) -> &str {
        self.data.get(names::POD).map_or("", String::as_str)
    }

    pub(super) fn is(&self, mark: &str) -> bool {
        is(&self.data, mark)
    }

    pub(super) fn mark(&mut self, mark: &str) {
        self.data.insert(mark.to_owned(), "true".to_owned());
    }
}

/// All of them.
pub(super) struct Roster<'a> {
    /// By id.
    pub(super) instances: BTreeMap<i32, Instance<'a>>,
    /// Pods that are leaving, or have ended, and whose ids have got another name.
    pub(super) leaving: Vec<&'a PodView>,
    /// Pods that were there and are seen no more, and whose ids go: whether they are gone, only the API server can tell.
    pub(super) vanished: Vec<String>,
    /// Names that are not given to a new pod; made when the first id is added.
    used: Option<BTreeSet<String>>,
    /// Every id below is taken.
    lowest: i32,
    /// Ids that others have, as they are.
    others: Vec<ContextDetail>,
}

impl<'a> Roster<'a> {
    /// As the ResourceContext and the pods say.
    pub(super) fn of(set: CollaSet<'a>, context: Context<'a>, world: &World<'a>) -> Self {
        let pods = world.pods(&set.object.id.uid);
        let (own, others): (Vec<_>, Vec<_>) =
            context.contexts().iter().partition(|each| each.data.get(names::OWNER) == Some(&set.object.id.name));
        let others = others.into_iter().cloned().collect();
        let mut roster = Self {
            instances: BTreeMap::new(),
            leaving: Vec::new(),
            vanished: Vec::new(),
            used: None,
            lowest: 0,
            others,
        };
        for each in own {
            let instance = Instance { data: each.data.clone(), pod: None, is_free: true };
            roster.instances.insert(each.id, instance);
        }
        roster.let_go(set, world);
        roster.assign(set, pods);
        roster.rename(set, pods);
        roster.follow();
        roster
    }

    /// Ids whose pods have been excluded: the pods are there, and nobody's.
    fn let_go(&mut self, set: CollaSet<'_>, world: &World<'_>) {
        let unowned = world.unowned_pods(&set.object.id.namespace).iter().filter(|pod| !pod.terminating);
        let unowned: BTreeSet<&str> = unowned.map(|pod| pod.id.name.as_str()).collect();
        self.instances.retain(|_, instance| !unowned.contains(instance.pod_name()));
    }

    /// Each id gets the pod that its entry names, or that says so itself; what is left gets an id of its own.
    fn assign(&mut self, set: CollaSet<'_>, pods: &[&'a PodView]) {
        let live: Vec<&PodView> = pods.iter().copied().filter(|pod| stays(pod)).collect();
        let by_name: BTreeMap<&str, &PodView> = live.iter().map(|pod| (pod.id.name.as_str(), *pod)).collect();
        let mut left: BTreeSet<&str> = by_name.keys().copied().collect();
        for instance in self.instances.values_mut() {
            instance.pod = by_name.get(instance.pod_name()).copied();
            if let Some(pod) = instance.pod {
                left.remove(pod.id.name.as_str());
            }
        }
        for name in left {
            let pod = by_name[name];
            let said = pod.labels.get(names::INSTANCE_ID).and_then(|id| id.parse::<i32>().ok());
            let open = |id: &i32| match self.instances.get(id) {
                // One that was written by somebody who keeps no names.
                Some(instance) => instance.pod.is_none() && instance.pod_name().is_empty(),
                None => !self.others.iter().any(|other| other.id == *id),
            };
            let id = said.filter(open).unwrap_or_else(|| self.unused());
            let revision = pod.labels.get(labels::CONTROLLER_REVISION_HASH).cloned().unwrap_or_default();
            let known = self.instances.remove(&id).map(|instance| instance.data);
            let mut data = known.unwrap_or_else(|| entry(set, &revision));
            data.insert(names::POD.to_owned(), name.to_owned());
            self.instances.insert(id, Instance { data, pod: Some(pod), is_free: false });
        }
    }

    /// An id whose pod leaves or has ended gets the name of the next one, unless it is given up.
    fn rename(&mut self, set: CollaSet<'_>, pods: &[&'a PodView]) {
        let taken: BTreeMap<&str, &PodView> = pods.iter().map(|pod| (pod.id.name.as_str(), *pod)).collect();
        let mut used: BTreeSet<String> = self.instances.values().map(|each| each.pod_name().to_owned()).collect();
        for (id, instance) in &mut self.instances {
            if instance.pod.is_none() && !instance.is(names::SCALE_IN) {
                let known = instance.pod_name().to_owned();
                let leaving = taken.get(known.as_str());
                if known.is_empty() || leaving.is_some() {
                    let name = next_name(set, *id, &known, &used);
                    if name != known {
                        self.leaving.extend(leaving);
                    }
                    used.insert(name.clone());
                    instance.data.insert(names::POD.to_owned(), name);
                }
            }
            let is_wanted = instance.pod.is_none() && !instance.is(names::SCALE_IN);
            instance.is_free = is_wanted && !taken.contains_key(instance.pod_name());
        }
    }

    /// What the ResourceContext says of a pod's revision follows the pod, but for one that is to be made anew.
    fn follow(&mut self) {
        let is_made = |instance: &Instance<'_>| !instance.is(names::JUST_CREATE) || instance.pod.is_some();
        let all_made = self.instances.values().all(is_made);
        for instance in self.instances.values_mut() {
            let Some(pod) = instance.pod else { continue };
            let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH);
            if let Some(label) = label.filter(|label| *label != instance.revision()) {
                if !instance.is(names::RECREATE) {
                    instance.data.insert(names::REVISION.to_owned(), label.clone());
                }
            } else {
                instance.data.remove(names::RECREATE);
            }
            // One write for all of them.
            if all_made {
                instance.data.remove(names::JUST_CREATE);
            }
        }
    }

    /// The lowest id that nobody has.
    pub(super) fn unused(&self) -> i32 {
        let is_taken = |id: &i32| self.instances.contains_key(id) || self.others.iter().any(|other| other.id == *id);
        (self.lowest..i32::MAX).find(|id| !is_taken(id)).unwrap_or_default()
    }

    /// Adds an id, with a pod of this revision to be made.
    pub(super) fn add(&mut self, set: CollaSet<'_>, taken: &BTreeSet<&str>, revision: &str) -> i32 {
        let id = self.unused();
        self.lowest = id.saturating_add(1);
        let instances = &self.instances;
        let used = self.used.get_or_insert_with(|| {
            let own = instances.values().map(|each| each.pod_name().to_owned());
            own.chain(taken.iter().map(|name| (*name).to_owned())).collect()
        });
        let name = next_name(set, id, "", used);
        used.insert(name.clone());
        let is_free = !taken.contains(name.as_str());
        let mut data = entry(set, revision);
        data.insert(names::POD.to_owned(), name);
        data.insert(names::JUST_CREATE.to_owned(), "true".to_owned());
        self.instances.insert(id, Instance { data, pod: None, is_free });
        id
    }

    /// Gives an id up that has no pod. `is_leaving`: its pod is seen to be on its way out, so there is nothing to ask.
    pub(super) fn give_up(&mut self, id: i32, is_leaving: bool) {
        self.lowest = self.lowest.min(id);
        if let Some(instance) = self.instances.remove(&id).filter(|_| !is_leaving) {
            self.vanished.extend(instance.data.get(names::POD).cloned());
        }
    }

    /// How many ids the ResourceContext has.
    pub(super) fn size(&self) -> usize {
        self.instances.len() + self.others.len()
    }

    /// What it is to say without those of this CollaSet.
    pub(super) fn without_own(&self) -> Vec<ContextDetail> {
        self.others.clone()
    }

    /// What the ResourceContext is to say.
    pub(super) fn contexts(&self) -> Vec<ContextDetail> {
        let own = self.instances.iter().map(|(id, instance)| ContextDetail { id: *id, data: instance.data.clone() });
        let mut all: Vec<ContextDetail> = self.others.iter().cloned().chain(own).collect();
        all.sort_by_key(|each| each.id);
        all
    }
}

fn entry(set: CollaSet<'_>, revision: &str) -> Data {
    let pairs = [(names::OWNER, set.object.id.name.as_str()), (names::REVISION, revision)];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// A name that nobody has; where pods are named in sequence, the only one.
fn next_name(set: CollaSet<'_>, id: i32, known: &str, used: &BTreeSet<String>) -> String {
    let (name, uid) = (&set.object.id.name, &set.object.id.uid);
    if set.body.in_sequence {
        return naming::in_sequence(name, id);
    }
    let mut next = naming::next_pod(name, uid, id, known);
    while used.contains(&next) {
        next = naming::next_pod(name, uid, id, &next);
    }
    next
}
