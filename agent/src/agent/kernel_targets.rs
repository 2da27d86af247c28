//! What the threads that deal with the kernel are told to do.

use std::collections::BTreeMap;
use std::time::Duration;

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode};

use crate::decide::patience_seconds;
use crate::decision::{Decision, Direction, Hold, Watch};
use crate::deed::Deed;
use crate::drain::{hold, must_listen, observed, sctp_port};
use crate::round::NodeView;
use crate::view::PreStop;

/// Which pods are to be observed.
pub(super) fn observe(steps: &[(&Grant, Decision)], view: &NodeView<'_>) -> BTreeMap<String, observed::Target> {
    let target = |(grant, decision): &(&Grant, Decision)| {
        let stage = match decision.watch {
            Watch::No => return None,
            Watch::Leaving => observed::Stage::Leaving,
            Watch::Draining => observed::Stage::Draining,
            Watch::Destroying => observed::Stage::Destroying,
            Watch::Replacing => observed::Stage::Replacing,
        };
        let pod = &view.pods.get(&grant.pod.uid)?.view;
        let target = observed::Target::new(pod, stage, grant.drain.clone(), ids(grant, pod));
        Some((grant.pod.uid.clone(), target))
    };
    steps.iter().filter_map(target).collect()
}

/// Of which pods new connections are to be held. `has_decided`: this process has decided before.
pub(super) fn hold(
    steps: &[(&Grant, Decision)],
    view: &NodeView<'_>,
    has_decided: bool,
) -> BTreeMap<String, hold::Target> {
    let target = |(grant, decision): &(&Grant, Decision)| {
        let hold = match decision.hold {
            // An agent that was killed may have left a block that keeps clients waiting.
            Hold::No if grant.mode == GrantMode::Hold && !has_decided => Hold::Continue(Direction::Forward),
            Hold::No => return None,
            hold => hold,
        };
        let pod = view.pods.get(&grant.pod.uid)?;
        let (containers, drain) = (ids(grant, &pod.view), grant.drain.clone());
        let (unless_serving, has_left) = (grant.unless_serving, grant.mode == GrantMode::Leave);
        let (must_listen, sctp, grace) = (must_listen(&pod.view), sctp_port(&pod.view, &drain), pod.grace);
        let names: Vec<&str> = grant.containers.keys().map(String::as_str).collect();
        let target = hold::Target {
            hold,
            containers,
            unless_serving,
            has_left,
            must_listen,
            sctp,
            patience: Duration::from_secs(patience_seconds(grant).into()),
            pre_stop: PreStop::of_all(&pod.pre_stop, &names),
            drain,
            grace,
        };
        Some((grant.pod.uid.clone(), target))
    };
    steps.iter().filter_map(target).collect()
}

/// containerID of each container that is replaced, where it has one.
fn ids(grant: &Grant, pod: &PodView) -> Vec<String> {
    Deed::of(grant).container_ids(pod).map(|(_, id)| id.to_owned()).filter(|id| !id.is_empty()).collect()
}
