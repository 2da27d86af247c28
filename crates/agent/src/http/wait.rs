//! `?wait=drained`: an answer as soon as there is nothing to wait for, woken by the agent's news.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Json, Response};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::answer::DrainStatus;
use super::desk::Desk;
use super::identity::Caller;
use super::progress::{Because, Progress};
use super::refusal::Refusal;
use super::waiters::drain_of;
use crate::view::NodePod;

/// Longest wait.
pub(super) const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// A kubelet runs a preStop hook at once when a pod is deleted; the agent's watch tells of the deletion a little later. A pod of
/// which nothing is heard for so long is not deleted.
const DELETION_SHOWS: Duration = Duration::from_secs(2);
/// How the kubelet's hooks call themselves, then comes its version.
const KUBELET_HOOK: &str = "kube-lifecycle/";

/// The query.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    wait: Option<String>,
    timeout: Option<String>,
}

type AskResult = Result<Query<Ask>, QueryRejection>;

/// How the draining of a pod stands.
pub(super) async fn drain(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    ask: AskResult,
) -> Result<Response, Refusal> {
    let pod = desk.pod(&caller, &namespace, &name)?;
    answer(&desk, &caller, pod, &headers, ask).await
}

/// The same of the pod that asks.
pub(super) async fn own_drain(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    ask: AskResult,
) -> Result<Response, Refusal> {
    let pod = desk.own_pod(&caller)?;
    answer(&desk, &caller, pod, &headers, ask).await
}

async fn answer(
    desk: &Desk,
    caller: &Caller,
    pod: Arc<NodePod>,
    headers: &HeaderMap,
    ask: AskResult,
) -> Result<Response, Refusal> {
    let Query(ask) = ask.map_err(|rejection| Refusal::bad(rejection.body_text()))?;
    let default = || default_timeout(&pod);
    let Some(timeout) = timeout_of(ask.wait.as_deref(), ask.timeout.as_deref(), default)? else {
        return Ok(Json(desk.status(&pod.view, Timestamp::now()).0).into_response());
    };
    let Some(_place) = desk.limits.waits.take(&caller.source()) else {
        desk.refusals.count("waits");
        return Err(Refusal::too_many("too many requests wait already; end one, or ask again without wait", 1));
    };
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let status = wait(desk, &pod, timeout, agent.starts_with(KUBELET_HOOK)).await?;
    Ok(Json(status).into_response())
}

/// For how long to wait; `None` for an answer at once.
pub(super) fn timeout_of(
    wait: Option<&str>,
    timeout: Option<&str>,
    default: impl FnOnce() -> Duration,
) -> Result<Option<Duration>, Refusal> {
    match (wait, timeout) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Refusal::bad("timeout has a meaning only with wait=drained")),
        (Some("drained"), None) => Ok(Some(default())),
        (Some("drained"), Some(text)) => parse(text).map(Some),
        (Some(other), _) => Err(Refusal::bad(format!("wait={other} is not known; use wait=drained"))),
    }
}

fn parse(text: &str) -> Result<Duration, Refusal> {
    let limit = LONGEST_WAIT.as_secs();
    let words = || Refusal::bad(format!("timeout={text} is no time; write e.g. 30s, 500ms or 2m, at most {limit}s"));
    let duration: SignedDuration = text.parse().map_err(|_| words())?;
    Duration::try_from(duration).ok().filter(|duration| *duration <= LONGEST_WAIT).ok_or_else(words)
}

/// As long as an operation of the pod would wait.
pub(super) fn default_timeout(pod: &NodePod) -> Duration {
    Duration::from_secs(drain_of(&pod.view).deadline_seconds.into()).min(LONGEST_WAIT)
}

async fn wait(desk: &Desk, pod: &NodePod, timeout: Duration, is_hook: bool) -> Result<DrainStatus, Refusal> {
    let mut news = desk.published.news().hear();
    let _waiter = desk.waiters.enter(&pod.view.id.uid);
    let begin = Instant::now();
    let deadline = begin + timeout;
    loop {
        news.mark_unchanged();
        let (now, clock) = (Timestamp::now(), Instant::now());
        let (mut status, progress) = desk.status(&pod.view, now);
        let (because, look_at) = match progress {
            Progress::Over { because, .. } => (Some(because), None),
            Progress::Draining { look_at } => (None, look_at.map(|at| instant(at, now, clock))),
            Progress::Staying if is_hook => {
                let shown = begin + DELETION_SHOWS;
                ((clock >= shown).then_some(Because::NotLeaving), Some(shown))
            }
            Progress::Staying => (None, None),
        };
        if let Some(because) = because.or((clock >= deadline).then_some(Because::TimedOut)) {
            status.because = Some(because);
            return Ok(status);
        }
        let next = look_at.map_or(deadline, |at| at.min(deadline));
        tokio::select! {
            // The sender is the desk's own.
            _ = news.changed() => {}
            () = sleep_until(next) => {}
            () = desk.token.cancelled() => return Err(Refusal::not_yet("the agent is being stopped; ask its successor")),
        }
    }
}

/// A time of day by the clock that does not jump.
pub(super) fn instant(at: Timestamp, now: Timestamp, clock: Instant) -> Instant {
    clock + Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(wait: Option<&str>, timeout: Option<&str>) -> Option<Option<Duration>> {
        timeout_of(wait, timeout, || Duration::from_secs(60)).ok()
    }

    #[test]
    fn a_wait_has_a_word_and_a_bounded_time() {
        let wait = |text| timeout(Some("drained"), Some(text));
        assert_eq!(timeout(None, None), Some(None), "no wait at all");
        assert_eq!(timeout(Some("drained"), None), Some(Some(Duration::from_secs(60))));
        assert_eq!(wait("500ms"), Some(Some(Duration::from_millis(500))));
        assert_eq!(wait("1h"), Some(Some(LONGEST_WAIT)));
        assert_eq!(wait("0s"), Some(Some(Duration::ZERO)));
        for text in ["", "30", "-1s", "61m", "soon", "9999999999999999h"] {
            assert_eq!(wait(text), None, "{text:?}");
        }
        assert_eq!(timeout(Some("ready"), None), None);
        assert_eq!(timeout(None, Some("30s")), None);
    }
}
