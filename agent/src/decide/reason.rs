//! Reasons of the InService condition, by which the end of an operation is found again.

use crate::decision::Decision;

/// Reason of an InService condition that is True as it should be.
pub(super) const IN_SERVICE: &str = "InService";
/// Reason of an InService condition that is True because the operation was cancelled.
pub(super) const CANCELLED: &str = "Cancelled";
/// Reason of an InService condition that was written again because the operation was cancelled before anybody lowered it.
pub(super) const NEVER_BEGUN: &str = "CancelledInService";
/// Reason of an InService condition that was written again because the pod has become available, and the budget was asked for
/// one that is not.
pub(super) const AVAILABLE: &str = "PodAvailable";
/// Reason of an InService condition that was written again because the application says that this pod is not to be operated.
pub(super) const REFUSED: &str = "TaskRefused";
/// Reason of an InService condition that was written again because a Hold could not be begun before the grant expired.
pub(super) const EXPIRED: &str = "ExpiredInService";
/// Reason of an InService condition that was written again because new connections can't be held.
pub(super) const HOLD_FAILED: &str = "HoldFailedInService";
/// Reason of an InService condition that was written again because requests are in flight that outlast a Hold.
pub(super) const STILL_IN_FLIGHT: &str = "StillInFlightInService";
/// Reason of an InService condition that was written again because a container serves that was not thought to.
pub(super) const CONTAINER_SERVES: &str = "ContainerServesInService";
/// Reason of an InService condition that was written again because a container is another one than was granted.
pub(super) const CONTAINER_CHANGED: &str = "ContainerChangedInService";

/// The old containers run still: the kubelet may take so many seconds to end them.
pub(super) fn not_replaced(seconds: u32) -> String {
    format!(
        "the kubelet has not ended the old containers within {seconds} s, the longest that the pod's terminationGracePeriodSeconds allows; \
         that is the node's fault, and nothing is known of the new version"
    )
}

/// Granted because the pod was unavailable, which it no longer is.
pub(super) fn available() -> Decision {
    Decision::refused(
        AVAILABLE,
        "granted because the pod was unavailable, but it is Ready now; the controller asks the rules again",
    )
}

/// Nothing was replaced while the grant was fresh.
pub(super) fn expired() -> Decision {
    Decision::refused(
        "Expired",
        "new connections could not be held before the grant expired; the controller grants anew",
    )
}
