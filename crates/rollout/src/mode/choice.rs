//! Leave or Hold.

use hitless_api::{GrantMode, ModeWish};

use super::not_operable::NotOperable;

/// What the choice rests on.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct ModeInputs {
    /// What is wished.
    pub wish: ModeWish,
    /// Who wishes it.
    pub origin: String,
    /// The pod has the readiness gate.
    pub gated: bool,
    /// The pod is Ready.
    pub serving: bool,
    /// A rule of stage PostCheck concerns the pod: it has to stay out of service until that has passed.
    pub post_check: bool,
    /// A hook is called after its connections are gone: it has to leave, or they never are.
    pub hook_after_drain: bool,
    /// Its workload wants a time between leaving service and the operation.
    pub is_delayed: bool,
    /// What the node's agent says; `None`: it has not said anything yet, and refuses what it does not know.
    pub agent_can_hold: Option<bool>,
    /// The longest gap between two processes that was seen of late, in milliseconds.
    pub gap_milliseconds: Option<u32>,
    /// Longest time that connections may be parked, in milliseconds.
    pub cap_milliseconds: u32,
    /// A port on which connections outlast a request, so that a Hold would cut them off.
    pub long_lived_port: Option<u16>,
    /// Another pod takes the traffic meanwhile.
    pub another_serves: bool,
    /// No other pod does, because this Service sends what comes to a node to pods of that node only, and the others are on other nodes.
    pub node_local_service: Option<String>,
    /// A Service sends connections to the pod whether it is Ready or not, by its owner's wish.
    pub always_published: bool,
    /// Connections of a pod of its workload were lost when it became not Ready, in words: a drain does not spare them.
    pub connections_lost: Option<String>,
    /// A load balancer outside of the cluster sends connections to the pod's own address whether it is Ready or not; what shows that.
    pub load_balancer_keeps_it: Option<String>,
    /// The containers that are replaced serve nobody as far as their spec tells, another one stays, and the agent can look and has
    /// not seen otherwise.
    pub serves_nobody: bool,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// What is done.
    pub mode: GrantMode,
    /// Why, CamelCase first, then words.
    pub reason: String,
    /// Nothing is held, because the containers serve nobody; the agent refuses if it sees otherwise.
    pub unless_serving: bool,
}

impl Mode {
    /// First word of the reason of a pod that leaves only because the gap is not known: once it is, the next pod may be held.
    pub const UNKNOWN_GAP: &str = "UnknownGap";

    /// First word of the reason of a pod that is held because no other one serves, although it may be away for longer than clients
    /// can be held.
    pub const ONLY_POD: &str = "OnlyPod";

    /// First words of the reasons for which a pod leaves because another one serves.
    pub const REST_ON_OTHERS: [&str; 3] = [Self::UNKNOWN_GAP, "LongGap", "LongConnections"];

    /// The first word of the reason.
    #[must_use]
    pub fn word(reason: &str) -> &str {
        reason.split_once(':').map_or(reason, |(word, _)| word)
    }
}

/// Half of the time that connections may be parked is for a machine that is busier than it was when the gap was measured.
const SHARE_OF_CAP: u32 = 2;

/// Decides (docs/contract.md 28).
///
/// # Errors
/// If the pod can neither leave nor be held.
pub fn choose(inputs: &ModeInputs) -> Result<Mode, NotOperable> {
    let no_hold = if inputs.post_check {
        Some((
            "PostCheck: a rule of that stage keeps the pod out of service until it passes",
            "and a rule of stage PostCheck wants it out of service",
        ))
    } else if inputs.hook_after_drain {
        Some((
            "HookAfterDrain: it has a hook that is called when its connections are gone",
            "and one of its hooks is called when its connections are gone (AfterDrain)",
        ))
    } else if inputs.is_delayed {
        Some((
            "OperationDelay: its workload wants a time between leaving service and the operation",
            "and its workload wants a time between leaving service and the operation",
        ))
    } else if inputs.agent_can_hold == Some(false) {
        Some(("AgentCannotHold: the agent on its node can't hold it", "and the agent on its node can't hold it"))
    } else {
        None
    };
    match (inputs.wish, no_hold) {
        (ModeWish::Leave, _) => {
            let lost = inputs.connections_lost.as_ref().map(|words| format!("; {words}")).unwrap_or_default();
            leave(inputs, format!("Wished: by {}{lost}", inputs.origin), "and Leave is wished")
        }
        (ModeWish::Hold | ModeWish::Auto, Some((reason, because))) => leave(inputs, reason.to_owned(), because),
        // Nobody is connected to it, and a pod that has left tells by its times which container is the new one.
        (ModeWish::Hold, None) if inputs.gated && !inputs.serving && !inputs.always_published => Ok(not_serving()),
        (ModeWish::Hold, None) => Ok(hold(format!("Wished: by {}", inputs.origin))),
        (ModeWish::Auto, None) => Ok(auto(inputs)),
    }
}

impl ModeInputs {
    fn nobody_else(&self) -> String {
        let here = |service| {
            format!(
                "no other pod on its node serves, and Service {service} sends what comes to a node to pods of that node only"
            )
        };
        self.node_local_service.as_ref().map_or_else(|| "no other pod serves".to_owned(), here)
    }
}

fn auto(inputs: &ModeInputs) -> Mode {
    let ModeInputs { gap_milliseconds: gap, cap_milliseconds: cap, .. } = *inputs;
    if inputs.gated && !inputs.serving {
        return not_serving();
    }
    if inputs.serves_nobody && inputs.serving {
        let reason =
            "ServesNobody: what is replaced has no port and no probe, and the pod's other containers stay".to_owned();
        return Mode { unless_serving: true, ..hold(reason) };
    }
    if !inputs.gated {
        return hold("NoReadinessGate: the pod can't leave service".to_owned());
    }
    if inputs.always_published {
        return hold("AlwaysPublished: a Service sends it connections whether it is Ready or not".to_owned());
    }
    // Before the next one: a drain that lets connections end by themselves is of no use where they are cut off at its beginning.
    if let (Some(words), true) = (&inputs.connections_lost, gap.is_none_or(|gap| gap <= cap)) {
        return hold(format!("ConnectionsLost: {words}"));
    }
    if let (Some(port), true) = (inputs.long_lived_port, inputs.another_serves) {
        let reason = format!("LongConnections: those to port {port} outlast a request, and another pod serves");
        return leaves(reason);
    }
    if let (Some(shown_by), true) = (&inputs.load_balancer_keeps_it, gap.is_none_or(|gap| gap <= cap)) {
        return hold(format!(
            "LoadBalancerKeepsIt: {shown_by} shows a load balancer that sends it connections whether it is Ready or not"
        ));
    }
    match gap {
        Some(gap) if gap <= cap / SHARE_OF_CAP => {
            hold(format!("ShortGap: its workload was away for at most {gap} ms of late"))
        }
        Some(gap) if inputs.another_serves => {
            leaves(format!("LongGap: its workload was away for {gap} ms, and another pod serves"))
        }
        None if inputs.another_serves => leaves(format!(
            "{}: how long its workload is away is not known yet, and another pod serves",
            Mode::UNKNOWN_GAP
        )),
        Some(gap) if gap > cap => hold(format!(
            "{}: {}; its workload was away for {gap} ms, clients are parked for {cap} ms and refused then",
            Mode::ONLY_POD,
            inputs.nobody_else()
        )),
        Some(_) | None => hold(format!("{}: {}", Mode::ONLY_POD, inputs.nobody_else())),
    }
}

fn leave(inputs: &ModeInputs, reason: String, because: &'static str) -> Result<Mode, NotOperable> {
    if inputs.gated { Ok(leaves(reason)) } else { Err(NotOperable::NoReadinessGate(because)) }
}

fn not_serving() -> Mode {
    leaves("NotServing: the pod is not Ready".to_owned())
}

fn leaves(reason: String) -> Mode {
    Mode { mode: GrantMode::Leave, reason, unless_serving: false }
}

fn hold(reason: String) -> Mode {
    Mode { mode: GrantMode::Hold, reason, unless_serving: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> ModeInputs {
        ModeInputs {
            wish: ModeWish::Auto,
            origin: "DrainPolicy shop/a".to_owned(),
            gated: true,
            serving: true,
            post_check: false,
            hook_after_drain: false,
            is_delayed: false,
            agent_can_hold: Some(true),
            gap_milliseconds: None,
            cap_milliseconds: 2500,
            long_lived_port: None,
            another_serves: true,
            node_local_service: None,
            always_published: false,
            connections_lost: None,
            load_balancer_keeps_it: None,
            serves_nobody: false,
        }
    }

    fn check(change: impl FnOnce(&mut ModeInputs), mode: GrantMode, reason: &str) {
        let mut inputs = usual();
        change(&mut inputs);
        let chosen = choose(&inputs).unwrap();
        assert_eq!((chosen.mode, Mode::word(&chosen.reason)), (mode, reason), "{inputs:?}");
    }

    #[test]
    fn auto_weighs_gap_and_company() {
        let (leave, hold) = (|| GrantMode::Leave, || GrantMode::Hold);
        check(|_| {}, leave(), "UnknownGap");
        check(|s| s.gap_milliseconds = Some(1250), hold(), "ShortGap");
        check(|s| s.gap_milliseconds = Some(1251), leave(), "LongGap");
        check(|s| (s.long_lived_port, s.gap_milliseconds) = (Some(5432), Some(1)), leave(), "LongConnections");
        check(|s| (s.long_lived_port, s.another_serves) = (Some(5432), false), hold(), "OnlyPod");
        check(|s| s.another_serves = false, hold(), "OnlyPod");
        check(|s| (s.another_serves, s.gap_milliseconds) = (false, Some(9000)), hold(), "OnlyPod");
        check(|s| s.gated = false, hold(), "NoReadinessGate");
        check(|s| (s.serving, s.gap_milliseconds) = (false, Some(1)), leave(), "NotServing");
        check(|s| s.always_published = true, hold(), "AlwaysPublished");
        check(|s| (s.agent_can_hold, s.another_serves) = (None, false), hold(), "OnlyPod");
    }

    #[test]
    fn a_pod_that_its_load_balancer_keeps_is_held_unless_it_is_away_for_too_long() {
        let check = |change: &dyn Fn(&mut ModeInputs), mode: GrantMode, reason: &str| {
            check(|s| (s.load_balancer_keeps_it, ()) = (Some("its condition a".to_owned()), change(s)), mode, reason);
        };
        check(&|_| {}, GrantMode::Hold, "LoadBalancerKeepsIt");
        check(&|s| s.gap_milliseconds = Some(2500), GrantMode::Hold, "LoadBalancerKeepsIt");
        check(&|s| s.gap_milliseconds = Some(2501), GrantMode::Leave, "LongGap");
        check(&|s| s.long_lived_port = Some(5432), GrantMode::Leave, "LongConnections");
        check(&|s| s.wish = ModeWish::Leave, GrantMode::Leave, "Wished");
    }

    #[test]
    fn where_connections_are_lost_at_readys_fall_a_pod_is_held_unless_it_is_away_for_too_long() {
        let words = "3 of 4 connections of pod a were cut off";
        let check = |change: &dyn Fn(&mut ModeInputs), mode: GrantMode, reason: &str| {
            check(|s| (s.connections_lost, ()) = (Some(words.to_owned()), change(s)), mode, reason);
        };
        check(&|_| {}, GrantMode::Hold, "ConnectionsLost");
        check(&|s| s.gap_milliseconds = Some(2500), GrantMode::Hold, "ConnectionsLost");
        check(&|s| s.long_lived_port = Some(5432), GrantMode::Hold, "ConnectionsLost");
        check(&|s| s.gap_milliseconds = Some(2501), GrantMode::Leave, "LongGap");
        check(
            &|s| (s.long_lived_port, s.gap_milliseconds) = (Some(5432), Some(2501)),
            GrantMode::Leave,
            "LongConnections",
        );
        check(&|s| s.agent_can_hold = Some(false), GrantMode::Leave, "AgentCannotHold");
        check(&|s| s.serving = false, GrantMode::Leave, "NotServing");
        check(&|s| s.wish = ModeWish::Leave, GrantMode::Leave, "Wished");
        let wished = ModeInputs { wish: ModeWish::Leave, connections_lost: Some(words.to_owned()), ..usual() };
        let reason = choose(&wished).unwrap().reason;
        assert_eq!(reason, format!("Wished: by DrainPolicy shop/a; {words}"), "its owner is told");
    }

    #[test]
    fn what_serves_nobody_is_replaced_without_a_drain_unless_something_is_wished_or_in_doubt() {
        let check = |change: &dyn Fn(&mut ModeInputs), reason: &str| {
            let mut inputs = ModeInputs { serves_nobody: true, ..usual() };
            change(&mut inputs);
            let chosen = choose(&inputs).unwrap();
            let is_without = chosen.unless_serving && chosen.mode == GrantMode::Hold;
            assert_eq!((Mode::word(&chosen.reason), is_without), (reason, reason == "ServesNobody"), "{inputs:?}");
        };
        check(&|_| {}, "ServesNobody");
        check(&|s| s.another_serves = false, "ServesNobody");
        check(&|s| s.gated = false, "ServesNobody");
        check(&|s| s.long_lived_port = Some(5432), "ServesNobody");
        check(&|s| s.serving = false, "NotServing");
        check(&|s| s.wish = ModeWish::Leave, "Wished");
        check(&|s| s.wish = ModeWish::Hold, "Wished");
        check(&|s| s.post_check = true, "PostCheck");
        check(&|s| s.agent_can_hold = Some(false), "AgentCannotHold");
    }

    #[test]
    fn who_cannot_be_held_leaves_whatever_is_wished() {
        for wish in [ModeWish::Auto, ModeWish::Hold] {
            check(|s| (s.wish, s.agent_can_hold) = (wish, Some(false)), GrantMode::Leave, "AgentCannotHold");
            check(|s| (s.wish, s.post_check) = (wish, true), GrantMode::Leave, "PostCheck");
            check(|s| (s.wish, s.hook_after_drain) = (wish, true), GrantMode::Leave, "HookAfterDrain");
            check(|s| (s.wish, s.is_delayed) = (wish, true), GrantMode::Leave, "OperationDelay");
        }
    }

    #[test]
    fn what_is_wished_is_done_where_it_can_be() {
        check(|s| (s.wish, s.another_serves) = (ModeWish::Leave, false), GrantMode::Leave, "Wished");
        check(|s| s.wish = ModeWish::Hold, GrantMode::Hold, "Wished");
        check(|s| (s.wish, s.gated) = (ModeWish::Hold, false), GrantMode::Hold, "Wished");
        check(|s| (s.wish, s.serving) = (ModeWish::Hold, false), GrantMode::Leave, "NotServing");
        check(|s| (s.wish, s.serving, s.gated) = (ModeWish::Hold, false, false), GrantMode::Hold, "Wished");
        check(|s| (s.wish, s.serving, s.always_published) = (ModeWish::Hold, false, true), GrantMode::Hold, "Wished");
    }

    #[test]
    fn without_the_gate_a_pod_that_has_to_leave_is_not_operated() {
        let refused: [fn(&mut ModeInputs); 4] = [
            |s| s.wish = ModeWish::Leave,
            |s| s.post_check = true,
            |s| s.hook_after_drain = true,
            |s| s.agent_can_hold = Some(false),
        ];
        for change in refused {
            let mut inputs = ModeInputs { gated: false, ..usual() };
            change(&mut inputs);
            assert!(matches!(choose(&inputs), Err(NotOperable::NoReadinessGate(_))), "{inputs:?}");
        }
    }
}
