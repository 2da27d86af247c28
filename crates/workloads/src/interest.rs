//! What has to be kept of objects of which a cluster has many: a template is long, and only those of workloads that have opted in are
//! ever compared or written.

use std::collections::HashSet;

use hitless_api::ObjectRef;
use hitless_api::names::{PREFIX, annotations};
use serde_json::Value;

use crate::object::{Body, Object, OptIn};
use crate::template::Template;

/// Which workloads have opted in, as far as they were seen.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    /// Their uids.
    opted: HashSet<String>,
}

impl Interest {
    /// What is kept of an object that was seen: without what matters only where the workload has opted in, unless it has.
    #[must_use]
    pub fn view(&mut self, object: Object) -> Object {
        if object.template().is_some() {
            if object.opt_in() == OptIn::No {
                self.opted.remove(&object.id.uid);
            } else {
                self.opted.insert(object.id.uid.clone());
            }
        }
        let is_part = object.owner.as_ref().is_some_and(|owner| self.opted.contains(&owner.uid));
        if is_part || object.carries_ours() { object } else { object.abridged() }
    }
}

impl Object {
    fn abridged(mut self) -> Self {
        let Some(template) = self.template_mut() else { return self };
        *template = template.without_content();
        self.annotations.retain(|name, _| name == annotations::DEPLOYMENT_REVISION);
        if let Body::ReplicaSet(body) = &mut self.body {
            body.selector = Value::Null;
            self.labels.clear();
        }
        self
    }

    /// Whether anything on it is ours. A ReplicaSet gets the annotations of its Deployment, the opt-in among them.
    fn carries_ours(&self) -> bool {
        let is_mixed = match &self.body {
            Body::ReplicaSet(body) => body.template.is_mixed(),
            _ => false,
        };
        is_mixed || self.annotations.keys().chain(self.labels.keys()).any(|name| name.starts_with(PREFIX))
    }

    /// Whether anything is done for it, or for the pods that it owns or names.
    #[must_use]
    pub fn matters(&self) -> bool {
        match &self.body {
            Body::Deployment(_)
            | Body::ReplicaSet(_)
            | Body::StatefulSet(_)
            | Body::DaemonSet(_)
            | Body::ControllerRevision(_)
            | Body::Claim(_) => self.opt_in() != OptIn::No || self.carries_ours(),
            Body::CollaSet(_) | Body::ResourceContext(_) | Body::PodDecoration(_) | Body::OperationJob(_) => true,
        }
    }

    fn template_mut(&mut self) -> Option<&mut Template> {
        match &mut self.body {
            Body::Deployment(body) => Some(&mut body.template),
            Body::ReplicaSet(body) => Some(&mut body.template),
            Body::StatefulSet(body) => Some(&mut body.template),
            Body::DaemonSet(body) => Some(&mut body.template),
            // Few, or all ours.
            Body::CollaSet(_)
            | Body::ResourceContext(_)
            | Body::Claim(_)
            | Body::PodDecoration(_)
            | Body::ControllerRevision(_)
            | Body::OperationJob(_) => None,
        }
    }

    fn is_abridged_part(&self) -> bool {
        matches!(&self.body, Body::ReplicaSet(body) if !body.template.has_content())
    }
}

/// Parts of workloads that have opted in, and of which too little is kept: they were seen before that. Nothing may be decided about
/// these workloads yet.
#[must_use]
pub fn too_short<'a>(objects: impl Iterator<Item = &'a Object> + Clone) -> Vec<&'a ObjectRef> {
    let opted = objects.clone().filter(|object| object.template().is_some() && object.opt_in() != OptIn::No);
    let opted: HashSet<&str> = opted.map(|object| object.id.uid.as_str()).collect();
    let is_wanted = |part: &&Object| part.owner.as_ref().is_some_and(|owner| opted.contains(owner.uid.as_str()));
    objects.filter(|object| object.is_abridged_part()).filter(is_wanted).map(|part| &part.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind;
    use serde_json::json;

    fn object(of: &str, name: &str, metadata: &Value) -> Object {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
        let mut object = json!({"apiVersion": "apps/v1", "kind": of, "metadata": {"namespace": "shop", "name": name, "uid": name},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
        for (field, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][field] = value.clone();
        }
        kind::read(object).unwrap().unwrap()
    }

    fn part(metadata: &Value) -> Object {
        let mut metadata = metadata.clone();
        metadata["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true}]);
        object("ReplicaSet", "web-1", &metadata)
    }

    fn opted() -> Object {
        object("Deployment", "web", &json!({"annotations": {"hitless.dev/update": "in-place"}}))
    }

    #[test]
    fn who_has_not_opted_in_is_short_and_its_revision_is_the_same() {
        let annotations = json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "3"}});
        let whole = object("Deployment", "web", &annotations);
        let short = Interest::default().view(whole.clone());
        let template = |object: &Object| object.template().unwrap().clone();
        assert!(template(&whole).has_content() && !template(&short).has_content());
        assert_eq!(template(&short).revision(), template(&whole).revision());
        assert_eq!(short.annotations.keys().collect::<Vec<_>>(), ["deployment.kubernetes.io/revision"]);
        for marked in
            [json!({"annotations": {"hitless.dev/update": "in-place"}}), json!({"labels": {"hitless.dev/live": "x"}})]
        {
            let whole = part(&marked);
            assert_eq!(Interest::default().view(whole.clone()), whole, "something of ours is on it");
        }
    }

    #[test]
    fn parts_are_whole_as_long_as_their_workload_has_opted_in_and_too_short_if_they_came_before() {
        let mut interest = Interest::default();
        let whole = part(&json!({}));
        let short = interest.view(whole.clone());
        let deployment = interest.view(opted());
        assert_eq!(too_short([&deployment, &short].into_iter()), [&short.id]);
        assert_eq!(interest.view(whole.clone()), whole);
        assert!(too_short([&deployment, &whole].into_iter()).is_empty());
        let foreign = interest.view(object("Deployment", "web", &json!({})));
        assert!(too_short([&foreign, &short].into_iter()).is_empty(), "it has opted in no more");
        assert_eq!(interest.view(whole), short);
    }
}
