//! What users do, and what happens to a cluster: when, and to whom.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::clock::{Micros, NEVER};
use crate::manifest::{Manage, Manifest};
use crate::world::Foreign;

/// Something that is done to the cluster. Indices are taken modulo what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A new image for a workload.
    SetImage(usize),
    /// The image before the last change.
    ChangeBack(usize),
    /// More or fewer pods.
    Scale(usize, i32),
    /// `kubectl delete pod`.
    DeletePod(usize),
    /// A container ends by itself.
    CrashPod(usize),
    /// A restart by annotation.
    RestartPod(usize),
    /// An OperationJob for pods of a workload: more is drawn when it is made.
    MakeJob(usize),
    /// `kubectl delete operationjob`.
    DeleteJob(usize),
    /// A new value of a restart annotation of a workload's template, as when its configuration has changed.
    NewChecksum(usize),
    /// A node goes down; comes back after so long, or never.
    KillNode(usize, Option<Micros>),
    /// A node is switched on again.
    ReturnNode(usize),
    /// A Node of the same name is made after the old one was given up.
    RemakeNode(usize),
    /// The API server does not answer for so long.
    ServerAway(Micros),
    /// A controller is killed; down for so long.
    KillController(usize, Micros),
    /// The stand-by takes the Lease while the leader believes to lead for so long.
    Usurp(Micros),
    /// An agent is killed; down for so long.
    KillAgent(usize, Micros),
    /// An agent that refuses everything takes the place of another, or the other way round.
    RefuseAgent(usize, bool),
    /// The owner of a Service does something to it.
    Manage(usize, Manage),
    /// Somebody deletes the RoleBinding by which agents may operate in a workload's namespace.
    RemoveBinding(usize),
    /// A Service that was deleted is made again.
    RemakeService(usize),
    /// A foreign operator begins with a pod.
    Begin(usize),
    /// The operator of that operation looks at its pod.
    Operator(usize),
    /// A pod gets the label by which it is to leave and to be deleted.
    LabelForDeletion(usize),
    /// The owner of a CollaSet does something to it.
    CollaSet(usize, Order),
    /// A CollaSet is deleted in the foreground.
    DeleteInForeground(usize),
    /// A CollaSet that was deleted is made again, once it is gone.
    MakeAnew(usize),
    /// A workload is paused, or goes on.
    Pause(usize, bool),
    /// What the readiness probes of a workload's pods ask is away for so long.
    DependencyAway(usize, Micros),
    /// It is back.
    DependencyBack(usize),
    /// A node with a pod that is being operated is lost; if there is none, it is looked for so many times more.
    LoseNode(u32),
    /// Helper pods are refused in a workload's namespace, in these words, or are not any more.
    RefuseHelpers(usize, Option<usize>),
}

/// What the owner of a CollaSet does to it, beside what all workloads have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Something in the template that no running pod can be given.
    Command,
    /// So many pods keep their version.
    Partition(u32),
    /// How pods get another version.
    Policy(&'static str),
    /// One of its pods is labelled to be removed.
    Label(usize),
    /// One of its pods is named as the first to be removed, and there is to be one less.
    Name(usize),
}

/// A workload, as its user knows it.
pub(crate) struct Wanted {
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Number of the image that is wanted.
    pub(crate) image: u32,
    /// And of the one before.
    pub(crate) before: u32,
    /// Some rule never lets its pods go.
    pub(crate) hopeless: bool,
}

/// What is to be done when.
#[derive(Default)]
pub(crate) struct User {
    deeds: BTreeMap<(Micros, u64), Deed>,
    count: u64,
    pub(crate) desired: Vec<Wanted>,
    pub(crate) services: Vec<Manifest>,
    pub(crate) foreign: Vec<Foreign>,
    /// CollaSets that were deleted, as they were, by the index of what is wanted.
    pub(crate) gone: BTreeMap<usize, Value>,
    pub(crate) rounds: u32,
    pub(crate) rollouts: u64,
    /// Number of the last image.
    pub(crate) images: u32,
    /// Number of the last restart or checksum.
    pub(crate) tokens: u32,
}

impl User {
    pub(crate) fn new(rounds: u32) -> Self {
        Self { rounds, images: 1, ..Self::default() }
    }

    pub(crate) fn at(&mut self, at: Micros, deed: Deed) {
        self.count += 1;
        self.deeds.insert((at, self.count), deed);
    }

    pub(crate) fn wake(&self) -> Micros {
        self.deeds.first_key_value().map_or(NEVER, |((at, _), _)| *at)
    }

    /// Whether an operator of others is still at work, or waits.
    pub(crate) fn has_operators(&self) -> bool {
        self.deeds.values().any(|deed| matches!(deed, Deed::Operator(_)))
    }

    pub(crate) fn take_due(&mut self, now: Micros) -> Option<Deed> {
        if self.wake() > now {
            return None;
        }
        self.deeds.pop_first().map(|(_, deed)| deed)
    }
}
