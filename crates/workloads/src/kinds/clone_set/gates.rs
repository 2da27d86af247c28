//! Readiness gates of OpenKruise's on pods that its manager has made. It keeps them True between updates in place; where it is gone nobody
//! does, and such a pod would never be Ready again. Pods that are made here do not get them.

use hitless_api::pod::{PodView, ShutGate};
use jiff::{Timestamp, Unit};
use serde_json::json;

use crate::pod_set::pods::stays;
use crate::write::{Request, Write, patch_of_pod};

/// One write for each pod with a gate that is not open: paused, updated by deletions only, or refused alike.
pub(super) fn open<'p>(pods: &'p [&'p PodView], now: Option<Timestamp>) -> impl Iterator<Item = Write> + 'p {
    // The kubelet has not written any condition yet.
    let is_known = |pod: &&&PodView| stays(pod) && pod.conditions.get("Ready").is_some();
    let shut = pods.iter().filter(is_known).filter_map(|pod| Some((*pod, *pod.shut_gates.first()?)));
    shut.map(move |(pod, ShutGate { gate, condition })| {
        let opened = json!({
            "type": gate, "status": "True", "reason": "NoUpdate", "message": "set by hitless-controller, which updates this pod",
            "lastTransitionTime": now.map(|now| now.round(Unit::Second).unwrap_or(now).to_string()),
        });
        let patch = match condition.map(|place| place.to_string()) {
            Some(place) => {
                let entry = ["status", "conditions", place.as_str()];
                patch_of_pod(pod).test(&[&entry[..], &["type"]].concat(), gate).replace(&entry, opened)
            }
            None => patch_of_pod(pod).add(&["status", "conditions", "-"], opened),
        };
        Write::on_pod("open-gate", &pod.id, Request::Status(patch))
    })
}
