//! Every rule of the decider, and any state in any order.

mod model;
mod properties;

use std::time::{Duration, Instant};

use crate::{
    Evidence, FRESH, Kept, Last, Observation, Owner, Plan, PodName, ProviderError, Reason, Server, ServerState, Stand,
    Step, Unknown, Wanted, Weight, evidence, steps, strays,
};

use model::{address, mark, name};

/// A server of ours at the address with this number.
fn ours(number: u8, state: ServerState, sessions: u32) -> Server {
    Server {
        name: name(number),
        address: Some(address(number)),
        state,
        weight: 1,
        sessions: Some(sessions),
        owner: Owner::Us,
    }
}

fn others(number: u8, state: ServerState) -> Server {
    let name = crate::ServerName::new(format!("static{number}")).unwrap();
    Server { name, owner: Owner::Others, ..ours(number, state, 0) }
}

fn wanted(number: u8, stand: Stand) -> Wanted {
    let pod = PodName { namespace: "shop".into(), name: format!("web-{number}") };
    Wanted { pod, address: address(number), weight: Weight::ONE, stand }
}

const OUT: Stand = Stand::Out(Last::Keep);
const GONE: Stand = Stand::Gone(Last::Keep);

fn plan(wanted: &[Wanted], servers: Vec<Server>) -> Plan {
    let now = Instant::now();
    steps(wanted, &Observation::new(Ok(servers), now), now)
}

fn only_step(wanted: &[Wanted], servers: Vec<Server>) -> Step {
    let plan = plan(wanted, servers);
    assert_eq!((plan.steps.len(), &plan.kept[..]), (1, &[][..]), "{plan:?}");
    plan.steps[0].clone()
}

fn nothing(wanted: &[Wanted], servers: Vec<Server>) {
    assert_eq!(plan(wanted, servers), Plan::default());
}

fn proof(number: u8, servers: Vec<Server>) -> Evidence {
    let now = Instant::now();
    evidence(address(number), &Observation::new(Ok(servers), now), now)
}

fn unreadable() -> Observation {
    let error = ProviderError::NoPool(crate::PoolName::new("shop").unwrap());
    Observation::new(Err(error), Instant::now())
}

#[test]
fn a_missing_pod_is_registered_and_then_let_in() {
    let want = [wanted(1, Stand::In)];
    assert_eq!(only_step(&want, vec![]), Step::Register { address: address(1), weight: Weight::ONE });
    let registered = ours(1, ServerState::Maintenance, 0);
    assert_eq!(only_step(&want, vec![registered]), Step::MakeReady { server: name(1), weight: Weight::ONE });
    nothing(&want, vec![ours(1, ServerState::Ready, 7)]);
}

#[test]
fn a_pod_that_leaves_drains_then_closes_then_stays_listed() {
    let want = [wanted(1, OUT)];
    let other = || ours(2, ServerState::Ready, 0);
    assert_eq!(only_step(&want, vec![ours(1, ServerState::Ready, 3), other()]), Step::Drain { server: name(1) });
    nothing(&want, vec![ours(1, ServerState::Draining, 3), other()]);
    assert_eq!(only_step(&want, vec![ours(1, ServerState::Draining, 0), other()]), Step::Close { server: name(1) });
    nothing(&want, vec![ours(1, ServerState::Maintenance, 0), other()]);
}

#[test]
fn a_pod_that_goes_is_deleted_only_when_no_session_is_open() {
    let want = [wanted(1, GONE)];
    nothing(&want, vec![ours(1, ServerState::Draining, 1)]);
    nothing(&want, vec![ours(1, ServerState::Maintenance, 1)]);
    let closed = ours(1, ServerState::Maintenance, 0);
    assert_eq!(only_step(&want, vec![closed]), Step::Deregister { server: name(1) });
    nothing(&want, vec![]);
}

#[test]
fn where_sessions_are_not_counted_only_removal_takes_a_pod_out() {
    let uncounted = |state| Server { sessions: None, ..ours(1, state, 0) };
    let want = [wanted(1, OUT)];
    assert_eq!(only_step(&want, vec![uncounted(ServerState::Draining)]), Step::Deregister { server: name(1) });
    nothing(&want, vec![uncounted(ServerState::Leaving)]);
    assert_eq!(proof(1, vec![uncounted(ServerState::Leaving)]), Evidence::Draining { sessions: None });
    assert_eq!(proof(1, vec![]), Evidence::NotRegistered);
}

#[test]
fn the_last_server_that_serves_stays_and_the_reason_is_given() {
    let servers = || vec![ours(1, ServerState::Ready, 0), ours(2, ServerState::Unhealthy, 0)];
    for stand in [OUT, GONE] {
        let kept = Kept { pod: Some(wanted(1, stand).pod), server: Some(name(1)), reason: Reason::LastServing };
        assert_eq!(plan(&[wanted(1, stand)], servers()), Plan { steps: vec![], kept: vec![kept] });
    }
    let take = [wanted(1, Stand::Out(Last::Take))];
    assert_eq!(only_step(&take, servers()), Step::Drain { server: name(1) });
}

#[test]
fn of_two_that_serve_one_may_leave_at_a_time() {
    let servers = vec![ours(1, ServerState::Ready, 0), ours(2, ServerState::Ready, 0)];
    let plan = plan(&[wanted(1, OUT), wanted(2, OUT)], servers);
    assert_eq!(plan.steps, [Step::Drain { server: name(1) }]);
    assert_eq!(plan.kept[0].reason, Reason::LastServing);
}

#[test]
fn a_server_that_is_let_in_does_not_count_before_it_is_seen_to_serve() {
    let servers = vec![ours(1, ServerState::Ready, 0), ours(2, ServerState::Maintenance, 0)];
    let plan = plan(&[wanted(1, OUT), wanted(2, Stand::In)], servers);
    assert_eq!(plan.steps, [Step::MakeReady { server: name(2), weight: Weight::ONE }]);
    assert_eq!(plan.kept[0].reason, Reason::LastServing);
}

#[test]
fn what_others_have_registered_gets_no_step_and_a_reason() {
    for stand in [OUT, GONE, Stand::Out(Last::Take)] {
        let plan = plan(&[wanted(1, stand)], vec![others(1, ServerState::Ready), others(2, ServerState::Ready)]);
        assert_eq!((plan.steps, plan.kept[0].reason.clone()), (vec![], Reason::NotOurs));
    }
    nothing(&[wanted(1, Stand::In)], vec![others(1, ServerState::Ready)]);
    nothing(&[wanted(1, GONE)], vec![others(1, ServerState::Draining), others(2, ServerState::Ready)]);
}

#[test]
fn what_others_have_changed_is_put_back_if_it_is_ours() {
    let want = [wanted(1, Stand::In)];
    let ready = Step::MakeReady { server: name(1), weight: Weight::ONE };
    assert_eq!(only_step(&want, vec![ours(1, ServerState::Draining, 4)]), ready);
    let heavy = Server { weight: 9, ..ours(1, ServerState::Ready, 0) };
    assert_eq!(only_step(&want, vec![heavy]), Step::SetWeight { server: name(1), weight: Weight::ONE });
}

#[test]
fn a_server_that_others_have_moved_is_removed_and_registered_again() {
    let want = [wanted(1, Stand::In), wanted(2, Stand::In)];
    let moved =
        |state| Server { address: Some(address(9)), owner: Owner::UsMoved { from: address(1) }, ..ours(1, state, 0) };
    let serving = || ours(2, ServerState::Ready, 0);
    let first = plan(&want, vec![moved(ServerState::Ready), serving()]);
    assert_eq!(first.steps, [Step::Drain { server: name(1) }]);
    assert_eq!(first.kept[0].reason, Reason::NameTaken);
    let last = plan(&want, vec![moved(ServerState::Maintenance), serving()]);
    assert_eq!(last.steps, [Step::Deregister { server: name(1) }]);
    let register = Step::Register { address: address(1), weight: Weight::ONE };
    assert_eq!(only_step(&want, vec![serving()]), register);
}

#[test]
fn nothing_is_done_and_nothing_is_known_while_the_pool_cannot_be_read() {
    let now = Instant::now();
    for stand in [Stand::In, Stand::Out(Last::Take), Stand::Gone(Last::Take)] {
        let plan = steps(&[wanted(1, stand)], &unreadable(), now);
        assert_eq!(plan.steps, []);
        assert!(matches!(&plan.kept[0].reason, Reason::Unknown(Unknown::Unreadable(why)) if why.contains("shop")));
    }
    assert!(matches!(evidence(address(1), &unreadable(), now), Evidence::Unknown(Unknown::Unreadable(_))));
}

#[test]
fn a_reading_that_is_too_old_is_worth_nothing() {
    let at = Instant::now();
    let old = Observation::new(Ok(vec![ours(1, ServerState::Maintenance, 0)]), at);
    assert_eq!(evidence(address(1), &old, at + FRESH), Evidence::Out);
    let later = at + FRESH + Duration::from_millis(1);
    assert!(matches!(evidence(address(1), &old, later), Evidence::Unknown(Unknown::Stale { .. })));
    assert_eq!(steps(&[wanted(1, Stand::In)], &old, later).steps, []);
}

#[test]
fn a_pod_is_out_only_when_closed_and_without_sessions() {
    let draining = |sessions| Evidence::Draining { sessions: Some(sessions) };
    assert_eq!(proof(1, vec![ours(1, ServerState::Ready, 0)]), Evidence::Serving);
    assert_eq!(proof(1, vec![ours(1, ServerState::Unhealthy, 0)]), Evidence::Unhealthy);
    assert_eq!(proof(1, vec![ours(1, ServerState::Draining, 2)]), draining(2));
    assert_eq!(proof(1, vec![ours(1, ServerState::Draining, 0)]), draining(0));
    assert_eq!(proof(1, vec![ours(1, ServerState::Maintenance, 2)]), draining(2));
    assert_eq!(proof(1, vec![ours(1, ServerState::Maintenance, 0)]), Evidence::Out);
    assert_eq!(proof(2, vec![ours(1, ServerState::Ready, 0)]), Evidence::NotRegistered);
}

#[test]
fn a_pod_behind_two_servers_is_out_when_both_are() {
    let closed = || ours(1, ServerState::Maintenance, 0);
    assert_eq!(proof(1, vec![closed(), others(1, ServerState::Ready)]), Evidence::Serving);
    let draining = Server { sessions: Some(2), ..others(1, ServerState::Draining) };
    let both = vec![ours(1, ServerState::Draining, 3), draining];
    assert_eq!(proof(1, both), Evidence::Draining { sessions: Some(5) });
    assert_eq!(proof(1, vec![closed(), others(1, ServerState::Maintenance)]), Evidence::Out);
}

#[test]
fn a_new_pod_with_the_address_of_one_that_is_gone_counts() {
    let want = [wanted(1, GONE), Wanted { address: address(1), ..wanted(2, Stand::In) }];
    nothing(&want, vec![ours(1, ServerState::Ready, 0), ours(3, ServerState::Ready, 0)]);
}

#[test]
fn servers_of_ours_that_nobody_mentions_stay_and_are_told() {
    let servers = vec![ours(1, ServerState::Ready, 0), ours(2, ServerState::Ready, 0), others(3, ServerState::Ready)];
    nothing(&[], servers.clone());
    let strays = strays(&[wanted(1, Stand::In)], &servers);
    assert_eq!(strays.iter().map(|server| &server.name).collect::<Vec<_>>(), [&name(2)]);
    assert_eq!(mark().address_of(&strays[0].name), Some(address(2)));
}
