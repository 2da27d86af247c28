//! What a block does by itself, while the agent that made it is killed or gets no processor.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use hitless_kernel::{HoldSpec, PodNetns, SynHold};

use crate::hold::{Holder, PATIENCE, connect_all, held_clients, spec};
use crate::lab::{Lab, POD_V4, POD_V6, eventually};
use crate::load::{Load, failures};
use crate::open;
use crate::ports::{DUAL_STACK, V4_ONLY};

/// Shorter than the first repetition of a SYN: who is let in within it was not held.
const AT_ONCE: Duration = Duration::from_millis(900);
const LEASE: Duration = Duration::from_millis(500);

fn connects(lab: &Lab, address: impl Into<SocketAddr>, within: Duration) -> Result<(), ErrorKind> {
    let address = address.into();
    lab.in_client(|| TcpStream::connect_timeout(&address, within)).map(drop).map_err(|error| error.kind())
}

/// Connections that have reached the server.
fn opened(netns: &PodNetns) -> u64 {
    netns.counters().unwrap().passive_opens
}

#[test]
fn a_new_process_gets_its_clients_although_the_agent_was_killed() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.start_server();
    let minute = Duration::from_mins(1);
    let holder = Holder::start(&lab, DUAL_STACK, minute, minute);
    let addresses: [IpAddr; 2] = [POD_V4.into(), POD_V6.into()];
    let servers = addresses.map(|address| SocketAddr::new(address, DUAL_STACK));
    let begin = Instant::now();
    let early = connect_all(&lab, &servers);
    thread::sleep(Duration::from_millis(100));
    drop(holder);
    for server in servers {
        assert_eq!(connects(&lab, server, AT_ONCE), Err(ErrorKind::TimedOut), "the old process listens");
    }
    server.kill();
    let late = connect_all(&lab, &servers);
    for server in servers {
        assert_eq!(connects(&lab, server, AT_ONCE), Err(ErrorKind::TimedOut), "nobody listens");
    }
    assert!(late.iter().all(|client| !client.is_finished()), "held, and not refused");
    let _server = lab.start_server();
    for server in servers {
        assert_eq!(connects(&lab, server, AT_ONCE), Ok(()));
    }
    for client in early.into_iter().chain(late) {
        client.join().unwrap().unwrap();
    }
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

/// Without an agent, and with clients that come all the time: some of them find that the old process has gone.
#[test]
fn a_restart_under_load_without_an_agent_fails_no_client() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.start_server();
    let minute = Duration::from_mins(1);
    drop(Holder::start(&lab, DUAL_STACK, minute, minute));
    let load = lab.in_client(|| Load::start((POD_V4, DUAL_STACK).into(), 200, PATIENCE));
    eventually("clients come", || (load.begun() > 40).then_some(()));
    assert_eq!(opened(&open(&lab)), 0);
    server.kill();
    let clients = load.begun();
    eventually("clients come while nobody listens", || (load.begun() > clients + 100).then_some(()));
    let _server = lab.start_server();
    let clients = load.begun();
    eventually("clients come to the new process", || (load.begun() > clients + 40).then_some(()));
    let visits = load.finish();
    assert_eq!(failures(&visits).len(), 0, "{:?} of {}", failures(&visits).first(), visits.len());
}

#[test]
fn that_nobody_listens_at_one_address_says_nothing_of_another() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    hold.begin(HoldSpec { lease: LEASE, ..spec(&[V4_ONLY]) }).unwrap();
    let nobody = connect_all(&lab, &[(POD_V6, V4_ONLY).into()]);
    eventually("it is held", || (held_clients(&mut hold) == 1).then_some(()));
    thread::sleep(LEASE);
    assert_eq!(connects(&lab, (POD_V4, V4_ONLY), AT_ONCE), Err(ErrorKind::TimedOut));
    hold.release().unwrap();
    for client in nobody {
        assert!(client.join().unwrap().is_err());
    }
}

#[test]
fn a_hold_that_is_not_renewed_ends_while_the_old_process_listens_and_refuses_nobody() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.start_server();
    let netns = open(&lab);
    let mut hold = SynHold::open(&netns).unwrap();
    let leased = HoldSpec { lease: LEASE, is_settled: false, ..spec(&[DUAL_STACK, V4_ONLY]) };
    hold.begin(leased.clone()).unwrap();
    let begin = Instant::now();
    let clients = connect_all(&lab, &[(POD_V4, DUAL_STACK).into(), (POD_V6, DUAL_STACK).into()]);
    for client in clients {
        client.join().unwrap().unwrap();
    }
    let waited = begin.elapsed();
    assert!(waited >= AT_ONCE && waited < spec(&[]).cap, "by their repetition: {waited:?}");
    assert!(!hold.renew().unwrap(), "it is told that somebody has come");

    // Renewed it holds as before.
    hold.begin(leased.clone()).unwrap();
    thread::sleep(LEASE * 2);
    assert!(!hold.settle().unwrap());
    assert_eq!(connects(&lab, (POD_V4, DUAL_STACK), AT_ONCE), Err(ErrorKind::TimedOut));

    // Nobody is let in where nobody listens.
    hold.begin(leased).unwrap();
    server.kill();
    thread::sleep(LEASE * 2);
    for address in [SocketAddr::from((POD_V4, DUAL_STACK)), (POD_V6, DUAL_STACK).into(), (POD_V4, V4_ONLY).into()] {
        assert_eq!(connects(&lab, address, AT_ONCE), Err(ErrorKind::TimedOut), "{address}");
    }
    let _server = lab.start_server();
    assert_eq!(connects(&lab, (POD_V4, DUAL_STACK), AT_ONCE), Ok(()), "the successor");
}

/// A client comes every two milliseconds, and the hold is renewed as fast as it goes. On a machine that is busy with something else
/// this thread may be late: then it is tried again.
#[test]
fn renewals_leave_no_gap_and_the_cap_ends_a_hold_that_is_renewed() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let mut hold = SynHold::open(&netns).unwrap();
    let cap = Duration::from_secs(3);
    let renewals = eventually("a hold that is renewed in time", || {
        hold.begin(HoldSpec { cap, lease: LEASE, is_settled: false, ..spec(&[DUAL_STACK]) }).unwrap();
        let before = opened(&netns);
        let load = lab.in_client(|| Load::start((POD_V4, DUAL_STACK).into(), 500, PATIENCE));
        let since = eventually("the first client is held", || hold.held().unwrap()).since;
        let begin = Instant::now().checked_sub(since).unwrap();
        let (mut renewals, mut came, mut is_kept) = (0_u32, 0, true);
        while is_kept && begin.elapsed() < cap * 9 / 10 {
            is_kept = hold.renew().unwrap();
            came = opened(&netns) - before;
            renewals += 1;
            // A third of them in a burst, the others as an agent does it.
            if renewals % 300 > 100 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let is_in_time = is_kept && begin.elapsed() < cap * 99 / 100;
        if is_in_time {
            assert_eq!(came, 0, "of {} clients, {renewals} renewals", load.begun());
            eventually("the cap lets clients in", || {
                hold.renew().unwrap();
                (opened(&netns) > before).then_some(())
            });
        }
        hold.release().unwrap();
        // All who waited come in at once, more than the queue takes: what becomes of them is not looked at here.
        load.finish();
        is_in_time.then_some(renewals)
    });
    println!("{renewals} renewals");
    assert!(renewals > 100, "{renewals}");
}
