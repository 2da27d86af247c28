//! **Starts.** No version is judged bad that comes up within what is written of it: a policy's or the workload's deadline, or what the
//! startup probe allows. Containers that end before one comes up are within that, but where the pod serves alone and it happens twice.
//!
//! What happens to a pod from outside while it starts (a crash, a node that is down, an API server or a dependency that is away) excuses
//! whoever judges it then.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::annotations;
use hitless_api::{Grant, NodeTransitionStatus, ObjectRef, Outcome, TransitionResult};
use hitless_rollout::snapshot::NodeTransitionView;
use hitless_workloads::{Body, Object, Template};
use serde_json::Value;

use super::{Checks, image_number};
use crate::clock::{Micros, SECOND, when};
use crate::server::Server;

/// Watches are late and broken: what comes up so close to the end of its time may be seen too late.
const LATE: Micros = 25 * SECOND;
/// Clocks of controllers may be wrong by so much.
const SKEW: Micros = 10 * SECOND;
/// What is allowed where nobody says anything.
const UNWRITTEN: u64 = 600;

/// How the containers of an image start.
#[derive(Clone, Copy)]
struct Start {
    /// So many end at once.
    crashes: u32,
    /// The next one is ready after so long.
    ready_after: Micros,
    /// The longest from the first start to there.
    longest: Micros,
}

/// Namespace and name of a workload, which is the repository of its images.
type Name = (String, String);

/// What is known of versions.
#[derive(Default)]
pub(super) struct Versions {
    /// By number; one that is not here never comes up.
    starts: BTreeMap<String, Start>,
    /// When something last happened to some pod of a workload from outside.
    disturbed: BTreeMap<Name, Micros>,
    /// Workloads to which it happens now.
    away: BTreeSet<Name>,
    /// Versions that were judged when something had happened.
    excused: BTreeSet<(Name, String)>,
}

impl Checks {
    /// How containers of the image with this number start.
    pub(crate) fn starts(&mut self, number: &str, crashes: u32, ready_after: Micros, back_off: Micros) {
        let longest = Micros::from(crashes) * (back_off + SECOND) + ready_after;
        self.versions.starts.insert(number.to_owned(), Start { crashes, ready_after, longest });
    }

    /// Something happens to a pod of that workload which nobody could foresee.
    pub(crate) fn disturbed(&mut self, now: Micros, namespace: &str, name: &str) {
        self.versions.disturbed.insert((namespace.to_owned(), name.to_owned()), now);
    }

    /// It begins, or is over.
    pub(crate) fn is_disturbed(&mut self, now: Micros, name: &Name, away: bool) {
        self.versions.disturbed.insert(name.clone(), now);
        if away {
            self.versions.away.insert(name.clone());
        } else {
            self.versions.away.remove(name);
        }
    }

    /// An agent's report is about to be stored: what it judges for the first time.
    pub(crate) fn judged(&mut self, server: &Server, known: &NodeTransitionView, next: &NodeTransitionStatus) {
        if !self.plays_native {
            return;
        }
        for grant in known.unfinished() {
            let Some(after) = next.transitions.iter().find(|each| each.is_of(grant)) else { continue };
            let was_bad = known.transition(grant).is_some_and(|before| before.rollback.is_some());
            if after.rollback.is_some() && !was_bad {
                self.undone(server, grant, after.rollback.as_deref().unwrap_or_default());
            }
            if let Some(result) = after.result.as_ref().filter(|result| {
                // Where it is not even put back in time, nothing is said of it.
                let is_started = after.message.contains("not ready in time");
                is_started && result.outcome == Outcome::Failed && result.reason == TransitionResult::ROLLBACK_NOT_READY
            }) {
                self.condemned(server, grant, &result.reason, |change| &change.from);
            }
        }
    }

    fn undone(&mut self, server: &Server, grant: &Grant, reason: &str) {
        if grant.cancel.as_ref().is_none_or(|cancel| cancel.reason != reason) {
            self.condemned(server, grant, reason, |change| &change.to);
        }
    }

    /// Of this operation the new version, or that of before, is taken for bad.
    fn condemned(
        &mut self,
        server: &Server,
        grant: &Grant,
        reason: &str,
        which: impl Fn(&hitless_api::grant::ImageChange) -> &String,
    ) {
        let Some(number) = grant.containers.values().next().and_then(|change| image_number(which(change))) else {
            return;
        };
        let Some(owner) = &grant.owner else { return };
        let since = when(grant.granted.0) - SKEW;
        let is_alone_and_crashes =
            grant.verify.alone && self.versions.starts.get(number).is_some_and(|start| start.crashes > 1);
        if let Some(allowed) = self.comes_up(server, owner, number, true).filter(|_| !is_alone_and_crashes) {
            if self.is_excused(server, owner, since) {
                self.versions.excused.insert((name(owner), number.to_owned()));
            } else {
                let what = format!(
                    "version {number} of {} is judged bad at pod {} ({reason}), and comes up within the {} s that are written",
                    owner.name,
                    grant.pod.name,
                    allowed / SECOND
                );
                self.fail(server.now, what);
            }
        } else {
            self.versions.excused.insert((name(owner), number.to_owned()));
        }
    }

    /// A controller of ours is about to write to a workload.
    pub(super) fn halted(&mut self, server: &Server, before: &Object, next: &Object) {
        if !self.plays_native {
            return;
        }
        let is_new =
            |key: &str| next.annotations.get(key).is_some_and(|mark| before.annotations.get(key) != Some(mark));
        let Some(template) = template(before) else { return };
        let Some(number) = template.images().next().and_then(|(_, image)| image_number(image)).map(str::to_owned)
        else {
            return;
        };
        let tried = next.annotations.get(annotations::TRIED).filter(|_| is_new(annotations::TRIED));
        let tried: Value = tried.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let is_tried = tried["outcome"] == "Bad";
        if !is_tried && !is_new(annotations::HALTED) {
            return;
        }
        let Some(allowed) = self.comes_up(server, &next.id, &number, !is_tried) else { return };
        let is_judged = self.versions.excused.contains(&(name(&next.id), number.clone()));
        let is_excused = || is_tried && self.is_excused(server, &next.id, server.now - allowed - 60 * SECOND);
        if !(is_judged || is_excused()) {
            let how = if is_tried { "did not run in its companion pod" } else { "is not rolled out any more" };
            self.fail(
                server.now,
                format!(
                    "version {number} of {} {how}, and comes up within the {} s that are written",
                    next.id.name,
                    allowed / SECOND
                ),
            );
        }
    }

    /// How long a start may take, if a version of the workload comes up within that. No DrainPolicy is for companion pods.
    fn comes_up(&self, server: &Server, owner: &ObjectRef, number: &str, by_policy: bool) -> Option<Micros> {
        let start = self.versions.starts.get(number)?;
        let workload = server.object(&owner.group_kind.kind, &owner.namespace, &owner.name)?;
        let (allowed, probe) = allowed(server, &workload.json, by_policy);
        let is_in_time = start.longest + LATE <= allowed && probe.is_none_or(|probe| start.ready_after < probe);
        is_in_time.then_some(allowed)
    }

    fn is_excused(&self, server: &Server, owner: &ObjectRef, since: Micros) -> bool {
        let versions = &self.versions;
        let name = name(owner);
        server.away_until > since
            || versions.away.contains(&name)
            || versions.disturbed.get(&name).is_some_and(|at| *at >= since)
    }
}

fn name(owner: &ObjectRef) -> Name {
    (owner.namespace.clone(), owner.name.clone())
}

fn template(object: &Object) -> Option<&Template> {
    match &object.body {
        Body::Deployment(body) => Some(&body.template),
        Body::StatefulSet(body) => Some(&body.template),
        Body::DaemonSet(body) => Some(&body.template),
        Body::ReplicaSet(_)
        | Body::CollaSet(_)
        | Body::CloneSet(_)
        | Body::ResourceContext(_)
        | Body::Claim(_)
        | Body::PodDecoration(_)
        | Body::SidecarSet(_)
        | Body::SidecarInjection(_)
        | Body::ControllerRevision(_)
        | Body::Request(_)
        | Body::Omitted(_) => None,
    }
}

/// How long pods of a workload may start as it is written (docs/contract.md#bad-version), and how long the kubelet lets a container start.
pub(crate) fn allowed(server: &Server, workload: &Value, by_policy: bool) -> (Micros, Option<Micros>) {
    let probe = &workload["spec"]["template"]["spec"]["containers"][0]["startupProbe"];
    let number = |field: &str, default: u64| probe[field].as_u64().unwrap_or(default);
    let probe = probe.is_object().then(|| number("failureThreshold", 3) * number("periodSeconds", 10));
    let mut policies = server.drain_policies.iter().filter(|_| by_policy);
    let policy = policies.find_map(|policy| policy.spec.verify.progress_seconds).map(u64::from);
    let written = workload["spec"]["progressDeadlineSeconds"].as_u64().filter(|seconds| *seconds != UNWRITTEN);
    let seconds = policy.or(written).unwrap_or_else(|| UNWRITTEN.max(probe.unwrap_or_default()));
    let micros = |seconds: u64| Micros::try_from(seconds).unwrap_or_default() * SECOND;
    (micros(seconds), probe.map(micros))
}
