//! Nodes that die and come back, nodes that have no agent for good, and nodes that are lost while one of their pods is operated and that
//! nobody gives up. The latter two are drawn apart.

use hitless_agent::view::NodeIdentity;

use super::World;
use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::faults::Fault;
use crate::kubernetes::install_node;
use crate::trace::Who;
use crate::user::Deed;

/// So often a node with a pod that is being operated is looked for.
const TRIES: u32 = 120;

impl World {
    /// Which node has no agent from the beginning.
    pub(super) fn without_agent(&mut self) {
        let Some(chance) = &mut self.ground.nodes else { return };
        if !chance.happens(2_500) {
            return;
        }
        let index = chance.index(self.nodes.len());
        self.ground.fault(Fault::NeverAgent);
        self.ground.say(Who::Kubernetes, || format!("n{index} never gets an agent"));
        let node = &mut self.nodes[index];
        (node.has_no_agent, node.agent_up, node.agent.down_until) = (true, false, Some(NEVER));
        self.ground.no_agent(index);
        self.flush();
    }

    /// Whether a node is lost in this round. Says when that happens at the latest.
    pub(super) fn plan_nodes(&mut self) -> Micros {
        let start = self.ground.now;
        let Some(chance) = &mut self.ground.nodes else { return start };
        if !chance.happens(2_000) {
            return start;
        }
        let at = start + chance.delay(SECOND, 30 * SECOND);
        self.user.at(at, Deed::LoseNode(TRIES));
        at
    }

    /// A node with a pod that is being operated does not answer any more.
    pub(super) fn lose_node(&mut self, tries: u32) {
        let is_busy = |index: &usize| {
            let node = self.ground.server.transitions.get(format!("n{index}").as_str());
            !self.nodes[*index].kubelet.dead && node.is_some_and(|node| node.view.unfinished().next().is_some())
        };
        let busy: Vec<usize> = (0..self.nodes.len()).filter(is_busy).collect();
        let others = self.kubernetes.usable.len() > 1;
        let Some(chance) = &mut self.ground.nodes else { return };
        if busy.is_empty() || !others {
            if tries > 0 {
                self.user.at(self.ground.now + 250 * MS, Deed::LoseNode(tries - 1));
            }
            return;
        }
        let index = chance.pick(&busy);
        self.ground.fault(Fault::NodeLost);
        self.ground.say(Who::Kubelet(index), || "the node is lost, and stays".to_owned());
        let node = &mut self.nodes[index];
        (node.kubelet.dead, node.is_lost) = (true, true);
        node.agent.kill(&mut self.ground, NEVER);
        self.disturb(|pod| pod.node.as_deref().and_then(super::node_index) == Some(index));
        self.kubernetes.node_lost(index, &mut self.ground);
    }

    pub(super) fn kill_node(&mut self, index: usize, back: Option<Micros>) {
        // Somebody must be there to run the pods.
        if self.kubernetes.usable.len() < 2 || self.nodes[index].kubelet.dead {
            return;
        }
        let now = self.ground.now;
        self.ground.fault(Fault::NodeDied);
        self.ground.say(Who::Kubelet(index), || "the node is down".to_owned());
        let node = &mut self.nodes[index];
        node.kubelet.dead = true;
        node.agent.kill(&mut self.ground, NEVER);
        self.disturb(|pod| pod.node.as_deref().and_then(super::node_index) == Some(index));
        let gone = self.kubernetes.node_died(index, &mut self.ground);
        match back.map(|after| now + after).filter(|at| *at < gone) {
            Some(at) => self.user.at(at, Deed::ReturnNode(index)),
            None => self.user.at(gone + SECOND, Deed::RemakeNode(index)),
        }
    }

    pub(super) fn return_node(&mut self, index: usize) {
        let now = self.ground.now;
        self.ground.fault(Fault::NodeBack);
        self.ground.say(Who::Kubelet(index), || "the node is back".to_owned());
        self.kubernetes.node_back(index, &mut self.ground);
        self.disturb(|pod| pod.node.as_deref().and_then(super::node_index) == Some(index));
        let node = &mut self.nodes[index];
        node.kubelet.reboot(&mut self.ground);
        let back = if node.has_no_agent { NEVER } else { now + SECOND };
        node.agent.down_until = Some(back);
    }

    pub(super) fn remake_node(&mut self, index: usize) {
        let now = self.ground.now;
        if self.ground.server.nodes.contains_key(format!("n{index}").as_str()) {
            // Not given up yet: the API server was away.
            return self.user.at(now + SECOND, Deed::RemakeNode(index));
        }
        let node = &mut self.nodes[index];
        node.generation += 1;
        let uid = format!("uid-n{index}-{}", node.generation);
        self.ground.say(Who::Kubelet(index), || "a node of that name is made".to_owned());
        let skew = node.kubelet.skew;
        node.kubelet = crate::kubelet::Kubelet::new(index);
        node.kubelet.skew = skew;
        node.agent.node = NodeIdentity { name: format!("n{index}"), uid: uid.clone() };
        let back = if node.has_no_agent { NEVER } else { now + SECOND };
        node.agent.down_until = Some(back);
        install_node(index, uid, &mut self.ground);
        if self.nodes[index].has_no_agent {
            self.ground.no_agent(index);
        }
        self.kubernetes.usable.insert(index);
    }

    /// Whether the pod is on a node that is lost, or that has no agent.
    pub(super) fn is_on_bad_node(&self, node: Option<&str>) -> bool {
        let node = node.and_then(super::node_index).and_then(|index| self.nodes.get(index));
        node.is_some_and(|node| node.is_lost || node.has_no_agent)
    }

    /// Whether it is on a lost one.
    pub(super) fn is_on_lost_node(&self, node: Option<&str>) -> bool {
        let node = node.and_then(super::node_index).and_then(|index| self.nodes.get(index));
        node.is_some_and(|node| node.is_lost)
    }

    /// An administrator gives up nodes that are lost, and lets agents run everywhere.
    pub(super) fn mend_nodes(&mut self) {
        let now = self.ground.now;
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if std::mem::take(&mut node.has_no_agent) && !node.kubelet.dead {
                node.agent.down_until = Some(now + SECOND);
                self.ground.new_agent(index);
            }
            if std::mem::take(&mut self.nodes[index].is_lost) {
                self.kubernetes.give_up(index, now + SECOND);
                self.user.at(now + 2 * SECOND, Deed::RemakeNode(index));
            }
        }
        self.flush();
    }
}
