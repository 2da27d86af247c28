//! What is to be done for one workload.

use std::collections::BTreeSet;

use hitless_api::ObjectRef;
use hitless_api::event::{EventNote, Severity};
use hitless_api::names::{COMPANION_ALWAYS, COMPANION_NEVER, PREFETCH_ONLY, annotations, labels};
use hitless_api::pod::PodView;
use jiff::Timestamp;

use crate::because::Because;
use crate::halted::judged_bad;
use crate::intent::DesiredOperation;
use crate::object::Object;
use crate::opt_in::OptIn;
use crate::write::Write;

/// Where a workload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not opted in, or is being deleted.
    NotOurs,
    /// Nothing to do.
    Idle,
    /// The native controller is rolling it.
    Native,
    /// Pods are brought to the target one after the other.
    Rolling,
    /// All pods are as the target says; the objects follow.
    Finishing,
    /// The native controller is let go and rolls.
    SteppingAside(Because),
    /// The change is refused and waits: it can't be made in place, and nothing else is allowed.
    Refused(Because),
    /// The version was judged bad: no pod is brought to it, and none is made from it.
    Halted(Because),
}

impl Stage {
    /// [`Self::name`] of each that a workload that has opted in can be at.
    pub const NAMES: [&str; 7] = ["Idle", "Native", "Rolling", "Finishing", "SteppingAside", "Refused", "Halted"];

    /// In one word, as the metric `hitless_workloads` has it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotOurs => "NotOurs",
            Self::Idle => "Idle",
            Self::Native => "Native",
            Self::Rolling => "Rolling",
            Self::Finishing => "Finishing",
            Self::SteppingAside(_) => "SteppingAside",
            Self::Refused(_) => "Refused",
            Self::Halted(_) => "Halted",
        }
    }
}

/// When a companion pod tries a workload's next version before its own pods get it (docs/contract.md#companion-pod).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompanionPolicy {
    /// Where it has a single pod.
    #[default]
    Auto,
    /// However many pods it has.
    Always,
    /// Not at all.
    Never,
}

impl CompanionPolicy {
    /// What is not understood is as good as absent.
    #[must_use]
    pub fn of(root: &Object) -> Self {
        match root.annotations.get(annotations::COMPANION).map(String::as_str) {
            Some(COMPANION_ALWAYS) => Self::Always,
            Some(COMPANION_NEVER) => Self::Never,
            Some(_) | None => Self::Auto,
        }
    }
}

/// What is to be done for one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The workload.
    pub workload: ObjectRef,
    /// How it opted in.
    pub opt_in: OptIn,
    /// Where it is.
    pub stage: Stage,
    /// Held by its owner and not by the guard: driven, and never let go by us.
    pub permanent: bool,
    /// The next writes to the workload's objects, each independent of the others but where it says so.
    pub writes: Vec<Write>,
    /// Pods that may be operated now, and those that would be but for an obstacle.
    pub desired: Vec<DesiredOperation>,
    /// Revision that pods are brought to, or are at.
    pub target: String,
    /// Value of the label `controller-revision-hash` of pods at the target, where the workload's kind goes by it.
    pub target_label: Option<String>,
    /// Revision of a version that was judged bad, and that is to be replaced by another.
    pub judged_bad: Option<String>,
    /// Revision at which the workload's own strategy keeps some of its pods, if that is another one.
    pub kept_back: Option<String>,
    /// Further revisions that single pods are brought to, if there are any.
    pub single: BTreeSet<String>,
    /// uids of pods that are not as the target says.
    pub behind: BTreeSet<String>,
    /// uids of those of them that can't be brought there in the way that their owner allows.
    pub stuck: BTreeSet<String>,
    /// uids of pods that are Ready and that the workload does not count as available: other operators have not ended with them. To its other
    /// pods they are unavailable.
    pub unsettled: BTreeSet<String>,
    /// Pods that are brought to the target in the end.
    pub total: usize,
    /// What people should know, for as long as it holds.
    pub notes: Vec<EventNote>,
    /// `spec.progressDeadlineSeconds` of the workload, if its kind has the field.
    pub progress_deadline_seconds: Option<u32>,
    /// Its owner wants the images fetched and nothing else for now (annotation `hitless.dev/prefetch: only`).
    pub prefetch_only: bool,
    /// What was learned of how long its containers are away (annotation `hitless.dev/gap`).
    pub gaps: Option<String>,
    /// The same until they are ready (annotation `hitless.dev/gap-to-ready`).
    pub gaps_to_ready: Option<String>,
    /// Connections of a pod that were cut off when it became not Ready (annotation `hitless.dev/losses`).
    pub losses: Option<String>,
    /// When a companion pod tries its next version first (annotation `hitless.dev/companion`).
    pub companion: CompanionPolicy,
    /// What became of the last one (annotation `hitless.dev/tried`).
    pub tried: Option<String>,
    /// When to look again though nothing changes.
    pub wake_at: Option<Timestamp>,
}

impl Plan {
    /// Nothing is done.
    pub(crate) fn nothing(root: &Object) -> Self {
        Self {
            workload: root.id.clone(),
            opt_in: root.opt_in(),
            stage: Stage::NotOurs,
            permanent: false,
            writes: Vec::new(),
            desired: Vec::new(),
            target: String::new(),
            target_label: None,
            judged_bad: judged_bad(root),
            kept_back: None,
            single: BTreeSet::new(),
            behind: BTreeSet::new(),
            stuck: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            total: 0,
            notes: Vec::new(),
            progress_deadline_seconds: None,
            prefetch_only: root.annotations.get(annotations::PREFETCH).is_some_and(|value| value == PREFETCH_ONLY),
            gaps: root.annotations.get(annotations::GAP).cloned(),
            gaps_to_ready: root.annotations.get(annotations::GAP_TO_READY).cloned(),
            losses: root.annotations.get(annotations::LOSSES).cloned(),
            companion: CompanionPolicy::of(root),
            tried: root.annotations.get(annotations::TRIED).cloned(),
            wake_at: None,
        }
    }

    /// Pods that are as the target says.
    #[must_use]
    pub fn up_to_date(&self) -> usize {
        self.total - self.behind.len()
    }

    /// Whether pods are brought to this revision.
    #[must_use]
    pub fn leads_to(&self, revision: &str) -> bool {
        self.is_target(revision) || self.kept_back.as_deref() == Some(revision)
    }

    /// Whether pods are brought forward to this revision.
    #[must_use]
    pub fn is_target(&self, revision: &str) -> bool {
        self.target == revision || self.single.contains(revision)
    }

    /// Whether the pod has the version that pods are brought to.
    #[must_use]
    pub fn has_target(&self, pod: &PodView) -> bool {
        let label = || pod.labels.get(labels::CONTROLLER_REVISION_HASH);
        !self.behind.contains(&pod.id.uid) && self.target_label.as_ref().is_none_or(|target| label() == Some(target))
    }

    /// Whether the pod was brought to a version that was judged bad, and is to leave it.
    #[must_use]
    pub fn leaves_bad(&self, pod: &PodView) -> bool {
        let of_pod = pod.annotations.get(annotations::REVISION);
        self.judged_bad.as_ref().is_some_and(|bad| of_pod == Some(bad) && *bad != self.target)
    }

    /// Whether operations that lead to one of its revisions are still wanted.
    #[must_use]
    pub fn is_active(&self) -> bool {
        match self.stage {
            Stage::Rolling | Stage::Finishing | Stage::Idle => true,
            Stage::NotOurs | Stage::Native | Stage::SteppingAside(_) | Stage::Refused(_) | Stage::Halted(_) => false,
        }
    }
}

/// A note on a workload whose API has that version.
pub(crate) fn note(on: &ObjectRef, version: &str, severity: Severity, reason: &'static str, text: String) -> EventNote {
    EventNote { regarding: on.reference(version), severity, reason, action: "UpdateInPlace", text }
}
