//! One CollaSet or CloneSet of many pods: made, brought to another image in place, and made anew. The controller's rounds and writes are the real
//! ones; kubelets and agents are stand-ins.

use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::prefetch::{NamePool, NodeImages};
use hitless_rollout::snapshot::NodeView;
use serde_json::{Value, json};

use super::{Fleet, Report, World, run};
use crate::clock::SECOND;
use crate::server::WorkloadObject;

const NAME: &str = "web";
const NAMESPACE: &str = "ns00";

/// What was done, and how it went.
pub type Phases = Vec<(&'static str, Report)>;

/// Who makes the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSet {
    /// KusionStack's.
    CollaSet,
    /// OpenKruise's.
    CloneSet,
}

impl PodSet {
    /// The object, without its template.
    fn object(self) -> Value {
        match self {
            Self::CollaSet => json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "spec": {}}),
            Self::CloneSet => json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
                "spec": {"updateStrategy": {"type": "InPlaceIfPossible", "maxUnavailable": "10%"}}}),
        }
    }
}

impl Fleet {
    /// A set of so many pods on these nodes: all phases, one after the other.
    #[must_use]
    pub fn pod_set(kind: PodSet, nodes: usize, replicas: i32) -> Phases {
        let fleet = Self { nodes, namespaces: 1, deployments: 0, replicas, ..Self::default() };
        let mut world = World::new(fleet);
        world.images();
        let mut set = kind.object();
        set["metadata"] = json!({"namespace": NAMESPACE, "name": NAME, "uid": "uid-set", "generation": 1});
        set["spec"]["replicas"] = json!(replicas);
        set["spec"]["selector"] = json!({"matchLabels": {"app": NAME}});
        set["spec"]["template"] = json!({"metadata": {"labels": {"app": NAME, "fleet": "yes"}},
            "spec": {"containers": [{"name": "web", "image": "web:v1", "ports": [{"containerPort": 80}]}]}});
        world.server.put_object(set);
        let mut gate = GateCache::default();
        let made = world.phase(&mut gate);
        world.change(|template| template["spec"]["containers"][0]["image"] = json!("web:v2"));
        let in_place = world.phase(&mut gate);
        world.change(|template| template["spec"]["containers"][0]["command"] = json!(["/bin/web"]));
        let anew = world.phase(&mut gate);
        vec![("made", made), ("another image, in place", in_place), ("another command, pods made anew", anew)]
    }
}

impl World {
    /// All nodes have both images.
    fn images(&mut self) {
        let mut names = NamePool::default();
        let nodes: Vec<NodeView> = self.server.nodes.values().map(|node| NodeView::clone(node)).collect();
        for node in nodes {
            let images = NodeImages::of([["web:v1"], ["web:v2"]], &mut names);
            self.server.put_node(NodeView { images, ..node });
        }
        let nodes = self.server.nodes.values().map(|node| (node.name.clone(), node.clone()));
        self.snapshot.nodes = nodes.collect();
    }

    fn set(&self) -> &WorkloadObject {
        let mut sets = ["CollaSet", "CloneSet"].into_iter();
        match sets.find_map(|kind| self.server.object(kind, NAMESPACE, NAME)) {
            Some(set) => set,
            None => unreachable!("nobody deletes the set"),
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let key = self.set().key();
        self.server.change_object(&key, |set| change(&mut set["spec"]["template"]));
    }

    /// Whether the set reports that all is as its spec says.
    fn is_through(&self) -> bool {
        let set = self.set();
        let status = &set.json["status"];
        status["observedGeneration"] == set.json["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "updatedAvailableReplicas"]
                .iter()
                .all(|field| status[*field] == self.fleet.replicas)
            && self.running.is_empty()
            && self.server.ledgers.values().all(|ledger| ledger.spec.reservations.is_empty())
    }

    fn phase(&mut self, gate: &mut GateCache) -> Report {
        self.report = Report { pods: u64::try_from(self.fleet.replicas).unwrap_or_default(), ..Report::default() };
        self.server.written.clear();
        let (begin, step) = (self.server.now, self.fleet.decision_seconds * SECOND);
        let limit = begin + 36_000 * SECOND;
        while self.server.now < limit && !self.is_through() {
            self.agents();
            self.kubelets();
            if !self.server.outbox.is_empty() || self.again <= self.server.now {
                self.controller(gate);
                self.begin();
            }
            self.server.outbox.clear();
            self.server.now += step;
        }
        let writes = std::mem::take(&mut self.server.written);
        let seconds = (self.server.now - begin) / SECOND;
        // The outbox was emptied: whatever it had told is decided on in the first round of the next phase.
        self.again = self.server.now;
        let rounds = i64::from(100_u32.div_ceil(self.fleet.percent.max(1)));
        let floor_seconds = rounds * self.fleet.operation_seconds;
        let report = std::mem::take(&mut self.report);
        Report { stuck: !self.is_through(), seconds, floor_seconds, writes, ..report }
    }

    /// Pods that nobody has bound get a node and run; those that are being deleted are gone.
    fn kubelets(&mut self) {
        let pods: Vec<_> = self.server.pods.values().map(|pod| pod.node_pod.clone()).collect();
        for (index, pod) in pods.into_iter().enumerate() {
            let uid = &pod.view.id.uid;
            if pod.view.terminating {
                self.server.remove_pod(&mut self.checks, uid);
            } else if pod.view.node.is_none() {
                let node = index % self.fleet.nodes;
                self.server.change_pod(&mut self.checks, uid, |pod| run(pod, node));
            }
        }
    }
}
