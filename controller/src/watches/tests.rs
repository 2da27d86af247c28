use super::*;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use futures::{StreamExt, stream};
use hitless_api::{Lenient, TransitionBudget};
use hitless_gate::Budget;
use hitless_workloads::{COMPONENTS, registry};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// An API server that has no objects but these. A change ends all watches, and everything is listed again.
#[derive(Clone, Default)]
struct Server(Arc<Shared>);

struct Shared {
    /// Items by resource; of a resource that is not in here, there are none.
    items: Mutex<BTreeMap<&'static str, Vec<Value>>>,
    /// What the only resource answers that may be missing or broken, if it does not answer with its items.
    optional: Mutex<Option<u16>>,
    /// Pods of this namespace, asked for by themselves or with all, are not answered.
    failing: Mutex<Option<&'static str>>,
    changed: Notify,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            items: Mutex::default(),
            optional: Mutex::new(Some(404)),
            failing: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl Server {
    fn set(&self, resource: &'static str, items: Vec<Value>) {
        self.0.items.lock().unwrap().insert(resource, items);
        self.0.changed.notify_waiters();
    }

    fn answer(&self, uri: &http::Uri) -> (u16, Answer) {
        let resource = uri.path().rsplit('/').next().unwrap_or_default();
        let whole = |value: Value| Full::new(Bytes::from(value.to_string())).boxed_unsync();
        if let Some(code) = self.0.optional.lock().unwrap().filter(|_| resource == OPTIONAL) {
            return (code, whole(json!({"kind": "Status", "status": "Failure", "code": code, "message": "m"})));
        }
        if uri.query().is_some_and(|query| query.contains("watch=true")) {
            let server = self.clone();
            let end = stream::once(async move {
                server.0.changed.notified().await;
                let status =
                    json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "m"});
                Ok(Frame::data(Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})))))
            });
            return (200, StreamBody::new(end.boxed()).boxed_unsync());
        }
        let is_asked = |namespace: &&str| {
            resource == "pods"
                && uri.path().split_once("/namespaces/").is_none_or(|(_, rest)| rest.starts_with(namespace))
        };
        if self.0.failing.lock().unwrap().as_ref().is_some_and(is_asked) {
            return (500, whole(json!({"kind": "Status", "status": "Failure", "code": 500, "message": "m"})));
        }
        let mut items = self.0.items.lock().unwrap().get(resource).cloned().unwrap_or_default();
        if let Some((_, rest)) = uri.path().split_once("/namespaces/") {
            items.retain(|item| rest.split('/').next() == item["metadata"]["namespace"].as_str());
        }
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
        (200, whole(list))
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (code, body) = server.answer(request.uri());
            std::future::ready(http::Response::builder().status(code).body(body))
        });
        Client::new(service, "default")
    }
}

/// The plural of the resource that is made optional here. No kind has one that is.
const OPTIONAL: &str = "controllerrevisions";

fn resources() -> impl Iterator<Item = (Holder, &'static Resource)> {
    registry::resources().map(|(holder, resource)| {
        let copy = Resource { optional: resource.plural == OPTIONAL, ..resource.clone() };
        (holder, &*Box::leak(Box::new(copy)))
    })
}

/// Everything is installed, and nobody else is there.
fn snapshot(caches: &Caches) -> Snapshot {
    let all = Caches { installed: Arc::new(Installed::with(&COMPONENTS)), ..caches.clone() };
    all.snapshot(Timestamp::UNIX_EPOCH)
}

/// The definition of the optional resource, as if it were a custom one.
fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{OPTIONAL}.apps"), "uid": "d", "resourceVersion": "1"},
        "spec": {"versions": [{"name": "v1", "served": true}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]}})
}

async fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..600 {
        if is() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("not within 12 s: {what}");
}

#[tokio::test(start_paused = true)]
async fn an_optional_resource_counts_only_while_its_definition_is_there() {
    let (server, wake, readiness, token) =
        (Server::default(), Arc::new(Notify::new()), Readiness::default(), CancellationToken::new());
    let caches = Caches::of(resources(), &wake, &watch::Metrics::default());
    for (_, watch) in caches.watches(&server.client(), &readiness, &token) {
        tokio::spawn(watch);
    }
    assert!(!caches.synced());
    until("complete without it", || caches.synced() && readiness.missing().is_empty()).await;
    assert_eq!(snapshot(&caches).objects.len(), 0);

    let object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {},
        "metadata": {"namespace": "ns", "name": "one", "uid": "u", "resourceVersion": "1"}});
    server.set(OPTIONAL, vec![object]);
    server.set("customresourcedefinitions", vec![definition()]);
    until("incomplete before it is listed", || !caches.synced()).await;
    *server.0.optional.lock().unwrap() = None;
    until("complete with it", || caches.synced()).await;
    assert_eq!(snapshot(&caches).objects.len(), 1);

    server.set("customresourcedefinitions", Vec::new());
    until("gone", || snapshot(&caches).objects.is_empty()).await;
    assert!(caches.synced());
}

#[tokio::test(start_paused = true)]
async fn an_optional_resource_that_is_served_and_cannot_be_listed_stops_only_the_kinds_that_need_it() {
    let (server, wake, readiness, token) =
        (Server::default(), Arc::new(Notify::new()), Readiness::default(), CancellationToken::new());
    let object = |kind: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"namespace": "ns", "name": kind.to_lowercase(), "uid": kind,
            "resourceVersion": "1"}, "spec": {"template": {}}})
    };
    server.set("deployments", vec![object("Deployment")]);
    server.set("statefulsets", vec![object("StatefulSet")]);
    server.set("customresourcedefinitions", vec![definition()]);
    *server.0.optional.lock().unwrap() = Some(403);
    let caches = Caches::of(resources(), &wake, &watch::Metrics::default());
    for (_, watch) in caches.watches(&server.client(), &readiness, &token) {
        tokio::spawn(watch);
    }
    let kinds =
        || snapshot(&caches).objects.iter().map(|object| object.id.group_kind.kind.to_string()).collect::<Vec<_>>();
    until("goes on without it", || caches.synced() && readiness.missing().is_empty()).await;
    assert_eq!(kinds(), ["Deployment"]);
    let unreadable: Vec<String> = snapshot(&caches).unreadable.iter().map(|kind| kind.kind.to_string()).collect();
    assert_eq!(
        unreadable,
        ["DaemonSet", "StatefulSet", "CloneSet", "CollaSet", "PodDecoration"],
        "those whose revisions are missing"
    );

    *server.0.optional.lock().unwrap() = None;
    until("as soon as it is listed, all go on", || snapshot(&caches).unreadable.is_empty()).await;
    assert_eq!(kinds().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_namespace_are_known_as_soon_as_something_there_opts_in_and_no_others() {
    let (server, wake, readiness, token) =
        (Server::default(), Arc::new(Notify::new()), Readiness::default(), CancellationToken::new());
    let pod = |namespace: &str| json!({"metadata": {"namespace": namespace, "name": "web", "uid": namespace, "resourceVersion": "1"}});
    let pods = || vec![pod("plain"), pod("shop"), pod(names::system_namespace())];
    server.set("pods", pods());
    let caches = Caches::of(resources(), &wake, &watch::Metrics::default());
    let client = server.client();
    for (_, watch) in caches.watches(&client, &readiness, &token) {
        tokio::spawn(watch);
    }
    let known = || {
        let mut all: Vec<String> = caches.inputs.pods.values().iter().map(|pod| pod.id.namespace.clone()).collect();
        all.sort();
        all
    };
    let unread = || {
        let seen = snapshot(&caches);
        let named = Namespaces::named(&seen);
        caches.unread_pods(&client, &Namespaces::wanted(&seen, &named), &named, &wake)
    };
    let are_known = || unread() == UnreadPods::default();
    until("complete", || caches.synced()).await;
    assert!(are_known(), "nobody has opted in");
    assert_eq!(known(), ["hitless-system"]);

    let annotations = json!({"hitless.dev/update": "in-place"});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {}},
        "metadata": {"namespace": "shop", "name": "web", "uid": "w", "resourceVersion": "1", "annotations": annotations}});
    server.set("deployments", vec![web]);
    until("the Deployment is seen", || !snapshot(&caches).objects.is_empty()).await;
    assert_eq!(unread().namespaces, ["shop".to_owned()].into(), "its pods are not known yet");
    until("they are", are_known).await;
    assert_eq!(known(), ["hitless-system", "shop"]);

    // The whole list is read again.
    server.set(
        "pods",
        [pods(), vec![json!({"metadata": {"namespace": "shop", "name": "new", "uid": "n", "resourceVersion": "2"}})]]
            .concat(),
    );
    until("the next pod there", || known().len() == 3).await;
    assert_eq!(known(), ["hitless-system", "shop", "shop"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_read_keep_only_their_own_namespace_waiting() {
    let (server, wake, readiness, token) =
        (Server::default(), Arc::new(Notify::new()), Readiness::default(), CancellationToken::new());
    let pod = |namespace: &str| json!({"metadata": {"namespace": namespace, "name": "web", "uid": namespace, "resourceVersion": "1"}});
    server.set("pods", vec![pod("shop"), pod("slow")]);
    let annotations = json!({"hitless.dev/update": "in-place"});
    let web = |namespace: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {}},
            "metadata": {"namespace": namespace, "name": "web", "uid": namespace, "resourceVersion": "1", "annotations": annotations}})
    };
    server.set("deployments", vec![web("shop"), web("slow")]);
    let caches = Caches::of(resources(), &wake, &watch::Metrics::default());
    let client = server.client();
    for (_, watch) in caches.watches(&client, &readiness, &token) {
        tokio::spawn(watch);
    }
    until("complete", || caches.synced()).await;
    *server.0.failing.lock().unwrap() = Some("slow");
    let unread = || {
        let seen = snapshot(&caches);
        let named = Namespaces::named(&seen);
        caches.unread_pods(&client, &Namespaces::wanted(&seen, &named), &named, &wake)
    };
    assert_eq!(unread().namespaces.len(), 2);
    let only_slow = UnreadPods { namespaces: ["slow".to_owned()].into(), uncounted: false };
    until("the other one is known", || unread() == only_slow).await;
    sleep(Duration::from_secs(40)).await;
    assert_eq!(unread(), only_slow, "it is asked for again, and is not known before");
    let wide: Lenient<TransitionBudget> = serde_json::from_value(json!({
        "apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": {"namespace": names::system_namespace(), "name": "all"},
        "spec": {"scope": "Cluster", "selector": {}, "maxUnavailable": 1}}))
    .unwrap();
    let counted = || {
        let mut seen = snapshot(&caches);
        seen.budgets = vec![Arc::new(Budget::from(wide.clone()))];
        let named = Namespaces::named(&seen);
        caches.unread_pods(&client, &Namespaces::wanted(&seen, &named), &named, &wake)
    };
    assert_eq!(counted(), UnreadPods { uncounted: true, ..only_slow }, "what counts everybody waits");
    *server.0.failing.lock().unwrap() = None;
    until("all are known", || counted() == UnreadPods::default()).await;
}
