//! When, and after what: windows, blackouts, waves that soak, failures, pauses. The calendar itself is tested in `policy/window`.

use hitless_gate::Denies;
use serde_json::json;

use crate::scene::{Namespace, at};

#[test]
fn operations_begin_within_a_window_only() {
    let night = json!({"windows": [{"start": "22:00", "end": "04:00", "timeZone": "Europe/Berlin"}]});
    let asked = |now: &str| Namespace::of(1).budget(night.clone()).at(now.parse().unwrap()).one("p0");
    assert!(asked("2026-11-20T21:30:00Z").allowed);
    let closed = asked("2026-11-20T12:00:00Z");
    let opens = "2026-11-20T21:00:00Z".parse().unwrap();
    assert_eq!(closed.rules[0].because, Denies::OutsideWindow { opens: Some(opens) });
    assert_eq!(closed.rules[0].changes_at(), Some(opens));
    assert!(closed.rules[0].unblock().unwrap().starts_with("wait until 2026-11-20T21:00:00Z"));
    assert!(
        !Namespace::of(1).budget(night).at(at(12 * 3_600)).down(&["p0"]).one("p0").allowed,
        "nor does one that is down"
    );
}

#[test]
fn nothing_begins_in_a_blackout() {
    let frozen = json!({"blackouts": [
        {"start": "2026-12-24T00:00:00.000000Z", "end": "2026-12-27T00:00:00.000000Z", "reason": "holidays"}]});
    let asked = |now: &str| Namespace::of(1).budget(frozen.clone()).at(now.parse().unwrap()).one("p0");
    assert!(asked("2026-12-23T00:00:00Z").allowed);
    let verdict = asked("2026-12-25T00:00:00Z");
    let until = "2026-12-27T00:00:00Z".parse().unwrap();
    assert_eq!(verdict.rules[0].because, Denies::Blackout { until, reason: "holidays".into() });
    assert_eq!(verdict.rules[0].changes_at(), Some(until));
}

#[test]
fn a_wave_goes_together_then_comes_back_and_soaks() {
    let namespace = Namespace::of(4).budget(json!({"maxUnavailable": 2, "soakSeconds": 60})).at(at(1_000));
    assert_eq!(namespace.allowed(), ["p0", "p1"]);
    let running = namespace.reserved(&["p0"]);
    let verdict = running.one("p2");
    let soak = verdict.denied().next().unwrap();
    assert_eq!(soak.because, Denies::WaveRunning { running: 1 });
    assert_eq!(soak.holders[0].pod, "p0");
    let mut back = running.each(&["p0"], |pod| pod.returned_at = Some(at(990)));
    back.reserved.clear();
    assert_eq!(back.one("p2").denied().next().unwrap().because, Denies::Soaking { until: at(1_050) });
    assert!(back.at(at(1_050)).one("p2").allowed);
}

#[test]
fn a_pod_that_came_back_and_is_gone_since_is_not_waited_for() {
    let namespace = Namespace::of(2)
        .budget(json!({"soakSeconds": 60}))
        .each(&["p0"], |pod| pod.returned_at = Some(at(990)))
        .each(&["p1"], |pod| pod.returned_at = Some(at(950)));
    let mut gate = namespace.gate();
    let because = |gate: &hitless_gate::Gate| {
        gate.decide(&[Namespace::candidate("p1")], &namespace.approvals, at(1_000))[0].rules[0].because.clone()
    };
    assert_eq!(because(&gate), Denies::Soaking { until: at(1_050) });
    gate.remove_pod("uid-p0");
    assert_eq!(because(&gate), Denies::Soaking { until: at(1_010) }, "as a gate that was told all at once");
}

#[test]
fn a_soak_that_is_added_later_counts_what_came_back_before() {
    let namespace =
        Namespace::of(2).budget(json!({"maxConcurrent": 9})).each(&["p0"], |pod| pod.returned_at = Some(at(990)));
    let mut gate = namespace.gate();
    gate.set_budget(&Namespace::of(0).budget(json!({"maxConcurrent": 9, "soakSeconds": 60})).budgets[0]);
    let verdict = &gate.decide(&[Namespace::candidate("p1")], &namespace.approvals, at(1_000))[0];
    assert_eq!(verdict.rules[0].because, Denies::Soaking { until: at(1_050) });
}

#[test]
fn nobody_goes_after_too_many_failures_and_that_is_how_many_a_rollout_bears() {
    let namespace = Namespace::of(4).budget(json!({"maxFailures": 2})).failed(&["p0"]);
    assert_eq!(namespace.allowed().len(), 4);
    let gate = namespace.gate();
    assert_eq!((gate.tolerated_failures("uid-p1"), gate.tolerated_failures("uid-unknown")), (2, 1));
    let two = namespace.failed(&["p1"]);
    assert!(two.allowed().is_empty());
    assert_eq!(two.one("p2").rules[0].because, Denies::TooManyFailures { most: 2, failed: 2 });
    // The strictest of several budgets counts; one that says nothing does not.
    let strict = two.budget_in("default", "strict", json!({"selector": {}, "maxFailures": 1}));
    let strict = strict.budget_in("default", "silent", json!({"selector": {}}));
    assert_eq!(strict.gate().tolerated_failures("uid-p1"), 1);
    assert_eq!(Namespace::of(1).gate().tolerated_failures("uid-p0"), 1);
}

#[test]
fn a_paused_budget_lets_nobody_go() {
    let namespace = Namespace::of(2).budget(json!({"paused": true})).down(&["p0"]);
    assert!(namespace.allowed().is_empty());
    assert_eq!(namespace.one("p0").rules[0].because, Denies::Paused);
    assert_eq!(namespace.one("p0").rules[0].unblock().unwrap(), "set spec.paused to false");
}
