//! What a pod waits for that has a companion pod, or is to have one.

use crate::companion::Tried;

/// What a pod waits for that has a companion pod, or is to have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Companion {
    /// It is to be made.
    Missing,
    /// It is not ready yet.
    Starting(String),
    /// The same, after ten seconds.
    Slow(String),
    /// It does not run, in the kubelet's words, and is tried again.
    Failing(String),
    /// It did not run for as long as the workload's owner gives a version.
    Failed(String),
    /// It is ready, and is put in service.
    Joining,
    /// It has told what there was to tell: that is written down.
    Tried(Tried),
    /// It is on its way out.
    Leaving,
    /// It serves as long as a pod of its workload, this one, is operated.
    Needed(String),
}

impl Companion {
    /// What is waited for; `pod` is the companion's name.
    pub(crate) fn text(&self, pod: &str) -> String {
        match self {
            Self::Missing => format!("companion pod {pod} is to try the new version first"),
            Self::Starting(words) => format!("companion pod {pod} tries the new version first: {words}"),
            Self::Slow(words) => format!("companion pod {pod} with the new version is not ready: {words}"),
            Self::Failing(words) => format!("the new version does not run in companion pod {pod}: {words}"),
            Self::Failed(words) => format!("the new version did not run in companion pod {pod}: {words}"),
            Self::Joining => format!("companion pod {pod} runs the new version and is put in service"),
            Self::Tried(_) => format!("companion pod {pod} has tried the new version"),
            Self::Leaving => format!("companion pod {pod} is being deleted"),
            Self::Needed(other) => format!("companion pod {pod} serves while pod {other} is operated"),
        }
    }

    /// What a person can do; `None`: nothing, it passes by itself in a moment.
    pub(crate) const fn unblock(&self) -> Option<&'static str> {
        match self {
            Self::Missing | Self::Starting(_) | Self::Joining | Self::Tried(_) | Self::Leaving | Self::Needed(_) => {
                None
            }
            Self::Slow(_) | Self::Failing(_) => Some(
                "its pods stay as they are, and it goes on by itself once it runs; its logs and Events say why, or set another image",
            ),
            Self::Failed(_) => Some(
                "its pods stay as they are; set another image, or remove the annotation hitless.dev/tried to try again",
            ),
        }
    }

    /// Whether it passes by itself in a moment.
    pub(crate) const fn is_brief(&self) -> bool {
        self.unblock().is_none()
    }
}
