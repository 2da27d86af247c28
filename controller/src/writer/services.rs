//! Opens Services for Holds, and closes them once nothing rests on their being open.

use hitless_api::TransitionLedger;
use hitless_api::names;
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::inputs::rows::Services;
use hitless_workloads::{EndedHold, Write};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

use super::Writer;

impl Writer {
    pub(super) async fn service(&self, write: &Write, api: Api<Service>) -> Result<(), WriteError> {
        if let Some(ended) = &write.once {
            self.may_close(write, ended).await?;
        }
        let done = self.one::<Services>(write, api.clone(), "services").await;
        // Whether a Service is open is not decided on a version that is known to be old.
        if matches!(done, Err(WriteError::Conflict { .. }))
            && let Some(current) = Writes::read(api.get_opt(&write.on.name)).await?
        {
            self.caches.inputs.services.put(current);
        }
        done
    }

    /// What only the API server can say of a Service that is to be closed.
    async fn may_close(&self, write: &Write, ended: &EndedHold) -> Result<(), WriteError> {
        let ledgers: Api<TransitionLedger> = Api::namespaced(self.client.clone(), &write.on.namespace);
        let ledger = Writes::read(ledgers.get_opt(names::LEDGER)).await?;
        if !ended.is_over(ledger.as_ref().map(|ledger| &ledger.spec)) {
            return Err(WriteError::Conflict { message: "its operation has begun again".to_owned() });
        }
        let Some(uid) = &ended.serving else { return Ok(()) };
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &write.on.namespace);
        let of_it = ListParams::default().labels(&format!("kubernetes.io/service-name={}", write.on.name));
        let slices = Writes::read(slices.list(&of_it)).await;
        // Without an answer nothing is known, and the time decides.
        if !slices.is_ok_and(|slices| is_serving(&slices.items, uid)) {
            return Err(WriteError::Conflict { message: format!("no EndpointSlice says that pod {uid} is ready") });
        }
        Ok(())
    }
}

/// Whether an EndpointSlice says that the pod with this uid is Ready. `ready` is true of every pod of an open Service; `serving` is the
/// pod's own, and follows `ready` where it is not given (`EndpointConditions` of discovery.k8s.io/v1).
fn is_serving(slices: &[EndpointSlice], uid: &str) -> bool {
    slices.iter().filter_map(|slice| slice.endpoints.as_ref()).flatten().any(|endpoint| {
        let is_it = endpoint.target_ref.as_ref().is_some_and(|target| target.uid.as_deref() == Some(uid));
        let conditions = endpoint.conditions.as_ref();
        is_it && conditions.is_none_or(|conditions| conditions.serving.or(conditions.ready).unwrap_or(true))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_pod_serves_once_a_slice_says_so_of_the_pod_itself() {
        let slice = |endpoints: Value| -> EndpointSlice {
            let object = json!({"metadata": {"name": "web-1"}, "addressType": "IPv4", "endpoints": endpoints});
            serde_json::from_value(object).unwrap()
        };
        let endpoint = |uid: &str, conditions: Value| json!({"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "uid": uid}, "conditions": conditions});
        for (endpoints, expected, why) in [
            (json!([endpoint("a", json!({"ready": true, "serving": true}))]), true, "it is Ready"),
            (
                json!([endpoint("a", json!({"ready": true, "serving": false}))]),
                false,
                "only the open Service makes it ready",
            ),
            (json!([endpoint("b", json!({"ready": true, "serving": true}))]), false, "another pod"),
            (json!([endpoint("a", json!({"ready": true}))]), true, "made by something that does not know `serving`"),
            (json!([{"addresses": ["10.0.0.1"]}]), false, "no pod at all"),
            (json!([]), false, "no endpoint"),
        ] {
            assert_eq!(is_serving(&[slice(json!([])), slice(endpoints)], "a"), expected, "{why}");
        }
    }
}
