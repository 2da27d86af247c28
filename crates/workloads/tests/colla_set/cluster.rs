//! An API server with CollaSets, kubelets, and controllers that see it late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_workloads::{Object, Plan, Request, World, Write, registry};
use hitless_world::carry_out;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

pub(crate) const NOW: &str = "2026-11-23T00:00:00Z";

/// The API server's objects, by kind and name. Pods are among them.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) objects: BTreeMap<(String, String), Value>,
    version: u64,
    /// uids of pods that have left service for good.
    pub(crate) left: BTreeSet<String>,
    /// uids of pods whose removal is reserved.
    pub(crate) removable: BTreeSet<String>,
    /// Others delete pods as well.
    pub(crate) others_delete: bool,
    /// Writes that are refused, by verb: admission, quota.
    pub(crate) refused: BTreeSet<&'static str>,
}

/// What one controller sees.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    objects: BTreeMap<(String, String), Value>,
    pods: BTreeMap<(String, String), Value>,
    /// uids of pods with unfinished operations.
    pub(crate) operating: BTreeSet<String>,
    /// What the API server has said no to, by the write's key.
    refused: BTreeMap<String, String>,
    /// Dry runs that were accepted; `None`: nobody makes any.
    accepted: Option<BTreeSet<String>>,
    /// uids of pods whose removal is reserved.
    pub(crate) removable: BTreeSet<String>,
}

fn is_pod(key: &(String, String)) -> bool {
    key.0 == "Pod"
}

impl Cluster {
    /// With a CollaSet of so many pods.
    pub(crate) fn with(replicas: i64, more: &Value) -> Self {
        let mut set = json!({
            "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "set-uid", "resourceVersion": "1", "generation": 1},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "web:v1"}]}}},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            set["spec"][key] = value.clone();
        }
        let mut cluster = Self { version: 1, ..Self::default() };
        cluster.objects.insert(("CollaSet".into(), "web".into()), set);
        cluster
    }

    /// resourceVersion of the next write.
    pub(crate) fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(crate) fn set(&self) -> &Value {
        &self.objects[&("CollaSet".to_owned(), "web".to_owned())]
    }

    /// Revisions whose owner is gone go: also those that somebody has made since, who did not know it.
    pub(crate) fn collect_garbage(&mut self) {
        let uids: BTreeSet<String> = self
            .objects
            .values()
            .filter_map(|object| object["metadata"]["uid"].as_str().map(ToOwned::to_owned))
            .collect();
        self.objects.retain(|(kind, _), object| {
            let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
            kind != "ControllerRevision" || owner.is_none_or(|owner| uids.contains(owner))
        });
    }

    /// Somebody deletes the CollaSet: it is there until its last finalizer goes.
    pub(crate) fn delete_set(&mut self) {
        self.version += 1;
        let version = self.version.to_string();
        let known = self.objects.get_mut(&("CollaSet".to_owned(), "web".to_owned())).unwrap();
        known["metadata"]["deletionTimestamp"] = json!(NOW);
        known["metadata"]["resourceVersion"] = json!(version);
    }

    /// The same in the foreground: the garbage collector deletes all that it owns before anybody else has done anything.
    pub(crate) fn delete_set_in_foreground(&mut self) {
        let set = self.objects.get_mut(&("CollaSet".to_owned(), "web".to_owned())).unwrap();
        set["metadata"]["finalizers"].as_array_mut().unwrap().push(json!("foregroundDeletion"));
        self.delete_set();
        let is_own = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == "set-uid"))
        };
        self.objects.retain(|_, object| !is_own(object));
        let set = self.objects.get_mut(&("CollaSet".to_owned(), "web".to_owned())).unwrap();
        set["metadata"]["finalizers"].as_array_mut().unwrap().retain(|each| each != "foregroundDeletion");
    }

    pub(crate) fn has_set(&self) -> bool {
        self.objects.contains_key(&("CollaSet".to_owned(), "web".to_owned()))
    }

    /// Somebody sets a label of a pod, or takes it off.
    pub(crate) fn label(&mut self, pod: &str, name: &str, value: Option<&str>) {
        self.version += 1;
        let version = self.version.to_string();
        let Some(pod) = self.objects.get_mut(&("Pod".to_owned(), pod.to_owned())) else { return };
        pod["metadata"]["resourceVersion"] = json!(version);
        let labels = pod["metadata"]["labels"].as_object_mut().unwrap();
        match value {
            Some(value) => _ = labels.insert(name.to_owned(), json!(value)),
            None => _ = labels.remove(name),
        }
    }

    /// Names of the objects of a kind.
    pub(crate) fn names(&self, kind: &str) -> Vec<&str> {
        self.objects.keys().filter(|(known, _)| known == kind).map(|(_, name)| name.as_str()).collect()
    }

    /// Somebody changes the CollaSet's spec.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        let version = self.version.to_string();
        let known = self.objects.get_mut(&("CollaSet".to_owned(), "web".to_owned())).unwrap();
        change(&mut known["spec"]);
        known["metadata"]["generation"] = json!(known["metadata"]["generation"].as_i64().unwrap() + 1);
        known["metadata"]["resourceVersion"] = json!(version);
    }

    /// Pods of the CollaSet that are not being deleted.
    /// Names of pods whose ids are given up.
    pub(crate) fn given_up(&self) -> BTreeSet<String> {
        let context = self.objects.get(&("ResourceContext".to_owned(), "web".to_owned()));
        let all = context.and_then(|context| context["spec"]["contexts"].as_array()).into_iter().flatten();
        let given_up = all.filter(|each| each["data"].get("ScaleIn").is_some());
        given_up.filter_map(|each| each["data"]["hitless.dev/pod"].as_str().map(ToOwned::to_owned)).collect()
    }

    pub(crate) fn own_pods(&self) -> Vec<&Value> {
        self.pods().into_iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == "set-uid").collect()
    }

    /// All pods that are not being deleted.
    pub(crate) fn pods(&self) -> Vec<&Value> {
        let pods = self.objects.iter().filter(|(key, _)| is_pod(key)).map(|(_, pod)| pod);
        pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
    }

    pub(crate) fn pod_names(&self) -> Vec<&str> {
        self.pods().into_iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect()
    }

    pub(crate) fn uids(&self) -> Vec<String> {
        self.pods().into_iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
    }

    /// The ids that pods have.
    pub(crate) fn ids(&self) -> Vec<i32> {
        let id = |pod: &Value| pod["metadata"]["labels"]["collaset.kusionstack.io/instance-id"].as_str()?.parse().ok();
        let mut ids: Vec<i32> = self.pods().into_iter().filter_map(id).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn images(&self) -> Vec<String> {
        let image = |pod: &'_ Value| pod["spec"]["containers"][0]["image"].as_str().map(ToOwned::to_owned);
        let mut images: Vec<String> = self.pods().into_iter().filter_map(image).collect();
        images.sort_unstable();
        images
    }

    /// Kubelets start and end containers: all new pods get ready, all that are being deleted go.
    pub(crate) fn kubelets(&mut self) {
        let keys: Vec<_> = self.objects.keys().filter(|key| is_pod(key)).cloned().collect();
        for key in keys {
            self.kubelet(&key);
        }
    }

    /// The same for one pod.
    pub(crate) fn kubelet(&mut self, key: &(String, String)) {
        let Some(pod) = self.objects.get_mut(key) else { return };
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            self.objects.remove(key);
            return;
        }
        if pod["status"].is_null() {
            self.version += 1;
            pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
            pod["status"] = json!({"conditions": [{"type": "Ready", "status": "True"},
                {"type": "hitless.dev/InService", "status": "True"}]});
        }
    }

    /// Somebody, or the controller, deletes a pod: it is there until its kubelet has ended it.
    pub(crate) fn delete_pod(&mut self, name: &str) {
        self.version += 1;
        let version = self.version.to_string();
        if let Some(pod) = self.objects.get_mut(&("Pod".to_owned(), name.to_owned())) {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
            pod["metadata"]["resourceVersion"] = json!(version);
        }
    }

    /// An agent has operated the pod as is wanted.
    pub(crate) fn operate(&mut self, plan: &Plan) {
        for wanted in &plan.desired {
            let Ok(intent) = &wanted.intent else { continue };
            self.version += 1;
            let version = self.version.to_string();
            let Some(pod) = self.objects.get_mut(&("Pod".to_owned(), wanted.pod.name.clone())) else { continue };
            if wanted.removal.is_some() {
                self.removable.insert(wanted.pod.uid.clone());
                continue;
            }
            if intent.operation.op == hitless_api::GrantOp::Drain {
                self.left.insert(wanted.pod.uid.clone());
                continue;
            }
            pod["metadata"]["resourceVersion"] = json!(version);
            for (label, change) in &intent.operation.labels {
                pod["metadata"]["labels"][label] = json!(change.to);
            }
            for (name, change) in &intent.operation.annotations {
                pod["metadata"]["annotations"][name] = json!(change.to);
            }
            for (container, change) in &intent.operation.containers {
                let all = pod["spec"]["containers"].as_array_mut().into_iter().flatten();
                all.filter(|each| each["name"] == container.as_str()).for_each(|each| each["image"] = json!(change.to));
            }
        }
    }

    /// Carries a write out; whether it succeeded. The object as it is then goes into the view of whoever has asked.
    pub(crate) fn write(&mut self, write: &Write, seen: &mut Seen) -> bool {
        if self.refused.contains(write.verb) {
            return false;
        }
        let key = (write.on.group_kind.kind.to_string(), write.on.name.clone());
        self.version += 1;
        let known = self.objects.get(&key).cloned();
        let version = self.version.to_string();
        let Ok(stored) = carry_out(write, known.as_ref(), &version, NOW) else { return false };
        if matches!(write.request, Request::Absent { .. } | Request::Try(_)) {
            return true;
        }
        if write.verb == "delete-pod" {
            self.check_pair(write);
        }
        match (stored, is_pod(&key)) {
            (None, true) => self.delete_pod(&key.1),
            (None, false) => _ = self.objects.remove(&key),
            (Some(object), _) => _ = self.objects.insert(key.clone(), object),
        }
        let is_over = |set: &Value| {
            !set["metadata"]["deletionTimestamp"].is_null()
                && set["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
        };
        if key.0 == "CollaSet" && self.objects.get(&key).is_some_and(is_over) {
            self.objects.remove(&key);
        }
        let view = if is_pod(&key) { &mut seen.pods } else { &mut seen.objects };
        match self.objects.get(&key) {
            Some(object) => _ = view.insert(key, object.clone()),
            None => _ = view.remove(&key),
        }
        true
    }
}

impl Cluster {
    /// A pod that goes because another one replaces it never goes without the other. Where others delete pods, too, nobody can tell.
    fn check_pair(&self, write: &Write) {
        let looked_at = write.needs.iter().find_map(|needed| needed.strip_prefix("look-at-successor/"));
        let Some((_, new)) = looked_at.and_then(|key| key.rsplit_once('/')).filter(|_| !self.others_delete) else {
            return;
        };
        let pod = &self.objects[&("Pod".to_owned(), new.to_owned())];
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{} goes, and so does {new}", write.on.name);
    }
}

impl Seen {
    /// As the cluster is now.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let mut seen = Self { removable: cluster.removable.clone(), ..Self::default() };
        seen.follow_objects(cluster);
        seen.follow_pods(cluster);
        seen
    }

    pub(crate) fn follow_objects(&mut self, cluster: &Cluster) {
        self.objects = cluster.objects.iter().filter(|(key, _)| !is_pod(key)).map(clone).collect();
    }

    pub(crate) fn follow_pods(&mut self, cluster: &Cluster) {
        self.pods = cluster.objects.iter().filter(|(key, _)| is_pod(key)).map(clone).collect();
    }

    /// The plan for the CollaSet, with the writes and notes of the PodDecorations' plans at its end.
    pub(crate) fn plan(&self, left: &BTreeSet<String>) -> Plan {
        self.plan_at(left, NOW)
    }

    /// The same where the API server has said no to these writes.
    pub(crate) fn plan_refusing(&self, refused: &BTreeMap<String, String>) -> Plan {
        Self { refused: refused.clone(), ..self.clone() }.plan(&BTreeSet::new())
    }

    /// The same for somebody who asks the API server beforehand, and these dry runs were accepted.
    pub(crate) fn asking(self, accepted: &[String]) -> Self {
        Self { accepted: Some(accepted.iter().cloned().collect()), ..self }
    }

    /// The same at another time.
    pub(crate) fn plan_at(&self, left: &BTreeSet<String>, now: &str) -> Plan {
        self.plan_of("web", left, now)
    }

    /// The same for the CollaSet with this name.
    pub(crate) fn plan_of(&self, name: &str, left: &BTreeSet<String>, now: &str) -> Plan {
        let objects: Vec<Arc<Object>> =
            self.objects.values().map(|object| Arc::new(registry::read(object.clone()).unwrap().unwrap())).collect();
        let view = |pod: &Value| Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()));
        let pods: Vec<Arc<PodView>> = self.pods.values().map(view).collect();
        let world =
            World::new(&objects, &pods, self.operating.clone()).after(left.clone()).removing(self.removable.clone());
        let world = world.at(&pods, now.parse().unwrap());
        let world = world.refusing(self.refused.clone()).accepting(self.accepted.clone());
        let is_set = |plan: &Plan| plan.workload.group_kind.kind == "CollaSet";
        let (sets, decorations): (Vec<Plan>, Vec<Plan>) = world.plans().into_iter().partition(is_set);
        let mut plan = sets.into_iter().find(|plan| plan.workload.name == name).unwrap();
        for other in decorations {
            plan.writes.extend(other.writes);
            plan.notes.extend(other.notes);
        }
        plan
    }
}

fn clone((key, value): (&(String, String), &Value)) -> ((String, String), Value) {
    (key.clone(), value.clone())
}

/// Carries out the writes of a plan, as the controller does; at most so many of them.
pub(crate) fn carry_out_plan(cluster: &mut Cluster, seen: &mut Seen, plan: &Plan, most: usize) -> bool {
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut changed = false;
    for write in plan.writes.iter().take(most) {
        if !write.needs.iter().all(|needed| done.contains(needed)) {
            continue;
        }
        if cluster.write(write, seen) {
            done.insert(write.key());
            changed |= !write.is_confirmation();
        }
    }
    changed
}

/// One controller that sees everything, until nothing is left to do. `operates`: agents do what is wanted.
pub(crate) fn settle(cluster: &mut Cluster, operates: bool) -> Plan {
    for _ in 0..200 {
        let mut seen = Seen::of(cluster);
        let plan = seen.plan(&cluster.left);
        let mut changed = carry_out_plan(cluster, &mut seen, &plan, usize::MAX);
        if operates && !plan.desired.is_empty() {
            cluster.operate(&plan);
            changed = true;
        }
        let before = cluster.objects.clone();
        cluster.kubelets();
        cluster.collect_garbage();
        if !changed && before == cluster.objects {
            return plan;
        }
    }
    panic!("it never comes to rest");
}
