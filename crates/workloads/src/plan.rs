//! What is to be done for one workload.

use std::collections::BTreeSet;

use hitless_api::ObjectRef;
use hitless_api::event::{EventNote, Severity};
use hitless_api::names::{COMPANION_ALWAYS, COMPANION_NEVER, PREFETCH_ONLY, annotations};
use jiff::Timestamp;

use crate::intent::PodWish;
use crate::object::{Object, OptIn};
use crate::template::Template;
use crate::write::Write;

/// Why a template change is left to the native controller, or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Because {
    /// In CamelCase, for machines.
    pub reason: &'static str,
    /// For people, a clause: "a change of … can't be made to running pods".
    pub text: String,
}

impl Because {
    /// [`Self::reason`] of [`Self::field`].
    pub const FIELD: &str = "FieldNotInPlace";

    /// This field can't be changed in a running pod.
    #[must_use]
    pub fn field(path: &str) -> Self {
        Self { reason: Self::FIELD, text: format!("a change of {path} can't be made to running pods") }
    }

    /// This field of an init container can't: it would have to run again, and others of the pod rely on its having run before them.
    pub(crate) fn init_container(path: &str, name: &str) -> Self {
        let Self { reason, text } = Self::field(path);
        Self { reason, text: format!("{text}: init container {name} runs only when a pod is started") }
    }

    /// This annotation of the template can't, and that is why.
    pub(crate) fn annotation(key: &str, why: &str) -> Self {
        let Self { reason, text } = Self::field(&format!("spec.template.metadata.annotations[{key}]"));
        Self { reason, text: format!("{text}{why}") }
    }
}

impl Because {
    /// Why a workload with this template is never brought to another one in place, whatever the change is.
    pub(crate) fn never(workload: &Object, template: &Template) -> Option<Self> {
        // The controller changes no template there: whoever takes it over must not reach what the cluster itself consists of.
        if workload.is_system() {
            let text = format!("it is in {}, where hitless changes no workload", workload.id.namespace);
            return Some(Self { reason: "SystemNamespace", text });
        }
        let text = || "its pods use their nodes' network; such pods are not operated".to_owned();
        let on_host = template.content()["spec"]["hostNetwork"] == true;
        on_host.then(|| Self { reason: "HostNetwork", text: text() })
    }
}

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

/// When a companion pod tries a workload's next version before its own pods get it (docs/contract.md 33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompanionWish {
    /// Where it has a single pod.
    #[default]
    Auto,
    /// However many pods it has.
    Always,
    /// Not at all.
    Never,
}

impl CompanionWish {
    /// What is not understood is as good as absent.
    fn of(root: &Object) -> Self {
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
    pub wishes: Vec<PodWish>,
    /// Revision that pods are brought to, or are at.
    pub target: String,
    /// Revision at which the workload's own strategy keeps some of its pods, if that is another one.
    pub kept_back: Option<String>,
    /// Further revisions that single pods are brought to, if there are any.
    pub single: BTreeSet<String>,
    /// uids of pods that are not as the target says.
    pub behind: BTreeSet<String>,
    /// uids of those of them that can't be brought there in the way that their owner allows.
    pub stuck: BTreeSet<String>,
    /// Pods that are brought to the target in the end.
    pub total: usize,
    /// What people should know, for as long as it holds.
    pub notes: Vec<EventNote>,
    /// How long a new version may take, in seconds, as the workload's owner says.
    pub progress_deadline_seconds: Option<u32>,
    /// Its owner wants the images fetched and nothing else for now (annotation `hitless.dev/prefetch: only`).
    pub prefetch_only: bool,
    /// What was learned of how long its containers are away (annotation `hitless.dev/gap`).
    pub gaps: Option<String>,
    /// Connections of a pod that were cut off when it became not Ready (annotation `hitless.dev/losses`).
    pub losses: Option<String>,
    /// When a companion pod tries its next version first (annotation `hitless.dev/companion`).
    pub companion: CompanionWish,
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
            wishes: Vec::new(),
            target: String::new(),
            kept_back: None,
            single: BTreeSet::new(),
            behind: BTreeSet::new(),
            stuck: BTreeSet::new(),
            total: 0,
            notes: Vec::new(),
            progress_deadline_seconds: None,
            prefetch_only: root.annotations.get(annotations::PREFETCH).is_some_and(|value| value == PREFETCH_ONLY),
            gaps: root.annotations.get(annotations::GAP).cloned(),
            losses: root.annotations.get(annotations::LOSSES).cloned(),
            companion: CompanionWish::of(root),
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
