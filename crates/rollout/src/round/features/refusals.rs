//! Writes down on workloads what the API server does not accept (annotation `hitless.dev/refused`).

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::MicroTime;
use hitless_api::names::{annotations, labels};
use hitless_workloads::{DesiredOperation, Object, OptIn, Plan, Stage, Write, image};
use jiff::{SignedDuration, Timestamp};

use crate::round::change::Change;
use crate::round::facts::Facts;
use crate::round::facts::companions::target_key;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::refusals::{Entry, TRIES, What, entries};
use crate::round::features::{Effects, FeatureContext};
use crate::snapshot::{Refusal, Snapshot};

/// What still holds is written down anew after so long.
const REFRESH_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// So many are written down on a workload.
const MOST: usize = 8;

/// Writes down what is refused, and takes away what is not any more. Not beside another write to the same object.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let Facts { desired, snapshot, .. } = context.facts;
    let changes = desired.plans.iter().filter_map(|plan| {
        let object = desired.world.object(&plan.workload.uid)?;
        let is_free =
            plan.writes.is_empty() && plan.opt_in != OptIn::No && !context.written.contains(&plan.workload.uid);
        is_free
            .then(|| write(object, &next(plan, object, desired, snapshot, context.now)?))
            .flatten()
            .map(Change::Write)
    });
    Effects::of(changes)
}

/// What is to stand there; `None`: it does.
fn next(
    plan: &Plan,
    object: &Object,
    desired: &DesiredState<'_>,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Option<Vec<Entry>> {
    let known = entries(object);
    if known.is_empty() && snapshot.own_writes.refused.is_empty() {
        return None;
    }
    let is_asked_for = asked_for(plan, object, desired);
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
fn asked_for<'p>(plan: &'p Plan, object: &'p Object, desired: &'p DesiredState<'_>) -> impl Fn(&What) -> bool + 'p {
    let renamed = |wanted: &DesiredOperation| desired.by_pod.get(wanted.pod.uid.as_str())?.intent.as_ref().ok();
    let asked = plan.desired.iter().flat_map(|wanted| [wanted.intent.as_ref().ok(), renamed(wanted)]).flatten();
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
