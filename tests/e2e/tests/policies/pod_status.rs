//! No field of a pod's status but its conditions is ours to write, whichever fields the API server describes.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::fixture::{NAMESPACE, pods};
use crate::request::{Api, Call, Outcome, Who};

/// Another value for each field than the fixture's pods have.
fn values() -> Value {
    let container = || json!([{"name": "web", "image": "other:1", "imageID": "x", "ready": false, "restartCount": 7}]);
    json!({
        "allocatedResources": {"cpu": "7"},
        "containerStatuses": container(),
        "ephemeralContainerStatuses": container(),
        "extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [
            {"containerName": "web", "resourceName": "example.com/x", "requestName": "x"}]},
        "hostIP": "192.0.2.9",
        "hostIPs": [{"ip": "192.0.2.9"}],
        "initContainerStatuses": container(),
        "message": "forged",
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "x", "containers": ["web"], "resources": {"cpu": "1"}}],
        "nominatedNodeName": "other",
        "observedGeneration": 1000,
        "phase": "Failed",
        "podIP": "192.0.2.9",
        "podIPs": [{"ip": "192.0.2.9"}],
        "qosClass": "BestEffort",
        "reason": "Forged",
        "resize": "Infeasible",
        "resourceClaimStatuses": [{"name": "x"}],
        "resources": {"requests": {"cpu": "7"}},
        "startTime": "2020-01-01T00:00:00Z",
        "volumeHealth": [{"name": "x", "conditions": [{"status": "Degraded", "reason": "Forged"}]}],
    })
}

/// What is wrong.
pub(crate) async fn judge(api: &Api) -> anyhow::Result<Vec<String>> {
    let openapi = api.admin(&Call::get("/openapi/v3/api/v1")).await?;
    let fields = openapi["components"]["schemas"]["io.k8s.api.core.v1.PodStatus"]["properties"].as_object();
    let fields = fields.context("the API server describes no PodStatus")?;
    let (values, mut wrong) = (values(), Vec::new());
    for field in fields.keys().filter(|field| *field != "conditions") {
        let Some(value) = values.get(field) else {
            wrong.push(format!("PodStatus has the field {field}, which no policy and no test knows"));
            continue;
        };
        // A merge patch: lists are replaced, as whoever forges one would.
        let call = Call::merge(format!("{}/reserved/status", pods(NAMESPACE)), json!({"status": {(field): value}}));
        for who in [Who::Agent, Who::Controller] {
            if let Outcome::Admitted(object, _) = api.send(who, &call).await? {
                // The API server leaves out what belongs to a feature that is off.
                let written = &object["status"][field];
                if written == value {
                    wrong.push(format!("{who:?} may set status.{field} of a pod"));
                }
            }
        }
    }
    Ok(wrong)
}
