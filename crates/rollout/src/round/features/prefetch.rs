//! Which prefetch pods are made and deleted (docs/contract.md#images-first).

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use hitless_api::ObjectRef;
use hitless_api::event::Severity;
use hitless_api::pod::PodView;
use hitless_workloads::{Object, PodIntent, image, registry};
use jiff::{SignedDuration, Timestamp};

use crate::prefetch::{PrefetchState, PrefetchView, Pull, Resources, choose};
use crate::round::change::Change;
use crate::round::facts::Facts;
use crate::round::facts::images::secrets::without_secrets;
use crate::round::facts::images::{ImageState, begins_by, gives_up_at, pulls, pulls_of};
use crate::round::features::{Effects, FeatureContext};
use crate::round::note::note;
use crate::round::pod_verdict::PodVerdict;
use crate::round::wait_reason::WaitReason;
use crate::round::write::pods;

/// So many nodes fetch the same image at a time, so that a registry is not overrun, and a bad tag is not tried everywhere.
const NODES_AT_A_TIME: usize = 10;

/// A failed attempt is followed by another one after so long: the kubelet's own back-off grows to five minutes, and goes by pod.
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// The same after one that its node has not let in.
const REJECTED_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// In the place of a node's name.
const ANYWHERE: &str = "";

/// What is written, when to look again, and which labels that administrators want these pods do not get.
#[derive(Default)]
struct Prefetches<'a> {
    effects: Effects<'a>,
    /// uids of the workloads of which labels are told.
    told: BTreeSet<String>,
}

/// A pod that waits for an image.
struct Waiter<'v> {
    rank: i32,
    pod: &'v PodView,
    intent: &'v PodIntent,
    owner: ObjectRef,
}

/// Once the verdicts are known: who waits for an image gets it, in the workloads' order; what nobody needs any more is deleted.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let FeatureContext { facts, verdicts, now, .. } = *context;
    let mut prefetches = Prefetches::default();
    let wanted = wanted(facts, verdicts);
    prefetches.delete(facts, &wanted);
    let mut waiters: Vec<Waiter<'_>> = verdicts.iter().filter_map(|verdict| waiter(facts, verdict)).collect();
    waiters.sort_by(|a, b| (a.rank, &a.pod.id).cmp(&(b.rank, &b.pod.id)));
    let mut begun = BTreeSet::new();
    let mut under_way = under_way(facts);
    for Waiter { pod, intent, owner, .. } in waiters {
        for pull in pulls(pod, intent) {
            let known = facts.images.known(&pull);
            let attempts = facts.images.attempts(&pull.key());
            prefetches.watch(attempts, now);
            if let Some(pressure) = facts.images.pressure(&pull) {
                if let Some(due) = pressure.lasts_from().filter(|due| *due > now) {
                    prefetches.effects.wake(due);
                }
                continue;
            }
            if matches!(known, ImageState::There | ImageState::Pulling) || !begun.insert(pull.key()) {
                continue;
            }
            let shows = facts.images.of_new_pods(&pull).filter(|other| facts.images.attempts(&other.key()).is_empty());
            if let Some(other) = shows.filter(|other| begun.insert(other.key())) {
                prefetches.create(other, facts, &owner);
            }
            let count = under_way.entry(pull.image.clone()).or_default();
            if prefetches.is_due(attempts, now) && (*count < NODES_AT_A_TIME || !attempts.is_empty()) {
                *count += usize::from(attempts.is_empty());
                prefetches.create(pull, facts, &owner);
            }
        }
    }
    prefetches.effects
}

impl Prefetches<'_> {
    /// Whether there is to be another attempt; if not yet, when.
    fn is_due(&mut self, attempts: &[&PrefetchView], now: Timestamp) -> bool {
        let Some(latest) = attempts.first() else { return true };
        match latest.state {
            PrefetchState::NotBegun | PrefetchState::Pulling => false,
            PrefetchState::Fetched { .. } => true,
            PrefetchState::Rejected { .. } | PrefetchState::Failed { .. } => {
                let pause =
                    if matches!(latest.state, PrefetchState::Failed { .. }) { RETRY_AFTER } else { REJECTED_AFTER };
                let due = latest.created.map_or(now, |at| at.saturating_add(pause).unwrap_or(now));
                if due > now {
                    self.effects.wake(due);
                }
                due <= now
            }
        }
    }

    /// When a kubelet that has not begun is worth a word.
    fn watch(&mut self, attempts: &[&PrefetchView], now: Timestamp) {
        let latest = attempts.first().filter(|latest| latest.state == PrefetchState::NotBegun);
        for due in latest.into_iter().flat_map(|latest| [begins_by(latest), gives_up_at(latest)]).flatten() {
            if due > now {
                self.effects.wake(due);
            }
        }
    }

    fn create(&mut self, mut pull: Pull, facts: &Facts<'_, '_>, owner: &ObjectRef) {
        let key = pull.key();
        let template = facts.desired.world.object(&owner.uid).and_then(Object::template);
        let chosen = choose(facts.snapshot, &pull, template);
        if let Some(text) = chosen.text().filter(|_| self.told.insert(owner.uid.clone())) {
            let regarding = owner.reference(registry::version(&owner.group_kind));
            self.effects.notes.push(note(regarding, Severity::Warning, "PrefetchLabelsLeftOut", text));
        }
        pull.extra = chosen.extra;
        let attempt = facts.images.attempts(&key).first().map_or(0, |latest| latest.attempt).saturating_add(1);
        // Most namespaces want nothing stated, and where nothing is a node that is full takes the pod all the same.
        let is_refused = facts.images.refusals.has_refused(&pull, &key);
        let resources = if is_refused { Resources::OfContainer } else { Resources::None };
        self.effects.changes.push(Change::Write(pods::create_prefetch(&pull, attempt, resources, owner)));
    }

    /// Those whose image no pod of the node needs any more, and those after which there was another attempt that has ended.
    fn delete(&mut self, facts: &Facts<'_, '_>, wanted: &BTreeSet<String>) {
        for each in facts.snapshot.prefetches.iter().filter(|each| !each.deleting) {
            let later = facts.images.attempts(&each.key).iter().take_while(|other| other.attempt > each.attempt);
            let is_superseded = later.into_iter().any(|other| !other.is_under_way());
            let is_wanted = wanted.contains(&each.key)
                || each.rewritten.as_ref().is_some_and(|image| {
                    // Its pods are brought to the image that admission made of the one that was asked for.
                    wanted.contains(&rewritten_key(&each.pod.namespace, &each.node, image))
                })
                || (facts.images.tells_name(each) && is_wanted_anywhere(each, wanted));
            if is_superseded || !is_wanted {
                self.effects.changes.push(Change::Write(pods::delete_helper("prefetch", &each.pod, None, None)));
            }
        }
    }
}

fn waiter<'v>(facts: &'v Facts<'_, '_>, verdict: &PodVerdict) -> Option<Waiter<'v>> {
    if !matches!(verdict.waiting, Some(WaitReason::ImagePulling { .. } | WaitReason::ImageNotFetched { .. })) {
        return None;
    }
    let wanted = facts.desired.by_pod.get(verdict.pod.uid.as_str())?;
    let owner = verdict.owner.clone().unwrap_or_else(|| wanted.pod.id.object());
    Some(Waiter { rank: wanted.rank, pod: wanted.pod, intent: wanted.intent.as_ref().ok()?, owner })
}

/// Keys of what the operations need that are under way or to come. A halted rollout needs nothing.
fn wanted(facts: &Facts<'_, '_>, verdicts: &[PodVerdict]) -> BTreeSet<String> {
    let is_halted = |verdict: &&PodVerdict| matches!(verdict.waiting, Some(WaitReason::Halted { .. }));
    let halted: BTreeSet<&str> = verdicts.iter().filter(is_halted).map(|verdict| verdict.pod.uid.as_str()).collect();
    let to_come = facts.desired.by_pod.values().filter(|wanted| !halted.contains(wanted.pod.id.uid.as_str()));
    let to_come = to_come.filter_map(|wanted| Some((wanted.pod, wanted.intent.as_ref().ok()?)));
    let granted = facts.snapshot.node_transitions.values().flat_map(|node| node.unfinished());
    let granted =
        granted.filter_map(|grant| Some((*facts.desired.pods.get(grant.pod.uid.as_str())?, &grant.containers)));
    let granted = granted.flat_map(|(pod, containers)| pulls_of(pod, containers));
    let pulls = to_come.flat_map(|(pod, intent)| pulls(pod, intent)).chain(granted);
    // What was fetched by tag tells the digest.
    let keys = pulls.flat_map(|pull| {
        let rewritten = rewritten_key(&pull.namespace, &pull.node, &pull.image);
        let anywhere = rewritten_key(&pull.namespace, ANYWHERE, &pull.image);
        let shows = without_secrets(&pull).map(|other| other.key());
        let own = [pull.key(), rewritten, anywhere, Pull { image: image::unpinned(&pull.image), ..pull }.key()];
        own.into_iter().chain(shows)
    });
    keys.collect()
}

/// Whether pods of its namespace, on whatever node, are still to get its image: where none can be fetched it tells the name.
fn is_wanted_anywhere(prefetch: &PrefetchView, wanted: &BTreeSet<String>) -> bool {
    let mut images = iter::once(&prefetch.image).chain(&prefetch.rewritten);
    images.any(|image| wanted.contains(&rewritten_key(&prefetch.pod.namespace, ANYWHERE, image)))
}

/// What names an image that a prefetch pod was given by admission. No [`Pull::key`] looks like it.
fn rewritten_key(namespace: &str, node: &str, image: &str) -> String {
    format!("{namespace}/{node}/{image}")
}

/// How many nodes try to fetch each image now.
fn under_way(facts: &Facts<'_, '_>) -> BTreeMap<String, usize> {
    let mut nodes: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for each in facts.snapshot.prefetches.iter().filter(|each| !each.is_fetched() && !each.deleting) {
        nodes.entry(each.image.clone()).or_default().insert(each.node.as_str());
    }
    nodes.into_iter().map(|(image, nodes)| (image, nodes.len())).collect()
}
