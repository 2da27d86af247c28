//! Any pool, any wants, any order.

use proptest::prelude::*;

use super::model::{address, name, take};
use super::*;
use crate::ServerName;

/// Addresses are few, so that what is wanted and servers meet.
const ADDRESSES: u8 = 5;

fn state() -> impl Strategy<Value = ServerState> {
    prop_oneof![
        3 => Just(ServerState::Ready),
        1 => Just(ServerState::Standby),
        1 => Just(ServerState::Unhealthy),
        2 => Just(ServerState::Draining),
        2 => Just(ServerState::Maintenance),
        1 => Just(ServerState::Changing),
        1 => Just(ServerState::Leaving),
    ]
}

fn server() -> impl Strategy<Value = Server> {
    let sessions = prop_oneof![Just(None), Just(Some(0)), (1..4_u32).prop_map(Some)];
    (0..ADDRESSES, state(), 0..3_u16, sessions, 0..6_u8).prop_map(|(number, state, weight, sessions, kind)| {
        let at = |number| Some(address(number));
        let (name, address, owner) = match kind {
            0 | 1 => (ServerName::new(format!("static{number}")).unwrap(), at(number), Owner::Others),
            2 => (name(number), at(number + 1), Owner::UsMoved { from: address(number) }),
            _ => (name(number), at(number), Owner::Us),
        };
        Server { name, address, state, weight, sessions, owner }
    })
}

fn pool() -> impl Strategy<Value = Vec<Server>> {
    prop::collection::vec(server(), 0..8).prop_map(|mut servers| {
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        servers.dedup_by(|one, other| one.name == other.name);
        servers
    })
}

fn last() -> impl Strategy<Value = Last> {
    prop_oneof![3 => Just(Last::Keep), 1 => Just(Last::Take)]
}

fn target() -> impl Strategy<Value = Wanted> {
    let stand = prop_oneof![Just(Stand::In), last().prop_map(Stand::Out), last().prop_map(Stand::Gone)];
    (0..ADDRESSES, stand, 1..3_u16).prop_map(|(number, stand, weight)| {
        let weight = Weight::new(weight).unwrap();
        Wanted { weight, ..wanted(number, stand) }
    })
}

fn desired() -> impl Strategy<Value = Vec<Wanted>> {
    prop::collection::vec(target(), 0..6)
}

fn serving(pool: &[Server]) -> usize {
    pool.iter().filter(|server| server.serves()).count()
}

/// What happens by itself: what the provider is busy with comes to its end, and sessions end.
fn pass_time(pool: &mut Vec<Server>) {
    pool.retain(|server| server.state != ServerState::Leaving);
    for server in pool {
        server.sessions = server.sessions.map(|open| open.saturating_sub(1));
        if server.state == ServerState::Changing {
            server.state = ServerState::Ready;
        }
    }
}

proptest! {
    #[test]
    fn no_step_is_taken_on_what_could_not_be_read(desired in desired()) {
        prop_assert_eq!(steps(&desired, &unreadable(), Instant::now()).steps, []);
    }

    /// The model refuses steps on servers of others, on servers with sessions, and on servers that are not there.
    #[test]
    fn every_step_is_one_that_the_provider_takes(desired in desired(), mut pool in pool()) {
        let others = |pool: &[Server]| -> Vec<Server> {
            pool.iter().filter(|server| server.owner == Owner::Others).cloned().collect()
        };
        let before = others(&pool);
        for step in plan(&desired, pool.clone()).steps {
            take(&mut pool, &step);
        }
        prop_assert_eq!(others(&pool), before);
    }

    #[test]
    fn somebody_serves_afterwards_unless_the_loss_was_accepted(desired in desired(), mut pool in pool()) {
        let before = pool.clone();
        let steps = plan(&desired, pool.clone()).steps;
        for step in &steps {
            take(&mut pool, step);
        }
        let drained = before.iter().filter(|server| {
            server.serves() && steps.contains(&Step::Drain { server: server.name.clone() })
        });
        let accepted = drained.filter_map(|server| server.address).any(|address| {
            super::super::wanted::strongest(&desired).get(&address).is_some_and(|target| {
                matches!(target.stand, Stand::Out(Last::Take) | Stand::Gone(Last::Take))
            })
        });
        prop_assert!(serving(&before) == 0 || accepted || serving(&pool) > 0);
    }

    #[test]
    fn the_order_of_lists_does_not_matter(desired in desired(), pool in pool()) {
        let turned = |mut list: Vec<Wanted>| { list.reverse(); list };
        let mut backwards = pool.clone();
        backwards.reverse();
        prop_assert_eq!(plan(&desired, pool), plan(&turned(desired), backwards));
    }

    #[test]
    fn rounds_come_to_an_end_with_everything_as_wanted_or_a_reason(desired in desired(), mut pool in pool()) {
        let rounds = 20;
        for _ in 0..rounds {
            for step in plan(&desired, pool.clone()).steps {
                take(&mut pool, &step);
            }
            pass_time(&mut pool);
        }
        let end = plan(&desired, pool.clone());
        prop_assert_eq!(&end.steps, &[]);
        for target in super::super::wanted::strongest(&desired).into_values() {
            let explained = end.kept.iter().any(|kept| kept.pod.as_ref() == Some(&target.pod));
            let number = target.address;
            let now = Instant::now();
            let proof = evidence(number, &Observation::new(Ok(pool.clone()), now), now);
            let moved_here = pool.iter().any(|server| {
                server.address == Some(number) && matches!(server.owner, Owner::UsMoved { .. })
            });
            let reached = match target.stand {
                Stand::In => matches!(proof, Evidence::Serving | Evidence::Standby | Evidence::Unhealthy),
                Stand::Out(_) => matches!(proof, Evidence::Out | Evidence::NotRegistered),
                Stand::Gone(_) => proof == Evidence::NotRegistered,
            };
            // A server of others that leaves may do so in its own way, and one that was moved stays if it is the last to serve.
            let by_others = pool.iter().any(|server| {
                server.address == Some(number) && server.owner == Owner::Others
            });
            prop_assert!(explained || reached || by_others || moved_here, "{:?}: {:?} {:?}", target, proof, pool);
        }
    }

    #[test]
    fn evidence_never_says_out_while_a_session_is_open(pool in pool(), number in 0..ADDRESSES) {
        let open = pool.iter().any(|server| {
            server.address == Some(address(number)) && server.sessions != Some(0)
        });
        let proof = proof(number, pool);
        prop_assert!(!(open && matches!(proof, Evidence::Out | Evidence::NotRegistered)), "{:?}", proof);
    }
}
