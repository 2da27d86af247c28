//! Action `Replace`: another pod of its CollaSet takes the place of the target. No CollaSet of ours can do that yet
//! (docs/compatibility.md), so a target fails at once and nothing is done to its pod.

use hitless_api::ObjectRef;
use hitless_api::pod::PodView;

use super::job::{Job, Standing, failed};
use crate::kinds::colla_set::COLLA_SET;
use crate::request::Scene;

/// Where a target is; `pod` is the one of its name.
pub(super) fn standing<'s>(
    job: Job<'_>,
    target: &str,
    pod: Option<&'s PodView>,
    scene: &'s Scene<'_, '_>,
) -> Standing<'s> {
    let Some(pod) = pod else { return job.missing(target, scene.now) };
    let Some(owner) = pod.owner.as_ref().filter(|owner| owner.group_kind == COLLA_SET.group_kind) else {
        let whose = pod.owner.as_ref().map_or_else(|| "nobody".to_owned(), ObjectRef::label);
        let why = format!("pod {target} belongs to {whose}; only a CollaSet's pods can be replaced");
        return failed("NotOfCollaSet", why);
    };
    let whose = owner.label();
    let why = format!("hitless can't replace a pod of {whose} yet; restart it in place (action Restart), or delete it");
    failed("NotSupported", why)
}
