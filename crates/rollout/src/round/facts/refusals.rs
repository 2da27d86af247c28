//! What the API server does not accept of prefetch and companion pods: as this process has seen it, and as it stands on their workloads
//! (annotation `hitless.dev/refused`), where the next leader and the command line find it. So both say and decide the same.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::MicroTime;
use hitless_api::names::annotations;
use hitless_workloads::Object;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::prefetch::Pull;
use crate::snapshot::{Refusal, Snapshot};

/// So often the API server has to have said no to a prefetch pod: to one that asks for nothing, and then to one that asks for what the
/// container does that it fetches for.
pub(crate) const TRIES: u32 = 2;

/// What is refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum What {
    /// The pods that would fetch this image. Whatever their node is: the API server does not ask for it.
    Image(String),
    /// The companion pod with this key.
    Companion(String),
}

/// An entry of the annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub(crate) what: What,
    pub(crate) words: String,
    pub(crate) tries: u32,
    pub(crate) at: MicroTime,
}

/// All that is known.
pub(crate) struct Refusals<'a> {
    own: &'a BTreeMap<String, Refusal>,
    /// What stands on workloads: by namespace and image.
    images: BTreeMap<(String, String), Refusal>,
    /// Of these images pods that fetch them have been accepted since, somewhere.
    begun: BTreeSet<(String, String)>,
    /// What stands on workloads: by key.
    companions: BTreeMap<String, Refusal>,
    now: Timestamp,
}

impl<'a> Refusals<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let (mut images, mut companions) = (BTreeMap::new(), BTreeMap::new());
        // ReplicaSets get the annotations of their Deployments, and keep old ones.
        for object in snapshot.objects.iter().filter(|object| object.template().is_some()) {
            for Entry { what, words, tries, at } in entries(object) {
                let refusal = Refusal { words, tries, at: at.0, image: None };
                match what {
                    What::Image(image) => _ = images.insert((object.id.namespace.clone(), image), refusal),
                    What::Companion(key) => _ = companions.insert(key, refusal),
                }
            }
        }
        let begun = snapshot.prefetches.iter().filter(|_| !images.is_empty());
        let begun = begun.map(|each| (each.pod.namespace.clone(), each.image.clone())).collect();
        Self { own: &snapshot.own_writes.refused, images, begun, companions, now }
    }

    /// Why the pod that would fetch is not accepted, if that has been said often enough.
    pub(crate) fn of_pull(&self, pull: &Pull, key: &str) -> Option<&Refusal> {
        let own = self.own.get(key).filter(|refusal| refusal.tries >= TRIES && refusal.counts(self.now));
        let told = || self.images.get(&(pull.namespace.clone(), pull.image.clone()));
        own.or_else(|| told().filter(|refusal| refusal.counts(self.now)))
    }

    /// Whether there was no room for the pod that would fetch, some time ago.
    pub(crate) fn had_no_room(&self, pull: &Pull, key: &str) -> bool {
        let own = self.own.get(key).filter(|refusal| refusal.tries >= TRIES);
        let last = own.or_else(|| self.images.get(&(pull.namespace.clone(), pull.image.clone())));
        last.is_some_and(|refusal| refusal.is_about_room() && !refusal.counts(self.now))
    }

    /// Whether one that asks for nothing has been refused.
    pub(crate) fn has_refused(&self, pull: &Pull, key: &str) -> bool {
        self.own.contains_key(key) || self.of_pull(pull, key).is_some()
    }

    /// Why the companion with this key is not accepted.
    pub(crate) fn of_companion(&self, key: &str) -> Option<&Refusal> {
        let known = self.own.get(key).or_else(|| self.companions.get(key));
        known.filter(|refusal| refusal.counts(self.now))
    }

    /// Images of which admission of others does not accept the pods that would fetch them, with its words. That may mean the image (a
    /// signature), which a change in place might not show to them, or only the form of our pod: a new pod of the workload's own tells.
    pub(crate) fn by_others(&self) -> BTreeMap<(String, String), String> {
        let own = self.own.values().filter(|refusal| refusal.tries >= TRIES);
        let own = own.filter_map(|refusal| Some((refusal.image.clone()?, refusal)));
        let told = self.images.iter().filter(|(image, _)| !self.begun.contains(*image));
        let told = told.map(|(image, refusal)| (image.clone(), refusal));
        let all = told.chain(own).filter(|(_, refusal)| refusal.counts(self.now) && !refusal.is_about_room());
        all.map(|(image, refusal)| (image, refusal.words.clone())).collect()
    }
}

pub(crate) fn entries(object: &Object) -> Vec<Entry> {
    let text = object.annotations.get(annotations::REFUSED);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
