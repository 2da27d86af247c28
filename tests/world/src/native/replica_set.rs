//! The ReplicaSet controller.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_workloads::kinds::deployment::ReplicaSetBody;
use serde_json::json;

use super::{Act, NewPod, Seen};

pub(super) fn sync(seen: &Seen<'_>, body: &ReplicaSetBody) -> Vec<Act> {
    let mut live: Vec<&PodView> = seen.live_pods().collect();
    let wanted = usize::try_from(body.replicas).unwrap_or_default();
    let pod = || NewPod { name: None, node: None, template: body.template.clone(), labels: BTreeMap::new() };
    let mut acts: Vec<Act> = (live.len()..wanted).map(|_| Act::MakePod(pod())).collect();
    // Those that are not ready go first, then the youngest.
    live.sort_by_key(|pod| (pod.ready(), Reverse(pod.created)));
    let surplus = live.len().saturating_sub(wanted);
    acts.extend(live.iter().take(surplus).map(|pod| Act::RemovePod(pod.id.uid.clone())));
    acts.push(Act::Status(json!({"replicas": wanted, "observedGeneration": seen.object.view.generation})));
    acts
}
