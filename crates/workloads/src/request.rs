//! The second seam: who else wishes something for pods, beside their workloads.

use std::sync::Arc;

use hitless_api::Grant;
use hitless_api::pod::PodView;

use crate::intent::PodWish;
use crate::kind::Component;
use crate::plan::Plan;
use crate::requests::foreign::Foreign;
use crate::requests::restart::Restarts;
use crate::rights::Right;

/// All kinds of requests.
pub const REQUESTS: &[&dyn RequestKind] = &[&Restarts, &Foreign];

/// A kind of request for pods of any workload, or of none.
pub trait RequestKind: Sync {
    /// What has to be installed for it.
    fn component(&self) -> Component {
        Component::Base
    }

    /// What the controller needs for it.
    fn rights(&self) -> Vec<Right> {
        Vec::new()
    }

    /// What is wished now. `plan_of` says what the pod's workload plans, if it is looked after.
    fn wishes<'p>(&self, pods: &[Arc<PodView>], plan_of: &dyn Fn(&PodView) -> Option<&'p Plan>) -> Vec<PodWish>;

    /// Whether the grant carries out a request of this kind that is still wished. `pod` is its pod, if it is there.
    fn wants(&self, grant: &Grant, pod: Option<&PodView>) -> bool;

    /// Whether it comes before what the pod's workload wishes. Otherwise it goes along with that, or waits for it.
    fn goes_first(&self) -> bool {
        false
    }
}
