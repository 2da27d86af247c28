//! A Service as a load balancer outside of the cluster reaches it: by a port of every node.

mod rules;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_cluster::{Cluster, Place};
use serde_json::{Value, json};

use crate::app::PATIENCE;
use crate::traffic::Rate;
use crate::{App, Stack, Traffic, endpoint};

use rules::Rules;

/// Between two looks at what nobody tells.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Which pods a node sends to what comes to its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any.
    Cluster,
    /// Its own only.
    Local,
}

/// The ports of a Service on the nodes.
pub struct NodePorts {
    namespace: String,
    /// Addresses of the nodes, in the order of their names.
    nodes: Vec<IpAddr>,
    port: u16,
    /// Where a node serves itself: the port that says whether it has a pod.
    health: Option<u16>,
}

impl NodePorts {
    /// Makes the application's Service one of that kind, and waits until every node's port answers.
    pub fn open(stack: &Stack, app: &App, policy: Policy) -> anyhow::Result<Self> {
        let spec =
            json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": format!("{policy:?}")}}).to_string();
        app.kubectl.run(&["patch", "service", "web", "-p", &spec])?;
        let service = app.kubectl.get(&["service", "web"])?["spec"].take();
        let nodes = app.kubectl.list(&["nodes"])?;
        let address = |node: &Value| {
            let addresses = node["status"]["addresses"].as_array()?;
            addresses.iter().find(|each| each["type"] == "InternalIP")?["address"].as_str()?.parse().ok()
        };
        let number = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
        let ports = Self {
            namespace: app.kubectl.namespace().to_owned(),
            nodes: nodes.iter().filter_map(address).collect(),
            port: number(&service["ports"][0]["nodePort"]).context("the Service has no node port")?,
            health: number(&service["healthCheckNodePort"]).filter(|port| *port > 0),
        };
        let begin = Instant::now();
        // Nobody else tells when kube-proxy has written its rules.
        while !ports.answers(&stack.cluster) {
            ensure!(begin.elapsed() < PATIENCE, "the node ports do not all answer");
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(ports)
    }

    fn answers(&self, cluster: &Cluster) -> bool {
        let is_answered =
            |target| endpoint::get_at(cluster, Place::Outside, target, "/").is_ok_and(|(code, _)| code == 200);
        self.targets().all(is_answered) && self.unhealthy(cluster) == 0
    }

    /// The port on each node.
    pub fn targets(&self) -> impl Iterator<Item = SocketAddr> {
        self.nodes.iter().map(|node| SocketAddr::new(*node, self.port))
    }

    /// Load from outside of the cluster on each node's port.
    pub fn start_traffic(&self, stack: &Stack, rate: Rate) -> anyhow::Result<Vec<Traffic>> {
        let start = |target| Traffic::start_from(Place::Outside, &stack.cluster, &stack.programs, target, rate);
        let traffic: Vec<Traffic> = self.targets().map(start).collect::<anyhow::Result<_>>()?;
        traffic.iter().try_for_each(|traffic| traffic.wait_for_requests(rate.per_second(), PATIENCE))?;
        Ok(traffic)
    }

    /// How many nodes tell a load balancer that they have no pod.
    #[must_use]
    pub fn unhealthy(&self, cluster: &Cluster) -> usize {
        let Some(health) = self.health else { return 0 };
        let is_healthy = |node: &&IpAddr| {
            let target = SocketAddr::new(**node, health);
            endpoint::get_at(cluster, Place::Outside, target, "/").is_ok_and(|(code, _)| code == 200)
        };
        self.nodes.len() - self.nodes.iter().filter(is_healthy).count()
    }

    /// How many nodes' kernels send what comes to the port nowhere at this moment. What is asked is the node's own packet filter
    /// (kube-proxy's rules), and not the API.
    pub fn without_a_pod(&self, cluster: &Cluster) -> anyhow::Result<usize> {
        let rules = Rules::of(cluster, self.nodes.iter().all(IpAddr::is_ipv6));
        let mut without = 0;
        for index in (1..).take(self.nodes.len()) {
            without += usize::from(!rules.send_to_own_pod(cluster, index, (&self.namespace, self.port))?);
        }
        Ok(without)
    }
}

/// Part of a workload that keeps its pods on nodes of their own.
#[must_use]
pub fn apart() -> Value {
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]}})
}
