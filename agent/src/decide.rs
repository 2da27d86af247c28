//! The next step of one granted operation, derived from what is there.
//!
//! ```text
//!             ┌─ validate ─ Refused
//!  Granted ───┤
//!             └─ leave:  Leaving → Draining ─┬─ image patch ─ verify: Operating → Verifying → Checking ─ Returning → Done
//!                          │ cancel, Abort   │                  │ bad, cancelled, not checked in time
//!                          └─ Returning → Cancelled, Failed     └─ rollback: Returning → RolledBack, Failed
//!  Granted ─── hold:   Holding → Settling ───┴─ image patch ─ verify ─ Returning → Done
//! ```
//!
//! In a Hold the pod stays in service and nothing but the image patch is written to it. What is held is the kernel's; a
//! thread that owns it is told by [`Decision::hold`] and answers by [`Observation::Held`](crate::view::Observation::Held).
//!
//! Which box an operation is in follows from the pod alone, but for one bit: that the way back has been begun, which is
//! therefore reported *before* it is begun ([`Decision::rollback`]). That the pod has returned to service on behalf of a
//! grant, and why, is written into the InService condition itself ([`mark`]).

mod case;
mod hold;
mod hooks;
mod leave;
mod returned;
mod rollback;
mod validate;
mod verify;

use std::fmt;

use hitless_api::{Grant, Outcome, Phase, Transition};
use jiff::Timestamp;

use crate::hooks::called::Ask;
use crate::memory::Memory;
use crate::patch::Direction;
use crate::view::{Missing, NodeIdentity, Observation, Presence};
use case::{Case, Images};

/// What the next step of one grant is decided from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The grant.
    pub grant: &'a Grant,
    /// uid of the node that the grant was made for.
    pub granted_node_uid: &'a str,
    /// This node.
    pub node: &'a NodeIdentity,
    /// The pod.
    pub pod: Presence<'a>,
    /// The agent's last report of this grant, as the API server has it.
    pub reported: Option<&'a Transition>,
    /// What this process remembers.
    pub memory: &'a Memory,
    /// What the kernel shows of the pod.
    pub observation: &'a Observation,
    /// Another operation of the same pod goes first.
    pub busy: bool,
}

/// A write, or a question, to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for the pod by name: it is not in the cache.
    Look,
    /// Set InService False for this grant.
    Lower,
    /// Set InService True.
    Raise {
        /// Reason of the condition.
        reason: String,
        /// Message of the condition.
        message: String,
    },
    /// Patch the images forward.
    Operate,
    /// Patch the images back.
    Undo,
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
    Park(Direction),
    /// What is held stays so until then, but nothing is held anew.
    Keep(Direction),
}

/// What an operation waits for, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// Another operation of the same pod, which goes first.
    Other,
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
    /// The kubelet is to replace these containers.
    Replaced(String),
    /// These containers are to become ready.
    ContainersReady(String),
    /// `soakSeconds`, until then.
    Soak(Timestamp),
    /// The controller is to say that the rules of stage `PostCheck` allow the return.
    PostCheck,
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
            Self::Pod => write!(f, "the API server's answer about the pod"),
            Self::NotReady => write!(f, "the kubelet to report the pod NotReady"),
            Self::Minimum(until) => write!(f, "minSeconds, until {until}"),
            Self::Count(why) => write!(f, "a count of the connections: {why}"),
            Self::Quiet => write!(f, "new connections to stop coming"),
            Self::Connections(count) => write!(f, "{count} connections to end"),
            Self::Admission(words) => write!(f, "admission to allow the write: {words}"),
            Self::Report => write!(f, "the report of the way back to be stored"),
            Self::Replaced(names) => write!(f, "the kubelet to replace {names}"),
            Self::ContainersReady(names) => write!(f, "{names} to become ready"),
            Self::Soak(until) => write!(f, "soakSeconds, until {until}"),
            Self::PostCheck => write!(f, "the rules of stage PostCheck to pass"),
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
    fn at(phase: Phase) -> Self {
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

    fn end(phase: Phase, outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { result: Some((outcome, reason.into())), ..Self::at(phase) }
    }

    fn refused(reason: &str, message: impl Into<String>) -> Self {
        Self::end(Phase::Granted, Outcome::Refused, reason).saying(message)
    }

    fn doing(mut self, action: Action) -> Self {
        self.action = Some(action);
        self
    }

    fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    fn waiting_for(mut self, what: WaitingFor) -> Self {
        self.waiting_for.push(what);
        self
    }

    fn until(mut self, deadline: Timestamp) -> Self {
        self.deadline = Some(deadline);
        self.waking_at(deadline)
    }

    fn waking_at(mut self, time: Timestamp) -> Self {
        self.wake_at = Some(self.wake_at.map_or(time, |known| known.min(time)));
        self
    }

    fn watching(mut self, watch: Watch) -> Self {
        self.watch = watch;
        self
    }

    fn holding(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// The containers are being replaced: as long as it goes on, see when the new ones listen.
    fn replacing(self, case: &Case<'_>) -> Self {
        match case.is_hold() {
            _ if self.result.is_some() => self,
            true => self.holding(Hold::Keep(Direction::Forward)),
            false => self.watching(Watch::Replacing),
        }
    }
}

/// Message of the InService condition that was raised on behalf of this grant. The time tells a grant from an earlier one
/// of the same wish, which has the same id.
#[must_use]
pub fn mark(grant: &Grant) -> String {
    format!("{}@{}", grant.id, grant.granted.0)
}

/// Whether anything was done for the grant already; such a grant is ended properly and never refused.
#[must_use]
pub fn begun(input: &Input<'_>) -> bool {
    if input.memory.rollback.is_some()
        || !input.memory.hooks.is_empty()
        || input.memory.task_since.is_some()
        || input.reported.is_some_and(|reported| reported.phase > Phase::Granted || reported.rollback.is_some())
    {
        return true;
    }
    match input.pod {
        Presence::Here(pod) => {
            let case = Case::new(input, &pod.view, Timestamp::UNIX_EPOCH);
            let has_left = case.lowered().is_some() || case.may_be_lowered();
            has_left || case.returned().is_some() || case.is_hold() && case.may_be_operated()
        }
        Presence::Unseen | Presence::Missing(_) => false,
    }
}

/// The next step. Never panics, whatever the API server holds.
#[must_use]
pub fn decide(input: &Input<'_>, now: Timestamp) -> Decision {
    let phase = input.reported.map_or(Phase::Granted, |reported| reported.phase);
    if let Some(result) = input.reported.and_then(|reported| reported.result.as_ref()) {
        return Decision::end(phase, result.outcome, result.reason.clone());
    }
    let begun = begun(input);
    if begun && input.busy {
        return Decision::at(phase).waiting_for(WaitingFor::Other);
    }
    if !begun && let Some(refusal) = validate::refusal_of_grant(input, now) {
        return refusal;
    }
    let pod = match input.pod {
        Presence::Here(pod) => &pod.view,
        Presence::Unseen => return Decision::at(phase).doing(Action::Look).waiting_for(WaitingFor::Pod),
        Presence::Missing(missing) => return missing_pod(missing, begun, phase),
    };
    let case = Case::new(input, pod, now);
    if pod.terminating {
        return Decision::end(phase, Outcome::Cancelled, "PodTerminating").saying("the pod is being deleted");
    }
    if pod.finished {
        return Decision::end(phase, Outcome::Cancelled, "PodFinished").saying("the pod has run to its end");
    }
    if let Some(condition) = case.returned() {
        return returned::decide(&case, condition);
    }
    if !begun {
        if let Some(cancel) = &case.grant.cancel {
            let cancelled = if case.is_hold() { hold::cancelled } else { leave::cancelled };
            return cancelled(&case, &cancel.reason);
        }
        if let Some(refusal) = validate::refusal_of_pod(input, pod) {
            return refusal;
        }
    }
    match (case.images(), case.rollback()) {
        (Images::Other(what), _) => case.give_up("ImageChanged", what),
        (Images::From | Images::To, Some(_)) => rollback::decide(&case),
        (Images::From, None) if case.is_hold() => hold::decide(&case),
        (Images::From, None) => leave::decide(&case),
        (Images::To, None) => verify::decide(&case).replacing(&case),
    }
}

fn missing_pod(missing: Missing, begun: bool, phase: Phase) -> Decision {
    match missing {
        Missing::OtherUid if !begun => {
            Decision::refused("PodUIDMismatch", "a pod of this name exists, but it is another one than granted")
        }
        Missing::OtherNode if !begun => Decision::refused("WrongNode", "the pod is not bound to this node"),
        Missing::Gone | Missing::OtherUid | Missing::OtherNode => {
            Decision::end(phase, Outcome::Cancelled, "PodGone").saying("the pod is gone")
        }
    }
}
