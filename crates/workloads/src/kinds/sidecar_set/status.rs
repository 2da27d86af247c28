//! What has become of a SidecarSet.

use hitless_api::event::Severity;
use hitless_api::pod::PodView;
use hitless_api::{InjectedSet, SidecarInjection, SidecarSetStatus, Time};
use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::names::INJECTED;
use super::plan::{attempt, is_paused};
use super::{SIDECAR_INJECTION, SIDECAR_SET, SidecarSet, injected};
use crate::plan::{Plan, note};
use crate::world::World;
use crate::write::Write;

/// Whether new pods get what it says now.
struct Injected {
    status: &'static str,
    reason: &'static str,
    message: String,
}

pub(super) fn plan(set: SidecarSet<'_>, world: &World<'_>) -> Plan {
    if set.object.deleting {
        return Plan::nothing(set.object);
    }
    let known = world.sidecar_injection().map(|injection| injection.body.sets());
    let mut writes = Vec::new();
    let is_first = world.sidecar_sets().first().is_some_and(|first| first.id.uid == set.object.id.uid);
    if known.is_none() && is_first {
        let object = json!({"apiVersion": SIDECAR_INJECTION.api_version(), "kind": SIDECAR_INJECTION.group_kind.kind,
            "metadata": {"name": SidecarInjection::NAME}, "spec": {"sets": []}});
        writes.push(Write::create("create-injection", &SIDECAR_INJECTION.group_kind, object));
    }
    let entry = known.into_iter().flatten().find(|each| each.uid == set.object.id.uid);
    let injected = injected(set, entry, world);
    let is_refused = injected.status == "False" && !is_paused(set);
    let notes = is_refused.then(|| {
        note(&set.object.id, SIDECAR_SET.version, Severity::Warning, injected.reason, injected.message.clone())
    });
    let status = status(set, entry, injected, world);
    if set.body.status != status {
        writes.push(Write::status("report-status", set.object, json!(status)));
    }
    Plan { writes, notes: notes.into_iter().collect(), ..Plan::nothing(set.object) }
}

fn injected(set: SidecarSet<'_>, entry: Option<&InjectedSet>, world: &World<'_>) -> Injected {
    let otherwise = match entry {
        Some(_) => "new pods get what it said before",
        None => "new pods get nothing of it",
    };
    let is_current = entry.is_some_and(|entry| entry.generation == set.object.generation);
    let (status, reason, message) = if is_paused(set) {
        ("False", "InjectionPaused", "spec.injectionStrategy.paused: new pods get nothing of it".to_owned())
    } else if let Some(fault) = &set.body.fault {
        ("False", "InvalidSpec", format!("{fault}; {otherwise}"))
    } else if is_current {
        ("True", "Injected", String::new())
    } else {
        let key = attempt(set, &injected::of(set, world.now.unwrap_or(Timestamp::UNIX_EPOCH))).key();
        match world.refused.get(&key) {
            Some(words) => {
                let text = format!("the API server does not accept a pod with its containers: {words}; {otherwise}");
                ("False", "SidecarsNotAccepted", text)
            }
            None => (
                "Unknown",
                "Pending",
                format!("the API server is being asked for a pod with its containers; {otherwise}"),
            ),
        }
    };
    Injected { status, reason, message }
}

fn status(set: SidecarSet<'_>, entry: Option<&InjectedSet>, injected: Injected, world: &World<'_>) -> SidecarSetStatus {
    let known = &set.body.status;
    let pods = world.injected(&set.object.id.name);
    let is_updated = |hash: &str| entry.is_some_and(|entry| entry.hash == hash);
    let count = |is_counted: &dyn Fn(&str, &PodView) -> bool| {
        let counted = pods.iter().filter(|(hash, pod)| is_counted(hash, pod)).count();
        i32::try_from(counted).unwrap_or(i32::MAX)
    };
    SidecarSetStatus {
        observed_generation: set.object.generation,
        matched_pods: count(&|_, _| true),
        updated_pods: count(&|hash, _| is_updated(hash)),
        ready_pods: count(&|_, pod| pod.ready()),
        updated_ready_pods: count(&|hash, pod| is_updated(hash) && pod.ready()),
        latest_revision: entry.map(|entry| format!("{}-{}", set.object.id.name, entry.hash)),
        collision_count: known.collision_count,
        conditions: vec![condition(set, injected, world)],
    }
}

fn condition(set: SidecarSet<'_>, injected: Injected, world: &World<'_>) -> Condition {
    let before = set.body.status.conditions.iter().find(|condition| condition.type_ == INJECTED);
    let now = world.now.unwrap_or(Timestamp::UNIX_EPOCH);
    let now = Time(now.round(Unit::Second).unwrap_or(now));
    let since =
        before.filter(|before| before.status == injected.status).map(|before| before.last_transition_time.clone());
    Condition {
        type_: INJECTED.to_owned(),
        status: injected.status.to_owned(),
        reason: injected.reason.to_owned(),
        message: injected.message,
        last_transition_time: since.unwrap_or(now),
        observed_generation: Some(set.object.generation),
    }
}
