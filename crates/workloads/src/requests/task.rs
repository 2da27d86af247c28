//! What objects share that ask once for something (OperationJobs, ContainerRecreateRequests): what the pod tells of it, how long a pod is
//! waited for that is not known yet, and when an object is deleted that has ended.

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use jiff::{SignedDuration, Timestamp};

use super::token::asked;
use crate::object::Object;
use crate::request::{Reports, RequestContext};
use crate::write::Write;

/// A pod that the object names may have been made just before the object, and not be known yet: so long it is waited for.
const NOT_KNOWN_YET: SignedDuration = SignedDuration::from_secs(10);

/// Until when a pod that is not known may still come; `None`: it is not there.
pub(super) fn awaited_until(object: &Object, now: Timestamp) -> Option<Timestamp> {
    let until = object.created.unwrap_or(now).checked_add(NOT_KNOWN_YET).ok()?;
    (now < until).then_some(until)
}

/// The agent has written the token on the pod, together with what it was ordered to change.
pub(super) fn is_on(pod: &PodView, token: &str) -> bool {
    pod.annotations.get(annotations::RESTARTED).is_some_and(|recorded| asked(recorded) == token)
}

/// A restart with this token was ordered, and is not over.
pub(super) fn is_under_way(pod: &PodView, token: &str, context: &RequestContext<'_, '_>) -> bool {
    context.granted.get(pod.id.uid.as_str()).is_some_and(|granted| *granted == token)
}

/// It was made after the object, so its containers were started after they were to be restarted.
pub(super) fn is_newer(pod: &PodView, object: &Object) -> bool {
    pod.created.zip(object.created).is_some_and(|(pod, object)| pod > object)
}

/// Asks to be called again then.
pub(super) fn wake(reports: &mut Reports, at: Option<Timestamp>) {
    reports.wake_at = [reports.wake_at, at].into_iter().flatten().min();
}

/// An object that has ended is deleted some time after its end.
pub(super) fn expire(
    object: &Object,
    ended: Timestamp,
    time_to_live: SignedDuration,
    now: Timestamp,
    reports: &mut Reports,
) {
    match ended.checked_add(time_to_live) {
        Ok(at) if at <= now => reports.writes.push(Write::delete("delete-finished", object)),
        Ok(at) => wake(reports, Some(at)),
        // Later than there are times: never.
        Err(_) => {}
    }
}
