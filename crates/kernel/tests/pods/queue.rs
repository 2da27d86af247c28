//! The accept queue: what a listener takes with it when it closes, and what a replay must not overflow.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hitless_kernel::{HoldSpec, Listener, SynHold};

use crate::lab::{Lab, POD_V4, eventually};
use crate::open;
use crate::ports::{DUAL_STACK, SHORT_QUEUE, SLOW_TO_ACCEPT};

const PATIENCE: Duration = Duration::from_secs(15);

fn spec(port: u16) -> HoldSpec {
    HoldSpec {
        ports: vec![port],
        cap: PATIENCE,
        expires_after: PATIENCE,
        lease: PATIENCE,
        is_settled: true,
        exempt: Vec::new(),
    }
}

/// Clients that connect at once, ask at once and wait for the answer: whether each got it.
fn clients(lab: &Lab, port: u16, number: usize) -> Vec<JoinHandle<bool>> {
    let visit = move || {
        let server = SocketAddr::from((POD_V4, port));
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE).ok()?;
        stream.write_all(b"fast\n").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        (line == "done\n").then_some(())
    };
    lab.in_client(|| (0..number).map(|_| thread::spawn(move || visit().is_some())).collect())
}

fn answered(clients: Vec<JoinHandle<bool>>) -> usize {
    clients.into_iter().map(|client| usize::from(client.join().unwrap())).sum()
}

/// A counter of the pod's namespace.
fn counter(lab: &Lab, wanted: &str) -> u64 {
    let netstat = lab.in_pod(|| fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let (names, values) = netstat.split_once('\n').unwrap();
    let at = names.split(' ').position(|name| name == wanted).unwrap();
    values.split([' ', '\n']).nth(at).unwrap().parse().unwrap()
}

#[test]
fn nobody_in_the_queue_of_a_slow_server_is_reset_when_it_is_emptied_first() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.start_server();
    let netns = open(&lab);
    let mut hold = SynHold::open(&netns).unwrap();
    let early = clients(&lab, SLOW_TO_ACCEPT, 200);
    let queued = || netns.pending(&[SLOW_TO_ACCEPT]).unwrap().queued;
    eventually("a queue", || (queued() >= 50).then_some(()));

    hold.begin(spec(SLOW_TO_ACCEPT)).unwrap();
    let late = clients(&lab, SLOW_TO_ACCEPT, 50);
    assert!(queued() > 0, "it takes the server long to accept them");
    assert!(netns.empty_accept_queue(&[SLOW_TO_ACCEPT], PATIENCE).unwrap().is_none());
    eventually("all are answered", || netns.connections().unwrap().inbound.is_empty().then_some(()));
    server.kill();
    let _server = lab.start_server();
    eventually("all who are late are held", || (hold.collect().unwrap() >= 50).then_some(()));
    hold.release().unwrap();
    assert_eq!((answered(early), answered(late)), (200, 50));
}

/// Why the queue is emptied first.
#[test]
fn a_queue_that_is_not_emptied_is_reset() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.start_server();
    let netns = open(&lab);
    let clients = clients(&lab, SLOW_TO_ACCEPT, 200);
    eventually("a queue", || (netns.pending(&[SLOW_TO_ACCEPT]).unwrap().queued >= 50).then_some(()));
    server.kill();
    assert!(answered(clients) <= 150);
}

#[test]
fn a_short_queue_is_not_overflowed_by_the_replay() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let mut hold = SynHold::open(&netns).unwrap();
    hold.begin(spec(SHORT_QUEUE)).unwrap();
    let clients = clients(&lab, SHORT_QUEUE, 200);
    eventually("all are held", || (hold.collect().unwrap() == 200).then_some(()));
    let released = hold.release().unwrap();
    assert_eq!((released.replayed, released.left), (200, 0));
    assert_eq!(answered(clients), 200);
    assert_eq!(counter(&lab, "ListenOverflows"), 0);
}

#[test]
fn listeners_of_a_container_are_told_from_others_of_its_pod() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let sidecar = lab.in_pod(|| TcpListener::bind("0.0.0.0:9999").unwrap());
    let ports = |listeners: Vec<Listener>| listeners.iter().map(|l| l.addr.port()).collect::<Vec<_>>();
    let (all, own) = (ports(netns.listeners().unwrap()), ports(netns.listeners_of(&lab.container_id).unwrap()));
    assert_eq!((all.len(), own.len()), (6, 5));
    assert!(own.contains(&DUAL_STACK) && all.contains(&9999) && !own.contains(&9999));
    drop(sidecar);
    assert!(netns.listeners_of("nobody").unwrap().is_empty());
}
