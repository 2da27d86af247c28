//! Holding new connections while the server is replaced.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hitless_kernel::{HoldSpec, KernelError, ListenWatch, PodNetns, Released, SynHold, list_holds, sweep_holds};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::thread::CapabilitySet;

use crate::lab::{CLIENT_V4, CLIENT_V6, Lab, POD_V4, POD_V6, SERVICE_V4, SERVICE_V6, eventually};
use crate::load::{Load, Visit, failures, longest};
use crate::ports::{DUAL_STACK, QUEUE_ONLY, V4_ONLY};
use crate::{answer, ask, open, start_ready, without};

/// Clients that are let through or held for good wait no longer than this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// The first repetition of a SYN comes after a second: who was not replayed waits at least that long.
pub(crate) const REPETITION: Duration = Duration::from_secs(1);
const RATE: u32 = 500;

pub(crate) fn spec(ports: &[u16]) -> HoldSpec {
    HoldSpec {
        ports: ports.to_vec(),
        cap: Duration::from_secs(10),
        expires_after: Duration::from_secs(30),
        lease: Duration::from_mins(1),
        is_settled: true,
        exempt: Vec::new(),
    }
}

pub(crate) fn held_clients(hold: &mut SynHold) -> usize {
    hold.held().unwrap().map_or(0, |held| held.clients)
}

/// Clients that try to connect, each on a thread of its own in the client's namespace.
pub(crate) fn connect_all(lab: &Lab, servers: &[SocketAddr]) -> Vec<thread::JoinHandle<io::Result<TcpStream>>> {
    lab.in_client(|| {
        let connect = |server: SocketAddr| thread::spawn(move || TcpStream::connect_timeout(&server, PATIENCE));
        servers.iter().map(|server| connect(*server)).collect()
    })
}

struct Restart {
    visits: Vec<Visit>,
    released: Released,
    /// From the block to the end of the replay.
    lasted: Duration,
}

/// Replaces the server under load: the way the agent does it.
fn restart_under_load(lab: &Lab, service: IpAddr, gap: Duration, clients: u32, connect_timeout: Duration) -> Restart {
    let server = lab.start_server();
    let netns = open(lab);
    let watch = ListenWatch::note(&netns, &[DUAL_STACK]).unwrap();
    let mut hold = SynHold::open(&netns).unwrap();
    let address = SocketAddr::new(service, DUAL_STACK);
    let load = lab.in_client(|| Load::start(address, RATE, connect_timeout));
    eventually("a third of the clients have come", || (load.begun() > clients / 3).then_some(()));

    let start = Instant::now();
    hold.begin(spec(&[DUAL_STACK])).unwrap();
    assert!(netns.empty_accept_queue(&[DUAL_STACK], PATIENCE).unwrap().is_none());
    eventually("requests in flight are answered", || {
        (netns.counters().unwrap().curr_estab == 0 && netns.connections().unwrap().inbound.is_empty()).then_some(())
    });
    server.kill();
    thread::sleep(gap);
    assert_eq!(watch.missing(&netns).unwrap(), [DUAL_STACK].into());
    let (_server, missing) = thread::scope(|scope| {
        let waiting = scope.spawn(|| watch.wait(&netns, PATIENCE).unwrap());
        (lab.start_server(), waiting.join().unwrap())
    });
    assert!(missing.is_empty(), "{missing:?}");
    let released = hold.release().unwrap();
    let lasted = start.elapsed();

    eventually("all clients have come", || (load.begun() >= clients).then_some(()));
    Restart { visits: load.finish(), released, lasted }
}

fn assert_nobody_noticed_more_than_a_pause(restart: &Restart) {
    let Restart { visits, released, lasted } = restart;
    assert_eq!(failures(visits).len(), 0, "{:?} of {}", failures(visits).first(), visits.len());
    assert!(released.replayed > 0 && released.left == 0 && !released.expired, "{released:?}");
    let longest = longest(visits);
    assert!(longest < *lasted + REPETITION * 9 / 10, "someone was not replayed: {longest:?}, hold {lasted:?}");
}

#[test]
fn a_restart_with_a_short_gap_fails_no_client_through_address_translation() {
    let Some(lab) = Lab::routed() else { return };
    let restart = restart_under_load(&lab, SERVICE_V4.into(), Duration::from_millis(300), 3150, PATIENCE);
    assert!(restart.visits.len() >= 3000);
    assert_nobody_noticed_more_than_a_pause(&restart);
}

#[test]
fn the_same_over_ipv6() {
    let Some(lab) = Lab::routed() else { return };
    let restart = restart_under_load(&lab, SERVICE_V6.into(), Duration::from_millis(300), 3150, PATIENCE);
    assert!(restart.visits.len() >= 3000);
    assert_nobody_noticed_more_than_a_pause(&restart);
}

#[test]
fn a_restart_with_a_gap_of_a_second_fails_no_client_either() {
    let Some(lab) = Lab::routed() else { return };
    let restart = restart_under_load(&lab, SERVICE_V4.into(), Duration::from_secs(1), 3500, PATIENCE);
    assert!(restart.visits.len() >= 3000);
    assert_nobody_noticed_more_than_a_pause(&restart);
}

/// On a machine that is busy with something else the hold can outlast the clients: then it is tried again.
#[test]
fn clients_that_wait_a_second_for_a_connection_get_theirs_after_a_gap_of_800_ms() {
    let Some(lab) = Lab::routed() else { return };
    let restart = eventually("a hold that is shorter than the clients' patience", || {
        let restart =
            restart_under_load(&lab, SERVICE_V4.into(), Duration::from_millis(800), 1200, Duration::from_secs(1));
        (restart.lasted < Duration::from_millis(950)).then_some(restart)
    });
    assert_nobody_noticed_more_than_a_pause(&restart);
}

#[test]
fn clients_of_both_families_and_several_ports_are_held_and_let_in() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let mut hold = SynHold::open(&netns).unwrap();
    let dual_stack_v4 = SocketAddr::from((POD_V4, DUAL_STACK));
    let dual_stack_v6 = SocketAddr::from((POD_V6, DUAL_STACK));
    let v4_only = SocketAddr::from((POD_V4, V4_ONLY));

    hold.begin(spec(&[DUAL_STACK, V4_ONLY])).unwrap();
    assert_eq!(hold.held().unwrap(), None);
    let start = Instant::now();
    let clients = connect_all(&lab, &[dual_stack_v4, dual_stack_v6, v4_only]);
    eventually("all three are held", || (held_clients(&mut hold) == 3).then_some(()));
    assert!(clients.iter().all(|client| !client.is_finished()));
    assert_eq!(netns.connections().unwrap().inbound, [], "nothing has reached the sockets");

    let released = hold.release().unwrap();
    assert_eq!((released.replayed, released.left, released.expired), (3, 0, false), "{released:?}");
    let clock_ticks = Duration::from_millis(20);
    assert!(released.longest.unwrap() <= start.elapsed() + clock_ticks);
    for client in clients {
        let client = client.join().unwrap().unwrap();
        ask(&client, "fast");
        assert_eq!(answer(&client), "done\n");
    }
    assert!(start.elapsed() < REPETITION, "by replay, not by repetition");
    assert_eq!(list_holds(&netns).unwrap(), [""; 0]);
    assert_eq!(hold.release().unwrap(), Released::default(), "asked again it does nothing");
}

#[test]
fn clients_on_the_pods_own_node_and_in_the_pod_are_held_too() {
    let Some(lab) = Lab::routed() else { return };
    let _server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    hold.begin(spec(&[DUAL_STACK])).unwrap();
    let connect = |address| thread::spawn(move || TcpStream::connect_timeout(&address, PATIENCE));
    let through_the_service = SocketAddr::from((SERVICE_V4, DUAL_STACK));
    let clients = [
        lab.in_router(|| connect(through_the_service)),
        lab.in_router(|| connect(SocketAddr::from((POD_V4, DUAL_STACK)))),
        lab.in_pod(|| connect(SocketAddr::from(([127, 0, 0, 1], DUAL_STACK)))),
        lab.in_pod(|| connect("[::1]:8080".parse().unwrap())),
    ];
    eventually("all four are held", || (held_clients(&mut hold) == 4).then_some(()));
    assert_eq!(hold.release().unwrap().replayed, 4);
    for client in clients {
        client.join().unwrap().unwrap();
    }
}

#[test]
fn other_ports_and_exempt_addresses_are_let_through() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    let connect = |address| lab.in_client(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap();

    hold.begin(spec(&[DUAL_STACK])).unwrap();
    connect((POD_V4, V4_ONLY).into());
    hold.begin(HoldSpec { exempt: vec![CLIENT_V4.into()], ..spec(&[DUAL_STACK]) }).unwrap();
    connect((POD_V4, DUAL_STACK).into());
    assert_eq!(hold.held().unwrap(), None);
    let others = connect_all(&lab, &[(POD_V6, DUAL_STACK).into()]);
    eventually("a client of the other family is held", || (held_clients(&mut hold) == 1).then_some(()));
    assert_eq!(hold.release().unwrap().replayed, 1);
    for client in others {
        client.join().unwrap().unwrap();
    }
    hold.begin(HoldSpec { exempt: vec![CLIENT_V6.into()], ..spec(&[DUAL_STACK]) }).unwrap();
    connect((POD_V6, DUAL_STACK).into());
    assert_eq!(hold.held().unwrap(), None);
}

#[test]
fn an_existing_connection_goes_on_and_connection_tracking_stays_off() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let client = lab.in_client(|| TcpStream::connect((POD_V4, DUAL_STACK)).unwrap());
    let tracked = || lab.in_pod(|| fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count").unwrap());
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    let works = || {
        ask(&client, "fast");
        answer(&client) == "done\n"
    };
    assert!(works());
    for _ in 0..3 {
        hold.begin(spec(&[DUAL_STACK])).unwrap();
        assert!(works());
        assert_eq!(tracked().trim(), "0");
        hold.release().unwrap();
        assert!(works());
    }
    assert_eq!(tracked().trim(), "0");
}

#[test]
fn when_nobody_listens_clients_are_left_to_try_again_instead_of_being_refused() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    hold.begin(spec(&[DUAL_STACK])).unwrap();
    server.kill();
    let clients = connect_all(&lab, &[(POD_V4, DUAL_STACK).into()]);
    eventually("the client is held", || (held_clients(&mut hold) == 1).then_some(()));
    let released = hold.release().unwrap();
    assert_eq!((released.replayed, released.left), (0, 1));
    let _server = lab.start_server();
    for client in clients {
        client.join().unwrap().unwrap();
    }
}

#[test]
fn a_dropped_hold_lets_everyone_in() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let mut hold = SynHold::open(&netns).unwrap();
    hold.begin(spec(&[DUAL_STACK])).unwrap();
    assert_eq!(list_holds(&netns).unwrap(), ["hitless-hold"]);
    drop(hold);
    assert_eq!(list_holds(&netns).unwrap(), [""; 0]);
    lab.in_client(|| TcpStream::connect_timeout(&(POD_V4, DUAL_STACK).into(), REPETITION * 9 / 10)).unwrap();
}

#[test]
fn the_cap_counts_from_the_first_held_client_and_nobody_is_held_a_second_time() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    let cap = Duration::from_millis(800);
    hold.begin(HoldSpec { cap, ..spec(&[DUAL_STACK]) }).unwrap();
    thread::sleep(cap * 2);
    let clients = connect_all(&lab, &[(POD_V4, DUAL_STACK).into()]);
    eventually("the block is still there for the first client", || hold.held().unwrap());
    assert!(!clients[0].is_finished());

    eventually("the kernel ends the block", || (hold.held().unwrap()?.since >= cap).then_some(()));
    lab.in_client(|| TcpStream::connect_timeout(&(POD_V4, DUAL_STACK).into(), REPETITION * 9 / 10)).unwrap();
    let released = hold.release().unwrap();
    assert!(released.expired && released.longest >= Some(cap), "{released:?}");
    for client in clients {
        client.join().unwrap().unwrap();
    }
}

/// A hold in a process of its own.
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn start(lab: &Lab, port: u16, cap: Duration, expires_after: Duration) -> Self {
        let limits = [cap, expires_after].map(|limit| limit.as_millis().to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_holder"));
        Self(start_ready(command.args([&lab.pod_uid, &port.to_string()]).args(limits)))
    }
}

impl Drop for Holder {
    /// `SIGKILL`.
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn the_block_of_a_killed_agent_ends_by_its_timer_and_is_swept_away() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let connect = |timeout| lab.in_client(|| TcpStream::connect_timeout(&(POD_V4, DUAL_STACK).into(), timeout));
    let minute = Duration::from_mins(1);

    // A client that is held when the agent dies gets in by its own repetition, once the cap has passed.
    let holder = Holder::start(&lab, DUAL_STACK, Duration::from_millis(1200), minute);
    let held = connect_all(&lab, &[(POD_V4, DUAL_STACK).into()]);
    thread::sleep(Duration::from_millis(100));
    drop(holder);
    assert!(!held[0].is_finished(), "held, and not refused");
    for client in held {
        client.join().unwrap().unwrap();
    }
    assert_eq!(list_holds(&netns).unwrap(), ["hitless-hold"], "an empty shell");
    connect(REPETITION * 9 / 10).unwrap();

    // With no client at all the block ends by its other timer.
    drop(Holder::start(&lab, DUAL_STACK, minute, Duration::from_millis(300)));
    thread::sleep(Duration::from_millis(400));
    connect(REPETITION * 9 / 10).unwrap();

    // And an agent that comes back does not wait for either.
    drop(Holder::start(&lab, DUAL_STACK, minute, minute));
    assert!(connect(REPETITION * 9 / 10).is_err());
    assert_eq!(sweep_holds(&netns).unwrap(), ["hitless-hold"]);
    connect(REPETITION * 9 / 10).unwrap();
    assert_eq!(sweep_holds(&netns).unwrap(), [""; 0]);
}

#[test]
fn orders_that_make_no_sense_are_refused_and_hold_nobody() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns: PodNetns = open(&lab);
    let mut hold = SynHold::open(&netns).unwrap();
    for refused in [
        spec(&[]),
        spec(&(1..=2000).collect::<Vec<_>>()),
        HoldSpec { cap: Duration::ZERO, ..spec(&[80]) },
        HoldSpec { expires_after: Duration::from_micros(999), ..spec(&[80]) },
    ] {
        assert!(hold.begin(refused).is_err());
        assert_eq!(list_holds(&netns).unwrap(), [""; 0]);
    }
    hold.begin(spec(&(8000..9024).collect::<Vec<_>>())).unwrap();
    hold.release().unwrap();
}

/// As an async runtime waits: inside another epoll, which tells of changes only.
#[test]
fn each_new_held_client_is_an_event() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    let runtime = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let changes = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&runtime, &hold, epoll::EventData::new_u64(0), changes).unwrap();
    let is_told = |within| {
        let mut events = Vec::with_capacity(1);
        let within = Timespec { tv_sec: within, tv_nsec: 0 };
        epoll::wait(&runtime, spare_capacity(&mut events), Some(&within)).unwrap() == 1
    };
    hold.begin(spec(&[DUAL_STACK])).unwrap();
    assert!(!is_told(0));
    let mut clients = Vec::new();
    for number in 1..=3 {
        clients.extend(connect_all(&lab, &[(POD_V4, DUAL_STACK).into()]));
        assert!(is_told(10));
        assert_eq!(hold.collect().unwrap(), number);
    }
    hold.release().unwrap();
    for client in clients {
        client.join().unwrap().unwrap();
    }
    let readable = poll(&mut [PollFd::new(&hold, PollFlags::IN)], Some(&Timespec::default()));
    assert_eq!(readable, Ok(0), "a hold that is over sees nothing");
}

#[test]
fn a_server_that_does_not_accept_delays_the_release_for_a_bounded_time() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let mut hold = SynHold::open(&open(&lab)).unwrap();
    hold.begin(spec(&[QUEUE_ONLY])).unwrap();
    let clients = connect_all(&lab, &[(POD_V4, QUEUE_ONLY).into(); 200]);
    eventually("all are held", || (hold.collect().unwrap() == 200).then_some(()));
    let start = Instant::now();
    let released = hold.release().unwrap();
    assert_eq!((released.replayed, released.left), (200, 0));
    assert!(start.elapsed() < PATIENCE / 3, "{:?}", start.elapsed());
    let connected = clients.into_iter().filter_map(|client| client.join().unwrap().ok()).count();
    assert!(connected >= 128, "as many as the queue has room for: {connected}");
}

#[test]
fn without_its_capabilities_a_hold_is_refused_by_name_and_holds_nobody() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let no_raw = without(CapabilitySet::NET_RAW, || SynHold::open(&netns)).unwrap_err();
    assert!(no_raw.to_string().contains("CAP_NET_RAW"), "{no_raw}");
    let no_admin = without(CapabilitySet::NET_ADMIN, || SynHold::open(&netns)).unwrap_err();
    assert!(no_admin.to_string().contains("CAP_NET_ADMIN"), "{no_admin}");
    let no_sweep = without(CapabilitySet::NET_ADMIN, || sweep_holds(&netns)).unwrap_err();
    assert!(no_sweep.to_string().contains("CAP_NET_ADMIN"), "{no_sweep}");

    let mut hold = SynHold::open(&netns).unwrap();
    let refused = without(CapabilitySet::NET_ADMIN, || hold.begin(spec(&[DUAL_STACK]))).unwrap_err();
    assert!(refused.to_string().contains("CAP_NET_ADMIN"), "{refused}");
    assert_eq!(hold.release().unwrap(), Released::default());
    lab.in_client(|| TcpStream::connect_timeout(&(POD_V4, DUAL_STACK).into(), REPETITION * 9 / 10)).unwrap();
}

#[test]
fn blocks_are_listed_while_others_come_and_go() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    let netns = open(&lab);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            let netns = open(&lab);
            while !is_over.load(Ordering::Relaxed) {
                let mut hold = SynHold::open(&netns).unwrap();
                hold.begin(spec(&[V4_ONLY])).unwrap();
            }
        });
        let (begin, mut lists, mut seen) = (Instant::now(), 0, 0);
        let mut list = || {
            while (lists < 2000 || seen == 0) && begin.elapsed() < PATIENCE {
                seen += list_holds(&netns)?.len();
                lists += 1;
            }
            Ok::<_, KernelError>(())
        };
        let listed = list();
        is_over.store(true, Ordering::Relaxed);
        others.join().unwrap();
        listed.unwrap();
        assert!(seen > 0, "nothing came");
    });
}
