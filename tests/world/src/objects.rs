//! Objects as the API server has them, for tests that need some of their fields: each function adds one thing, and whatever is particular
//! to a test is changed in the JSON.

use hitless_api::names::IN_SERVICE;
use hitless_api::pod::PodView;
use serde_json::{Value, json};

/// A pod that is made step by step.
#[derive(Clone, Debug)]
pub struct Pod(Value);

impl Pod {
    /// One without containers, whose uid is `uid-<name>`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let uid = format!("uid-{name}");
        Self::of(&json!({"namespace": namespace, "name": name, "uid": uid, "resourceVersion": "1"}))
    }

    /// One without containers, with this metadata.
    #[must_use]
    pub fn of(metadata: &Value) -> Self {
        Self(json!({"metadata": metadata, "spec": {"containers": []}, "status": {}}))
    }

    /// With another uid.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.0["metadata"]["uid"] = uid.into();
        self
    }

    /// With these labels instead of those that it has.
    #[must_use]
    pub fn labels(mut self, labels: Value) -> Self {
        self.0["metadata"]["labels"] = labels;
        self
    }

    /// With these annotations instead of those that it has.
    #[must_use]
    pub fn annotations(mut self, annotations: Value) -> Self {
        self.0["metadata"]["annotations"] = annotations;
        self
    }

    /// Controlled by this object of the group `apps`.
    #[must_use]
    pub fn owned_by(mut self, kind: &str, name: &str, uid: &str) -> Self {
        self.0["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
        self
    }

    /// Bound to this node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.0["spec"]["nodeName"] = node.into();
        self
    }

    /// With the readiness gate of hitless.
    #[must_use]
    pub fn gated(mut self) -> Self {
        self.0["spec"]["readinessGates"] = json!([{"conditionType": IN_SERVICE}]);
        self
    }

    /// With one more container.
    #[must_use]
    pub fn container(self, name: &str, image: &str) -> Self {
        self.container_with(name, image, &json!({}))
    }

    /// With one more container, whose spec has these fields beside.
    #[must_use]
    pub fn container_with(mut self, name: &str, image: &str, more: &Value) -> Self {
        let mut container = json!({"name": name, "image": image});
        for (field, value) in more.as_object().into_iter().flatten() {
            container[field] = value.clone();
        }
        push(&mut self.0["spec"]["containers"], container);
        self
    }

    /// All its containers run this image id and are ready since then.
    #[must_use]
    pub fn running(mut self, image_id: &str, since: &str) -> Self {
        let state = |container: &Value| {
            json!({"name": container["name"], "image": container["image"], "imageID": image_id, "ready": true, "restartCount": 0,
                "containerID": "containerd://1", "state": {"running": {"startedAt": since}}})
        };
        let containers = self.0["spec"]["containers"].as_array().into_iter().flatten();
        self.0["status"]["containerStatuses"] = containers.map(state).collect();
        self
    }

    /// These conditions are true, since then if that is said.
    #[must_use]
    pub fn conditions(mut self, names: &[&str], since: Option<&str>) -> Self {
        for name in names {
            let mut condition = json!({"type": name, "status": "True"});
            if let Some(since) = since {
                condition["lastTransitionTime"] = since.into();
            }
            push(&mut self.0["status"]["conditions"], condition);
        }
        self
    }

    /// Its JSON.
    #[must_use]
    pub fn json(self) -> Value {
        self.0
    }

    /// As the API's type.
    ///
    /// # Panics
    /// If a field that a test has given has not its type.
    #[must_use]
    #[expect(clippy::unwrap_used, reason = "for tests only")]
    pub fn object(self) -> k8s_openapi::api::core::v1::Pod {
        serde_json::from_value(self.0).unwrap()
    }

    /// As controllers of ours read it.
    ///
    /// # Panics
    /// If a field that a test has given has not its type.
    #[must_use]
    pub fn view(self) -> PodView {
        PodView::from(&self.object())
    }
}

fn push(list: &mut Value, one: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(one),
        None => *list = json!([one]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_what_was_said_of_it() {
        let since = "2026-01-01T00:00:00Z";
        let pod = Pod::new("shop", "web-0").owned_by("ReplicaSet", "web", "rs").on("n1").gated();
        let pod = pod
            .container("web", "web:v1")
            .running("web@sha256:1", since)
            .conditions(&["Ready", IN_SERVICE], Some(since));
        let view = pod.labels(json!({"app": "web"})).view();
        assert_eq!(
            (view.id.uid.as_str(), view.labels["app"].as_str(), view.node.as_deref()),
            ("uid-web-0", "web", Some("n1"))
        );
        assert!(view.gated && view.ready() && view.in_service().is_some_and(|condition| condition.is_true));
        let state = view.containers[0].status.as_ref().unwrap_or_else(|| panic!("it runs: {view:?}"));
        assert!(state.ready && *state.image_id == "web@sha256:1" && state.running_since.is_some());
        assert_eq!(view.owner.as_ref().map(|owner| owner.uid.as_str()), Some("rs"));
    }
}
