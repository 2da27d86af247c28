//! The values of the chart: their schema, which knows no others, and their defaults with what they mean.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::Context as _;
use hitless_workloads::COMPONENTS;
use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::settings::Defaults;
use super::{OWN_COMPONENTS, emit};

/// Where the alerts' runbooks are, as the rules have it.
const RUNBOOKS: &str = "https://hitless.dev/runbooks";
/// Definitions of Kubernetes' own types are without their descriptions: they would be most of the schema.
const KUBERNETES: &str = "io.k8s.";

/// Values of hitless.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Values {
    /// How a changed workload is held: v1 (Kubernetes 1.36), v1beta1 (1.34 and 1.35 where mutating admission policies are switched on), or
    /// refusing (from 1.30 on: changes are refused unless `kubectl hitless` makes them). auto takes the first that the API server has.
    admission: Admission,
    /// The program on every node.
    agent: Program,
    /// Approvers that rules may name besides Services of their own namespace: hosts, domains (*.example.com), Services
    /// (name.namespace.svc) and addresses (10.1.0.0/16).
    approvers: Vec<String>,
    /// exec-hooks: hooks may run commands in containers. kusionstack: CollaSets, OperationJobs and PodOpsLifecycle of KusionStack.
    /// kruise: CloneSets of OpenKruise.
    /// selinux: agents run as spc_t, for nodes where SELinux is enforcing.
    components: Vec<Component>,
    /// The program that decides. For more than 100,000 pods it needs more memory.
    controller: Program,
    /// Helm gives these to every chart that another chart contains.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(default)]
    global: Map<String, Value>,
    /// Secrets of the release's namespace with logins of registries.
    image_pull_secrets: Vec<LocalObjectReference>,
    /// Narrows the controller's network where the network plugin enforces NetworkPolicies.
    network_policy: Switch,
    /// Which namespaces opt their new workloads in, besides those with the label hitless.dev/update.
    opt_in: OptIn,
    /// A PodMonitor of both programs, for the Prometheus operator.
    pod_monitor: Monitor,
    /// The alerts, for the Prometheus operator.
    prometheus_rule: Rule,
    /// Config reload.
    reload: Reload,
    /// What `helm test` runs: kubectl hitless doctor.
    test: Test,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "the schema knows all of them, the defaults use one at most")]
enum Admission {
    Auto,
    V1,
    V1beta1,
    Refusing,
}

/// Name of what may be installed besides.
#[derive(Serialize)]
struct Component(String);

impl JsonSchema for Component {
    fn schema_name() -> Cow<'static, str> {
        "Component".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let own = OWN_COMPONENTS.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = own.chain(COMPONENTS.map(|each| each.name)).collect();
        names.sort_unstable();
        json_schema!({"enum": names, "type": "string"})
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Program {
    /// For the agent keep what excludes nodes without a machine (Fargate, virtual nodes): agents would be Pending there for ever.
    affinity: Affinity,
    /// A digest wins over the tag.
    image: Image,
    resources: ResourceRequirements,
    /// Further settings of the program (HITLESS_…), as text.
    settings: BTreeMap<SettingName, String>,
    tolerations: Vec<Toleration>,
}

/// Name of a setting.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
struct SettingName(#[schemars(regex(pattern = "^(HITLESS_[A-Z_]+|SKIP_POD_TRANSITION_RULES)$"))] String);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Image {
    #[schemars(regex(pattern = "^(sha256:[0-9a-f]{64})?$"))]
    digest: String,
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9._:/-]*$"))]
    repository: String,
    #[schemars(regex(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"))]
    tag: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Switch {
    enabled: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Monitor {
    enabled: bool,
    /// Labels by which your Prometheus selects it.
    labels: BTreeMap<String, String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    enabled: bool,
    /// Labels by which your Prometheus selects it.
    labels: BTreeMap<String, String>,
    /// Where docs/runbooks are served: the alerts' runbook_url begins with it.
    #[schemars(regex(pattern = "^https?://[^ ]+[^/ ]$"))]
    runbooks: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct OptIn {
    /// Namespaces by their labels, e.g. matchLabels: {team: shop}. An empty one selects none. A namespace with the label
    /// hitless.dev/update: native is left out, a workload with that as its annotation too.
    namespace_selector: LabelSelector,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Reload {
    /// Namespaces whose ConfigMaps and Secrets the controller may read, for workloads with hitless.dev/reload.
    namespaces: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Test {
    image: Image,
}

/// `values.schema.json`.
pub(super) fn schema() -> anyhow::Result<String> {
    let mut schema = whole()?;
    let definitions = schema["$defs"].as_object_mut().context("a schema without definitions")?;
    for (name, definition) in definitions.iter_mut() {
        if name.starts_with(KUBERNETES) {
            without_descriptions(definition);
        }
        // People write `cpu: 1`.
        if name.ends_with(".Quantity") {
            definition["type"] = serde_json::json!(["string", "number"]);
        }
    }
    close(&mut schema);
    Ok(format!("{}\n", serde_json::to_string_pretty(&schema)?))
}

fn whole() -> anyhow::Result<Value> {
    Ok(serde_json::to_value(schema_for!(Values))?)
}

fn without_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "description" || !value.is_string());
            fields.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// No object has fields that the schema does not know.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `values.yaml`.
pub(super) fn defaults(defaults: &Defaults) -> anyhow::Result<String> {
    let program = |value: &Value| serde_json::from_value::<Program>(value.clone());
    let (agent, controller) = (program(&defaults.agent)?, program(&defaults.controller)?);
    let image = |name: &str| Image {
        digest: String::new(),
        repository: controller.image.repository.replace("controller", name),
        tag: controller.image.tag.clone(),
    };
    let monitor = Monitor { enabled: false, labels: BTreeMap::new() };
    let rule = Rule { enabled: false, labels: BTreeMap::new(), runbooks: RUNBOOKS.to_owned() };
    let test = Test { image: image("cli") };
    let values = Values {
        admission: Admission::Auto,
        agent,
        approvers: Vec::new(),
        components: Vec::new(),
        controller,
        global: Map::new(),
        image_pull_secrets: Vec::new(),
        network_policy: Switch { enabled: false },
        opt_in: OptIn { namespace_selector: LabelSelector::default() },
        pod_monitor: monitor,
        prometheus_rule: rule,
        reload: Reload { namespaces: Vec::new() },
        test,
    };
    let schema = whole()?;
    let head = "# Generated by `cargo xtask generate` from xtask/src/chart/values.rs and manifests. Do not edit.";
    let lines = commented(&schema, &schema, &serde_json::to_value(&values)?)?;
    Ok(std::iter::once(head.to_owned()).chain(lines).map(|line| line + "\n").collect())
}

/// Each field behind its description.
fn commented(all: &Value, schema: &Value, values: &Value) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for (name, value) in values.as_object().context("values that are no object")? {
        let field = &schema["properties"][name];
        lines.extend(field["description"].as_str().unwrap_or_default().lines().map(|line| format!("# {line}")));
        let own = field["$ref"].as_str().and_then(|path| all.pointer(path.strip_prefix('#')?));
        match own.filter(|own| own["type"] == "object" && value.as_object().is_some_and(|value| !value.is_empty())) {
            Some(own) => {
                lines.push(format!("{name}:"));
                lines.extend(commented(all, own, value)?.into_iter().map(emit::indented));
            }
            None => lines.extend(emit::yaml(&serde_json::json!({ name: value })).lines().map(str::to_owned)),
        }
    }
    Ok(lines)
}
