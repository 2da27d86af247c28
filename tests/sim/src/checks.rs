//! What must be true at every step, told by the API server's true state and by nothing that our own code believes.
//!
//! **Budgets.** A pod counts as *taken by us* from the moment its place stands in the ledger, and from the moment its InService
//! is lowered, until it is Ready and in service again (or gone), whatever the ledger says by then. When a place is added for a pod
//! that is available, every rule that selects the pod must have room for it: pods taken by us in truth (both leaders', also those
//! whose place was given back too early), pods that the deciding controller could see to be unavailable, and pods that it could
//! see to be missing, must together stay within the rule. What happened without us and had not reached the controller yet (a
//! crash, a scale-down, a changed rule) is not counted against it. Every InService→False of an available pod must then rest on
//! such a place; a place that was given only because the pod was unavailable, and for which there was no room otherwise, does not
//! count once it is available.
//!
//! **Places.** One is given back only when its pod is gone or going, or was never taken out of service, or has been Ready and in
//! service since. A grant for a pod that exists is written only when its place stands in the ledger. Epochs never go back.
//!
//! **Operations.** Images are patched only as the true ledger says, forward only while the pod is out of service for this very
//! operation and not Ready, and never once its agent has seen it cancelled. A pod is never taken out for a second operation
//! before it is back from the first.
//!
//! **Versions.** As long as no pod of a workload has been available with an image, no more of them are given it than the rules let be
//! unavailable, but always one, whatever the probes say. Those that did not get Ready after their last operation, and whose places are
//! those of that, are given it all the same; they count for the others.
//!
//! **Images.** No pod is operated to an image that its node does not have.
//!
//! **CollaSets.** There are never more pods than their owner has wanted since it was last at rest, beside those that leave; an instance
//! id has one pod. A pod that serves, or whose clients are connected, is not deleted before the deadline of its drain. A revision
//! that a pod has is kept.
//!
//! **Companions.** A companion pod that serves leaves only while no pod of its workload is operated and somebody else serves, and is
//! deleted only once its clients are gone. No pod goes for a version that does not run in its workload's companion pod.
//!
//! **Load balancers.** Before the deadline of its drain no pod is operated that gets sessions from a load balancer outside of the
//! cluster, or has some.
//!
//! **Starts.** No version is judged bad that comes up within what is written of it.
//!
//! **Pauses.** No operation of a paused workload's pods begins.
//!
//! **Namespaces that can't be read.** Nothing is written for them; their reservations and grants stay as they were seen.
//!
//! **Holds.** A held pod is never lowered by its operation; it counts as taken by us from its image patch until it is Ready with
//! what its spec says. Its grant is decided only by somebody who sees those Services open that have no other pod, and its images
//! are patched only if they have been open since its place was taken. None of them is closed by us meanwhile, and none that its
//! owner wants open is ever written to.

mod budget;
mod colla_sets;
mod companions;
mod condemned;
mod holds;
mod jobs;
mod left_out;
mod lifecycle;
mod native;
mod operations;
mod pauses;
mod places;
mod unverified;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_rollout::mode::ServiceView;
use hitless_rollout::snapshot::{NodeView, RuleView};
use hitless_workloads::Object;
use hitless_world::kubelet::runs;
use jiff::Timestamp;

use crate::clock::Micros;
use crate::counts::HoldCounts;

pub(crate) use budget::{number as image_number, partition};
use colla_sets::CollaSets;
pub(crate) use colla_sets::{at_rest as colla_set_at_rest, unfinished as colla_set_unfinished};
use condemned::Versions;
pub(crate) use condemned::allowed;
use holds::{Replaced, Services};
use jobs::Jobs;

/// The operation that an agent's write belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) granted: Timestamp,
    /// Towards the new images.
    pub(crate) forward: bool,
    /// The pod stays in service.
    pub(crate) held: bool,
}

/// What a controller saw when it decided to reserve.
pub(crate) struct Seen {
    pub(crate) pods: Vec<Arc<PodView>>,
    pub(crate) rules: Vec<Arc<RuleView>>,
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) services: Vec<Arc<ServiceView>>,
    /// uids of pods that are not available and on a node that has not answered for so long that nobody waits for them.
    pub(crate) lost: BTreeSet<String>,
}

impl Seen {
    /// Of these pods those on a node that is lost: after a minute, and pods that are made anew elsewhere after five and a half.
    pub(crate) fn lost<'a>(
        pods: impl IntoIterator<Item = &'a Arc<PodView>>,
        nodes: impl IntoIterator<Item = &'a NodeView>,
        now: Timestamp,
    ) -> BTreeSet<String> {
        let away = |node: &NodeView| Some((node.name.clone(), now.duration_since(node.not_ready_since?).as_secs()));
        let away: BTreeMap<String, i64> = nodes.into_iter().filter_map(away).collect();
        let is_lost = |pod: &&Arc<PodView>| {
            // One that is being deleted has been replaced already.
            let is_of_replica_set = pod.owner.as_ref().is_some_and(|owner| owner.group_kind.kind == "ReplicaSet");
            let is_replaced = !pod.terminating && is_of_replica_set;
            let patience = if is_replaced { 330 } else { 60 };
            // Clocks are wrong by some seconds.
            let seconds = pod.node.as_ref().and_then(|node| away.get(node));
            !pod.available() && seconds.is_some_and(|seconds| seconds + 10 >= patience)
        };
        pods.into_iter().filter(is_lost).map(|pod| pod.id.uid.clone()).collect()
    }

    /// A load balancer outside of the cluster sends that pod connections for one of its Services.
    fn is_controlled(&self, uid: &str) -> bool {
        let mut controlled = self.services.iter().filter(|service| service.control.is_some());
        let pod = self.pods.iter().find(|pod| pod.id.uid == uid);
        pod.is_some_and(|pod| controlled.any(|service| service.selects(pod)))
    }
}

/// What is known of a pod beside the object itself.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact of the pod")]
struct Truth {
    /// Taken out of service or, in a Hold, replaced for this operation, and not back yet.
    out: Option<String>,
    /// When it left service.
    lowered_at: Option<Micros>,
    /// In a Hold: what was replaced.
    replaced: Option<Replaced>,
    /// Its agent has given it up: InService is True again, and the pod is not Ready.
    raised: bool,
    /// It was unavailable when its place was taken.
    free: bool,
    /// The rules had room for it all the same, as for an available one: its place does not rest on that.
    had_room: bool,
    /// Its place was that of its last operation, after which it did not get Ready.
    between: bool,
    /// Until when clients are connected to it, as far as that is known.
    clients: Option<Micros>,
    /// Number of the image that it was given, as long as it is that one.
    given: Option<String>,
    /// How many pods of its workload may have an image that nobody has verified, as the rules were when its last place was taken.
    bound: usize,
}

/// The first broken invariant, and what is needed to find it.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) broken: Option<(Micros, String)>,
    /// Workloads of which a version was sent natively because its pods started with neither version, by uid.
    sent_natively: BTreeSet<String>,
    /// Such a one was let go, and what its native controller makes of it is not played here: the run is over.
    pub(crate) is_over: bool,
    /// It is played here.
    plays_native: bool,
    /// Those that were let go.
    rolling: BTreeSet<String>,
    pods: BTreeMap<String, Truth>,
    /// By id and time of an operation of a StatefulSet's pod: the revision that the StatefulSet had when it was decided.
    decided_at: BTreeMap<(String, Timestamp), String>,
    /// Operations that an agent has seen cancelled.
    cancelled: BTreeSet<(String, Timestamp)>,
    services: Services,
    jobs: Jobs,
    colla_sets: CollaSets,
    /// Since when workloads are paused, by uid.
    paused: BTreeMap<String, Micros>,
    /// Images that some pod was available with: namespace, repository, number.
    verified: BTreeSet<(String, String, String)>,
    versions: Versions,
    /// What has happened around Holds.
    pub(crate) counted: HoldCounts,
    off: bool,
}

impl Checks {
    /// Checks of a run in which native controllers are played, or not.
    pub(crate) fn playing(native: bool) -> Self {
        Self { plays_native: native, ..Self::default() }
    }

    /// Checks that check nothing.
    pub(crate) fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    pub(crate) fn fail(&mut self, now: Micros, what: String) {
        if self.broken.is_none() {
            self.broken = Some((now, what));
        }
    }

    /// Nothing is broken, and the run is not over.
    pub(crate) fn goes_on(&self) -> bool {
        self.broken.is_none() && !self.is_over
    }

    fn truth(&mut self, uid: &str) -> &mut Truth {
        if !self.pods.contains_key(uid) {
            self.pods.insert(uid.to_owned(), Truth::default());
        }
        self.pods.entry(uid.to_owned()).or_default()
    }

    /// A pod is as `view` says now.
    pub(crate) fn pod(&mut self, now: Micros, view: &PodView) {
        self.verify(view);
        self.pair(view);
        match view.in_service() {
            Some(condition) if !condition.is_true => {
                let truth = self.truth(&view.id.uid);
                truth.lowered_at.get_or_insert(now);
                if !runs(view) {
                    truth.clients = Some(truth.clients.map_or(now, |until| until.min(now)));
                }
            }
            Some(_) | None => {
                if let Some(truth) = self.pods.get_mut(&view.id.uid) {
                    truth.lowered_at = None;
                }
            }
        }
        if view.ready()
            && view.in_service().is_some_and(|is| is.is_true)
            && let Some(truth) = self.pods.get_mut(&view.id.uid)
            && truth.replaced.as_ref().is_none_or(|replaced| replaced.is_over(view))
        {
            (truth.out, truth.replaced) = (None, None);
        }
    }

    pub(crate) fn pod_gone(&mut self, view: &PodView) {
        self.pods.remove(&view.id.uid);
    }

    /// Whether the pod is out of service, or being replaced, because of us.
    fn is_out(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|truth| truth.out.is_some())
    }
}
