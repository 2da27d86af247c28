//! A node with many sockets that are none of the pod's.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command};

use hitless_kernel::{Among, Connection, ConnectionWatch, Look, PodNetns};

use crate::lab::{Lab, POD_V4, eventually};
use crate::ports::DUAL_STACK;
use crate::{open, peers, start_ready};

const CONNECTIONS: usize = 10;

/// Two hundred thousand sockets in a namespace of their own.
struct Crowd(Child);

impl Crowd {
    fn gather() -> Self {
        Self(start_ready(Command::new("unshare").args(["--net", env!("CARGO_BIN_EXE_crowd"), "200000"])))
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Processor time of this thread, in nanoseconds.
fn processor_time() -> u64 {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}

/// Processor time of one look, in nanoseconds: of as many as take a tenth of a second, because the clock may count in steps of 4 ms
/// or 10 ms.
fn cost(mut look: impl FnMut()) -> u64 {
    const LEAST: u64 = 100_000_000;
    look();
    let (before, mut looks) = (processor_time(), 0);
    loop {
        (0..10).for_each(|_| look());
        looks += 10;
        let spent = processor_time() - before;
        if spent >= LEAST {
            return spent / looks;
        }
    }
}

/// Whether a look at a few has seen all, and what it has.
fn look(watch: &mut ConnectionWatch, netns: &PodNetns) -> (bool, Vec<Connection>) {
    let mut seen = Vec::new();
    let each = |connection: &Connection, among| {
        assert_eq!(among, Among::Few);
        seen.push(connection.clone());
    };
    let Look::Counted { is_complete } = watch.look(netns, each).unwrap() else { panic!("a few are always counted") };
    (is_complete, seen)
}

struct Costs {
    counters: u64,
    listeners: u64,
    look: u64,
}

impl Costs {
    fn of(netns: &PodNetns) -> Self {
        let known = netns.connections().unwrap();
        assert_eq!(known.inbound.len(), CONNECTIONS);
        let mut watch = ConnectionWatch::default();
        Self {
            counters: cost(|| assert_eq!(netns.counters().unwrap().curr_estab, CONNECTIONS as u64)),
            listeners: cost(|| assert_eq!(netns.listeners().unwrap().len(), known.listening.len())),
            look: cost(|| {
                let (is_complete, seen) = look(&mut watch, netns);
                assert!(is_complete);
                assert_eq!(peers(&seen), peers(&known.inbound));
            }),
        }
    }
}

#[test]
fn watching_a_small_pod_costs_the_same_on_a_node_with_two_hundred_thousand_other_sockets() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let mut clients: Vec<_> =
        lab.in_client(|| (0..CONNECTIONS).map(|_| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap()).collect());
    eventually("all are accepted", || {
        netns.connections().unwrap().inbound.iter().all(|connection| connection.inode != 0).then_some(())
    });
    let alone = Costs::of(&netns);
    let crowd = Crowd::gather();
    let crowded = Costs::of(&netns);
    for (what, alone, crowded) in [
        ("counters", alone.counters, crowded.counters),
        ("listeners", alone.listeners, crowded.listeners),
        ("look", alone.look, crowded.look),
    ] {
        assert!(crowded <= 5 * alone, "{what}: {alone} ns alone, {crowded} ns in the crowd");
    }

    let list = cost(|| drop(netns.connections().unwrap()));
    assert!(list > 5 * crowded.look, "a list passes over the whole node's table: {list} ns");

    // And it misses nothing: neither who leaves nor who comes.
    let mut watch = ConnectionWatch::default();
    look(&mut watch, &netns);
    drop(clients.split_off(7));
    eventually("those who left are missed", || {
        let (is_complete, seen) = look(&mut watch, &netns);
        (is_complete && seen.len() == 7).then_some(())
    });
    clients.push(lab.in_client(|| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap()));
    eventually("the handshake has ended", || (netns.counters().unwrap().curr_estab == 8).then_some(()));
    let (is_complete, seen) = look(&mut watch, &netns);
    assert!(!is_complete || seen.len() == 8);
    eventually("the new one is seen", || {
        let (is_complete, seen) = look(&mut watch, &netns);
        (is_complete && seen.len() == 8).then_some(())
    });
    drop(crowd);
}

#[test]
fn of_more_than_a_limit_nothing_is_kept_and_what_was_counted_before_is_never_all() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let mut clients: Vec<_> =
        lab.in_client(|| (0..CONNECTIONS).map(|_| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap()).collect());
    eventually("all are there", || (netns.counters().unwrap().curr_estab == CONNECTIONS as u64).then_some(()));
    let mut watch = ConnectionWatch::new(CONNECTIONS - 1);
    let count = |watch: &mut ConnectionWatch| {
        let mut seen = Vec::new();
        let counted = watch.look(&netns, |_, among| seen.push(among)).unwrap();
        (counted, seen)
    };
    let complete = Look::Counted { is_complete: true };
    assert_eq!(count(&mut watch), (complete, vec![Among::Crowd; CONNECTIONS]));
    assert_eq!(count(&mut watch), (Look::TooEarly, vec![]));
    eventually("it is counted again before long", || (count(&mut watch).0 == complete).then_some(()));
    // Half of them have gone: a few are left.
    drop(clients.split_off(CONNECTIONS / 2 - 1));
    eventually("the others have gone", || {
        (netns.counters().unwrap().curr_estab == CONNECTIONS as u64 / 2 - 1).then_some(())
    });
    assert_eq!(count(&mut watch), (complete, vec![Among::Few; CONNECTIONS / 2 - 1]));
    assert_eq!(count(&mut watch), (complete, vec![Among::Few; CONNECTIONS / 2 - 1]));
}
