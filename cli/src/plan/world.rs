//! The copy of the cluster that a plan is made on: the round's own writes are carried out on it, and operations end well.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hitless_api::names::{IN_SERVICE, labels};
use hitless_api::pod::{ConditionView, PodView};
use hitless_api::{Change, Grant, MicroTime, Outcome, Phase, PostCheck, Transition, TransitionResult};
use hitless_gate::{Answer, Approval, Approvals, Question};
use hitless_rollout::Ask;
use hitless_rollout::mode::{Forecast, ServiceView};
use hitless_rollout::round::Round;
use hitless_rollout::round::write::{ledger_of, service};
use hitless_rollout::snapshot::{Evidence, LedgerView, NodeTransitionView, OperationKey, Snapshot as Cluster};
use hitless_workloads::{World as Workloads, Write, registry};
use jiff::Timestamp;

/// Most pods that are made for a workload.
const MOST_MADE: usize = 10_000;

/// Pods that were not available, and now are.
#[derive(Default)]
pub(crate) struct Back {
    pub(crate) pods: Vec<String>,
    /// So many more were not there.
    pub(crate) missing: usize,
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    /// Where each pod is listed.
    index: HashMap<String, usize>,
    /// Pods whose node was made up.
    without_node: BTreeSet<String>,
    /// How long pods that are operated are away until they listen, and until they are ready, in milliseconds, where that was learned:
    /// each shows it anew of its version.
    gaps: HashMap<String, (Option<u32>, Option<u32>)>,
}

impl World {
    /// `from_files`: a pod without a node gets one of its own, and all nodes have an agent.
    pub(crate) fn new(mut cluster: Cluster, from_files: bool) -> Self {
        // What approvers have said was about another operation.
        cluster.approvals = Approvals::new();
        // What is being fetched comes.
        cluster.unknown.images = true;
        cluster.unknown.companions = true;
        cluster.prefetches.retain(|prefetch| !prefetch.is_under_way());
        let mut without_node = BTreeSet::new();
        if from_files {
            (cluster.unknown.nodes, cluster.unknown.agents) = (true, true);
            for pod in cluster.pods.iter_mut().filter(|pod| pod.node.is_none()) {
                without_node.insert(pod.id.uid.clone());
                let pod = Arc::make_mut(pod);
                pod.node = Some(format!("node of {}/{}", pod.id.namespace, pod.id.name));
            }
        }
        let index = cluster.pods.iter().enumerate().map(|(index, pod)| (pod.id.uid.clone(), index)).collect();
        Self { cluster, index, without_node, gaps: HashMap::new() }
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<&PodView> {
        self.cluster.pods.get(*self.index.get(uid)?).map(|pod| &**pod)
    }

    /// The pod's node, if it was not made up.
    pub(crate) fn node(&self, pod: &PodView) -> Option<String> {
        pod.node.clone().filter(|_| !self.without_node.contains(&pod.id.uid))
    }

    /// Whether the pod is known to be on a node.
    pub(crate) fn is_on_node(&self, uid: &str) -> bool {
        !self.without_node.contains(uid)
    }

    /// All pods that are not available and not operated are available from now on, and those that are missing are there.
    pub(crate) fn bring_back(&mut self, at: Timestamp) -> Back {
        let running: BTreeSet<String> = self.running().into_iter().collect();
        let mut back = Back::default();
        let away = |pod: &Arc<PodView>| !pod.available() && !pod.finished && !running.contains(&pod.id.uid);
        for pod in self.cluster.pods.iter_mut().filter(|pod| away(pod)) {
            let pod = Arc::make_mut(pod);
            back.pods.push(pod.id.name.clone());
            pod.terminating = false;
            serve(pod, at);
        }
        let missing = missing(&self.cluster);
        back.missing = missing.len();
        for pod in missing {
            self.index.insert(pod.id.uid.clone(), self.cluster.pods.len());
            self.cluster.pods.push(Arc::new(pod));
        }
        back
    }

    /// uids of pods with an operation that has not ended.
    pub(crate) fn running(&self) -> Vec<String> {
        let nodes = self.cluster.node_transitions.values();
        nodes.flat_map(|node| node.unfinished()).map(|grant| grant.pod.uid.clone()).collect()
    }

    /// Whether a grant waits for rules of stage PostCheck.
    pub(crate) fn has_post_check(&self) -> bool {
        let mut grants = self.cluster.node_transitions.values().flat_map(|node| &node.spec.grants);
        grants.any(|grant| grant.post_check == Some(PostCheck::Pending))
    }

    /// The approver agrees; says whether that is new.
    pub(crate) fn approve(&mut self, ask: &Ask, at: Timestamp) -> bool {
        let question = Question {
            namespace: ask.namespace.clone(),
            rule: format!("{}/{}", ask.rule_set, ask.rule),
            operation: ask.operation.clone(),
        };
        let answer = Answer { approval: Approval::Approved, message: String::new(), since: at };
        self.cluster.approvals.insert(question, answer).is_none()
    }

    /// Carries out what the round writes for operations; says whether there was anything.
    pub(crate) fn write(&mut self, round: &Round) -> bool {
        round.steps.iter().fold(false, |any, step| any | self.carry_out(&step.write))
    }

    /// What comes before the pods was written already, and what comes after them is of no interest.
    fn carry_out(&mut self, write: &Write) -> bool {
        let Cluster { ledgers, node_transitions, services, .. } = &mut self.cluster;
        let ledger = ledger_of(write).and_then(|namespace| ledgers.get(namespace));
        if let Some(ledger) = LedgerView::after(write, ledger.map(|known| &**known)) {
            ledgers.insert(ledger.namespace.clone(), Arc::new(ledger));
            return true;
        }
        let node = node_transitions.get(&write.on.name);
        if let Some(node) = NodeTransitionView::after(write, node.map(|known| &**known)) {
            node_transitions.insert(node.node.clone(), Arc::new(node));
            return true;
        }
        let Some((open, mark)) = service::content(write) else { return false };
        let is_meant = |service: &ServiceView| service.name == write.on.name && service.namespace == write.on.namespace;
        let service = services.iter_mut().find(|service| is_meant(service)).map(Arc::make_mut);
        service.map(|service| (service.open, service.held_by) = (open, mark)).is_some()
    }

    /// The pod of this uid is going to be away for as long as is forecast.
    pub(crate) fn expect(&mut self, uid: &str, forecast: &Forecast) {
        self.gaps.insert(uid.to_owned(), (forecast.gap_milliseconds, forecast.ready_milliseconds));
    }

    /// The pod's operation ends well: it runs what was granted, and is Ready.
    pub(crate) fn finish(&mut self, uid: &str, at: Timestamp) {
        let mut nodes = self.cluster.node_transitions.values_mut();
        let running = |node: &NodeTransitionView| node.unfinished().find(|grant| grant.pod.uid == uid).cloned();
        let found = nodes.find_map(|node| Some((running(node)?, node)));
        let Some((grant, node)) = found else { return };
        let node = Arc::make_mut(node);
        node.transitions.retain(|transition| !transition.is_of(&grant));
        let (gap_milliseconds, ready_milliseconds) = self.gaps.get(uid).copied().unwrap_or_default();
        node.transitions.push(Transition { gap_milliseconds, ready_milliseconds, ..done(&grant, at) });
        let key = OperationKey { id: grant.id.clone(), since: grant.granted.0 };
        let pod = self.index.get(uid).and_then(|index| self.cluster.pods.get_mut(*index));
        self.cluster.evidence.insert(key, if pod.is_some() { Evidence::Ready } else { Evidence::Gone });
        if let Some(pod) = pod {
            operate(Arc::make_mut(pod), &grant, at);
        }
    }
}

fn done(grant: &Grant, at: Timestamp) -> Transition {
    let result = TransitionResult { outcome: Outcome::Done, reason: "Done".to_owned(), report: BTreeMap::new() };
    Transition { result: Some(result), ..Transition::at(grant, Phase::Returning, MicroTime(at)) }
}

fn operate(pod: &mut PodView, grant: &Grant, at: Timestamp) {
    for container in &mut pod.containers {
        let Some(change) = grant.containers.get(&container.name) else { continue };
        container.image.clone_from(&change.to);
        if let Some(status) = &mut container.status {
            status.container_id = format!("{}, from {at}", grant.id);
        }
    }
    write(&mut pod.annotations, &grant.annotations);
    write(&mut pod.labels, &grant.labels);
    serve(pod, at);
}

fn serve(pod: &mut PodView, at: Timestamp) {
    for condition in ["Ready", IN_SERVICE] {
        let is_true = ConditionView::new(true, "", "", Some(at));
        pod.conditions.insert(condition, is_true);
    }
}

/// Pods that workloads want and that are not there, each made like one that is.
fn missing(cluster: &Cluster) -> Vec<PodView> {
    let world = Workloads::new(&cluster.objects, &cluster.pods, BTreeSet::new());
    let mut own: HashMap<&str, Vec<&PodView>> = HashMap::new();
    for pod in cluster.pods.iter().filter(|pod| !pod.finished) {
        if let Some(top) = world.top(pod) {
            own.entry(&top.uid).or_default().push(pod);
        }
    }
    let mut made = Vec::new();
    for object in &cluster.objects {
        let Some(pods) = own.get(object.id.uid.as_str()) else { continue };
        let desired = registry::size(object).map_or(0, |size| usize::try_from(size.desired).unwrap_or(usize::MAX));
        let like = pods.first().into_iter().cycle().take(desired.saturating_sub(pods.len()).min(MOST_MADE));
        made.extend(like.enumerate().map(|(number, like)| {
            let mut pod = (*like).clone();
            pod.id.uid = format!("{} missing {number}", object.id.uid);
            pod.id.name = format!("{} missing {number}", object.id.name);
            // Else it would serve clients of the Service that another pod has for itself.
            if let Some(name) = pod.labels.get_mut(labels::POD_NAME) {
                name.clone_from(&pod.id.name);
            }
            pod
        }));
    }
    made
}

fn write(values: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Change>) {
    for (name, change) in changes {
        match &change.to {
            Some(value) => values.insert(name.clone(), value.clone()),
            None => values.remove(name),
        };
    }
}
