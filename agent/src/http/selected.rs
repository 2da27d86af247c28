//! `/v1/pods/<namespace>/drain?labelSelector=…`: pods of a workload at once. A preStop hook stands in a template, where no pod's
//! name is known, and the kubelet does not say for which pod it asks; so its hook waits for all pods of the workload that are
//! being deleted on this node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Json;
use hitless_api::pod::PodView;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::answer::DrainStatus;
use super::identity::Caller;
use super::limits::Client;
use super::progress::{Because, Progress};
use super::refusal::Refusal;
use super::state::AppState;
use super::wait::{default_timeout, instant, timeout_of};
use crate::view::NodePod;
use crate::waiters::{Waiter, drain_of, is_leaving};

/// Pods whose deletion shows until then are waited for. No pod is drained sooner, because quiet takes a second to show.
const DELETION_SHOWS: Duration = Duration::from_secs(1);
/// The same while nobody is being deleted and a container is being replaced: the hook is most likely that one's, and clients may be
/// held meanwhile.
const DELETION_SHOWS_IN_OPERATION: Duration = Duration::from_millis(250);

/// Between two looks: where a node is emptied there may be a hundred hooks that look at a hundred pods each.
const PACE: Duration = Duration::from_millis(20);

/// How the draining of several pods stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectionStatus {
    /// Whether all of them are drained.
    pub drained: bool,
    /// Why a wait has ended; only in answers to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// Each: the selected ones on this node, or those that were waited for.
    pub pods: Vec<DrainStatus>,
}

/// The query.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Ask {
    label_selector: Option<String>,
    wait: Option<String>,
    timeout: Option<String>,
}

/// How the draining of the selected pods stands, now or once those that are deleted are drained.
pub(super) async fn selected(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Extension(client): Extension<Client>,
    Path(namespace): Path<String>,
    ask: Result<Query<Ask>, QueryRejection>,
) -> Result<Json<SelectionStatus>, Refusal> {
    if !caller.sees_all() {
        return Err(Refusal::forbidden(caller.to_string()));
    }
    state.check_synced()?;
    let Query(ask) = ask.map_err(|rejection| Refusal::bad(rejection.body_text()))?;
    let selection = Selection { namespace, labels: labels(ask.label_selector.as_deref().unwrap_or_default())? };
    let default = || {
        let longest = selection.pods(&state).map(|pod| default_timeout(&pod)).max();
        longest.unwrap_or(Duration::from_mins(1))
    };
    let Some(timeout) = timeout_of(ask.wait.as_deref(), ask.timeout.as_deref(), default)? else {
        let now = Timestamp::now();
        let pods: Vec<_> = selection.pods(&state).map(|pod| state.status(&pod.view, now).0).collect();
        return Ok(Json(SelectionStatus::new(None, pods)));
    };
    let _place = state.place_to_wait(&caller, client, &selection.namespace, None)?;
    wait(&state, &selection, timeout).await.map(Json)
}

impl SelectionStatus {
    fn new(because: Option<Because>, mut pods: Vec<DrainStatus>) -> Self {
        pods.sort_by(|a, b| a.pod.cmp(&b.pod));
        Self { drained: !pods.is_empty() && pods.iter().all(|pod| pod.drained), because, pods }
    }
}

/// Pods of one namespace.
struct Selection {
    namespace: String,
    labels: BTreeMap<String, String>,
}

impl Selection {
    fn holds(&self, pod: &PodView) -> bool {
        pod.id.namespace == self.namespace && self.labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    }

    fn pods(&self, state: &AppState) -> impl Iterator<Item = Arc<NodePod>> {
        state.pods.pods().into_iter().filter(|pod| self.holds(&pod.view))
    }
}

/// `app=web,tier=front`.
fn labels(text: &str) -> Result<BTreeMap<String, String>, Refusal> {
    let label = |part: &str| {
        let (key, value) = part.split_once('=')?;
        let (key, value) = (key.trim_end_matches('!'), value.trim_start_matches('='));
        (key.len() == part.find('=')? && !key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    let words = || Refusal::bad(format!("labelSelector={text} is not understood; write e.g. app=web,tier=front"));
    text.split(',').filter(|part| !part.is_empty()).map(|part| label(part).ok_or_else(words)).collect()
}

/// A pod that is waited for.
struct Leaving {
    pod: Arc<NodePod>,
    min_seconds: u32,
    _waiter: Waiter,
}

async fn wait(state: &AppState, selection: &Selection, timeout: Duration) -> Result<SelectionStatus, Refusal> {
    let mut news = state.published.news().hear();
    let begin = Instant::now();
    let deadline = begin + timeout;
    let mut leaving: BTreeMap<String, Leaving> = BTreeMap::new();
    loop {
        news.mark_unchanged();
        let (now, clock) = (Timestamp::now(), Instant::now());
        let is_operating = clock < begin + DELETION_SHOWS && take(state, selection, &mut leaving);
        let is_quick = leaving.is_empty() && is_operating;
        let shown = begin + if is_quick { DELETION_SHOWS_IN_OPERATION } else { DELETION_SHOWS };
        // The first one that is still being drained decides.
        let progress = |leaving: &Leaving| state.progress(&leaving.pod.view, leaving.min_seconds, now);
        let left = leaving.values().map(progress).find(|progress| !matches!(progress, Progress::Over { .. }));
        let because = match (leaving.is_empty(), left) {
            _ if clock < shown => None,
            (true, _) => Some(Because::NotLeaving),
            (false, None) => Some(Because::Drained),
            (false, Some(_)) => None,
        };
        if let Some(because) = because.or((clock >= deadline).then_some(Because::TimedOut)) {
            let pods = leaving.values().map(|leaving| state.status(&leaving.pod.view, now).0).collect();
            return Ok(SelectionStatus::new(Some(because), pods));
        }
        let look_at = match left {
            Some(Progress::Draining { look_at }) => look_at.map(|at| instant(at, now, clock)),
            Some(Progress::Over { .. } | Progress::Staying) | None => None,
        };
        let next = look_at.into_iter().chain((clock < shown).then_some(shown)).fold(deadline, Instant::min);
        let ended = tokio::select! {
            // The sender is the state's own. What comes within the pace is looked at together.
            _ = news.changed() => false,
            () = sleep_until(next) => false,
            () = state.token.cancelled() => true,
        };
        if ended {
            return Err(Refusal::stopping());
        }
        sleep_until(clock + PACE).await;
    }
}

/// Takes those in that are being deleted; says whether one is being operated.
fn take(state: &AppState, selection: &Selection, leaving: &mut BTreeMap<String, Leaving>) -> bool {
    let mut is_operating = false;
    for pod in selection.pods(state) {
        let uid = &pod.view.id.uid;
        is_operating |= state.published.of(uid).is_some_and(|step| step.is_live());
        if is_leaving(&pod.view) && !leaving.contains_key(uid) {
            let (waiter, min_seconds) = (state.waiters.enter(uid), drain_of(&pod.view).min_seconds);
            leaving.insert(uid.clone(), Leaving { pod, min_seconds, _waiter: waiter });
        }
    }
    is_operating
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_labels_that_must_be_equal() {
        let read = |text| labels(text).ok().map(|labels| labels.into_iter().collect::<Vec<_>>());
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read(""), Some(vec![]));
        assert_eq!(read("app=web"), Some(vec![pair("app", "web")]));
        assert_eq!(read("a.b/app==web,tier=,"), Some(vec![pair("a.b/app", "web"), pair("tier", "")]));
        for text in ["app", "app!=web", "=web", "app in (web)", "!app"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
