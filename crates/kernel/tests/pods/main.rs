//! The crate against real pods: two network namespaces with a link between them and a server process in a control group
//! named as the kubelet names a pod's. Needs root; without it the tests are left out with a note, or fail if `CI` is set.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the whole crate is a test; clippy looks for #[test] on each function"
)]

mod alone;
mod ambient;
mod close;
mod crowd;
mod exec;
mod exec_limits;
mod exec_safety;
mod hold;
mod ipv6;
mod lab;
mod load;
mod pause;
#[path = "../ports.rs"]
mod ports;
mod queue;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use hitless_kernel::{
    Activity, ClosedReport, Connection, KernelError, NetnsId, PodNetns, ProcessExit, classify, close_idle,
    close_unused, find_pod_pids,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use lab::{CLIENT_V4, Lab, POD_V4, POD_V6, eventually};
use ports::{DUAL_STACK, QUEUE_ONLY, V4_ONLY};

const PROC: &str = "/proc";

fn proc_root() -> &'static Path {
    Path::new(PROC)
}

/// Starts a helper process and waits until it says that it is ready. It ends with its standard input.
fn start_ready(command: &mut Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ok\n");
    child
}

fn open(lab: &Lab) -> PodNetns {
    PodNetns::open(proc_root(), &lab.pod_uid).unwrap()
}

/// The pod's side of a client's connection.
fn find(netns: &PodNetns, client: &TcpStream) -> Option<Connection> {
    let address = client.local_addr().unwrap();
    netns.connections().unwrap().inbound.into_iter().find(|connection| connection.peer == address)
}

fn peers(connections: &[Connection]) -> Vec<SocketAddr> {
    let mut peers: Vec<_> = connections.iter().map(|connection| connection.peer).collect();
    peers.sort();
    peers
}

fn own_addresses(clients: &[TcpStream]) -> Vec<SocketAddr> {
    let mut addresses: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
    addresses.sort();
    addresses
}

fn ask(mut client: &TcpStream, request: &str) {
    writeln!(client, "{request}").unwrap();
}

fn answer(client: &TcpStream) -> String {
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).unwrap();
    line
}

/// A request whose processing has begun and which ends when the server is told so.
fn begin_slow_request(netns: &PodNetns, client: &TcpStream) {
    ask(client, "slow");
    eventually("the request is read and older than a jiffy", || {
        let connection = find(netns, client)?;
        let age = connection.info?.last_data_recv;
        (connection.rqueue == 0 && age >= Duration::from_millis(30)).then_some(())
    });
}

#[test]
fn inbound_connections_are_counted_exactly() {
    let Some(lab) = Lab::new() else { return };
    let mut server = lab.start_server();
    let netns = open(&lab);

    let outside = lab.in_client(|| TcpListener::bind((CLIENT_V4, 9000)).unwrap());
    let clients = lab.in_client(|| {
        let v4 = [DUAL_STACK, DUAL_STACK, DUAL_STACK, V4_ONLY, V4_ONLY, QUEUE_ONLY, QUEUE_ONLY];
        let mut clients: Vec<_> = v4.map(|port| TcpStream::connect((POD_V4, port)).unwrap()).into();
        clients.push(TcpStream::connect((POD_V6, DUAL_STACK)).unwrap());
        clients
    });
    let half_closed = lab.in_client(|| TcpStream::connect((POD_V4, QUEUE_ONLY)).unwrap());
    half_closed.shutdown(Shutdown::Write).unwrap();
    server.command(&format!("dial {CLIENT_V4}:9000"));
    server.command(&format!("dial {CLIENT_V4}:9000"));
    server.command(&format!("dial 127.0.0.1:{DUAL_STACK}"));
    server.command(&format!("dial [::1]:{DUAL_STACK}"));
    server.command(&format!("dial {POD_V4}:{DUAL_STACK}"));

    let found = eventually("the server has accepted what it accepts", || {
        let found = netns.connections().unwrap();
        let queue = |port| found.listening.iter().find(|l| l.addr.port() == port).map(|l| l.queued);
        let queues = [DUAL_STACK, V4_ONLY, QUEUE_ONLY].map(queue);
        (queues == [Some(0), Some(0), Some(3)] && found.half_closed.len() == 1).then_some(found)
    });
    assert_eq!(peers(&found.inbound), own_addresses(&clients));
    assert_eq!(peers(&found.half_closed), own_addresses(&[half_closed]));
    assert!(found.inbound.iter().all(|connection| connection.info.is_some()));
    for connection in &found.inbound {
        assert_eq!(connection.inode == 0, connection.local.port() == QUEUE_ONLY, "{connection:?}");
    }
    assert_eq!(found.listening.len(), 5);
    assert_eq!(found.listening, netns.listeners().unwrap());

    // The counter of the namespace: 8 inbound, 1 half closed, 2 outgoing, both ends of 3 to itself.
    assert_eq!(netns.counters().unwrap().curr_estab, 8 + 1 + 2 + 6);
    drop((outside, clients));
    eventually("clients that closed are no longer counted", || {
        (netns.connections().unwrap().inbound.is_empty()).then_some(())
    });
}

#[test]
fn passive_opens_grow_by_one_for_each_new_connection() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);

    let before = netns.counters().unwrap();
    assert_eq!(netns.counters().unwrap(), before, "nobody connects to a pod of our own");
    let clients: Vec<_> = lab.in_client(|| (0..7).map(|_| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap()).collect());
    let after = eventually("the last handshake has ended", || {
        let after = netns.counters().unwrap();
        (after.curr_estab == 7).then_some(after)
    });
    assert_eq!(after.passive_opens - before.passive_opens, 7);
    drop(clients);
    eventually("all are closed", || (netns.counters().unwrap().curr_estab == 0).then_some(()));
    assert_eq!(netns.counters().unwrap().passive_opens, after.passive_opens);
}

#[test]
fn a_restart_is_seen_through_the_end_of_the_process_and_the_identity_of_the_listener() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.start_server();
    let netns = open(&lab);
    let identity = || {
        let listeners = netns.listeners().unwrap();
        listeners.iter().find(|listener| listener.addr.port() == DUAL_STACK).map(|listener| listener.inode)
    };
    let first = identity().unwrap();
    let exit =
        ProcessExit::of_container(proc_root(), &lab.pod_uid, &format!("containerd://{}", lab.container_id)).unwrap();
    assert_eq!(exit.pid(), server.pid());
    assert!(!exit.has_exited().unwrap());

    let pid = server.pid();
    server.kill();
    let ready =
        poll(&mut [PollFd::from_borrowed_fd(exit.as_fd(), PollFlags::IN)], Some(&Timespec { tv_sec: 10, tv_nsec: 0 }));
    assert_eq!(ready, Ok(1));
    assert!(exit.has_exited().unwrap());

    // Everything opened through the dead process goes on working.
    assert!(find_pod_pids(proc_root(), &lab.pod_uid).unwrap().is_empty());
    assert!(matches!(PodNetns::open(proc_root(), &lab.pod_uid), Err(KernelError::NotFound { .. })));
    let gone = ProcessExit::of_container(proc_root(), &lab.pod_uid, &lab.container_id).unwrap_err();
    assert!(matches!(gone, KernelError::ContainerNotFound { .. }), "{gone}");
    assert_eq!(netns.counters().unwrap().curr_estab, 0);
    assert_eq!(identity(), None);

    let second = lab.start_server();
    assert_ne!(second.pid(), pid);
    let new_listener = identity().unwrap();
    assert_ne!(new_listener, first);
    assert_eq!(open(&lab).id(), netns.id());
    let before = netns.counters().unwrap().passive_opens;
    let _client = lab.in_client(|| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap());
    assert_eq!(netns.counters().unwrap().passive_opens, before + 1);
}

#[test]
fn idle_and_fresh_connections_end_cleanly_and_a_request_in_flight_is_left_alone() {
    let Some(lab) = Lab::new() else { return };
    let mut server = lab.start_server();
    let netns = open(&lab);
    let connect = |port| lab.in_client(|| TcpStream::connect((POD_V4, port)).unwrap());
    let (idle, fresh, busy) = (connect(DUAL_STACK), connect(V4_ONLY), connect(DUAL_STACK));
    let (queued, left) = (connect(QUEUE_ONLY), connect(DUAL_STACK));

    begin_slow_request(&netns, &idle);
    assert_eq!(classify(&find(&netns, &idle).unwrap()), Activity::Busy);
    server.command("release");
    assert_eq!(answer(&idle), "done\n");
    eventually("fresh and left are accepted", || {
        let accepted = |client| find(&netns, client).is_some_and(|connection| connection.inode != 0);
        (accepted(&fresh) && accepted(&left)).then_some(())
    });
    begin_slow_request(&netns, &busy);

    let given = netns.connections().unwrap().inbound;
    assert_eq!(given.len(), 5);
    assert_eq!(classify(&find(&netns, &idle).unwrap()), Activity::Idle);
    assert_eq!(classify(&find(&netns, &fresh).unwrap()), Activity::Fresh);
    assert_eq!(classify(&find(&netns, &busy).unwrap()), Activity::Busy);
    drop(left);
    eventually("the client that left is gone", || (netns.connections().unwrap().inbound.len() == 4).then_some(()));

    // Who has just connected is about to send a request.
    eventually("a newcomer is looked at before it is one no more", || {
        let newcomer = lab.in_client(|| TcpStream::connect((POD_V4, V4_ONLY)).unwrap());
        let just = eventually("the newcomer is accepted", || find(&netns, &newcomer).filter(|just| just.inode != 0));
        let report = close_idle(proc_root(), &lab.pod_uid, &[just]).unwrap();
        (report == ClosedReport { busy: 1, ..ClosedReport::default() }).then_some(())
    });

    eventually("fresh is not as fresh any more", || {
        let silent = find(&netns, &fresh).and_then(|connection| connection.silent_for());
        silent.filter(|silent| *silent >= Duration::from_millis(250)).map(drop)
    });
    let report = close_idle(proc_root(), &lab.pod_uid, &given).unwrap();
    assert_eq!(report, ClosedReport { closed: 2, busy: 1, gone: 1, unowned: 1 });
    for mut client in [&idle, &fresh] {
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "a clean end");
    }
    server.command("release");
    assert_eq!(answer(&busy), "done\n");
    eventually("only busy and queued are left", || {
        (peers(&netns.connections().unwrap().inbound).len() == 2).then_some(())
    });
    assert!(find(&netns, &queued).is_some_and(|connection| connection.inode == 0));
}

#[test]
fn a_connection_that_was_used_once_is_closed_when_it_has_been_quiet() {
    let Some(lab) = Lab::new() else { return };
    let mut server = lab.start_server();
    let netns = open(&lab);
    let quiet = Duration::from_millis(50);
    let once = lab.in_client(|| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap());
    let busy = lab.in_client(|| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap());
    begin_slow_request(&netns, &busy);
    ask(&once, "fast");
    assert_eq!(answer(&once), "done\n");

    eventually("both are quiet", || {
        let found = netns.connections().unwrap().inbound;
        (found.iter().all(|connection| connection.unused_for() >= Some(quiet))).then_some(())
    });
    let report = close_unused(&netns, &netns.connections().unwrap().inbound, quiet).unwrap();
    assert_eq!(report, ClosedReport { closed: 1, busy: 1, gone: 0, unowned: 0 });
    assert_eq!((&once).read(&mut [0; 8]).unwrap(), 0);
    server.command("release");
    assert_eq!(answer(&busy), "done\n");
}

#[test]
fn the_end_of_a_connection_is_an_event_in_its_own_namespace() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let events = netns.destroy_events().unwrap();
    let connect = |address: &str| lab.in_client(|| TcpStream::connect(address).unwrap());
    let wait = |seconds| {
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut [PollFd::new(&events, PollFlags::IN)], Some(&timeout)).unwrap() > 0
    };
    for address in [format!("{POD_V4}:{DUAL_STACK}"), format!("{POD_V4}:{V4_ONLY}"), format!("[{POD_V6}]:{DUAL_STACK}")]
    {
        let (client, other) = (connect(&address), connect(&address));
        assert!(!events.clear().unwrap(), "two have begun and none has ended");
        let elsewhere = lab.in_client(|| TcpListener::bind((CLIENT_V4, 0)).unwrap());
        drop(lab.in_client(|| TcpStream::connect(elsewhere.local_addr().unwrap()).unwrap()));
        assert!(!wait(0), "in another namespace one has ended");
        drop(client);
        assert!(wait(10), "{address}");
        assert!(events.clear().unwrap());
        assert!(!events.clear().unwrap(), "told once");
        drop(other);
        assert!(wait(10), "{address}");
        assert!(events.clear().unwrap());
    }

    let many: Vec<_> = std::iter::repeat_with(|| connect(&format!("{POD_V4}:{V4_ONLY}"))).take(200).collect();
    drop(many);
    eventually("all have ended", || (netns.counters().unwrap().curr_estab == 0).then_some(()));
    assert!(wait(10) && events.clear().unwrap(), "more than there is room for is no failure");
}

/// A count of nothing that is no failure: whoever asks must know whether somebody should listen.
#[test]
fn a_pod_whose_sockets_are_elsewhere_has_neither_listeners_nor_connections() {
    let Some(lab) = Lab::new() else { return };
    let _silent = lab.start_silent();
    let netns = eventually("its process is there", || PodNetns::open(proc_root(), &lab.pod_uid).ok());
    assert_eq!(netns.listeners().unwrap().len(), 0);
    assert_eq!(netns.connections().unwrap().inbound.len(), 0);
}

#[test]
fn pods_without_a_namespace_of_their_own_are_refused() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server_on_the_host_network();
    let refused = PodNetns::open(proc_root(), &lab.pod_uid).unwrap_err();
    assert!(matches!(refused, KernelError::HostNetwork { .. }), "{refused}");
}

/// Runs on a thread of its own without the capability: capabilities belong to threads.
fn without<T: Send>(capability: CapabilitySet, run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective -= capability;
            set_capabilities(None, sets).unwrap();
            run()
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_missing_capability_is_named_and_nothing_is_counted() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let client = lab.in_client(|| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap());
    let netns = open(&lab);
    let connection = eventually("the server has accepted", || find(&netns, &client).filter(|c| c.inode != 0));

    let no_ptrace = without(CapabilitySet::SYS_PTRACE, || PodNetns::open(proc_root(), &lab.pod_uid)).unwrap_err();
    assert!(no_ptrace.to_string().contains("CAP_SYS_PTRACE"), "{no_ptrace}");
    let unopened = open(&lab);
    let no_admin = without(CapabilitySet::SYS_ADMIN, || unopened.connections()).unwrap_err();
    assert!(no_admin.to_string().contains("needs CAP_SYS_ADMIN"), "{no_admin}");
    let not_closed =
        without(CapabilitySet::SYS_PTRACE, || close_unused(&netns, &[connection], Duration::MAX)).unwrap_err();
    assert!(matches!(not_closed, KernelError::Denied { .. }), "{not_closed}");
    assert!(find(&netns, &client).is_some(), "still open");

    let missing = without(CapabilitySet::SYS_ADMIN, hitless_kernel::check_capabilities);
    assert_eq!(missing.len(), 1);
    assert!(missing[0].to_string().starts_with("CAP_SYS_ADMIN is missing"));
}

#[test]
fn asking_leaves_the_calling_thread_in_its_own_namespace() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let own = || rustix::fs::stat("/proc/thread-self/ns/net").map(|stat| (stat.st_dev, stat.st_ino)).unwrap();
    let before = own();
    let netns = open(&lab);
    netns.connections().unwrap();
    netns.sockets().unwrap().listeners().unwrap();
    assert_eq!(own(), before);
    let NetnsId { device, inode } = netns.id();
    assert_ne!((device, inode), before);
}
