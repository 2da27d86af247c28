use super::*;

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::api::{ApiResource, DynamicObject};
use kube::client::Body;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::readiness::Readiness;
use crate::watch::Metrics;

const NAME: &str = "sets.example.org";

/// An API server that knows one definition and the objects of its resource.
#[derive(Clone, Default)]
struct Server(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    version: u64,
    definition: Option<Value>,
    /// `None`: the resource is not found.
    objects: Option<BTreeMap<String, Value>>,
    /// Events of watches: version, whether of the objects, event.
    log: Vec<(u64, bool, Value)>,
    /// Nothing works.
    is_down: bool,
    lists: u32,
    requests: u32,
}

impl State {
    fn tell(&mut self, of_objects: bool, kind: &str, object: &Value) {
        self.log.push((self.version, of_objects, json!({"type": kind, "object": object})));
    }
}

impl Server {
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.state.lock().unwrap();
        state.version += 1;
        change(&mut state);
        drop(state);
        self.0.changed.notify_waiters();
    }

    fn define(&self, served: bool, established: &str) {
        self.change(|state| {
            let definition = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": NAME, "uid": "d", "resourceVersion": state.version.to_string()},
                "spec": {"versions": [{"name": "v1", "served": served}, {"name": "v2", "served": true}]},
                "status": {"conditions": [{"type": "Established", "status": established}]},
            });
            state.tell(false, "MODIFIED", &definition);
            state.definition = Some(definition);
        });
    }

    fn remove_definition(&self) {
        self.change(|state| {
            let mut definition = state.definition.take().unwrap();
            definition["metadata"]["resourceVersion"] = state.version.to_string().into();
            state.tell(false, "DELETED", &definition);
        });
    }

    /// The objects can be listed from now on.
    fn serve(&self) {
        self.change(|state| state.objects = Some(BTreeMap::new()));
    }

    /// Watches of the objects end.
    fn stop_serving(&self) {
        self.change(|state| state.objects = None);
    }

    fn create(&self, name: &str) {
        self.change(|state| {
            let object = json!({"apiVersion": "example.org/v1", "kind": "Set",
                "metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": state.version.to_string()}});
            state.tell(true, "ADDED", &object);
            state.objects.as_mut().unwrap().insert(name.to_owned(), object);
        });
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request.uri())) }
        });
        Client::new(service, "default")
    }

    fn answer(&self, uri: &http::Uri) -> http::Response<Answer> {
        let of_objects = !uri.path().contains("customresourcedefinitions");
        let mut state = self.0.state.lock().unwrap();
        state.requests += 1;
        let code = match &state.objects {
            _ if state.is_down => 503,
            None if of_objects => 404,
            _ => 200,
        };
        if code != 200 {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "m", "reason": "r"});
            return respond(code, whole(&status));
        }
        let query = uri.query().unwrap_or_default();
        assert!(of_objects || query.contains(&format!("fieldSelector=metadata.name%3D{NAME}")), "{query}");
        if query.contains("watch=true") {
            let version = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap();
            let events = stream::unfold((self.clone(), version.parse().unwrap()), move |(server, after)| async move {
                let (version, line) = server.next(of_objects, after).await?;
                Some((Ok::<_, Infallible>(Frame::data(Bytes::from(line))), (server, version)))
            });
            return respond(200, StreamBody::new(events).boxed_unsync());
        }
        let items: Vec<Value> = if of_objects {
            state.lists += 1;
            state.objects.iter().flat_map(BTreeMap::values).cloned().collect()
        } else {
            state.definition.iter().cloned().collect()
        };
        let (kind, version) = if of_objects {
            ("SetList", "example.org/v1")
        } else {
            ("CustomResourceDefinitionList", "apiextensions.k8s.io/v1")
        };
        let list = json!({"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": state.version.to_string()}, "items": items});
        respond(200, whole(&list))
    }

    /// The first event after a version; `None` ends the watch.
    async fn next(&self, of_objects: bool, after: u64) -> Option<(u64, String)> {
        loop {
            let changed = self.0.changed.notified();
            {
                let state = self.0.state.lock().unwrap();
                if state.is_down || (of_objects && state.objects.is_none()) {
                    return None;
                }
                let mut log = state.log.iter();
                if let Some((version, _, event)) = log.find(|(version, of, _)| *version > after && *of == of_objects) {
                    return Some((*version, format!("{event}\n")));
                }
            }
            changed.await;
        }
    }
}

type Answer = UnsyncBoxBody<Bytes, Infallible>;

fn whole(body: &Value) -> Answer {
    Full::new(Bytes::from(body.to_string())).boxed_unsync()
}

fn respond(code: u16, body: Answer) -> http::Response<Answer> {
    http::Response::builder().status(code).body(body).unwrap()
}

struct Watched {
    server: Server,
    cache: Cache<DynamicObject, String>,
    readiness: Readiness,
    wake: Arc<Notify>,
    token: CancellationToken,
    task: JoinHandle<Result<(), Infallible>>,
}

impl Watched {
    fn start(server: Server) -> Self {
        let (wake, readiness, token) = (Arc::new(Notify::new()), Readiness::default(), CancellationToken::new());
        let view = |object: DynamicObject| object.metadata.name;
        let cache = Cache::new("Set", view, wake.clone(), Metrics::default());
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.org", "v1", "Set"), "sets");
        let api: Api<DynamicObject> = Api::all_with(server.client(), &resource);
        let definition = Definition { name: NAME.into(), version: "v1".into() };
        let task = tokio::spawn(run_optional(
            server.client(),
            definition,
            api,
            Selection::all(Listing::Paged(500)),
            cache.clone(),
            readiness.guard("sets listed"),
            token.clone(),
        ));
        Self { server, cache, readiness, wake, token, task }
    }

    /// Waits for it; the clock is paused and jumps.
    async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            if is(self) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("not within 12 s: {what}");
    }

    async fn until_objects(&self, wanted: &[&str]) {
        let names = |this: &Self| {
            let mut names: Vec<String> = this.cache.values().iter().map(|name| (**name).clone()).collect();
            names.sort();
            names
        };
        self.until(&format!("{wanted:?}"), |this| this.cache.synced() && names(this) == wanted).await;
    }

    fn is_ready(&self) -> bool {
        self.readiness.missing().is_empty()
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_defined_counts_as_synced_and_is_never_asked_for() {
    let watched = Watched::start(Server::default());
    assert!(!watched.cache.synced() && !watched.is_ready(), "nothing is known yet");
    watched.until("synced", |this| this.cache.synced() && this.is_ready()).await;
    watched.wake.notified().await;
    sleep(Duration::from_hours(1)).await;
    assert!(watched.cache.synced() && watched.cache.is_empty());
    assert_eq!(watched.server.0.state.lock().unwrap().lists, 0);
    watched.token.cancel();
    watched.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_are_watched_while_the_resource_is_defined_and_forgotten_when_it_goes() {
    let watched = Watched::start(Server::default());
    watched.until("synced", |this| this.cache.synced()).await;
    for round in 0..3 {
        // Other API servers know the definition first.
        watched.server.define(true, "False");
        watched.server.define(true, "True");
        watched.until("not complete before it is listed", |this| !this.cache.synced()).await;
        sleep(Duration::from_secs(1)).await;
        assert!(!watched.cache.synced(), "one answer `not found` is not enough, round {round}");
        watched.server.serve();
        watched.until_objects(&[]).await;
        watched.server.create("a");
        watched.server.create("b");
        watched.until_objects(&["a", "b"]).await;

        let _ = futures::poll!(std::pin::pin!(watched.wake.notified()));
        watched.server.remove_definition();
        watched.until_objects(&[]).await;
        watched.wake.notified().await;
        assert!(watched.cache.synced() && watched.is_ready());
        watched.server.stop_serving();
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_does_not_serve_our_version_is_none() {
    let server = Server::default();
    server.define(false, "True");
    let watched = Watched::start(server);
    watched.until("synced", |this| this.cache.synced()).await;
    watched.server.serve();
    watched.server.create("a");
    watched.server.define(true, "True");
    watched.until_objects(&["a"]).await;
    watched.server.define(false, "True");
    watched.until_objects(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_does_not_answer_the_state_is_kept() {
    let server = Server::default();
    server.change(|state| state.is_down = true);
    let watched = Watched::start(server);
    sleep(Duration::from_mins(1)).await;
    assert!(!watched.cache.synced() && !watched.is_ready(), "nobody has said that it is not defined");
    let requests = watched.server.0.state.lock().unwrap().requests;
    assert!((6..=15).contains(&requests), "it is asked more and more rarely: {requests} requests in a minute");
    watched.server.change(|state| state.is_down = false);
    watched.server.serve();
    watched.server.define(true, "True");
    watched.server.create("a");
    watched.until_objects(&["a"]).await;

    watched.server.change(|state| state.is_down = true);
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        assert!(watched.cache.synced() && watched.cache.len() == 1);
    }
    watched.server.create("b");
    watched.server.change(|state| state.is_down = false);
    watched.until_objects(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_found_has_gone_though_its_definition_stands_and_may_come_back() {
    let server = Server::default();
    server.serve();
    server.define(true, "True");
    server.create("a");
    let watched = Watched::start(server);
    watched.until_objects(&["a"]).await;
    watched.server.stop_serving();
    watched.until_objects(&[]).await;
    assert!(watched.cache.synced(), "it does not stand in the way of others");
    for _ in 0..200 {
        sleep(Duration::from_secs(1)).await;
        assert!(watched.cache.synced());
    }
    watched.server.serve();
    watched.server.create("b");
    for _ in 0..120 {
        sleep(Duration::from_secs(1)).await;
        assert!(watched.cache.synced());
    }
    watched.until_objects(&["b"]).await;
}
