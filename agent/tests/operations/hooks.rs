//! Operations of pods with hooks.

use hitless_agent::hooks::answer::Verdict;
use hitless_agent::hooks::task::{Saying, Word};
use hitless_api::{
    GrantMode, Hook, HookFailurePolicy, HookOutcome, HookTime, HttpHook, Outcome, Phase, StragglerPolicy, Transition,
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::world::kubelet::Image;
use crate::world::pod::{FROM, TO};
use crate::world::{Clients, Fault, World, grant, start};

const LIMIT: SignedDuration = SignedDuration::from_hours(2);
const GO: Option<Verdict> = Some(Verdict::Go);
const NEVER: Option<Verdict> = Some(Verdict::Never);
const FAILED: Option<Verdict> = Some(Verdict::Failed);
const NOT_YET: Option<Verdict> = Some(Verdict::NotYet { retry_after_seconds: 30 });

fn hook(name: &str, when: HookTime) -> Hook {
    let http = serde_json::json!({"port": 80, "path": "/"});
    let http: HttpHook = serde_json::from_value(http).unwrap();
    Hook {
        name: name.into(),
        when,
        http: Some(http),
        exec: None,
        timeout_seconds: 5,
        retries: 2,
        failure_policy: HookFailurePolicy::Fail,
        deadline_seconds: 600,
    }
}

/// One hook for each moment, that says go.
fn world(mode: GrantMode) -> World {
    let mut world = World::new(grant(start()), Image::Good(200));
    let grant = &mut world.transition.spec.grants[0];
    grant.mode = mode;
    let is_hold = grant.mode == GrantMode::Hold;
    for (name, when) in
        [("ask", HookTime::BeforeDrain), ("flush", HookTime::AfterDrain), ("warm", HookTime::AfterStart)]
    {
        if !is_hold || when != HookTime::AfterDrain {
            grant.hooks.push(hook(name, when));
        }
        world.app.answers.insert(name, vec![GO]);
    }
    world.app.takes = 20;
    world
}

fn leave() -> World {
    world(GrantMode::Leave)
}

fn ended(world: &mut World) -> (Outcome, String) {
    world.run(LIMIT, |_| ());
    world.result().expect("every grant ends")
}

fn end(outcome: Outcome, reason: &str) -> (Outcome, String) {
    (outcome, reason.to_owned())
}

fn seconds(world: &World) -> i64 {
    world.now.duration_since(start()).as_secs()
}

fn reported(world: &World) -> &Transition {
    world.transition.transition(world.grant()).unwrap()
}

fn set(world: &mut World, name: &str, change: impl Fn(&mut Hook)) {
    world.transition.spec.grants[0].hooks.iter_mut().filter(|hook| hook.name == name).for_each(change);
}

#[test]
fn each_hook_is_called_at_its_moment_and_the_report_tells_of_all() {
    let mut world = leave();
    assert_eq!(ended(&mut world), end(Outcome::Done, "Done"));
    let calls: Vec<_> =
        world.app.received.iter().map(|call| (call.hook.as_str(), call.in_service, call.image.as_str())).collect();
    assert_eq!(calls, [("ask", true, FROM), ("flush", false, FROM), ("warm", false, TO)]);
    let report = reported(&world);
    assert_eq!(report.hooks_done, ["ask", "flush", "warm"]);
    let outcomes: Vec<_> = report.hooks.iter().map(|hook| (hook.outcome, hook.attempts, hook.milliseconds)).collect();
    assert_eq!(outcomes, [(HookOutcome::Done, 1, 20); 3]);
    assert_eq!(world.writes, ["pods/status", "pods", "pods/status", "nodetransitions/status"], "no write more");
}

#[test]
fn a_held_pod_is_asked_before_anybody_is_held_and_told_when_it_is_back() {
    let mut world = world(GrantMode::Hold);
    assert_eq!(ended(&mut world), end(Outcome::Done, "Done"));
    let calls: Vec<_> = world.app.received.iter().map(|call| (call.hook.as_str(), call.in_service)).collect();
    assert_eq!(calls, [("ask", true), ("warm", true)]);
    assert!(world.patches[0].held && world.patches[0].at > world.app.received[0].at);
}

#[test]
fn a_pod_that_says_not_yet_stays_in_service_and_is_asked_again_when_it_says() {
    for mode in [GrantMode::Leave, GrantMode::Hold] {
        let mut world = world(mode);
        world.app.answers.insert("ask", vec![NOT_YET, NOT_YET, GO]);
        let mut waited = false;
        world.run(SignedDuration::from_secs(58), |world| {
            assert!(world.in_service() && world.patches.is_empty());
            if let Some(report) = world.transition.transition(world.grant()) {
                waited |= report.message.contains("hook ask that says not yet") && report.result.is_none();
            }
        });
        assert!(waited, "the report says so");
        world.run(LIMIT, |_| ());
        assert_eq!(world.result(), Some(end(Outcome::Done, "Done")));
        let times: Vec<i64> =
            world.app.received.iter().take(3).map(|call| call.at.duration_since(start()).as_secs()).collect();
        assert_eq!(times, [0, 30, 60]);
        assert_eq!(reported(&world).hooks[0].attempts, 3);
    }
}

#[test]
fn not_yet_ends_at_the_hooks_deadline_as_its_policy_says() {
    for (policy, expected) in [
        (HookFailurePolicy::Fail, end(Outcome::Failed, "HookFailed")),
        (HookFailurePolicy::Ignore, end(Outcome::Done, "Done")),
    ] {
        let mut world = leave();
        world.app.answers.insert("ask", vec![NOT_YET]);
        set(&mut world, "ask", |hook| (hook.failure_policy, hook.deadline_seconds) = (policy, 200));
        assert_eq!(ended(&mut world), expected);
        assert!((200..205).contains(&seconds(&world)), "{} s", seconds(&world));
        assert!(world.in_service());
        let told = &reported(&world).hooks[0];
        assert_eq!(told.attempts, 7, "{told:?}");
    }
}

#[test]
fn a_held_pod_that_says_go_after_its_grant_has_expired_is_granted_anew() {
    let mut world = world(GrantMode::Hold);
    world.app.answers.insert("ask", vec![NOT_YET, NOT_YET, NOT_YET, NOT_YET, GO]);
    assert_eq!(ended(&mut world), end(Outcome::Refused, "Expired"));
    assert!((120..125).contains(&seconds(&world)), "{} s", seconds(&world));
    assert!(world.patches.is_empty());
}

#[test]
fn a_pod_that_says_never_is_not_touched() {
    for mode in [GrantMode::Leave, GrantMode::Hold] {
        let mut world = world(mode);
        world.app.answers.insert("ask", vec![NEVER]);
        assert_eq!(ended(&mut world), end(Outcome::Refused, "TaskRefused"));
        assert!(world.patches.is_empty() && world.in_service() && world.pod.view.ready());
        assert_eq!(reported(&world).message, "hook ask says never: Never");
        assert!(reported(&world).result.as_ref().unwrap().is_lasting(), "nobody asks it again and again");
    }
}

#[test]
fn a_hook_that_fails_is_called_again_and_then_the_operation_is_given_up() {
    for (name, outcome, patches) in
        [("ask", Outcome::Failed, 0), ("flush", Outcome::Failed, 0), ("warm", Outcome::RolledBack, 2)]
    {
        let mut world = leave();
        world.app.answers.insert(name, vec![FAILED]);
        assert_eq!(ended(&mut world), end(outcome, "HookFailed"), "{name}");
        assert_eq!(world.app.calls().iter().filter(|call| **call == name).count(), 3, "{name}");
        assert_eq!((world.image(), world.in_service(), world.patches.len()), (FROM, true, patches), "{name}");
        assert!(seconds(&world) < 20, "{name}: {} s", seconds(&world));
        let told = reported(&world).hooks.iter().find(|hook| hook.name == name).unwrap();
        assert_eq!((told.outcome, told.attempts), (HookOutcome::Failed, 3));
    }
}

#[test]
fn a_hook_that_fails_once_or_may_fail_changes_nothing() {
    for name in ["ask", "flush", "warm"] {
        let mut world = leave();
        world.app.answers.insert(name, vec![FAILED, GO]);
        assert_eq!(ended(&mut world), end(Outcome::Done, "Done"), "{name}");
        let mut world = leave();
        world.app.answers.insert(name, vec![FAILED]);
        set(&mut world, name, |hook| hook.failure_policy = HookFailurePolicy::Ignore);
        assert_eq!(ended(&mut world), end(Outcome::Done, "Done"), "{name}");
        assert!(reported(&world).hooks.iter().any(|hook| hook.outcome == HookOutcome::Ignored));
    }
}

#[test]
fn no_hook_keeps_a_pod_out_of_service_for_longer_than_the_drain_may_take_and_one_call() {
    for answer in [NOT_YET, None] {
        let mut world = leave();
        world.app.answers.insert("flush", vec![answer]);
        assert_eq!(ended(&mut world), end(Outcome::Failed, "HookFailed"));
        assert!((59..63).contains(&seconds(&world)), "{} s", seconds(&world));
        // The drain has taken all of the time.
        let mut world = leave();
        world.clients = Clients::Stay;
        world.transition.spec.grants[0].drain.stragglers = StragglerPolicy::Wait;
        world.app.answers.insert("flush", vec![answer]);
        assert_eq!(ended(&mut world), end(Outcome::Failed, "HookFailed"));
        assert!((60..70).contains(&seconds(&world)), "{} s", seconds(&world));
        assert_eq!(world.app.calls(), ["ask", "flush"]);
    }
}

#[test]
fn a_hook_after_the_start_has_as_long_as_the_container_has_to_become_ready() {
    let mut world = leave();
    world.transition.spec.grants[0].verify.progress_seconds = 100;
    world.app.answers.insert("warm", vec![NOT_YET]);
    assert_eq!(ended(&mut world), end(Outcome::RolledBack, "HookFailed"));
    assert!((100..110).contains(&seconds(&world)), "{} s", seconds(&world));
}

#[test]
fn never_after_the_drain_gives_up_and_after_the_start_rolls_back() {
    for (name, outcome) in [("flush", Outcome::Failed), ("warm", Outcome::RolledBack)] {
        let mut world = leave();
        world.app.answers.insert(name, vec![NEVER]);
        assert_eq!(ended(&mut world), end(outcome, "HookRefused"), "{name}");
        assert_eq!((world.image(), world.in_service()), (FROM, true));
    }
}

#[test]
fn of_a_container_that_does_not_run_nobody_is_asked() {
    let mut world = leave();
    world.app.answers.insert("ask", vec![NEVER]);
    let status = world.pod.view.containers[0].status.as_mut().unwrap();
    (status.running_since, status.ready) = (None, false);
    assert_eq!(ended(&mut world), end(Outcome::Done, "Done"));
    assert_eq!(world.app.calls(), ["warm"]);
}

/// What a pod without hooks says by itself, and until which second. Its owner allows it.
fn saying(world: &mut World, task: Word, seconds: i64) {
    world.pod.view.annotations.insert("hitless.dev/task".into(), "allowed".into());
    let until = start().checked_add(SignedDuration::from_secs(seconds)).unwrap();
    world.app.saying = Some(Saying { task, until, message: "exporting".into() });
}

#[test]
fn a_pod_that_says_not_yet_by_itself_stays_in_service_until_that_has_passed() {
    for mode in [GrantMode::Leave, GrantMode::Hold] {
        let mut world = World::new(grant(start()), Image::Good(200));
        world.transition.spec.grants[0].mode = mode;
        saying(&mut world, Word::NotYet, 40);
        let mut waited = false;
        world.run(SignedDuration::from_secs(39), |world| {
            assert!(world.in_service() && world.patches.is_empty());
            let report = world.transition.transition(world.grant());
            waited |= report.is_some_and(|report| report.message.ends_with(": exporting"));
        });
        assert!(waited, "the report says so");
        world.run(LIMIT, |_| ());
        assert_eq!(world.result(), Some(end(Outcome::Done, "Done")));
        assert!((40..45).contains(&seconds(&world)), "{} s", seconds(&world));
    }
}

#[test]
fn a_pod_that_says_not_yet_for_ever_is_given_up_and_one_that_says_never_at_once() {
    let mut world = World::new(grant(start()), Image::Good(200));
    saying(&mut world, Word::NotYet, 9999);
    assert_eq!(ended(&mut world), end(Outcome::Failed, "HookFailed"));
    assert!((600..605).contains(&seconds(&world)), "{} s", seconds(&world));
    assert_eq!(reported(&world).message, "the application has said not yet for 600 s: exporting");
    let mut world = World::new(grant(start()), Image::Good(200));
    saying(&mut world, Word::Never, 9999);
    assert_eq!(ended(&mut world), end(Outcome::Refused, "TaskRefused"));
    assert_eq!(reported(&world).message, "the application says never: exporting");
    assert!(world.patches.is_empty() && world.in_service());
}

#[test]
fn what_a_pod_says_counts_only_as_long_as_its_owner_allows_it() {
    let mut world = World::new(grant(start()), Image::Good(200));
    saying(&mut world, Word::Never, 9999);
    world.pod.view.annotations.clear();
    assert_eq!(ended(&mut world), end(Outcome::Done, "Done"), "it was not allowed");
    assert!(seconds(&world) < 20, "{} s", seconds(&world));
    let mut world = World::new(grant(start()), Image::Good(200));
    saying(&mut world, Word::NotYet, 9999);
    let at: Timestamp = start().checked_add(SignedDuration::from_secs(40)).unwrap();
    world.alarms = vec![at];
    world.run(LIMIT, |world| {
        assert!(world.now > at || world.patches.is_empty());
        if world.now == at {
            world.pod.view.annotations.clear();
        }
    });
    assert_eq!(world.result(), Some(end(Outcome::Done, "Done")), "the owner has overruled it");
    assert!((40..60).contains(&seconds(&world)), "{} s", seconds(&world));
}

#[test]
fn a_pod_that_has_left_may_say_what_it_likes() {
    let mut world = World::new(grant(start()), Image::Good(200));
    world.run(LIMIT, |world| {
        if !world.in_service() {
            saying(world, Word::Never, 9999);
        }
    });
    assert_eq!(world.result(), Some(end(Outcome::Done, "Done")));
}

#[test]
fn a_cancel_ends_the_waiting() {
    let mut world = leave();
    world.app.answers.insert("ask", vec![NOT_YET]);
    let at: Timestamp = start().checked_add(SignedDuration::from_secs(40)).unwrap();
    world.alarms = vec![at];
    world.run(LIMIT, |world| {
        if world.now == at {
            world.cancel();
        }
    });
    assert_eq!(world.result(), Some(end(Outcome::Cancelled, "ChangedBack")));
    assert!(seconds(&world) < 45, "{} s", seconds(&world));
    assert!(world.patches.is_empty());
}

#[test]
fn an_agent_that_is_killed_asks_again_but_not_those_that_it_has_reported() {
    let mut world = leave();
    let more = hook("more", HookTime::BeforeDrain);
    world.transition.spec.grants[0].hooks.insert(1, more);
    world.app.answers.insert("more", vec![NOT_YET, NOT_YET, NOT_YET, NOT_YET, GO]);
    // Long after the grant could be begun: what it has begun is known from the report.
    let alarms = [20, 45, 100].map(|at| start().checked_add(SignedDuration::from_secs(at)).unwrap());
    world.alarms = alarms.to_vec();
    world.run(LIMIT, |world| {
        if alarms.contains(&world.now) {
            world.kill();
        }
    });
    assert_eq!(world.result(), Some(end(Outcome::Done, "Done")));
    assert_eq!(world.app.calls(), ["ask", "more", "more", "more", "more", "more", "flush", "warm"]);
}

#[test]
fn a_hold_with_a_hook_after_the_drain_is_refused() {
    let mut world = world(GrantMode::Hold);
    world.transition.spec.grants[0].hooks.push(hook("flush", HookTime::AfterDrain));
    assert_eq!(ended(&mut world), end(Outcome::Refused, "UnsupportedMode"));
    assert!(world.app.calls().is_empty());
}

fn any_answers() -> impl Strategy<Value = Vec<Option<Verdict>>> {
    let answer = prop_oneof![6 => Just(GO), 1 => Just(NEVER), 2 => Just(FAILED), 2 => Just(NOT_YET), 1 => Just(None)];
    prop::collection::vec(answer, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_is_answered_and_whenever_the_agent_is_killed_it_ends_and_the_pod_is_in_service(
        answers in [any_answers(), any_answers(), any_answers()],
        policies in prop::array::uniform3(any::<bool>()),
        is_hold in any::<bool>(),
        faults in prop::collection::vec(prop_oneof![
            6 => Just(Fault::None), 1 => Just(Fault::KilledBefore), 1 => Just(Fault::KilledAfter),
            1 => Just(Fault::Lost), 1 => Just(Fault::Unanswered), 1 => Just(Fault::Conflict)], 0..8),
        kill_at in prop::option::of(0..200_i64),
    ) {
        let mut world = world(if is_hold { GrantMode::Hold } else { GrantMode::Leave });
        for ((name, answers), ignores) in ["ask", "flush", "warm"].into_iter().zip(answers).zip(policies) {
            world.app.answers.insert(name, answers);
            set(&mut world, name, |hook| {
                hook.failure_policy = if ignores { HookFailurePolicy::Ignore } else { HookFailurePolicy::Fail };
            });
        }
        world.faults = faults;
        let kill_at = kill_at.map(|at| start().checked_add(SignedDuration::from_secs(at)).unwrap());
        world.alarms.extend(kill_at);
        world.run(LIMIT, |world| {
            if Some(world.now) == kill_at {
                world.kill();
            }
        });
        let (outcome, reason) = world.result().expect("every grant ends");
        prop_assert!(world.in_service(), "{outcome:?} {reason}");
        let wanted = if outcome == Outcome::Done { TO } else { FROM };
        prop_assert_eq!(world.image(), wanted, "{:?} {}", outcome, reason);
        prop_assert_eq!(reported(&world).phase < Phase::Operating, world.patches.is_empty() && reason != "HookFailed"
            && reason != "HookRefused", "{:?} {}", outcome, reason);
        for call in &world.app.received {
            let expected = match call.hook.as_str() { "ask" | "flush" => FROM, _ => TO };
            prop_assert_eq!(&call.image, expected, "{}", call.hook);
            prop_assert!(call.hook != "flush" || !call.in_service);
        }
    }
}
