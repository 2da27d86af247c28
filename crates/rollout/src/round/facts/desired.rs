//! What is wanted: by workloads, and by requests for their pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::ledger::CLUSTER;
use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp, ObjectRef, Outcome, Transition};
use hitless_workloads::{
    DesiredOperation, Holder, Obstacle, OptIn, Plan, PodIntent, REQUESTS, Removal, RequestContext, RequestKind, Stage,
    Template, World, image, restart,
};
use jiff::Timestamp;

use crate::companion;
use crate::round::facts::images::Images;
use crate::snapshot::{AgentState, Snapshot};

/// What one pod needs.
#[derive(Clone)]
pub(crate) struct PodOperation<'a> {
    pub(crate) pod: &'a PodView,
    pub(crate) intent: Result<PodIntent, Obstacle>,
    /// Index of the plan of the workload that it belongs to, if that is looked after.
    pub(crate) workload: Option<usize>,
    /// Place in the workload's order.
    pub(crate) rank: i32,
    /// At least so many seconds between leaving service and the operation.
    pub(crate) delay_seconds: u32,
    /// The object whose request it is, if it is one.
    pub(crate) asked_by: Option<ObjectRef>,
    /// It ends what has begun.
    pub(crate) ends: bool,
    /// The pod serves nobody and is to be deleted: no agent is asked.
    pub(crate) removal: Option<Removal>,
}

impl<'a> PodOperation<'a> {
    pub(crate) fn of(wanted: DesiredOperation, pod: &'a PodView, workload: Option<usize>) -> Self {
        let DesiredOperation { pod: _, intent, rank, delay_seconds, asked_by, ends, removal } = wanted;
        Self { pod, intent, workload, rank, delay_seconds, asked_by, ends, removal }
    }

    /// Whether it records a restart on the pod.
    fn changes_token(&self) -> bool {
        self.intent.as_ref().is_ok_and(|intent| intent.operation.annotations.contains_key(annotations::RESTARTED))
    }

    /// The token of a restart that an annotation on the pod asks for, and nobody else.
    pub(crate) fn restart_token(&self) -> Option<&str> {
        let operation = &self.intent.as_ref().ok()?.operation;
        let change = operation.annotations.get(annotations::RESTARTED)?;
        change.to.as_deref().filter(|_| operation.op == GrantOp::Restart && self.asked_by.is_none())
    }

    /// One that nobody has.
    pub(crate) fn assumed(pod: &'a PodView, intent: PodIntent, workload: Option<usize>) -> Self {
        Self {
            pod,
            intent: Ok(intent),
            workload,
            rank: 0,
            delay_seconds: 0,
            asked_by: None,
            ends: false,
            removal: None,
        }
    }
}

/// All desired operations, and the indices to look things up.
pub(crate) struct DesiredState<'a> {
    pub(crate) plans: Vec<Plan>,
    pub(crate) by_pod: HashMap<&'a str, PodOperation<'a>>,
    pub(crate) pods: HashMap<&'a str, &'a PodView>,
    pub(crate) world: World<'a>,
    /// Index of the plan by uid of the workload.
    by_workload: HashMap<String, usize>,
    snapshot: &'a Snapshot,
    /// Tokens of restarts that were ordered and are not over, by uid of the pod.
    granted: HashMap<&'a str, &'a str>,
    now: Timestamp,
}

impl<'a> DesiredState<'a> {
    /// What requests are derived from.
    pub(crate) fn context<'s>(&'s self, plan_of: &'s dyn Fn(&PodView) -> Option<&'s Plan>) -> RequestContext<'s, 'a> {
        let Snapshot { pods, unreadable, left, .. } = self.snapshot;
        RequestContext::new(pods, &self.world, plan_of, &self.granted, self.now).without(unreadable, left)
    }

    /// What the pod's workload plans, if it is looked after.
    pub(crate) fn plan_of(&self, pod: &PodView) -> Option<&Plan> {
        let pod = self.pods.get(pod.id.uid.as_str())?;
        self.workload_of(pod).map(|index| &self.plans[index])
    }

    /// The pod's top workload.
    pub(crate) fn owner(&self, pod: &'a PodView) -> Option<&'a ObjectRef> {
        self.world.top(pod)
    }

    /// Index of the plan of the workload that the pod belongs to, if that is looked after.
    pub(crate) fn workload_of(&self, pod: &'a PodView) -> Option<usize> {
        self.by_workload.get(&self.owner(pod)?.uid).copied()
    }

    /// The template of the workload that the operation is for.
    pub(crate) fn template_of(&self, wanted: &PodOperation<'_>) -> Option<&Template> {
        let plan = self.plans.get(wanted.workload?)?;
        self.world.object(&plan.workload.uid)?.template()
    }

    /// How many workloads that have opted in are at each stage, by its name.
    pub(crate) fn stages(&self) -> BTreeMap<&'static str, usize> {
        let mut stages = BTreeMap::new();
        for plan in self.plans.iter().filter(|plan| !matches!(plan.stage, Stage::NotOurs)) {
            *stages.entry(plan.stage.name()).or_default() += 1;
        }
        stages
    }

    /// What agents report of pods on their own nodes. Of others an agent has seen nothing, whatever it says.
    pub(crate) fn reports(&self) -> impl Iterator<Item = (&'a PodView, &'a Transition)> {
        self.snapshot.node_transitions.iter().flat_map(move |(node, reports)| {
            reports.transitions.iter().filter_map(move |report| {
                let pod = Grant::pod_uid_of(&report.id).and_then(|uid| self.pods.get(uid)).copied()?;
                (pod.node.as_ref() == Some(node)).then_some((pod, report))
            })
        })
    }

    /// Index of the plan of the workload whose companion the pod is.
    pub(crate) fn workload_of_companion(&self, pod: &PodView) -> Option<usize> {
        self.by_workload.get(&pod.owner.as_ref()?.uid).copied()
    }

    /// Whether nobody is there whom the workload with this uid controls, but its companions.
    pub(crate) fn is_without_pods(&self, uid: &str) -> bool {
        self.world.children(uid).iter().all(|child| self.world.pods(&child.id.uid).is_empty())
    }

    /// Index of the plan of the workload whose pods are still to be brought to where the grant leads.
    pub(crate) fn workload_of_target(&self, grant: &Grant) -> Option<usize> {
        let revision = target(grant)?;
        self.workload_of_grant(grant).filter(|index| self.plans[*index].is_target(revision))
    }

    /// Index of the plan of the workload to whose earlier version the grant brings its pod back, because the partition keeps it there.
    pub(crate) fn workload_of_way_back(&self, grant: &Grant) -> Option<usize> {
        let revision = target(grant)?;
        self.workload_of_grant(grant).filter(|index| self.plans[*index].kept_back.as_deref() == Some(revision))
    }

    /// The workload that the grant was given for, while it is opted in.
    fn workload_of_grant(&self, grant: &Grant) -> Option<usize> {
        // Grants of the version before name no owner.
        let index = match &grant.owner {
            Some(owner) => self.by_workload.get(&owner.uid).copied(),
            None => self.pods.get(grant.pod.uid.as_str()).and_then(|pod| self.workload_of(pod)),
        };
        index.filter(|index| self.plans[*index].opt_in != OptIn::No)
    }

    /// One of the workload's own pods that stays, if there is one.
    pub(crate) fn pod_of(&self, plan: &Plan) -> Option<&'a PodView> {
        self.pods_of(plan).find(|pod| !pod.terminating && !pod.finished && !companion::is_companion(pod))
    }

    /// Pods of the workload, also those that are about to go.
    pub(crate) fn pods_of<'s>(&'s self, plan: &'s Plan) -> impl Iterator<Item = &'a PodView> + use<'a, 's> {
        let own = self.world.children(&plan.workload.uid).iter().map(|child| child.id.uid.as_str());
        own.chain([plan.workload.uid.as_str()]).flat_map(|owner| self.world.pods(owner)).copied()
    }

    /// The digests that pods of the workload have been brought to, by reference: all pods of a rollout get the same.
    fn chosen(&self, workload: usize) -> BTreeMap<String, String> {
        let plan = &self.plans[workload];
        let done = self.pods_of(plan).filter(|pod| pod.annotations.get(annotations::REVISION) == Some(&plan.target));
        let images = done.flat_map(|pod| &pod.containers).map(|container| container.image.as_str());
        images.filter_map(|image| Some((image::unpinned(image), image::digest_of(image)?.to_owned()))).collect()
    }

    /// Whether what the grant leads to is still wanted.
    pub(crate) fn wants(&self, grant: &Grant) -> bool {
        if let Some(revision) = target(grant) {
            let plan = self.workload_of_grant(grant).map(|index| &self.plans[index]);
            return plan.is_some_and(|plan| plan.is_active() && plan.leads_to(revision));
        }
        let pod = self.pods.get(grant.pod.uid.as_str()).copied();
        if grant.op == GrantOp::Drain {
            // A companion that has begun to leave goes, and so does a pod of a workload that nobody looks after any more.
            let goes = |pod: &'a PodView| companion::is_companion(pod) || self.workload_of(pod).is_none();
            return pod.is_none_or(goes) || self.is_desired(grant);
        }
        let context = self.context(&|_| None);
        REQUESTS.iter().filter(|kind| self.judges(**kind)).any(|kind| kind.wants(grant, pod, &context))
    }

    /// Kinds with objects of their own know which of them are left alone. The others are asked only where they are looked after.
    fn judges(&self, kind: &'static dyn RequestKind) -> bool {
        !kind.resources().is_empty() || self.snapshot.serves(Holder::Request(kind))
    }

    /// Whether the pod needs an operation now that can be done, and it is another one.
    pub(crate) fn wants_another(&self, grant: &Grant) -> bool {
        let wanted = self.by_pod.get(grant.pod.uid.as_str());
        wanted.and_then(|wanted| wanted.intent.as_ref().ok()).is_some_and(|intent| intent.id() != grant.id)
    }

    /// Whether it is the very operation that the pod needs now.
    pub(crate) fn is_desired(&self, grant: &Grant) -> bool {
        let wanted = self.by_pod.get(grant.pod.uid.as_str());
        wanted.and_then(|wanted| wanted.intent.as_ref().ok()).is_some_and(|intent| intent.id() == grant.id)
    }
}

/// Every operation that a pod needs or has; for a pod that has none, the one that [`PodIntent::assumed`] names.
pub(crate) fn operations(snapshot: &Snapshot, now: Timestamp) -> Vec<(&PodView, String)> {
    let desired = derive(snapshot, &Images::new(snapshot, now), now);
    let needed = desired.by_pod.values().filter_map(|wanted| Some((wanted.pod, wanted.intent.as_ref().ok()?.id())));
    let granted = snapshot.node_transitions.values().flat_map(|node| &node.spec.grants);
    let granted = granted.filter_map(|grant| Some((*desired.pods.get(grant.pod.uid.as_str())?, grant.id.clone())));
    let others = snapshot.pods.iter().filter(|pod| !desired.by_pod.contains_key(pod.id.uid.as_str()));
    needed.chain(granted).chain(others.map(|pod| (&**pod, PodIntent::assumed(pod).id()))).collect()
}

/// Workloads whose pods are being brought to a revision. A leader that has just begun reads them and their namespaces' ledgers before it
/// decides: its watch may not have told yet that its predecessor has ended a rollout, has put a template back, or has begun an operation
/// that may still be taken back.
#[must_use]
pub fn under_way(snapshot: &Snapshot) -> Vec<ObjectRef> {
    let moving = |plan: &Plan| matches!(plan.stage, Stage::Rolling | Stage::Finishing);
    world(snapshot).plans().into_iter().filter(moving).map(|plan| plan.workload).collect()
}

/// Revision that the grant brings its pod to.
pub(crate) fn target(grant: &Grant) -> Option<&str> {
    grant.annotations.get(annotations::REVISION)?.to.as_deref()
}

/// `images` tells which digest is meant where an operation pins it.
pub(crate) fn derive<'a>(snapshot: &'a Snapshot, images: &Images<'a>, now: Timestamp) -> DesiredState<'a> {
    let pods: HashMap<&str, &PodView> = snapshot.pods.iter().map(|pod| (pod.id.uid.as_str(), &**pod)).collect();
    let refused = snapshot.own_writes.refused.iter().map(|(key, refusal)| (key.clone(), refusal.words.clone()));
    let world = world(snapshot)
        .at(&snapshot.pods, now)
        .refusing(refused.collect())
        .accepting(snapshot.own_writes.accepted())
        .without_images(images.unfetched(), images.refusals.by_others())
        .without_agents(agentless(snapshot));
    let plans = world.plans();
    let by_workload = plans.iter().enumerate().map(|(index, plan)| (plan.workload.uid.clone(), index)).collect();
    let granted = granted(snapshot);
    let mut desired = DesiredState { plans, by_pod: HashMap::new(), pods, world, by_workload, snapshot, granted, now };
    for (index, plan) in desired.plans.iter().enumerate() {
        for wanted in &plan.desired {
            if let Some((uid, pod)) = desired.pods.get_key_value(wanted.pod.uid.as_str()) {
                desired.by_pod.insert(uid, PodOperation::of(wanted.clone(), pod, Some(index)));
            }
        }
    }
    // What the workload wants comes first: a request goes along in the same operation or waits for it.
    let (requested, kept) = requested(&desired);
    for (goes_first, wanted) in requested {
        let Some((uid, pod)) = desired.pods.get_key_value(wanted.pod.uid.as_str()) else { continue };
        let (uid, pod) = (*uid, *pod);
        // It is there for a while only, and would leave while the pod is away that it stands in for.
        if companion::is_companion(pod) {
            continue;
        }
        if goes_first {
            // It is no part of what its workload does: neither waits for the other's order, images or failures.
            desired.by_pod.insert(uid, PodOperation::of(wanted, pod, None));
            continue;
        }
        let workload = desired.workload_of(pod);
        desired.by_pod.entry(uid).or_insert_with(|| PodOperation::of(wanted, pod, workload));
    }
    for uid in kept {
        if let Some(wanted) = desired.by_pod.get_mut(uid.as_str()).filter(|wanted| wanted.changes_token()) {
            wanted.intent = Err(Obstacle::RestartNotRecorded);
        }
    }
    pin(&mut desired, images);
    desired
}

/// What is requested, with whether it comes before what workloads want, and uids of pods whose token is evidence that no request's
/// object has recorded yet.
fn requested(desired: &DesiredState<'_>) -> (Vec<(bool, DesiredOperation)>, Vec<String>) {
    let plan_of = |pod: &PodView| desired.plan_of(pod);
    let context = desired.context(&plan_of);
    let kinds = REQUESTS.iter().filter(|kind| desired.snapshot.serves(Holder::Request(**kind)));
    let requested =
        kinds.flat_map(|kind| kind.desired(&context).into_iter().map(|wanted| (kind.goes_first(), wanted))).collect();
    let keeps = |pod: &&PodView| REQUESTS.iter().any(|kind| kind.keeps_token(pod, &context));
    let kept = desired.pods.values().copied().filter(keeps).map(|pod| pod.id.uid.clone()).collect();
    (requested, kept)
}

/// Tokens of restarts that were ordered and are not over.
fn granted(snapshot: &Snapshot) -> HashMap<&str, &str> {
    let grants = snapshot.node_transitions.values().flat_map(|node| node.unfinished());
    grants.filter_map(|grant| Some((grant.pod.uid.as_str(), restart::token_of(grant)?))).collect()
}

/// Images by digest, where that is needed.
fn pin(desired: &mut DesiredState<'_>, images: &Images<'_>) {
    let mut by_workload: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
    let mut pinned: Vec<(&str, PodIntent)> = Vec::new();
    for (uid, wanted) in &desired.by_pod {
        let Ok(intent) = &wanted.intent else { continue };
        let mut chosen = |reference: &str| {
            let workload = wanted.workload?;
            by_workload.entry(workload).or_insert_with(|| desired.chosen(workload)).get(reference).cloned()
        };
        let renamed = images.renamed(wanted.pod, intent);
        let meant = renamed.as_ref().unwrap_or(intent);
        pinned.extend(images.pinned(wanted.pod, meant, &mut chosen).or(renamed.clone()).map(|intent| (*uid, intent)));
    }
    for (uid, intent) in pinned {
        if let Some(wanted) = desired.by_pod.get_mut(uid) {
            wanted.intent = Ok(intent);
        }
    }
}

/// Nodes on which no agent is ever going to be.
fn agentless(snapshot: &Snapshot) -> BTreeSet<String> {
    let never = snapshot.agents.iter().filter(|(_, state)| **state == AgentState::Never);
    never.filter(|_| !snapshot.unknown.agents).map(|(node, _)| node.clone()).collect()
}

fn world(snapshot: &Snapshot) -> World<'_> {
    let world = World::new(&snapshot.objects, &snapshot.pods, operating(snapshot)).selected(snapshot.selections());
    world.after(left(snapshot)).removing(removable(snapshot)).draining(draining(snapshot))
}

/// uids of pods with an operation that is not over: a live grant, or a reservation in a ledger.
fn operating(snapshot: &Snapshot) -> BTreeSet<String> {
    let nodes = snapshot.node_transitions.values();
    let granted = nodes.flat_map(|node| node.unfinished()).map(|grant| grant.pod.uid.clone());
    let reserved = snapshot.ledgers.values().flat_map(|ledger| ledger.spec.reservations.keys().cloned());
    granted.chain(reserved).collect()
}

/// uids of pods whose removal is reserved, and that no agent is operating.
fn removable(snapshot: &Snapshot) -> BTreeSet<String> {
    let granted: BTreeSet<&str> = snapshot
        .node_transitions
        .values()
        .flat_map(|node| node.unfinished())
        .map(|grant| grant.pod.uid.as_str())
        .collect();
    let ledgers = snapshot.ledgers.iter().filter(|(namespace, _)| *namespace != CLUSTER);
    let reserved = ledgers.flat_map(|(_, ledger)| &ledger.spec.reservations).filter(|(_, it)| it.removal);
    reserved.map(|(uid, _)| uid).filter(|uid| !granted.contains(uid.as_str())).cloned().collect()
}

/// uids of pods with a live grant to leave service for good.
fn draining(snapshot: &Snapshot) -> BTreeSet<String> {
    let live = snapshot.node_transitions.values().flat_map(|node| node.unfinished());
    live.filter(|grant| grant.op == GrantOp::Drain).map(|grant| grant.pod.uid.clone()).collect()
}

/// uids of pods that have left service for good.
fn left(snapshot: &Snapshot) -> BTreeSet<String> {
    let drains = snapshot.node_transitions.values().flat_map(|node| {
        let drains = node.spec.grants.iter().filter(|grant| grant.op == GrantOp::Drain);
        drains.filter_map(|grant| Some((grant, node.transition(grant)?.result.as_ref()?)))
    });
    drains.filter(|(_, result)| result.outcome == Outcome::Done).map(|(grant, _)| grant.pod.uid.clone()).collect()
}
