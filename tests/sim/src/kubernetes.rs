//! Kubernetes' own controllers: Deployments, ReplicaSets, scheduler, node lifecycle, DaemonSet of the agents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_agent::view::NodePod;
use hitless_api::names::{self, labels};
use hitless_api::pod::{ContainerView, Owner, PodView};
use hitless_api::{PodRef, PortTreatment};
use hitless_rollout::snapshot::NodeView;
use hitless_workloads::ReplicaSetView;

use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::controller::AGENTS;
use crate::ground::Ground;
use crate::kubelet::set_condition;
use crate::server::{Kind, Object, Told, key};
use crate::trace::Who;
use crate::watch::Key;

#[derive(Clone)]
enum Job {
    /// Looks at a Deployment.
    Deployment(Key),
    /// Looks at a ReplicaSet.
    ReplicaSet(Key),
    /// Makes and removes pods, with the ReplicaSet as it was when it was looked at.
    Pods(Arc<ReplicaSetView>),
    /// Binds a pod to a node.
    Bind(String),
    /// The agent's pod of a node is (not) Ready.
    AgentPod(usize, bool),
    /// The pods of a node are not Ready any more.
    NodeLost(usize),
    /// The pods of a lost node are deleted.
    NodeEvicted(usize),
    /// A lost node is given up, with its pods.
    NodeGone(usize),
}

/// All of them.
#[derive(Default)]
pub(crate) struct Kubernetes {
    jobs: BTreeMap<(Micros, u64), Job>,
    count: u64,
    waiting: BTreeSet<Key>,
    made: u64,
    /// Nodes that may get pods.
    pub(crate) usable: BTreeSet<usize>,
}

impl Kubernetes {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { usable: (0..nodes).collect(), ..Self::default() }
    }

    fn later(&mut self, at: Micros, job: Job) {
        self.count += 1;
        self.jobs.insert((at, self.count), job);
    }

    pub(crate) fn wake(&self) -> Micros {
        self.jobs.first_key_value().map_or(NEVER, |((at, _), _)| *at)
    }

    /// Something has changed.
    pub(crate) fn notice(&mut self, what: &Told, at: &Key, ground: &mut Ground) {
        match what {
            Told::Is(Object::Deployment(_)) => self.look(at.clone(), ground, Job::Deployment),
            Told::Is(Object::ReplicaSet(_)) => self.look(at.clone(), ground, Job::ReplicaSet),
            Told::Is(Object::Pod(pod)) if pod.view.terminating => self.pod_changed(&pod.view, ground),
            Told::Deleted(Kind::Pod) => {
                // Whose it was is not told; all are looked at, which is cheap here.
                let sets: Vec<Key> = ground.server.replica_sets.keys().cloned().collect();
                for set in sets {
                    self.look(set, ground, Job::ReplicaSet);
                }
            }
            _ => {}
        }
    }

    fn pod_changed(&mut self, pod: &PodView, ground: &mut Ground) {
        if let Some(owner) = &pod.owner {
            self.look(key(&pod.id.namespace, &owner.name), ground, Job::ReplicaSet);
        }
    }

    fn look(&mut self, at: Key, ground: &mut Ground, job: impl Fn(Key) -> Job) {
        if self.waiting.insert(at.clone()) {
            let due = ground.now + ground.chance.delay(5 * MS, 200 * MS);
            self.later(due, job(at));
        }
    }

    pub(crate) fn node_died(&mut self, node: usize, ground: &mut Ground) -> Micros {
        self.usable.remove(&node);
        let lost = ground.now + ground.chance.delay(2 * SECOND, 15 * SECOND);
        let evicted = lost + ground.chance.delay(SECOND, 20 * SECOND);
        let gone = evicted + ground.chance.delay(100 * MS, 20 * SECOND);
        self.later(lost, Job::NodeLost(node));
        self.later(evicted, Job::NodeEvicted(node));
        self.later(gone, Job::NodeGone(node));
        gone
    }

    /// A node is back before it was given up.
    pub(crate) fn node_back(&mut self, node: usize, ground: &mut Ground) {
        self.usable.insert(node);
        let uid = agent_pod(node);
        if ground.server.pods.get(uid.as_str()).is_some_and(|pod| pod.view.terminating) {
            let Ground { server, checks, .. } = ground;
            server.remove_pod(checks, &uid);
            install_agent_pod(node, ground);
        }
        self.jobs.retain(|_, job| {
            !matches!(job, Job::NodeLost(lost) | Job::NodeEvicted(lost) | Job::NodeGone(lost) if *lost == node)
        });
    }

    /// The readiness of an agent's pod follows the agent.
    pub(crate) fn agent_is(&mut self, node: usize, ready: bool, ground: &mut Ground) {
        let due = ground.now + ground.chance.delay(100 * MS, 3 * SECOND);
        self.jobs.retain(|_, job| !matches!(job, Job::AgentPod(of, _) if *of == node));
        self.later(due, Job::AgentPod(node, ready));
    }

    pub(crate) fn step(&mut self, ground: &mut Ground) {
        if ground.server.is_away() {
            let back = ground.server.away_until + 10 * MS;
            let late: Vec<_> = self.jobs.range(..(back, 0)).map(|(at, _)| *at).collect();
            for at in late {
                if let Some(job) = self.jobs.remove(&at) {
                    self.later(back, job);
                }
            }
            return;
        }
        while self.wake() <= ground.now {
            if let Some((_, job)) = self.jobs.pop_first() {
                self.act(job, ground);
            }
        }
    }

    fn act(&mut self, job: Job, ground: &mut Ground) {
        match job {
            Job::Deployment(at) => {
                self.waiting.remove(&at);
                scale(&at, ground);
            }
            Job::ReplicaSet(at) => {
                self.waiting.remove(&at);
                if let Some(set) = ground.server.replica_sets.get(&at).cloned() {
                    let due = ground.now + ground.chance.delay(MS, 100 * MS);
                    self.later(due, Job::Pods(set));
                }
            }
            Job::Pods(set) => self.pods(&set, ground),
            Job::Bind(uid) => self.bind(&uid, ground),
            Job::AgentPod(node, ready) => {
                let wall = ground.wall(0);
                let Ground { server, checks, .. } = ground;
                server.change_pod(checks, &agent_pod(node), |pod| set_condition(pod, "Ready", ready, wall));
            }
            Job::NodeLost(node) => {
                ground.say(Who::Kubernetes, || format!("node n{node} is lost"));
                let wall = ground.wall(0);
                for uid in pods_of(node, ground) {
                    let Ground { server, checks, .. } = ground;
                    server.change_pod(checks, &uid, |pod| set_condition(pod, "Ready", false, wall));
                }
            }
            Job::NodeEvicted(node) => {
                for uid in pods_of(node, ground) {
                    let Ground { server, checks, .. } = ground;
                    server.change_pod(checks, &uid, |pod| pod.view.terminating = true);
                }
            }
            Job::NodeGone(node) => {
                ground.say(Who::Kubernetes, || format!("node n{node} is given up"));
                for uid in pods_of(node, ground) {
                    let Ground { server, checks, .. } = ground;
                    server.remove_pod(checks, &uid);
                }
                ground.server.remove_node(&format!("n{node}").into());
            }
        }
    }

    /// Makes and removes pods, and counts them.
    fn pods(&mut self, set: &ReplicaSetView, ground: &mut Ground) {
        let at = key(&set.namespace, &set.name);
        let own: Vec<Arc<PodView>> = ground
            .server
            .pods
            .values()
            .filter(|pod| pod.view.owner.as_ref().is_some_and(|owner| owner.uid == set.uid))
            .map(|pod| pod.view.clone())
            .collect();
        let mut live: Vec<&Arc<PodView>> = own.iter().filter(|pod| !pod.terminating).collect();
        let wanted = usize::try_from(set.replicas).unwrap_or_default();
        let mut count = live.len();
        while count < wanted {
            count += 1;
            self.make(set, ground);
        }
        if live.len() > wanted {
            // Those that are not ready go first, then the youngest.
            live.sort_by_key(|pod| (pod.ready(), std::cmp::Reverse(pod.created)));
            for pod in live.iter().take(count - wanted) {
                let Ground { server, checks, .. } = ground;
                server.change_pod(checks, &pod.id.uid, |pod| pod.view.terminating = true);
            }
            count = wanted;
        }
        let Some(known) = ground.server.replica_sets.get(&at).filter(|known| known.uid == set.uid) else { return };
        let replicas = i32::try_from(count).unwrap_or(i32::MAX);
        if known.status_replicas != replicas || known.observed_generation < set.generation {
            let mut next = ReplicaSetView::clone(known);
            next.status_replicas = replicas;
            next.observed_generation = next.observed_generation.max(set.generation);
            ground.server.put_replica_set(next);
        }
    }

    fn make(&mut self, set: &ReplicaSetView, ground: &mut Ground) {
        self.made += 1;
        let pod = pod(set, self.made, ground.wall(0));
        let uid = pod.view.id.uid.clone();
        ground.say(Who::Kubernetes, || format!("makes pod {uid} with {}", pod.view.containers[0].image));
        let Ground { server, checks, .. } = ground;
        server.put_pod(checks, pod);
        let due = ground.now + ground.chance.delay(5 * MS, 300 * MS);
        self.later(due, Job::Bind(uid));
    }

    fn bind(&mut self, uid: &str, ground: &mut Ground) {
        let nodes: Vec<usize> = self.usable.iter().copied().collect();
        if nodes.is_empty() {
            return self.later(ground.now + SECOND, Job::Bind(uid.to_owned()));
        }
        let node = ground.chance.pick(&nodes);
        let wall = ground.wall(0);
        let Ground { server, checks, .. } = ground;
        server.change_pod(checks, uid, |pod| {
            pod.view.node = Some(format!("n{node}"));
            set_condition(pod, "PodScheduled", true, wall);
        });
    }
}

/// What the Deployment controller does with one that is paused or up to date: it scales.
fn scale(at: &Key, ground: &mut Ground) {
    let Some(deployment) = ground.server.deployments.get(at).cloned() else { return };
    let target = deployment.template.revision();
    let own = || {
        ground
            .server
            .replica_sets
            .values()
            .filter(|set| set.owner.as_ref().is_some_and(|owner| owner.uid == deployment.uid))
    };
    let equal = own().filter(|set| set.template.revision() == target && !set.template.is_mixed());
    let chosen = if deployment.paused {
        own().filter(|set| !set.labels.contains_key(labels::HISTORY)).max_by_key(|set| (set.replicas, set.created))
    } else {
        equal.min_by_key(|set| (set.created, &set.name))
    };
    let Some(chosen) = chosen.cloned() else {
        let what = format!("{at} is not paused and has a template of no ReplicaSet: it would be rolled natively");
        return ground.checks.fail(ground.now, what);
    };
    if chosen.replicas != deployment.replicas {
        let mut next = ReplicaSetView::clone(&chosen);
        next.replicas = deployment.replicas;
        next.generation += 1;
        ground.server.put_replica_set(next);
    }
}

fn pods_of(node: usize, ground: &Ground) -> Vec<String> {
    let name = format!("n{node}");
    let own = ground.server.pods.values().filter(|pod| pod.view.node.as_deref() == Some(name.as_str()));
    own.map(|pod| pod.view.id.uid.clone()).collect()
}

/// uid of the agent's pod on a node.
pub(crate) fn agent_pod(node: usize) -> String {
    format!("agent-n{node}")
}

/// A node and the pod of its agent, both in order.
pub(crate) fn install_node(node: usize, uid: String, ground: &mut Ground) {
    let name = format!("n{node}");
    ground.server.put_node(NodeView { name, uid, deleting: false, labels: BTreeMap::new() });
    install_agent_pod(node, ground);
}

fn install_agent_pod(node: usize, ground: &mut Ground) {
    let (uid, wall) = (agent_pod(node), ground.wall(0));
    let mut pod = empty(PodRef { namespace: AGENTS.to_owned(), name: uid.clone(), uid });
    pod.view.labels.insert(names::APP_LABEL.to_owned(), names::AGENT.to_owned());
    pod.view.node = Some(format!("n{node}"));
    pod.view.host_network = true;
    set_condition(&mut pod, "Ready", true, wall);
    let Ground { server, checks, .. } = ground;
    server.put_pod(checks, pod);
}

fn empty(id: PodRef) -> NodePod {
    let view = PodView {
        id,
        resource_version: String::new(),
        generation: 1,
        observed_generation: 0,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        owner: None,
        node: None,
        containers: Vec::new(),
        conditions: BTreeMap::new(),
        gated: false,
        host_network: false,
        terminating: false,
        finished: false,
        ip: None,
        created: None,
    };
    let grace = std::time::Duration::from_secs(30);
    NodePod { view, has_labels: true, has_annotations: false, ips: Vec::new(), grace }
}

/// A pod as a ReplicaSet makes it.
pub(crate) fn pod(set: &ReplicaSetView, number: u64, created: jiff::Timestamp) -> NodePod {
    let name = format!("{}-{number}", set.name);
    let mut pod = empty(PodRef {
        namespace: set.namespace.clone(),
        name: name.clone(),
        uid: format!("{}/{name}", set.namespace),
    });
    let metadata = &set.template.content()["metadata"];
    let map = |name: &str| -> BTreeMap<String, String> {
        let all = metadata[name].as_object().into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let view = &mut pod.view;
    view.labels = map("labels");
    if let Some(hash) = set.template.hash() {
        view.labels.insert(labels::POD_TEMPLATE_HASH.to_owned(), hash.to_owned());
    }
    view.annotations = map("annotations");
    if set.template.is_mixed() {
        view.annotations.insert(names::annotations::MIXED.to_owned(), "1".to_owned());
    }
    view.owner = Some(Owner { kind: "ReplicaSet".to_owned(), name: set.name.clone(), uid: set.uid.clone() });
    view.created = Some(hitless_agent::instant::whole_seconds(created));
    view.gated = true;
    let port = hitless_api::pod::PortView { port: 80, name: None, treatment: PortTreatment::Http1 };
    view.containers = set
        .template
        .images()
        .map(|(name, image)| ContainerView {
            name: name.to_owned(),
            image: image.to_owned(),
            ports: vec![port.clone()],
            probe_periods: vec![1],
            status: None,
        })
        .collect();
    pod.has_annotations = !pod.view.annotations.is_empty();
    pod
}
