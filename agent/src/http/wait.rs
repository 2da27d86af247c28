//! `?wait=drained`: an answer as soon as there is nothing to wait for, woken by the agent's news.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Json, Response};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::answer::DrainStatus;
use super::identity::Caller;
use super::limits::Client;
use super::progress::{Because, Progress};
use super::refusal::Refusal;
use super::state::AppState;
use crate::view::NodePod;
use crate::waiters::{DELETION_SHOWS, drain_of};

/// Longest wait.
pub(super) const LONGEST_WAIT: Duration = Duration::from_hours(1);

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
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Extension(client): Extension<Client>,
    Path((namespace, name)): Path<(String, String)>,
    ask: AskResult,
) -> Result<Response, Refusal> {
    let pod = state.pod(&caller, &namespace, &name)?;
    answer(&state, &caller, pod, client, ask).await
}

/// The same of the pod that asks.
pub(super) async fn own_drain(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Extension(client): Extension<Client>,
    ask: AskResult,
) -> Result<Response, Refusal> {
    let pod = state.own_pod(&caller)?;
    answer(&state, &caller, pod, client, ask).await
}

async fn answer(
    state: &AppState,
    caller: &Caller,
    pod: Arc<NodePod>,
    client: Client,
    ask: AskResult,
) -> Result<Response, Refusal> {
    let Query(ask) = ask.map_err(|rejection| Refusal::bad(rejection.body_text()))?;
    let default = || default_timeout(&pod);
    let Some(timeout) = timeout_of(ask.wait.as_deref(), ask.timeout.as_deref(), default)? else {
        return Ok(Json(state.status(&pod.view, Timestamp::now()).0).into_response());
    };
    let id = &pod.view.id;
    let _place = state.place_to_wait(caller, client, &id.namespace, Some(&id.name))?;
    let status = wait(state, &pod, timeout, client == Client::Hook).await?;
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

async fn wait(state: &AppState, pod: &NodePod, timeout: Duration, is_hook: bool) -> Result<DrainStatus, Refusal> {
    let mut news = state.published.news().hear();
    let _waiter = state.waiters.enter(&pod.view.id.uid);
    let min_seconds = drain_of(&pod.view).min_seconds;
    let begin = Instant::now();
    let deadline = begin + timeout;
    loop {
        news.mark_unchanged();
        let (now, clock) = (Timestamp::now(), Instant::now());
        let (because, look_at) = match state.progress(&pod.view, min_seconds, now) {
            Progress::Over { because, .. } => (Some(because), None),
            Progress::Draining { look_at } => (None, look_at.map(|at| instant(at, now, clock))),
            Progress::Staying if is_hook => {
                let shown = begin + DELETION_SHOWS;
                ((clock >= shown).then_some(Because::NotLeaving), Some(shown))
            }
            Progress::Staying => (None, None),
        };
        if let Some(because) = because.or((clock >= deadline).then_some(Because::TimedOut)) {
            let (status, _) = state.status(&pod.view, now);
            return Ok(DrainStatus { because: Some(because), ..status });
        }
        let next = look_at.map_or(deadline, |at| at.min(deadline));
        tokio::select! {
            // The sender is the state's own.
            _ = news.changed() => {}
            () = sleep_until(next) => {}
            () = state.token.cancelled() => return Err(Refusal::stopping()),
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

    /// `no` for a refusal, `none` for no wait.
    fn timeout(wait: Option<&str>, timeout: Option<&str>) -> String {
        match timeout_of(wait, timeout, || Duration::from_mins(1)) {
            Ok(Some(timeout)) => format!("{timeout:?}"),
            Ok(None) => "none".to_owned(),
            Err(_) => "no".to_owned(),
        }
    }

    #[test]
    fn a_wait_has_a_word_and_a_bounded_time() {
        let drained = Some("drained");
        for (wait, text, expected) in [
            (None, None, "none"),
            (drained, None, "60s"),
            (drained, Some("500ms"), "500ms"),
            (drained, Some("1m30s"), "90s"),
            (drained, Some("1h"), "3600s"),
            (drained, Some("0s"), "0ns"),
            (drained, Some(""), "no"),
            (drained, Some("30"), "no"),
            (drained, Some("-1s"), "no"),
            (drained, Some("61m"), "no"),
            (drained, Some("soon"), "no"),
            (drained, Some("9999999999999999h"), "no"),
            (Some("ready"), None, "no"),
            (None, Some("30s"), "no"),
        ] {
            assert_eq!(timeout(wait, text), expected, "wait={wait:?} timeout={text:?}");
        }
    }
}
