//! What operators see of PodOpsLifecycle in a pod's labels, write by write.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeSet;

use hitless_api::lifecycle::{self, PROTECTION, SERVICE_AVAILABLE, SERVICE_READY, Step, permission};
use hitless_api::pod::PodView;
use hitless_api::{Grant, PostCheck};
use hitless_workloads::lifecycle::{OperationContext, next};
use hitless_workloads::{Request, foreign};
use hitless_world::carry_out;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A pod of the API server's, and what the controller knows.
struct Scene {
    pod: Value,
    grant: Option<Grant>,
    in_colla_set: bool,
    /// An operation of ours waits for those who protect it.
    leaves: bool,
    now: Timestamp,
    version: u64,
}

impl Scene {
    /// A pod that serves, and takes part.
    fn new() -> Self {
        let condition = |name: &str| json!({"type": name, "status": "True"});
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "finalizers": [],
                "labels": {"app": "web", lifecycle::CONTROL: "true", SERVICE_AVAILABLE: "1"}},
            "spec": {"containers": [], "readinessGates": [{"conditionType": "hitless.dev/InService"}, {"conditionType": SERVICE_READY}]},
            "status": {"conditions": [condition("Ready"), condition("hitless.dev/InService"), condition(SERVICE_READY)]},
        });
        Self {
            pod,
            grant: None,
            in_colla_set: false,
            leaves: false,
            now: "2026-11-24T00:00:00Z".parse().unwrap(),
            version: 1,
        }
    }

    fn view(&self) -> PodView {
        PodView::from(&serde_json::from_value::<Pod>(self.pod.clone()).unwrap())
    }

    fn label(&mut self, key: &str, value: &str) {
        self.pod["metadata"]["labels"][key] = json!(value);
    }

    fn unlabel(&mut self, key: &str) {
        self.pod["metadata"]["labels"].as_object_mut().unwrap().remove(key);
    }

    fn begin(&mut self, id: &str, kind: &str) {
        self.label(&Step::Operating.key(id), "7");
        self.label(&Step::OperationType.key(id), kind);
    }

    fn finish(&mut self, id: &str) {
        self.unlabel(&Step::Operating.key(id));
    }

    fn condition(&mut self, name: &str, status: &str, reason: &str, message: &str) {
        let conditions = self.pod["status"]["conditions"].as_array_mut().unwrap();
        let condition = conditions.iter_mut().find(|each| each["type"] == name).unwrap();
        *condition = json!({"type": name, "status": status, "reason": reason, "message": message});
    }

    fn is(&self, condition: &str) -> bool {
        self.view().is(condition)
    }

    fn grant(&mut self, post_check: Option<PostCheck>) {
        let grant = json!({"id": "u.1", "epoch": 1, "pod": {"namespace": "shop", "name": "web", "uid": "u"}, "op": "Foreign",
            "mode": "Leave", "containers": {}, "before": {}, "drain": {}, "verify": {}, "granted": "2026-11-24T00:00:00.000000Z",
            "ttlSeconds": 60});
        self.grant = Some(Grant { post_check, ..serde_json::from_value(grant).unwrap() });
    }

    fn drain(&mut self) {
        self.condition("Ready", "False", "", "");
        self.condition("hitless.dev/InService", "False", "Drained", "u.1");
    }

    /// The agent has put it back.
    fn restore(&mut self) {
        self.condition("hitless.dev/InService", "True", "InService", "");
        self.grant = None;
    }

    /// The kubelet follows.
    fn kubelet(&mut self) {
        let ready = self.is("hitless.dev/InService") && self.is(SERVICE_READY);
        self.condition("Ready", if ready { "True" } else { "False" }, "", "");
    }

    /// The next write, carried out; its verb.
    fn step(&mut self) -> Option<&'static str> {
        let known =
            OperationContext { grant: self.grant.as_ref(), in_colla_set: self.in_colla_set, leaves: self.leaves };
        let write = next(&self.view(), known, |by| by != "Service/shop/gone", self.now)?;
        self.now += SignedDuration::from_secs(1);
        if matches!(write.request, Request::Delete(_)) {
            return Some(write.verb);
        }
        self.version += 1;
        let stored = carry_out(&write, Some(&self.pod), &self.version.to_string(), "2026-11-24T00:00:00Z");
        self.pod = stored.unwrap().unwrap();
        Some(write.verb)
    }

    /// All writes until there is nothing to do.
    fn settle(&mut self) -> Vec<&'static str> {
        let verbs: Vec<_> = std::iter::from_fn(|| self.step()).take(20).collect();
        assert!(verbs.len() < 20, "never at rest: {verbs:?}");
        verbs
    }

    /// The labels of PodOpsLifecycle, without the domain.
    fn labels(&self) -> BTreeSet<String> {
        let all = self.view().labels;
        let own = all.keys().filter(|key| key.contains("podopslifecycle") || *key == lifecycle::TO_DELETE);
        own.map(|key| key.replace(".podopslifecycle.kusionstack.io", "").replace("podopslifecycle.kusionstack.io/", ""))
            .collect()
    }

    fn assert(&self, expected: &[&str]) {
        assert_eq!(self.labels(), expected.iter().map(|&label| label.to_owned()).collect());
    }
}

#[test]
fn an_operation_goes_through_upstreams_labels_in_upstreams_order() {
    let mut scene = Scene::new();
    assert_eq!(scene.settle(), Vec::<&str>::new(), "a pod that serves is left alone");
    scene.begin("x", "update");
    scene.settle();
    scene.assert(&["service-available", "operating/x", "operation-type/x", "pre-check/x"]);
    assert!(foreign::is_wanted(&scene.view()));
    // Reserved and granted: one write.
    scene.grant(None);
    assert_eq!(scene.step(), Some("lifecycle-labels"));
    scene.assert(&["operating/x", "operation-type/x", "operation-permission/update", "pre-checked/x", "preparing/x"]);
    assert_eq!(scene.settle(), ["lifecycle-condition"], "nobody is allowed to operate a pod that serves");
    assert!(!scene.is(SERVICE_READY));
    scene.drain();
    assert_eq!(scene.settle(), ["lifecycle-labels"]);
    scene.assert(&["operating/x", "operation-type/x", "operation-permission/update", "pre-checked/x", "operate/x"]);
    let stamp = &scene.view().labels[&Step::Operate.key("x")];
    assert!(stamp.parse::<i128>().is_ok_and(|at| at > 1_700_000_000_000_000_000), "nanoseconds, not {stamp}");
    scene.finish("x");
    assert_eq!(scene.step(), Some("lifecycle-labels"));
    scene.assert(&["operated/x", "done-operation-type/x", "post-check/x"]);
    assert_eq!(scene.view().labels[&Step::DoneOperationType.key("x")], "update");
    assert_eq!(scene.step(), Some("lifecycle-labels"));
    scene.assert(&["operated/x", "done-operation-type/x", "post-checked/x", "completing/x"]);
    assert_eq!(scene.settle(), ["lifecycle-condition", "lifecycle-labels"]);
    scene.assert(&[]);
    scene.restore();
    assert_eq!(scene.settle(), Vec::<&str>::new(), "not before it is Ready");
    scene.kubelet();
    assert_eq!(scene.settle(), ["lifecycle-labels"]);
    scene.assert(&["service-available"]);
}

#[test]
fn a_pod_with_two_operators_returns_when_both_have_finished() {
    let mut scene = Scene::new();
    scene.begin("x", "update");
    scene.begin("y", "scale-in");
    scene.grant(None);
    scene.settle();
    scene.drain();
    scene.settle();
    for id in ["x", "y"] {
        assert!(scene.labels().contains(&format!("operate/{id}")));
    }
    scene.finish("x");
    assert_eq!(scene.settle(), Vec::<&str>::new());
    assert!(scene.labels().contains("operate/x"), "restoration waits for all");
    scene.begin("z", "restart");
    scene.settle();
    assert!(scene.labels().contains("operate/z"), "the pod has left already");
    scene.finish("y");
    scene.finish("z");
    scene.restore();
    scene.settle();
    scene.kubelet();
    scene.settle();
    scene.assert(&["service-available"]);
}

#[test]
fn what_is_taken_back_is_gone_and_a_permission_with_the_last_of_its_type() {
    let mut scene = Scene::new();
    scene.begin("x", "update");
    scene.begin("y", "update");
    scene.grant(None);
    scene.step();
    scene.label(&Step::UndoOperationType.key("x"), "update");
    scene.step();
    assert!(scene.labels().contains("operation-permission/update"), "y has that type, too");
    assert!(!scene.labels().iter().any(|label| label.ends_with("/x")), "{:?}", scene.labels());
    scene.label(&Step::UndoOperationType.key("y"), "update");
    assert!(!foreign::is_wanted(&scene.view()));
    scene.settle();
    scene.assert(&["service-available"]);
    // Who finishes before it was allowed to operate has taken it back, too.
    let mut scene = Scene::new();
    scene.begin("x", "update");
    scene.grant(None);
    scene.settle();
    scene.finish("x");
    scene.settle();
    assert!(scene.labels().iter().all(|label| label == "service-available"), "{:?}", scene.labels());
    assert!(scene.is(SERVICE_READY));
}

#[test]
fn a_pod_that_could_not_be_taken_out_serves_and_waits_again() {
    let mut scene = Scene::new();
    scene.begin("x", "update");
    scene.grant(None);
    scene.settle();
    assert!(!scene.is(SERVICE_READY));
    // The agent has given up.
    scene.restore();
    scene.settle();
    scene.kubelet();
    scene.settle();
    scene.assert(&["service-available", "operating/x", "operation-type/x", "pre-check/x"]);
    assert!(scene.is(SERVICE_READY));
}

#[test]
fn an_operation_with_another_type_keeps_how_far_it_is() {
    let mut scene = Scene::new();
    scene.begin("collaset", "update");
    scene.grant(None);
    scene.settle();
    scene.drain();
    scene.settle();
    scene.begin("collaset", "scale-in");
    scene.settle();
    let labels = scene.labels();
    assert!(labels.contains("operate/collaset") && labels.contains("operation-permission/scale-in"), "{labels:?}");
    scene.finish("collaset");
    scene.restore();
    scene.settle();
    scene.kubelet();
    scene.settle();
    scene.assert(&["service-available"]);
}

#[test]
fn finalizers_keep_an_operation_from_beginning_and_a_pod_from_being_back() {
    let mut scene = Scene::new();
    let finalizer = format!("{PROTECTION}/slb");
    let expected = json!({"expectedFinalizers": {"Service/shop/web": finalizer, "Service/shop/gone": "prot/other"}});
    scene.pod["metadata"]["annotations"] = json!({lifecycle::AVAILABLE_CONDITIONS: expected.to_string()});
    scene.pod["metadata"]["finalizers"] = json!([finalizer]);
    scene.begin("x", "update");
    scene.grant(None);
    scene.settle();
    scene.drain();
    assert_eq!(scene.settle(), Vec::<&str>::new(), "somebody still sends requests");
    scene.pod["metadata"]["finalizers"] = json!([]);
    scene.settle();
    assert!(scene.labels().contains("operate/x"));
    scene.finish("x");
    scene.restore();
    scene.settle();
    scene.kubelet();
    assert_eq!(scene.settle(), Vec::<&str>::new());
    assert!(scene.labels().contains("completing/x"), "nobody sends requests yet: {:?}", scene.labels());
    scene.pod["metadata"]["finalizers"] = json!([finalizer]);
    scene.settle();
    scene.assert(&["service-available"]);
}

#[test]
fn a_rule_of_the_return_keeps_a_pod_from_completing() {
    let mut scene = Scene::new();
    scene.begin("x", "update");
    scene.grant(Some(PostCheck::Pending));
    scene.settle();
    scene.drain();
    scene.settle();
    scene.finish("x");
    scene.settle();
    scene.assert(&["operated/x", "done-operation-type/x", "post-check/x"]);
    scene.grant(Some(PostCheck::Passed));
    scene.step();
    scene.assert(&["operated/x", "done-operation-type/x", "post-checked/x", "completing/x"]);
}

#[test]
fn a_pod_to_be_deleted_leaves_first_but_not_one_of_a_collaset() {
    let mut scene = Scene::new();
    scene.label(lifecycle::TO_DELETE, "true");
    scene.in_colla_set = true;
    assert_eq!(scene.settle(), Vec::<&str>::new());
    scene.in_colla_set = false;
    scene.step();
    let begun = ["operating/pod-delete", "operation-type/pod-delete", "pre-check/pod-delete", "preparing-to-delete"];
    assert!(begun.iter().all(|label| scene.labels().contains(*label)), "{:?}", scene.labels());
    assert_eq!(scene.view().labels[&Step::OperationType.key("pod-delete")], "delete");
    scene.grant(None);
    scene.settle();
    scene.drain();
    scene.step();
    assert_eq!(scene.step(), Some("delete-pod"));
}

#[test]
fn nothing_is_deleted_or_begun_for_others_beside_the_cluster_and_hitless() {
    for namespace in ["kube-system", "hitless-system"] {
        let mut scene = Scene::new();
        scene.pod["metadata"]["namespace"] = json!(namespace);
        scene.label(lifecycle::TO_DELETE, "true");
        scene.begin("x", "update");
        let before = scene.labels();
        assert!(!foreign::is_wanted(&scene.view()), "it would be drained");
        assert_eq!(scene.settle(), Vec::<&str>::new());
        assert_eq!(scene.labels(), before);
        // Nor where an earlier version has left labels.
        scene.label(&Step::Operate.key(lifecycle::DELETE_ID), "1");
        assert_eq!(scene.step(), None);
        // Its template names the gate of others: it must become Ready.
        scene.unlabel(&Step::Operate.key(lifecycle::DELETE_ID));
        scene.condition(SERVICE_READY, "False", "", "");
        assert_eq!(scene.settle(), ["lifecycle-condition"]);
    }
}

#[test]
fn a_pod_stays_offline_as_long_as_somebody_wishes() {
    let mut scene = Scene::new();
    scene.unlabel(SERVICE_AVAILABLE);
    scene.label(lifecycle::STAY_OFFLINE, "true");
    scene.condition(SERVICE_READY, "False", "", "");
    scene.kubelet();
    assert_eq!(scene.settle(), Vec::<&str>::new());
    scene.unlabel(lifecycle::STAY_OFFLINE);
    assert_eq!(scene.settle(), ["lifecycle-condition"]);
    scene.kubelet();
    scene.settle();
    scene.assert(&["service-available"]);
}

#[test]
fn an_id_that_begins_anew_asks_the_rules_anew() {
    let mut scene = Scene::new();
    scene.begin("x", "update");
    scene.grant(Some(PostCheck::Pending));
    scene.settle();
    scene.drain();
    scene.settle();
    scene.finish("x");
    scene.settle();
    scene.restore();
    scene.begin("x", "update");
    scene.settle();
    scene.kubelet();
    scene.settle();
    scene.assert(&["service-available", "operating/x", "operation-type/x", "pre-check/x"]);
    assert!(permission("update").starts_with("operation-permission."));
}

/// By the same labels as before an operation of others.
#[test]
fn whoever_protects_a_pod_is_told_that_it_leaves_for_an_operation_of_ours() {
    let mut scene = Scene::new();
    let preparing = Step::Preparing.key(lifecycle::OWN_ID);
    scene.leaves = true;
    scene.settle();
    let labels = scene.view().labels;
    assert!(labels.contains_key(&preparing) && !labels.contains_key(SERVICE_AVAILABLE), "{labels:?}");
    assert!(!scene.is(SERVICE_READY));
    assert_eq!(scene.step(), None, "the same label for as long as it lasts");
    scene.leaves = false;
    scene.settle();
    assert!(!scene.view().labels.contains_key(&preparing) && scene.is(SERVICE_READY));
}
