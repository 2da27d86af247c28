//! CollaSets, whose pods nobody makes and removes but a controller of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::lifecycle::TO_DELETE;
use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_api::{Grant, TransitionLedgerSpec};
use hitless_workloads::{Body, Object};
use hitless_world::kubelet::runs;
use serde_json::Value;

use super::{Checks, Seen, budget};
use crate::clock::{Micros, SECOND};
use crate::server::{Server, WorkloadObject};
use crate::watch::Key;

/// Label of a pod: its instance id.
const INSTANCE_ID: [&str; 2] = ["collaset.kusionstack.io/instance-id", "apps.kruise.io/cloneset-instance-id"];
/// Label of a pod: it is to be removed.
const REMOVED: [&str; 2] = [TO_DELETE, "apps.kruise.io/specified-delete"];

/// What is known of them beside the objects.
#[derive(Default)]
pub(super) struct CollaSets {
    /// By uid: most pods that were wanted since the CollaSet was last at rest.
    most: BTreeMap<String, usize>,
    /// By uid: how many pods were ever wanted.
    asked: BTreeMap<String, Asked>,
    /// Claims that are to outlive everything.
    kept: BTreeSet<Key>,
}

/// What a CollaSet's owner has ever asked for.
#[derive(Default)]
struct Asked {
    now: usize,
    most: usize,
    /// Pods may go for good: fewer were wanted, or others took their place. Of these any number goes at a time.
    surplus: bool,
}

impl Checks {
    /// The CollaSet is about to be deleted: its claims are to stay.
    pub(crate) fn keep_claims(&mut self, server: &Server, set: &WorkloadObject) {
        let id = &set.view.id;
        let is_its_own = |claim: &&WorkloadObject| {
            let is_owned = claim.view.owner.as_ref().is_some_and(|owner| owner.uid == id.uid);
            is_owned || claim.view.labels.get(labels::CLAIM_OF) == Some(&id.uid)
        };
        let own = server.objects_of("PersistentVolumeClaim").filter(is_its_own);
        self.colla_sets.kept.extend(own.map(WorkloadObject::key));
    }

    /// A controller of ours is about to delete a claim. A CloneSet's goes when its pod is removed for good, no other does.
    pub(super) fn claim_deleted(&mut self, server: &Server, claim: &Object) {
        let owner = claim.owner.as_ref().filter(|owner| owner.group_kind.kind == "CloneSet");
        let set = owner.and_then(|owner| server.object("CloneSet", &owner.namespace, &owner.name));
        let id = INSTANCE_ID.iter().find_map(|label| claim.labels.get(*label));
        let (Some(set), Some(its)) = (set, id) else {
            return self.fail(server.now, format!("{} was deleted", claim.id.label()));
        };
        let its_pod = |pod: &&Arc<PodView>| id_of(pod) == Some(its.as_str()) && !is_given_up(server, pod);
        let in_use = live(server, &set.view.id.uid).find(its_pod);
        let wanted = instances(set).into_iter().find(|known| known.id == *its && !known.is_given_up);
        if let Some(pod) = in_use.map(|pod| pod.id.name.clone()).or(wanted.map(|known| known.pod)) {
            self.fail(server.now, format!("{} was deleted, and pod {pod} is not to go", claim.id.label()));
        }
    }

    /// A claim that should have outlived its CollaSet.
    pub(crate) fn lost_claim(&self, server: &Server) -> Option<String> {
        let lost = self.colla_sets.kept.iter().find(|key| !server.objects.contains_key(*key))?;
        Some(format!("{lost} is gone, and was to be kept"))
    }
}

/// Pods of the CollaSet that are not being deleted and have not ended.
fn live<'a>(server: &'a Server, uid: &'a str) -> impl Iterator<Item = &'a Arc<PodView>> {
    let own = move |pod: &&Arc<PodView>| pod.owner.as_ref().is_some_and(|owner| owner.uid == uid);
    server.pods.values().map(|pod| &pod.view).filter(own).filter(|pod| !pod.terminating && !pod.finished)
}

/// How many pods of the CollaSet a controller has seen beyond those that are wanted, if what it has seen of the CollaSet is old.
fn beyond(server: &Server, seen: &Seen, uid: &str) -> usize {
    let Some(known) = seen.objects.iter().find(|object| object.id.uid == uid) else { return 0 };
    let is_old = |set: &&WorkloadObject| set.view.id.uid == uid && set.view.resource_version != known.resource_version;
    let Body::CollaSet(body) = &known.body else { return 0 };
    let Some(now) = server.objects_of("CollaSet").find(is_old) else { return 0 };
    let is_its = |pod: &&Arc<PodView>| pod.owner.as_ref().is_some_and(|owner| owner.uid == uid) && !pod.terminating;
    let there = seen.pods.iter().filter(is_its).count();
    if replicas(now) > body.replicas { there.saturating_sub(body.replicas) } else { 0 }
}

fn replicas(set: &WorkloadObject) -> usize {
    set.json["spec"]["replicas"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
}

/// Pods that an update of a CloneSet may make beyond the wanted ones, whatever it does now.
fn surge(set: &WorkloadObject) -> usize {
    let most = set.json["spec"]["updateStrategy"]["maxSurge"].as_u64();
    most.and_then(|most| usize::try_from(most).ok()).unwrap_or_default()
}

/// What a CloneSet's journal has of a pod.
struct Instance {
    id: String,
    pod: String,
    is_given_up: bool,
}

fn instances(set: &WorkloadObject) -> Vec<Instance> {
    let text = set.json["metadata"]["annotations"]["hitless.dev/instances"].as_str().unwrap_or_default();
    let journal: Value = serde_json::from_str(text).unwrap_or_default();
    let name = &set.view.id.name;
    let entries = journal["pods"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let entry = |entry: &str| {
        let (entry, named) = entry.split_once('=').map_or((entry, None), |(entry, named)| (entry, Some(named)));
        let (id, flags) = entry.split_at(5);
        let pod = named.map_or_else(|| format!("{name}-{id}"), ToOwned::to_owned);
        Instance { id: id.to_owned(), pod, is_given_up: flags.contains('s') }
    };
    entries.map(entry).collect()
}

fn id_of(pod: &PodView) -> Option<&str> {
    INSTANCE_ID.iter().find_map(|label| pod.labels.get(*label)).map(String::as_str)
}

impl Checks {
    /// A CollaSet's owner wants another number of pods, or the CollaSet is at rest.
    pub(crate) fn wanted(&mut self, server: &Server, set: &WorkloadObject, at_rest: bool) {
        let uid = &set.view.id.uid;
        // Where a rule never lets a pod go there are more of them than are wanted.
        let there = live(server, uid).count();
        let before = if at_rest { there } else { self.colla_sets.most.get(uid).copied().unwrap_or_default() };
        self.colla_sets.most.insert(uid.clone(), before.max(replicas(set) + surge(set)));
        let asked = self.colla_sets.asked.entry(uid.clone()).or_default();
        let policy = set.json["spec"]["updateStrategy"]["podUpgradePolicy"].as_str().unwrap_or_default();
        // How many of a CloneSet's may be made anew at a time its own limits say, which change.
        let is_bounded = set.view.clone_set().is_none();
        asked.surplus |= !is_bounded || replicas(set) < asked.now || policy.starts_with("Replace");
        (asked.now, asked.most) = (replicas(set), asked.most.max(replicas(set)));
    }

    /// A pod is as `view` says now: one that takes another one's place, or gives its own up.
    pub(super) fn pair(&mut self, view: &PodView) {
        if let Some(owner) = view.owner.as_ref().filter(|_| view.labels.keys().any(|key| key.contains("replace"))) {
            self.colla_sets.asked.entry(owner.uid.clone()).or_default().surplus = true;
        }
    }

    /// Of pods that serve nobody and are to be made anew, places for no more removals than a quarter of the most pods that were ever wanted,
    /// one at least, are in a ledger at a time, whatever probes say. Whoever adds one has read the ledger that it is added to, so this holds
    /// however old the rest is that he has seen; of what is away without such a place that can't be said. No pod goes without
    /// ([`unasked`]), so no more are deleted either. A controller that has not seen yet that more pods are wanted gives up those that it
    /// sees beyond the number that it knows, as native controllers do; so many come on top.
    pub(super) fn too_many_anew(
        &self,
        server: &Server,
        places: &TransitionLedgerSpec,
        seen: Option<&Seen>,
    ) -> Option<String> {
        let mut counts: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        for (uid, _) in places.reservations.iter().filter(|(_, place)| place.removal) {
            let Some(owner) = server.pods.get(uid.as_str()).and_then(|pod| pod.view.owner.as_ref()) else { continue };
            counts.entry(owner.uid.as_str()).or_insert((0, owner.name.as_str())).0 += 1;
        }
        counts.into_iter().find_map(|(uid, (count, name))| {
            let asked = self.colla_sets.asked.get(uid).filter(|asked| !asked.surplus)?;
            let bound = (asked.most / 4).max(1) + seen.map_or(0, |seen| beyond(server, seen, uid));
            (count > bound)
                .then(|| format!("{count} pods of CollaSet {name} are made anew at a time, and {bound} may be"))
        })
    }

    /// A controller of ours is about to make a pod.
    pub(crate) fn pod_made(&mut self, server: &Server, pod: &PodView) {
        // The garbage collector takes what is made for somebody who goes.
        if self.off || pod.owner.as_ref().is_some_and(|owner| server.leaving.contains(&owner.uid)) {
            return;
        }
        let name = &pod.id.name;
        let set =
            pod.owner.as_ref().and_then(|owner| server.object(&owner.group_kind.kind, &owner.namespace, &owner.name));
        let Some(set) = set else {
            return self.fail(server.now, format!("pod {name} was made for nobody"));
        };
        let uid = &set.view.id.uid;
        if let Some(other) = live(server, uid).find(|other| id_of(other) == id_of(pod)) {
            let id = id_of(pod).unwrap_or("?");
            return self.fail(server.now, format!("pod {name} was made for id {id}, which pod {} has", other.id.name));
        }
        let most = self.colla_sets.most.get(uid).copied().unwrap_or_default();
        // Those whose ids are given up are on their way out.
        let stays = |pod: &&Arc<PodView>| !is_given_up(server, pod);
        if live(server, uid).filter(stays).count() >= most {
            return self.fail(server.now, format!("pod {name} was made though {most} pods are there already"));
        }
        if let Some(what) = unlike_its_revision(server, pod) {
            self.fail(server.now, what);
        }
    }

    /// A controller of ours is about to delete a pod.
    pub(crate) fn deleted_by_us(&mut self, server: &Server, pod: &PodView) {
        if self.off || pod.terminating || pod.finished {
            return;
        }
        let name = &pod.id.name;
        if let Some(what) = unasked(server, pod) {
            return self.fail(server.now, what);
        }
        if pod.ready() && pod.in_service().is_some_and(|is| is.is_true) {
            return self.fail(server.now, format!("pod {name} was deleted while it serves"));
        }
        if !runs(pod) || pod.in_service().is_none_or(|is| is.is_true) {
            // It serves nobody: its container or its node is down.
            return;
        }
        let Some(truth) = self.pods.get(&pod.id.uid) else { return };
        let (Some(until), Some(lowered)) = (truth.clients, truth.lowered_at) else { return };
        let of_pod = |grant: &&Grant| grant.pod.uid == pod.id.uid;
        let mut grants = server.transitions.values().flat_map(|node| &node.view.spec.grants);
        let Some(grant) = grants.find(of_pod) else {
            return self.fail(server.now, format!("pod {name} was deleted with clients, and nobody has drained it"));
        };
        let seconds = grant.drain.straggler_after_seconds.min(grant.drain.deadline_seconds);
        // A node's clock may be wrong by so much.
        let deadline = lowered + Micros::from(seconds).saturating_sub(11) * SECOND;
        if server.now < until.min(deadline) {
            self.fail(server.now, format!("pod {name} was deleted while clients are connected to it"));
        }
    }

    /// A pod that leaves: until when clients are connected to it. Those that have gone do not come back, whoever looks next.
    pub(crate) fn clients(&mut self, uid: &str, until: Micros) {
        let truth = self.truth(uid);
        truth.clients = Some(truth.clients.map_or(until, |known| known.min(until)));
    }
}

/// The ResourceContext says that the id of the pod is given up.
fn is_given_up(server: &Server, pod: &PodView) -> bool {
    let owner = pod.owner.as_ref();
    let clone_set = owner.and_then(|owner| server.object("CloneSet", &owner.namespace, &owner.name));
    if let Some(set) = clone_set {
        return instances(set).iter().any(|known| known.is_given_up && known.pod == pod.id.name);
    }
    let context = owner.and_then(|owner| server.object("ResourceContext", &owner.namespace, &owner.name));
    let mut entries = context.and_then(|it| it.json["spec"]["contexts"].as_array()).into_iter().flatten();
    let own = entries.find(|entry| entry["data"]["hitless.dev/pod"] == pod.id.name.as_str());
    own.is_some_and(|entry| entry["data"]["ScaleIn"] == "true")
}

/// No pod goes without a place in the ledger, but with its CollaSet: the rules have let it go, and it counts.
fn unasked(server: &Server, pod: &PodView) -> Option<String> {
    let owner = pod.owner.as_ref()?;
    let is_its_sets = server.leaving.contains(&owner.uid)
        || server.object(&owner.group_kind.kind, &owner.namespace, &owner.name).is_none_or(|set| set.view.deleting);
    let ledger = server.ledgers.get(pod.id.namespace.as_str());
    let has_place = ledger.is_some_and(|ledger| ledger.spec.reservations.contains_key(&pod.id.uid));
    (!is_its_sets && !has_place).then(|| format!("pod {} was deleted, and no rule was asked", pod.id.name))
}

/// A pod runs what its revision says.
pub(crate) fn unlike_its_revision(server: &Server, pod: &PodView) -> Option<String> {
    let (name, label) = (&pod.id.name, pod.labels.get(labels::CONTROLLER_REVISION_HASH)?);
    let owner = pod.owner.as_ref()?;
    let Some(revision) = server.object("ControllerRevision", &owner.namespace, label) else {
        return Some(format!("pod {name} is of revision {label}, which is not there"));
    };
    let image = |object: &WorkloadObject| {
        let image = &object.json["data"]["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().unwrap_or_default().to_owned()
    };
    let (is, wanted) = (&pod.containers.first()?.image, image(revision));
    (!budget::same_image(is, &wanted)).then(|| format!("pod {name} runs {is}, and its revision {label} says {wanted}"))
}

/// What must be true of a CollaSet that is at rest, whatever its rules are.
pub(crate) fn at_rest(server: &Server, set: &WorkloadObject) -> Option<String> {
    let (name, namespace, uid) = (&set.view.id.name, &set.view.id.namespace, &set.view.id.uid);
    let pods: Vec<&Arc<PodView>> = live(server, uid).collect();
    let wanted = replicas(set);
    if pods.len() < wanted {
        return Some(format!("CollaSet {name} has {} pods of {wanted}", pods.len()));
    }
    let mut ids: Vec<&str> = pods.iter().filter_map(|pod| id_of(pod)).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != pods.len() {
        return Some(format!("pods of CollaSet {name} share instance ids: {ids:?}"));
    }
    if let Some(what) = pods.iter().find_map(|pod| unlike_its_revision(server, pod)) {
        return Some(what);
    }
    let mut named: Vec<String> = if set.view.clone_set().is_some() {
        instances(set).into_iter().map(|known| known.pod).collect()
    } else {
        let context = server.object("ResourceContext", namespace, name)?;
        let entries = context.json["spec"]["contexts"].as_array().into_iter().flatten();
        entries.filter_map(|each| each["data"]["hitless.dev/pod"].as_str().map(ToOwned::to_owned)).collect()
    };
    let mut there: Vec<String> = pods.iter().map(|pod| pod.id.name.clone()).collect();
    named.sort_unstable();
    there.sort_unstable();
    (named != there).then(|| format!("the journal of {name} names {named:?}, and there are {there:?}"))
}

/// What a CollaSet that is at rest lacks, unless something is in its way.
pub(crate) fn unfinished(server: &Server, set: &WorkloadObject) -> Option<String> {
    let Object { id, .. } = &*set.view;
    let pods: Vec<&Arc<PodView>> = live(server, &id.uid).collect();
    let wanted = replicas(set);
    if pods.len() > wanted {
        return Some(format!("it has {} pods, and {wanted} are wanted", pods.len()));
    }
    if let Some(pod) = pods.iter().find(|pod| REMOVED.iter().any(|label| pod.labels.contains_key(*label))) {
        return Some(format!("pod {} is to be removed", pod.id.name));
    }
    let field = if set.view.clone_set().is_some() { "updateRevision" } else { "updatedRevision" };
    let revision = set.json["status"][field].as_str().unwrap_or_default();
    let template = server.object("ControllerRevision", &id.namespace, revision);
    let same = |known: &WorkloadObject| {
        let mut is = known.json["data"]["spec"]["template"].clone();
        is.as_object_mut().map(|is| is.remove("$patch"));
        is == set.json["spec"]["template"]
    };
    if !template.is_some_and(same) {
        return Some(format!("its updated revision {revision} is not its template"));
    }
    let strategy = &set.json["spec"]["updateStrategy"];
    let by_partition = strategy["rollingUpdate"]["byPartition"]["partition"].as_u64();
    let kept = by_partition.or_else(|| strategy["partition"].as_u64()).unwrap_or_default();
    let least = wanted.saturating_sub(usize::try_from(kept).unwrap_or_default());
    let is_updated =
        |pod: &&&Arc<PodView>| pod.labels.get(labels::CONTROLLER_REVISION_HASH).map(String::as_str) == Some(revision);
    let updated = pods.iter().filter(is_updated).count();
    (updated < least).then(|| format!("{updated} pods are at revision {revision}, and {least} are to be"))
}
