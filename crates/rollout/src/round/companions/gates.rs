//! Readiness gates of a template whose conditions nobody sets on a companion pod: it can't become Ready, and can't serve.

use hitless_api::{lifecycle, names};
use hitless_workloads::Object;

use crate::mode::is_of_load_balancer;

/// Why a companion of the workload can never serve, as a clause for people. Whoever sets such a condition knows the pods of its own
/// workloads: a companion's controller is the workload itself, and nobody else's. Load balancers' controllers set theirs on all pods.
pub(crate) fn never_ready(root: &Object) -> Option<String> {
    let gates = root.template()?.content()["spec"]["readinessGates"].as_array()?;
    let mut names = gates.iter().filter_map(|gate| gate["conditionType"].as_str());
    let is_set =
        |name: &str| name == names::IN_SERVICE || name == lifecycle::SERVICE_READY || is_of_load_balancer(name);
    let unset = names.find(|name| !is_set(name))?;
    Some(format!("no controller sets the readiness gate {unset} of the template on it, so it could never become Ready"))
}
