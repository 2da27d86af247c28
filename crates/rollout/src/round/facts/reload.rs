//! Workloads whose pods are to restart because a ConfigMap or Secret that they use has changed (docs/contract.md#config-reload). The restart is
//! a change of the template, and everything else follows from that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hitless_api::MountedConfig;
use hitless_api::event::{EventNote, Severity};
use hitless_api::names::{RESTARTS_CONTAINERS, UPDATE_IN_PLACE, annotations};
use hitless_workloads::config::{Config, InitConfig, Missing, used_by};
use hitless_workloads::{Object, Plan, RestartsPolicy, Stage, Write, registry};
use jiff::{SignedDuration, Timestamp};

use crate::reload::{Content, Found, command};
use crate::round::change::Change;
use crate::round::facts::desired::DesiredState;
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
    /// It has changed for these init containers: from then on its pods are made anew.
    ChangedForInit(Timestamp, BTreeSet<String>),
    /// The same, and its owner lets no pod be made anew: nothing is restarted in vain.
    Refused(BTreeSet<String>),
    /// It has changed, and the restart waits for the end of what the native controller does, or of a change that is refused.
    Later,
}

impl Reload {
    pub(crate) fn of(object: &Object, plan: &Plan, found: Option<&Found>) -> Self {
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
            Some(recorded) => Self::of_recorded(object, plan, content, recorded),
        }
    }

    /// Where it is known what its pods have.
    fn of_recorded(object: &Object, plan: &Plan, content: &Content, recorded: &str) -> Self {
        let init = match RestartsPolicy::of(object) {
            RestartsPolicy::Auto | RestartsPolicy::Pods => changed_for_init(object, &content.config),
            RestartsPolicy::Containers => BTreeSet::new(),
        };
        match (init.is_empty(), content.config.hash.is(recorded)) {
            (true, true) => Self::UpToDate,
            (false, _) if !object.may_have_new_pods() => Self::Refused(init),
            (is_in_place, _) => match plan.stage {
                Stage::Idle | Stage::Rolling | Stage::Finishing if is_in_place => Self::Changed(begins(content)),
                Stage::Idle | Stage::Rolling | Stage::Finishing => Self::ChangedForInit(begins(content), init),
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
            Self::Refused(init) => {
                let on = object.id.arguments();
                let text = format!(
                    "{}; its pods are not restarted, because its owner lets none be made anew. Allow it with {}={UPDATE_IN_PLACE} and no \
                     pause or OnDelete of your own, or have the containers alone restarted with {}={RESTARTS_CONTAINERS}. Once its pods are \
                     new by your own doing: kubectl annotate {on} {}-",
                    used_by(init),
                    annotations::UPDATE,
                    annotations::RESTARTS,
                    annotations::CONFIG
                );
                ("ReloadRefused", text)
            }
            Self::Unread { .. }
            | Self::Nothing
            | Self::UpToDate
            | Self::Changed(_)
            | Self::ChangedForInit(..)
            | Self::Later => return None,
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
            Self::ChangedForInit(at, init) => write!(out, "{}; its pods are made anew from {at} on", used_by(init)),
            Self::Refused(init) => {
                write!(out, "{}; its owner lets no pod be made anew, so nothing is restarted", used_by(init))
            }
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
pub(crate) struct Reloads {
    by_plan: BTreeMap<usize, Reload>,
    writes: BTreeMap<usize, Write>,
    /// Those of them that come before what the workload's own plan writes.
    first: BTreeSet<usize>,
    mounted: BTreeMap<usize, MountedConfig>,
    pub(crate) notes: Vec<EventNote>,
    pub(crate) wake_at: Option<Timestamp>,
}

impl Reloads {
    pub(crate) fn of(&self, workload: usize) -> Option<&Reload> {
        self.by_plan.get(&workload)
    }

    /// Its pods restart in a moment anyway, so no other operation of them begins.
    pub(crate) fn restarts_soon(&self, workload: usize, now: Timestamp) -> bool {
        match self.of(workload) {
            Some(Reload::Changed(at) | Reload::ChangedForInit(at, _)) => now < later(*at, PATIENCE),
            Some(
                Reload::Unread { .. }
                | Reload::Denied(_)
                | Reload::Nothing
                | Reload::Missing(_)
                | Reload::UpToDate
                | Reload::Refused(_)
                | Reload::Later,
            )
            | None => false,
        }
    }

    /// What the volumes of its pods have to contain before an operation begins.
    pub(crate) fn mounted(&self, workload: usize) -> Option<&MountedConfig> {
        self.mounted.get(&workload)
    }

    /// Whether its own object is written.
    pub(crate) fn writes(&self, workload: usize) -> bool {
        self.writes.contains_key(&workload)
    }

    /// Whether that comes before what the workload's own plan writes.
    pub(crate) fn comes_first(&self, workload: usize) -> bool {
        self.first.contains(&workload)
    }

    pub(crate) fn changes<'a>(&self) -> Vec<Change<'a>> {
        self.writes.values().cloned().map(Change::Write).collect()
    }
}

/// How all workloads stand that reload, and what is written to them.
pub(crate) fn decide(desired: &DesiredState<'_>, snapshot: &Snapshot, now: Timestamp) -> Reloads {
    let mut reloads = Reloads::default();
    for (index, plan) in desired.plans.iter().enumerate() {
        let Some(object) = desired.world.object(&plan.workload.uid).filter(|object| object.reloads()) else { continue };
        let found = snapshot.reloads.get(&object.id.uid);
        let reload = Reload::of(object, plan, found);
        reloads.notes.extend(reload.note(object));
        let recorded = object.annotations.get(annotations::CONFIG);
        if let Some(Found::There(content)) = found {
            let write = match &reload {
                Reload::Changed(at) | Reload::ChangedForInit(at, _) if now < *at => {
                    reloads.wake_at = reloads.wake_at.into_iter().chain([*at]).min();
                    None
                }
                Reload::Changed(_) => restart(object, &content.config),
                Reload::ChangedForInit(_, init) => make_anew(object, &content.config, init),
                Reload::UpToDate => record(object, &content.config),
                Reload::Refused(_)
                | Reload::Unread { .. }
                | Reload::Denied(_)
                | Reload::Nothing
                | Reload::Missing(_) => None,
                Reload::Later => are_made_anew(desired, plan).then(|| record(object, &content.config)).flatten(),
            };
            // Not beside another write to it: both would be conditional on the same version.
            let is_first = matches!(reload, Reload::Later);
            if let Some(write) = write.filter(|_| plan.writes.is_empty() || is_first) {
                reloads.writes.insert(index, write);
                reloads.first.extend(is_first.then_some(index));
            }
            let is_ours = matches!(plan.stage, Stage::Idle | Stage::Rolling | Stage::Finishing);
            if is_ours && recorded.is_some_and(|known| content.config.hash.is(known)) {
                reloads.mounted.extend(content.config.mounted.clone().map(|mounted| (index, mounted)));
            }
        }
        reloads.by_plan.insert(index, reload);
    }
    reloads
}

/// Whether the native controller is about to make all its pods anew: they get what there is now, so that is recorded before it is let go. What
/// changes later is a restart after that.
fn are_made_anew(desired: &DesiredState<'_>, plan: &Plan) -> bool {
    matches!(plan.stage, Stage::SteppingAside(_)) && !desired.pods_of(plan).any(|pod| plan.has_target(pod))
}

/// Init containers that use something that has changed. Where a version before this one recorded nothing for them, a change that it has
/// not seen may be theirs.
fn changed_for_init(object: &Object, config: &Config) -> BTreeSet<String> {
    let is_other = object.annotations.get(annotations::CONFIG).is_none_or(|known| !config.hash.is(known));
    match InitConfig::of(object) {
        Some(recorded) => recorded.changed(config),
        None if is_other => config.init.keys().cloned().collect(),
        None => BTreeSet::new(),
    }
}

/// What is found is recorded, if it is not yet. Nothing is recorded for init containers where none has ever used anything.
fn record(object: &Object, config: &Config) -> Option<Write> {
    let init = InitConfig::of(object);
    let is_init_known = init.map_or(config.init.is_empty(), |init| init.is(config));
    let is_known =
        object.annotations.get(annotations::CONFIG).is_some_and(|known| config.hash.is(known)) && is_init_known;
    (!is_known).then(|| {
        Write::annotate_all("record-config", object, &as_pairs(&recorded(object, config, &InitConfig::have(config))))
    })
}

/// One write: the template's restart annotation, and what is recorded.
fn restart(object: &Object, config: &Config) -> Option<Write> {
    let text = "a ConfigMap or Secret that its pods use has changed; they restart in place".to_owned();
    let tells = note(object, Severity::Normal, "Reloading", text);
    let recorded = recorded(object, config, &InitConfig::have(config));
    let write = Write::restart(object, annotations::CONFIG, config.hash.value(), &as_pairs(&recorded));
    write.map(|write| write.telling(Some(tells)))
}

/// The same for a change that no restart brings: what is recorded says so, and the template's value is one that nothing else makes.
fn make_anew(object: &Object, config: &Config, init: &BTreeSet<String>) -> Option<Write> {
    let tells = note(object, Severity::Normal, "Reloading", format!("{}; its pods are made anew", used_by(init)));
    let (for_init, value) = InitConfig::have_anew(config, init);
    let write = Write::restart(object, annotations::CONFIG, &value, &as_pairs(&recorded(object, config, &for_init)));
    write.map(|write| write.telling(Some(tells)))
}

/// Annotations of the workload that tell what its pods have.
fn recorded(object: &Object, config: &Config, init: &InitConfig) -> Vec<(&'static str, String)> {
    let is_wanted = !config.init.is_empty() || object.annotations.contains_key(annotations::INIT_CONFIG);
    let init = is_wanted.then(|| (annotations::INIT_CONFIG, init.text()));
    std::iter::once((annotations::CONFIG, config.hash.value().to_owned())).chain(init).collect()
}

fn as_pairs<'a>(all: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    all.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

pub(crate) fn note(object: &Object, severity: Severity, reason: &'static str, text: String) -> EventNote {
    let regarding = object.id.reference(registry::version(&object.id.group_kind));
    EventNote { regarding, severity, reason, action: "Reload", text }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(time)
}

#[cfg(test)]
mod tests;
