//! What holds for the servers of a load balancer's pool, whatever it has answered.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Instant;

use hitless_balancer::{
    Last, Mark, Observation, Owner, PodName, PoolName, Server, ServerName, Stand, Step, Wanted, Weight, steps, strays,
};

/// As in HAProxy's recorded answers.
pub(crate) fn pool() -> PoolName {
    PoolName::new("raw").expect("a name")
}

pub(crate) fn mark() -> Mark {
    Mark::new("hitless").expect("a mark")
}

/// Each has a name of its own and is ours by its name alone; of the others no step changes any, and the last that serves stays.
pub(crate) fn check(servers: &[Server]) {
    let names: BTreeSet<&ServerName> = servers.iter().map(|server| &server.name).collect();
    assert_eq!(names.len(), servers.len(), "two have a name: {servers:?}");
    for server in servers {
        let ours = mark().address_of(&server.name);
        match server.owner {
            Owner::Us => assert!(ours.is_some() && ours == server.address, "{server:?}"),
            Owner::UsMoved { from } => assert!(ours == Some(from) && ours != server.address, "{server:?}"),
            Owner::Others => assert_eq!(ours, None, "{server:?}"),
        }
    }
    let all: BTreeSet<SocketAddr> = servers.iter().filter_map(|server| server.address).collect();
    for stand in [Stand::In, Stand::Out(Last::Keep), Stand::Gone(Last::Keep)] {
        let wanted: Vec<Wanted> = all.iter().map(|address| wanted(*address, stand)).collect();
        follow(servers, &wanted);
        assert!(strays(&wanted, servers).is_empty(), "something is said about all addresses");
    }
    assert!(strays(&[], servers).iter().all(|server| server.owner == Owner::Us));
}

fn wanted(address: SocketAddr, stand: Stand) -> Wanted {
    let pod = PodName { namespace: "shop".to_owned(), name: "a".to_owned() };
    Wanted { pod, address, weight: Weight::ONE, stand }
}

fn follow(servers: &[Server], wanted: &[Wanted]) {
    let now = Instant::now();
    let plan = steps(wanted, &Observation::new(Ok(servers.to_vec()), now), now);
    let mut serving: BTreeSet<&ServerName> =
        servers.iter().filter(|server| server.serves()).map(|server| &server.name).collect();
    let was_serving = !serving.is_empty();
    for step in &plan.steps {
        let (name, ends) = match step {
            Step::Register { .. } => continue,
            Step::SetWeight { server, .. } | Step::MakeReady { server, .. } | Step::Drain { server } => (server, false),
            Step::Close { server } | Step::Deregister { server } => (server, true),
        };
        let server =
            servers.iter().find(|server| server.name == *name).expect("a step is about a server that is listed");
        assert_ne!(server.owner, Owner::Others, "a server of others is changed: {step:?}");
        assert!(!ends || server.sessions.is_none_or(|sessions| sessions == 0), "open sessions are ended: {server:?}");
        if matches!(step, Step::Drain { .. } | Step::Close { .. } | Step::Deregister { .. }) {
            serving.remove(name);
        }
    }
    assert!(!was_serving || !serving.is_empty(), "nobody serves any more: {plan:?}");
}
