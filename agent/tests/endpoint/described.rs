//! The description, and what is really answered.

use hitless_agent::http::Route;
use hitless_agent::view::Count;
use hitless_api::{Outcome, Phase};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::client::{Answer, connect, get, read_until};
use crate::node::{NODE, Node, STRANGER, WEB};

/// Whether the answer is one that the description has.
fn check(document: &Value, route: Route, answer: &Answer) {
    let described = &document["paths"][route.path()]["get"]["responses"][answer.status.to_string()];
    assert!(described.is_object(), "{route:?} has no answer {}: {answer:?}", answer.status);
    let media = answer.header("content-type").unwrap().split(';').next().unwrap();
    let content = &described["content"][media];
    assert!(content.is_object(), "{route:?} {} is no {media}", answer.status);
    if media == "application/json"
        && let Some(schema) = content.get("schema")
    {
        validate(document, schema, &answer.json());
    }
}

fn validate(document: &Value, schema: &Value, value: &Value) {
    let mut root = document.clone();
    root.as_object_mut().unwrap().extend(schema.as_object().unwrap().clone());
    let validator = jsonschema::validator_for(&root).unwrap();
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {value}");
}

fn path(route: Route, name: &str) -> String {
    route.path().replace("{namespace}", "shop").replace("{name}", name)
}

#[tokio::test]
async fn every_route_is_described_and_answers_as_described() {
    let node = Node::start().await;
    let document = get(&node, NODE, "/v1/openapi.json").await.json();
    let described: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let mut routes = Route::ALL.map(Route::path);
    routes.sort_unstable();
    assert_eq!(described, routes);

    let count = Count { inbound: 3, busy: 2, idle: 1, quiet: true, closed: 4, most: 9, ..Count::default() };
    node.observe(count);
    let operations = [None, Some((Phase::Draining, None)), Some((Phase::Returning, Some(Outcome::Done)))];
    for operation in operations {
        node.round(operation);
        for route in Route::ALL {
            if matches!(route, Route::Events | Route::OwnEvents) {
                continue;
            }
            for (from, name) in [(NODE, "web"), (NODE, "nobody"), (WEB, "web"), (STRANGER, "web")] {
                check(&document, route, &get(&node, from, &path(route, name)).await);
            }
        }
    }
    let waited = get(&node, NODE, "/v1/pods/shop/web/drain?wait=drained&timeout=1ms").await;
    assert_eq!(waited.json()["because"], "Ended");
    check(&document, Route::Drain, &waited);
    check(&document, Route::Drain, &get(&node, NODE, "/v1/pods/shop/web/drain?wait=x").await);
    check(&document, Route::Selected, &get(&node, NODE, "/v1/pods/shop/drain?wait=drained&timeout=1ms").await);
    let guard = node.readiness.guard("pods listed");
    check(&document, Route::Readyz, &get(&node, NODE, "/readyz").await);
    guard.done();
    node.forget();
    check(&document, Route::Drain, &get(&node, NODE, "/v1/pods/shop/web/drain").await);
}

#[tokio::test]
async fn the_data_of_an_event_is_a_drain_status() {
    let node = Node::start().await;
    let document = get(&node, NODE, "/v1/openapi.json").await.json();
    node.round(Some((Phase::Settling, None)));
    for route in [Route::Events, Route::OwnEvents] {
        let mut stream = connect(node.address, WEB).await;
        let request = format!("GET {} HTTP/1.1\r\nHost: n1\r\n\r\n", path(route, "web"));
        stream.write_all(request.as_bytes()).await.unwrap();
        let text = read_until(&mut stream, "}\n\n").await;
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let schema = json!({"$ref": "#/components/schemas/DrainStatus"});
        validate(&document, &schema, &serde_json::from_str(data).unwrap());
    }
}

#[test]
fn the_check_sees_what_is_wrong() {
    let document: Value = serde_json::from_str(hitless_agent::http::openapi::COMMITTED).unwrap();
    let schema = json!({"$ref": "#/components/schemas/DrainStatus"});
    let root = {
        let mut root = document.clone();
        root.as_object_mut().unwrap().extend(schema.as_object().unwrap().clone());
        root
    };
    let validator = jsonschema::validator_for(&root).unwrap();
    assert!(!validator.is_valid(&json!({"pod": 7})));
    let status = json!({"pod": "a/b", "uid": "u", "node": "n", "inService": null, "ready": true, "terminating": false,
        "drained": false});
    assert!(validator.is_valid(&status));
    assert!(!validator.is_valid(&json!({"because": "Whatever"})));
}
