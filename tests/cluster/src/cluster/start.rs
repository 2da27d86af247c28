//! Starting the parts of a cluster, in their order.

use std::time::Duration;

use serde_json::json;

use super::Cluster;
use crate::cgroup::Hierarchies;
use crate::control_plane::ControlPlane;
use crate::image::ImageSpec;
use crate::node::Node;
use crate::pki::Pki;
use crate::{PodNetwork, Progress, Result, flannel, network, run};

impl Cluster {
    /// Starts everything, and waits until pods can be made and Services answer.
    pub(super) fn start(&self, progress: Progress<'_>) -> Result<()> {
        self.parts.prepare()?;
        Hierarchies::find()?.make(&self.name, self.nodes)?;
        network::make(&self.name, self.nodes, self.options)?;
        let pki = Pki::make(&self.directory.join("pki"))?;
        let (cluster, options, directory) = (self.name.as_str(), self.options, self.directory.as_path());
        let (tools, parts) = (&self.tools, &self.parts);
        let control_plane = ControlPlane { cluster, options, directory, tools, parts };
        let node = |index| Node { cluster, index, options, directory, tools, parts };
        let nodes: Vec<Node> = (1..=self.nodes).map(node).collect();
        progress("starting etcd, kube-apiserver and the image registry");
        control_plane.certificates(&pki)?;
        control_plane.start()?;
        for node in &nodes {
            node.start(&pki)?;
        }
        control_plane.wait_for_registry()?;
        self.push_image("pause:1", &ImageSpec::from_binary(&tools.path("pause")?)?.build()?)?;
        control_plane.wait_for_api_server(|arguments| self.kubectl(arguments))?;
        progress(&format!("starting the controllers and {} nodes", self.nodes));
        control_plane.start_controllers()?;
        for node in &nodes {
            node.join()?;
        }
        match options.network {
            PodNetwork::Bridge => {}
            PodNetwork::Flannel => self.start_flannel(&nodes, progress)?,
        }
        self.wait_until_usable()?;
        nodes.iter().try_for_each(Node::wait_for_proxy)
    }

    fn start_flannel(&self, nodes: &[Node<'_>], progress: Progress<'_>) -> Result<()> {
        progress("starting flannel");
        self.kubectl_with_input(&["create", "-f", "-"], &flannel::rights())?;
        for node in nodes {
            let subnets: Vec<String> = self.ip_family().each().iter().map(|family| family.pods(node.index)).collect();
            let patch = json!({"spec": {"podCIDR": subnets.first(), "podCIDRs": subnets}}).to_string();
            // A kubelet makes its Node in its own time.
            run::until(&format!("the Node of {}", node.name()), Duration::from_mins(1), || {
                self.check()?;
                Ok(self.kubectl(&["patch", "node", &node.name(), "-p", &patch]).map_err(|error| error.to_string()))
            })?;
            node.start_flannel()?;
        }
        for node in nodes {
            let mut others = nodes.iter().filter(|other| other.index != node.index);
            others.try_for_each(|other| node.wait_for_tunnel(other.index))?;
        }
        Ok(())
    }

    /// Waits until pods can be made and scheduled.
    fn wait_until_usable(&self) -> Result<()> {
        let limit = Duration::from_mins(1);
        let nodes: Vec<String> = self.node_names().iter().map(|name| format!("node/{name}")).collect();
        let ready: Vec<&str> = ["wait", "--for=condition=Ready", "--timeout=60s"]
            .into_iter()
            .chain(nodes.iter().map(String::as_str))
            .collect();
        // It waits by itself for a node to become ready, but not for it to appear.
        for (what, arguments) in [
            ("all nodes", &ready[..]),
            ("the default service account", &["get", "serviceaccount", "--namespace=default", "default"]),
        ] {
            run::until(what, limit, || {
                self.check()?;
                Ok(self.kubectl(arguments).map_err(|error| error.to_string()))
            })?;
        }
        Ok(())
    }
}
