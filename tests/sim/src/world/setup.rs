//! The cluster that a run begins with, drawn from its seed.

use std::collections::BTreeMap;

use hitless_agent::instant::whole_seconds;
use hitless_agent::view::{NodeIdentity, NodePod};
use hitless_api::lifecycle::CONTROL;
use hitless_api::names::{IN_SERVICE, annotations, labels};
use hitless_api::pod::ConditionView;
use hitless_api::pod_transition_rule::{AvailableRule, TransitionRule};
use hitless_api::{Cancel, Grant, GrantOp, PodTransitionRuleSpec, Wait};
use hitless_rollout::snapshot::{RuleView, Version};
use hitless_workloads::Template;
use hitless_world::kubelet::{self, set_condition};
use hitless_world::native::revisions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::colla_sets::colla_sets;
use super::services::services;
use super::{Node, World};
use crate::agent::Agent;
use crate::clock::{MS, NEVER, SECOND};
use crate::controller::Controller;
use crate::faults::{Fault, Weather};
use crate::ground::Ground;
use crate::kubelet::{Image, Kubelet};
use crate::kubernetes::{Kubernetes, install_node, pod, pod_of_set};
use crate::ports;
use crate::servers::Servers;
use crate::user::{User, Wanted};
use crate::workload::{Named, all_leave};

impl World {
    pub(super) fn new(seed: u64, traced: bool) -> Self {
        let mut ground = Ground::new(seed, traced);
        let weather = Weather::draw(&mut ground.chance);
        let mut nodes = nodes(&mut ground);
        let rounds = u32::try_from(ground.chance.between(1, 4)).unwrap_or(1);
        let mut user = User::new(rounds);
        ground.add_image(1, Image::Good(300 * MS));
        // Elsewhere all pods leave, whatever is known of them.
        let holds = ground.chance.happens(6_000);
        let says_verify = ground.servers.as_mut().is_none_or(Servers::has_policy);
        ground.server.drain_policies.push(all_leave(says_verify));
        // Small, because a decision looks at everything: what goes wrong shows with few pods.
        let namespaces = ground.chance.pick(&[1, 1, 1, 1, 1, 2]);
        let mut number = 0;
        for namespace in 0..namespaces {
            let namespace = format!("ns{namespace}");
            for _ in 0..ground.chance.pick(&[1, 1, 2]) {
                number += 1;
                let wanted = workload(&namespace, number, holds, &mut nodes, &mut ground);
                user.desired.push(wanted);
            }
            user.desired.extend(colla_sets(&namespace, &mut number, &mut ground));
            if holds {
                services(&namespace, &mut user, &mut ground);
            }
            rules(&namespace, &user, &mut ground);
        }
        for wanted in &mut user.desired {
            wanted.hopeless = is_hopeless(wanted, &ground);
        }
        ground.server.outbox.clear();
        let mut controllers: Vec<Controller> = (0..2).map(Controller::new).collect();
        for controller in &mut controllers {
            controller.caches.list(&ground.server);
            if ground.chance.happens(1_500) {
                ground.fault(Fault::SkewedController);
                controller.skew = ground.chance.between(-5 * SECOND, 5 * SECOND);
            }
        }
        let kubernetes = Kubernetes::new(nodes.len());
        for node in &mut nodes {
            node.agent.down_until = Some(0);
            node.agent_up = true;
        }
        let mut world = Self {
            ground,
            controllers,
            nodes,
            kubernetes,
            user,
            epoch: 0,
            election: NEVER,
            weather,
            obstacles: BTreeMap::new(),
        };
        world.without_agent();
        world.elevate(0);
        world
    }
}

fn nodes(ground: &mut Ground) -> Vec<Node> {
    let count = usize::try_from(ground.chance.between(1, 3)).unwrap_or(1);
    (0..count)
        .map(|index| {
            let uid = format!("uid-n{index}-0");
            install_node(index, uid.clone(), ground);
            let mut kubelet = Kubelet::new(index);
            let mut agent = Agent::new(index, NodeIdentity { name: format!("n{index}"), uid });
            let holds = ground.chance.happens(8_500);
            agent.info.features =
                ["Leave", "hold"].iter().take(1 + usize::from(holds)).map(ToString::to_string).collect();
            agent.info.features.push(Cancel::LAST_ENDPOINT_FEATURE.to_owned());
            agent.info.features.push(GrantOp::RELABEL_FEATURE.to_owned());
            agent.info.features.push(Grant::ANNOTATIONS_FEATURE.to_owned());
            if ground.has_companions {
                agent.info.features.push(GrantOp::DRAIN_FEATURE.to_owned());
            }
            if ground.server.balancer.is_some() {
                agent.info.features.push(Wait::FEATURE.to_owned());
            }
            if ground.has_operators {
                agent.info.features.push(GrantOp::FOREIGN_FEATURE.to_owned());
            }
            if ground.chance.happens(1_500) {
                ground.fault(Fault::SkewedNode);
                kubelet.skew = ground.chance.between(-5 * SECOND, 5 * SECOND);
                agent.skew = kubelet.skew;
            }
            Node { kubelet, agent, agent_up: true, generation: 0, has_no_agent: false, is_lost: false }
        })
        .collect()
}

/// A Deployment with its ReplicaSet and pods, at rest.
fn workload(namespace: &str, number: usize, holds: bool, nodes: &mut [Node], ground: &mut Ground) -> Wanted {
    let name = format!("web{number}");
    let modes = [None, Some("Auto"), Some("Hold"), Some("Hold")];
    let mode = if holds { ground.chance.pick(&modes) } else { None };
    let replicas = match mode {
        None => ground.chance.pick(&[1, 2, 2, 3, 3, 3, 4, 4, 6]),
        Some(_) => ground.chance.pick(&[1, 1, 1, 2, 2, 3]),
    };
    let tier = ground.chance.pick(&["front", "back"]);
    let stragglers = ground.chance.pick(&["Close", "Wait", "Abort", "Destroy"]);
    let cap = ground.chance.pick(&[2_500, 1_500, 600]);
    let drain = json!({"minSeconds": 1, "stragglerAfterSeconds": 4, "deadlineSeconds": 8, "stragglers": stragglers,
        "holdCapMilliseconds": cap});
    let mut template = json!({
        "metadata": {"labels": {"app": name, "tier": tier, "all": "yes"}, "annotations": {}},
        "spec": {"containers": [{"name": "web", "image": format!("{name}:v1")}]}
    });
    if ground.has_operators {
        template["metadata"]["labels"][CONTROL] = json!("true");
    }
    if ground.chance.happens(2_500) {
        template["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    }
    if ground.chance.happens(7_000) {
        template["metadata"]["annotations"][annotations::DRAIN] = json!(drain.to_string());
    }
    if let Some(mode) = mode {
        template["metadata"]["annotations"][annotations::MODE] = json!(mode);
    }
    let mut deadline = None;
    if let Some(servers) = &mut ground.servers {
        servers.write(namespace, &name, &mut template);
        deadline = Some(servers.deadline());
    }
    if let Some(chance) = &mut ground.ports {
        ports::write(chance, &mut template);
    }
    let kind =
        ground.chance.pick(&["Deployment", "Deployment", "Deployment", "StatefulSet", "StatefulSet", "DaemonSet"]);
    let named = Named { namespace, name: &name, uid: format!("uid-{name}"), replicas };
    match kind {
        "Deployment" => {
            let (mut deployment, set) = named.at_rest(template, ground.wall(0));
            if !ground.has_companions {
                // No second pod may run, so its pods do not go natively either.
                deployment["spec"]["strategy"] = json!({"type": "Recreate"});
            }
            deployment["spec"]["revisionHistoryLimit"] = json!(ground.chance.pick(&[10, 10, 2, 1]));
            deployment["spec"]["progressDeadlineSeconds"] = json!(ground.chance.between(15, 60));
            if let Some(deadline) = deadline {
                deployment["spec"]["progressDeadlineSeconds"] = json!(deadline);
            }
            ground.server.put_object(deployment);
            let set = ground.server.put_object(set).view;
            for index in 0..usize::try_from(replicas).unwrap_or_default() {
                let pod = pod_of_set(&set, u64::try_from(index).unwrap_or_default() + 100_000, ground.wall(0));
                let node = ground.chance.index(nodes.len());
                running(pod, node, nodes, ground);
            }
        }
        _ => on_delete(kind, &named, &template, nodes, ground),
    }
    Wanted { kind, namespace: namespace.to_owned(), name, image: 1, before: 1, hopeless: false }
}

/// A StatefulSet or a DaemonSet with its revision and pods, at rest.
fn on_delete(kind: &str, named: &Named<'_>, template: &serde_json::Value, nodes: &mut [Node], ground: &mut Ground) {
    let parsed = Template::new(template.clone());
    let strategy = match (kind, ground.chance.index(4)) {
        ("StatefulSet", 0) => json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}}),
        ("StatefulSet", 1) => json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        ("DaemonSet", 0) => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}),
        _ => json!({"type": "RollingUpdate"}),
    };
    let mut workload = named.with_strategy(kind, template, &strategy);
    let revision = ground.server.create_object(revisions::make(&workload, &parsed, 1)).view;
    workload["status"]["currentRevision"] = json!(revision.id.name);
    let owner = ground.server.put_object(workload).view.id.clone();
    let hash = if kind == "DaemonSet" {
        revision.labels[labels::CONTROLLER_REVISION_HASH].clone()
    } else {
        revision.id.name.clone()
    };
    let count = if kind == "DaemonSet" { nodes.len() } else { usize::try_from(named.replicas).unwrap_or_default() };
    for index in 0..count {
        let name = format!("{}-{index}", owner.name);
        let uid = format!("{}/{name}-0", owner.namespace);
        let mut pod = pod(&owner, Some(&parsed), (name, uid), ground.wall(0));
        pod.view.labels.insert(labels::CONTROLLER_REVISION_HASH.to_owned(), hash.clone());
        let node = if kind == "DaemonSet" {
            pod.view.labels.insert(labels::POD_TEMPLATE_GENERATION.to_owned(), "1".to_owned());
            index
        } else {
            if ground.ports.is_some() {
                pod.view.labels.insert(ports::POD_NAME.to_owned(), pod.view.id.name.clone());
            }
            ground.chance.index(nodes.len())
        };
        running(pod, node, nodes, ground);
    }
}

/// A pod that has been in service for a while.
fn running(mut pod: NodePod, node: usize, nodes: &mut [Node], ground: &mut Ground) {
    let wall = ground.wall(0);
    pod.view.node = Some(format!("n{node}"));
    pod.view.observed_generation = 1;
    for name in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
        set_condition(&mut pod.view, name, true, wall);
    }
    let condition = ConditionView::new(true, "InService", "", Some(whole_seconds(wall)));
    pod.view.conditions.insert(IN_SERVICE, condition);
    let container = &mut pod.view.containers[0];
    let repository = container.image.split(':').next().unwrap_or_default().to_owned();
    let (image, digest) = (container.image.clone(), format!("{repository}@sha256:1"));
    let state = kubelet::state(container);
    kubelet::started(state, "containerd://1-1".to_owned(), &image, digest, wall);
    (state.ready, state.restarts) = (true, 0);
    ground.server.images.pulled(ground.now, &format!("n{node}"), &pod.view.containers[0].image);
    nodes[node].kubelet.adopt(&pod.view.id.uid, &pod.view.containers[0].image);
    let Ground { server, checks, .. } = ground;
    server.put_pod(checks, pod);
}

/// One to three PodTransitionRules that overlap; sometimes none, then the implicit budget holds.
fn rules(namespace: &str, user: &User, ground: &mut Ground) {
    let count = ground.chance.pick(&[0, 1, 1, 1, 2, 2, 3]);
    for index in 0..count {
        let app = ground.chance.index(user.desired.len());
        let (label, value) = match ground.chance.index(4) {
            0 => ("all", "yes".to_owned()),
            1 => ("tier", ground.chance.pick(&["front", "back"]).to_owned()),
            _ => ("app", user.desired[app].name.clone()),
        };
        let mut rules = vec![rule("first", ground)];
        if ground.chance.happens(2_500) {
            rules.push(rule("second", ground));
        }
        ground.server.put_rule(RuleView {
            namespace: namespace.to_owned(),
            name: format!("rule{index}"),
            version: Version { uid: format!("uid-{namespace}-rule{index}"), resource_version: String::new() },
            generation: 1,
            spec: PodTransitionRuleSpec {
                selector: Some(LabelSelector {
                    match_labels: Some([(label.to_owned(), value)].into()),
                    ..LabelSelector::default()
                }),
                rules,
            },
            unreadable: None,
            status: None,
        });
    }
}

fn rule(name: &str, ground: &mut Ground) -> TransitionRule {
    let chance = &mut ground.chance;
    let percent = |of: i64| Some(IntOrString::String(format!("{of}%")));
    let (max, min) = match chance.index(10) {
        0..3 => (Some(IntOrString::Int(1)), None),
        3 => (Some(IntOrString::Int(2)), None),
        4..6 => (percent(chance.pick(&[10, 25, 34, 50])), None),
        6 => (None, Some(IntOrString::Int(chance.pick(&[1, 2])))),
        7 => (None, percent(chance.pick(&[25, 50, 67]))),
        8 => (Some(IntOrString::Int(2)), percent(50)),
        // Never lets an available pod go.
        _ => (Some(IntOrString::Int(chance.pick(&[0, 1, 1, 1]))), None),
    };
    let available = AvailableRule { max_unavailable_value: max, min_available_value: min, ..AvailableRule::default() };
    TransitionRule { name: name.to_owned(), available_policy: Some(available), ..TransitionRule::default() }
}

/// Whether some rule can keep an available pod of the workload from going for ever.
fn is_hopeless(wanted: &Wanted, ground: &Ground) -> bool {
    let Some(workload) = ground.server.object(wanted.kind, &wanted.namespace, &wanted.name) else { return false };
    let metadata = &workload.json["spec"]["template"]["metadata"]["labels"];
    let governs = |rule: &RuleView| {
        let selects = rule.spec.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
        rule.namespace == wanted.namespace
            && selects.into_iter().flatten().all(|(key, value)| metadata[key] == value.as_str())
    };
    // A minimum may be out of reach after a scale-down, so every minimum counts.
    ground.server.rules.values().filter(|rule| governs(rule)).flat_map(|rule| &rule.spec.rules).any(|rule| {
        rule.available_policy.as_ref().is_some_and(|policy| {
            policy.max_unavailable_value == Some(IntOrString::Int(0)) || policy.min_available_value.is_some()
        })
    })
}
