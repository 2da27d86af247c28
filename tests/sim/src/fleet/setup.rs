//! Makes the fleet: nodes, rules, Deployments and their pods, all at rest.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::PodTransitionRuleSpec;
use hitless_api::names::IN_SERVICE;
use hitless_api::pod::ContainerState;
use hitless_api::pod_transition_rule::{AvailableRule, TransitionRule};
use hitless_api::shared::Shared;
use hitless_rollout::prefetch::{NamePool, NodeImages};
use hitless_rollout::snapshot::{AgentState, NodeView, RuleView, Snapshot, Version};
use hitless_world::kubelet::set_condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::{Fleet, Report, World};
use crate::checks::Checks;
use crate::clock::stamp;
use crate::kubernetes::pod_of_set;
use crate::server::Server;
use crate::workload::{Named, all_leave};

impl World {
    pub(super) fn new(fleet: Fleet) -> Self {
        let mut server = Server::default();
        let mut checks = Checks::off();
        let mut names = NamePool::default();
        for node in 0..fleet.nodes {
            let name = format!("n{node}");
            let uid = format!("uid-{name}");
            let next = (0..fleet.deployments).map(|index| format!("web{index}:v2"));
            let next: Vec<String> = next.collect();
            let images = NodeImages::of(next.iter().map(|name| [name.as_str()]), &mut names);
            server.put_node(NodeView { name, uid, images, ..NodeView::default() });
        }
        let mut count = 0;
        for namespace in (0..fleet.namespaces).map(|index| format!("ns{index:02}")) {
            server.put_rule(rule(&namespace, fleet.percent));
            for index in 0..fleet.deployments {
                let (deployment, set) = workload(&namespace, &format!("web{index}"), fleet.replicas);
                server.put_object(deployment);
                let set = server.put_object(set).view;
                for number in 0..u64::try_from(fleet.replicas).unwrap_or_default() {
                    let mut pod = pod_of_set(&set, number, stamp(0));
                    let node = usize::try_from(count).unwrap_or_default() % fleet.nodes;
                    run(&mut pod, node);
                    server.put_pod(&mut checks, pod);
                    count += 1;
                }
            }
        }
        let agents = server.nodes.keys().map(|node| (node.to_string(), AgentState::Ready)).collect();
        let nodes = server.nodes.values().map(|node| (node.name.clone(), node.clone())).collect();
        let (holder, drain_policies) = ("fleet".to_owned(), vec![all_leave(true)]);
        let snapshot = Snapshot { epoch: 1, holder, agents, nodes, drain_policies, ..Snapshot::default() };
        let report = Report { pods: count, ..Report::default() };
        Self { fleet, server, checks, snapshot, running: BTreeMap::new(), begun: BTreeSet::new(), again: 0, report }
    }
}

fn rule(namespace: &str, percent: u32) -> RuleView {
    let limit = Some(IntOrString::String(format!("{percent}%")));
    let available = AvailableRule { max_unavailable_value: limit, ..AvailableRule::default() };
    let all = Some([("fleet".to_owned(), "yes".to_owned())].into());
    RuleView {
        namespace: namespace.to_owned(),
        name: "budget".to_owned(),
        version: Version { uid: format!("uid-rule-{namespace}"), resource_version: String::new() },
        generation: 1,
        spec: PodTransitionRuleSpec {
            selector: Some(LabelSelector { match_labels: all, ..LabelSelector::default() }),
            rules: vec![TransitionRule {
                name: "share".to_owned(),
                available_policy: Some(available),
                ..TransitionRule::default()
            }],
        },
        unreadable: None,
        status: None,
    }
}

fn workload(namespace: &str, name: &str, replicas: i32) -> (Value, Value) {
    let template = json!({
        "metadata": {"labels": {"app": name, "fleet": "yes"}},
        "spec": {"containers": [{"name": "web", "image": format!("{name}:v1")}]}
    });
    Named { namespace, name, uid: format!("uid-{namespace}-{name}"), replicas }.at_rest(template, stamp(0))
}

/// Bound to a node, and in service.
pub(super) fn run(pod: &mut hitless_agent::view::NodePod, node: usize) {
    let wall = stamp(0);
    pod.view.node = Some(format!("n{node}"));
    for name in [IN_SERVICE, "Ready"] {
        set_condition(&mut pod.view, name, true, wall);
    }
    for container in &mut pod.view.containers {
        container.status = Some(ContainerState {
            container_id: "containerd://1".to_owned(),
            image: container.image.clone().into(),
            image_id: Shared::default(),
            ready: true,
            running_since: Some(wall),
            last_ended: None,
            waiting: None,
            trouble: None,
            restarts: 0,
        });
    }
}
