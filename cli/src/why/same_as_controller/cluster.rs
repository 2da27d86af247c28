//! Clusters in any state: Deployment `web` in mid-rollout, and around it whatever may be in the way of its pods.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use hitless_api::pod::PodView;
use hitless_api::{Grant, PodRef, TransitionLedgerSpec};
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::prefetch::{PrefetchState, PrefetchView, Pull};
use hitless_rollout::round::round;
use hitless_rollout::round::write::ledger_of;
use hitless_rollout::snapshot::{AgentState, LedgerView, NodePressure, NodeView, Version};
use hitless_workloads::Write;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::plan::world::World;
use crate::scene::{
    pod, rollout, view, with_annotation, with_budget, with_drain_policy, with_gap, with_grant, with_rule, with_service,
};
use crate::snapshot::Snapshot;

pub(super) fn now() -> Timestamp {
    "2026-01-01T00:00:30Z".parse().unwrap()
}

/// What a pod is like.
#[derive(Clone, Copy, Debug)]
pub(super) enum Quirk {
    Plain,
    UpToDate,
    NotReady,
    Restart,
    RestartOfNobody,
    BadDrain,
    Ungated,
    Hooks,
    LeaveWished,
    HoldWished,
    TooLarge,
    HostNetwork,
    Mirror,
    OfJob,
    Terminating,
    Unscheduled,
}

/// What has happened to the pods before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Past {
    Nothing,
    /// The round's writes to ledgers were carried out.
    Reserved,
    /// The same but for the cluster's ledger.
    HalfReserved,
    /// All writes of one round were carried out.
    Granted,
    /// And of the next one.
    Opened,
    /// The first pod was rolled back.
    RolledBack,
    /// The first pod's operation was refused for a moment.
    Expired,
    /// A pod that is not listed has a reservation.
    Unseen,
}

#[derive(Clone, Debug)]
pub(super) struct Draw {
    pods: Vec<Quirk>,
    past: Past,
    rule: Option<u32>,
    cluster_budget: Option<u32>,
    /// Whether a Service selects the pods, and is open for some other pod.
    service: Option<bool>,
    policy: Option<&'static str>,
    gap: Option<u32>,
    /// Whether the node is listed, and its agent Ready; `None`: nobody knows.
    node: Option<bool>,
    agent: Option<bool>,
    features: Option<Vec<&'static str>>,
    epoch: i64,
    full_node: bool,
    full_ledger: bool,
    images: Images,
}

/// What is known of the new image on the node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Images {
    /// Nobody has looked, and it is taken to be there.
    Unseen,
    /// The node does not have it.
    Absent,
    /// The same, and nothing is brought there.
    FullDisk,
    Pulling,
    Failed,
    /// It is there, and the owner wants no more for now.
    Only,
}

fn quirk() -> impl Strategy<Value = Quirk> {
    use Quirk::*;
    let rare = prop::sample::select(vec![
        UpToDate,
        NotReady,
        Restart,
        RestartOfNobody,
        BadDrain,
        Ungated,
        Hooks,
        LeaveWished,
        HoldWished,
        TooLarge,
        HostNetwork,
        Mirror,
        OfJob,
        Terminating,
        Unscheduled,
    ]);
    prop_oneof![2 => Just(Plain), 3 => rare]
}

fn past() -> impl Strategy<Value = Past> {
    use Past::*;
    prop_oneof![
        2 => Just(Nothing),
        3 => prop::sample::select(vec![Reserved, HalfReserved, Granted, Opened, RolledBack, Expired, Unseen]),
    ]
}

pub(super) fn draw() -> impl Strategy<Value = Draw> {
    let known = || prop_oneof![3 => Just(Some(true)), 1 => Just(Some(false)), 2 => Just(None)];
    let features = prop::sample::select(vec![None, Some(vec!["Leave"]), Some(vec!["Leave", "Hold"])]);
    let around = (
        prop::option::of(0u32..4),
        prop::option::weighted(0.3, 0u32..4),
        prop::option::of(prop::bool::weighted(0.3)),
        prop::option::weighted(0.3, prop::sample::select(vec!["Leave", "Hold", "Auto"])),
        prop::option::of(prop::sample::select(vec![300u32, 4000])),
    );
    let nodes = (known(), known(), features, 0i64..3, prop::bool::weighted(0.03), prop::bool::weighted(0.03));
    let images = prop_oneof![
        6 => Just(Images::Unseen),
        3 => prop::sample::select(vec![Images::Absent, Images::FullDisk, Images::Pulling, Images::Failed, Images::Only]),
    ];
    let all = (prop::collection::vec(quirk(), 1..5), past(), around, nodes, images);
    all.prop_map(|(pods, past, around, nodes, images)| {
        let (rule, cluster_budget, service, policy, gap) = around;
        let (node, agent, features, epoch, full_node, full_ledger) = nodes;
        Draw {
            pods,
            past,
            rule,
            cluster_budget,
            service,
            policy,
            gap,
            node,
            agent,
            features,
            epoch,
            full_node,
            full_ledger,
            images,
        }
    })
}

fn shape(name: &str, quirk: Quirk) -> Value {
    let mut pod = pod(name, "web:v1");
    let mut annotate = |annotations: Value| pod["metadata"]["annotations"] = annotations;
    match quirk {
        Quirk::Plain => {}
        Quirk::BadDrain => annotate(json!({"hitless.dev/drain": r#"{"deadline": 3}"#})),
        Quirk::Hooks => annotate(json!({"hitless.dev/hooks":
            r#"[{"name": "ask", "when": "BeforeDrain", "http": {"port": 80, "path": "/"}}]"#})),
        Quirk::LeaveWished => annotate(json!({"hitless.dev/mode": "Leave"})),
        Quirk::HoldWished => annotate(json!({"hitless.dev/mode": "Hold"})),
        Quirk::Mirror => annotate(json!({"kubernetes.io/config.mirror": "x"})),
        Quirk::Ungated => {
            annotate(json!({"hitless.dev/mode": "Leave"}));
            pod["spec"]["readinessGates"] = json!([]);
        }
        Quirk::Restart | Quirk::RestartOfNobody | Quirk::OfJob => {
            annotate(json!({"hitless.dev/restart": "token"}));
            pod["spec"]["containers"][0]["image"] = json!("web:v2");
            if !matches!(quirk, Quirk::Restart) {
                let owner =
                    json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": true}]);
                let status = json!([{"name": "web", "image": "", "imageID": "r.io/web@sha256:1", "ready": true,
                    "restartCount": 0}]);
                pod["spec"]["containers"][0]["image"] = json!("r.io/web:v2");
                pod["metadata"]["ownerReferences"] = if matches!(quirk, Quirk::OfJob) { owner } else { json!([]) };
                pod["status"]["containerStatuses"] = status;
            }
        }
        Quirk::UpToDate => pod["spec"]["containers"][0]["image"] = json!("web:v2"),
        Quirk::NotReady => pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]),
        Quirk::TooLarge => annotate(json!({"hitless.dev/too-large": "20000"})),
        Quirk::HostNetwork => pod["spec"]["hostNetwork"] = json!(true),
        Quirk::Terminating => pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        Quirk::Unscheduled => pod["spec"]["nodeName"] = Value::Null,
    }
    pod
}

/// The snapshot, and the names of the pods in it that are of interest.
pub(super) fn snapshot(draw: &Draw) -> (Snapshot, Vec<String>) {
    let names: Vec<String> = (0..draw.pods.len()).map(|number| format!("web-{number}")).collect();
    let pods: Vec<Value> = names.iter().zip(&draw.pods).map(|(name, quirk)| shape(name, *quirk)).collect();
    let mut snapshot = rollout(&pods);
    if let Some(most) = draw.rule {
        snapshot = with_rule(snapshot, most);
    }
    if let Some(most) = draw.cluster_budget {
        let spec = json!({"selector": {}, "scope": "Cluster", "maxUnavailable": most});
        snapshot = with_budget(snapshot, "all", "hitless-system", &spec);
    }
    if let Some(is_open) = draw.service {
        snapshot = with_service(snapshot, &json!({"port": 80}));
        let service = Arc::make_mut(&mut snapshot.cluster.services[0]);
        (service.open, service.held_by) = (is_open, is_open.then(|| "uid-other.0123,false".to_owned()));
    }
    if let Some(mode) = draw.policy {
        snapshot = with_drain_policy(snapshot, "own", "team", &json!({"selector": {}, "mode": mode}));
    }
    if let Some(gap) = draw.gap {
        snapshot = with_gap(snapshot, gap);
    }
    nodes(&mut snapshot, draw);
    images(&mut snapshot, draw.images);
    if draw.full_node || draw.full_ledger {
        snapshot.cluster.pods.extend(fillers().iter().cloned());
    }
    if draw.full_node {
        full_node(&mut snapshot);
    }
    happened(&mut snapshot, draw);
    if draw.full_ledger {
        full_ledger(&mut snapshot);
    }
    (snapshot, names)
}

fn nodes(snapshot: &mut Snapshot, draw: &Draw) {
    let cluster = &mut snapshot.cluster;
    (cluster.unknown.nodes, cluster.unknown.agents) = (draw.node.is_none(), draw.agent.is_none());
    if draw.node == Some(true) {
        let node = NodeView { name: "n1".into(), uid: "n".into(), ..NodeView::default() };
        cluster.nodes.insert("n1".to_owned(), Arc::new(node));
    }
    let state = if draw.agent == Some(true) { AgentState::Ready } else { AgentState::MissingSince(now()) };
    cluster.agents.insert("n1".to_owned(), state);
    if let Some(features) = &draw.features {
        grants(snapshot, &[]);
        let node = Arc::make_mut(snapshot.cluster.node_transitions.get_mut("n1").unwrap());
        let agent = json!({"version": "1", "bootID": "b", "features": features});
        (node.agent, node.spec.epoch) = (serde_json::from_value(agent).unwrap(), draw.epoch);
    }
}

fn images(snapshot: &mut Snapshot, images: Images) {
    snapshot.cluster.unknown.images = !matches!(images, Images::Absent | Images::FullDisk);
    let state = match images {
        Images::Unseen | Images::Absent => return,
        Images::FullDisk => {
            if let Some(node) = snapshot.cluster.nodes.get_mut("n1") {
                let pressure = NodePressure { condition: "DiskPressure", since: Some(now()) };
                Arc::make_mut(node).pressure = Some(pressure);
            }
            return;
        }
        Images::Only => {
            *snapshot = with_annotation(std::mem::take(snapshot), "hitless.dev/prefetch", "only");
            return;
        }
        Images::Pulling => PrefetchState::Pulling,
        Images::Failed => PrefetchState::Failed { reason: "ErrImagePull".into(), message: "not found".into() },
    };
    let pulls = snapshot.cluster.pods.iter().filter_map(|pod| Pull::of(pod, pod.container("web")?, "web:v2"));
    let view = |pull: Pull| PrefetchView {
        pod: PodRef { namespace: pull.namespace.clone(), name: format!("{}-1", pull.key()), uid: pull.key() },
        key: pull.key(),
        attempt: 1,
        node: pull.node,
        image: pull.image,
        rewritten: None,
        given: None,
        created: Some(now()),
        deleting: false,
        state: state.clone(),
    };
    snapshot.cluster.prefetches = pulls.map(view).map(Arc::new).collect();
}

/// A NodeTransition of node `n1` with these grants.
fn grants(snapshot: &mut Snapshot, grants: &[Grant]) {
    if !snapshot.cluster.node_transitions.contains_key("n1") {
        *snapshot = with_grant(std::mem::take(snapshot), "web-0", &Value::Null);
        let node = Arc::make_mut(snapshot.cluster.node_transitions.get_mut("n1").unwrap());
        node.spec.grants.clear();
    }
    let node = Arc::make_mut(snapshot.cluster.node_transitions.get_mut("n1").unwrap());
    node.spec.grants.extend(grants.iter().cloned());
}

fn happened(snapshot: &mut Snapshot, draw: &Draw) {
    match draw.past {
        Past::Nothing => {}
        Past::Reserved => carry_out(snapshot, |write| ledger_of(write).is_some(), 1),
        Past::HalfReserved => {
            carry_out(snapshot, |write| ledger_of(write).is_some_and(|namespace| !namespace.is_empty()), 1);
        }
        Past::Granted => carry_out(snapshot, |_| true, 1),
        Past::Opened => carry_out(snapshot, |_| true, 2),
        Past::RolledBack | Past::Expired => {
            let (outcome, reason) = if matches!(draw.past, Past::Expired) {
                ("Refused", "Expired")
            } else {
                ("RolledBack", "NotReadyInTime")
            };
            let ended = json!({"id": "g", "phase": "Returning", "since": "2026-01-01T00:00:20.000000Z",
                "result": {"outcome": outcome, "reason": reason}});
            let known = snapshot.cluster.node_transitions.remove("n1");
            *snapshot = with_grant(std::mem::take(snapshot), "web-0", &ended);
            if let (Some(known), Some(node)) = (known, snapshot.cluster.node_transitions.get_mut("n1")) {
                let node = Arc::make_mut(node);
                node.agent.clone_from(&known.agent);
                node.spec.grants.extend(known.spec.grants.iter().cloned());
            }
        }
        Past::Unseen => {
            let mut spec = TransitionLedgerSpec::default();
            spec.reservations.insert("uid-unlisted".to_owned(), reservation("unlisted"));
            ledger(snapshot, spec);
        }
    }
}

/// Carries out what rounds decide, so that ids and times are those of the controller.
fn carry_out(snapshot: &mut Snapshot, which: impl Fn(&Write) -> bool, rounds: usize) {
    let mut world = World::new(snapshot.observed(now()), false);
    for _ in 0..rounds {
        let mut decided = round(&world.cluster, &mut GateCache::new(snapshot.settings.clone()), now());
        decided.steps.retain(|step| which(&step.write));
        world.write(&decided);
    }
    snapshot.cluster = world.cluster;
}

fn reservation(pod: &str) -> hitless_api::Reservation {
    let place = json!({"id": format!("uid-{pod}.0"), "pod": pod, "node": "n1", "images": {}, "since": "2026-01-01T00:00:00.000000Z"});
    serde_json::from_value(place).unwrap()
}

fn ledger(snapshot: &mut Snapshot, spec: TransitionLedgerSpec) {
    let version = Version { uid: "ledger".into(), resource_version: "1".into() };
    let view = LedgerView { namespace: "team".into(), version, spec };
    snapshot.cluster.ledgers.insert("team".to_owned(), Arc::new(view));
}

/// Pods that have finished for good: they are known and count nowhere.
fn fillers() -> &'static [Arc<PodView>] {
    static FILLERS: OnceLock<Vec<Arc<PodView>>> = OnceLock::new();
    FILLERS.get_or_init(|| {
        let one = view(&pod("filler", "filler:v1"));
        let filler = |number: usize| {
            let mut filler = PodView { finished: true, owner: None, labels: BTreeMap::new().into(), ..one.clone() };
            (filler.id.name, filler.id.uid) = (format!("filler-{number}"), format!("uid-filler-{number}"));
            Arc::new(filler)
        };
        (0..TransitionLedgerSpec::MAX_RESERVATIONS).map(filler).collect()
    })
}

fn full_node(snapshot: &mut Snapshot) {
    let one = with_grant(rollout(&[]), "filler", &Value::Null);
    let one = &one.cluster.node_transitions["n1"].spec.grants[0];
    let of =
        |filler: &Arc<PodView>| Grant { id: format!("{}.0", filler.id.uid), pod: filler.id.clone(), ..one.clone() };
    let all: Vec<Grant> = fillers().iter().take(hitless_api::NodeTransitionSpec::MAX_GRANTS).map(of).collect();
    grants(snapshot, &all);
}

fn full_ledger(snapshot: &mut Snapshot) {
    let mut spec = snapshot.cluster.ledgers.get("team").map(|known| known.spec.clone()).unwrap_or_default();
    let missing = TransitionLedgerSpec::MAX_RESERVATIONS.saturating_sub(spec.reservations.len());
    for filler in fillers().iter().take(missing) {
        spec.reservations.insert(filler.id.uid.clone(), reservation(&filler.id.name));
    }
    ledger(snapshot, spec);
}
