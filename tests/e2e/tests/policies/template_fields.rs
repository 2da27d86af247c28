//! No field of a template's pod but images of containers is the controller's to write, whichever fields the API server describes.

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use crate::fixture::{Set, apps};
use crate::request::{Api, Call, Outcome, Who};

/// So many fields of each workload are valid at least, and refused by a policy and not for another reason.
const MANY: usize = 35;

/// Another value for a field than the fixture's templates have, where the type alone gives none that is valid.
fn values() -> Value {
    let probe = || json!({"tcpSocket": {"port": 1}});
    json!({
        "pod": {
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}},
            "automountServiceAccountToken": false,
            "dnsConfig": {"nameservers": ["192.0.2.9"]},
            "dnsPolicy": "Default",
            "enableServiceLinks": false,
            "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["x"]}],
            "hostUsers": false,
            "imagePullSecrets": [{"name": "x"}],
            "nodeSelector": {"other": "x"},
            "os": {"name": "linux"},
            "preemptionPolicy": "Never",
            "readinessGates": [{"conditionType": "x"}],
            "resourceClaims": [{"name": "x", "resourceClaimName": "x"}],
            "resources": {"requests": {"cpu": "7"}},
            "schedulingGates": [{"name": "x"}],
            "securityContext": {"runAsUser": 0},
            "tolerations": [{"operator": "Exists"}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}],
            "volumes": [{"name": "x", "hostPath": {"path": "/"}}],
        },
        "container": {
            "args": ["x"],
            "command": ["x"],
            "env": [{"name": "x", "value": "x"}],
            "envFrom": [{"secretRef": {"name": "x"}}],
            "imagePullPolicy": "Always",
            "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
            "livenessProbe": probe(),
            "ports": [{"containerPort": 1}],
            "readinessProbe": probe(),
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
            "resources": {"requests": {"cpu": "7"}},
            "securityContext": {"privileged": true},
            "startupProbe": probe(),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        },
    })
}

/// A value for a field of this schema.
fn value(known: &Value, field: &str, schema: &Value) -> Value {
    if let Some(value) = known.get(field) {
        return value.clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer") => json!(7),
        Some("string") => json!("x"),
        Some("array") => json!([]),
        Some(_) | None => json!({}),
    }
}

async fn fields(api: &Api, schema: &str) -> anyhow::Result<Map<String, Value>> {
    let openapi = api.admin(&Call::get("/openapi/v3/api/v1")).await?;
    let properties = openapi["components"]["schemas"][schema]["properties"].as_object().cloned();
    properties.with_context(|| format!("the API server describes no {schema}"))
}

/// What is wrong.
pub(crate) async fn judge(api: &Api) -> anyhow::Result<Vec<String>> {
    let pod = fields(api, "io.k8s.api.core.v1.PodSpec").await?;
    let container = fields(api, "io.k8s.api.core.v1.Container").await?;
    let (values, mut wrong) = (values(), Vec::new());
    for resource in ["deployments", Set::StatefulSet.resource(), Set::DaemonSet.resource()] {
        let path = format!("{}/held", apps(resource));
        let before = api.admin(&Call::get(&path)).await?["spec"]["template"].take();
        let of_pod = pod.iter().filter(|(field, _)| !["containers", "initContainers"].contains(&field.as_str()));
        let of_pod = of_pod.map(|(field, schema)| (field, json!({(field): value(&values["pod"], field, schema)})));
        let of_container = container.iter().filter(|(field, _)| *field != "image").map(|(field, schema)| {
            let mut containers = before["spec"]["containers"].clone();
            containers[0][field] = value(&values["container"], field, schema);
            (field, json!({"containers": containers}))
        });
        let mut refused = 0;
        for (field, spec) in of_pod.chain(of_container) {
            let call = Call::merge(&path, json!({"spec": {"template": {"spec": spec}}}));
            match api.send(Who::Controller, &call).await? {
                // The API server leaves out what belongs to a feature that is off, and what is empty.
                Outcome::Admitted(object, _) if object["spec"]["template"] != before => {
                    wrong.push(format!("the controller may set {field} in the template of {resource}"));
                }
                Outcome::Admitted(..) => {}
                Outcome::Refused(message) => refused += usize::from(message.contains("hitless-controller")),
            }
        }
        if refused < MANY {
            wrong.push(format!("of the fields of a template of {resource} only {refused} were refused by a policy"));
        }
    }
    Ok(wrong)
}
