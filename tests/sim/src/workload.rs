//! A Deployment and its ReplicaSet, as every story begins with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::drain_policy::DEFAULT;
use hitless_api::names::{self, SYSTEM_NAMESPACE, annotations, labels};
use hitless_api::pod::Owner;
use hitless_api::{DrainPolicySpec, ModeWish};
use hitless_rollout::mode::PolicyView;
use hitless_workloads::deployment::Template;
use hitless_workloads::{DeploymentView, ReplicaSetView};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The cluster's DrainPolicy: who says nothing else leaves service.
pub(crate) fn all_leave() -> Arc<PolicyView> {
    let (namespace, name) = (SYSTEM_NAMESPACE.to_owned(), DEFAULT.to_owned());
    let spec = DrainPolicySpec { mode: Some(ModeWish::Leave), ..DrainPolicySpec::default() };
    Arc::new(PolicyView { namespace, name, uid: "uid-all-leave".to_owned(), spec })
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
    pub(crate) fn at_rest(&self, mut template: Value, created: Timestamp) -> (DeploymentView, ReplicaSetView) {
        let Self { namespace, name, uid, replicas } = self;
        let deployment = DeploymentView {
            namespace: (*namespace).to_owned(),
            name: (*name).to_owned(),
            uid: uid.clone(),
            resource_version: String::new(),
            generation: 1,
            annotations: [(annotations::UPDATE.to_owned(), names::UPDATE_IN_PLACE.to_owned())].into(),
            deleting: false,
            replicas: *replicas,
            paused: false,
            revision_history_limit: 10,
            progress_deadline_seconds: 600,
            template: Template::new(template.clone()),
        };
        template["metadata"]["labels"][labels::POD_TEMPLATE_HASH] = json!("h1");
        let set = ReplicaSetView {
            namespace: (*namespace).to_owned(),
            name: format!("{name}-h1"),
            uid: format!("{uid}-h1"),
            resource_version: String::new(),
            generation: 1,
            created: Some(created),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            owner: Some(Owner { kind: "Deployment".to_owned(), name: (*name).to_owned(), uid: uid.clone() }),
            deleting: false,
            replicas: *replicas,
            selector: json!({"matchLabels": {"app": name, labels::POD_TEMPLATE_HASH: "h1"}}),
            template: Template::new(template),
            observed_generation: 1,
            status_replicas: *replicas,
            failing: false,
        };
        (deployment, set)
    }
}
