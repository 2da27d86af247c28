//! `PodTransitionRule` of `apps.kusionstack.io/v1alpha1`, wire-compatible with KusionStack kuperator v0.7.4.
//!
//! The upstream type has no schema-level checks (a webhook does them); here the API server checks what it can. What upstream
//! accepts and silently never evaluates stays accepted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which pods may be operated at the same time, and after which checks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "apps.kusionstack.io",
    version = "v1alpha1",
    kind = "PodTransitionRule",
    plural = "podtransitionrules",
    shortname = "ptr",
    namespaced,
    status = "PodTransitionRuleStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Rules","type":"string","jsonPath":".spec.rules[*].name"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct PodTransitionRuleSpec {
    /// Pods of the same namespace that the rules govern. Without it the rule governs nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: Option<LabelSelector>,
    /// All of them must pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<TransitionRule>,
}

/// One rule. Upstream evaluates only the first of `availablePolicy`, `labelCheck`, `webhook` that is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitionRule {
    /// Names the rule in verdicts.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// A disabled rule passes everybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// `PreCheck` (default) or `PostCheck`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Names of registered predicates; upstream registers none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub conditions: Vec<String>,
    /// Narrows the pods that are asked about, not the base of percentages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<RuleFilter>,
    /// Limits how many pods may be unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_policy: Option<AvailableRule>,
    /// Requires labels on the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_check: Option<LabelCheckRule>,
    /// Asks an HTTP endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<TransitionRuleWebhook>,
}

/// Narrows a rule to some of the selected pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleFilter {
    /// Labels of the pods that are asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
}

/// A count of 0 or more, or a percentage from 0% to 100%. `minimum` binds numbers only and `pattern` strings only; a CEL rule
/// with a message of its own would exceed the API server's cost limit, because an int-or-string has no known length there.
pub(crate) fn count_or_percent(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 0,
        "maximum": i32::MAX,
        "pattern": "^(100|[1-9]?[0-9])%$",
    })
}

/// Budget of pods that may, or must not, be unavailable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AvailableRule {
    /// Most pods that may be unavailable: a count, or a percentage that rounds up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_unavailable_value: Option<IntOrString>,
    /// Fewest pods that must stay available: a count, or a percentage that rounds down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub min_available_value: Option<IntOrString>,
    /// A function of the number of pods; upstream ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable_policy: Option<UnavailablePolicy>,
    /// A function of the number of pods; upstream ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available_policy: Option<UnavailablePolicy>,
}

/// A budget that grows with the number of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnavailablePolicy {
    /// f(x) = coeff·x^pow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp_func: Option<ExpFunc>,
}

/// f(x) = coeff·x^pow, the numbers as strings as upstream has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpFunc {
    /// Coefficient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coeff: Option<String>,
    /// Exponent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pow: Option<String>,
}

/// Requires labels on the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelCheckRule {
    /// The pod's labels must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub requires: Option<LabelSelector>,
}

/// Asks an HTTP endpoint for a set of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitionRuleWebhook {
    /// Where to ask.
    pub client_config: ClientConfig,
    /// `Fail` (default) or `Ignore`: whether a pod waits or goes while the endpoint can't be reached. Upstream never consults it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<String>,
    /// Sent along for each pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub parameters: Vec<Parameter>,
}

/// Where and how to ask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// Endpoint of the first POST. Empty only where `service` is set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub url: String,
    /// A Service of the cluster instead of `url`; reached by its cluster address, asked by TLS as `<name>.<namespace>.svc`.
    /// Upstream has no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// base64 of a PEM certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Asynchronous answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Poll>,
}

/// A Service of the cluster, as in Kubernetes' own webhook configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReference {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Path of the POST; default `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub path: Option<String>,
    /// Its port; default 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Asynchronous answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Poll {
    /// Endpoint of the GETs.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Name of the query parameter with the task's id; default `task-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_query_key: Option<String>,
    /// base64 of a PEM certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Seconds between polls; default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub interval_seconds: Option<i64>,
    /// Seconds for the whole task; default 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i64>,
}

/// One value sent along.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Parameter {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its literal value; wins over `valueFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where to read it from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ParameterSource>,
}

/// Where a value is read from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParameterSource {
    /// Ignored upstream.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A field of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<FieldRef>,
}

/// A field of the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldRef {
    /// Ignored upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Dotted path.
    pub field_path: String,
}

/// A report, not the truth (that is the ledger). Written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTransitionRuleStatus {
    /// Generation that was last evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Time>,
    /// Sorted names of the selected pods, 5,000 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// How many more are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets_left_out: Option<i64>,
    /// Pods that are in a stage, 1,000 at most: those that are rejected before those that have passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<PodTransitionDetail>,
    /// How many more are in a stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details_left_out: Option<i64>,
    /// State of the rules that keep one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule_states: Vec<RuleState>,
}

/// One pod in a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTransitionDetail {
    /// Name of the pod.
    pub name: String,
    /// Its stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Whether no rule rejected it.
    pub passed: bool,
    /// Rules that it passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_rules: Vec<String>,
    /// Why it was rejected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reject_info: Vec<RejectInfo>,
}

/// Why a pod was rejected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectInfo {
    /// Name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// Its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// State of one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleState {
    /// Name of the rule.
    pub name: String,
    /// State of a webhook rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_status: Option<WebhookStatus>,
}

/// State of a webhook rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookStatus {
    /// Live polling tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_states: Vec<TaskInfo>,
    /// Finished or aborted tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<TaskInfo>,
}

/// One polling task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskInfo {
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Pods that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processing: Vec<String>,
    /// Pods that were approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_time: Option<Time>,
    /// When it was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_time: Option<Time>,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Ids of the operations by name of the pod, so that a later leader takes the task on for these and no others. Upstream has
    /// no such field.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub operations: std::collections::BTreeMap<String, String>,
}
