//! What goes wrong, how likely, and how often it did.

use crate::chance::Chance;
use crate::counts::counted;

counted! {
    /// A fault that can be injected.
    Fault,
    /// How often each fault was injected.
    Counts {
        WatchDelayed: "watch event delayed by 0.2 s to 8 s",
        OldCache: "decided on a cache older than the API server",
        Repeated: "watch event repeated",
        WatchBroken: "watch broken, events dropped, listed again",
        Conflict: "write refused with a conflict",
        LostRequest: "write lost before the API server",
        LostAnswer: "write done, its answer lost",
        LateWrite: "write arrived after its sender had given it up",
        ServerAway: "API server away for a while",
        ControllerKilled: "controller killed",
        KilledBeforeGrant: "controller killed between ledger and grant",
        TwoLeaders: "a second leader while the first believes to lead",
        SkewedController: "controller with a wrong clock",
        SkewedNode: "node with a wrong clock",
        AgentKilled: "agent killed",
        AgentAwayLong: "agent away for longer than grants last",
        AgentKilledBeforeWrite: "agent killed right before a write",
        AgentKilledAfterWrite: "agent killed before the answer to its write",
        AgentRefuses: "agent refuses everything",
        NodeDied: "node died, its pods deleted later",
        NodeBack: "node came back before it was given up",
        PodCrashed: "container crashed by itself",
        PodDeleted: "pod deleted by a user",
        PullFailed: "image could not be pulled for a while",
        BadImage: "image can't be pulled, crashes or is never ready",
        Straggler: "connections that stay",
        Uncountable: "connections can't be counted",
        ScaledUp: "scaled up",
        ScaledDown: "scaled down",
        SecondChange: "another image in mid-rollout",
        ChangedBack: "changed back in mid-rollout",
        Restarted: "restart wished by annotation",
        Paused: "workload paused",
        Resumed: "workload that was paused goes on",
        JobMade: "OperationJob made",
        JobDeleted: "OperationJob deleted before its end",
        ChecksumChanged: "restart annotation of a template changed",
        ChecksumOvertaken: "restart annotation of a template changed in mid-rollout",
        SlowAnswer: "answer of the API server that took 0.2 s to 2 s",
        HoldImpossible: "new connections can't be held",
        AgentKilledInHold: "agent killed while it held clients",
        ControllerKilledInHold: "controller killed during a Hold",
        PodDeletedInHold: "pod deleted during a Hold",
        ServiceApplied: "Service that we hold open applied again by its owner, our mark kept",
        ServiceReplaced: "Service that we hold open replaced by its owner, our mark dropped",
        ServiceDeleted: "Service that we hold open deleted",
        OperatorBegan: "foreign operator began with a pod",
        OperatorUndid: "foreign operator took its operation back",
        OperatorDied: "foreign operator died while it worked on a pod",
        LabelledForDeletion: "pod labelled to leave and be deleted",
        DeletedInForeground: "CollaSet deleted in the foreground and made anew",
        MadeAnew: "template of a CollaSet changed so that its pods are made anew",
        PartitionChanged: "partition of a CollaSet changed",
        PolicyChanged: "upgrade policy of a CollaSet changed",
        PodLabelled: "pod of a CollaSet labelled to be removed",
        DependencyAway: "readiness probes of a whole workload failed for a while",
        PodNamed: "pod of a CollaSet named to be removed first",
        LateStart: "version that becomes ready late, within its time",
        CrashedStart: "version of which a container ends before one comes up",
        StartTooLate: "version that becomes ready after its time",
        SlowStop: "container that stopped slowly",
        KilledStop: "container killed at the end of its grace period",
        HungStop: "container that outlived its grace period",
        NeverAgent: "node without an agent for good",
        NodeLost: "node lost while one of its pods was operated, and not given up",
        HelpersRefused: "pods that fetch images and companion pods refused",
        NamespaceUnread: "namespace whose pods could not be read for a while",
    }
}

/// How likely faults are in one run, in 10,000ths of the occasions. Most runs know only some of them, so that one does not
/// hide another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) watch_delayed: u32,
    pub(crate) watch_broken: u32,
    pub(crate) repeated: u32,
    pub(crate) conflict: u32,
    pub(crate) lost_request: u32,
    pub(crate) lost_answer: u32,
    pub(crate) late_write: u32,
    pub(crate) controller_killed: u32,
    pub(crate) agent_killed: u32,
    /// An agent that is killed stays away until the grants that it had have expired.
    pub(crate) agent_away_long: u32,
    pub(crate) straggler: u32,
    pub(crate) uncountable: u32,
    /// A kubelet takes up to 5 s to follow.
    pub(crate) slow_kubelet: u32,
    /// A read takes long.
    pub(crate) slow_answer: u32,
    /// The registry does not answer, at one attempt.
    pub(crate) pull_fails: u32,
    /// The kernel can't hold, at one attempt.
    pub(crate) hold_impossible: u32,
    /// Somebody meddles with a pod that is held, its Service, or those who are at work.
    pub(crate) meddled: u32,
    /// The pods of a namespace can't be read for a while.
    pub(crate) unread: u32,
    /// Incidents (crashes, deletions, dead nodes, …) in one round of user's changes, at most.
    pub(crate) incidents: i64,
}

impl Weather {
    pub(crate) fn draw(chance: &mut Chance) -> Self {
        let mut rate = |high: u32| if chance.happens(5_500) { 0 } else { chance.pick(&[high / 8, high / 2, high]) };
        Self {
            watch_delayed: rate(1_500),
            watch_broken: rate(150),
            repeated: rate(800),
            conflict: rate(500),
            lost_request: rate(600),
            lost_answer: rate(1_200),
            late_write: rate(1_000),
            controller_killed: rate(600),
            agent_killed: rate(1_200),
            agent_away_long: rate(2_000),
            straggler: rate(2_500),
            uncountable: rate(1_500),
            slow_kubelet: rate(800),
            slow_answer: rate(1_500),
            pull_fails: rate(2_000),
            hold_impossible: rate(1_500),
            meddled: rate(6_000),
            unread: rate(200),
            incidents: chance.pick(&[0, 1, 2, 3, 5]),
        }
    }
}
