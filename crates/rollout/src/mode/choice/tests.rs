use super::*;

fn usual() -> ModeInputs {
    ModeInputs {
        wanted: DesiredMode::Auto,
        origin: "DrainPolicy shop/a".to_owned(),
        gated: true,
        serving: true,
        post_check: false,
        hook_after_drain: false,
        is_delayed: false,
        agent_can_hold: Some(true),
        gap_milliseconds: None,
        ready_milliseconds: Some(400),
        unready_milliseconds: None,
        cap_milliseconds: 2500,
        long_lived_port: None,
        unheld_port: None,
        another_serves: true,
        lone_service: None,
        companion_serves: false,
        node_local_service: None,
        always_published: false,
        host_port: None,
        behind_service: false,
        connections_lost: None,
        load_balancer_keeps_it: None,
        serves_nobody: false,
        still_in_flight: false,
        is_unfetched: false,
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
    check(|inputs| inputs.is_unfetched = true, leave(), "ImageNotFetched");
    check(|inputs| (inputs.is_unfetched, inputs.another_serves) = (true, false), hold(), "OnlyPod");
    check(|s| s.gap_milliseconds = Some(1250), hold(), "ShortGap");
    check(|s| s.gap_milliseconds = Some(1251), leave(), "LongGap");
    check(|s| (s.long_lived_port, s.gap_milliseconds) = (Some(5432), Some(1)), leave(), "LongConnections");
    check(|s| (s.long_lived_port, s.another_serves) = (Some(5432), false), hold(), "OnlyPod");
    check(|s| (s.unheld_port, s.gap_milliseconds) = (Some((53, "UDP")), Some(1)), leave(), "UnheldPort");
    check(|s| (s.unheld_port, s.another_serves) = (Some((53, "UDP")), false), hold(), "OnlyPod");
    check(|s| (s.ready_milliseconds, s.gap_milliseconds) = (None, Some(1)), leave(), "UnknownGap");
    check(
        |s| (s.ready_milliseconds, s.another_serves, s.gap_milliseconds) = (None, false, Some(1)),
        hold(),
        "ShortGap",
    );
    check(|s| (s.companion_serves, s.gap_milliseconds) = (true, Some(1)), leave(), "Companion");
    check(|s| (s.companion_serves, s.wanted) = (true, DesiredMode::Hold), hold(), "Wished");
    check(|s| s.another_serves = false, hold(), "OnlyPod");
    check(|s| (s.another_serves, s.gap_milliseconds) = (false, Some(9000)), hold(), "OnlyPod");
    check(|s| s.gated = false, hold(), "NoReadinessGate");
    check(|s| (s.serving, s.gap_milliseconds) = (false, Some(1)), leave(), "NotServing");
    check(|s| s.always_published = true, hold(), "AlwaysPublished");
    check(|s| (s.host_port, s.gap_milliseconds) = (Some(80), Some(9000)), hold(), "HostPort");
    check(|s| (s.host_port, s.wanted) = (Some(80), DesiredMode::Leave), leave(), "Wished");
    let ported = |gap: Option<u32>, another_serves| {
        move |s: &mut ModeInputs| {
            (s.host_port, s.behind_service) = (Some(80), true);
            (s.gap_milliseconds, s.another_serves) = (gap, another_serves);
        }
    };
    check(ported(None, true), leave(), "UnknownGap");
    check(ported(None, false), hold(), "HostPort");
    check(ported(Some(2500), true), hold(), "HostPort");
    check(ported(Some(2501), true), leave(), "LongGap");
    check(ported(Some(2501), false), hold(), "HostPort");
    check(|s| (s.agent_can_hold, s.another_serves) = (None, false), hold(), "OnlyPod");
}

#[test]
fn requests_that_outlast_a_hold_let_a_pod_leave_where_another_one_serves() {
    let check = |change: &dyn Fn(&mut ModeInputs), expected: (GrantMode, &str, bool)| {
        let mut inputs = ModeInputs { gap_milliseconds: Some(300), ..usual() };
        change(&mut inputs);
        let Mode { mode, reason, unless_in_flight, .. } = choose(&inputs).unwrap();
        assert_eq!((mode, Mode::word(&reason), unless_in_flight), expected, "{inputs:?}");
    };
    check(&|_| {}, (GrantMode::Hold, "ShortGap", true));
    check(&|s| s.another_serves = false, (GrantMode::Hold, "ShortGap", true));
    check(&|s| s.still_in_flight = true, (GrantMode::Leave, "StillInFlight", false));
    // A companion may serve then, and else they are waited for.
    check(&|s| (s.still_in_flight, s.another_serves) = (true, false), (GrantMode::Hold, "OnlyPod", false));
    let lone = |s: &mut ModeInputs| s.lone_service = Some("web-0".to_owned());
    check(&lone, (GrantMode::Hold, "ShortGap", false));
    check(&|s| (s.wanted, ()) = (DesiredMode::Hold, ()), (GrantMode::Hold, "Wished", false));
}

#[test]
fn a_process_that_listens_early_and_is_ready_late_is_not_held_where_another_pod_serves() {
    let check = |ready: u32, change: &dyn Fn(&mut ModeInputs), mode: GrantMode, reason: &str| {
        check(
            |s| ((s.gap_milliseconds, s.ready_milliseconds), ()) = ((Some(300), Some(ready)), change(s)),
            mode,
            reason,
        );
    };
    check(1250, &|_| {}, GrantMode::Hold, "ShortGap");
    check(1251, &|_| {}, GrantMode::Leave, "LongGap");
    // A busy machine: it listens late, and is ready then.
    let unready = |unready: u32| {
        move |s: &mut ModeInputs| (s.gap_milliseconds, s.unready_milliseconds) = (Some(1200), Some(unready))
    };
    check(2033, &unready(833), GrantMode::Hold, "ShortGap");
    check(2034, &unready(834), GrantMode::Leave, "LongGap");
    check(2501, &unready(600), GrantMode::Leave, "LongGap");
    check(8000, &|s| s.another_serves = false, GrantMode::Hold, "ShortGap");
    let lone = |s: &mut ModeInputs| s.lone_service = Some("web-0".to_owned());
    check(2500, &lone, GrantMode::Hold, "OnlyPod");
    check(2501, &lone, GrantMode::Leave, "LongGap");
    let late = ModeInputs { gap_milliseconds: Some(300), ready_milliseconds: Some(8000), ..usual() };
    let reason = choose(&late).unwrap().reason;
    assert_eq!(reason, "LongGap: its workload was away for 300 ms, ready after 8000 ms, and another pod serves");
}

#[test]
fn clients_of_a_service_without_another_pod_count_only_where_a_hold_helps_them() {
    let check = |gap: Option<u32>, mode: GrantMode, reason: &str| {
        let of_each = |s: &mut ModeInputs| {
            (s.lone_service, s.gap_milliseconds) = (Some("web-0".to_owned()), gap);
        };
        self::check(of_each, mode.clone(), reason);
        // A Service that sends connections whether a pod is Ready or not is one of them.
        let published = |s: &mut ModeInputs| {
            (s.lone_service, s.gap_milliseconds) = (Some("internal".to_owned()), gap);
            s.always_published = true;
        };
        self::check(published, mode, reason);
    };
    check(None, GrantMode::Leave, "UnknownGap");
    check(Some(2501), GrantMode::Leave, "LongGap");
    check(Some(2500), GrantMode::Hold, "OnlyPod");
    check(Some(1250), GrantMode::Hold, "ShortGap");
    // To leave would have them refused for all of the drain.
    let of_each = |s: &mut ModeInputs| s.lone_service = Some("web-0".to_owned());
    self::check(
        |s| (s.long_lived_port, s.gap_milliseconds, ()) = (Some(5432), Some(2500), of_each(s)),
        GrantMode::Hold,
        "OnlyPod",
    );
    self::check(
        |s| (s.long_lived_port, s.gap_milliseconds, ()) = (Some(5432), Some(2501), of_each(s)),
        GrantMode::Leave,
        "LongConnections",
    );
    let inputs = ModeInputs { lone_service: Some("web-0".to_owned()), gap_milliseconds: Some(6300), ..usual() };
    let reason = choose(&inputs).unwrap().reason;
    assert!(reason.contains("another pod serves, but not clients of Service web-0"), "{reason}");
}

/// What its node sends to it alone is one Service's; clients of the others have another pod.
#[test]
fn one_service_of_a_node_of_its_own_does_not_have_the_clients_of_all_others_wait() {
    let on_node = |gap: Option<u32>| {
        let service = || Some("web".to_owned());
        let (lone_service, node_local_service) = (service(), service());
        let inputs = ModeInputs { gap_milliseconds: gap, lone_service, node_local_service, ..usual() };
        let Mode { mode, reason, .. } = choose(&inputs).unwrap();
        (mode, Mode::word(&reason).to_owned(), reason.contains("Service web"))
    };
    assert_eq!(on_node(None), (GrantMode::Leave, "UnknownGap".to_owned(), true));
    assert_eq!(on_node(Some(9000)), (GrantMode::Leave, "LongGap".to_owned(), true));
    assert_eq!(on_node(Some(2500)), (GrantMode::Hold, "OnlyPod".to_owned(), true), "nobody is refused");
    // All of them are such Services.
    let only = ModeInputs { another_serves: false, node_local_service: Some("web".to_owned()), ..usual() };
    assert_eq!(choose(&only).unwrap().mode, GrantMode::Hold);
}

#[test]
fn a_pod_that_its_load_balancer_keeps_is_held_unless_it_is_away_for_too_long() {
    let check = |change: &dyn Fn(&mut ModeInputs), mode: GrantMode, reason: &str| {
        check(|s| (s.load_balancer_keeps_it, ()) = (Some("its condition a".to_owned()), change(s)), mode, reason);
    };
    check(&|_| {}, GrantMode::Leave, "UnknownGap");
    check(&|s| s.another_serves = false, GrantMode::Hold, "OnlyPod");
    check(&|s| (s.another_serves, s.companion_serves) = (false, true), GrantMode::Leave, "Companion");
    check(&|s| s.gap_milliseconds = Some(2500), GrantMode::Hold, "LoadBalancerKeepsIt");
    let ready =
        |ready: Option<u32>| move |s: &mut ModeInputs| (s.gap_milliseconds, s.ready_milliseconds) = (Some(300), ready);
    check(&ready(Some(2500)), GrantMode::Hold, "LoadBalancerKeepsIt");
    check(&ready(Some(2501)), GrantMode::Leave, "LongGap");
    check(&ready(None), GrantMode::Leave, "UnknownGap");
    check(&|s| s.gap_milliseconds = Some(2501), GrantMode::Leave, "LongGap");
    check(&|s| s.long_lived_port = Some(5432), GrantMode::Leave, "LongConnections");
    check(&|s| s.wanted = DesiredMode::Leave, GrantMode::Leave, "Wished");
}

#[test]
fn where_connections_are_lost_at_readys_fall_a_pod_is_held_unless_it_is_away_for_too_long() {
    let words = "3 of 4 connections of pod a were cut off";
    let check = |change: &dyn Fn(&mut ModeInputs), mode: GrantMode, reason: &str| {
        check(|s| (s.connections_lost, ()) = (Some(words.to_owned()), change(s)), mode, reason);
    };
    check(&|_| {}, GrantMode::Leave, "UnknownGap");
    check(&|s| s.another_serves = false, GrantMode::Hold, "OnlyPod");
    check(&|s| s.gap_milliseconds = Some(2500), GrantMode::Hold, "ConnectionsLost");
    check(
        &|s| (s.another_serves, s.gap_milliseconds, s.ready_milliseconds) = (false, Some(2500), None),
        GrantMode::Hold,
        "ConnectionsLost",
    );
    check(&|s| (s.gap_milliseconds, s.ready_milliseconds) = (Some(300), Some(8000)), GrantMode::Leave, "LongGap");
    check(&|s| s.long_lived_port = Some(5432), GrantMode::Leave, "LongConnections");
    check(&|s| (s.long_lived_port, s.gap_milliseconds) = (Some(5432), Some(300)), GrantMode::Hold, "ConnectionsLost");
    check(&|s| s.gap_milliseconds = Some(2501), GrantMode::Leave, "LongGap");
    check(&|s| (s.long_lived_port, s.gap_milliseconds) = (Some(5432), Some(2501)), GrantMode::Leave, "LongConnections");
    check(&|s| s.agent_can_hold = Some(false), GrantMode::Leave, "AgentCannotHold");
    check(&|s| s.serving = false, GrantMode::Leave, "NotServing");
    check(&|s| s.wanted = DesiredMode::Leave, GrantMode::Leave, "Wished");
    let inputs = ModeInputs { wanted: DesiredMode::Leave, connections_lost: Some(words.to_owned()), ..usual() };
    let reason = choose(&inputs).unwrap().reason;
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
    check(&|s| s.wanted = DesiredMode::Leave, "Wished");
    check(&|s| s.wanted = DesiredMode::Hold, "Wished");
    check(&|s| s.post_check = true, "PostCheck");
    check(&|s| s.agent_can_hold = Some(false), "AgentCannotHold");
}

#[test]
fn who_cannot_be_held_leaves_whatever_is_wished() {
    for wanted in [DesiredMode::Auto, DesiredMode::Hold] {
        check(|s| (s.wanted, s.agent_can_hold) = (wanted, Some(false)), GrantMode::Leave, "AgentCannotHold");
        check(|s| (s.wanted, s.post_check) = (wanted, true), GrantMode::Leave, "PostCheck");
        check(|s| (s.wanted, s.hook_after_drain) = (wanted, true), GrantMode::Leave, "HookAfterDrain");
        check(|s| (s.wanted, s.is_delayed) = (wanted, true), GrantMode::Leave, "OperationDelay");
    }
}

#[test]
fn what_is_wished_is_done_where_it_can_be() {
    check(|s| (s.wanted, s.another_serves) = (DesiredMode::Leave, false), GrantMode::Leave, "Wished");
    check(|s| s.wanted = DesiredMode::Hold, GrantMode::Hold, "Wished");
    check(|s| (s.wanted, s.gated) = (DesiredMode::Hold, false), GrantMode::Hold, "Wished");
    check(|s| (s.wanted, s.serving) = (DesiredMode::Hold, false), GrantMode::Leave, "NotServing");
    check(|s| (s.wanted, s.serving, s.gated) = (DesiredMode::Hold, false, false), GrantMode::Hold, "Wished");
    check(|s| (s.wanted, s.serving, s.always_published) = (DesiredMode::Hold, false, true), GrantMode::Hold, "Wished");
    check(|s| (s.wanted, s.serving, s.host_port) = (DesiredMode::Hold, false, Some(80)), GrantMode::Hold, "Wished");
}

#[test]
fn without_the_gate_a_pod_that_has_to_leave_is_not_operated() {
    let refused: [fn(&mut ModeInputs); 4] = [
        |s| s.wanted = DesiredMode::Leave,
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
