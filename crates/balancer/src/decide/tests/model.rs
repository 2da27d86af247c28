//! A provider in miniature, with HAProxy's rules: what each step makes of a pool. A step that HAProxy would refuse panics.

use std::net::SocketAddr;

use crate::{Mark, Owner, Server, ServerName, ServerState, Step, Weight};

pub(super) fn mark() -> Mark {
    Mark::new("hitless").unwrap()
}

pub(super) fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 80))
}

pub(super) fn name(number: u8) -> ServerName {
    mark().name_of(address(number))
}

pub(super) fn take(pool: &mut Vec<Server>, step: &Step) {
    match step {
        Step::Register { address, weight } => register(pool, *address, *weight),
        Step::SetWeight { server, weight } => find(pool, server).weight = weight.get(),
        Step::MakeReady { server, weight } => {
            let server = find(pool, server);
            (server.state, server.weight) = (ServerState::Ready, weight.get());
        }
        Step::Drain { server } => find(pool, server).state = ServerState::Draining,
        Step::Close { server } => {
            let server = find(pool, server);
            assert_eq!(server.sessions, Some(0), "a close may end open sessions");
            server.state = ServerState::Maintenance;
        }
        Step::Deregister { server } => {
            let found = find(pool, server).clone();
            assert!(
                found.sessions.is_none() || (found.state == ServerState::Maintenance && found.sessions == Some(0)),
                "HAProxy deletes only servers in maintenance that have no session: {found:?}"
            );
            pool.retain(|other| other.name != *server);
        }
    }
}

fn register(pool: &mut Vec<Server>, address: SocketAddr, weight: Weight) {
    let name = mark().name_of(address);
    assert!(pool.iter().all(|server| server.name != name), "{name} is there already");
    pool.push(Server {
        name,
        address: Some(address),
        state: ServerState::Maintenance,
        weight: weight.get(),
        sessions: Some(0),
        owner: Owner::Us,
    });
}

fn find<'a>(pool: &'a mut [Server], name: &ServerName) -> &'a mut Server {
    let server = pool.iter_mut().find(|server| server.name == *name);
    let server = server.unwrap_or_else(|| panic!("{name} is not there"));
    assert_ne!(server.owner, Owner::Others, "{name} is not ours");
    server
}
