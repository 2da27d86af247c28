//! `/lb/<namespace>/<pod>`: whether a load balancer outside of the cluster may send the pod new connections.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use hitless_api::pod::PodView;

use super::state::AppState;
use crate::view::{Held, Observation, Stage};
use crate::waiters::is_leaving;

/// A status and a word. Open to everybody: it tells no more than a connection to the pod does.
pub(super) async fn lb(
    State(state): State<AppState>,
    Path((namespace, name)): Path<(String, String)>,
) -> (StatusCode, &'static str) {
    let pod = || state.pods.pod(&namespace, &name);
    let Some(known) = pod() else {
        return if state.pods.synced() {
            (StatusCode::NOT_FOUND, "no such pod on this node\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not known yet\n")
        };
    };
    let uid = &known.view.id.uid;
    // Others may see the write before the API server has answered it here. Once it is no longer under way, the pod shows it: so
    // the pod is read after this.
    let leaves = state.published.of(uid).is_some_and(|step| step.leaves_service);
    let is_open = || pod().is_some_and(|pod| is_open(&pod.view, &state.pods.observation(uid)));
    if !leaves && is_open() {
        (StatusCode::OK, "in service\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "out of service\n")
    }
}

/// In service and ready. A pod whose new clients are held is not ready for a moment, but refuses nobody.
fn is_open(pod: &PodView, observation: &Observation) -> bool {
    let is_held = matches!(observation, Observation::Held(Held { stage: Stage::Settling(_) | Stage::Settled(_), .. }));
    let is_in_service = pod.in_service().is_none_or(|condition| condition.is_true);
    is_in_service && (pod.ready() || is_held) && !is_leaving(pod) && !pod.finished
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Direction;
    use crate::view::HoldNumbers;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(ready: &str, in_service: Option<&str>, is_deleted: bool) -> PodView {
        let metadata = if is_deleted { json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}) } else { json!({}) };
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let mut conditions = vec![condition("Ready", ready)];
        conditions.extend(in_service.map(|status| condition("hitless.dev/InService", status)));
        let pod = json!({"metadata": metadata, "status": {"conditions": conditions}});
        PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    fn held(stage: Stage) -> Observation {
        let (direction, numbers) = (Direction::Forward, HoldNumbers::default());
        Observation::Held(Held { direction, stage, numbers, listening: None })
    }

    #[test]
    fn open_is_who_is_in_service_and_ready_or_has_its_clients_held() {
        let (none, holds) = (Observation::None, held(Stage::Settled(0)));
        for (pod, observation, expected) in [
            (pod("True", Some("True"), false), &none, true),
            (pod("True", None, false), &none, true),
            (pod("False", Some("True"), false), &none, false),
            (pod("True", Some("False"), false), &none, false),
            (pod("True", Some("True"), true), &none, false),
            (pod("False", Some("True"), false), &holds, true),
            (pod("False", Some("True"), true), &holds, false),
            (pod("False", Some("True"), false), &held(Stage::Released), false),
        ] {
            assert_eq!(is_open(&pod, observation), expected, "{pod:?} {observation:?}");
        }
    }
}
