//! Everything that plans are made from, indexed once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{GroupKind, ObjectRef};
use jiff::{SignedDuration, Timestamp};

use crate::kind::{self, Kind};
use crate::kinds::colla_set;
use crate::object::{Body, Object};
use crate::plan::Plan;

/// Objects and pods, found by uid and by owner.
pub struct World<'a> {
    by_uid: HashMap<&'a str, &'a Object>,
    children: HashMap<&'a str, Vec<&'a Object>>,
    /// Workloads that are looked after, with their kind.
    roots: Vec<(&'static dyn Kind, &'a Object)>,
    /// Pods by uid of their direct owner, of these workloads only.
    pods: HashMap<&'a str, Vec<&'a PodView>>,
    /// uids of pods with an operation that has not ended: a rollout does not finish over them.
    pub operating: BTreeSet<String>,
    /// uids of pods that have left service for good.
    pub left: BTreeSet<String>,
    /// Pods and claims that no controller owns and that are marked as KusionStack's, by namespace.
    unowned_pods: HashMap<&'a str, Vec<&'a PodView>>,
    unowned_claims: HashMap<&'a str, Vec<&'a Object>>,
    /// When this is decided; absent where time does not matter.
    pub now: Option<Timestamp>,
    /// What the API server has said no to, by [`crate::Write::key`], in its words.
    pub refused: BTreeMap<String, String>,
    /// Objects that workloads refer to by their name: by kind, namespace and name.
    parts: HashMap<(&'a GroupKind, &'a str, &'a str), &'a Object>,
    /// Objects that stand for requests, the oldest first.
    requests: Vec<&'a Object>,
    /// By namespace.
    decorations: HashMap<&'a str, Vec<&'a Object>>,
    /// By namespace.
    colla_sets: HashMap<&'a str, Vec<&'a Object>>,
    /// Pods that are Ready, but not for as long as their workload wants before they count as available: until when, by uid.
    pub recently_ready: BTreeMap<&'a str, Timestamp>,
}

impl<'a> World<'a> {
    /// Of these objects and pods.
    #[must_use]
    pub fn new(objects: &'a [Arc<Object>], pods: &'a [Arc<PodView>], operating: BTreeSet<String>) -> Self {
        let mut children: HashMap<&str, Vec<&Object>> = HashMap::new();
        for object in objects {
            if let Some(owner) = &object.owner {
                children.entry(owner.uid.as_str()).or_default().push(object);
            }
        }
        let by_uid = objects.iter().map(|object| (object.id.uid.as_str(), &**object)).collect();
        let mut world = Self {
            by_uid,
            children,
            roots: Vec::new(),
            pods: HashMap::new(),
            operating,
            left: BTreeSet::new(),
            unowned_pods: HashMap::new(),
            unowned_claims: HashMap::new(),
            now: None,
            refused: BTreeMap::new(),
            parts: objects.iter().filter_map(|object| named(object)).collect(),
            requests: objects.iter().map(|object| &**object).filter(|object| is_request(object)).collect(),
            decorations: by_namespace(objects, |body| matches!(body, Body::PodDecoration(_))),
            colla_sets: by_namespace(objects, |body| matches!(body, Body::CollaSet(_))),
            recently_ready: BTreeMap::new(),
        };
        world.requests.sort_by_key(|object| (object.created, &object.id.uid));
        let roots = objects.iter().filter_map(|object| {
            let kind = kind::of_workload(&object.id.group_kind)?;
            kind.concerns(object, &world).then_some((kind, &**object))
        });
        world.roots = roots.collect();
        let own = world.roots.iter().flat_map(|(_, root)| {
            let children = world.children(&root.id.uid).iter().map(|child| child.id.uid.as_str());
            children.chain([root.id.uid.as_str()])
        });
        let own: BTreeSet<&str> = own.collect();
        for pod in pods {
            match pod.owner.as_ref().map(|owner| owner.uid.as_str()) {
                Some(uid) if own.contains(uid) => world.pods.entry(uid).or_default().push(pod),
                None if colla_set::is_controlled(&pod.labels) => {
                    world.unowned_pods.entry(pod.id.namespace.as_str()).or_default().push(pod);
                }
                Some(_) | None => {}
            }
        }
        for object in objects.iter().filter(|object| object.owner.is_none()) {
            if matches!(object.body, Body::Claim(_)) && colla_set::is_controlled(&object.labels) {
                world.unowned_claims.entry(object.id.namespace.as_str()).or_default().push(object);
            }
        }
        world
    }

    /// The same at this time: pods have to be Ready for `minReadySeconds` of their workload.
    #[must_use]
    pub fn at(mut self, pods: &'a [Arc<PodView>], now: Timestamp) -> Self {
        self.now = Some(now);
        let wants = |object: &&'a Object| {
            let seconds = self.top_of(object).min_ready_seconds;
            (seconds > 0).then(|| (object.id.uid.as_str(), SignedDuration::from_secs(seconds.into())))
        };
        // Few workloads want that, and a cluster has many pods.
        let wanted: HashMap<&str, SignedDuration> = self.by_uid.values().filter_map(wants).collect();
        if wanted.is_empty() {
            return self;
        }
        let until = |pod: &'a PodView| {
            let least = wanted.get(pod.owner.as_ref()?.uid.as_str())?;
            let until = pod.ready_since().filter(|_| pod.available())?.saturating_add(*least).ok()?;
            (now < until).then_some((pod.id.uid.as_str(), until))
        };
        self.recently_ready = pods.iter().filter_map(|pod| until(pod)).collect();
        self
    }

    /// The same, where these pods have left service for good: uids.
    #[must_use]
    pub fn after(self, left: BTreeSet<String>) -> Self {
        Self { left, ..self }
    }

    /// Objects that stand for requests, the oldest first.
    #[must_use]
    pub fn requests(&self) -> &[&'a Object] {
        &self.requests
    }

    /// The same, where the API server has said no to these writes: its words by [`crate::Write::key`].
    #[must_use]
    pub fn refusing(self, refused: BTreeMap<String, String>) -> Self {
        Self { refused, ..self }
    }

    /// Pods of the namespace that no controller owns and that are marked as KusionStack's.
    #[must_use]
    pub fn unowned_pods(&self, namespace: &str) -> &[&'a PodView] {
        self.unowned_pods.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// PersistentVolumeClaims of the same sort.
    #[must_use]
    pub fn unowned_claims(&self, namespace: &str) -> &[&'a Object] {
        self.unowned_claims.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// The object of that name that workloads refer to by its name.
    #[must_use]
    pub fn part(&self, kind: &GroupKind, namespace: &str, name: &str) -> Option<&'a Object> {
        self.parts.get(&(kind, namespace, name)).copied()
    }

    /// PodDecorations of the namespace.
    #[must_use]
    pub fn decorations(&self, namespace: &str) -> &[&'a Object] {
        self.decorations.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// CollaSets of the namespace.
    #[must_use]
    pub fn colla_sets(&self, namespace: &str) -> &[&'a Object] {
        self.colla_sets.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// The object with this uid.
    #[must_use]
    pub fn object(&self, uid: &str) -> Option<&'a Object> {
        self.by_uid.get(uid).copied()
    }

    /// Objects whose controller is the one with this uid.
    #[must_use]
    pub fn children(&self, uid: &str) -> &[&'a Object] {
        self.children.get(uid).map_or(&[], Vec::as_slice)
    }

    /// Pods whose controller is the one with this uid, if it belongs to a workload that is looked after.
    #[must_use]
    pub fn pods(&self, owner_uid: &str) -> &[&'a PodView] {
        self.pods.get(owner_uid).map_or(&[], Vec::as_slice)
    }

    /// The topmost workload of the pod that is known, else its direct owner.
    #[must_use]
    pub fn top(&self, pod: &'a PodView) -> Option<&'a ObjectRef> {
        let direct = pod.owner.as_ref()?;
        Some(self.object(&direct.uid).map_or(direct, |object| &self.top_of(object).id))
    }

    /// The topmost object above this one that is known, or itself.
    #[must_use]
    pub fn top_of(&self, object: &'a Object) -> &'a Object {
        let mut top = object;
        // Owners are never in a circle in a cluster; a bound keeps it so for input from files.
        for _ in 0..8 {
            match top.owner.as_ref().and_then(|owner| self.object(&owner.uid)) {
                Some(owner) => top = owner,
                None => break,
            }
        }
        top
    }

    /// The plan of every workload that has opted in or still carries something of ours.
    #[must_use]
    pub fn plans(&self) -> Vec<Plan> {
        self.roots.iter().map(|(kind, root)| kind.plan(root, self)).collect()
    }
}

fn is_request(object: &Object) -> bool {
    matches!(object.body, Body::OperationJob(_))
}

/// An object that workloads refer to by its name.
fn named(object: &Object) -> Option<((&GroupKind, &str, &str), &Object)> {
    let id = &object.id;
    let is_one = matches!(object.body, Body::ResourceContext(_) | Body::Claim(_));
    is_one.then_some(((&id.group_kind, id.namespace.as_str(), id.name.as_str()), object))
}

/// Those objects whose body is such a one, by namespace.
fn by_namespace(objects: &[Arc<Object>], is_one: impl Fn(&Body) -> bool) -> HashMap<&str, Vec<&Object>> {
    let mut all: HashMap<&str, Vec<&Object>> = HashMap::new();
    for object in objects.iter().filter(|object| is_one(&object.body)) {
        all.entry(object.id.namespace.as_str()).or_default().push(object);
    }
    all
}
