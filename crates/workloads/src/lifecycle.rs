//! The labels of PodOpsLifecycle: what the next write to a pod is (docs/contract.md#podopslifecycle).
//!
//! Upstream's order (kuperator v0.7.4, its mutating webhook and its lifecycle controller). What is a chain of writes there because a
//! webhook sees only one of them is one write here where nobody waits in between. Pure: a pod and what is known of its operation in,
//! at most one write out, which tests the version that was looked at.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::event::{EventNote, Severity};
use hitless_api::lifecycle::{self, DELETE_ID, DELETE_TYPE, LifecycleView, Step};
use hitless_api::names::{self, labels};
use hitless_api::pod::PodView;
use hitless_api::{Grant, JsonPatch};
use jiff::{Timestamp, Unit};
use serde_json::json;

use crate::removal::MayGo;
use crate::write::{Request, Write, patch_of_pod};

type Labels = BTreeMap<String, String>;

/// What is known of the pod's operation besides the pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperationContext<'a> {
    /// The grant by which others operate the pod: reserved, neither ended nor cancelled.
    pub grant: Option<&'a Grant>,
    /// A CollaSet is its controller, and looks after what is to be deleted.
    pub in_colla_set: bool,
    /// An operation of ours has it out of service, or is about to, and waits for those who protect it.
    pub leaves: bool,
}

impl OperationContext<'_> {
    /// The pod itself says that it is out of service for the grant, and that nobody is connected.
    fn is_drained(&self, pod: &PodView) -> bool {
        let shows = |grant: &Grant| {
            let condition = pod.in_service().filter(|condition| !condition.is_true);
            condition.is_some_and(|it| it.reason == names::DRAINED && it.message == grant.id)
        };
        self.grant.is_some_and(shows)
    }
}

/// The next write to the pod, if one is due. `is_expected`: whether whoever is named so may still add its finalizer.
#[must_use]
pub fn next(
    pod: &PodView,
    known: OperationContext<'_>,
    is_expected: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Option<Write> {
    let view = pod.lifecycle.as_deref()?;
    if pod.terminating || pod.finished {
        return None;
    }
    // None where nobody can tell what is expected.
    let is_complete = view.missing().is_some_and(|mut missing| !missing.any(is_expected));
    let work = Work { pod, view, known, is_complete, stamp: now.as_nanosecond().to_string() };
    // Nobody operates such a pod by its labels, so it has none of them; a gate that its template names is answered all the same.
    let after = work.labels();
    if !work.is_system() && after != *pod.labels {
        return Some(Write::on_pod("lifecycle-labels", &pod.id, Request::Patch(patch_of(pod, &after))));
    }
    if let Some(is_true) = work.service_ready() {
        let note = is_true
            .then(|| note(pod, "ServiceReady", "the pod serves as far as PodOpsLifecycle is concerned".to_owned()));
        return Some(
            Write::on_pod("lifecycle-condition", &pod.id, Request::Status(work.condition(is_true, now))).telling(note),
        );
    }
    let may_go = MayGo::let_go(pod, known.grant).filter(|_| !work.is_system() && work.is_deletion())?;
    let text = format!("the pod has the label {} and has left service, so it is deleted", lifecycle::TO_DELETE);
    Some(Write::delete_pod("delete-pod", may_go).telling(Some(note(pod, "PodDeletion", text))))
}

/// One look at a pod.
struct Work<'a> {
    pod: &'a PodView,
    view: &'a LifecycleView,
    known: OperationContext<'a>,
    /// All finalizers that are expected are there.
    is_complete: bool,
    stamp: String,
}

impl Work<'_> {
    /// The labels as they are to be.
    fn labels(&self) -> Labels {
        let mut all = Labels::clone(&self.pod.labels);
        Self::take_back(&mut all);
        if self.is_deletion() {
            self.begin_deletion(&mut all);
        }
        let ids: BTreeSet<String> = lifecycle::ids(&all).into_iter().map(ToOwned::to_owned).collect();
        let is_operating = |id: &&String| all.contains_key(&Step::Operating.key(id));
        let operating: Vec<&String> = ids.iter().filter(is_operating).collect();
        for id in &operating {
            self.operate(&mut all, id);
        }
        // The barrier: the pod returns when all have finished.
        if operating.is_empty() {
            self.finish(&mut all, &ids);
        }
        self.leave(&mut all);
        if lifecycle::ids(&all).is_empty() {
            all.retain(|key, _| lifecycle::permitted(key).is_none());
        }
        if !has_left(&all) {
            self.availability(&mut all);
        }
        all
    }

    /// Operations that are taken back, and those that have ended before they were allowed.
    fn take_back(all: &mut Labels) {
        let ids: Vec<String> = lifecycle::ids(all).into_iter().map(ToOwned::to_owned).collect();
        for id in ids {
            let has = |step: Step| all.contains_key(&step.key(&id));
            let is_undone = has(Step::UndoOperationType);
            let is_live = has(Step::Operating) || has(Step::Operate) || has(Step::Operated);
            let has_begun = has(Step::PreCheck) || has(Step::PreChecked) || has(Step::Preparing);
            if !is_undone && (is_live || !has_begun) {
                continue;
            }
            let kind = all.get(&Step::OperationType.key(&id)).cloned();
            let kind = kind.or_else(|| all.get(&Step::UndoOperationType.key(&id)).cloned());
            clear(all, &id, &Step::ALL);
            if let Some(kind) = kind.filter(|kind| !has_type(all, kind)) {
                all.remove(&lifecycle::permission(&kind));
            }
        }
    }

    /// Whether it belongs to the cluster or to hitless itself.
    fn is_system(&self) -> bool {
        names::is_system(&self.pod.id.namespace)
    }

    /// Who protects the pod sees that it leaves service, as upstream tells it.
    fn leave(&self, all: &mut Labels) {
        let preparing = Step::Preparing.key(lifecycle::OWN_ID);
        if self.known.leaves {
            let since = self.pod.labels.get(&preparing).unwrap_or(&self.stamp);
            all.insert(preparing, since.clone());
            all.remove(lifecycle::SERVICE_AVAILABLE);
        } else {
            all.remove(&preparing);
        }
    }

    fn is_deletion(&self) -> bool {
        self.pod.labels.contains_key(lifecycle::TO_DELETE) && !self.known.in_colla_set
    }

    fn begin_deletion(&self, all: &mut Labels) {
        let operating = Step::Operating.key(DELETE_ID);
        if !all.contains_key(&operating) {
            all.insert(operating, self.stamp.clone());
            all.insert(Step::OperationType.key(DELETE_ID), DELETE_TYPE.to_owned());
            all.insert(lifecycle::PREPARING_TO_DELETE.to_owned(), self.stamp.clone());
        }
    }

    /// An operator has begun and not finished.
    fn operate(&self, all: &mut Labels, id: &str) {
        let key = |step: Step| step.key(id);
        if all.contains_key(&key(Step::Operated)) {
            // It begins anew before the pod was back from the time before.
            let before =
                [Step::Operated, Step::DoneOperationType, Step::PostCheck, Step::PostChecked, Step::Completing];
            clear(all, id, &before);
        }
        let Some(kind) = all.get(&key(Step::OperationType)).cloned() else { return };
        if self.known.grant.is_none() {
            // Also where the pod could not be taken out of service: it serves, and the rules are asked anew.
            if !all.contains_key(&key(Step::Operate)) {
                clear(all, id, &[Step::PreChecked, Step::Preparing]);
                all.entry(key(Step::PreCheck)).or_insert_with(|| self.stamp.clone());
                if !is_permitted(all, &kind) {
                    all.remove(&lifecycle::permission(&kind));
                }
            }
            return;
        }
        for step in [lifecycle::permission(&kind), key(Step::PreChecked)] {
            all.entry(step).or_insert_with(|| self.stamp.clone());
        }
        all.remove(&key(Step::PreCheck));
        if all.contains_key(&key(Step::Operate)) {
            return;
        }
        all.remove(lifecycle::SERVICE_AVAILABLE);
        if self.is_ready_to_operate() {
            all.remove(&key(Step::Preparing));
            all.insert(key(Step::Operate), self.stamp.clone());
        } else {
            all.entry(key(Step::Preparing)).or_insert_with(|| self.stamp.clone());
        }
    }

    /// Upstream asks for the condition and the finalizers. That nobody is connected any more comes on top.
    fn is_ready_to_operate(&self) -> bool {
        let is_out = self.view.condition.is_none() || !self.pod.is(lifecycle::SERVICE_READY);
        self.known.is_drained(self.pod) && is_out && !self.view.is_protected()
    }

    /// Nobody operates the pod any more.
    fn finish(&self, all: &mut Labels, ids: &BTreeSet<String>) {
        let live = ids
            .iter()
            .filter(|id| all.contains_key(&Step::Operate.key(id)) || all.contains_key(&Step::Operated.key(id)));
        let live: Vec<String> = live.cloned().collect();
        let is_back = |id: &String| self.pod.labels.contains_key(&Step::Completing.key(id));
        if !live.is_empty() && live.iter().all(is_back) && self.is_complete && self.serves() {
            for id in &live {
                clear(all, id, &Step::ALL);
            }
            return;
        }
        for id in &live {
            let key = |step: Step| step.key(id);
            if !all.contains_key(&key(Step::Operated)) {
                let kind = all.get(&key(Step::OperationType)).cloned().unwrap_or_default();
                clear(all, id, &[Step::PreChecked, Step::Preparing, Step::Operate, Step::OperationType]);
                all.remove(&lifecycle::permission(&kind));
                all.insert(key(Step::Operated), self.stamp.clone());
                all.insert(key(Step::DoneOperationType), kind);
                all.insert(key(Step::PostCheck), self.stamp.clone());
            } else if all.contains_key(&key(Step::PostCheck)) && self.is_checked() {
                all.remove(&key(Step::PostCheck));
                all.insert(key(Step::PostChecked), self.stamp.clone());
                all.insert(key(Step::Completing), self.stamp.clone());
            }
        }
    }

    /// The rules of stage `PostCheck` let the pod return, if there are any.
    fn is_checked(&self) -> bool {
        self.known.grant.is_none_or(|grant| grant.post_check != Some(hitless_api::PostCheck::Pending))
    }

    /// Requests may come again.
    fn serves(&self) -> bool {
        let is_in_service = self.pod.in_service().is_none_or(|condition| condition.is_true);
        if self.has_condition() { self.pod.is(lifecycle::SERVICE_READY) } else { is_in_service }
    }

    fn has_condition(&self) -> bool {
        self.view.gated || self.view.condition.is_some()
    }

    /// Nobody has it out of service: whether the pod serves. CollaSets of ours do not need the label, and each is a write.
    fn availability(&self, all: &mut Labels) {
        if self.pod.labels.contains_key(labels::MADE_FOR) || all.contains_key(lifecycle::STAY_OFFLINE) {
            return;
        }
        if !self.pod.ready() {
            all.remove(lifecycle::SERVICE_AVAILABLE);
        } else if self.is_complete && !all.contains_key(lifecycle::SERVICE_AVAILABLE) {
            all.insert(lifecycle::SERVICE_AVAILABLE.to_owned(), self.stamp.clone());
            for key in lifecycle::NEW {
                all.remove(key);
            }
        }
    }

    /// What the condition is to be, if it is not.
    fn service_ready(&self) -> Option<bool> {
        let all = &self.pod.labels;
        let has = |step: Step| lifecycle::at(all, step).next().is_some();
        let is_out = has(Step::Preparing) || (has(Step::Operating) && has(Step::Operate));
        let wanted = if is_out && !self.is_system() {
            false
        } else if has(Step::Completing)
            || ((self.is_system() || !has_left(all)) && !all.contains_key(lifecycle::STAY_OFFLINE))
        {
            true
        } else {
            return None;
        };
        let is = self.pod.conditions.get(lifecycle::SERVICE_READY).map(|condition| condition.is_true);
        (self.has_condition() && is != Some(wanted)).then_some(wanted)
    }

    fn condition(&self, is_true: bool, now: Timestamp) -> JsonPatch {
        let condition = json!({
            "type": lifecycle::SERVICE_READY,
            "status": if is_true { "True" } else { "False" },
            "message": lifecycle::SERVICE_READY_MESSAGE,
            "lastTransitionTime": now.round(Unit::Second).unwrap_or(now).to_string(),
        });
        let patch = patch_of_pod(self.pod);
        match self.view.condition {
            None if self.pod.conditions.is_empty() => patch.add(&["status", "conditions"], json!([condition])),
            None => patch.add(&["status", "conditions", "-"], condition),
            Some(index) => {
                let index = index.to_string();
                let [status, conditions, index] = ["status", "conditions", index.as_str()];
                patch
                    .test(&[status, conditions, index, "type"], lifecycle::SERVICE_READY)
                    .replace(&[status, conditions, index], condition)
            }
        }
    }
}

fn clear(all: &mut Labels, id: &str, steps: &[Step]) {
    for step in steps {
        all.remove(&step.key(id));
    }
}

/// Some operation has the pod out of service, or has had it and it is not back.
fn has_left(all: &Labels) -> bool {
    let steps = [Step::Preparing, Step::Operate, Step::Operated];
    steps.into_iter().any(|step| lifecycle::at(all, step).next().is_some())
}

/// Some operation of this type is permitted.
fn is_permitted(all: &Labels, kind: &str) -> bool {
    lifecycle::at(all, Step::PreChecked).any(|id| all.get(&Step::OperationType.key(id)).is_some_and(|it| it == kind))
}

fn has_type(all: &Labels, kind: &str) -> bool {
    lifecycle::at(all, Step::OperationType).any(|id| all.get(&Step::OperationType.key(id)).is_some_and(|it| it == kind))
}

fn patch_of(pod: &PodView, after: &Labels) -> JsonPatch {
    let removed = pod.labels.keys().filter(|key| !after.contains_key(*key));
    let patch = removed.fold(patch_of_pod(pod), |patch, key| patch.remove(&["metadata", "labels", key]));
    let changed = after.iter().filter(|(key, value)| pod.labels.get(*key) != Some(value));
    changed.fold(patch, |patch, (key, value)| patch.add(&["metadata", "labels", key], value.as_str()))
}

fn note(pod: &PodView, reason: &'static str, text: String) -> EventNote {
    let regarding = pod.id.object().reference("v1");
    EventNote { regarding, severity: Severity::Normal, reason, action: "PodOpsLifecycle", text }
}
