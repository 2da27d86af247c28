//! What a rule's author may have sent to an approver: `policies/rules.yaml`.

use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{GATED, NAMESPACE, asking, rules};
use crate::request::{Call, Who};

const NOT: &str = "ann may not get pods in namespace policy-test;";

fn field(path: &str) -> Value {
    json!([{"key": "k", "valueFrom": {"fieldRef": {"fieldPath": path}}}])
}

pub(super) fn rows() -> Vec<Row> {
    let make = |namespace: &str, parameters: &Value| Call::create(rules(namespace), asking("new", parameters));
    vec![
        denied(Who::RuleAuthor, "who may not read pods has none read", NOT, make(NAMESPACE, &field("spec.containers"))),
        denied(Who::RuleAuthor, "nor their labels", NOT, make(NAMESPACE, &field("metadata.labels['app']"))),
        allowed(Who::RuleAuthor, "but what the question has anyway", make(NAMESPACE, &field("metadata.uid"))),
        allowed(Who::RuleAuthor, "and a value of his own", make(NAMESPACE, &json!([{"key": "k", "value": "v"}]))),
        allowed(
            Who::RuleAuthor,
            "a field may say that it is not there",
            make(NAMESPACE, &json!([{"key": "k", "value": "v", "valueFrom": null}])),
        ),
        allowed(Who::RuleAuthor, "and where he may read pods", make(GATED, &field("spec.nodeName"))),
        allowed(Who::User, "who may read pods has them read", make(NAMESPACE, &field("status.podIP"))),
    ]
}
