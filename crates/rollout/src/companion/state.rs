//! How far a companion pod is.

use hitless_api::VerifySpec;
use hitless_api::pod::{ContainerView, PodView};
use jiff::{SignedDuration, Timestamp};

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No node has room for it, or may have it, in the scheduler's words.
    Unschedulable {
        /// For so long.
        since: Option<Timestamp>,
        /// The scheduler's words.
        words: String,
    },
    /// It is not ready yet, for this reason.
    Starting {
        /// For people.
        words: String,
        /// Until then at least, if nothing changes.
        until: Option<Timestamp>,
    },
    /// It does not run, in the kubelet's words; it tries again.
    Failing(String),
    /// All its containers are ready.
    Ready {
        /// From the start of its containers, in milliseconds; times on the wire are in seconds.
        start_milliseconds: u32,
    },
}

impl State {
    /// Of a companion pod that is there.
    #[must_use]
    pub fn of(pod: &PodView, now: Timestamp) -> Self {
        if pod.finished {
            return Self::Failing("it has ended".to_owned());
        }
        let starting = |words: String| Self::Starting { words, until: None };
        if pod.node.is_none() {
            let scheduled = pod.conditions.get("PodScheduled").filter(|condition| !condition.is_true);
            return match scheduled {
                Some(refused) => Self::Unschedulable { since: refused.since, words: refused.message.clone() },
                None => starting("it is not bound to a node yet".to_owned()),
            };
        }
        if let Some(words) = pod.containers.iter().find_map(failure) {
            return Self::Failing(words);
        }
        let Some(ready) = pod.conditions.get("ContainersReady").filter(|ready| ready.is_true) else {
            return starting(missing(pod));
        };
        let ready_since = ready.since.unwrap_or(now);
        let starts = pod.containers.iter().filter_map(|container| container.status.as_ref()?.running_since);
        let started = starts.max().unwrap_or(ready_since);
        let is_probed = pod.containers.iter().all(|container| !container.probe_periods.is_empty());
        // The kubelet calls a container without a probe ready as soon as it is started.
        let sure =
            started.saturating_add(SignedDuration::from_secs(VerifySpec::RUNS_FOR_SECONDS.into())).unwrap_or(now);
        if !is_probed && now < sure {
            let words = "it has just started, and has no readiness probe".to_owned();
            return Self::Starting { words, until: Some(sure) };
        }
        let needed = ready_since.duration_since(started).as_millis();
        Self::Ready { start_milliseconds: u32::try_from(needed).unwrap_or_default() }
    }
}

/// The kubelet has said that it can't be started, or it has ended.
pub(crate) fn failure(container: &ContainerView) -> Option<String> {
    let status = container.status.as_ref().filter(|status| status.running_since.is_none())?;
    let reason = match status.waiting.as_deref() {
        Some("ContainerCreating" | "PodInitializing") => return None,
        None if status.trouble.is_none() => return None,
        reason => reason.unwrap_or("Terminated"),
    };
    let words = status.trouble.as_deref().map(|words| format!(": {words}")).unwrap_or_default();
    Some(format!("container {}: {reason}{words}", container.name))
}

fn missing(pod: &PodView) -> String {
    let is_ready = |container: &&ContainerView| container.status.as_ref().is_some_and(|status| status.ready);
    let unready = pod.containers.iter().filter(|container| !is_ready(container));
    let restarts = |container: &ContainerView| container.status.as_ref().map_or(0, |status| status.restarts);
    let words = unready.map(|container| match restarts(container) {
        0 => format!("container {} is not ready", container.name),
        count => format!("container {} is not ready, and was restarted {count} times", container.name),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn state(spec: &Value, status: &Value) -> State {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": spec, "status": status})).unwrap();
        State::of(&PodView::from(&pod), "2026-11-23T00:00:10Z".parse().unwrap())
    }

    fn container(state: &Value, ready: bool) -> Value {
        json!([{"name": "web", "image": "", "imageID": "", "ready": ready, "restartCount": 0, "state": state}])
    }

    #[test]
    fn who_has_no_room_and_who_crashes_says_so() {
        let web = json!({"containers": [{"name": "web"}]});
        let no_room = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}]});
        assert_eq!(state(&web, &no_room), State::Unschedulable { since: None, words: "0/2 nodes".to_owned() });
        let bound = json!({"nodeName": "n1", "containers": [{"name": "web"}]});
        let crashed = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
        let wanted = State::Failing("container web: Terminated: Error with exit code 1".to_owned());
        assert_eq!(state(&bound, &json!({"containerStatuses": container(&crashed, false)})), wanted);
        let pulled = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
        let wanted = State::Failing("container web: ErrImagePull: not found".to_owned());
        assert_eq!(state(&bound, &json!({"containerStatuses": container(&pulled, false)})), wanted);
        let made = json!({"waiting": {"reason": "ContainerCreating"}});
        assert!(matches!(
            state(&bound, &json!({"containerStatuses": container(&made, false)})),
            State::Starting { .. }
        ));
    }

    #[test]
    fn ready_is_what_has_a_probe_that_passes_or_has_run_for_a_while() {
        let status = |started: &str| {
            json!({"containerStatuses": container(&json!({"running": {"startedAt": started}}), true),
                "conditions": [{"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-11-23T00:00:09Z"}]})
        };
        let probed =
            json!({"nodeName": "n1", "containers": [{"name": "web", "readinessProbe": {"httpGet": {"port": 80}}}]});
        let plain = json!({"nodeName": "n1", "containers": [{"name": "web"}]});
        assert_eq!(state(&probed, &status("2026-11-23T00:00:08Z")), State::Ready { start_milliseconds: 1000 });
        assert_eq!(state(&plain, &status("2026-11-23T00:00:07Z")), State::Ready { start_milliseconds: 2000 });
        let until = Some("2026-11-23T00:00:11Z".parse().unwrap());
        let young = state(&plain, &status("2026-11-23T00:00:08Z"));
        assert!(matches!(young, State::Starting { until: at, .. } if at == until), "{young:?}");
    }
}
