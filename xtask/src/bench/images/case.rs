//! What is wrong with the new image.

use hitless_cluster::Fault;
use hitless_cluster::image::Ballast;
use serde_json::{Value, json};

/// Bytes of the image that comes slowly, and in how many seconds they come.
const LARGE: usize = 6_000_000;
const SLOW_SECONDS: u64 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Case {
    /// The registry does not know the tag.
    BadTag,
    /// The registry wants a login that the pods do not have.
    MissingSecret,
    /// The image takes 30 s to pull, and is good.
    SlowPull,
    /// The process ends with code 1 at once.
    CrashAtStart,
    /// The process listens and says for ever that it is not ready.
    NeverReady,
    /// The image is good and listens after 20 s.
    SlowStart,
}

impl Case {
    pub(super) const ALL: [Self; 6] =
        [Self::BadTag, Self::MissingSecret, Self::SlowPull, Self::CrashAtStart, Self::NeverReady, Self::SlowStart];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BadTag => "bad-tag",
            Self::MissingSecret => "missing-secret",
            Self::SlowPull => "slow-pull",
            Self::CrashAtStart => "crash-at-start",
            Self::NeverReady => "never-ready",
            Self::SlowStart => "slow-start",
        }
    }

    /// Whether the rollout can succeed.
    pub(super) fn is_good(self) -> bool {
        match self {
            Self::SlowPull | Self::SlowStart => true,
            Self::BadTag | Self::MissingSecret | Self::CrashAtStart | Self::NeverReady => false,
        }
    }

    /// Whether the image is in the registry at all.
    pub(super) fn is_pushed(self) -> bool {
        self != Self::BadTag
    }

    /// What the new version of the reference server is told.
    pub(super) fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::BadTag | Self::MissingSecret | Self::SlowPull => &[],
            Self::CrashAtStart => &[("FAIL", "exit")],
            Self::NeverReady => &[("FAIL", "unready")],
            Self::SlowStart => &[("START_DELAY", "20000")],
        }
    }

    /// How the Deployment differs from the usual one: where the version is bad its owner wants it undone soon.
    pub(super) fn patch(self) -> Value {
        if self.is_good() { json!({}) } else { json!({"spec": {"progressDeadlineSeconds": 20}}) }
    }

    /// Another seed makes a layer that no node has yet.
    pub(super) fn ballast(self, seed: u64) -> Option<Ballast> {
        (self == Self::SlowPull).then_some(Ballast { bytes: LARGE, seed })
    }

    /// What the registry does from the change on.
    pub(super) fn fault(self) -> Option<Fault> {
        match self {
            Self::MissingSecret => Some(Fault::Login { user: "user".to_owned(), password: "pass".to_owned() }),
            Self::SlowPull => Some(Fault::Throttle { bytes_per_second: LARGE as u64 / SLOW_SECONDS }),
            Self::BadTag | Self::CrashAtStart | Self::NeverReady | Self::SlowStart => None,
        }
    }

    /// Whether a note says what is wrong in the registry's or the kubelet's words.
    pub(super) fn is_said_by(self, note: &str) -> bool {
        let words: &[&str] = match self {
            Self::BadTag => &["not found"],
            Self::MissingSecret => &["authorization", "unauthorized", "access denied"],
            Self::CrashAtStart => &["crashloopbackoff", "back-off", "exit code", "exited", "exit 1"],
            Self::NeverReady => &["readiness", "not ready", "never ready", "unready", "progressdeadline"],
            Self::SlowPull | Self::SlowStart => return false,
        };
        let note = note.to_lowercase();
        words.iter().any(|word| note.contains(word))
    }
}
