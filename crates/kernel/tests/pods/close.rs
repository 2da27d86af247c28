//! Ending connections, and those that end by themselves or never.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use hitless_kernel::{
    Activity, Connection, DestroyOutcome, KernelError, NodeSockets, Origin, TcpState, classify, close_idle,
};
use rustix::thread::CapabilitySet;

use crate::lab::{Lab, POD_V4, POD_V6, SERVICE_V4, eventually};
use crate::ports::{DATAGRAMS, DUAL_STACK, QUEUE_ONLY};
use crate::{answer, ask, find, open, proc_root, without};

#[test]
fn destroyed_connections_are_reset_and_no_others() {
    let Some(lab) = Lab::new() else { return };
    let mut server = lab.start_server();
    let netns = open(&lab);
    let connect = |port| lab.in_client(|| TcpStream::connect((POD_V4, port)).unwrap());
    let (v4, queued, spared) = (connect(DUAL_STACK), connect(QUEUE_ONLY), connect(DUAL_STACK));
    let v6 = lab.in_client(|| TcpStream::connect((POD_V6, DUAL_STACK)).unwrap());
    ask(&v4, "slow");
    let found = |client| eventually("the connection is there", || find(&netns, client));
    let doomed = [found(&v4), found(&v6), found(&queued)];

    let refused = without(CapabilitySet::NET_ADMIN, || open(&lab).destroy(&doomed)).unwrap_err();
    assert!(matches!(refused, KernelError::Denied { .. }), "{refused}");
    assert!(refused.to_string().contains("CAP_NET_ADMIN"), "{refused}");
    assert_eq!(netns.connections().unwrap().inbound.len(), 4);

    assert_eq!(netns.destroy(&doomed).unwrap(), [DestroyOutcome::Destroyed; 3]);
    for mut client in [&v4, &v6, &queued] {
        assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(netns.destroy(&doomed).unwrap(), [DestroyOutcome::Gone; 3]);
    server.command("release");
    ask(&spared, "fast");
    assert_eq!(answer(&spared), "done\n");
}

#[test]
fn connections_closed_on_one_side_are_told_apart_and_age() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let connect = |port| lab.in_client(|| TcpStream::connect((POD_V4, port)).unwrap());
    let (by_client, by_pod) = (connect(QUEUE_ONLY), connect(DUAL_STACK));
    by_client.shutdown(Shutdown::Write).unwrap();
    ask(&by_pod, "finish");
    let old = Duration::from_millis(100);
    let found = eventually("both are half closed, and have been so for a while", || {
        let found = netns.connections().unwrap();
        let all_old = found.half_closed.iter().all(|connection| connection.silent_for().unwrap() >= old);
        (found.half_closed.len() == 2 && all_old).then_some(found)
    });
    assert_eq!(found.inbound, []);
    let state = |client: &TcpStream| {
        let address = client.local_addr().unwrap();
        found.half_closed.iter().find(|connection| connection.peer == address).unwrap().state
    };
    assert_eq!((state(&by_client), state(&by_pod)), (TcpState::CloseWait, TcpState::FinWait2));
    assert_eq!(netns.destroy(&found.half_closed).unwrap(), [DestroyOutcome::Destroyed; 2]);
    assert_eq!(netns.connections().unwrap().half_closed, []);
}

#[test]
fn who_was_asked_to_end_and_stays_is_told_from_all_others_and_can_be_reset() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let connect = || lab.in_client(|| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap());
    let (upgraded, usual, spared) = (connect(), connect(), connect());
    for (client, request) in [(&upgraded, "upgrade"), (&usual, "fast"), (&spared, "fast")] {
        ask(client, request);
        assert_eq!(answer(client), "done\n");
    }
    let idle = |client| {
        // Of an answer within the same tick as its request the kernel does not tell which was first.
        eventually("it is idle", || {
            let found: Connection = find(&netns, client)?;
            if classify(&found) == Activity::Idle {
                return Some(found);
            }
            ask(client, "fast");
            assert_eq!(answer(client), "done\n");
            None
        })
    };
    let asked = [idle(&upgraded), idle(&usual)];
    assert_eq!(asked.each_ref().map(|connection| connection.shut_for_reading), [false; 2]);
    assert_eq!(close_idle(proc_root(), &lab.pod_uid, &asked).unwrap().closed, 2);
    assert_eq!((&usual).read(&mut [0]).unwrap(), 0, "a server of HTTP/1 closes");
    let stays = find(&netns, &upgraded).unwrap();
    assert!(stays.shut_for_reading && stays.state == TcpState::Established, "{stays:?}");
    assert!(!find(&netns, &spared).unwrap().shut_for_reading);
    ask(&upgraded, "fast");
    assert_eq!(netns.destroy(&[stays]).unwrap(), [DestroyOutcome::Destroyed]);
    assert_eq!((&upgraded).read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// Every request comes right behind an answer, within the coarse time in which the kernel cannot tell which was first.
#[test]
fn a_connection_with_a_request_in_flight_is_never_closed_however_recent_the_request() {
    const CONNECTIONS: usize = 8;
    let Some(lab) = Lab::new() else { return };
    let mut server = lab.start_server();
    let netns = open(&lab);
    let connect = || TcpStream::connect((POD_V4, DUAL_STACK)).unwrap();
    let clients: Vec<_> = lab.in_client(|| (0..CONNECTIONS).map(|_| connect()).collect());
    eventually("all are accepted", || {
        netns.connections().unwrap().inbound.iter().all(|connection| connection.inode != 0).then_some(())
    });
    for round in 0..40 {
        for client in &clients {
            for _ in 0..round % 4 {
                ask(client, "fast");
                assert_eq!(answer(client), "done\n");
            }
            ask(client, "slow");
        }
        for _ in 0..4 {
            let inbound = netns.connections().unwrap().inbound;
            assert!(inbound.iter().all(|connection| !matches!(classify(connection), Activity::Idle | Activity::Fresh)));
            let report = close_idle(proc_root(), &lab.pod_uid, &inbound).unwrap();
            assert_eq!((report.closed, report.busy), (0, CONNECTIONS), "round {round}");
        }
        eventually("the server has read all requests", || {
            netns.connections().unwrap().inbound.iter().all(|connection| connection.rqueue == 0).then_some(())
        });
        release_all(&mut server, &clients);
    }
}

/// A request that is read and not yet waiting when `release` is said waits for the next time.
fn release_all(server: &mut crate::lab::Server, clients: &[TcpStream]) {
    for client in clients {
        client.set_nonblocking(true).unwrap();
    }
    let mut answered = vec![false; clients.len()];
    eventually("all are answered", || {
        server.command("release");
        for (mut client, answered) in clients.iter().zip(&mut answered) {
            *answered |= client.read(&mut [0; 16]).is_ok_and(|length| length == b"done\n".len());
        }
        answered.iter().all(|answered| *answered).then_some(())
    });
    for client in clients {
        client.set_nonblocking(false).unwrap();
    }
}

/// The client goes without a word, as when a data plane resets both sides.
fn reset(client: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
}

#[test]
fn resets_by_others_are_told_from_closes_and_from_the_pods_own() {
    let Some(lab) = Lab::new() else { return };
    let mut server = lab.start_server();
    let netns = open(&lab);
    let counters = || netns.counters().unwrap().resets.unwrap();
    let connect = |port| lab.in_client(|| TcpStream::connect((POD_V4, port)).unwrap());
    let left = |what: &str, number| {
        eventually(what, || {
            let found = netns.connections().unwrap();
            (found.inbound.len() + found.half_closed.len() == number).then_some(())
        });
    };
    let asked = |port| {
        let client = connect(port);
        ask(&client, "fast");
        (port == DUAL_STACK).then(|| assert_eq!(answer(&client), "done\n"));
        client
    };

    let [closed, destroyed] = [(); 2].map(|()| asked(DUAL_STACK));
    let unread = asked(QUEUE_ONLY);
    let before = counters();
    let since = || counters().received_since(before);
    drop(closed);
    left("it is closed", 2);
    assert_eq!((since(), counters().ended), (Some(0), before.ended), "by FIN");
    netns.destroy(&[find(&netns, &destroyed).unwrap()]).unwrap();
    assert_eq!((since(), counters().ended), (Some(0), before.ended + 1), "by the agent");
    drop(unread);
    let by_clients = [(); 3].map(|()| asked(DUAL_STACK));
    by_clients.into_iter().for_each(reset);
    eventually("all of them are counted", || (since() == Some(3)).then_some(()));
    let v6 = lab.in_client(|| TcpStream::connect((POD_V6, DUAL_STACK)).unwrap());
    ask(&v6, "fast");
    assert_eq!(answer(&v6), "done\n");
    reset(v6);
    eventually("IPv6, too", || (since() == Some(4)).then_some(()));
    server.command("release");
}

#[test]
fn a_client_that_acknowledges_nothing_any_more_is_seen() {
    let Some(lab) = Lab::routed() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let client = lab.in_client(|| TcpStream::connect((SERVICE_V4, DUAL_STACK)).unwrap());
    ask(&client, "pieces");
    let timeouts = || netns.connections().unwrap().inbound.pop().and_then(|found| found.info).unwrap().timeouts;
    eventually("an answer begins", || client.peek(&mut [0]).ok());
    assert_eq!(timeouts(), 0);
    lab.give_connections_to_another();
    eventually("nobody acknowledges it", || (timeouts() >= 2).then_some(()));
    assert_eq!(netns.counters().unwrap().resets.unwrap().ended, 0, "the pod was told nothing");
}

#[test]
fn silence_of_udp_is_seen_by_its_datagrams() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let before = netns.udp_counters().unwrap();
    assert_eq!(netns.udp_counters().unwrap(), before, "nobody sends");
    let v4 = lab.in_client(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
    let v6 = lab.in_client(|| UdpSocket::bind("[::]:0").unwrap());
    for _ in 0..3 {
        v4.send_to(b"x", (POD_V4, DATAGRAMS)).unwrap();
        v6.send_to(b"x", (POD_V6, DATAGRAMS)).unwrap();
    }
    v4.send_to(b"x", (POD_V4, 9)).unwrap();
    eventually("all are counted: six that were read and one that nobody wanted", || {
        (netns.udp_counters().unwrap().datagrams == before.datagrams + 7).then_some(())
    });
}

#[test]
fn probes_of_the_node_are_told_from_clients_with_the_nodes_address() {
    let Some(lab) = Lab::routed() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    // A process table in which the router is the node.
    let node = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(node.path().join("1/ns")).unwrap();
    std::os::unix::fs::symlink(lab.router_path(), node.path().join("1/ns/net")).unwrap();
    let mut sockets = NodeSockets::open(node.path()).unwrap();

    let client = lab.in_client(|| TcpStream::connect((SERVICE_V4, DUAL_STACK)).unwrap());
    let forwarded = eventually("the client is seen", || netns.connections().unwrap().inbound.pop());
    assert_eq!(sockets.origin(&forwarded).unwrap(), Origin::Forwarded);
    let probe = lab.in_router(|| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap());
    let probed = eventually("the probe is seen", || find(&netns, &probe));
    assert_eq!(probed.peer.ip(), forwarded.peer.ip(), "by the address they are the same");
    assert_eq!(sockets.origin(&probed).unwrap(), Origin::Node);

    // A listener of the node on the port that the client happens to have is not its other end.
    let _listener = lab.in_router(|| TcpListener::bind(("::", forwarded.peer.port())).unwrap());
    assert_eq!(sockets.origin(&forwarded).unwrap(), Origin::Forwarded);
    drop((client, probe));
}
