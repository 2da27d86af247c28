//! Server-sent events: one at each change, the last one when it has ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures::stream;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::answer::DrainStatus;
use super::identity::Caller;
use super::limits::{Client, Place};
use super::progress::{Because, Progress};
use super::refusal::Refusal;
use super::state::AppState;
use super::wait::{LONGEST_WAIT, instant};
use crate::view::NodePod;
use crate::waiters::Waiter;

/// Between two events of a stream; what changes meanwhile is in the next one.
const PACE: Duration = Duration::from_millis(50);
/// A comment is sent after so long without an event, so that nobody on the way takes the stream for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events of a pod.
pub(super) async fn events(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Extension(client): Extension<Client>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let pod = state.pod(&caller, &namespace, &name)?;
    stream_of(&state, &caller, client, pod)
}

/// Events of the pod that asks.
pub(super) async fn own_events(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Extension(client): Extension<Client>,
) -> Result<Response, Refusal> {
    let pod = state.own_pod(&caller)?;
    stream_of(&state, &caller, client, pod)
}

fn stream_of(state: &AppState, caller: &Caller, client: Client, pod: Arc<NodePod>) -> Result<Response, Refusal> {
    let Some(place) = state.limits.streams.take(&caller.source(client)) else {
        state.refusals.count("streams");
        return Err(Refusal::too_many("too many event streams are open already; close one", 5));
    };
    let now = Instant::now();
    let follower = Follower {
        news: state.published.news().hear(),
        _waiter: state.waiters.enter(&pod.view.id.uid),
        _place: place,
        state: state.clone(),
        pod,
        last: None,
        was_live: false,
        has_ended: false,
        not_before: now,
        until: now + LONGEST_WAIT,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<Event, Infallible>(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

/// Somebody who follows a pod.
struct Follower {
    state: AppState,
    pod: Arc<NodePod>,
    news: watch::Receiver<()>,
    _waiter: Waiter,
    _place: Place,
    last: Option<DrainStatus>,
    /// An operation was under way.
    was_live: bool,
    has_ended: bool,
    not_before: Instant,
    until: Instant,
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        if self.has_ended {
            return None;
        }
        sleep_until(self.not_before).await;
        loop {
            self.news.mark_unchanged();
            let (now, clock) = (Timestamp::now(), Instant::now());
            let (status, progress) = self.state.status(&self.pod.view, now);
            let is_live = status.operation.is_some() && !status.has_ended();
            let is_gone = matches!(progress, Progress::Over { because: Because::Gone, .. });
            self.has_ended = is_gone || self.was_live && !is_live;
            self.was_live |= is_live;
            let timeless = status.timeless();
            if self.has_ended || self.last.as_ref() != Some(&timeless) {
                self.last = Some(timeless);
                self.not_before = clock + PACE;
                let name = if self.has_ended { "end" } else { "state" };
                return Event::default().event(name).json_data(&status).ok();
            }
            let next = match progress {
                Progress::Draining { look_at: Some(at) } => instant(at, now, clock).min(self.until),
                Progress::Draining { look_at: None } | Progress::Over { .. } | Progress::Staying => self.until,
            };
            tokio::select! {
                // The sender is the state's own.
                _ = self.news.changed() => {}
                () = sleep_until(next) => if next == self.until { return None },
                () = self.state.token.cancelled() => return None,
            }
        }
    }
}
