//! Strategies for whatever the API server could hold, and what an agent could remember and see.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_agent::decide::mark;
use hitless_agent::decision::{Action, Direction};
use hitless_agent::hooks::answer::Verdict;
use hitless_agent::hooks::called::Called;
use hitless_agent::hooks::task::{Saying, Word};
use hitless_agent::memory::{Denied, Memory, Operated, RoundTrip};
use hitless_agent::view::{Count, Held, HoldNumbers, Missing, NodePod, Observation, Stage};
use hitless_api::pod::ConditionView;
use hitless_api::{
    Cancel, DrainSpec, Grant, GrantMode, Hook, HookFailurePolicy, HookMethod, HookScheme, HookTime, HttpHook,
    MicroTime, NodeTransition, NodeTransitionSpec, NodeTransitionStatus, Outcome, Phase, PostCheck, StragglerPolicy,
    Transition, TransitionResult, VerifySpec, Wait, WaitPoint, WaitState,
};
use jiff::{SignedDuration, Timestamp};
use proptest::option::weighted;
use proptest::prelude::*;

use crate::world::{IN_SERVICE, grant, pod, start};

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        8 => (-200..2000_i64).prop_map(|seconds| start().checked_add(SignedDuration::from_secs(seconds)).unwrap()),
        1 => Just(Timestamp::MIN),
        1 => Just(Timestamp::MAX),
    ]
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..100_u32, 1 => Just(0), 1 => Just(u32::MAX)]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![Just("containerd://0".to_owned()), Just("containerd://1".to_owned()), Just(String::new())]
}

fn any_hooks() -> impl Strategy<Value = Vec<Hook>> {
    let when = prop_oneof![Just(HookTime::BeforeDrain), Just(HookTime::AfterDrain), Just(HookTime::AfterStart)];
    let policy = prop_oneof![Just(HookFailurePolicy::Fail), Just(HookFailurePolicy::Ignore)];
    let hook = (when, policy, number(), number(), number());
    prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(hook, 1..4)].prop_map(|hooks| {
        let hook = |(index, (when, failure_policy, timeout_seconds, retries, deadline_seconds))| Hook {
            name: format!("h{index}"),
            when,
            http: Some(HttpHook { port: 80, path: "/".into(), method: HookMethod::Get, scheme: HookScheme::Http }),
            exec: None,
            timeout_seconds,
            retries,
            failure_policy,
            deadline_seconds,
        };
        hooks.into_iter().enumerate().map(hook).collect()
    })
}

/// Of hooks that the grant may have.
fn any_called() -> impl Strategy<Value = BTreeMap<String, Called>> {
    let verdict = prop_oneof![
        Just(Verdict::Go),
        Just(Verdict::Never),
        Just(Verdict::Failed),
        number().prop_map(|retry_after_seconds| Verdict::NotYet { retry_after_seconds })
    ];
    let when = prop_oneof![Just(HookTime::BeforeDrain), Just(HookTime::AfterDrain), Just(HookTime::AfterStart)];
    let called = (when, time(), time(), number(), number(), weighted(0.7, (time(), verdict))).prop_map(
        |(when, since, deadline, attempts, failures, last)| Called {
            when,
            since,
            deadline,
            attempts,
            failures,
            last,
            milliseconds: 1,
            output: String::new(),
        },
    );
    prop::collection::btree_map((0..3_u8).prop_map(|index| format!("h{index}")), called, 0..3)
}

fn any_saying() -> impl Strategy<Value = Option<Saying>> {
    let word = prop_oneof![Just(Word::NotYet), Just(Word::Never)];
    weighted(0.1, (word, time()).prop_map(|(task, until)| Saying { task, until, message: String::new() }))
}

fn any_waits() -> impl Strategy<Value = Vec<Wait>> {
    let point = prop_oneof![Just(WaitPoint::Operate), Just(WaitPoint::Done)];
    let state = prop_oneof![Just(WaitState::Pending), Just(WaitState::Passed)];
    let wait = (point, state)
        .prop_map(|(before, state)| Wait { state, ..Wait::pending("edge/shop".to_owned(), before, "it drains") });
    proptest::collection::vec(wait, 0..3)
}

prop_compose! {
    fn any_grant()(
        granted in time(),
        cancel in any::<bool>(),
        numbers in [number(), number(), number(), number(), number(), number()],
        stragglers in prop_oneof![
            Just(StragglerPolicy::Wait), Just(StragglerPolicy::Close), Just(StragglerPolicy::Abort),
            Just(StragglerPolicy::Destroy)
        ],
        before in id(),
        while_unavailable in any::<bool>(),
        mode in prop_oneof![Just(GrantMode::Leave), Just(GrantMode::Hold)],
        post_check in weighted(0.5, prop_oneof![Just(PostCheck::Pending), Just(PostCheck::Passed)]),
        hooks in any_hooks(),
        waits in any_waits(),
    ) -> Grant {
        let [min_seconds, straggler_after_seconds, deadline_seconds, progress_seconds, soak_seconds, ttl_seconds] = numbers;
        Grant {
            drain: DrainSpec { min_seconds, straggler_after_seconds, stragglers, deadline_seconds, ..DrainSpec::default() },
            verify: VerifySpec { progress_seconds, soak_seconds, alone: soak_seconds % 2 == 1, crashes: (soak_seconds % 3 == 1).then_some(2) },
            ttl_seconds,
            while_unavailable,
            mode,
            post_check,
            hooks,
            waits,
            cancel: cancel.then(|| Cancel { reason: "Stop".into(), since: MicroTime(granted) }),
            before: BTreeMap::from([(pod::CONTAINER.to_owned(), before)]),
            ..grant(granted)
        }
    }
}

prop_compose! {
    pub(super) fn any_pod()(
        image in prop_oneof![2 => Just(pod::FROM), 2 => Just(pod::TO), 1 => Just("other"), 1 => Just("")],
        // Whose message InService carries: nobody's, the grant's id, its mark.
        in_service in weighted(0.9, (any::<bool>(), 0..3_u8, prop_oneof![
            Just("InService"), Just("Leaving"), Just("Cancelled"), Just("CancelledInService"),
            Just("PodAvailable"), Just("ExpiredInService"), Just("DeadlineAborted")], weighted(0.9, time()))),
        ready in any::<bool>(),
        status in weighted(0.9, (id(), any::<bool>(), weighted(0.7, time()), weighted(0.3, prop_oneof![
            Just("CrashLoopBackOff"), Just("ErrImagePull"), Just("ContainerCreating")]))),
        generations in (0..3_i64, 0..3_i64),
        flags in prop::bits::u8::masked(0b1111),
        has_container in prop::bool::weighted(0.95),
        may_refuse in any::<bool>(),
    ) -> NodePod {
        let mut known = pod::running(start());
        let view = &mut known.view;
        image.clone_into(&mut view.containers[0].image);
        view.conditions.insert("Ready", ConditionView::new(ready, "", "", None));
        view.conditions.remove(IN_SERVICE);
        if let Some((is_true, message, reason, since)) = in_service {
            let message = ["", "id", "mark"][usize::from(message)].to_owned();
            view.conditions.insert(IN_SERVICE, ConditionView::new(is_true, reason, message, since));
        }
        match status {
            None => view.containers[0].status = None,
            Some((container_id, is_ready, running_since, waiting)) => {
                let state = view.containers[0].status.as_mut().unwrap();
                state.container_id = container_id;
                state.ready = is_ready;
                state.running_since = running_since;
                state.waiting = waiting.map(str::to_owned);
            }
        }
        (view.generation, view.observed_generation) = generations;
        view.gated = flags & 0b0001 == 0;
        view.terminating = flags & 0b0110 == 0b0110;
        view.finished = flags & 0b1100 == 0b1100;
        if !has_container { view.containers.clear(); }
        if may_refuse { view.annotations.insert("hitless.dev/task".into(), "allowed".into()); }
        known
    }
}

prop_compose! {
    fn any_report(grant: Grant)(
        phase in prop_oneof![Just(Phase::Granted), Just(Phase::Leaving), Just(Phase::Draining), Just(Phase::Holding),
            Just(Phase::Operating), Just(Phase::Verifying), Just(Phase::Checking), Just(Phase::Returning)],
        since in time(),
        rollback in weighted(0.3, Just("CrashLoopBackOff".to_owned())),
        ended in prop::bool::weighted(0.1),
        hooks_done in prop::collection::vec((0..3_u8).prop_map(|index| format!("h{index}")), 0..3),
    ) -> Transition {
        let result =
            ended.then(|| TransitionResult { outcome: Outcome::Failed, reason: "X".into(), report: BTreeMap::new() });
        Transition { id: grant.id.clone(), granted: grant.granted.clone(), phase, since: MicroTime(since), deadline: None, connections: None,
            gap_milliseconds: None, ready_milliseconds: None, hooks_done, hooks: Vec::new(), rollback, message: String::new(), result }
    }
}

prop_compose! {
    fn any_memory()(
        seen in weighted(0.5, time()),
        lowered in weighted(0.5, time()),
        operated in weighted(0.3, (time(), id())),
        denied in weighted(0.2, (time(), time(), prop_oneof![Just(Action::LeaveService), Just(Action::Patch(Direction::Forward)), Just(Action::Patch(Direction::Back))])),
        phase in weighted(0.5, (prop_oneof![Just(Phase::Verifying), Just(Phase::Checking)], time())),
        answered in weighted(0.5, (time(), 0..500_u32)),
        hold_failed in weighted(0.2, time()),
        missing in weighted(0.5, prop_oneof![Just(Missing::Gone), Just(Missing::OtherUid), Just(Missing::OtherNode)]),
        hooks in any_called(),
        (saying, task_since) in (any_saying(), weighted(0.1, time())),
    ) -> Memory {
        Memory {
            hooks,
            saying,
            task_since,
            seen,
            lowered,
            operated: operated.map(|(at, id)| Operated { at, before: BTreeMap::from([(pod::CONTAINER.into(), id)]) }),
            denied: denied.map(|(since, last, action)| Denied { action, since, last, reason: "AdmissionDenied", words: "no".into() }),
            phase,
            missing,
            hold_failed,
            round_trip: answered.map(|(at, milliseconds)| RoundTrip { at, milliseconds }),
            ..Memory::default()
        }
    }
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let count = (0..3_u32, any::<bool>()).prop_map(|(inbound, quiet)| Count { inbound, quiet, ..Count::default() });
    prop_oneof![
        Just(Observation::None),
        Just(Observation::Failed("no".into())),
        count.prop_map(Observation::Counted),
        any_hold().prop_map(Observation::Held),
    ]
}

fn any_hold() -> impl Strategy<Value = Held> {
    let direction = prop_oneof![3 => Just(Direction::Forward), 1 => Just(Direction::Back)];
    let stage = prop_oneof![
        (0..3_usize).prop_map(Stage::Prepared),
        (0..3_u32).prop_map(Stage::Settling),
        (0..3_u32).prop_map(Stage::Settled),
        Just(Stage::Released),
        Just(Stage::Failed("no".into())),
    ];
    (direction, stage).prop_map(|(direction, stage)| {
        let (numbers, listening) = (HoldNumbers::default(), None);
        Held { direction, stage, numbers, listening }
    })
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) pods: BTreeMap<String, Arc<NodePod>>,
    pub(super) transition: NodeTransition,
    pub(super) memories: BTreeMap<String, Memory>,
    pub(super) observations: BTreeMap<String, Observation>,
    pub(super) now: Timestamp,
}

pub(super) fn any_state() -> impl Strategy<Value = State> {
    any_grant()
        .prop_flat_map(|grant| {
            let report = weighted(0.6, any_report(grant.clone()));
            let pod = weighted(0.9, any_pod());
            (Just(grant), pod, report, weighted(0.7, any_memory()), any_observation(), time())
        })
        .prop_map(|(grant, pod, report, memory, observation, now)| {
            let pod = pod.map(|mut pod| {
                if let Some(condition) = pod.view.conditions.get_mut(IN_SERVICE) {
                    condition.message = match condition.message.as_str() {
                        "id" => grant.id.clone(),
                        "mark" => mark(&grant),
                        _ => String::new(),
                    };
                }
                Arc::new(pod)
            });
            let memories = memory.map(|memory| (grant.id.clone(), memory)).into_iter().collect();
            let spec =
                NodeTransitionSpec { node_uid: "node-uid".into(), epoch: 1, grants: vec![grant], propagation: None };
            let mut transition = NodeTransition::new("n1", spec);
            transition.status = report.map(|report| NodeTransitionStatus { agent: None, transitions: vec![report] });
            let uid = pod::UID.to_owned();
            State {
                pods: pod.map(|pod| (uid.clone(), pod)).into_iter().collect(),
                transition,
                memories,
                observations: BTreeMap::from([(uid, observation)]),
                now,
            }
        })
}
