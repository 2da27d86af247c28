//! What a decision says: data only, for those who carry it out, remember it and report it.

use std::fmt;

use hitless_api::{Outcome, Phase};
use jiff::Timestamp;

use crate::hooks::called::Ask;

/// Which way a pod is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To what the grant wants.
    Forward,
    /// To what was before: the way back.
    Back,
}

impl Direction {
    /// Puts what is there now first, and what is to be there second.
    pub(crate) fn order<T>(self, from: T, to: T) -> (T, T) {
        match self {
            Self::Forward => (from, to),
            Self::Back => (to, from),
        }
    }
}

/// A write, or a question, to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for the pod by name: it is not in the cache.
    FetchPod,
    /// See whether the pod's volumes have what the grant names.
    LookAtVolumes,
    /// Write to the pod's metadata, so that the kubelet looks at its volumes at once.
    WantVolumes,
    /// Set InService False for this grant.
    LeaveService,
    /// Say in InService, which is False for this grant, that nobody is connected any more: others may operate the pod.
    ShowDrained,
    /// Set InService True.
    ReturnToService {
        /// Reason of the condition.
        reason: String,
        /// Message of the condition.
        message: String,
    },
    /// Patch the pod as its [deed](crate::deed) says.
    Patch(Direction),
}

/// Whether the pod's sockets are to be watched now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// No.
    #[default]
    No,
    /// Count; the endpoint is still there.
    Leaving,
    /// Count, tell when no new connections come, and then close idle ones kindly.
    Draining,
    /// The same, and reset those that are left.
    Destroying,
    /// Tell when the new processes listen.
    Replacing,
}

/// What is to be done about new connections of a pod in a Hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Nothing: what is held is let in.
    #[default]
    No,
    /// Open what is needed to hold them; hold none.
    Prepare(Direction),
    /// Hold them until the new processes listen, at most for the cap.
    Begin(Direction),
    /// What is held stays so until then, but nothing is held anew.
    Continue(Direction),
}

/// What an operation waits for, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// Another operation of the same pod, which goes first.
    Other,
    /// The kubelet is to write the new content of ConfigMaps and Secrets into the pod's volumes.
    Volumes(String),
    /// The controller is to say in the pod's labels that it leaves service.
    Preparing,
    /// The controller is to allow these operations of others: ids.
    Permission(String),
    /// The controller is to record that nobody operates the pod any more.
    Recorded,
    /// These operations of others are to be finished: ids.
    Operators(String),
    /// The API server's answer about a pod that is not in the cache.
    Pod,
    /// The kubelet is to lower Ready.
    NotReady,
    /// `minSeconds`, until then.
    Minimum(Timestamp),
    /// The kernel has not been looked at yet, or looking failed.
    Count(String),
    /// New connections still come.
    Quiet,
    /// So many inbound connections.
    Connections(u32),
    /// Admission is to allow the write.
    Admission(String),
    /// The report that the way back is begun is to be stored.
    Report,
    /// The kubelet is to end these old containers.
    Ended(String),
    /// The kubelet is to start these new containers.
    Replaced(String),
    /// These containers are to become ready.
    ContainersReady(String),
    /// What pods of the version before need, too; since then.
    Dependency(Timestamp),
    /// `soakSeconds`, until then.
    Soak(Timestamp),
    /// The controller is to say that the rules of stage `PostCheck` allow the return.
    PostCheck,
    /// Something outside of the pod.
    Outside {
        /// Its name.
        name: String,
        /// What is missing.
        words: String,
    },
    /// The kubelet is to raise Ready.
    Ready,
    /// The pod is to be put into service again, after an earlier operation.
    InService,
    /// The kernel is to be made ready for a Hold.
    Prepared,
    /// Clients are held; so many requests in flight are to be answered.
    InFlight(u32),
    /// The new process is to listen, and those who are held to be let in.
    LetIn,
    /// The API server is to answer quickly; it took so many milliseconds.
    Api(u32),
    /// The next attempt, then.
    Attempt(Timestamp),
    /// What the application has said by itself.
    Task(String),
    /// A hook.
    Hook {
        /// Its name.
        name: String,
        /// How it stands.
        words: String,
    },
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => write!(f, "another operation of this pod"),
            Self::Volumes(words) => {
                write!(f, "the new content of ConfigMaps and Secrets in the pod's volumes: {words}")
            }
            Self::Preparing => write!(f, "the pod's labels to say that it leaves service"),
            Self::Permission(ids) => write!(f, "the controller to allow {ids}"),
            Self::Recorded => write!(f, "the controller to record that the operators have finished"),
            Self::Operators(ids) => write!(f, "the operator of {ids} to finish"),
            Self::Pod => write!(f, "the API server's answer about the pod"),
            Self::NotReady => write!(f, "the kubelet to report the pod NotReady"),
            Self::Minimum(until) => write!(f, "minSeconds, until {until}"),
            Self::Count(why) => write!(f, "a count of the connections: {why}"),
            Self::Quiet => write!(f, "new connections to stop coming"),
            Self::Connections(count) => write!(f, "{count} connections to end"),
            Self::Admission(words) => write!(f, "admission to allow the write: {words}"),
            Self::Report => write!(f, "the report of the way back to be stored"),
            Self::Ended(names) => write!(f, "the kubelet to end the old {names}"),
            Self::Replaced(names) => write!(f, "the kubelet to start the new {names}"),
            Self::ContainersReady(names) => write!(f, "{names} to become ready"),
            Self::Dependency(since) => {
                write!(f, "what pods of the version before need, too, and which are not Ready either since {since}")
            }
            Self::Soak(until) => write!(f, "soakSeconds, until {until}"),
            Self::PostCheck => write!(f, "the rules of stage PostCheck to pass"),
            Self::Outside { name, words } => write!(f, "{name}: {words}"),
            Self::Ready => write!(f, "the kubelet to report the pod Ready"),
            Self::InService => write!(f, "the pod to be put into service again"),
            Self::Prepared => write!(f, "the sockets that a Hold needs"),
            Self::InFlight(count) => write!(f, "{count} requests in flight to be answered; new clients are held"),
            Self::LetIn => write!(f, "the new process to listen; clients are held"),
            Self::Api(took) => write!(f, "the API server to answer quickly (it took {took} ms); no Hold begins before"),
            Self::Attempt(at) => write!(f, "the next attempt to hold, at {at}"),
            Self::Task(words) => write!(f, "the application, which says {words}"),
            Self::Hook { name, words } => write!(f, "hook {name} {words}"),
        }
    }
}

/// The next step of one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where the operation is.
    pub phase: Phase,
    /// The one thing to do now; nothing if there is something to wait for.
    pub action: Option<Action>,
    /// Why the way back is begun; to be reported before anything else is done.
    pub rollback: Option<String>,
    /// How it ended, with the reason.
    pub result: Option<(Outcome, String)>,
    /// For people.
    pub message: String,
    /// What it waits for.
    pub waiting_for: Vec<WaitingFor>,
    /// When this phase ends by itself.
    pub deadline: Option<Timestamp>,
    /// When to decide anew even if nothing changes.
    pub wake_at: Option<Timestamp>,
    /// Whether to look at the pod's sockets.
    pub watch: Watch,
    /// What to do about new connections, in a Hold.
    pub hold: Hold,
    /// The hook to call; a call that is under way goes on as long as it is asked for.
    pub hook: Option<Ask>,
}

impl Decision {
    pub(crate) fn at(phase: Phase) -> Self {
        Self {
            phase,
            action: None,
            rollback: None,
            result: None,
            message: String::new(),
            waiting_for: Vec::new(),
            deadline: None,
            wake_at: None,
            watch: Watch::No,
            hold: Hold::No,
            hook: None,
        }
    }

    pub(crate) fn end(phase: Phase, outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { result: Some((outcome, reason.into())), ..Self::at(phase) }
    }

    pub(crate) fn refused(reason: &str, message: impl Into<String>) -> Self {
        Self::end(Phase::Granted, Outcome::Refused, reason).saying(message)
    }

    pub(crate) fn doing(mut self, action: Action) -> Self {
        self.action = Some(action);
        self
    }

    pub(crate) fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same, where nothing else is said.
    pub(crate) fn or_saying(self, message: &str) -> Self {
        if self.message.is_empty() { self.saying(message) } else { self }
    }

    pub(crate) fn waiting_for(mut self, what: WaitingFor) -> Self {
        self.waiting_for.push(what);
        self
    }

    pub(crate) fn until(mut self, deadline: Timestamp) -> Self {
        self.deadline = Some(deadline);
        self.waking_at(deadline)
    }

    pub(crate) fn waking_at(mut self, time: Timestamp) -> Self {
        self.wake_at = Some(self.wake_at.map_or(time, |known| known.min(time)));
        self
    }

    pub(crate) fn watching(mut self, watch: Watch) -> Self {
        self.watch = watch;
        self
    }

    /// The new containers are ready, whatever else is waited for. Also so where there are none: see whether they were patched.
    pub(crate) fn is_past_start(&self) -> bool {
        let starts = |what: &WaitingFor| matches!(what, WaitingFor::ContainersReady(_));
        match self.phase {
            Phase::Granted | Phase::Leaving | Phase::Draining | Phase::Holding | Phase::Settling | Phase::Operating => {
                false
            }
            Phase::Verifying => self.rollback.is_none() && !self.waiting_for.iter().any(starts),
            Phase::Checking | Phase::Returning => self.rollback.is_none(),
        }
    }

    pub(crate) fn holding(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }
}
