//! How long a new version may take to start, as its owner has written it down (docs/contract.md#bad-version).

use hitless_api::VerifySpec;
use hitless_api::pod::PodView;

/// `progressDeadlineSeconds` where nobody has written it: the API server sets it in every Deployment.
const UNWRITTEN_SECONDS: u32 = 600;

/// In seconds from the start of the pod's containers. `progress_deadline`: what the workload has, if its kind has the field.
///
/// What an owner has written counts as it is. Where nobody has, a start is never cut off that the pod's own probes allow: natively it
/// would come up, late.
#[must_use]
pub fn start_seconds(pod: &PodView, progress_deadline: Option<u32>) -> u32 {
    match progress_deadline {
        Some(seconds) if seconds != UNWRITTEN_SECONDS => seconds,
        Some(_) | None => {
            let probes = pod.containers.iter().map(|container| container.start_seconds).max().unwrap_or_default();
            VerifySpec::default().progress_seconds.max(probes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    #[test]
    fn what_the_owner_has_written_counts_and_else_what_the_probes_allow_if_that_is_longer() {
        let pod = |failures: u32| {
            let sidecar = json!({"name": "proxy", "restartPolicy": "Always",
                "startupProbe": {"failureThreshold": failures, "periodSeconds": 10}});
            let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "web"}], "initContainers": [sidecar]}});
            PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
        };
        for (failures, written, seconds) in
            [(3, None, 600), (180, None, 1801), (180, Some(600), 1801), (180, Some(120), 120), (3, Some(900), 900)]
        {
            assert_eq!(start_seconds(&pod(failures), written), seconds, "{failures} {written:?}");
        }
    }
}
