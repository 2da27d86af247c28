//! Action `Replace`: the pod gets a label, by which its CollaSet makes another one, lets that serve, and drains and removes the
//! first. Upstream's protocol.

use std::collections::BTreeMap;

use hitless_api::JsonPatch;
use hitless_api::pod::PodView;

use super::Action;
use super::job::{Job, TargetState, failed};
use crate::kinds::colla_set::{COLLA_SET, PAIR_ORIGIN, TO_REPLACE};
use crate::request::RequestContext;
use crate::requests::token::is_token;
use crate::write::{Request, Write, patch_of_pod};

/// In `extraInfo`, upstream's key: name of the pod that is made in place of the target.
const NEW_POD: &str = "NewPod";

/// Where a target is; `pod` is the one of its name.
pub(super) fn state<'s>(
    job: Job<'_>,
    target: &str,
    pod: Option<&'s PodView>,
    context: &'s RequestContext<'_, '_>,
) -> TargetState<'s> {
    let known = job.recorded(target).and_then(|detail| detail.extra_info.get(NEW_POD));
    let Some(pod) = pod else {
        // The label that names the pair goes with the first pod; what was recorded stays.
        let Some(name) = known else { return job.missing(target, context.now) };
        let extra = extra(name);
        return match context.pod(&job.object.id.namespace, name) {
            Some(new) if new.available() => TargetState::Done { extra },
            Some(pod) => TargetState::Open { pod, begun: true, committed: true, extra },
            None => {
                failed("PodNotFound", format!("pod {target} is gone, and so is {name}, which was made in its place"))
            }
        };
    };
    let Some(owner) = pod.owner.as_ref().filter(|owner| owner.group_kind == COLLA_SET.group_kind) else {
        let whose = pod.owner.as_ref().map_or_else(|| "nobody".to_owned(), |owner| owner.label());
        return failed(
            "NotOfCollaSet",
            format!("pod {target} belongs to {whose}; only a CollaSet's pods can be replaced"),
        );
    };
    let begun = pod.labels.get(TO_REPLACE).is_some_and(|token| *token == job.token());
    if (pod.terminating || pod.finished) && !begun {
        return failed("PodNotFound", format!("pod {target} is being deleted"));
    }
    let is_new = |other: &&PodView| {
        other.id.namespace == pod.id.namespace
            && other.owner.as_ref().is_some_and(|of| of.uid == owner.uid)
            && other.labels.get(PAIR_ORIGIN) == Some(&pod.id.name)
    };
    let new = context.world.pods(&owner.uid).iter().copied().find(|other| begun && is_new(other));
    let name = new.map(|new| &new.id.name).or(known);
    // The label is a request; it can be taken back for as long as nothing is done to the pod.
    let (uid, world) = (&pod.id.uid, context.world);
    let is_leaving = world.operating.contains(uid) || world.left.contains(uid) || pod.terminating || pod.finished;
    TargetState::Open {
        pod,
        begun,
        committed: begun && is_leaving,
        extra: name.map(|name| extra(name)).unwrap_or_default(),
    }
}

fn extra(new: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(NEW_POD.to_owned(), new.to_owned())])
}

/// The label for a pod that is open and does not have it yet. One that its owner wants to replace already stays as it is.
pub(super) fn begin(job: Job<'_>, pod: &PodView, context: &RequestContext<'_, '_>) -> Option<Write> {
    let is_followed = pod.owner.as_ref().is_some_and(|owner| context.world.object(&owner.uid).is_some());
    let is_wanted = job.body.action == Action::Replace && job.body.invalid.is_none();
    if !is_wanted || !is_followed || pod.labels.contains_key(TO_REPLACE) {
        return None;
    }
    Some(label(pod, "begin-replace", |patch| patch.add(&["metadata", "labels", TO_REPLACE], job.token())))
}

/// Takes the label away again where a job has set it and is gone, or has given the pod up: its CollaSet undoes what is not done yet.
pub(super) fn cancelled(context: &RequestContext<'_, '_>) -> Vec<Write> {
    let ours = context.pods.iter().filter_map(|pod| {
        let token = pod.labels.get(TO_REPLACE).filter(|token| is_token(token))?;
        let is_wanted = Job::of_token(token, context).is_some_and(|job| !job.has_given_up(&pod.id.name));
        (!pod.terminating && !is_wanted).then_some((pod, token))
    });
    let path = ["metadata", "labels", TO_REPLACE];
    ours.map(|(pod, token)| label(pod, "cancel-replace", |patch| patch.test(&path, token.as_str()).remove(&path)))
        .collect()
}

fn label(pod: &PodView, verb: &'static str, change: impl FnOnce(JsonPatch) -> JsonPatch) -> Write {
    Write::on_pod(verb, &pod.id, Request::Patch(change(patch_of_pod(pod))))
}
