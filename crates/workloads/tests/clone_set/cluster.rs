//! An API server with a CloneSet, kubelets, and controllers that see it late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::GrantOp;
use hitless_api::pod::PodView;
use hitless_workloads::{Hook, Object, Plan, Request, Undo, World, Write, registry};
use hitless_world::carry_out;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

pub(crate) const NOW: &str = "2026-11-23T00:00:00Z";

type Key = (String, String);
type Objects = BTreeMap<Key, Value>;

fn set_key() -> Key {
    ("CloneSet".to_owned(), "web".to_owned())
}

fn is_pod(key: &Key) -> bool {
    key.0 == "Pod"
}

/// The API server's objects, by kind and name.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) objects: Objects,
    version: u64,
    /// uids of pods that have left service for good.
    pub(crate) left: BTreeSet<String>,
    /// uids of pods whose removal is reserved.
    pub(crate) removable: BTreeSet<String>,
    /// uids of pods with an operation under way.
    pub(crate) operating: BTreeSet<String>,
    /// Writes that are refused, by verb.
    pub(crate) refused: BTreeSet<&'static str>,
    /// Images whose pods never get Ready.
    pub(crate) broken: BTreeSet<&'static str>,
    /// Pods that are being deleted stay.
    pub(crate) keeps_terminating: bool,
}

/// What one controller sees.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    objects: Objects,
    pods: Objects,
    removable: BTreeSet<String>,
    operating: BTreeSet<String>,
    /// What the API server has said no to, by the write's key.
    pub(crate) refused: BTreeMap<String, String>,
}

impl Cluster {
    /// With a CloneSet of so many pods, and these fields of its spec.
    pub(crate) fn with(replicas: i64, more: &Value) -> Self {
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "set-uid", "resourceVersion": "1", "generation": 1},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "web:v1"}]}}},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            set["spec"][key] = value.clone();
        }
        let objects = [(set_key(), set)].into();
        Self { objects, version: 1, ..Self::default() }
    }

    /// The same once all pods are there.
    pub(crate) fn running(replicas: i64, more: &Value) -> Self {
        let mut cluster = Self::with(replicas, more);
        settle(&mut cluster);
        cluster
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(crate) fn set(&self) -> &Value {
        &self.objects[&set_key()]
    }

    pub(crate) fn status(&self, field: &str) -> i64 {
        self.set()["status"][field].as_i64().unwrap_or_default()
    }

    /// Somebody changes the CloneSet's spec.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let version = self.next_version();
        let known = self.objects.get_mut(&set_key()).unwrap();
        change(&mut known["spec"]);
        known["metadata"]["generation"] = json!(known["metadata"]["generation"].as_i64().unwrap() + 1);
        known["metadata"]["resourceVersion"] = json!(version);
    }

    pub(crate) fn image(&mut self, image: &str) {
        self.change(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!(image));
    }

    /// Pods that are not being deleted.
    pub(crate) fn pods(&self) -> Vec<&Value> {
        let pods = self.objects.iter().filter(|(key, _)| is_pod(key)).map(|(_, pod)| pod);
        pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
    }

    pub(crate) fn pod_names(&self) -> BTreeSet<String> {
        self.pods().into_iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn uids(&self) -> BTreeSet<String> {
        self.pods().into_iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
    }

    /// Names of pods whose ids are given up: whatever comes, they are deleted.
    pub(crate) fn given_up(&self) -> BTreeSet<String> {
        let text = self.set()["metadata"]["annotations"]["hitless.dev/instances"].as_str().unwrap_or("{}");
        let journal: Value = serde_json::from_str(text).unwrap();
        let entries = journal["pods"].as_array().into_iter().flatten().filter_map(Value::as_str);
        entries.filter(|entry| entry[5..].contains('s')).map(|entry| format!("web-{}", &entry[..5])).collect()
    }

    pub(crate) fn names(&self, kind: &str) -> BTreeSet<String> {
        self.objects.keys().filter(|(known, _)| known == kind).map(|(_, name)| name.clone()).collect()
    }

    pub(crate) fn images(&self) -> Vec<String> {
        let image = |pod: &'_ Value| pod["spec"]["containers"][0]["image"].as_str().map(ToOwned::to_owned);
        let mut images: Vec<String> = self.pods().into_iter().filter_map(image).collect();
        images.sort_unstable();
        images
    }

    /// How many pods run this image, and how many are available.
    pub(crate) fn count(&self, image: &str) -> usize {
        self.images().iter().filter(|known| *known == image).count()
    }

    pub(crate) fn available(&self) -> usize {
        let serves = |pod: &&&Value| {
            pod["status"]["conditions"][0]["status"] == "True"
                && !self.left.contains(pod["metadata"]["uid"].as_str().unwrap())
        };
        self.pods().iter().filter(serves).count()
    }

    /// Somebody sets a label of a pod.
    pub(crate) fn label(&mut self, pod: &str, name: &str, value: &str) {
        let version = self.next_version();
        let pod = self.objects.get_mut(&("Pod".to_owned(), pod.to_owned())).unwrap();
        pod["metadata"]["resourceVersion"] = json!(version);
        pod["metadata"]["labels"][name] = json!(value);
    }

    /// Somebody takes a label off a pod.
    pub(crate) fn unlabel(&mut self, pod: &str, name: &str) {
        let version = self.next_version();
        let pod = self.objects.get_mut(&("Pod".to_owned(), pod.to_owned())).unwrap();
        pod["metadata"]["resourceVersion"] = json!(version);
        pod["metadata"]["labels"].as_object_mut().unwrap().remove(name);
    }

    /// Upstream's state of the pods, each once.
    pub(crate) fn states(&self) -> BTreeSet<&str> {
        self.objects
            .iter()
            .filter(|(key, pod)| is_pod(key) && pod["metadata"]["deletionTimestamp"].is_null())
            .filter_map(|(_, pod)| pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"].as_str())
            .collect()
    }

    /// Agents begin with all pods: they are out of service.
    pub(crate) fn begin(&mut self) {
        self.operating = self.uids();
        self.serve(false);
    }

    /// The operations of all pods are over, and the pods are back.
    pub(crate) fn end(&mut self) {
        self.operating.clear();
        self.serve(true);
    }

    fn serve(&mut self, serves: bool) {
        let status = if serves { "True" } else { "False" };
        for pod in self.pod_names() {
            let version = self.next_version();
            let pod = self.objects.get_mut(&("Pod".to_owned(), pod)).unwrap();
            pod["metadata"]["resourceVersion"] = json!(version);
            for condition in pod["status"]["conditions"].as_array_mut().unwrap() {
                condition["status"] = json!(status);
            }
        }
    }

    /// A pod is not Ready any more.
    pub(crate) fn breaks(&mut self, pod: &str) {
        let version = self.next_version();
        let pod = self.objects.get_mut(&("Pod".to_owned(), pod.to_owned())).unwrap();
        pod["metadata"]["resourceVersion"] = json!(version);
        pod["status"]["conditions"][0]["status"] = json!("False");
    }

    /// Somebody, or the controller, deletes a pod: it is there until its kubelet has ended it.
    pub(crate) fn delete_pod(&mut self, name: &str) {
        let version = self.next_version();
        if let Some(pod) = self.objects.get_mut(&("Pod".to_owned(), name.to_owned())) {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
            pod["metadata"]["resourceVersion"] = json!(version);
        }
    }

    /// Kubelets start and end containers: all new pods get ready, all that are being deleted go.
    pub(crate) fn kubelets(&mut self) {
        let keys: Vec<Key> = self.objects.keys().filter(|key| is_pod(key)).cloned().collect();
        for key in keys {
            let is_leaving = !self.objects[&key]["metadata"]["deletionTimestamp"].is_null();
            if is_leaving && !self.keeps_terminating {
                self.objects.remove(&key);
                continue;
            }
            let version = self.next_version();
            let pod = self.objects.get_mut(&key).unwrap();
            if pod["status"].is_null() {
                let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
                let ready = if self.broken.contains(image.as_str()) { "False" } else { "True" };
                pod["metadata"]["resourceVersion"] = json!(version);
                pod["spec"]["nodeName"] = json!("n1");
                let digest = format!("docker.io/library/web@sha256:{}", "a".repeat(64));
                pod["status"] = json!({"containerStatuses": [{"name": "web", "image": image, "imageID": digest, "containerID": "containerd://1",
                    "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}], "conditions": [{"type": "Ready", "status": ready},
                    {"type": "hitless.dev/InService", "status": "True"}]});
            }
        }
    }

    /// An agent has operated the pod as one of the wishes says.
    pub(crate) fn operate(&mut self, plan: &Plan, most: usize) {
        for wanted in plan.desired.iter().take(most) {
            let Ok(intent) = &wanted.intent else { continue };
            let version = self.next_version();
            if wanted.removal.is_some() {
                self.removable.insert(wanted.pod.uid.clone());
                continue;
            }
            if intent.operation.op == GrantOp::Drain {
                self.left.insert(wanted.pod.uid.clone());
                continue;
            }
            let Some(pod) = self.objects.get_mut(&("Pod".to_owned(), wanted.pod.name.clone())) else { continue };
            pod["metadata"]["resourceVersion"] = json!(version);
            for (label, change) in &intent.operation.labels {
                pod["metadata"]["labels"][label] = json!(change.to);
            }
            let annotations = pod["metadata"].as_object_mut().unwrap().entry("annotations").or_insert(json!({}));
            for (name, change) in &intent.operation.annotations {
                annotations[name] = json!(change.to);
            }
            annotations.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            for (container, change) in &intent.operation.containers {
                let all = pod["spec"]["containers"].as_array_mut().into_iter().flatten();
                all.filter(|each| each["name"] == container.as_str()).for_each(|each| each["image"] = json!(change.to));
            }
        }
    }

    /// Carries a write out; whether it succeeded. The object as it is then goes into the view of whoever has asked.
    fn write(&mut self, write: &Write, seen: &mut Seen) -> bool {
        if self.refused.contains(write.verb) {
            seen.refused.insert(write.key(), "exceeded quota".to_owned());
            return false;
        }
        let key = (write.on.group_kind.kind.to_string(), write.on.name.clone());
        let version = self.next_version();
        let known = self.objects.get(&key).cloned();
        let Ok(stored) = carry_out(write, known.as_ref(), &version, NOW) else { return false };
        if matches!(write.request, Request::Absent { .. } | Request::Try(_)) {
            return true;
        }
        match (stored, is_pod(&key)) {
            (None, true) => self.delete_pod(&key.1),
            (None, false) => _ = self.objects.remove(&key),
            (Some(object), _) => _ = self.objects.insert(key.clone(), object),
        }
        let view = if is_pod(&key) { &mut seen.pods } else { &mut seen.objects };
        match self.objects.get(&key) {
            Some(object) => _ = view.insert(key, object.clone()),
            None => _ = view.remove(&key),
        }
        true
    }
}

impl Seen {
    /// As the cluster is now.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let (removable, operating) = (cluster.removable.clone(), cluster.operating.clone());
        let mut seen = Self { removable, operating, ..Self::default() };
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

    pub(crate) fn plan(&self, left: &BTreeSet<String>) -> Plan {
        self.plan_at(left, NOW)
    }

    /// What its owner writes to go back.
    pub(crate) fn undo(&self, to_revision: Option<u64>) -> Result<Undo, String> {
        let objects: Vec<Arc<Object>> =
            self.objects.values().map(|object| Arc::new(registry::read(object.clone()).unwrap().unwrap())).collect();
        let world = World::new(&objects, &[], BTreeSet::new());
        let set = objects.iter().find(|object| object.clone_set().is_some()).unwrap();
        registry::of_workload(&set.id.group_kind).unwrap().undo(set, &world, to_revision)
    }

    /// What a hook still wants before this is done to the pod.
    pub(crate) fn hook(&self, pod: &str, op: &GrantOp) -> Option<String> {
        let set = registry::read(self.objects[&set_key()].clone()).unwrap().unwrap();
        let pod = self.pods[&("Pod".to_owned(), pod.to_owned())].clone();
        let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
        match registry::of_workload(&set.id.group_kind).unwrap().hook(&set, &pod, op) {
            Hook::Pending(words) => Some(words),
            Hook::Over | Hook::Absent => None,
        }
    }

    /// The same at another time.
    pub(crate) fn plan_at(&self, left: &BTreeSet<String>, now: &str) -> Plan {
        let objects: Vec<Arc<Object>> =
            self.objects.values().map(|object| Arc::new(registry::read(object.clone()).unwrap().unwrap())).collect();
        let view = |pod: &Value| Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()));
        let pods: Vec<Arc<PodView>> = self.pods.values().map(view).collect();
        let world =
            World::new(&objects, &pods, self.operating.clone()).after(left.clone()).removing(self.removable.clone());
        let world = world.at(&pods, now.parse().unwrap()).refusing(self.refused.clone());
        world.plans().into_iter().find(|plan| plan.workload.name == "web").unwrap()
    }
}

fn clone((key, value): (&Key, &Value)) -> (Key, Value) {
    (key.clone(), value.clone())
}

/// Carries out the writes of a plan, as the controller does; at most so many of them. Says whether anything changed.
pub(crate) fn carry_out_plan(cluster: &mut Cluster, seen: &mut Seen, plan: &Plan, most: usize) -> bool {
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut changed = false;
    for write in plan.writes.iter().take(most) {
        if write.needs.iter().all(|needed| done.contains(needed)) && cluster.write(write, seen) {
            done.insert(write.key());
            changed |= !write.is_confirmation();
        }
    }
    changed
}

/// One controller that sees everything carries out what it would, until only operations of pods are left. `kubelets`: they do their part.
pub(crate) fn rest(cluster: &mut Cluster, kubelets: bool) -> Plan {
    for _ in 0..200 {
        let mut seen = Seen::of(cluster);
        let plan = seen.plan(&cluster.left);
        let changed = carry_out_plan(cluster, &mut seen, &plan, usize::MAX);
        let before = cluster.objects.clone();
        if kubelets {
            cluster.kubelets();
        }
        if !changed && before == cluster.objects {
            return plan;
        }
    }
    panic!("it never comes to rest: {:?}", Seen::of(cluster).plan(&cluster.left).writes);
}

/// The same, and agents do what is wished, until nothing is left to do.
pub(crate) fn settle(cluster: &mut Cluster) -> Plan {
    for _ in 0..200 {
        let plan = rest(cluster, true);
        let before = (cluster.objects.clone(), cluster.left.clone(), cluster.removable.clone());
        cluster.operate(&plan, usize::MAX);
        if before == (cluster.objects.clone(), cluster.left.clone(), cluster.removable.clone()) {
            return plan;
        }
    }
    panic!("it never comes to its end");
}
