//! Which workloads opt in by their namespace: `policies/adopt.yaml` and `policies/namespace-labels.yaml`.

use hitless_api::names::{DEFAULT_SYSTEM_NAMESPACE, KUBE_SYSTEM};
use serde_json::{Value, json};

use super::{allowed, allowed_as, denied, warned};
use crate::Row;
use crate::fixture::{ADOPTING, ADOPTING_ONLY, BARE, NAMESPACE, Set, adopted, set, workload};
use crate::request::{Call, Who};

const WORD: &str = "/metadata/annotations/hitless.dev~1update";
const MARK: &str = "/metadata/annotations/hitless.dev~1rollout";

pub(super) fn rows() -> Vec<Row> {
    [made(), there(), namespaces()].into_iter().flatten().collect()
}

fn annotations(word: &str) -> Value {
    json!({"annotations": {"hitless.dev/update": word}})
}

/// A workload that is made.
fn made() -> Vec<Row> {
    let create = |namespace: &str, metadata: &Value| {
        Call::create(adopted(namespace, "deployments"), workload("new", 1, metadata))
    };
    let row = |says, call, word| allowed_as(Who::User, says, call, [(WORD, word)]);
    let sets = |of: Set| Call::create(adopted(ADOPTING, of.resource()), set(of, "new", &json!({}), of.rolling()));
    let others = json!({"annotations": {"team": "shop"}});
    let mut host = set(Set::DaemonSet, "new", &json!({}), Set::DaemonSet.rolling());
    host["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    vec![
        row("a Deployment opts in by its namespace", create(ADOPTING, &json!({})), json!("in-place")),
        row("a StatefulSet too", sets(Set::StatefulSet), json!("in-place")),
        row("a DaemonSet too", sets(Set::DaemonSet), json!("in-place")),
        row("in place only, where that says so", create(ADOPTING_ONLY, &json!({})), json!("in-place-only")),
        row("not where the namespace says nothing", create(NAMESPACE, &json!({})), Value::Null),
        row("its own word wins", create(ADOPTING, &annotations("in-place-only")), json!("in-place-only")),
        row("also if that keeps it out", create(ADOPTING, &annotations("native")), json!("native")),
        row(
            "not on the host's network: it can't be operated there",
            Call::create(adopted(ADOPTING, "daemonsets"), host),
            Value::Null,
        ),
        allowed_as(
            Who::User,
            "annotations that it has stay",
            create(ADOPTING, &others),
            [(WORD, json!("in-place")), ("/metadata/annotations/team", json!("shop"))],
        ),
    ]
}

/// A workload that is changed.
fn there() -> Vec<Row> {
    let of = |name: &str| format!("{}/{name}", adopted(ADOPTING, "deployments"));
    let image = || json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}});
    let changed = || json!({"spec": {"template": image()}});
    let word = |value: Value| json!({"metadata": {"annotations": {"hitless.dev/update": value}}});
    let row = |says, call, word, mark| allowed_as(Who::User, says, call, [(WORD, word), (MARK, mark)]);
    vec![
        row(
            "what was there before its namespace's label does not opt in by a change",
            Call::merge(of("before"), changed()),
            Value::Null,
            Value::Null,
        ),
        row(
            "what has opted in is held when it changes",
            Call::merge(of("opted"), changed()),
            json!("in-place"),
            json!("held"),
        ),
        row("it leaves as everywhere", Call::merge(of("opted"), word(Value::Null)), Value::Null, Value::Null),
        row("or by the word native", Call::merge(of("opted"), word(json!("native"))), json!("native"), Value::Null),
        row("what is kept out rolls natively", Call::merge(of("kept"), changed()), json!("native"), Value::Null),
        row("and stays out without the word", Call::merge(of("kept"), word(Value::Null)), Value::Null, Value::Null),
    ]
}

/// What people write on Namespaces.
fn namespaces() -> Vec<Row> {
    let path = |name: &str| format!("/api/v1/namespaces/{name}");
    let label =
        |name: &str, key: &str, value: &str| Call::merge(path(name), json!({"metadata": {"labels": {key: value}}}));
    let update = "hitless.dev/update";
    let words = "can't be \"inplace\": write in-place, in-place-only or native";
    let create = json!({"metadata": {"name": "policy-test-new", "labels": {update: "inplace"}}});
    let annotation = json!({"metadata": {"annotations": {update: "in-place"}}});
    vec![
        denied(Who::User, "a label that means nothing is refused", words, label(BARE, update, "inplace")),
        denied(Who::User, "also of a new namespace", words, Call::create("/api/v1/namespaces", create)),
        allowed(Who::User, "in place is fine", label(BARE, update, "in-place")),
        allowed(Who::User, "in place only, too", label(BARE, update, "in-place-only")),
        allowed(Who::User, "and native", label(ADOPTING, update, "native")),
        allowed(Who::User, "other labels are nobody's concern", label(ADOPTING, "team", "shop")),
        warned(
            "a label that is not known is said",
            "hitless knows no label hitless.dev/updates",
            label(BARE, "hitless.dev/updates", "in-place"),
        ),
        warned("an annotation is no label", "hitless.dev/update is a label", Call::merge(path(BARE), annotation)),
        warned(
            "a label without effect is said",
            "hitless updates nothing in namespace kube-system",
            label(KUBE_SYSTEM, update, "in-place"),
        ),
        warned(
            "also in hitless's own namespace",
            "hitless updates nothing in namespace hitless-system",
            label(DEFAULT_SYSTEM_NAMESPACE, update, "in-place"),
        ),
    ]
}
