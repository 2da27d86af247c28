//! What has become of a SidecarSet.

use hitless_api::event::Severity;
use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{InjectedSet, SidecarInjection, SidecarSetStatus, Time};
use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::campaign::{Campaign, Rest};
use super::names::{INJECTED, UPDATED};
use super::plan::{INJECT, attempt, is_paused};
use super::{SIDECAR_INJECTION, SIDECAR_SET, SidecarSet, entry_of, injected};
use crate::halted::{self, Halted};
use crate::plan::{Plan, note};
use crate::world::World;
use crate::write::Write;

/// A condition without its times.
struct Now {
    type_: &'static str,
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
    let entry = entry_of(set, world);
    let campaign = Campaign::of(set, world);
    let conditions: Vec<Now> = [Some(injected(set, entry, world)), campaign.map(|campaign| updated(campaign, world))]
        .into_iter()
        .flatten()
        .collect();
    let is_told = |now: &&Now| {
        ["InvalidSpec", "SidecarsNotAccepted", "InjectionRefused", "SidecarUpdateHalted"].contains(&now.reason)
    };
    let warn =
        |now: &Now| note(&set.object.id, SIDECAR_SET.version, Severity::Warning, now.reason, now.message.clone());
    let notes = conditions.iter().filter(is_told).map(warn).collect();
    // Another version has been asked for: the mark has done its work.
    let is_over = |campaign: &Campaign<'_>| campaign.is_halted_before();
    if campaign.as_ref().is_some_and(is_over) {
        writes.push(halted::forget(set.object));
        return Plan { writes, notes, ..Plan::nothing(set.object) };
    }
    let status = status(set, entry, conditions, world);
    if set.body.status != status {
        writes.push(Write::status("report-status", set.object, json!(status)));
    }
    Plan { writes, notes, ..Plan::nothing(set.object) }
}

/// Whether new pods get what it says now.
fn injected(set: SidecarSet<'_>, entry: Option<&InjectedSet>, world: &World<'_>) -> Now {
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
        let written = Write::key_of(INJECT, &SIDECAR_INJECTION.group_kind, "", SidecarInjection::NAME);
        match (world.refused.get(&key), world.refused.get(&written)) {
            (Some(words), _) => {
                let text = format!("the API server does not accept a pod with its containers: {words}; {otherwise}");
                ("False", "SidecarsNotAccepted", text)
            }
            (None, Some(words)) => {
                let text = format!(
                    "admission does not accept what new pods would get: {words}; {otherwise}. SidecarSets need mutating admission policies \
                     (Kubernetes 1.36, or manifests/v1beta1)"
                );
                ("False", "InjectionRefused", text)
            }
            (None, None) => (
                "Unknown",
                "Pending",
                format!("the API server is being asked for a pod with its containers; {otherwise}"),
            ),
        }
    };
    Now { type_: INJECTED, status, reason, message }
}

fn status(
    set: SidecarSet<'_>,
    entry: Option<&InjectedSet>,
    conditions: Vec<Now>,
    world: &World<'_>,
) -> SidecarSetStatus {
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
        conditions: conditions.into_iter().map(|now| condition(set, now, world)).collect(),
    }
}

/// Whether the pods that are there have got what it says now.
fn updated(campaign: Campaign<'_>, world: &World<'_>) -> Now {
    let (stuck, all) = campaign.not_upgradable(world);
    let behind = campaign.behind(world).len();
    let (status, reason, message) = match campaign.rest() {
        Some(Rest::Halted(Halted { pod, reason, message, .. })) => {
            let text = format!(
                "its version was judged bad by pod {pod}: {reason}: {message}; no other pod gets it. Give it another image, or try it again: \
                 take the annotation {} off",
                annotations::HALTED
            );
            ("False", "SidecarUpdateHalted", text)
        }
        Some(Rest::Paused) => {
            ("False", "UpdatePaused", "spec.updateStrategy.paused: pods keep what they have".to_owned())
        }
        Some(Rest::NotUpdate) => {
            ("False", "NotUpdate", "spec.updateStrategy.type: pods keep what they have".to_owned())
        }
        None if behind > 0 => ("False", "InProgress", format!("{behind} of {all} pods are to get other images")),
        None if stuck > 0 => {
            let text = "more than images has changed, and only new pods get that: kubectl hitless restart --new-pods";
            ("False", "NewPodsNeeded", format!("{stuck} of {all} pods keep what they have: {text}"))
        }
        None => ("True", "Updated", String::new()),
    };
    Now { type_: UPDATED, status, reason, message }
}

fn condition(set: SidecarSet<'_>, of: Now, world: &World<'_>) -> Condition {
    let before = set.body.status.conditions.iter().find(|condition| condition.type_ == of.type_);
    let now = world.now.unwrap_or(Timestamp::UNIX_EPOCH);
    let now = Time(now.round(Unit::Second).unwrap_or(now));
    let since = before.filter(|before| before.status == of.status).map(|before| before.last_transition_time.clone());
    Condition {
        type_: of.type_.to_owned(),
        status: of.status.to_owned(),
        reason: of.reason.to_owned(),
        message: of.message,
        last_transition_time: since.unwrap_or(now),
        observed_generation: Some(set.object.generation),
    }
}
