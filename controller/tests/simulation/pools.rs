//! Load balancers outside of the cluster: who may leave a pool, whose waits are over, and what is wanted of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hitless_api::names::IN_SERVICE;
use hitless_api::traffic_provider::TrafficProviderStatus;
use hitless_api::{Grant, TrafficProvider, WaitPoint};
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::mode::ServiceView;
use hitless_rollout::pools::{Backend, BackendState, DesiredPool, Owner, PoolKey, PoolReading, Stand};
use hitless_rollout::round::{Round, round};
use hitless_rollout::snapshot::Snapshot;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NAMESPACE};

fn key() -> PoolKey {
    PoolKey { provider: "edge".to_owned(), pool: "shop".to_owned() }
}

fn address(index: usize) -> SocketAddr {
    format!("10.1.0.{index}:8080").parse().unwrap()
}

/// Three pods of version 1 in the pool, and version 2 is wanted. They leave service to be operated, and one may go.
struct Story {
    cluster: Cluster,
    /// Annotation of the Service.
    pools: &'static str,
    reading: BTreeMap<SocketAddr, Backend>,
    readable: bool,
}

impl Story {
    fn new() -> Self {
        Self::with_budget(1)
    }

    fn with_budget(max_unavailable: i32) -> Self {
        let mut cluster = Cluster::new(3, max_unavailable);
        cluster.set_image(2);
        for (index, pod) in cluster.pods.values_mut().enumerate() {
            pod["metadata"]["annotations"]["hitless.dev/mode"] = json!("Leave");
            pod["status"]["podIP"] = json!(address(index).ip().to_string());
        }
        cluster.agent.features.push("waits".to_owned());
        let backend = Backend { state: BackendState::Serving, owner: Owner::Us, told: Some(Stand::In) };
        let reading = (0..3).map(|index| (address(index), backend)).collect();
        Self { cluster, pools: "edge/shop", reading, readable: true }
    }

    fn stands(mut self, index: usize, state: BackendState) -> Self {
        self.reading.get_mut(&address(index)).unwrap().state = state;
        self
    }

    fn snapshot(&self) -> Snapshot {
        let service = json!({"metadata": {"namespace": NAMESPACE, "name": "web", "uid": "uid-service", "annotations": {"hitless.dev/traffic": self.pools},
            "labels": {"kusionstack.io/control": "true"}}, "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
        let provider = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TrafficProvider", "metadata": {"name": "edge", "uid": "uid-edge"},
            "spec": {"haproxy": {"endpoint": "tcp://10.0.0.9:9999"}, "pools": [{"name": "shop", "namespaces": [NAMESPACE]}]}});
        let reading = if self.readable {
            PoolReading::Read(self.reading.clone())
        } else {
            PoolReading::Unreadable("no connection".to_owned())
        };
        Snapshot {
            epoch: 1,
            services: vec![Arc::new(ServiceView::from(&serde_json::from_value::<Service>(service).unwrap()))],
            providers: vec![Arc::new(serde_json::from_value::<TrafficProvider>(provider).unwrap().into())],
            pools: [(key(), reading)].into(),
            ..self.cluster.snapshot()
        }
    }

    fn round(&self) -> Round {
        round(&self.snapshot(), &mut GateCache::default(), self.cluster.now)
    }

    /// Carries rounds out until a pod is granted.
    fn granted(&mut self) -> Grant {
        for _ in 0..10 {
            for step in self.round().steps {
                self.cluster.write(&step.write);
            }
            if let Some(grant) = self.cluster.grants().pop() {
                return grant;
            }
        }
        panic!("nobody goes: {:?}", self.said());
    }

    /// The same, until nothing is written any more.
    fn settle(&mut self) {
        for _ in 0..10 {
            for step in self.round().steps {
                self.cluster.write(&step.write);
            }
        }
    }

    fn said(&self) -> Vec<&'static str> {
        let round = self.round();
        let said = round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref());
        said.map(hitless_rollout::round::WaitReason::reason).collect()
    }

    /// The granted pod, as JSON, and its place in the pool.
    fn pod(&mut self, grant: &Grant) -> (&mut Value, SocketAddr) {
        let pod = self.cluster.pods.values_mut().find(|pod| pod["metadata"]["uid"] == grant.pod.uid.as_str()).unwrap();
        let address = format!("{}:8080", pod["status"]["podIP"].as_str().unwrap()).parse().unwrap();
        (pod, address)
    }

    /// The agent takes the pod out of service, or puts it back.
    fn set_in_service(&mut self, grant: &Grant, is_in: bool) {
        let (pod, _) = self.pod(grant);
        let (status, message) = if is_in { ("True", grant.returned_mark()) } else { ("False", grant.id.clone()) };
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": status},
            {"type": IN_SERVICE, "status": status, "message": message, "reason": "Leaving"}]);
    }

    fn shows(&mut self, grant: &Grant, state: BackendState, told: Stand) {
        let (_, address) = self.pod(grant);
        self.reading.insert(address, Backend { state, owner: Owner::Us, told: Some(told) });
    }

    fn pending(&mut self) -> Vec<WaitPoint> {
        self.settle();
        let grants = self.cluster.grants();
        grants[0].waits.iter().filter(|wait| wait.is_pending()).map(|wait| wait.before.clone()).collect()
    }

    fn wanted(&self) -> BTreeMap<SocketAddr, Stand> {
        let pools: Vec<DesiredPool> = self.round().pools;
        assert_eq!(pools.len(), 1, "every pool of the provider");
        pools[0].backends.iter().map(|backend| (backend.address, backend.stand)).collect()
    }
}

#[test]
fn a_pod_is_operated_once_the_load_balancer_has_it_out_and_done_once_it_serves_there() {
    let mut story = Story::new();
    let grant = story.granted();
    assert!(grant.waits.iter().all(|wait| wait.name == "edge/shop"), "{:?}", grant.waits);
    let (both, last) = (vec![WaitPoint::Operate, WaitPoint::Done], vec![WaitPoint::Done]);
    assert_eq!(story.pending(), both);
    // It has not left: what the load balancer shows of it counts for nothing.
    story.shows(&grant, BackendState::Out, Stand::Out);
    assert_eq!(story.pending(), both);
    story.shows(&grant, BackendState::Serving, Stand::In);
    story.set_in_service(&grant, false);
    let (_, address) = story.pod(&grant);
    assert_eq!(story.wanted()[&address], Stand::Out);
    for state in [
        BackendState::Draining { sessions: Some(0) },
        BackendState::Changing,
        BackendState::Unhealthy,
        BackendState::Standby,
    ] {
        story.shows(&grant, state, Stand::Out);
        assert_eq!(story.pending(), both, "{state:?}");
        assert_eq!(story.wanted()[&address], Stand::Out, "until it is out: {state:?}");
    }
    story.shows(&grant, BackendState::NotRegistered, Stand::In);
    assert_eq!(story.pending(), both, "whoever read that was about to register it");
    story.readable = false;
    assert_eq!(story.pending(), both);
    assert_eq!(story.cluster.grants()[0].waits[0].message, "no connection", "people are told what is missing");
    story.readable = true;
    story.shows(&grant, BackendState::Out, Stand::Out);
    assert_eq!(story.pending(), last);
    assert_eq!(story.pending(), last, "it stays so");
    story.set_in_service(&grant, true);
    assert_eq!(story.wanted()[&address], Stand::In);
    assert_eq!(story.pending(), last, "the load balancer has it out still");
    story.shows(&grant, BackendState::Serving, Stand::In);
    assert_eq!(story.pending(), []);
}

#[test]
fn nobody_leaves_a_pool_that_would_miss_it_or_that_can_not_be_relied_on() {
    let mut away = Story::new();
    away.readable = false;
    away.settle();
    assert_eq!(away.said()[0], "TrafficUnreadable", "the others are kept by the rules");
    let events: Vec<&str> = away.round().events.iter().map(|note| note.reason).collect();
    assert!(events.contains(&"TrafficUnreadable"), "{events:?}");
    assert_eq!(away.wanted().len(), 3, "what is registered stays");

    let mut pending = Story::new().stands(0, BackendState::Out);
    pending.settle();
    let said = pending.said();
    assert!(!said.contains(&"TrafficLast"), "{said:?}");

    // Only one of them serves: those that do not may go.
    let mut last = Story::with_budget(3);
    for (index, pod) in last.cluster.pods.values_mut().enumerate().skip(1) {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        last.reading.get_mut(&address(index)).unwrap().state = BackendState::Out;
    }
    last.settle();
    assert!(last.said().contains(&"TrafficLast"), "{:?}", last.said());

    let mut theirs = Story::new();
    theirs.reading.values_mut().for_each(|backend| backend.owner = Owner::Others);
    theirs.settle();
    assert!(theirs.said().contains(&"TrafficNotOurs"), "{:?}", theirs.said());

    let mut old = Story::new();
    old.cluster.agent.features.retain(|feature| feature != "waits");
    let granted = old.granted();
    assert!(!granted.waits.is_empty(), "an agent that has said nothing refuses what it does not know");
}

#[test]
fn a_service_that_names_a_pool_and_does_not_get_it_loses_nothing() {
    let mut story = Story::new();
    story.pools = "edge/bank";
    story.settle();
    assert!(story.said().contains(&"TrafficInvalid"), "{:?}", story.said());
    assert_eq!(story.wanted().into_values().collect::<Vec<_>>(), [Stand::In; 3], "what is registered follows its pods");
    let note = story.round().events.into_iter().find(|note| note.reason == "TrafficInvalid").unwrap();
    assert_eq!((note.regarding.name.as_deref(), note.regarding.kind.as_deref()), (Some("web"), Some("Service")));
    // Nobody's server goes; one whose pod is gone does.
    let gone: SocketAddr = "10.1.0.99:8080".parse().unwrap();
    for owner in [Owner::Us, Owner::Others] {
        story.reading.insert(gone, Backend { state: BackendState::Serving, owner, told: None });
        assert_eq!(story.wanted().get(&gone).copied(), (owner == Owner::Us).then_some(Stand::Gone));
    }
}

#[test]
fn pods_are_in_and_out_as_they_are_ready() {
    let mut story = Story::new();
    assert_eq!(story.wanted().into_values().collect::<Vec<_>>(), [Stand::In; 3]);
    let mut pods = story.cluster.pods.values_mut();
    pods.next().unwrap()["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    pods.next().unwrap()["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:00:00Z");
    drop(pods);
    assert_eq!(story.wanted().into_values().collect::<Vec<_>>(), [Stand::Out, Stand::Gone, Stand::In]);
}

/// A new leader may have a copy of the pod from before it left, and the agent one of a wait that is over.
#[test]
fn who_has_an_old_copy_of_a_pod_brings_no_server_back_that_is_let_go() {
    let mut story = Story::new();
    let grant = story.granted();
    let (_, address) = story.pod(&grant);
    for state in [BackendState::Draining { sessions: Some(1) }, BackendState::Out] {
        story.shows(&grant, state, Stand::Out);
        assert_eq!(story.wanted().get(&address), None, "it stays as it is: {state:?}");
    }
    story.readable = false;
    assert_eq!(story.wanted().get(&address), None, "it may be let go");
    story.readable = true;
    story.shows(&grant, BackendState::Serving, Stand::In);
    assert_eq!(story.wanted()[&address], Stand::In, "nobody has let it go");
    story.shows(&grant, BackendState::NotRegistered, Stand::In);
    assert_eq!(story.wanted()[&address], Stand::In, "a load balancer that was restarted has no server");
}

#[test]
fn the_state_of_a_pool_is_reported_when_it_changes() {
    let mut story = Story::new();
    let status = |story: &Story| {
        let steps = story.round().steps;
        let write = steps.into_iter().map(|step| step.write).find(|write| write.verb == "provider-status")?;
        write.content::<TrafficProviderStatus>("/status")
    };
    let read = status(&story).unwrap();
    assert_eq!(serde_json::to_value(read.pools[0].state).unwrap(), "Read");
    story.readable = false;
    let away = status(&story).unwrap();
    assert_eq!(away.pools[0].message, "no connection");
}
