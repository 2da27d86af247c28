//! The second seam: who else wishes something for pods, beside their workloads.

use std::sync::Arc;

use hitless_api::Grant;
use hitless_api::pod::PodView;

use crate::intent::PodWish;
use crate::plan::Plan;
use crate::requests::restart::Restarts;

/// All kinds of requests.
pub const REQUESTS: &[&dyn RequestKind] = &[&Restarts];

/// A kind of request for pods of any workload, or of none.
pub trait RequestKind: Sync {
    /// What is wished now. `plan_of` says what the pod's workload plans, if it is looked after.
    fn wishes<'p>(&self, pods: &[Arc<PodView>], plan_of: &dyn Fn(&PodView) -> Option<&'p Plan>) -> Vec<PodWish>;

    /// Whether the grant carries out a request of this kind that is still wished. `pod` is its pod, if it is there.
    fn wants(&self, grant: &Grant, pod: Option<&PodView>) -> bool;
}
