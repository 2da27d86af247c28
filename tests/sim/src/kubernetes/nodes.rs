//! Nodes that are lost and that nobody gives up, and nodes without an agent.

use hitless_rollout::snapshot::NodeView;

use super::{Job, Kubernetes, agent_pod, install_agent_pod};
use crate::clock::{Micros, SECOND};
use crate::ground::Ground;

/// Pods of a node that does not answer are deleted after so long.
const EVICTED: Micros = 300 * SECOND;

impl Kubernetes {
    /// The node does not answer any more. Its pods are deleted, and never gone: nobody ends their containers.
    pub(crate) fn node_lost(&mut self, node: usize, ground: &mut Ground) {
        self.usable.remove(&node);
        let lost = ground.now + ground.chance.delay(10 * SECOND, 50 * SECOND);
        self.later(lost, Job::NodeLost(node));
        self.later(lost + EVICTED, Job::NodeEvicted(node));
    }

    /// Somebody deletes the Node.
    pub(crate) fn give_up(&mut self, node: usize, at: Micros) {
        self.later(at, Job::NodeGone(node));
    }
}

impl Ground {
    /// There is no pod of the agent on the node.
    pub(crate) fn no_agent(&mut self, node: usize) {
        self.server.remove_pod(&mut self.checks, &agent_pod(node));
    }

    /// There is one again.
    pub(crate) fn new_agent(&mut self, node: usize) {
        install_agent_pod(node, self);
    }
}

/// The Node says since when its kubelet says nothing. Elsewhere it never says so.
pub(super) fn not_ready(node: usize, ground: &mut Ground) {
    let since = ground.wall(0);
    change(node, ground, |node| node.not_ready_since = Some(since));
}

pub(super) fn ready(node: usize, ground: &mut Ground) {
    change(node, ground, |node| node.not_ready_since = None);
}

fn change(node: usize, ground: &mut Ground, change: impl FnOnce(&mut NodeView)) {
    let known = ground.server.nodes.get(format!("n{node}").as_str()).filter(|_| ground.nodes.is_some());
    if let Some(known) = known {
        let mut node = NodeView::clone(known);
        change(&mut node);
        ground.server.put_node(node);
    }
}
