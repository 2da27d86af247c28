//! From any state that the API server could hold, however nonsensical.

mod strategies;

use hitless_agent::decide::mark;
use hitless_agent::decision::{Action, Direction, Hold};
use hitless_agent::in_service::reason_to_raise;
use hitless_agent::round::{NodeView, Round, round};
use hitless_agent::view::{NodeIdentity, Observation, Stage};
use hitless_api::{GrantMode, HookTime, Phase, PostCheck, WaitPoint};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::world::{IN_SERVICE, pod};
use strategies::{State, any_pod, any_state};

fn assert_safe(state: &State, round: &Round<'_>) {
    let (grant, step) = &round.steps[0];
    let pod = state.pods.values().next().map(|pod| &pod.view);
    let reported = state.transition.status.as_ref().map(|status| &status.transitions[0]);
    let has_ended = reported.is_some_and(|reported| reported.result.is_some());
    let rollback = reported.and_then(|reported| reported.rollback.as_ref());
    let is_hold = grant.mode == GrantMode::Hold;
    let how_far = match &state.observations[pod::UID] {
        Observation::Held(held) if held.direction == Direction::Forward => Some(&held.stage),
        _ => None,
    };
    match step.hold {
        _ if is_hold => {}
        Hold::No => {}
        Hold::Prepare(Direction::Forward) => assert_eq!(step.phase, Phase::Draining),
        Hold::Begin(Direction::Forward) => assert_eq!(step.action, Some(Action::Patch(Direction::Forward))),
        Hold::Continue(Direction::Forward) => assert_eq!(pod.unwrap().containers[0].image, pod::TO),
        hold => panic!("{hold:?} of a pod that has left"),
    }
    assert!(step.hold == Hold::No || step.result.is_none(), "who has been answered holds nobody");
    // A patch that was sent may be carried out at any time, and then clients are held, whatever has become of the grant.
    let is_patched = pod.and_then(|pod| pod.containers.first()).is_some_and(|container| container.image == pod::TO);
    let is_prepared = matches!(how_far, Some(Stage::Prepared(_))) && !is_patched;
    if is_hold && step.hold == Hold::Begin(Direction::Forward) && is_prepared {
        let age = state.now.duration_since(grant.granted.0).as_secs();
        assert!(age <= i64::from(grant.ttl_seconds) + 30, "new connections are held under a fresh grant only");
        assert!(grant.cancel.is_none());
    }
    assert!(step.action.is_none() || step.result.is_none(), "a result follows the last write, and is not beside it");
    assert!(step.action.is_none() || !has_ended, "what has ended is left alone");
    match &step.action {
        None => {}
        Some(Action::FetchPod) => assert!(pod.is_none() || is_hold),
        Some(action @ (Action::LookAtVolumes | Action::WantVolumes)) => {
            panic!("{action:?}: the grant names no content")
        }
        Some(Action::LeaveService) => {
            let pod = pod.unwrap();
            assert_eq!(grant.mode, GrantMode::Leave, "in a Hold the pod stays in service");
            // Its application is asked only after the pod has been found fit.
            let memory = state.memories.values().next();
            let has_asked = memory.is_some_and(|memory| !memory.hooks.is_empty() || memory.task_since.is_some());
            assert!(pod.gated || reported.is_some() || has_asked);
            let is_begun = pod.containers[0].image == pod::TO;
            assert!(is_begun || !grant.while_unavailable || !pod.ready(), "granted as an unavailable pod");
        }
        Some(Action::ShowDrained) => panic!("nobody else operates this pod"),
        Some(Action::ReturnToService { reason, message }) => {
            let pod = pod.unwrap();
            let is_in_service_again =
                matches!(reason.as_str(), "CancelledInService" | "PodAvailable" | "ExpiredInService")
                    || matches!(reason.as_str(), "TaskRefused" | "HookFailed");
            // A Hold that is given up writes it anew, whatever the reason.
            assert!(!pod.is(IN_SERVICE) || is_hold || is_in_service_again, "{reason}");
            assert_eq!(message, &mark(grant));
            let is_pending = grant.post_check == Some(PostCheck::Pending);
            let is_return = reason == "InService" && pod.containers[0].image == pod::TO;
            assert!(!is_return || !is_pending, "not before the rules have passed");
        }
        Some(Action::Patch(Direction::Forward)) => {
            let pod = pod.unwrap();
            if is_hold {
                let runs = pod.containers[0].status.as_ref().is_some_and(|status| status.running_since.is_some());
                assert!(!runs || matches!(how_far, Some(Stage::Settled(_) | Stage::Prepared(0))), "{how_far:?}");
            } else {
                let condition = pod.in_service().unwrap();
                assert!(!pod.ready() && !condition.is_true && condition.message == grant.id);
                let is_late = condition.since.is_none_or(|since| {
                    let deadline = SignedDuration::from_secs(grant.drain.deadline_seconds.into());
                    // At the end of all times the deadline is that end.
                    since > state.now || since.checked_add(deadline).unwrap_or(Timestamp::MAX) <= state.now
                });
                let mut waits = grant.pending_waits(WaitPoint::Operate);
                assert!(
                    waits.all(|wait| is_late && !wait.is_for_finalizers()),
                    "its load balancer, or somebody who protects it, sends it requests"
                );
            }
            assert!(pod.containers[0].image == pod::FROM && grant.cancel.is_none() && rollback.is_none());
            assert!(!pod.terminating && !pod.finished);
        }
        Some(Action::Patch(Direction::Back)) => {
            let pod = pod.unwrap();
            assert!(is_hold || !pod.ready() && !pod.in_service().unwrap().is_true);
            assert!(rollback.is_some());
            assert_eq!(pod.containers[0].image, pod::TO);
        }
    }
    if let Some(ask) = &step.hook {
        let pod = pod.unwrap();
        assert!(step.action.is_none() && step.result.is_none() && !has_ended && rollback.is_none());
        assert!(grant.hooks.iter().any(|hook| hook.name == ask.name && hook.when == ask.when), "{ask:?}");
        assert!(grant.cancel.is_none() && ask.attempt > 0 && step.hold != Hold::Begin(Direction::Forward));
        let image = if ask.when == HookTime::AfterStart { pod::TO } else { pod::FROM };
        assert_eq!(pod.containers[0].image, image);
        assert!(ask.when != HookTime::AfterDrain || !is_hold && !pod.ready() && !pod.is(IN_SERVICE));
        let runs = pod.containers[0].status.as_ref().is_some_and(|status| status.running_since.is_some());
        assert!(runs, "nobody else could answer");
    }
    if step.phase == Phase::Checking && step.result.is_none() && pod.is_some() {
        assert!(grant.post_check == Some(PostCheck::Pending) && grant.cancel.is_none(), "{step:?}");
        assert!(step.action.is_none() && step.deadline.is_some());
    }
    let is_waiting = step.action.is_none() && step.result.is_none() && step.rollback.is_none() && !has_ended;
    assert!(!is_waiting || step.wake_at.is_some(), "a wait without an end: {step:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_decision_is_safe(state in any_state()) {
        let node = NodeIdentity { name: "n1".into(), uid: "node-uid".into() };
        let view = NodeView {
            node: &node,
            pods: &state.pods,
            transition: Some(&state.transition),
            synced: true,
            memories: &state.memories,
            observations: &state.observations,
        };
        assert_safe(&state, &round(&view, state.now));
    }

    #[test]
    fn who_is_put_in_service(pod in any_pod(), synced in any::<bool>(), live in any::<bool>()) {
        let pod = &pod.view;
        let reason = reason_to_raise(pod, synced, live);
        if reason.is_some() {
            prop_assert!(pod.gated && !pod.terminating && !pod.is(IN_SERVICE));
            prop_assert!(pod.in_service().is_none() || synced && !live, "only a pod without an operation is raised");
        } else if pod.gated && !pod.terminating && !pod.finished && synced && !live {
            prop_assert!(pod.is(IN_SERVICE));
        }
    }
}
