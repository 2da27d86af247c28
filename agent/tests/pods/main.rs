//! The threads that hold and count, against real pods: network namespaces with a server in a control group named as the
//! kubelet names a pod's, in the laboratory of the kernel crate. Needs root; without it the tests are left out with a note, or
//! fail if `CI` is set.
//!
//! Not under the usual test harness, because this program is its own server when it is called with `serve`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test that shares its laboratory with the kernel crate"
)]

#[path = "../../../crates/kernel/tests/pods/lab.rs"]
mod lab;
#[path = "../../../crates/kernel/tests/pods/load.rs"]
mod load;
#[path = "../../../crates/kernel/tests/pod-server/main.rs"]
mod server;

mod deletion;
mod leaving;
mod losses;
mod siblings;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hitless_agent::decision::{Direction, Hold};
use hitless_agent::drain::hold::{self, HoldThreads};
use hitless_agent::view::{Held, Observation, PreStop, Stage};
use hitless_api::{DrainSpec, PortDrain, PortTreatment, StragglerPolicy};
use hitless_kernel::{Activity, HoldSpec, PodNetns, SynHold, classify, list_holds};
use tokio::sync::Notify;

use lab::{Lab, SERVICE_V4, Server, eventually};
use load::{Load, failures, longest};

/// Where the server answers at once.
const PORT: u16 = 8080;
/// Where it accepts nobody.
const QUEUE_ONLY: u16 = 8082;
const PATIENCE: Duration = Duration::from_secs(15);
/// After which a process that does not notice SIGTERM is killed.
const GRACE: Duration = Duration::from_millis(1500);
/// Who is not replayed comes again after a second.
const REPETITION: Duration = Duration::from_secs(1);

type Test = fn(&Lab);

fn main() {
    if std::env::args().nth(1).is_some_and(|argument| argument == "serve") {
        return server::main();
    }
    let tests: [(&str, Test); 25] = [
        ("a restart under a hold fails no client and closes the idle ones kindly", restart),
        ("an operation that ends before the patch lets clients in by replay", cancel),
        ("a restart that is too slow lets clients in at the cap", overrun),
        ("who serves on until it is killed is held for once more, and fails no client", deaf),
        ("requests in flight are waited for, and given up or reset when their time is over", stragglers),
        ("who does not end when asked to is reset before its server is stopped, and when it serves on", held_on),
        ("requests that outlast a hold are waited for with nobody held", long),
        ("clients of a pod that serves on in its preStop hook are held around its end only", serves_on),
        ("what keeps a process alive that listens no more is ended before the cap", keeps_it_alive),
        ("clients are held for as long as requests in flight take, and afterwards", renewed),
        ("what a killed agent has left behind is removed when its time is over", leftover),
        ("who comes to a pod that has left waits for its new process, and nothing is told", leaving::late_comers),
        ("a pod that leaves: idle ones are closed, others reset, and the new listener is seen", leaving::leave),
        ("connections that are reset when Ready falls are told of, and closed ones are not", losses::reset),
        ("connections that are given to another pod when Ready falls are told of", losses::given_to_another),
        ("who does not end when asked to is reset", leaving::upgraded),
        ("an answer in pieces that is asked for late is not broken off", leaving::late),
        ("connections that nobody uses are not waited for where that is wished", leaving::unused),
        ("a pod whose sockets can't be seen is neither drained nor held", leaving::silent),
        ("a pod that serves by SCTP, too, is neither drained nor held", leaving::sctp),
        ("what a sibling has asked for is answered before the containers are replaced", siblings::held),
        ("a pod that leaves waits for its siblings' requests, and for none that it has sent itself", siblings::leaving),
        ("connections to a listener that stays are not waited for", siblings::staying),
        ("a pod that is deleted drains while its preStop hook waits", deletion::deletion),
        ("a pod that is not there is a failure and never a hold", missing),
    ];
    // As with any test program: those whose name has this.
    let part = std::env::args().nth(1).unwrap_or_default();
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(&part)) {
        let Some(lab) = Lab::routed() else { return };
        let start = Instant::now();
        test(&lab);
        println!("{name}: ok ({} ms)", start.elapsed().as_millis());
    }
}

fn drain() -> DrainSpec {
    let port = |port, treat| PortDrain { port, treat };
    let ports = vec![port(PORT, PortTreatment::Http1), port(QUEUE_ONLY, PortTreatment::Ignore)];
    DrainSpec { ports, hold_cap_milliseconds: 10_000, ..DrainSpec::default() }
}

struct Shop<'a> {
    lab: &'a Lab,
    holds: HoldThreads,
    drain: DrainSpec,
    has_left: bool,
    must_listen: bool,
    sctp: Option<u16>,
    patience: Duration,
    pre_stop: Option<PreStop>,
}

impl<'a> Shop<'a> {
    fn new(lab: &'a Lab, drain: DrainSpec) -> Self {
        Self {
            lab,
            holds: HoldThreads::new("/proc".into(), Arc::new(Notify::new())),
            drain,
            has_left: false,
            must_listen: false,
            sctp: None,
            patience: Duration::ZERO,
            pre_stop: None,
        }
    }

    fn set_target(&self, hold: Hold) {
        let containers = vec![self.lab.container_id.clone()];
        let drain = self.drain.clone();
        let (unless_serving, has_left) = (false, self.has_left);
        let (must_listen, sctp, grace) = (self.must_listen, self.sctp, GRACE);
        let (patience, pre_stop) = (self.patience, self.pre_stop);
        let target = hold::Target {
            hold,
            containers,
            unless_serving,
            has_left,
            must_listen,
            sctp,
            drain,
            patience,
            pre_stop,
            grace,
        };
        self.holds.set_targets(BTreeMap::from([(self.lab.pod_uid.clone(), target)]));
    }

    fn held(&self) -> Option<Held> {
        match self.holds.observations().remove(&self.lab.pod_uid)? {
            Observation::Held(held) => Some(held),
            other => panic!("{other:?}"),
        }
    }

    fn until(&self, what: &str, is_so: impl Fn(&Stage) -> bool) -> Held {
        eventually(what, || {
            let held = self.held()?;
            assert!(!matches!(held.stage, Stage::Failed(_)), "{held:?}");
            is_so(&held.stage).then_some(held)
        })
    }

    /// Until requests in flight are answered, or have had their time; how many are left.
    fn begin(&self) -> u32 {
        self.set_target(Hold::Prepare(Direction::Forward));
        self.until("everything is open", |stage| matches!(stage, Stage::Prepared(ports) if *ports > 0));
        self.set_target(Hold::Begin(Direction::Forward));
        let held = self.until("the pod is settled", |stage| matches!(stage, Stage::Settled(_)));
        let Stage::Settled(left) = held.stage else { panic!("{held:?}") };
        left
    }

    fn released(&self) -> Held {
        self.until("clients are let in", |stage| *stage == Stage::Released)
    }
}

fn netns(lab: &Lab) -> PodNetns {
    PodNetns::open(Path::new("/proc"), &lab.pod_uid).unwrap()
}

fn connect(lab: &Lab) -> TcpStream {
    lab.in_client(|| TcpStream::connect_timeout(&SocketAddr::from((SERVICE_V4, PORT)), PATIENCE).unwrap())
}

/// Clients that connect now; each says how long that took.
fn newcomers(lab: &Lab, number: usize) -> Vec<JoinHandle<io::Result<Duration>>> {
    lab.in_client(|| {
        let connect = || {
            let start = Instant::now();
            TcpStream::connect_timeout(&SocketAddr::from((SERVICE_V4, PORT)), PATIENCE).map(|_| start.elapsed())
        };
        (0..number).map(|_| thread::spawn(connect)).collect()
    })
}

fn ask(mut client: &TcpStream, request: &str) {
    writeln!(client, "{request}").unwrap();
}

fn answer(client: &TcpStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).map(|_| line)
}

/// A request whose processing has begun, and which ends when the server is told so.
fn begin_slow_request(lab: &Lab, client: &TcpStream) {
    ask(client, "slow");
    let netns = netns(lab);
    let address = client.local_addr().unwrap().port();
    eventually("the request is read", || {
        let connections = netns.connections().unwrap().inbound;
        // Masquerade keeps the port if it is free.
        let connection = connections.iter().find(|connection| connection.peer.port() == address)?;
        let age = connection.info?.last_data_recv;
        (connection.rqueue == 0 && age >= Duration::from_millis(30)).then_some(())
    });
}

fn restart(lab: &Lab) {
    let server = lab.start_server();
    let load = lab.in_client(|| Load::start(SocketAddr::from((SERVICE_V4, PORT)), 300, PATIENCE));
    eventually("clients come", || (load.begun() > 300).then_some(()));
    let mut idle = connect(lab);
    ask(&idle, "fast");
    assert_eq!(answer(&idle).unwrap(), "done\n");

    let shop = Shop::new(lab, drain());
    let start = Instant::now();
    assert_eq!(shop.begin(), 0, "short requests are answered in time");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "a clean end");
    server.kill();
    thread::sleep(Duration::from_millis(200));
    assert!(shop.held().unwrap().listening.is_none());
    let _server: Server = lab.start_server();
    let held = shop.released();
    let lasted = start.elapsed();
    eventually("more clients come", || (load.begun() > 900).then_some(()));
    let visits = load.finish();

    assert_eq!(failures(&visits).len(), 0, "{:?} of {}", failures(&visits).first(), visits.len());
    assert!(longest(&visits) < lasted + REPETITION * 9 / 10, "someone was not replayed");
    let numbers = held.numbers;
    assert!(numbers.closed >= 1 && numbers.connections >= 1, "{numbers:?}");
    assert!(numbers.waited > 0 && numbers.replayed == numbers.waited && !numbers.expired, "{numbers:?}");
    assert!(u128::from(numbers.longest_milliseconds) <= lasted.as_millis() + 20, "{numbers:?}");
    let listening = held.listening.unwrap();
    let gap = listening.at.duration_since(listening.killed.unwrap());
    assert!((200..lasted.as_millis()).contains(&gap.as_millis().unsigned_abs()), "{gap}");

    // The way back, on the same thread.
    shop.set_target(Hold::Prepare(Direction::Back));
    let is_back = |held: &Held| held.direction == Direction::Back && matches!(held.stage, Stage::Prepared(_));
    eventually("ready for the way back", || shop.held().filter(is_back));
    shop.holds.set_targets(BTreeMap::new());
    assert_eq!(shop.held(), None);
    assert_eq!(list_holds(&netns(lab)).unwrap(), [""; 0]);
}

fn cancel(lab: &Lab) {
    let _server = lab.start_server();
    let shop = Shop::new(lab, drain());
    assert_eq!(shop.begin(), 0);
    let clients = newcomers(lab, 3);
    thread::sleep(Duration::from_millis(100));
    assert!(clients.iter().all(|client| !client.is_finished()), "they are held");
    shop.holds.set_targets(BTreeMap::new());
    for client in clients {
        assert!(client.join().unwrap().unwrap() < REPETITION, "by replay");
    }
    eventually("the block is gone", || list_holds(&netns(lab)).unwrap().is_empty().then_some(()));

    // The agent ends in order: the same.
    assert_eq!(shop.begin(), 0);
    let clients = newcomers(lab, 3);
    thread::sleep(Duration::from_millis(100));
    drop(shop);
    for client in clients {
        assert!(client.join().unwrap().unwrap() < REPETITION, "by replay");
    }
    assert_eq!(list_holds(&netns(lab)).unwrap(), [""; 0]);
}

fn overrun(lab: &Lab) {
    let _server = lab.start_server();
    let shop = Shop::new(lab, DrainSpec { hold_cap_milliseconds: 400, ..drain() });
    assert_eq!(shop.begin(), 0);
    let clients = newcomers(lab, 3);
    let held = shop.released();
    assert!(held.numbers.expired && held.listening.is_none(), "{held:?}");
    assert!((400..600).contains(&held.numbers.longest_milliseconds), "{held:?}");
    for client in clients {
        // The old process still listens.
        assert!(client.join().unwrap().unwrap() < REPETITION);
    }
}

fn deaf(lab: &Lab) {
    let server = lab.start_server();
    let load = lab.in_client(|| Load::start(SocketAddr::from((SERVICE_V4, PORT)), 300, PATIENCE));
    eventually("clients come", || (load.begun() > 100).then_some(()));
    let shop = Shop::new(lab, DrainSpec { hold_cap_milliseconds: 1000, ..drain() });
    assert_eq!(shop.begin(), 0);
    let first = shop.released();
    assert!(first.numbers.expired && first.listening.is_none(), "{first:?}");
    assert_eq!(list_holds(&netns(lab)).unwrap(), [""; 0]);

    eventually("clients are held again", || (!list_holds(&netns(lab)).unwrap().is_empty()).then_some(()));
    // On a busy machine the old process is behind with those who came before.
    eventually("who came before is served", || netns(lab).connections().unwrap().inbound.is_empty().then_some(()));
    server.kill();
    thread::sleep(Duration::from_millis(100));
    let _server = lab.start_server();
    let second = eventually("the new listener is seen", || shop.held().filter(|held| held.listening.is_some()));
    eventually("clients are let in", || list_holds(&netns(lab)).unwrap().is_empty().then_some(()));
    let visits = load.finish();
    assert_eq!(failures(&visits).len(), 0, "{:?} of {}", failures(&visits).first(), visits.len());
    assert!(longest(&visits) < Duration::from_millis(1600), "nobody waits for both: {:?}", longest(&visits));
    assert!(second.numbers.waited > first.numbers.waited, "{first:?} {second:?}");
}

fn stragglers(lab: &Lab) {
    let mut server = lab.start_server();
    let slow = connect(lab);
    begin_slow_request(lab, &slow);
    let short = DrainSpec { hold_cap_milliseconds: 1000, ..drain() };
    let shop = Shop::new(lab, short.clone());
    let start = Instant::now();
    assert_eq!(shop.begin(), 1);
    assert!(start.elapsed() >= Duration::from_millis(500), "half of the cap");
    drop(shop);
    server.command("release");
    assert_eq!(answer(&slow).unwrap(), "done\n", "it was left alone");

    begin_slow_request(lab, &slow);
    let shop = Shop::new(lab, DrainSpec { stragglers: StragglerPolicy::Destroy, ..short });
    assert_eq!(shop.begin(), 0);
    assert_eq!(shop.held().unwrap().numbers.destroyed, 1);
    assert_eq!(answer(&slow).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

/// A websocket on a port of HTTP/1.
fn held_on(lab: &Lab) {
    let _server = lab.start_server();
    let upgraded = || {
        let client = connect(lab);
        ask(&client, "upgrade");
        assert_eq!(answer(&client).unwrap(), "done\n");
        // Of an answer within the same tick as its request the kernel does not tell which was first.
        eventually("it is idle", || {
            let inbound = netns(lab).connections().unwrap().inbound;
            let port = client.local_addr().unwrap().port();
            let found = inbound.iter().find(|connection| connection.peer.port() == port)?;
            if classify(found) == Activity::Idle {
                return Some(());
            }
            ask(&client, "fast");
            assert_eq!(answer(&client).unwrap(), "done\n");
            None
        });
        client
    };
    let is_reset =
        |mut client: TcpStream| assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let short = DrainSpec { hold_cap_milliseconds: 1000, ..drain() };
    let (client, shop) = (upgraded(), Shop::new(lab, short));
    assert_eq!(shop.begin(), 0);
    let numbers = shop.held().unwrap().numbers;
    assert_eq!((numbers.closed, numbers.destroyed), (0, 1), "{numbers:?}");
    is_reset(client);
    drop(shop);

    let (client, shop) = (upgraded(), Shop::new(lab, drain()));
    shop.set_target(Hold::Prepare(Direction::Forward));
    shop.until("everything is open", |stage| matches!(stage, Stage::Prepared(ports) if *ports > 0));
    shop.set_target(Hold::Begin(Direction::Forward));
    shop.until("it is waited for", |stage| matches!(stage, Stage::Settling(1)));
    thread::sleep(Duration::from_millis(200));
    shop.holds.set_targets(BTreeMap::new());
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    is_reset(client);
}

/// A request that takes longer than clients can be held is waited for with nobody held.
fn long(lab: &Lab) {
    let mut server = lab.start_server();
    let slow = connect(lab);
    begin_slow_request(lab, &slow);
    let short = DrainSpec { hold_cap_milliseconds: 1000, ..drain() };
    let shop = Shop { patience: Duration::from_secs(20), ..Shop::new(lab, short) };
    shop.set_target(Hold::Prepare(Direction::Forward));
    shop.until("everything is open", |stage| matches!(stage, Stage::Prepared(ports) if *ports > 0));
    shop.set_target(Hold::Begin(Direction::Forward));
    shop.until("a request is in flight", |stage| matches!(stage, Stage::Settling(_)));
    eventually("nobody is held", || list_holds(&netns(lab)).unwrap().is_empty().then_some(()));
    for client in newcomers(lab, 3) {
        assert!(client.join().unwrap().unwrap() < REPETITION, "the old process serves them");
    }
    assert!(matches!(shop.held().unwrap().stage, Stage::Settling(1)), "{:?}", shop.held());
    server.command("release");
    assert_eq!(answer(&slow).unwrap(), "done\n", "it had its time");
    let held = shop.until("it has been answered", |stage| matches!(stage, Stage::Settled(_)));
    assert_eq!(held.stage, Stage::Settled(0));
    assert!(!list_holds(&netns(lab)).unwrap().is_empty(), "clients are held for the image patch");
}

/// The old process serves on in its preStop hook: clients are held around its end, and not before.
fn serves_on(lab: &Lab) {
    let server = lab.start_server();
    let load = lab.in_client(|| Load::start(SocketAddr::from((SERVICE_V4, PORT)), 300, PATIENCE));
    eventually("clients come", || (load.begun() > 100).then_some(()));
    let pre_stop = Some(PreStop::Sleeps(Duration::from_secs(1)));
    let shop = Shop { pre_stop, ..Shop::new(lab, DrainSpec { hold_cap_milliseconds: 1000, ..drain() }) };
    assert_eq!(shop.begin(), 0);
    assert!(list_holds(&netns(lab)).unwrap().is_empty(), "nobody is held for the image patch");
    shop.set_target(Hold::Continue(Direction::Forward));
    let patched = Instant::now();
    eventually("clients are held", || (!list_holds(&netns(lab)).unwrap().is_empty()).then_some(()));
    assert!((600..1000).contains(&patched.elapsed().as_millis()), "{:?}: not before", patched.elapsed());
    eventually("who came before is served", || netns(lab).connections().unwrap().inbound.is_empty().then_some(()));
    server.kill();
    let _server = lab.start_server();
    eventually("the new listener is seen", || shop.held().filter(|held| held.listening.is_some()));
    eventually("clients are let in", || list_holds(&netns(lab)).unwrap().is_empty().then_some(()));
    let visits = load.finish();
    assert_eq!(failures(&visits).len(), 0, "{:?} of {}", failures(&visits).first(), visits.len());
    assert!(longest(&visits) < Duration::from_millis(900), "{:?}", longest(&visits));
}

/// As graceful servers do, the old process closes its listener and waits for a request.
fn keeps_it_alive(lab: &Lab) {
    let mut server = lab.start_server();
    let slow = connect(lab);
    begin_slow_request(lab, &slow);
    let shop = Shop::new(lab, DrainSpec { hold_cap_milliseconds: 2000, ..drain() });
    assert_eq!(shop.begin(), 1);
    server.command("deafen");
    let clients = newcomers(lab, 3);
    let start = Instant::now();
    assert_eq!(answer(&slow).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(start.elapsed() >= Duration::from_millis(1400), "it had its time: {:?}", start.elapsed());
    server.kill();
    let _server = lab.start_server();
    for client in clients {
        // Nobody is refused.
        client.join().unwrap().unwrap();
    }
    let held = shop.released();
    assert!(held.numbers.destroyed == 1 && !held.numbers.expired && held.listening.is_some(), "{held:?}");
}

/// Settling takes longer than an agent's word that it lives, and so does what comes after it.
fn renewed(lab: &Lab) {
    let mut server = lab.start_server();
    let slow = connect(lab);
    let settle = |patience: Duration| {
        begin_slow_request(lab, &slow);
        let shop = Shop::new(lab, drain());
        shop.set_target(Hold::Prepare(Direction::Forward));
        shop.until("everything is open", |stage| matches!(stage, Stage::Prepared(ports) if *ports > 0));
        shop.set_target(Hold::Begin(Direction::Forward));
        shop.until("a request is in flight", |stage| matches!(stage, Stage::Settling(_)));
        let clients = newcomers(lab, 3);
        let held = shop.until("the time is over", |stage| matches!(stage, Stage::Settled(_)));
        assert_eq!(held.stage, Stage::Settled(1), "new clients are held, and not in flight");
        thread::sleep(patience);
        assert!(clients.iter().all(|client| !client.is_finished()), "they are held");
        drop(shop);
        for client in clients {
            assert!(client.join().unwrap().unwrap() >= REPETITION + patience);
        }
    };
    settle(Duration::ZERO);
    server.command("release");
    assert_eq!(answer(&slow).unwrap(), "done\n");
    settle(Duration::from_secs(2));
}

/// A hold of a process that was killed.
fn leave_behind(netns: &PodNetns) {
    let mut hold = SynHold::open(netns).unwrap();
    let long = Duration::from_mins(1);
    hold.begin(HoldSpec {
        ports: vec![PORT],
        cap: long,
        expires_after: long,
        lease: long,
        is_settled: true,
        exempt: Vec::new(),
    })
    .unwrap();
    std::mem::forget(hold);
}

fn leftover(lab: &Lab) {
    let _server = lab.start_server();
    let netns = netns(lab);
    leave_behind(&netns);
    let shop = Shop::new(lab, DrainSpec { hold_cap_milliseconds: 300, ..drain() });
    shop.set_target(Hold::Continue(Direction::Forward));
    eventually("the block is gone", || list_holds(&netns).unwrap().is_empty().then_some(()));
    assert_eq!(shop.held(), None, "nothing is known of that Hold");
    for client in newcomers(lab, 1) {
        client.join().unwrap().unwrap();
    }
}

fn missing(lab: &Lab) {
    let shop = Shop::new(lab, drain());
    shop.set_target(Hold::Prepare(Direction::Forward));
    let held = eventually("it is told", || shop.held());
    assert!(matches!(&held.stage, Stage::Failed(why) if why.contains("no process")), "{held:?}");
}
