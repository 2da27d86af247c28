//! Everything that plans are made from, indexed once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{GroupKind, ObjectRef, crowd};
use jiff::{SignedDuration, Timestamp};

use crate::kinds::colla_set::controlled::{is_controlled, of_claim};
use crate::kinds::pod_decoration::undecorated::Undecorated;
use crate::kinds::sidecar_set::names::of_pod;
use crate::labels::{AllSelections, Selection, Selections};
use crate::object::{Body, Object, SidecarInjection};

/// Objects and pods, found by uid and by owner.
pub struct World<'a> {
    by_uid: HashMap<&'a str, &'a Object>,
    children: HashMap<&'a str, Vec<&'a Object>>,
    /// Workloads that are looked after.
    roots: Vec<&'a Object>,
    /// Pods by uid of their direct owner, of these workloads only.
    pods: HashMap<&'a str, Vec<&'a PodView>>,
    /// uids of pods with an operation that has not ended: a rollout does not finish over them.
    pub operating: BTreeSet<String>,
    /// uids of pods that have left service for good.
    pub left: BTreeSet<String>,
    /// uids of pods whose removal the rules have let go, and for which the ledger has a reservation.
    pub removable: BTreeSet<String>,
    /// uids of pods that agents take out of service for good.
    pub draining: BTreeSet<String>,
    /// Pods and claims that no controller owns and that are marked as KusionStack's, by namespace.
    unowned_pods: HashMap<&'a str, Vec<&'a PodView>>,
    unowned_claims: HashMap<&'a str, Vec<&'a Object>>,
    /// When this is decided; absent where time does not matter.
    pub now: Option<Timestamp>,
    /// What the API server has said no to, by [`crate::Write::key`], in its words.
    pub refused: BTreeMap<String, String>,
    /// Images that could not be fetched in several attempts.
    unfetched: BTreeSet<String>,
    /// Dry runs that the API server has accepted, by [`crate::Write::key`]; `None`: nobody asks it, and all is taken to be accepted.
    pub(crate) accepted: Option<BTreeSet<String>>,
    /// Nodes on which no agent is ever going to be.
    agentless: BTreeSet<String>,
    /// Why the pods that would fetch images are not accepted, by namespace and image.
    unaccepted: BTreeMap<(String, String), String>,
    /// Objects that workloads refer to by their name: by kind, namespace and name.
    parts: HashMap<(&'a GroupKind, &'a str, &'a str), &'a Object>,
    /// Objects that stand for requests, the oldest first.
    requests: Vec<&'a Object>,
    /// By namespace, the oldest first.
    decorations: HashMap<&'a str, Vec<&'a Object>>,
    /// SidecarSets in the order of their names.
    sidecar_sets: Vec<&'a Object>,
    sidecar_injection: Option<SidecarInjection<'a>>,
    /// Pods that have containers of a SidecarSet, by its name, each with the version that it has.
    injected: HashMap<&'a str, Vec<(&'a str, &'a PodView)>>,
    /// Those that do not count, because their namespace has too many ([`crowd::MOST`]): by namespace and name.
    uncounted: HashSet<(&'a str, &'a str)>,
    /// Labels of the pods of CollaSets in namespaces with decorations, by uid of the CollaSet.
    undecorated: HashMap<&'a str, Undecorated<'a>>,
    /// By namespace.
    colla_sets: HashMap<&'a str, Vec<&'a Object>>,
    /// Who finds pods by their labels; nobody where that is not asked.
    selections: AllSelections<'a>,
    /// Pods that are Ready, but not for as long as their workload wants before they count as available: until when, by uid.
    pub recently_ready: BTreeMap<&'a str, Timestamp>,
}

impl<'a> World<'a> {
    /// Of these objects and pods. `concerns` tells of an object whether it is a workload that is looked after.
    pub(crate) fn of(
        objects: &'a [Arc<Object>],
        pods: &'a [Arc<PodView>],
        operating: BTreeSet<String>,
        concerns: impl Fn(&Object, &Self) -> bool,
    ) -> Self {
        let by_uid: HashMap<&str, &Object> = objects.iter().map(|object| (object.id.uid.as_str(), &**object)).collect();
        let mut children: HashMap<&str, Vec<&Object>> = HashMap::new();
        let mut unowned_claims: HashMap<&str, Vec<&Object>> = HashMap::new();
        for object in objects {
            if let Some(owner) = &object.owner {
                children.entry(owner.uid.as_str()).or_default().push(object);
            } else if let Some(set) = set_of_claim(object, &by_uid) {
                children.entry(set.id.uid.as_str()).or_default().push(object);
            } else if matches!(object.body, Body::Claim(_)) && is_controlled(&object.labels) {
                unowned_claims.entry(object.id.namespace.as_str()).or_default().push(object);
            }
        }
        let mut world = Self {
            by_uid,
            children,
            roots: Vec::new(),
            pods: HashMap::new(),
            operating,
            left: BTreeSet::new(),
            removable: BTreeSet::new(),
            draining: BTreeSet::new(),
            unowned_pods: HashMap::new(),
            unowned_claims,
            now: None,
            refused: BTreeMap::new(),
            accepted: None,
            unfetched: BTreeSet::new(),
            unaccepted: BTreeMap::new(),
            agentless: BTreeSet::new(),
            parts: objects.iter().filter_map(|object| named(object)).collect(),
            requests: objects.iter().map(|object| &**object).filter(|object| is_request(object)).collect(),
            decorations: by_namespace(objects, |body| matches!(body, Body::PodDecoration(_))),
            sidecar_sets: objects
                .iter()
                .map(|object| &**object)
                .filter(|object| object.sidecar_set().is_some())
                .collect(),
            sidecar_injection: objects.iter().find_map(|object| object.sidecar_injection()),
            injected: HashMap::new(),
            uncounted: HashSet::new(),
            undecorated: HashMap::new(),
            colla_sets: by_namespace(objects, |body| matches!(body, Body::CollaSet(_))),
            selections: AllSelections::default(),
            recently_ready: BTreeMap::new(),
        };
        world.requests.sort_by_key(|object| (object.created, &object.id.uid));
        world.sidecar_sets.sort_by_key(|object| &object.id.name);
        for (namespace, all) in &mut world.decorations {
            all.sort_by_key(|object| (object.deleting, object.created, &object.id.uid));
            let too_many = all.iter().skip(crowd::MOST);
            world.uncounted.extend(too_many.map(|object| (*namespace, object.id.name.as_str())));
        }
        world.roots = objects.iter().map(|object| &**object).filter(|object| concerns(object, &world)).collect();
        let own = world.roots.iter().flat_map(|root| {
            let children = world.children(&root.id.uid).iter().map(|child| child.id.uid.as_str());
            children.chain([root.id.uid.as_str()])
        });
        let own: BTreeSet<&str> = own.collect();
        for pod in pods {
            for (set, hash) in of_pod(pod) {
                world.injected.entry(set).or_default().push((hash, pod));
            }
            match pod.owner.as_ref().map(|owner| owner.uid.as_str()) {
                Some(uid) if own.contains(uid) => world.pods.entry(uid).or_default().push(pod),
                None if is_controlled(&pod.labels) => {
                    world.unowned_pods.entry(pod.id.namespace.as_str()).or_default().push(pod);
                }
                Some(_) | None => {}
            }
        }
        let decorated = world.decorations.keys().flat_map(|namespace| world.colla_sets(namespace).iter().copied());
        let undecorated = |set: &'a Object| {
            let uid = set.id.uid.as_str();
            (uid, Undecorated::of(set, world.children(uid), world.pods(uid)))
        };
        world.undecorated = decorated.map(undecorated).collect();
        world
    }

    /// Workloads that have opted in, or still carry something of ours.
    pub(crate) fn roots(&self) -> &[&'a Object] {
        &self.roots
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

    /// The same, where these find pods by their labels, each in this namespace, or in all.
    #[must_use]
    pub fn selected(self, by: impl Iterator<Item = (Option<&'a str>, Selection<'a>)>) -> Self {
        Self { selections: AllSelections::new(by), ..self }
    }

    /// Who finds pods of the namespace by their labels.
    #[must_use]
    pub fn selections(&self, namespace: &str) -> Selections<'a> {
        self.selections.of(namespace)
    }

    /// The same, where these pods have left service for good: uids.
    #[must_use]
    pub fn after(self, left: BTreeSet<String>) -> Self {
        Self { left, ..self }
    }

    /// The same, where the removal of these pods is reserved: uids.
    #[must_use]
    pub fn removing(self, removable: BTreeSet<String>) -> Self {
        Self { removable, ..self }
    }

    /// The same, where agents take these pods out of service for good: uids.
    #[must_use]
    pub fn draining(self, draining: BTreeSet<String>) -> Self {
        Self { draining, ..self }
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

    /// The same, for somebody who can ask the API server beforehand whether it accepts a pod, and whose dry runs with these keys it has
    /// accepted.
    #[must_use]
    pub fn accepting(self, accepted: Option<BTreeSet<String>>) -> Self {
        Self { accepted, ..self }
    }

    /// The same, where some images could not be fetched in several attempts, and where the pods that would fetch these, by namespace and
    /// image, are not accepted, in these words.
    #[must_use]
    pub fn without_images(self, unfetched: BTreeSet<String>, unaccepted: BTreeMap<(String, String), String>) -> Self {
        Self { unfetched, unaccepted, ..self }
    }

    /// The same, where no agent is ever going to be on these nodes.
    #[must_use]
    pub fn without_agents(self, agentless: BTreeSet<String>) -> Self {
        Self { agentless, ..self }
    }

    /// Whether no agent is ever going to be where the pod is.
    pub(crate) fn is_agentless(&self, pod: &PodView) -> bool {
        pod.node.as_ref().is_some_and(|node| self.agentless.contains(node))
    }

    /// Why the pod that would fetch the image, pinned or not, is not accepted.
    pub(crate) fn unaccepted(&self, namespace: &str, image: &str) -> Option<&str> {
        let is_it = |(known, other): &(String, String)| {
            known == namespace && (other == image || crate::image::unpinned(other) == image)
        };
        self.unaccepted.iter().find(|(key, _)| is_it(key)).map(|(_, words)| words.as_str())
    }

    /// Whether the image could not be fetched.
    pub(crate) fn is_unfetched(&self, image: &str) -> bool {
        self.unfetched.contains(image)
    }

    /// Pods of the namespace that no controller owns and that are marked as KusionStack's.
    #[must_use]
    pub fn unowned_pods(&self, namespace: &str) -> &[&'a PodView] {
        self.unowned_pods.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// PersistentVolumeClaims of the same sort, but those of a CollaSet that is there.
    #[must_use]
    pub fn unowned_claims(&self, namespace: &str) -> &[&'a Object] {
        self.unowned_claims.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// The object of that name that workloads refer to by its name.
    #[must_use]
    pub fn part(&self, kind: &GroupKind, namespace: &str, name: &str) -> Option<&'a Object> {
        self.parts.get(&(kind, namespace, name)).copied()
    }

    /// PodDecorations of the namespace that count.
    #[must_use]
    pub fn decorations(&self, namespace: &str) -> &[&'a Object] {
        let all = self.decorations.get(namespace).map_or(&[] as &[_], Vec::as_slice);
        all.get(..crowd::MOST).unwrap_or(all)
    }

    /// Why the PodDecoration of this name does not count; `None`: it does.
    pub(crate) fn uncounted_decoration(&self, namespace: &str, name: &str) -> Option<String> {
        if !self.uncounted.contains(&(namespace, name)) {
            return None;
        }
        let count = self.decorations.get(namespace).map_or(0, Vec::len);
        let text = crowd::text("PodDecorations", namespace, count);
        Some(format!("{text}; the oldest count, and {name} is not among them"))
    }

    /// All SidecarSets, in the order of their names.
    pub(crate) fn sidecar_sets(&self) -> &[&'a Object] {
        &self.sidecar_sets
    }

    /// What they put into pods.
    pub(crate) const fn sidecar_injection(&self) -> Option<SidecarInjection<'a>> {
        self.sidecar_injection
    }

    /// Pods that have containers of the SidecarSet with this name, each with the version that it has.
    pub(crate) fn injected(&self, sidecar_set: &str) -> &[(&'a str, &'a PodView)] {
        self.injected.get(sidecar_set).map_or(&[], Vec::as_slice)
    }

    /// Labels of the CollaSet's pods without what decorations add; there are none in namespaces without decorations.
    pub(crate) fn undecorated(&self, set: &Object) -> Option<&Undecorated<'a>> {
        self.undecorated.get(set.id.uid.as_str())
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

    /// Objects whose controller is the one with this uid, and PersistentVolumeClaims that a CollaSet has without owning them.
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
}

/// The CollaSet that has the claim without owning it.
fn set_of_claim<'a>(claim: &Object, by_uid: &HashMap<&str, &'a Object>) -> Option<&'a Object> {
    let set = by_uid.get(of_claim(claim)?).copied()?;
    (matches!(set.body, Body::CollaSet(_)) && set.id.namespace == claim.id.namespace).then_some(set)
}

fn is_request(object: &Object) -> bool {
    matches!(object.body, Body::Request(_))
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
