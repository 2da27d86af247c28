//! Workloads whose pods are to restart because a ConfigMap or Secret that they use has changed (docs/contract.md 35). The restart is
//! a change of the template, and everything else follows from that.

use std::collections::BTreeMap;
use std::fmt;

use hitless_api::MountedConfig;
use hitless_api::event::{EventNote, Severity};
use hitless_api::names::annotations;
use hitless_workloads::config::Missing;
use hitless_workloads::{Object, Plan, Stage, Write, kind};
use jiff::{SignedDuration, Timestamp};

use super::change::Change;
use super::wishes::Wishes;
use crate::reload::{Content, Found, command};
use crate::snapshot::Snapshot;

/// Changes that come together are one restart: so long nothing may have changed.
const QUIET: SignedDuration = SignedDuration::from_secs(2);
/// But what goes on changing is not waited for longer.
const LONGEST: SignedDuration = SignedDuration::from_secs(10);
/// A restart that can't be written keeps other operations of the workload for so long.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// How a workload stands that reloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reload {
    /// What its pods use has not been read; nobody but the controller reads it.
    Unread {
        /// The controller has recorded it once.
        recorded: bool,
    },
    /// The controller has no right to read it; the namespace.
    Denied(String),
    /// Its pods use no ConfigMap and no Secret.
    Nothing,
    /// Something is not there without which no container would start.
    Missing(Missing),
    /// What is there is what its pods were started with, as far as is known.
    UpToDate,
    /// It has changed; the restart begins then.
    Changed(Timestamp),
    /// It has changed, and the restart waits for the end of what the native controller does, or of a change that is refused.
    Later,
}

impl Reload {
    fn of(object: &Object, plan: &Plan, found: Option<&Found>) -> Self {
        let content = match found {
            None | Some(Found::Unread) => {
                return Self::Unread { recorded: object.annotations.contains_key(annotations::CONFIG) };
            }
            Some(Found::Denied) => return Self::Denied(object.id.namespace.clone()),
            Some(Found::Nothing) => return Self::Nothing,
            Some(Found::Missing(missing)) => return Self::Missing(missing.clone()),
            Some(Found::There(content)) => content,
        };
        match object.annotations.get(annotations::CONFIG) {
            None => Self::UpToDate,
            Some(recorded) if *recorded == content.config.hash => Self::UpToDate,
            Some(_) => match plan.stage {
                Stage::Idle | Stage::Rolling | Stage::Finishing => Self::Changed(begins(content)),
                Stage::NotOurs | Stage::Native | Stage::SteppingAside(_) | Stage::Refused(_) | Stage::Halted(_) => {
                    Self::Later
                }
            },
        }
    }

    /// What people should know of it, for as long as it holds.
    fn note(&self, object: &Object) -> Option<EventNote> {
        let (reason, text) = match self {
            Self::Denied(_) => ("ReloadDenied", self.to_string()),
            Self::Missing(_) => ("ReloadMissing", self.to_string()),
            Self::Unread { .. } | Self::Nothing | Self::UpToDate | Self::Changed(_) | Self::Later => return None,
        };
        Some(note(object, Severity::Warning, reason, text))
    }
}

impl fmt::Display for Reload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread { recorded: true } => {
                write!(out, "the controller restarts its pods when a ConfigMap or Secret that they use changes")
            }
            Self::Unread { recorded: false } => {
                write!(
                    out,
                    "the controller has not read the ConfigMaps and Secrets that its pods use; its Events say why"
                )
            }
            Self::Denied(namespace) => write!(
                out,
                "the controller may not read ConfigMaps and Secrets of this namespace; allow it with: {}",
                command(namespace)
            ),
            Self::Nothing => write!(out, "its pods use no ConfigMap and no Secret"),
            Self::Missing(missing) => {
                write!(out, "{missing}, and without that no container would start; its pods are not restarted")
            }
            Self::UpToDate => write!(out, "its pods have what the ConfigMaps and Secrets contain"),
            Self::Changed(at) => write!(out, "a ConfigMap or Secret has changed; its pods restart from {at} on"),
            Self::Later => {
                write!(out, "a ConfigMap or Secret has changed; its pods restart when its present change is over")
            }
        }
    }
}

/// When a restart begins.
fn begins(content: &Content) -> Timestamp {
    let latest = later(content.differs_since, LONGEST);
    later(content.since, QUIET).min(latest)
}

/// What is decided about all workloads that reload, by index of the plan.
#[derive(Default)]
pub(super) struct Reloads {
    by_plan: BTreeMap<usize, Reload>,
    writes: BTreeMap<usize, Write>,
    mounted: BTreeMap<usize, MountedConfig>,
    pub(super) notes: Vec<EventNote>,
    pub(super) wake_at: Option<Timestamp>,
}

impl Reloads {
    pub(super) fn of(&self, workload: usize) -> Option<&Reload> {
        self.by_plan.get(&workload)
    }

    /// Its pods restart in a moment anyway, so no other operation of them begins.
    pub(super) fn restarts_soon(&self, workload: usize, now: Timestamp) -> bool {
        matches!(self.of(workload), Some(Reload::Changed(at)) if now < later(*at, PATIENCE))
    }

    /// What the volumes of its pods have to contain before an operation begins.
    pub(super) fn mounted(&self, workload: usize) -> Option<&MountedConfig> {
        self.mounted.get(&workload)
    }

    /// Whether its own object is written.
    pub(super) fn writes(&self, workload: usize) -> bool {
        self.writes.contains_key(&workload)
    }

    pub(super) fn changes<'a>(&self) -> Vec<Change<'a>> {
        self.writes.values().cloned().map(Change::Workload).collect()
    }
}

/// How all workloads stand that reload, and what is written to them.
pub(super) fn decide(wishes: &Wishes<'_>, snapshot: &Snapshot, now: Timestamp) -> Reloads {
    let mut reloads = Reloads::default();
    for (index, plan) in wishes.plans.iter().enumerate() {
        let Some(object) = wishes.world.object(&plan.workload.uid).filter(|object| object.reloads()) else { continue };
        let found = snapshot.reloads.get(&object.id.uid);
        let reload = Reload::of(object, plan, found);
        reloads.notes.extend(reload.note(object));
        let recorded = object.annotations.get(annotations::CONFIG);
        if let Some(Found::There(content)) = found {
            let write = match &reload {
                Reload::Changed(at) if now < *at => {
                    reloads.wake_at = reloads.wake_at.into_iter().chain([*at]).min();
                    None
                }
                Reload::Changed(_) => restart(object, &content.config.hash),
                Reload::UpToDate if recorded.is_none() => {
                    Some(Write::annotate("record-config", object, annotations::CONFIG, &content.config.hash))
                }
                Reload::UpToDate
                | Reload::Unread { .. }
                | Reload::Denied(_)
                | Reload::Nothing
                | Reload::Missing(_)
                | Reload::Later => None,
            };
            // Not beside another write to it: both would be conditional on the same version.
            if let Some(write) = write.filter(|_| plan.writes.is_empty()) {
                reloads.writes.insert(index, write);
            }
            let is_ours = matches!(plan.stage, Stage::Idle | Stage::Rolling | Stage::Finishing);
            if is_ours && recorded == Some(&content.config.hash) {
                reloads.mounted.extend(content.config.mounted.clone().map(|mounted| (index, mounted)));
            }
        }
        reloads.by_plan.insert(index, reload);
    }
    reloads
}

/// One write: the template's restart annotation, and what is recorded.
fn restart(object: &Object, hash: &str) -> Option<Write> {
    let text = "a ConfigMap or Secret that its pods use has changed; they restart in place".to_owned();
    let tells = note(object, Severity::Normal, "Reloading", text);
    Write::restart(object, annotations::CONFIG, hash).map(|write| write.telling(Some(tells)))
}

fn note(object: &Object, severity: Severity, reason: &'static str, text: String) -> EventNote {
    let regarding = object.id.reference(kind::version(&object.id.group_kind));
    EventNote { regarding, severity, reason, action: "Reload", text }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(time)
}

#[cfg(test)]
mod tests;
