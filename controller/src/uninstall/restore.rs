//! One pass over everything that hitless may have left in somebody else's object.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::names::{self, labels};
use hitless_api::pod::PodView;
use hitless_api::{GroupKind, PodRef};
use hitless_rollout::mode::ServiceView;
use hitless_runtime::list;
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::object::ReadError;
use hitless_workloads::{Component, Installed, Kind, Object, Resource, Write, kind};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::companions::{Farewell, farewells};
use crate::{watches, writer};
use hitless_rollout::round::ServiceWrite;

#[derive(Debug, thiserror::Error)]
pub(super) enum RestoreError {
    #[error("reading: {0}")]
    Read(#[source] WriteError),
    #[error("writing: {0}")]
    Write(#[source] WriteError),
    #[error("an object is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{name} cannot be understood, and is left as it is: {error}")]
    Parse {
        name: String,
        #[source]
        error: ReadError,
    },
}

/// One write that puts something back.
#[derive(Debug, PartialEq)]
enum Restore {
    Workload(Box<Write>),
    Close(ServiceWrite),
    Raise {
        pod: PodRef,
        resource_version: String,
    },
    /// A companion pod that serves.
    Lower {
        pod: PodRef,
        resource_version: String,
    },
    /// A pod of ours that fetches an image, or a companion pod that serves nobody.
    Delete(PodRef),
}

/// What a pass did.
#[derive(Default)]
pub(super) struct Passed {
    /// Objects that were changed, by us or by somebody who was faster.
    pub(super) changed: usize,
    /// Companion pods that are waited for, and why.
    pub(super) waiting: Vec<(PodRef, &'static str)>,
    /// The first request that failed. The others were sent all the same: what one object's owner refuses, or one resource that
    /// cannot be read, is no reason to leave another's pods out of service.
    pub(super) failed: Option<RestoreError>,
}

impl Passed {
    fn take<T: Default>(&mut self, answer: Result<T, RestoreError>) -> T {
        answer.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            T::default()
        })
    }
}

/// Puts back what is to be put back now.
pub(super) async fn pass(client: &Client, components: &[Component], writes: &Writes) -> Passed {
    let mut passed = Passed::default();
    let pods = passed.take(pods(client).await.map_err(RestoreError::Read));
    let mut wanted: Vec<Restore> = raise(&pods).chain(delete(&pods)).collect();
    let mut without_parts: Vec<&GroupKind> = Vec::new();
    for (kind, resource) in uninstalled(components) {
        // A workload that is let go may need its parts: it waits until they can be read.
        if without_parts.contains(&&resource.group_kind) {
            continue;
        }
        let api = Api::all_with(client.clone(), &watches::api_resource(resource));
        let released = released(kind, resource, &api).await;
        if released.is_err() {
            without_parts.extend(kind.resources().first().map(|workload| &workload.group_kind));
        }
        for restore in passed.take(released) {
            wanted.extend(passed.take(restore.map(Some)));
        }
    }
    let services: Api<Service> = Api::all(client.clone());
    let services =
        list::all(&services, ListParams::default(), |service| Some(Arc::new(ServiceView::from(&service)))).await;
    match services {
        Ok(services) => {
            wanted.extend(close(&services));
            for farewell in farewells(&pods, &services, jiff::Timestamp::now()) {
                match farewell {
                    Farewell::Delete(pod) => wanted.push(Restore::Delete(pod)),
                    Farewell::Lower { pod, resource_version } => wanted.push(Restore::Lower { pod, resource_version }),
                    Farewell::Wait(pod, why) => passed.waiting.push((pod, why)),
                }
            }
        }
        // Without them nobody knows whether a companion has clients.
        Err(error) => passed.take(Err(RestoreError::Read(error))),
    }
    let restorer = Restorer { client, writes };
    for restore in &wanted {
        let answer = match restore {
            Restore::Workload(write) => restorer.workload(write).await,
            Restore::Close(write) => restorer.close(write).await,
            Restore::Raise { pod, resource_version } => restorer.in_service(pod, resource_version, true).await,
            Restore::Lower { pod, resource_version } => restorer.in_service(pod, resource_version, false).await,
            Restore::Delete(pod) => restorer.delete(pod).await,
        };
        let changed = passed.take(answer);
        passed.changed += changed;
    }
    passed
}

/// Those pods that something may have to be done about. A cluster has many, so they are looked at a page at a time: all are kept only
/// in namespaces with companion pods, which wait for the others there.
async fn pods(client: &Client) -> Result<Vec<Arc<PodView>>, WriteError> {
    let all: Api<Pod> = Api::all(client.clone());
    let companions = ListParams::default().labels(labels::COMPANION);
    let namespaces = list::all_metadata(&all, companions, |pod| pod.metadata.namespace).await?;
    let namespaces: BTreeSet<String> = namespaces.into_iter().collect();
    let matters = |pod: PodView| {
        let is_out = pod.gated && !pod.is(names::IN_SERVICE);
        let is_kept = is_out || pod.labels.contains_key(labels::PREFETCH) || namespaces.contains(&pod.id.namespace);
        is_kept.then(|| Arc::new(pod))
    };
    list::all(&all, ListParams::default(), |pod| matters(PodView::from(&pod))).await
}

/// Pods come first, because requests wait for them.
fn raise(pods: &[Arc<PodView>]) -> impl Iterator<Item = Restore> {
    pods.iter()
        .filter(|pod| pod.gated && !pod.terminating && !pod.finished && !pod.is(names::IN_SERVICE))
        .filter(|pod| !pod.labels.contains_key(labels::COMPANION))
        .map(|pod| Restore::Raise { pod: pod.id.clone(), resource_version: pod.resource_version.clone() })
}

fn delete(pods: &[Arc<PodView>]) -> impl Iterator<Item = Restore> {
    let ours = pods.iter().filter(|pod| pod.labels.contains_key(labels::PREFETCH) && !pod.terminating);
    ours.map(|pod| Restore::Delete(pod.id.clone()))
}

/// What workloads consist of comes before the workloads: one that is let go may need any of its parts.
fn uninstalled(components: &[Component]) -> impl Iterator<Item = (&'static dyn Kind, &'static Resource)> + use<> {
    let installed = Installed::with(components);
    let resources = kind::resources_of(&installed);
    let of_workloads = resources.filter_map(|(holder, resource)| Some((holder.workload()?, resource)));
    let mut all: Vec<_> = of_workloads.filter(|(_, resource)| !resource.uninstall_verbs.is_empty()).collect();
    all.sort_by_key(|(_, resource)| kind::of_workload(&resource.group_kind).is_some());
    all.into_iter()
}

fn release(kind: &dyn Kind, object: &Object) -> Option<Restore> {
    kind.release(object).map(|write| Restore::Workload(Box::new(write)))
}

/// Services that were opened for a Hold.
fn close(services: &[Arc<ServiceView>]) -> impl Iterator<Item = Restore> {
    services
        .iter()
        .filter(|service| service.held_by.is_some())
        .map(|service| Restore::Close(ServiceWrite::close(service)))
}

struct Restorer<'a> {
    client: &'a Client,
    writes: &'a Writes,
}

impl Restorer<'_> {
    async fn workload(&self, write: &Write) -> Result<usize, RestoreError> {
        let Some((_, resource)) = kind::resource(&write.on.group_kind) else { return Ok(0) };
        let api = Api::namespaced_with(self.client.clone(), &write.on.namespace, &watches::api_resource(resource));
        once(writer::send(self.writes, &api, resource, write).await.map(drop))
    }

    async fn close(&self, write: &ServiceWrite) -> Result<usize, RestoreError> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), &write.namespace);
        let (params, patch) = (PatchParams::default(), write.patch());
        once(self.writes.send("services", async { api.patch(&write.name, &params, &patch).await.map(drop) }).await)
    }

    async fn delete(&self, pod: &PodRef) -> Result<usize, RestoreError> {
        once(writer::delete_pod(self.writes, self.client, pod, None, None).await.map(drop))
    }

    async fn in_service(&self, pod: &PodRef, resource_version: &str, wanted: bool) -> Result<usize, RestoreError> {
        let status = if wanted { "True" } else { "False" };
        let now = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string();
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": pod.uid, "resourceVersion": resource_version},
            "status": {"conditions": [{
                "type": names::IN_SERVICE, "status": status, "reason": "Uninstalled",
                "message": "hitless is being uninstalled", "lastTransitionTime": now,
            }]},
        }));
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let params = PatchParams::default();
        let request = async { api.patch_status(&pod.name, &params, &patch).await.map(drop) };
        once(self.writes.send("pods/status", request).await)
    }
}

/// What somebody else changed meanwhile is for the next pass, which comes in any case: it counts as changed.
fn once(answer: Result<(), WriteError>) -> Result<usize, RestoreError> {
    match answer {
        Ok(()) => Ok(1),
        Err(error) if error.is_stale() => Ok(1),
        Err(error) => Err(RestoreError::Write(error)),
    }
}

/// What is to be done about the resource's objects, of which only that is kept.
async fn released(
    kind: &dyn Kind,
    resource: &Resource,
    api: &Api<DynamicObject>,
) -> Result<Vec<Result<Restore, RestoreError>>, RestoreError> {
    let all = ListParams::default();
    let view = |object| read(kind, resource, object).map(|object| release(kind, &object?)).transpose();
    if resource.optional {
        Ok(list::all_if_served(api, all, view).await.map_err(RestoreError::Read)?.unwrap_or_default())
    } else {
        list::all(api, all, view).await.map_err(RestoreError::Read)
    }
}

fn read(kind: &dyn Kind, resource: &Resource, object: DynamicObject) -> Result<Option<Object>, RestoreError> {
    let meta = &object.metadata;
    let name = format!(
        "{} {}/{}",
        resource.group_kind,
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    );
    let object = serde_json::to_value(object)?;
    kind.read(&resource.group_kind, object).map(Some).map_err(|error| RestoreError::Parse { name, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde::de::DeserializeOwned;
    use serde_json::Value;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn object<T: DeserializeOwned>(name: &str, rest: &Value) -> T {
        let mut object = json!({"metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": "1"}});
        json_patch::merge(&mut object, rest);
        serde_json::from_value(object).unwrap()
    }

    fn pod(name: &str, gated: bool, in_service: Option<&str>, rest: &Value) -> Arc<PodView> {
        let readiness_gates = if gated { json!([{"conditionType": names::IN_SERVICE}]) } else { json!([]) };
        let conditions: Vec<Value> =
            in_service.iter().map(|status| json!({"type": names::IN_SERVICE, "status": status})).collect();
        let mut all = json!({"spec": {"containers": [], "readinessGates": readiness_gates}, "status": {"conditions": conditions}});
        json_patch::merge(&mut all, rest);
        Arc::new(PodView::from(&object::<Pod>(name, &all)))
    }

    #[test]
    fn gated_pods_that_are_not_in_service_are_raised_whatever_they_are_in_the_middle_of() {
        let nothing = json!({});
        let pods = [
            pod("left", true, Some("False"), &nothing),
            pod("new", true, None, &nothing),
            pod("serving", true, Some("True"), &nothing),
            pod("not-ours", false, None, &nothing),
            pod("done", true, Some("False"), &json!({"status": {"phase": "Succeeded"}})),
            pod("ending", true, Some("False"), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        ];
        let raised: Vec<_> = raise(&pods)
            .map(|restore| match restore {
                Restore::Raise { pod, resource_version } => (pod.name, resource_version),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(raised, [("left".to_owned(), "1".to_owned()), ("new".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn pods_that_fetch_images_are_deleted() {
        let ours = json!({"metadata": {"labels": {"hitless.dev/prefetch": "0123"}}});
        let pods = [pod("ours", false, None, &ours), pod("theirs", false, None, &json!({}))];
        let wanted: Vec<Restore> = delete(&pods).collect();
        assert!(matches!(&wanted[..], [Restore::Delete(pod)] if pod.name == "ours"), "{wanted:?}");
    }

    #[tokio::test]
    async fn a_resource_that_cannot_be_read_keeps_nobody_from_raising_pods() {
        let raised = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&raised);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let gates = json!({"containers": [], "readinessGates": [{"conditionType": names::IN_SERVICE}]});
            let pod =
                json!({"metadata": {"namespace": "a", "name": "p", "uid": "p", "resourceVersion": "1"}, "spec": gates});
            let path = request.uri().path();
            let (code, body) = if request.method() == http::Method::PATCH && path.ends_with("/pods/p/status") {
                counter.fetch_add(1, Ordering::Relaxed);
                (200, pod)
            } else if path.ends_with("/replicasets") {
                (500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": "m"}))
            } else {
                let items = if path.ends_with("/pods") { vec![pod] } else { Vec::new() };
                (200, json!({"metadata": {}, "items": items}))
            };
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(http::Response::builder().status(code).body(body))
        });
        let passed = pass(&Client::new(service, "default"), &[Component::Base], &Writes::default()).await;
        assert_eq!((passed.changed, raised.load(Ordering::Relaxed)), (1, 1));
        assert!(matches!(passed.failed, Some(RestoreError::Read(_))));
    }

    #[test]
    fn opened_services_are_closed_and_others_left_alone() {
        let service = |name: &str, rest: &Value| Arc::new(ServiceView::from(&object::<Service>(name, rest)));
        let marked = json!({"metadata": {"annotations": {"hitless.dev/held-by": "u.h,false"}}, "spec": {"publishNotReadyAddresses": true}});
        let services = [service("open", &marked), service("own", &json!({"spec": {"publishNotReadyAddresses": true}}))];
        let closed: Vec<Restore> = close(&services).collect();
        assert!(
            matches!(&closed[..], [Restore::Close(write)] if write.name == "open" && !write.open && write.mark.is_none())
        );
    }

    #[test]
    fn our_labels_go_before_the_hold_and_an_owners_own_pause_stays() {
        let of = |resource: &'static Resource, kind: &dyn Kind, name: &str, rest: &Value| {
            kind.read(&resource.group_kind, object(name, rest)).unwrap()
        };
        let wanted: Vec<(String, &str)> = uninstalled(&[Component::Base, Component::KusionStack])
            .flat_map(|(kind, resource)| {
                let objects = match resource.plural {
                    "replicasets" => vec![
                        of(resource, kind, "live", &json!({"metadata": {"labels": {labels::LIVE: "true", "app": "web"}}})),
                        of(resource, kind, "old", &json!({"metadata": {"labels": {labels::HISTORY: "3"}}})),
                        of(resource, kind, "plain", &json!({"metadata": {"labels": {"app": "web"}}})),
                    ],
                    "deployments" => {
                        let mark = json!({"metadata": {"annotations": {"hitless.dev/rollout": "held"}}, "spec": {"paused": true}});
                        vec![
                            of(resource, kind, "held", &mark),
                            of(resource, kind, "paused", &json!({"spec": {"paused": true}})),
                        ]
                    }
                    "collasets" => {
                        let finalizers = json!({"metadata": {"finalizers": ["other", "apps.kusionstack.io/pre-reclaim"]},
                            "spec": {"selector": {}, "template": {}}});
                        vec![of(resource, kind, "set", &finalizers)]
                    }
                    _ => Vec::new(),
                };
                objects.iter().filter_map(|object| release(kind, object)).collect::<Vec<_>>()
            })
            .map(|restore| match restore {
                Restore::Workload(write) => (write.on.name, write.verb),
                other => panic!("{other:?}"),
            })
            .collect();
        let wanted: Vec<(&str, &str)> = wanted.iter().map(|(name, verb)| (name.as_str(), *verb)).collect();
        assert_eq!(
            wanted,
            [("live", "strip-labels"), ("old", "strip-labels"), ("held", "unpause"), ("set", "remove-finalizer")]
        );
    }
}
