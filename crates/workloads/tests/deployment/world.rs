//! A namespace with one Deployment: objects as JSON with resourceVersions, the guard policy, and (in `controllers`) what the
//! Deployment and ReplicaSet controllers make of them.

#[cfg(test)]
mod controllers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_workloads::{BadVersion, Kind, Object, Pause, Plan, PodIntent, Write, registry};
use hitless_world::carry_out;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

const DEPLOYMENT: &str = include_str!("fixtures/deployment.json");
const REPLICA_SET: &str = include_str!("fixtures/replicaset.json");
const POD: &str = include_str!("fixtures/pod.json");
pub(crate) const MARK: &str = "hitless.dev/rollout";
/// A label that says nothing but which release of a chart made the pod.
pub(crate) const CHART: &str = "helm.sh/chart";
/// What the pod's containers were started from, see [`runs`]; nobody but these tests reads it.
pub(crate) const RUNS: &str = "test/runs";

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) deployment: Value,
    pub(crate) sets: BTreeMap<String, Value>,
    pub(crate) pods: BTreeMap<String, Value>,
    version: u64,
}

/// Image of the template and its annotations, as text.
pub(crate) fn runs(template: &Value) -> Value {
    let mut annotations = template["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.remove("hitless.dev/mixed");
    json!(json!([template["spec"]["containers"][0]["image"], annotations]).to_string())
}

fn view(pod: &Value) -> Arc<PodView> {
    Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()))
}

pub(crate) fn image(version: u8) -> String {
    format!("registry.test:5000/echo:v{version}")
}

impl World {
    /// Deployment, ReplicaSet and pods of version 1, idle, with the given annotation value and number of pods.
    pub(crate) fn new(update: &str, replicas: u32) -> Self {
        let mut world = Self {
            deployment: serde_json::from_str(DEPLOYMENT).unwrap(),
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            version: 1000,
        };
        world.deployment["spec"]["replicas"] = json!(replicas);
        world.deployment["metadata"]["annotations"]["hitless.dev/update"] = json!(update);
        let mut set: Value = serde_json::from_str(REPLICA_SET).unwrap();
        set["spec"]["replicas"] = json!(0);
        set["status"] = json!({"replicas": 0, "observedGeneration": 1});
        world.sets.insert(set["metadata"]["name"].as_str().unwrap().to_owned(), set);
        world.settle();
        world
    }

    pub(crate) fn bump(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(crate) fn plan(&self, operating: &BTreeSet<String>) -> Plan {
        self.with(operating, |kind, deployment, world| kind.plan(deployment, world))
    }

    pub(crate) fn pause(&self) -> Option<Pause> {
        self.with(&BTreeSet::new(), |_, deployment, _| deployment.pause())
    }

    /// What is written when the pod echo-1 could not be brought to the version that is wanted now.
    pub(crate) fn halt(&self) -> Option<Write> {
        let why = BadVersion { pod: "echo-1", reason: "ErrImagePull", message: "not found" };
        self.with(&BTreeSet::new(), |kind, deployment, world| kind.halt(deployment, world, why))
    }

    /// What is written so that the version that is wanted now goes natively.
    pub(crate) fn natively(&self, why: &str) -> Option<Write> {
        self.with(&BTreeSet::new(), |kind, deployment, _| kind.natively(deployment, why))
    }

    /// What its owner writes to have it tried again.
    pub(crate) fn retry(&self) -> Result<Write, String> {
        self.with(&BTreeSet::new(), |kind, deployment, world| kind.retry(deployment, world))
    }

    /// Whether the version that is wanted now was complete before.
    pub(crate) fn is_way_back(&self) -> bool {
        self.with(&BTreeSet::new(), |kind, deployment, world| kind.way_back(deployment, world)).is_some()
    }

    /// Where an undo without a number leads, or why nowhere.
    pub(crate) fn whereto(&self, is_under_way: bool) -> Result<String, String> {
        let undo = self.with(&BTreeSet::new(), |kind, deployment, world| {
            hitless_workloads::undo::undo(kind, deployment, world, None, is_under_way)
        });
        undo.map(|undo| undo.to.to_string())
    }

    /// Its owner goes back without saying whereto.
    pub(crate) fn undo(&mut self) {
        let undone = self.with(&BTreeSet::new(), |kind, deployment, world| kind.undo(deployment, world, None));
        let write = undone.unwrap().write;
        let after = hitless_world::carry_out(&write, Some(&self.deployment), "0", "").unwrap().unwrap();
        self.user(|deployment| deployment["spec"] = after["spec"].clone());
    }

    fn with<T>(
        &self,
        operating: &BTreeSet<String>,
        ask: impl FnOnce(&dyn Kind, &Object, &hitless_workloads::World<'_>) -> T,
    ) -> T {
        let read = |object: &Value| Arc::new(registry::read(object.clone()).unwrap().unwrap());
        let objects: Vec<Arc<Object>> = std::iter::once(&self.deployment).chain(self.sets.values()).map(read).collect();
        let pods: Vec<Arc<PodView>> = self.pods.values().map(view).collect();
        let world = hitless_workloads::World::new(&objects, &pods, operating.clone());
        // A workload that nobody looks after is asked all the same.
        let deployment = &objects[0];
        ask(registry::of_workload(&deployment.id.group_kind).unwrap(), deployment, &world)
    }

    /// A write to the Deployment by anybody but our controller, with the guard policy in its way.
    pub(crate) fn user(&mut self, change: impl FnOnce(&mut Value)) {
        let old = self.deployment.clone();
        change(&mut self.deployment);
        let update = self.deployment["metadata"]["annotations"]["hitless.dev/update"].as_str();
        let opted = matches!(update, Some("in-place" | "in-place-only"));
        let running = self.deployment["spec"]["replicas"] != 0;
        let held = !old["metadata"]["annotations"][MARK].is_null() && old["spec"]["paused"] == true;
        if opted && running && (self.deployment["spec"]["template"] != old["spec"]["template"] || held) {
            self.deployment["metadata"]["annotations"][MARK] = json!("held");
            self.deployment["spec"]["paused"] = json!(true);
        }
        self.written(&old["spec"]);
    }

    /// A write to the Deployment was done, which had this spec before.
    fn written(&mut self, before: &Value) {
        self.deployment["metadata"]["resourceVersion"] = json!(self.bump());
        if self.deployment["spec"] != *before {
            let generation = self.deployment["metadata"]["generation"].as_i64().unwrap();
            self.deployment["metadata"]["generation"] = json!(generation + 1);
        }
    }

    pub(crate) fn set_image(&mut self, version: u8) {
        self.user(|deployment| {
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(version));
        });
    }

    /// Label `helm.sh/chart` of the template; 0: it has none.
    pub(crate) fn set_chart(&mut self, chart: u8) {
        self.user(|deployment| {
            let labels = deployment["spec"]["template"]["metadata"]["labels"].as_object_mut().unwrap();
            match chart {
                0 => _ = labels.remove(CHART),
                _ => _ = labels.insert(CHART.to_owned(), json!(chart.to_string())),
            }
        });
    }

    /// The values of that label that pods have.
    pub(crate) fn charts(&self) -> BTreeSet<String> {
        let chart = |pod: &Value| pod["metadata"]["labels"][CHART].as_str().unwrap_or_default().to_owned();
        self.pods.values().map(chart).collect()
    }

    /// The scale subresource: no policy in its way.
    pub(crate) fn scale(&mut self, replicas: u32) {
        let before = self.deployment["spec"].clone();
        self.deployment["spec"]["replicas"] = json!(replicas);
        self.written(&before);
    }

    pub(crate) fn delete_pod(&mut self, index: usize) {
        if let Some(name) = self.pods.keys().nth(index).cloned() {
            self.pods.remove(&name);
        }
    }

    /// What the API server does with one of our requests; `false` if a precondition fails.
    pub(crate) fn apply(&mut self, write: &Write) -> bool {
        let (version, now) = (self.bump(), controllers::created(self.version));
        let name = &write.on.name;
        let is_set = write.on.group_kind.kind == "ReplicaSet";
        let known = if is_set { self.sets.get(name) } else { Some(&self.deployment) };
        match carry_out(write, known, &version, &now) {
            Err(_) => return false,
            Ok(None) => _ = self.sets.remove(name),
            Ok(Some(object)) if is_set => {
                assert_selects(&object);
                self.sets.insert(name.clone(), object);
            }
            Ok(Some(object)) => self.deployment = object,
        }
        true
    }

    /// What an agent does, without the time that it takes: one patch that tests everything it replaces.
    pub(crate) fn operate(&mut self, intent: &PodIntent) -> bool {
        let version = self.bump();
        let Some(pod) = self.pods.values_mut().find(|pod| pod["metadata"]["uid"] == intent.pod.uid.as_str()) else {
            return false;
        };
        let mut next = pod.clone();
        for container in next["spec"]["containers"].as_array_mut().unwrap() {
            let Some(change) = intent.operation.containers.get(container["name"].as_str().unwrap()) else { continue };
            if container["image"] != change.from.as_str() {
                return false;
            }
            container["image"] = json!(change.to);
        }
        for (name, change) in &intent.operation.annotations {
            if next["metadata"]["annotations"][name].as_str() != change.from.as_deref() {
                return false;
            }
            next["metadata"]["annotations"][name] = json!(change.to);
        }
        for (name, change) in &intent.operation.labels {
            if next["metadata"]["labels"][name].as_str() != change.from.as_deref() {
                return false;
            }
            let labels = next["metadata"]["labels"].as_object_mut().unwrap();
            match &change.to {
                Some(value) => _ = labels.insert(name.clone(), json!(value)),
                None => _ = labels.remove(name),
            }
        }
        next["metadata"]["resourceVersion"] = json!(version);
        if intent.operation.containers.is_empty() {
            *pod = next;
            return true;
        }
        let runs = runs(&self.deployment["spec"]["template"]);
        assert_ne!(next["metadata"]["annotations"][RUNS], runs, "it runs that already");
        next["metadata"]["annotations"][RUNS] = runs;
        *pod = next;
        true
    }

    /// One step of our controller and the agents: the write of the plan, or the first operation.
    pub(crate) fn step(&mut self) -> bool {
        let plan = self.plan(&BTreeSet::new());
        if let Some(write) = plan.writes.first() {
            assert!(self.apply(write), "a write decided on the present state was refused: {write:?}");
            return true;
        }
        // What the round does (`hitless_rollout::round`).
        self.pause().is_none()
            && plan
                .desired
                .iter()
                .find_map(|wanted| wanted.intent.as_ref().ok())
                .is_some_and(|intent| self.operate(intent))
    }

    /// Everybody acts until nobody has anything to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..400 {
            let acted = [self.deployment_controller(), self.replica_set_controller(), self.step()];
            if acted == [false; 3] {
                return;
            }
        }
        panic!("never settles: {:?} {:#?}", self.plan(&BTreeSet::new()), self.sets);
    }

    pub(crate) fn sets_with_pods(&self) -> usize {
        let owners: BTreeSet<_> =
            self.pods.values().map(|pod| pod["metadata"]["ownerReferences"][0]["uid"].to_string()).collect();
        owners.len()
    }

    pub(crate) fn images(&self) -> BTreeSet<String> {
        self.pods.values().map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()).collect()
    }
}

/// A ReplicaSet whose selector does not match its template is refused by the API server, and one whose labels do not match
/// the Deployment's selector is let go by the Deployment controller.
fn assert_selects(set: &Value) {
    for (name, value) in set["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&set["spec"]["template"]["metadata"]["labels"][name], value, "selector and template");
        assert_eq!(&set["metadata"]["labels"][name], value, "selector and labels");
    }
}
