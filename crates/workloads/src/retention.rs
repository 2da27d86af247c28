//! What has to be kept of objects of which a cluster has many: a template is long, and only those of workloads that have opted in are
//! ever compared or written.
//!
//! And how much of one namespace: who may write objects there chooses how many there are and how long, and one process keeps those of all.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use hitless_api::ObjectRef;
use hitless_api::names::{PREFIX, annotations};
use serde_json::Value;

use crate::object::{Body, Object};
use crate::opt_in::OptIn;
use crate::shape::Shape;
use crate::template::Template;

/// MiB of the objects of one namespace that are kept: a quarter of what the controller may have. Some 500 Deployments that have opted in,
/// with ten ReplicaSets each.
pub const MOST_MIB: usize = 128;

/// Which workloads have opted in, as far as they were seen, and how much is kept of each namespace.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Their uids.
    opted: HashSet<String>,
    /// Bytes that are kept of a namespace at most.
    most: usize,
    shares: HashMap<String, Share>,
}

/// What is kept of one namespace, or would be.
#[derive(Clone, Debug, Default)]
struct Share {
    /// Bytes by object; of its uid a hash is enough.
    of: HashMap<u64, usize>,
    total: usize,
}

impl Share {
    fn count(&mut self, object: &Object, bytes: usize) {
        let mut hasher = DefaultHasher::new();
        object.id.uid.hash(&mut hasher);
        let before = self.of.insert(hasher.finish(), bytes).unwrap_or_default();
        self.total = (self.total + bytes).saturating_sub(before);
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self::bounded(MOST_MIB << 20)
    }
}

impl Retention {
    /// One that keeps so many bytes of a namespace.
    #[must_use]
    pub fn bounded(most: usize) -> Self {
        Self { opted: HashSet::new(), most, shares: HashMap::new() }
    }

    /// Forgets all objects but these.
    pub fn keep_only(&mut self, objects: &[Arc<Object>]) {
        // Each of them was seen, so as many are the same.
        if self.shares.values().map(|share| share.of.len()).sum::<usize>() == objects.len() {
            return;
        }
        self.opted = objects.iter().filter(|each| each.has_opted_in()).map(|each| each.id.uid.clone()).collect();
        self.shares.clear();
        for object in objects {
            self.count(object);
        }
    }

    /// Namespaces of whose objects not all can be kept.
    #[must_use]
    pub fn full(&self) -> BTreeSet<String> {
        let full = self.shares.iter().filter(|(_, share)| share.total > self.most);
        full.map(|(namespace, _)| namespace.clone()).collect()
    }

    /// The same of these objects, whoever has read them.
    #[must_use]
    pub fn full_of(objects: &[Arc<Object>]) -> BTreeSet<String> {
        let mut retention = Self::default();
        retention.keep_only(objects);
        retention.full()
    }

    /// Counts what is kept of the object; says how much that is, and whether it is too much.
    fn count(&mut self, object: &Object) -> (usize, bool) {
        let bytes = if self.is_whole(object) { object.memory } else { object.abridged_memory() };
        let share = self.shares.entry(object.id.namespace.clone()).or_default();
        share.count(object, bytes);
        (bytes, share.total > self.most)
    }

    fn is_whole(&self, object: &Object) -> bool {
        let is_part = object.owner.as_ref().is_some_and(|owner| self.opted.contains(&owner.uid));
        is_part || object.has_opted_in() || object.carries_ours() || object.is_always_whole()
    }

    /// What is kept of an object that was seen: without what matters only where the workload has opted in, unless it has; and hardly
    /// anything where more would be kept of its namespace than may be. Nothing is to be decided about that then ([`Self::full`]).
    #[must_use]
    pub fn view(&mut self, object: Object) -> Object {
        if object.has_opted_in() {
            self.opted.insert(object.id.uid.clone());
        } else {
            self.opted.remove(&object.id.uid);
        }
        match self.count(&object) {
            (bytes, true) => object.omitted(bytes),
            (_, false) if self.is_whole(&object) => object,
            (_, false) => object.abridged(),
        }
    }
}

impl Object {
    /// Whether it is a workload that has opted in. Its parts may have its annotation, too.
    fn has_opted_in(&self) -> bool {
        let is_workload = self.template().is_some() || self.is_omitted();
        is_workload && self.opt_in() != OptIn::No
    }

    fn is_omitted(&self) -> bool {
        matches!(self.body, Body::Omitted(_))
    }

    /// Only which one it is, and how much would be kept of it.
    fn omitted(self, bytes: usize) -> Self {
        let opt_in = if self.has_opted_in() { self.opt_in() } else { OptIn::No };
        Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            finalizers: Vec::new(),
            memory: bytes,
            body: Body::Omitted(opt_in),
            ..self
        }
    }

    /// Few, or all ours; and those of which it is known already how much is kept.
    fn is_always_whole(&self) -> bool {
        match &self.body {
            Body::CollaSet(_)
            | Body::CloneSet(_)
            | Body::ResourceContext(_)
            | Body::Claim(_)
            | Body::PodDecoration(_)
            | Body::SidecarSet(_)
            | Body::SidecarInjection(_)
            | Body::Request(_)
            | Body::Omitted(_) => true,
            Body::ControllerRevision(body) => body.template.is_some(),
            Body::Deployment(_) | Body::ReplicaSet(_) | Body::StatefulSet(_) | Body::DaemonSet(_) => false,
        }
    }

    /// About how many bytes of memory it takes without what matters only where the workload has opted in.
    fn abridged_memory(&self) -> usize {
        let pair = |(key, value): (&String, &String)| key.len() + value.len() + 2 * size_of::<String>();
        let of_shape = |shape: &Shape| shape.images.iter().map(pair).sum::<usize>() + shape.annotations.memory();
        let labels = self.labels.iter().map(pair).sum::<usize>();
        size_of::<Self>()
            + match &self.body {
                Body::Deployment(body) => labels + of_shape(body.template.shape()),
                Body::StatefulSet(body) => labels + of_shape(body.template.shape()),
                Body::DaemonSet(body) => labels + of_shape(body.template.shape()),
                Body::ReplicaSet(body) => of_shape(body.template.shape()),
                Body::ControllerRevision(body) => {
                    labels + self.annotations.iter().map(pair).sum::<usize>() + of_shape(&body.shape)
                }
                Body::CollaSet(_)
                | Body::CloneSet(_)
                | Body::ResourceContext(_)
                | Body::Claim(_)
                | Body::PodDecoration(_)
                | Body::SidecarSet(_)
                | Body::SidecarInjection(_)
                | Body::Request(_)
                | Body::Omitted(_) => self.memory,
            }
    }

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
            | Body::ControllerRevision(_) => self.opt_in() != OptIn::No || self.carries_ours(),
            Body::CollaSet(_)
            | Body::CloneSet(_)
            | Body::ResourceContext(_)
            | Body::PodDecoration(_)
            | Body::SidecarSet(_)
            | Body::SidecarInjection(_)
            | Body::Request(_) => true,
            // It stays when its CollaSet goes, and then nothing is done for it.
            Body::Claim(_) => false,
            Body::Omitted(opt_in) => *opt_in != OptIn::No,
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
            | Body::CloneSet(_)
            | Body::ResourceContext(_)
            | Body::Claim(_)
            | Body::PodDecoration(_)
            | Body::SidecarSet(_)
            | Body::SidecarInjection(_)
            | Body::ControllerRevision(_)
            | Body::Request(_)
            | Body::Omitted(_) => None,
        }
    }

    fn is_abridged_part(&self) -> bool {
        matches!(&self.body, Body::ReplicaSet(body) if !body.template.has_content())
    }
}

/// Objects of which too little is kept: parts of workloads that have opted in and that were seen before that, and whatever was seen while
/// too much was kept of its namespace, if it is none of the `full` ones any more. Nothing may be decided about these workloads yet.
#[must_use]
pub fn too_short<'a>(objects: impl Iterator<Item = &'a Object> + Clone, full: &BTreeSet<String>) -> Vec<&'a ObjectRef> {
    let opted = objects.clone().filter(|object| object.has_opted_in());
    let opted: HashSet<&str> = opted.map(|object| object.id.uid.as_str()).collect();
    let is_wanted = |part: &Object| part.owner.as_ref().is_some_and(|owner| opted.contains(owner.uid.as_str()));
    let is_short = |object: &&Object| object.is_omitted() || (object.is_abridged_part() && is_wanted(object));
    let is_known = |object: &&Object| !full.contains(&object.id.namespace);
    objects.filter(is_short).filter(is_known).map(|object| &object.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use serde_json::json;

    fn object(of: &str, name: &str, metadata: &Value) -> Object {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
        let mut object = json!({"apiVersion": "apps/v1", "kind": of, "metadata": {"namespace": "shop", "name": name, "uid": name},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
        for (field, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][field] = value.clone();
        }
        registry::read(object).unwrap().unwrap()
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
        let short = Retention::default().view(whole.clone());
        let template = |object: &Object| object.template().unwrap().clone();
        assert!(template(&whole).has_content() && !template(&short).has_content());
        assert_eq!(template(&short).revision(), template(&whole).revision());
        assert_eq!(short.annotations.keys().collect::<Vec<_>>(), ["deployment.kubernetes.io/revision"]);
        for marked in
            [json!({"annotations": {"hitless.dev/update": "in-place"}}), json!({"labels": {"hitless.dev/live": "x"}})]
        {
            let whole = part(&marked);
            assert_eq!(Retention::default().view(whole.clone()), whole, "something of ours is on it");
        }
    }

    #[test]
    fn parts_are_whole_as_long_as_their_workload_has_opted_in_and_too_short_if_they_came_before() {
        let mut retention = Retention::default();
        let whole = part(&json!({}));
        let short = retention.view(whole.clone());
        let deployment = retention.view(opted());
        let none = BTreeSet::new();
        assert_eq!(too_short([&deployment, &short].into_iter(), &none), [&short.id]);
        assert_eq!(retention.view(whole.clone()), whole);
        assert!(too_short([&deployment, &whole].into_iter(), &none).is_empty());
        let foreign = retention.view(object("Deployment", "web", &json!({})));
        assert!(too_short([&foreign, &short].into_iter(), &none).is_empty(), "it has opted in no more");
        assert_eq!(retention.view(whole), short);
    }

    const BOUND: usize = 1 << 20;

    fn long(namespace: &str, name: &str) -> Object {
        let mut whole = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
                "annotations": {"hitless.dev/update": "in-place-only"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "web", "image": "web:1"}]}}}});
        whole["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["x".repeat(50_000)]);
        registry::read(whole).unwrap().unwrap()
    }

    /// 1.4 MB in one string are few values, so no object of these is too large by itself.
    #[test]
    fn of_a_namespace_no_more_is_kept_than_the_bound_and_of_others_all() {
        let mut retention = Retention::bounded(BOUND);
        let all: Vec<Arc<Object>> =
            (0..200).map(|number| Arc::new(retention.view(long("loud", &number.to_string())))).collect();
        let kept: usize = all.iter().filter(|object| !object.is_omitted()).map(|object| object.memory).sum();
        assert!(kept <= BOUND && kept > BOUND - 60_000, "{kept}");
        let left: Vec<&Arc<Object>> = all.iter().filter(|object| object.is_omitted()).collect();
        assert!(left.iter().all(|object| object.opt_in() == OptIn::InPlaceOnly && object.annotations.is_empty()));
        let quiet = retention.view(long("quiet", "web"));
        assert!(quiet.template().unwrap().has_content());
        assert_eq!(retention.full(), ["loud".to_owned()].into());
        let objects = || all.iter().map(|object| &**object).chain([&quiet]);
        assert!(too_short(objects(), &retention.full()).is_empty(), "to read them again would not help");
        // What is seen again is not counted twice.
        let _ = retention.view(long("quiet", "web"));
        assert_eq!(retention.full(), ["loud".to_owned()].into());
    }

    #[test]
    fn once_enough_objects_are_gone_the_others_are_read_again_and_kept() {
        let mut retention = Retention::bounded(180_000);
        let view = |retention: &mut Retention, name: &str| Arc::new(retention.view(long("loud", name)));
        let mut all: Vec<Arc<Object>> = ["a", "b", "c", "d"].iter().map(|name| view(&mut retention, name)).collect();
        retention.keep_only(&all);
        assert!(!retention.full().is_empty() && !all[1].is_omitted() && all[3].is_omitted());
        all.drain(..2);
        retention.keep_only(&all);
        assert!(retention.full().is_empty());
        let short = too_short(all.iter().map(|object| &**object), &retention.full());
        assert_eq!(short, [&all[1].id]);
        all[1] = view(&mut retention, "d");
        assert!(!all[1].is_omitted() && too_short(all.iter().map(|object| &**object), &retention.full()).is_empty());
    }

    #[test]
    fn what_nothing_is_done_for_counts_as_what_is_kept_of_it() {
        let whole = Object { annotations: BTreeMap::new(), ..long("shop", "web") };
        let mut retention = Retention::bounded(BOUND);
        for number in 0..100 {
            let mut other = whole.clone();
            other.id.uid = format!("u{number}");
            assert!(!retention.view(other).is_omitted());
        }
        // The command line has them as the API server does.
        let mut unread = Retention::bounded(20_000);
        unread.keep_only(&[Arc::new(whole)]);
        assert!(retention.full().is_empty() && unread.full().is_empty());
    }
}
