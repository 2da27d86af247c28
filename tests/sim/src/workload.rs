//! A Deployment and its ReplicaSet, as every story begins with them.

use std::sync::Arc;

use hitless_api::drain_policy::{DEFAULT, VerifyOverrides};
use hitless_api::names::{self, DEFAULT_SYSTEM_NAMESPACE, annotations, labels};
use hitless_api::{DesiredMode, DrainPolicySpec};
use hitless_rollout::mode::PolicyView;
use jiff::Timestamp;
use serde_json::{Value, json};

/// How long a start may take, in seconds: no story lasts for the 600 that hold where nobody says anything.
const START_SECONDS: u32 = 40;

/// The cluster's DrainPolicy: who says nothing else leaves service. It says how long a start may take, if that is wanted.
pub(crate) fn all_leave(says_verify: bool) -> Arc<PolicyView> {
    let (namespace, name) = (DEFAULT_SYSTEM_NAMESPACE.to_owned(), DEFAULT.to_owned());
    let verify =
        VerifyOverrides { progress_seconds: says_verify.then_some(START_SECONDS), ..VerifyOverrides::default() };
    let spec = DrainPolicySpec { mode: Some(DesiredMode::Leave), verify, ..DrainPolicySpec::default() };
    Arc::new(PolicyView { namespace, name, uid: "uid-all-leave".to_owned(), spec, unreadable: None })
}

/// A Deployment with this name, uid and number of replicas.
pub(crate) struct Named<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: String,
    pub(crate) replicas: i32,
}

impl Named<'_> {
    /// It has opted in, and it and its ReplicaSet are at rest.
    pub(crate) fn at_rest(&self, mut template: Value, created: Timestamp) -> (Value, Value) {
        let Self { namespace, name, uid, replicas } = self;
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": namespace, "name": name, "uid": uid, "generation": 1,
                "annotations": {annotations::UPDATE: names::UPDATE_IN_PLACE}},
            "spec": {"replicas": replicas, "template": template},
            "status": {},
        });
        template["metadata"]["labels"][labels::POD_TEMPLATE_HASH] = json!("h1");
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"namespace": namespace, "name": format!("{name}-h1"), "uid": format!("{uid}-h1"), "generation": 1,
                "creationTimestamp": created.to_string(),
                "labels": {"app": name, labels::POD_TEMPLATE_HASH: "h1"},
                "annotations": {annotations::DEPLOYMENT_REVISION: "1"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true}]},
            "spec": {"replicas": replicas, "template": template,
                "selector": {"matchLabels": {"app": name, labels::POD_TEMPLATE_HASH: "h1"}}},
            "status": {"observedGeneration": 1, "replicas": replicas},
        });
        (deployment, set)
    }

    /// A StatefulSet or DaemonSet that has opted in and is at rest.
    pub(crate) fn with_strategy(&self, kind: &str, template: &Value, strategy: &Value) -> Value {
        let Self { namespace, name, uid, replicas } = self;
        json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": {"namespace": namespace, "name": name, "uid": uid, "generation": 1,
                "annotations": {annotations::UPDATE: names::UPDATE_IN_PLACE, annotations::TEMPLATE_GENERATION: "1"}},
            "spec": {"replicas": replicas, "template": template, "updateStrategy": strategy},
            "status": {"observedGeneration": 1},
        })
    }
}
