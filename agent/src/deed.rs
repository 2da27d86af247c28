//! What is done to a pod between its drain and its return, and who does it.
//!
//! Whatever the agent asks about that it asks a [`Deed`]: how far it is, the patch that begins it or takes it back, whether it has
//! taken effect. To add one, add a variant and a file beside `images`; the compiler then names the questions that it has to
//! answer, and [`Deed::of`] says which grants want it.

mod foreign;
mod images;
mod labels;
mod metadata;

use std::collections::BTreeMap;

use hitless_api::pod::{ContainerState, ContainerView, PodView};
use hitless_api::{Grant, GrantMode, GrantOp, JsonPatch};
use jiff::Timestamp;

use crate::decision::Direction;
use crate::instant::whole_seconds;
use crate::view::NodePod;
pub use foreign::Foreign;
use images::Images;
pub use images::Trouble;
use labels::Labels;

/// What is done to a pod.
#[derive(Clone, Copy, Debug)]
pub enum Deed<'a> {
    /// The agent patches images, labels and annotations, and the kubelet replaces the containers.
    Images(Images<'a>),
    /// The agent patches labels and annotations, and nothing is replaced.
    Labels(Labels<'a>),
    /// Nothing: the pod is out of service and drained for good.
    Drain(&'a Grant),
    /// Others operate the pod, and say when they have finished.
    Foreign(Foreign<'a>),
}

/// How far it is, as far as the pod's spec and metadata tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The pod is as it was before the patch.
    NotPatched,
    /// The pod is as the patch leaves it.
    Patched,
    /// Neither: somebody else has changed the pod. With a reason in CamelCase and words for people.
    Other(&'static str, String),
}

/// How far its effect on the containers is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The kubelet has not ended these old containers yet, or has not seen the patch.
    Stopping(String),
    /// All old ones have ended, and these new ones have not been started yet.
    Replacing(String),
    /// All have been replaced, and these are not ready yet.
    Starting(String),
    /// All have been replaced and are ready.
    Ready,
}

/// What tells the new containers from the old ones.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'a> {
    /// containerID by container name right before the patch, if this process has sent it.
    pub ids: Option<&'a BTreeMap<String, String>>,
    /// Since when the pod has been out of service for the grant; a pod in a Hold never is.
    pub out_since: Option<Timestamp>,
}

/// A reason in CamelCase, and words for people.
pub type Reason<'a> = (&'a str, String);

impl<'a> Deed<'a> {
    /// What the grant wants.
    #[must_use]
    pub const fn of(grant: &'a Grant) -> Self {
        match grant.op {
            // An operation that is not known is refused before anything is asked.
            GrantOp::Update | GrantOp::Restart | GrantOp::Unknown(_) => Self::Images(Images::new(grant)),
            GrantOp::Relabel => Self::Labels(Labels::new(grant)),
            GrantOp::Drain => Self::Drain(grant),
            GrantOp::Foreign => Self::Foreign(Foreign::new(grant)),
        }
    }

    /// Nothing is done to a pod that is drained.
    #[must_use]
    pub const fn is_over_once_drained(self) -> bool {
        match self {
            Self::Images(_) | Self::Labels(_) | Self::Foreign(_) => false,
            Self::Drain(_) => true,
        }
    }

    /// What is wrong with the grant.
    #[must_use]
    pub fn flaw(self) -> Option<Reason<'static>> {
        match self {
            Self::Images(images) => images.flaw(),
            Self::Labels(labels) => labels.flaw(),
            Self::Drain(grant) => {
                let message = || "a pod that is held stays in service".to_owned();
                (grant.mode == GrantMode::Hold).then(|| ("UnsupportedMode", message()))
            }
            Self::Foreign(foreign) => foreign.flaw(),
        }
    }

    /// Why it can't be done to this pod.
    #[must_use]
    pub fn refusal(self, pod: &PodView) -> Option<Reason<'static>> {
        match self {
            Self::Images(images) => images.refusal(pod),
            Self::Labels(labels) => labels.refusal(pod),
            Self::Drain(_) | Self::Foreign(_) => None,
        }
    }

    /// How far it is.
    #[must_use]
    pub fn progress(self, pod: &PodView) -> Progress {
        match self {
            Self::Images(images) => images.progress(pod),
            Self::Labels(labels) => labels.progress(pod),
            Self::Drain(_) => Progress::NotPatched,
            Self::Foreign(foreign) => foreign.progress(pod),
        }
    }

    /// The patch that begins it or takes it back. It fails unless the pod is still the one that was looked at.
    #[must_use]
    pub fn patch(self, pod: &NodePod, direction: Direction) -> JsonPatch {
        match self {
            Self::Images(images) => images.patch(pod, direction),
            Self::Labels(labels) => labels.patch(pod, direction),
            Self::Drain(_) | Self::Foreign(_) => JsonPatch::of(&pod.view.id.uid),
        }
    }

    /// The containers are those that the controller saw when it granted.
    #[must_use]
    pub fn is_as_granted(self, pod: &PodView) -> bool {
        match self {
            Self::Images(images) => images.is_as_granted(pod),
            Self::Labels(_) | Self::Drain(_) | Self::Foreign(_) => true,
        }
    }

    /// How far its effect is, once the pod is patched.
    #[must_use]
    pub fn effect(self, pod: &PodView, baseline: Baseline<'_>) -> Effect {
        match self {
            Self::Images(images) => images.effect(pod, baseline),
            Self::Labels(_) | Self::Drain(_) | Self::Foreign(_) => Effect::Ready,
        }
    }

    /// When the first of the new containers was started, if one was.
    #[must_use]
    pub fn first_start(self, pod: &PodView, baseline: Baseline<'_>) -> Option<Timestamp> {
        match self {
            Self::Images(images) => images.starts(pod, baseline).min(),
            Self::Labels(_) | Self::Drain(_) | Self::Foreign(_) => None,
        }
    }

    /// When the last of the new containers was started, if all of them run.
    #[must_use]
    pub fn last_start(self, pod: &PodView, baseline: Baseline<'_>) -> Option<Timestamp> {
        match self {
            Self::Images(images) => images.last_start(pod, baseline),
            Self::Labels(_) | Self::Drain(_) | Self::Foreign(_) => None,
        }
    }

    /// When the last of its containers ended that has ended since then, in whole seconds.
    #[must_use]
    pub fn last_end(self, pod: &PodView, since: Timestamp) -> Option<Timestamp> {
        let ends = self.containers(pod).filter_map(|container| container.status.as_ref()?.last_ended);
        ends.filter(|ended| *ended >= whole_seconds(since)).max()
    }

    /// What keeps a new container from running; what the kubelet can't mend comes first. `is_late`: one that can't be started has had a
    /// moment's time.
    #[must_use]
    pub fn trouble<'p>(self, pod: &'p PodView, baseline: Baseline<'_>, is_late: bool) -> Option<Trouble<'p>> {
        match self {
            Self::Images(images) => images.trouble(pod, baseline, is_late),
            Self::Labels(_) | Self::Drain(_) | Self::Foreign(_) => None,
        }
    }

    /// Once it was taken back: the names of the containers that do not run as before yet. `since` is when the way back was begun;
    /// `is_late`: a container that was to be replaced has been by now.
    #[must_use]
    pub fn not_reverted(
        self,
        pod: &PodView,
        undone: Option<&BTreeMap<String, String>>,
        since: Timestamp,
        is_late: bool,
    ) -> String {
        match self {
            Self::Images(images) => images.not_reverted(pod, undone, since, is_late),
            Self::Labels(_) | Self::Drain(_) | Self::Foreign(_) => String::new(),
        }
    }

    /// The containers that it replaces, or that go; one that the pod does not have is left out.
    pub fn containers<'p>(self, pod: &'p PodView) -> impl Iterator<Item = &'p ContainerView> + use<'a, 'p> {
        pod.containers.iter().filter(move |container| match self {
            Self::Images(images) => images.has(container),
            Self::Labels(_) => false,
            // Whoever is connected to any of them is waited for.
            Self::Drain(_) | Self::Foreign(_) => true,
        })
    }

    /// Name and containerID of each of them that has a status.
    pub fn container_ids<'p>(self, pod: &'p PodView) -> impl Iterator<Item = (&'p str, &'p str)> + use<'a, 'p> {
        let id = |container: &'p ContainerView| {
            Some((container.name.as_str(), container.status.as_ref()?.container_id.as_str()))
        };
        self.containers(pod).filter_map(id)
    }
}

/// Whether the kubelet says that the container runs.
pub(crate) const fn runs(status: &ContainerState) -> bool {
    status.running_since.is_some()
}

/// Names of containers, for people.
pub(crate) fn names<'p>(containers: impl Iterator<Item = &'p ContainerView>) -> String {
    containers.map(|container| container.name.as_str()).collect::<Vec<_>>().join(", ")
}
