//! A namespace with pods and one kind of request, and what is done to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{Grant, GroupKind};
use hitless_workloads::requests::operation_job::OperationJobs;
use hitless_workloads::requests::restart::Restarts;
use hitless_workloads::{DesiredOperation, OperationFailures, Reports, RequestContext, RequestKind, World, registry};
use hitless_world::carry_out;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

pub(crate) const JOB: &str = "job-uid-again";

/// A namespace with pods and one kind of request.
pub(crate) struct Shop {
    pub(crate) kind: &'static dyn RequestKind,
    pub(crate) now: Timestamp,
    pub(crate) objects: BTreeMap<String, Value>,
    pub(crate) pods: BTreeMap<String, Value>,
    /// Tokens of restarts that are under way, by uid of the pod.
    pub(crate) granted: BTreeMap<String, String>,
    pub(crate) failures: OperationFailures,
    pub(crate) unreadable: BTreeSet<GroupKind>,
    pub(crate) left: BTreeSet<GroupKind>,
    version: u32,
}

pub(crate) fn job(name: &str, spec: &Value) -> Value {
    let mut job = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "OperationJob",
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"action": "Restart", "activeDeadlineSeconds": 100, "TTLSecondsAfterFinished": 50}});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

pub(crate) fn targets(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

impl Shop {
    pub(crate) fn new(spec: &Value) -> Self {
        Self::of(&OperationJobs, job("again", spec))
    }

    /// With this object and three pods.
    pub(crate) fn of(kind: &'static dyn RequestKind, object: Value) -> Self {
        let mut shop = Self {
            kind,
            now: "2026-01-01T00:00:30Z".parse().unwrap(),
            objects: BTreeMap::new(),
            pods: BTreeMap::new(),
            granted: BTreeMap::new(),
            failures: OperationFailures::default(),
            unreadable: BTreeSet::new(),
            left: BTreeSet::new(),
            version: 100,
        };
        shop.objects.insert("again".to_owned(), object);
        for name in ["a", "b", "c"] {
            shop.add_pod(name, "2025-12-31T00:00:00Z");
        }
        shop
    }

    pub(crate) fn add_pod(&mut self, name: &str, created: &str) {
        let container = |each: &str| json!({"name": each, "image": "r.io/web:v1"});
        let status = |each: &str| {
            json!({"name": each, "imageID": "r.io/web@sha256:1", "image": "", "ready": true, "restartCount": 0,
                "containerID": "containerd://1"})
        };
        let pod = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}-{created}"), "resourceVersion": "1",
                "creationTimestamp": created, "annotations": {}, "labels": {}},
            "spec": {"nodeName": "n", "containers": [container("web"), container("side")]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [status("web"), status("side")]},
        });
        self.pods.insert(name.to_owned(), pod);
    }

    pub(crate) fn uid(&self, pod: &str) -> String {
        self.pods[pod]["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&RequestContext<'_, '_>) -> T) -> T {
        let objects: Vec<_> =
            self.objects.values().map(|object| Arc::new(registry::read(object.clone()).unwrap().unwrap())).collect();
        let view = |pod: &Value| Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap()));
        let pods: Vec<_> = self.pods.values().map(view).collect();
        let world = World::new(&objects, &pods, self.granted.keys().cloned().collect());
        let granted: HashMap<&str, &str> =
            self.granted.iter().map(|(uid, token)| (uid.as_str(), token.as_str())).collect();
        let context = RequestContext::new(&pods, &world, &|_| None, &granted, self.now);
        look(&context.without(&self.unreadable, &self.left))
    }

    pub(crate) fn desired(&self) -> Vec<DesiredOperation> {
        self.with(|context| self.kind.desired(context))
    }

    pub(crate) fn wanted(&self) -> Vec<String> {
        self.desired().into_iter().map(|wanted| wanted.pod.name).collect()
    }

    /// The controller's turn, until nothing is left to write.
    pub(crate) fn settle(&mut self) -> Reports {
        for _ in 0..9 {
            let reports = self.with(|context| self.kind.report(context, &self.failures));
            if reports.writes.is_empty() {
                return reports;
            }
            for write in &reports.writes {
                self.version += 1;
                let stored = if write.on.group_kind.is("", "Pod") { &mut self.pods } else { &mut self.objects };
                let next = carry_out(write, stored.get(&write.on.name), &self.version.to_string(), "").unwrap();
                match next {
                    Some(object) => _ = stored.insert(write.on.name.clone(), object),
                    None => _ = stored.remove(&write.on.name),
                }
            }
        }
        panic!("it writes for ever: {:?}", self.objects)
    }

    /// An agent begins to restart the pod for the job, or ends.
    pub(crate) fn begin(&mut self, pod: &str) {
        self.begin_by(pod, JOB);
    }

    pub(crate) fn end(&mut self, pod: &str) {
        self.end_by(pod, JOB);
    }

    /// The same with another token.
    pub(crate) fn begin_by(&mut self, pod: &str, token: &str) {
        self.granted.insert(self.uid(pod), token.to_owned());
    }

    pub(crate) fn end_by(&mut self, pod: &str, token: &str) {
        self.granted.remove(&self.uid(pod));
        self.pods.get_mut(pod).unwrap()["metadata"]["annotations"]["hitless.dev/restarted"] = token.into();
    }

    pub(crate) fn status(&self) -> &Value {
        &self.objects["again"]["status"]
    }

    /// Progress of each target, with the reason if it has failed.
    pub(crate) fn progress(&self) -> Vec<String> {
        let details = self.status()["targetDetails"].as_array().cloned().unwrap_or_default();
        let text = |detail: &Value| {
            let word = detail["progress"].as_str().unwrap();
            detail["error"]["reason"].as_str().map_or_else(|| word.to_owned(), |reason| format!("{word}:{reason}"))
        };
        details.iter().map(text).collect()
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    pub(crate) fn wants(&self, pod: &str, token: &str) -> bool {
        let grant: Grant = serde_json::from_value(json!({
            "id": "g", "epoch": 1, "pod": {"namespace": "shop", "name": pod, "uid": self.uid(pod)}, "op": "Restart", "mode": "Leave",
            "containers": {}, "before": {}, "annotations": {"hitless.dev/restarted": {"to": token}}, "drain": {}, "verify": {},
            "granted": "2026-01-01T00:00:00.000000Z", "ttlSeconds": 60}))
        .unwrap();
        self.with(|context| {
            let known = context.pods.iter().find(|known| known.id.name == pod).map(|pod| &**pod);
            self.kind.wants(&grant, known, context) || Restarts.wants(&grant, known, context)
        })
    }
}
