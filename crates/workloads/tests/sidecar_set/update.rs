//! Other images of SidecarSets' containers, in pods that run.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use hitless_api::GrantOp;
use hitless_api::pod::PodView;
use hitless_workloads::{
    DesiredOperation, Object, OperationFailure, OperationFailures, REQUESTS, RequestContext, World, Write, registry,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A SidecarSet of which pods have had `old` before, and new ones get `new`.
struct Fleet {
    set: Value,
    sets: Value,
    pods: Vec<Arc<PodView>>,
    operating: BTreeSet<String>,
}

impl Fleet {
    fn new(strategy: &Value) -> Self {
        let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "updateStrategy": strategy,
            "containers": [{"name": "log", "image": "r.io/log:v2"}],
            "initContainers": [{"name": "proxy", "image": "r.io/proxy:v2", "restartPolicy": "Always"}, {"name": "setup", "image": "r.io/setup:v2"}]});
        let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "log", "uid": "uid-log",
            "resourceVersion": "1", "generation": 2}, "spec": spec});
        let entry = json!({"name": "log", "uid": "uid-log", "found": "yes", "generation": 2, "selector": spec["selector"], "hash": "new.same",
            "containers": spec["containers"], "initContainers": spec["initContainers"], "podHash": "{}", "podHashWithoutImage": "{}"});
        Self { set, sets: json!([entry]), pods: Vec::new(), operating: BTreeSet::new() }
    }

    /// So many pods of that version.
    fn with(mut self, count: usize, version: &str, is_ready: bool) -> Self {
        for _ in 0..count {
            let name = format!("p{:04}", self.pods.len());
            self.pods.push(pod(&name, version, is_ready));
        }
        self
    }

    fn objects(&self) -> Vec<Arc<Object>> {
        let injection = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "SidecarInjection", "metadata": {"name": "sidecarsets",
            "uid": "injection", "resourceVersion": "1"}, "spec": {"sets": self.sets}});
        [self.set.clone(), injection].map(|object| Arc::new(registry::read(object).unwrap().unwrap())).into()
    }

    fn ask<T>(&self, ask: impl FnOnce(&RequestContext<'_, '_>, &World<'_>) -> T) -> T {
        let objects = self.objects();
        let mut world = World::new(&objects, &self.pods, self.operating.clone());
        world.now = Some(now());
        let granted = HashMap::new();
        ask(&RequestContext::new(&self.pods, &world, &|_| None, &granted, now()), &world)
    }

    fn desired(&self) -> Vec<DesiredOperation> {
        self.ask(|context, _| REQUESTS.iter().flat_map(|kind| kind.desired(context)).collect())
    }

    fn reports(&self, failures: &OperationFailures) -> Vec<Write> {
        self.ask(|context, _| REQUESTS.iter().flat_map(|kind| kind.report(context, failures).writes).collect())
    }

    fn condition(&self) -> (String, String, String) {
        let status: Value = self.ask(|_, world| {
            let mut writes = world.plans().into_iter().flat_map(|plan| plan.writes);
            writes.find(|write| write.verb == "report-status").unwrap().content("/status").unwrap()
        });
        let conditions = status["conditions"].as_array().unwrap();
        let condition = conditions.iter().find(|each| each["type"] == "Updated").unwrap();
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }
}

fn pod(name: &str, version: &str, is_ready: bool) -> Arc<PodView> {
    let ready = if is_ready { "True" } else { "False" };
    let pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
            "annotations": {"hitless.dev/sidecarsets": format!("a=x.y,log={version}")}},
        "spec": {"containers": [{"name": "web", "image": "r.io/web:v1"}, {"name": "log", "image": "r.io/log:v1"}],
            "initContainers": [{"name": "setup", "image": "r.io/setup:v1"}, {"name": "proxy", "image": "r.io/proxy:v1", "restartPolicy": "Always"}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}});
    Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
}

const OLD: &str = "old.same";
const NEW: &str = "new.same";

/// Upstream's own (`pkg/controller/sidecarset/sidecarset_strategy_test.go`): pods, updated, updated and ready, strategy, how many go next.
#[test]
fn each_vector_of_upstream_gives_its_number() {
    for (pods, updated, ready, strategy, next) in [
        (100, 30, 26, json!({"maxUnavailable": 10}), 6),
        (1000, 300, 260, json!({"maxUnavailable": "10%"}), 60),
        (1000, 300, 250, json!({"maxUnavailable": "5%"}), 0),
        (100, 30, 27, json!({"maxUnavailable": 100}), 70),
        (1000, 800, 760, json!({"partition": 180, "maxUnavailable": 100}), 20),
        (1000, 800, 760, json!({"partition": 100, "maxUnavailable": 100}), 60),
        (1000, 800, 760, json!({"partition": "18%", "maxUnavailable": 100}), 20),
        (1000, 800, 760, json!({"partition": "10%", "maxUnavailable": 100}), 60),
        (5, 0, 0, json!({"maxUnavailable": "5%"}), 1),
        (5, 0, 0, json!({"partition": "99%", "maxUnavailable": 5}), 1),
        (5, 0, 0, json!({"partition": "1%", "maxUnavailable": 5}), 4),
    ] {
        let fleet = Fleet::new(&strategy).with(pods - updated, OLD, true).with(ready, NEW, true).with(
            updated - ready,
            NEW,
            false,
        );
        assert_eq!(fleet.desired().len(), next, "{pods} pods, {updated} updated, {ready} of them ready: {strategy}");
    }
    // What is not an image reaches no pod that runs.
    assert!(Fleet::new(&json!({"maxUnavailable": 100})).with(100, "old.other", true).desired().is_empty());
}

#[test]
fn images_go_in_place_one_pod_at_a_time_and_new_pods_count() {
    let mut fleet = Fleet::new(&json!({})).with(3, OLD, true);
    let desired = fleet.desired();
    assert_eq!(desired.len(), 1, "maxUnavailable is 1");
    let operation = &desired[0].intent.as_ref().unwrap().operation;
    assert_eq!(operation.op, GrantOp::Update);
    let marks = &operation.annotations["hitless.dev/sidecarsets"];
    assert_eq!((marks.from.as_deref(), marks.to.as_deref()), (Some("a=x.y,log=old.same"), Some("a=x.y,log=new.same")));
    assert_eq!(fleet.condition().1, "InProgress");
    // The one that is being operated goes on, and no other begins.
    fleet.operating = [desired[0].pod.uid.clone()].into();
    assert_eq!(fleet.desired().iter().map(|wanted| &wanted.pod).collect::<Vec<_>>(), [&desired[0].pod]);
    // Those that serve nobody go first, and take no place.
    let broken = Fleet::new(&json!({})).with(2, OLD, true).with(2, OLD, false);
    assert_eq!(
        broken.desired().iter().map(|wanted| wanted.pod.name.as_str()).collect::<Vec<_>>(),
        ["p0002", "p0003", "p0000"]
    );
    let done = Fleet::new(&json!({})).with(3, NEW, true);
    assert_eq!((done.desired().len(), done.condition().0.as_str()), (0, "True"));
}

#[test]
fn native_sidecars_are_updated_and_what_else_has_changed_needs_new_pods() {
    let fleet = Fleet::new(&json!({})).with(1, OLD, true).with(2, "old.other", true);
    let desired = fleet.desired();
    let containers = &desired[0].intent.as_ref().unwrap().operation.containers;
    let images: Vec<(&str, &str)> =
        containers.iter().map(|(name, change)| (name.as_str(), change.to.as_str())).collect();
    assert_eq!(images, [("log", "r.io/log:v2"), ("proxy", "r.io/proxy:v2")], "setup has run");
    assert_eq!(desired.len(), 1);
    let stuck = Fleet::new(&json!({})).with(1, NEW, true).with(2, "old.other", true);
    let (status, reason, message) = stuck.condition();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NewPodsNeeded"));
    assert!(message.starts_with("2 of 3 pods keep what they have"), "{message}");
}

#[test]
fn nothing_goes_where_its_owner_holds_it_or_the_api_server_has_not_accepted_it() {
    for (strategy, reason) in [(json!({"paused": true}), "UpdatePaused"), (json!({"type": "NotUpdate"}), "NotUpdate")] {
        let fleet = Fleet::new(&strategy).with(3, OLD, true);
        assert_eq!((fleet.desired().len(), fleet.condition().1.as_str()), (0, reason));
    }
    let selected = Fleet::new(&json!({"selector": {"matchLabels": {"canary": "yes"}}})).with(3, OLD, true);
    assert!(selected.desired().is_empty());
    let mut pending = Fleet::new(&json!({})).with(3, OLD, true);
    pending.set["metadata"]["generation"] = json!(3);
    assert!(pending.desired().is_empty());
}

#[test]
fn a_version_that_one_pod_has_shown_to_be_bad_reaches_no_other() {
    let mut fleet = Fleet::new(&json!({})).with(3, OLD, true);
    let intent = fleet.desired()[0].intent.clone().unwrap();
    let token = intent.operation.annotations["hitless.dev/restarted"].to.clone().unwrap();
    let failure = OperationFailure { reason: "ImagePullBackOff".to_owned(), text: "no such image".to_owned() };
    let failed = OperationFailures {
        failed: [((intent.pod.uid.clone(), token), failure)].into(),
        ..OperationFailures::default()
    };
    let writes = fleet.reports(&failed);
    assert_eq!(writes.iter().map(|write| write.verb).collect::<Vec<_>>(), ["halt-sidecars"]);
    let halted: Value = writes[0].content("/metadata/annotations/hitless.dev~1halted").unwrap();
    fleet.set["metadata"]["annotations"] = json!({"hitless.dev/halted": halted});
    assert!(fleet.desired().is_empty() && fleet.reports(&failed).is_empty());
    let (_, reason, message) = fleet.condition();
    assert!(
        reason == "SidecarUpdateHalted" && message.contains("p0000") && message.contains("no such image"),
        "{message}"
    );
    // Another image goes on, and the mark goes.
    fleet.sets[0]["hash"] = json!("newer.same");
    assert_eq!(fleet.desired().len(), 1);
    let forgets = fleet
        .ask(|_, world| world.plans().iter().any(|plan| plan.writes.iter().any(|write| write.verb == "forget-halt")));
    assert!(forgets);
}
