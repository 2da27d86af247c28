//! The endpoint's description (OpenAPI 3.1), made from the routes and the types of their answers. `docs/openapi.json` holds the
//! committed copy, which is served; a test compares the two.

use axum::http::{HeaderName, header};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::Route;
use super::answer::DrainStatus;
use super::node::NodeSummary;
use super::refusal::Refused;
use super::selected::SelectionStatus;
use super::task::TaskStatus;
use crate::hooks::task::Body;

/// The committed description.
pub const COMMITTED: &str = include_str!("../../../docs/openapi.json");

pub(super) async fn openapi() -> ([(HeaderName, &'static str); 1], &'static str) {
    ([(header::CONTENT_TYPE, "application/json")], COMMITTED)
}

/// The description as the code has it, as JSON.
#[must_use]
pub fn document() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let paths: Map<String, Value> = Route::ALL
        .into_iter()
        .map(|route| {
            let methods = match route {
                Route::OwnTask => task(&mut schemas),
                _ => json!({"get": describe(route, &mut schemas)}),
            };
            (route.path().to_owned(), methods)
        })
        .collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "hitless node endpoint",
            "version": "v1",
            "description": "How the draining of a node's pods stands, for applications, load balancers and preStop hooks. Port 9754 \
                of the node's address, and /run/hitless/agent.sock on the node. A pod sees only itself; the node sees all.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas.take_definitions(true)},
    });
    // The alternate form is the readable one.
    format!("{document:#}\n")
}

fn describe(route: Route, schemas: &mut SchemaGenerator) -> Value {
    match route {
        Route::OpenApi => {
            operation("This description", &[], &answers([(200, any("application/json"))], &[429], schemas))
        }
        Route::Node => {
            let summary = of::<NodeSummary>("application/json", schemas);
            operation(
                "The node at a glance, for the node itself",
                &[],
                &answers([(200, summary)], &[403, 429], schemas),
            )
        }
        Route::Drain | Route::OwnDrain => {
            let status = of::<DrainStatus>("application/json", schemas);
            let answers = answers([(200, status)], &[400, 403, 404, 413, 429, 503], schemas);
            let mut parameters = pod(route);
            parameters.extend(waiting());
            operation("How the draining of a pod stands, now or once it is drained", &parameters, &answers)
        }
        Route::Selected => {
            let status = of::<SelectionStatus>("application/json", schemas);
            let answers = answers([(200, status)], &[400, 403, 413, 429, 503], schemas);
            let mut parameters = pod(route);
            parameters.push(query(
                "labelSelector",
                "labels that must be equal, e.g. `app=web,tier=front`; default: all pods",
            ));
            parameters.extend(waiting());
            operation(
                "The same of a workload's pods on this node, for preStop hooks in templates",
                &parameters,
                &answers,
            )
        }
        Route::Events | Route::OwnEvents => {
            let mut events = any("text/event-stream");
            events["content"]["text/event-stream"]["schema"] = json!({
                "type": "string",
                "description": "Events `state` at each change and a last one `end`; the data of each is a DrainStatus.",
            });
            let answers = answers([(200, events)], &[403, 404, 413, 429, 503], schemas);
            operation("The same at each change, until it has ended", &pod(route), &answers)
        }
        Route::OwnTask => operation("What the pod that asks has said of itself", &[], &task_answers(&[], schemas)),
        Route::Lb => {
            let text = [(200, any("text/plain")), (404, any("text/plain")), (503, any("text/plain"))];
            operation(
                "200 while the pod may be sent new connections, else 503",
                &pod(route),
                &answers(text, &[429], schemas),
            )
        }
        Route::Healthz => operation("The agent is alive", &[], &probe(schemas)),
        Route::Readyz => operation("The agent is ready, or what is missing", &[], &probe(schemas)),
        Route::Metrics => {
            let text = [(200, any("application/openmetrics-text"))];
            operation("Metrics", &[], &answers(text, &[429], schemas))
        }
    }
}

fn task(schemas: &mut SchemaGenerator) -> Value {
    let mut put = operation(
        "The pod that asks may be operated (`go`), not yet, or never; counts for a while and is to be said again. All but `go` needs the \
         pod's annotation `hitless.dev/task: allowed`",
        &[],
        &task_answers(&[400, 413], schemas),
    );
    put["requestBody"] = of::<Body>("application/json", schemas);
    put["requestBody"]["required"] = true.into();
    let delete = operation("The same as `go`", &[], &task_answers(&[], schemas));
    json!({"get": describe(Route::OwnTask, schemas), "put": put, "delete": delete})
}

fn task_answers(more: &[u16], schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let status = of::<TaskStatus>("application/json", schemas);
    answers([(200, status)], &[&[403, 429], more].concat(), schemas)
}

fn operation(summary: &str, parameters: &[Value], responses: &Map<String, Value>) -> Value {
    json!({"summary": summary, "parameters": parameters, "responses": responses})
}

fn probe(schemas: &mut SchemaGenerator) -> Map<String, Value> {
    answers([(200, any("text/plain")), (503, any("text/plain"))], &[], schemas)
}

/// Own answers, and the statuses of refusals.
fn answers<const N: usize>(
    own: [(u16, Value); N],
    refusals: &[u16],
    schemas: &mut SchemaGenerator,
) -> Map<String, Value> {
    let refused = refusals.iter().map(|status| (*status, of::<Refused>("application/json", schemas)));
    let mut all: Vec<_> = own.into_iter().chain(refused).collect();
    all.sort_by_key(|(status, _)| *status);
    all.into_iter()
        .map(|(status, mut answer)| {
            answer["description"] = meaning(status).into();
            (status.to_string(), answer)
        })
        .collect()
}

fn meaning(status: u16) -> &'static str {
    match status {
        200 => "Yes",
        400 => "The query or the body makes no sense",
        403 => "The caller may not see it",
        404 => "It is not on this node",
        413 => "A body that is too long, too slow or not wanted",
        429 => "Too many; see Retry-After",
        _ => "Not now",
    }
}

fn of<T: JsonSchema>(media: &str, schemas: &mut SchemaGenerator) -> Value {
    json!({"content": {media: {"schema": schemas.subschema_for::<T>()}}})
}

fn any(media: &str) -> Value {
    json!({"content": {media: {}}})
}

fn pod(route: Route) -> Vec<Value> {
    let names: &[&str] = match route {
        Route::OwnDrain | Route::OwnEvents => &[],
        Route::Selected => &["namespace"],
        _ => &["namespace", "name"],
    };
    names
        .iter()
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect()
}

fn waiting() -> [Value; 2] {
    [
        query("wait", "`drained`: answer once it is drained, its operation has ended, or it is gone"),
        query("timeout", "with wait: answer then in any case, e.g. `30s`, at most an hour; default: deadlineSeconds"),
    ]
}

fn query(name: &str, description: &str) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_description_is_the_one_of_the_code() {
        assert!(COMMITTED == document(), "docs/openapi.json is not up to date; run `cargo xtask generate`");
    }
}
