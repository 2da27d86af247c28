//! Namespaces about which too little is known: they are left out of a round, and the round goes on.

use hitless_workloads::retention::MOST_MIB;
use jiff::{SignedDuration, Timestamp};

/// Why nothing is decided about a namespace now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// Its pods have not been read.
    Pods,
    /// A leader that has just begun has not read its rollouts that are under way ([`crate::round::under_way`]).
    Workloads,
    /// ReplicaSets of workloads that have just opted in have not been read.
    Parts,
    /// Its objects are more than is kept of one namespace ([`hitless_workloads::retention`]).
    TooMuch,
}

impl Unread {
    /// Of the Event, and of what waits.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Pods | Self::Workloads | Self::Parts => "NamespaceUnread",
            Self::TooMuch => "NamespaceTooLarge",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Pods => "its pods",
            Self::Workloads => "its rollouts that are under way",
            Self::Parts => "the ReplicaSets of its workloads",
            Self::TooMuch => "all of its workloads",
        }
    }

    /// What is the matter with the namespace, a clause.
    pub(crate) fn clause(self) -> String {
        match self {
            Self::Pods | Self::Workloads | Self::Parts => {
                format!("of its namespace the controller has not read {} yet", self.what())
            }
            Self::TooMuch => format!(
                "workloads of its namespace and their revisions take more than the {MOST_MIB} MiB that the controller keeps of one"
            ),
        }
    }

    /// What to do.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Pods | Self::Workloads | Self::Parts => "see the controller's log for what the API server says",
            Self::TooMuch => {
                "delete some or old revisions (spec.revisionHistoryLimit), or shorten templates, e.g. move variables to a ConfigMap (envFrom)"
            }
        }
    }
}

/// A namespace that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// What is not known of it.
    pub unread: Unread,
    /// Since when.
    pub since: Timestamp,
}

impl LeftOut {
    /// A leader that has just begun reads everything: only what takes longer is told.
    pub const TOLD_AFTER: SignedDuration = SignedDuration::from_secs(15);

    /// Whether people should know by now.
    #[must_use]
    pub fn is_told(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) >= Self::TOLD_AFTER
    }

    /// For people: what, why, since when, and what to do.
    #[must_use]
    pub fn text(&self, namespace: &str) -> String {
        let Self { unread, since } = self;
        let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
        let why = match unread {
            Unread::Pods | Unread::Workloads | Unread::Parts => format!(
                "the controller can't read {} since {since}; it tries again by itself, and its log has the API server's words",
                unread.what()
            ),
            Unread::TooMuch => format!("since {since} {}; {}", unread.clause(), unread.advice()),
        };
        format!("nothing begins or ends in namespace {namespace}: {why}")
    }
}
