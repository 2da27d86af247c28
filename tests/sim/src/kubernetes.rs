//! Kubernetes' own controllers: Deployments, ReplicaSets, scheduler, node lifecycle, DaemonSet of the agents.

mod nodes;
mod pulls;

use std::collections::{BTreeMap, BTreeSet};

use hitless_agent::view::NodePod;
use hitless_api::lifecycle::{CONTROL, LifecycleView};
use hitless_api::names::{self, labels};
use hitless_api::pod::{ContainerSpec, ContainerView, Place, PodView};
use hitless_api::{ObjectRef, PodRef, PullPolicy};
use hitless_rollout::prefetch::PrefetchState;
use hitless_rollout::snapshot::NodeView;
use hitless_workloads::{Body, Object as View, Template};
use hitless_world::kubelet::set_condition;
use hitless_world::objects;

use crate::balancer;
use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::controller::AGENTS;
use crate::ground::Ground;
use crate::ports;
use crate::server::{Kind, Object, Told, WorkloadObject, object_key};
use crate::servers;
use crate::trace::Who;
use crate::watch::Key;
use pulls::node_images;

#[derive(Clone)]
pub(crate) enum Job {
    /// Looks at an object of a workload.
    Workload(Key),
    /// Acts on it, as it was when it was looked at.
    Pods(WorkloadObject),
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
    /// The kubelet has tried to pull a prefetch pod's image.
    Pulled(Key),
    /// A node's status says which images it has.
    NodeImages(String),
}

/// All of them.
#[derive(Default)]
pub(crate) struct Kubernetes {
    jobs: BTreeMap<(Micros, u64), Job>,
    count: u64,
    waiting: BTreeSet<Key>,
    /// Counts the pods that were made.
    pub(crate) made: u64,
    /// Nodes that may get pods.
    pub(crate) usable: BTreeSet<usize>,
}

impl Kubernetes {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { usable: (0..nodes).collect(), ..Self::default() }
    }

    pub(crate) fn later(&mut self, at: Micros, job: Job) {
        self.count += 1;
        self.jobs.insert((at, self.count), job);
    }

    pub(crate) fn wake(&self) -> Micros {
        self.jobs.first_key_value().map_or(NEVER, |((at, _), _)| *at)
    }

    /// Something has changed.
    pub(crate) fn notice(&mut self, what: &Told, at: &Key, ground: &mut Ground) {
        match what {
            Told::Is(Object::Workload(each)) => {
                self.look(at.clone(), ground);
                let owner = each.view.owner.as_ref().filter(|owner| ground.checks.rolls(&owner.uid));
                if let Some(owner) = owner {
                    self.look(object_key(&owner.group_kind.kind, &each.view.id.namespace, &owner.name), ground);
                }
            }
            // A revision label may have changed, which the native controllers count.
            Told::Is(Object::Pod(pod)) => {
                self.pod_changed(&pod.view, ground);
                let is_ours =
                    [labels::COMPANION, labels::MADE_FOR].iter().any(|label| pod.view.labels.contains_key(*label));
                if is_ours && pod.view.node.is_none() {
                    let due = ground.now + ground.chance.delay(5 * MS, 300 * MS);
                    self.later(due, Job::Bind(pod.view.id.uid.clone()));
                }
            }
            Told::Is(Object::Prefetch(pod)) if pod.state == PrefetchState::Pulling => {
                let due = ground.now + ground.chance.delay(50 * MS, 4 * SECOND);
                self.later(due, Job::Pulled(at.clone()));
            }
            Told::Is(Object::Node(_)) | Told::Deleted(Kind::Node) => {
                let all: Vec<Key> = ground.server.objects_of("DaemonSet").map(WorkloadObject::key).collect();
                for each in all {
                    self.look(each, ground);
                }
            }
            Told::Deleted(Kind::Pod) => {
                // Whose it was is not told; all are looked at, which is cheap here.
                let has_pods = |each: &&WorkloadObject| {
                    matches!(each.view.body, Body::ReplicaSet(_) | Body::StatefulSet(_) | Body::DaemonSet(_))
                };
                let owners: Vec<Key> =
                    ground.server.objects.values().filter(has_pods).map(WorkloadObject::key).collect();
                for owner in owners {
                    self.look(owner, ground);
                }
                self.look_at_rolling(ground);
            }
            _ => {}
        }
    }

    fn pod_changed(&mut self, pod: &PodView, ground: &mut Ground) {
        self.look_at_rolling(ground);
        if let Some(owner) = &pod.owner {
            self.look(object_key(&owner.group_kind.kind, &pod.id.namespace, &owner.name), ground);
        }
    }

    pub(crate) fn look(&mut self, at: Key, ground: &mut Ground) {
        if self.waiting.insert(at.clone()) {
            let due = ground.now + ground.chance.delay(5 * MS, 200 * MS);
            self.later(due, Job::Workload(at));
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
        nodes::ready(node, ground);
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
            Job::Workload(at) => {
                self.waiting.remove(&at);
                let Some(object) = ground.server.objects.get(&at).cloned() else { return };
                match &object.view.body {
                    Body::Deployment(_) => self.sync(&object, ground),
                    Body::CollaSet(_)
                    | Body::CloneSet(_)
                    | Body::ResourceContext(_)
                    | Body::Claim(_)
                    | Body::PodDecoration(_)
                    | Body::SidecarSet(_)
                    | Body::SidecarInjection(_)
                    | Body::ControllerRevision(_)
                    | Body::Request(_)
                    | Body::Omitted(_) => {}
                    Body::ReplicaSet(_) | Body::StatefulSet(_) | Body::DaemonSet(_) => {
                        let due = ground.now + ground.chance.delay(MS, 100 * MS);
                        self.later(due, Job::Pods(object));
                    }
                }
            }
            Job::Pods(object) => self.sync(&object, ground),
            Job::Pulled(at) => self.pulled(&at, ground),
            Job::NodeImages(node) => node_images(&node, ground),
            Job::Bind(uid) => self.bind(&uid, ground),
            Job::AgentPod(node, ready) => {
                let wall = ground.wall(0);
                let Ground { server, checks, .. } = ground;
                server.change_pod(checks, &agent_pod(node), |pod| set_condition(&mut pod.view, "Ready", ready, wall));
            }
            Job::NodeLost(node) => {
                ground.say(Who::Kubernetes, || format!("node n{node} is lost"));
                nodes::not_ready(node, ground);
                let wall = ground.wall(0);
                for uid in pods_of(node, ground) {
                    let Ground { server, checks, .. } = ground;
                    server.change_pod(checks, &uid, |pod| set_condition(&mut pod.view, "Ready", false, wall));
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

    fn bind(&mut self, uid: &str, ground: &mut Ground) {
        let nodes: Vec<usize> = self.usable.iter().copied().collect();
        if ground.server.pods.get(uid).is_some_and(|pod| pod.view.node.is_some()) {
            return;
        }
        if nodes.is_empty() {
            return self.later(ground.now + SECOND, Job::Bind(uid.to_owned()));
        }
        let node = ground.chance.pick(&nodes);
        let wall = ground.wall(0);
        let Ground { server, checks, .. } = ground;
        server.change_pod(checks, uid, |pod| {
            pod.view.node = Some(format!("n{node}"));
            set_condition(&mut pod.view, "PodScheduled", true, wall);
        });
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
    ground.server.put_node(NodeView { name, uid, ..NodeView::default() });
    install_agent_pod(node, ground);
}

fn install_agent_pod(node: usize, ground: &mut Ground) {
    let (uid, wall) = (agent_pod(node), ground.wall(0));
    let mut pod = empty(&PodRef { namespace: AGENTS.to_owned(), name: uid.clone(), uid });
    pod.view.labels.insert(names::APP_LABEL.to_owned(), names::AGENT.to_owned());
    pod.view.node = Some(format!("n{node}"));
    pod.view.host_network = true;
    set_condition(&mut pod.view, "Ready", true, wall);
    let Ground { server, checks, .. } = ground;
    server.put_pod(checks, pod);
}

fn empty(id: &PodRef) -> NodePod {
    let ip = balancer::ip(&id.uid).to_string();
    let mut pod = NodePod::from(&objects::Pod::new(&id.namespace, &id.name).uid(&id.uid).object());
    pod.view.resource_version.clear();
    (pod.view.generation, pod.view.ip) = (1, Some(ip));
    pod.has_labels = true;
    pod
}

/// A pod as a ReplicaSet makes it.
pub(crate) fn pod_of_set(set: &View, number: u64, created: jiff::Timestamp) -> NodePod {
    let name = format!("{}-{number}", set.id.name);
    let uid = format!("{}/{name}", set.id.namespace);
    let template = set.replica_set().map(|set| &set.body.template);
    pod(&set.id, template, (name, uid), created)
}

/// A pod as its owner makes it.
pub(crate) fn pod(
    owner: &ObjectRef,
    template: Option<&Template>,
    (name, uid): (String, String),
    created: jiff::Timestamp,
) -> NodePod {
    let mut pod = empty(&PodRef { namespace: owner.namespace.clone(), name, uid });
    let Some(template) = template else { return pod };
    let metadata = &template.content()["metadata"];
    let map = |name: &str| -> BTreeMap<String, String> {
        let all = metadata[name].as_object().into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let view = &mut pod.view;
    view.labels = map("labels").into();
    if let Some(hash) = template.hash() {
        view.labels.insert(labels::POD_TEMPLATE_HASH.to_owned(), hash.to_owned());
    }
    view.annotations = map("annotations").into();
    if template.is_mixed() {
        view.annotations.insert(names::annotations::MIXED.to_owned(), template.mixed_mark());
    }
    // They need no finalizers, and only the readiness gate of hitless.
    let takes_part = view.labels.get(CONTROL).is_some_and(|value| value == "true");
    view.lifecycle =
        takes_part.then(|| Box::new(LifecycleView { expected: Some(Vec::new()), ..LifecycleView::default() }));
    view.owner = Some(owner.clone().into());
    view.created = Some(hitless_agent::instant::whole_seconds(created));
    view.gated = true;
    let ports = ports::of_pod(template.content());
    let (start_seconds, grace) = servers::spec_of(template.content());
    view.grace_seconds = grace.unwrap_or(view.grace_seconds);
    pod.grace = std::time::Duration::from_secs(view.grace_seconds.into());
    let pull_policy = PullPolicy::of(template.content()["spec"]["containers"][0]["imagePullPolicy"].as_str());
    view.containers = template
        .images()
        .enumerate()
        .map(|(index, (name, image))| {
            let spec = ContainerSpec {
                name: name.to_owned(),
                place: Place::Container(index),
                image: image.to_owned(),
                pull_policy,
                ports: ports.clone(),
                probe_periods: vec![1],
                delays_ready: true,
                resources: None,
                start_seconds,
            };
            ContainerView { spec: spec.into(), status: None }
        })
        .collect();
    pod.has_annotations = !pod.view.annotations.is_empty();
    pod
}
