//! What is to be put back about objects that were read. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::Grant;
use hitless_api::names::{self, labels};
use hitless_api::pod::PodView;
use hitless_rollout::mode::ServiceView;
use hitless_rollout::round::READY_FOR;
use hitless_rollout::round::write::service;
use hitless_workloads::{Component, Installed, Kind, Object, Resource, registry};
use jiff::Timestamp;

use super::Restore;

/// Whether the pod has our readiness gate, and is not in service.
pub(super) fn is_out(pod: &PodView) -> bool {
    pod.gated && !pod.is(names::IN_SERVICE)
}

/// Pods that return, or start.
pub(super) fn raise(pods: &[Arc<PodView>]) -> impl Iterator<Item = Restore> {
    pods.iter()
        .filter(|pod| is_out(pod) && !pod.terminating && !pod.finished)
        .filter(|pod| !pod.labels.contains_key(labels::COMPANION))
        .map(|pod| Restore::Raise { pod: pod.id.clone(), resource_version: pod.resource_version.clone() })
}

/// Pods that fetch images.
pub(super) fn delete(pods: &[Arc<PodView>]) -> impl Iterator<Item = Restore> {
    let ours = pods.iter().filter(|pod| pod.labels.contains_key(labels::PREFETCH) && !pod.terminating);
    ours.map(|pod| Restore::delete(&pod.id))
}

/// Which resources may have something of ours. What workloads consist of comes before the workloads: one that is let go may need any of
/// its parts.
pub(super) fn resources(
    components: &[&'static Component],
) -> impl Iterator<Item = (&'static dyn Kind, &'static Resource)> + use<> {
    let installed = Installed::with(components);
    let resources = installed.resources();
    let of_workloads = resources.filter_map(|(holder, resource)| Some((holder.workload()?, resource)));
    let mut all: Vec<_> = of_workloads.filter(|(_, resource)| !resource.uninstall_verbs.is_empty()).collect();
    all.sort_by_key(|(_, resource)| registry::of_workload(&resource.group_kind).is_some());
    all.into_iter()
}

/// A workload is let go.
pub(super) fn release(kind: &dyn Kind, object: &Object) -> Option<Restore> {
    kind.release(object).map(|write| Restore::Write(Box::new(write)))
}

/// Services that were opened for a Hold.
pub(super) fn close(services: &[Arc<ServiceView>]) -> impl Iterator<Item = Restore> {
    services.iter().filter(|service| service.held_by.is_some()).map(|service| closed(service))
}

/// Those of them whose operation is not among `live` and whose pod is Ready, or is no more: nobody who is held needs them open.
pub(super) fn close_ended(
    services: &[Arc<ServiceView>],
    pods: &[Arc<PodView>],
    live: &BTreeSet<String>,
    now: Timestamp,
) -> impl Iterator<Item = Restore> {
    let is_over = move |service: &ServiceView| {
        // A pod is Ready before its operation, too.
        if service.mark().is_some_and(|id| live.contains(id)) {
            return false;
        }
        let uid = service.mark().and_then(Grant::pod_uid_of);
        pods.iter().find(|pod| Some(pod.id.uid.as_str()) == uid && !pod.terminating).is_none_or(|pod| {
            let since = pod.conditions.get("Ready").and_then(|ready| ready.since);
            pod.ready() && since.is_none_or(|since| now.duration_since(since) > READY_FOR)
        })
    };
    services.iter().filter(move |service| is_over(service)).map(|service| closed(service))
}

fn closed(service: &ServiceView) -> Restore {
    Restore::Write(Box::new(service::close(service)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_workloads::COMPONENTS;
    use k8s_openapi::api::core::v1::{Pod, Service};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

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
        assert!(matches!(&wanted[..], [Restore::Write(write)] if write.on.name == "ours"), "{wanted:?}");
    }

    #[test]
    fn opened_services_are_closed_and_others_left_alone() {
        let service = |name: &str, rest: &Value| Arc::new(ServiceView::from(&object::<Service>(name, rest)));
        let marked = json!({"metadata": {"annotations": {"hitless.dev/held-by": "u.h,false"}}, "spec": {"publishNotReadyAddresses": true}});
        let services = [service("open", &marked), service("own", &json!({"spec": {"publishNotReadyAddresses": true}}))];
        let closed: Vec<Restore> = close(&services).collect();
        assert!(
            matches!(&closed[..], [Restore::Write(write)] if write.on.name == "open" && service::content(write) == Some((false, None)))
        );
    }

    #[test]
    fn our_labels_go_before_the_hold_and_an_owners_own_pause_stays() {
        let of = |resource: &'static Resource, kind: &dyn Kind, name: &str, rest: &Value| {
            kind.read(&resource.group_kind, object(name, rest)).unwrap()
        };
        let wanted: Vec<(String, &str)> = resources(&COMPONENTS)
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
                Restore::Write(write) => (write.on.name, write.verb),
                other => panic!("{other:?}"),
            })
            .collect();
        let wanted: Vec<(&str, &str)> = wanted.iter().map(|(name, verb)| (name.as_str(), *verb)).collect();
        assert_eq!(
            wanted,
            [("live", "strip-labels"), ("old", "strip-labels"), ("held", "unpause"), ("set", "remove-finalizer")]
        );
    }

    #[test]
    fn without_a_successor_only_those_are_closed_whose_operation_is_over_and_whose_pod_is_ready_or_gone() {
        let service = |name: &str, pod: &str| {
            let mark = format!("{pod}.h,false");
            let rest = json!({"metadata": {"annotations": {"hitless.dev/held-by": mark}}, "spec": {"publishNotReadyAddresses": true}});
            Arc::new(ServiceView::from(&object::<Service>(name, &rest)))
        };
        let ready = |name: &str, status: &str, since: &str| {
            let conditions = json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
            pod(name, false, None, &json!({"status": {"conditions": conditions}}))
        };
        let now = "2026-01-01T00:01:00Z";
        let pods = [
            ready("back", "True", "2026-01-01T00:00:57Z"),
            ready("just", "True", "2026-01-01T00:00:59Z"),
            ready("away", "False", "2026-01-01T00:00:00Z"),
            ready("about-to-go", "True", "2026-01-01T00:00:00Z"),
        ];
        let services = [("a", "back"), ("b", "just"), ("c", "away"), ("d", "gone"), ("e", "about-to-go")]
            .map(|(name, pod)| service(name, pod));
        let live = ["about-to-go.h".to_owned()].into();
        let closed: Vec<String> = close_ended(&services, &pods, &live, now.parse().unwrap())
            .map(|restore| match restore {
                Restore::Write(write) => write.on.name,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(closed, ["a", "d"]);
    }
}
