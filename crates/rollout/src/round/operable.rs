//! A pod that nothing but the rules can keep from being operated.

use hitless_api::ObjectRef;
use hitless_api::pod::PodView;
use hitless_workloads::PodIntent;

use crate::mode::OperationSettings;

/// A pod that nothing but the rules can keep from being operated.
pub(crate) struct Operable<'a> {
    pub(crate) pod: &'a PodView,
    pub(crate) node: &'a str,
    pub(crate) intent: PodIntent,
    /// How it is kept from losing requests, but for who else serves at that moment.
    pub(crate) settings: OperationSettings,
    /// Its top workload.
    pub(crate) owner: Option<&'a ObjectRef>,
    /// Place in the workload's order.
    pub(crate) rank: i32,
}
