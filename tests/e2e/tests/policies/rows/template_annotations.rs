//! Annotations of a template that an agent sets (docs/contract.md#template-annotations).

use hitless_api::names::annotations::REVISION;
use serde_json::{Value, json};

use super::{allowed_as, denied};
use crate::Row;
use crate::fixture::{BARE, NAMESPACE, pods};
use crate::request::{Call, Who};

const RELEASE: &str = "/metadata/annotations/example.com~1release";

fn at(name: &str) -> String {
    format!("{}/{name}", pods(NAMESPACE))
}

/// Annotations of the pod that the ledger has.
fn annotated(annotations: &Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

pub(super) fn rows() -> Vec<Row> {
    [granted(), refused()].into_iter().flatten().collect()
}

fn granted() -> Vec<Row> {
    let there = json!([
        {"op": "replace", "path": "/spec/containers/0/image", "value": "web:2"},
        {"op": "add", "path": RELEASE, "value": "2"},
        {"op": "add", "path": "/metadata/annotations/example.com~1come", "value": "y"},
        {"op": "add", "path": "/metadata/annotations/example.com~1gone", "value": ""},
        {"op": "remove", "path": "/metadata/annotations/example.com~1gone"}]);
    let back = json!([
        {"op": "add", "path": RELEASE, "value": "1"},
        {"op": "add", "path": "/metadata/annotations/example.com~1gone", "value": "x"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "web:1"}]);
    vec![
        allowed_as(
            Who::Agent,
            "an agent sets and takes away the annotations of a template that the ledger names, with the image",
            Call::json_patch(at("reserved"), there),
            [
                (RELEASE, json!("2")),
                ("/metadata/annotations/example.com~1come", json!("y")),
                ("/metadata/annotations/example.com~1gone", Value::Null),
            ],
        ),
        allowed_as(
            Who::Agent,
            "and puts those back as they were",
            Call::json_patch(at("operated"), back),
            [(RELEASE, json!("1")), ("/metadata/annotations/example.com~1gone", json!("x"))],
        ),
    ]
}

fn refused() -> Vec<Row> {
    let (ledger, agent) = ("annotations: only", "of annotations an agent");
    let own = |key: &str, value: Value| Call::merge(at("reserved"), annotated(&json!({key: value})));
    let by_status = |key: &str| Call::merge(format!("{}/status", at("reserved")), annotated(&json!({key: "2"})));
    let elsewhere = Call::merge(format!("{}/bare", pods(BARE)), annotated(&json!({"example.com/release": "2"})));
    let of_kubernetes = "cluster-autoscaler.kubernetes.io/safe-to-evict";
    vec![
        denied(Who::Agent, "not another value than the ledger's", ledger, own("example.com/release", json!("3"))),
        denied(
            Who::Agent,
            "not the end of one that is to have another value",
            ledger,
            own("example.com/release", Value::Null),
        ),
        denied(Who::Agent, "not another value of one that is to go", ledger, own("example.com/gone", json!("y"))),
        denied(Who::Agent, "not another annotation than the ledger's", ledger, own("example.com/note", json!("y"))),
        denied(Who::Agent, "none by the status", agent, by_status("example.com/release")),
        denied(
            Who::Agent,
            "none of Kubernetes' own, even if the ledger names it",
            agent,
            own(of_kubernetes, json!("named")),
        ),
        denied(Who::Agent, "no drain, even if the ledger names it", agent, own("hitless.dev/drain", json!("{}"))),
        denied(Who::Agent, "nor its revision by the status", agent, by_status(REVISION)),
        denied(Who::Agent, "none in a namespace without a ledger", "keeps no ledger here", elsewhere),
    ]
}
