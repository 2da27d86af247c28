//! What the API server does not accept of prefetch and companion pods: as this process has seen it, and as it stands on their workloads
//! (annotation `hitless.dev/refused`), where the next leader and the command line find it. So both say and decide the same.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::MicroTime;
use hitless_api::names::{annotations, labels};
use hitless_workloads::{Object, OptIn, Plan, PodWish, Stage, Write, image};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::companions::target_key;
use super::wishes::Wishes;
use crate::prefetch::Pull;
use crate::snapshot::{Refusal, Snapshot};

/// So often the API server has to have said no to a prefetch pod: to one that asks for nothing, and then to one that asks for what the
/// container does that it fetches for.
const TRIES: u32 = 2;
/// What still holds is written down anew after so long.
const REFRESH_AFTER: SignedDuration = SignedDuration::from_mins(2);
/// So many are written down on a workload.
const MOST: usize = 8;

/// What is refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum What {
    /// The pods that would fetch this image. Whatever their node is: the API server does not ask for it.
    Image(String),
    /// The companion pod with this key.
    Companion(String),
}

/// An entry of the annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    what: What,
    words: String,
    tries: u32,
    at: MicroTime,
}

/// All that is known.
pub(super) struct Refusals<'a> {
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
    pub(super) fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
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
    pub(super) fn of_pull(&self, pull: &Pull, key: &str) -> Option<&Refusal> {
        let own = self.own.get(key).filter(|refusal| refusal.tries >= TRIES && refusal.counts(self.now));
        let told = || self.images.get(&(pull.namespace.clone(), pull.image.clone()));
        own.or_else(|| told().filter(|refusal| refusal.counts(self.now)))
    }

    /// Whether there was no room for the pod that would fetch, some time ago.
    pub(super) fn had_no_room(&self, pull: &Pull, key: &str) -> bool {
        let own = self.own.get(key).filter(|refusal| refusal.tries >= TRIES);
        let last = own.or_else(|| self.images.get(&(pull.namespace.clone(), pull.image.clone())));
        last.is_some_and(|refusal| refusal.is_about_room() && !refusal.counts(self.now))
    }

    /// Whether one that asks for nothing has been refused.
    pub(super) fn has_refused(&self, pull: &Pull, key: &str) -> bool {
        self.own.contains_key(key) || self.of_pull(pull, key).is_some()
    }

    /// Why the companion with this key is not accepted.
    pub(super) fn of_companion(&self, key: &str) -> Option<&Refusal> {
        let known = self.own.get(key).or_else(|| self.companions.get(key));
        known.filter(|refusal| refusal.counts(self.now))
    }

    /// Images of which admission of others does not accept the pods that would fetch them, with its words. That may mean the image (a
    /// signature), which a change in place might not show to them, or only the form of our pod: a new pod of the workload's own tells.
    pub(super) fn by_others(&self) -> BTreeMap<(String, String), String> {
        let own = self.own.values().filter(|refusal| refusal.tries >= TRIES);
        let own = own.filter_map(|refusal| Some((refusal.image.clone()?, refusal)));
        let told = self.images.iter().filter(|(image, _)| !self.begun.contains(*image));
        let told = told.map(|(image, refusal)| (image.clone(), refusal));
        let all = told.chain(own).filter(|(_, refusal)| refusal.counts(self.now) && !refusal.is_about_room());
        all.map(|(image, refusal)| (image, refusal.words.clone())).collect()
    }
}

fn entries(object: &Object) -> Vec<Entry> {
    let text = object.annotations.get(annotations::REFUSED);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Writes down what is refused, and takes away what is not any more. Not beside another write to the same object: uids in `taken`.
pub(super) fn changes<'a>(
    wishes: &Wishes<'a>,
    snapshot: &Snapshot,
    taken: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<Change<'a>> {
    let changes = wishes.plans.iter().filter_map(|plan| {
        let object = wishes.world.object(&plan.workload.uid)?;
        let is_free = plan.writes.is_empty() && plan.opt_in != OptIn::No && !taken.contains(&plan.workload.uid);
        is_free.then(|| write(object, &next(plan, object, wishes, snapshot, now)?)).flatten().map(Change::Workload)
    });
    changes.collect()
}

/// What is to stand there; `None`: it does.
fn next(plan: &Plan, object: &Object, wishes: &Wishes<'_>, snapshot: &Snapshot, now: Timestamp) -> Option<Vec<Entry>> {
    let known = entries(object);
    if known.is_empty() && snapshot.own_writes.refused.is_empty() {
        return None;
    }
    let is_asked_for = asked_for(plan, object, wishes);
    let mut own = own(plan, snapshot, now, &is_asked_for);
    if known.is_empty() && own.is_empty() {
        return None;
    }
    let is_begun = |what: &What| match what {
        What::Image(image) => {
            let mut all = snapshot.prefetches.iter();
            all.any(|each| each.image == *image && each.pod.namespace == plan.workload.namespace)
        }
        What::Companion(key) => {
            let mut all = snapshot.companions.iter();
            *key != target_key(plan) || all.any(|pod| pod.labels.get(labels::COMPANION) == Some(key))
        }
    };
    let is_under_way =
        matches!(plan.stage, Stage::Rolling | Stage::Finishing | Stage::SteppingAside(_) | Stage::Refused(_));
    own.retain(|_, _| is_under_way);
    // What is old is asked for again. Until that is answered it is the last answer.
    let is_told = |entry: &&Entry| {
        let is_recent = now.duration_since(entry.at.0) < Refusal::COUNTS_FOR;
        is_under_way
            && (is_recent || is_asked_for(&entry.what))
            && (own.contains_key(&entry.what) || !is_begun(&entry.what))
    };
    let kept = known.iter().filter(is_told).filter(|entry| {
        let news = own.get(&entry.what).map(|own| own.at.0.duration_since(entry.at.0));
        news.is_none_or(|later| later < REFRESH_AFTER)
    });
    let mut next: BTreeMap<What, Entry> = own.clone();
    next.extend(kept.map(|entry| (entry.what.clone(), entry.clone())));
    let next: Vec<Entry> = next.into_values().take(MOST).collect();
    (next != known).then_some(next)
}

/// What is a part of this rollout: the images of the plan, and what admission has made of them.
fn asked_for<'p>(plan: &'p Plan, object: &'p Object, wishes: &'p Wishes<'_>) -> impl Fn(&What) -> bool + 'p {
    let renamed = |wish: &PodWish| wishes.by_pod.get(wish.pod.uid.as_str())?.intent.as_ref().ok();
    let asked = plan.wishes.iter().flat_map(|wish| [wish.intent.as_ref().ok(), renamed(wish)]).flatten();
    let asked = asked.flat_map(|intent| intent.operation.containers.values().chain(intent.operation.fetch.values()));
    let asked: BTreeSet<&str> = asked.map(|change| change.to.as_str()).collect();
    move |what| match what {
        What::Image(reference) => {
            let mut images = object.template().into_iter().flat_map(hitless_workloads::Template::images);
            asked.contains(reference.as_str())
                || images.any(|(_, image)| image::unpinned(image) == image::unpinned(reference))
        }
        What::Companion(key) => *key == target_key(plan),
    }
}

/// What this process knows of the workload's pods.
fn own(
    plan: &Plan,
    snapshot: &Snapshot,
    now: Timestamp,
    is_asked_for: &impl Fn(&What) -> bool,
) -> BTreeMap<What, Entry> {
    let entry = |what, refusal: &Refusal| {
        let Refusal { words, tries, at, image: _ } = refusal;
        Entry { what, words: words.clone(), tries: *tries, at: MicroTime(*at) }
    };
    let mut all: BTreeMap<What, Entry> = BTreeMap::new();
    for (key, refusal) in snapshot.own_writes.refused.iter().filter(|(_, refusal)| refusal.counts(now)) {
        let what = match &refusal.image {
            Some((namespace, image)) if *namespace == plan.workload.namespace && refusal.tries >= TRIES => {
                What::Image(image.clone())
            }
            Some(_) => continue,
            None => What::Companion(key.clone()),
        };
        if !is_asked_for(&what) {
            continue;
        }
        let known = all.get(&what).is_some_and(|known| known.at.0 >= refusal.at);
        if !known {
            all.insert(what.clone(), entry(what, refusal));
        }
    }
    all
}

fn write(object: &Object, next: &[Entry]) -> Option<Write> {
    const VERB: &str = "tell-refused";
    if next.is_empty() {
        return Some(Write::without_annotation(VERB, object, annotations::REFUSED));
    }
    let text = serde_json::to_string(next).ok()?;
    Some(Write::annotate(VERB, object, annotations::REFUSED, &text))
}
