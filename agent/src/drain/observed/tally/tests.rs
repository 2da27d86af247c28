use hitless_api::{DrainOverrides, DrainSpec, PortDrain};
use hitless_kernel::TcpInfo;

use super::*;

const HTTP: u16 = 80;
const OTHER: u16 = 5432;

/// A connection to this port that has been idle for so many milliseconds since its last answer.
fn idle(cookie: u64, port: u16, milliseconds: u64) -> Connection {
    let since = Duration::from_millis(milliseconds);
    let info = TcpInfo {
        last_data_sent: since,
        last_data_recv: since + Duration::from_millis(4),
        last_ack_recv: since,
        bytes_acked: 10,
        bytes_received: 10,
        notsent_bytes: 0,
        timeouts: 0,
    };
    Connection {
        local: ([10, 0, 0, 2], port).into(),
        peer: ([10, 0, 0, 1], 50_000).into(),
        state: TcpState::Established,
        inode: 5,
        cookie,
        rqueue: 0,
        wqueue: 0,
        shut_for_reading: false,
        info: Some(info),
    }
}

fn busy(cookie: u64) -> Connection {
    Connection { rqueue: 1, ..idle(cookie, HTTP, 9000) }
}

fn target(stage: Stage) -> Target {
    let ports = vec![PortDrain { port: HTTP, treat: PortTreatment::Http1 }];
    let drain = DrainSpec { ports, ..DrainSpec::default() };
    Target {
        stage,
        drain,
        probe_periods: Vec::new(),
        containers: Vec::new(),
        must_listen: false,
        sctp: None,
        udp: false,
    }
}

/// What two looks in a row see in the second one.
struct Looker {
    answers: Answers,
    nodes: NodeConnections,
    count: Count,
    wanted: DrainOverrides,
}

impl Looker {
    fn new() -> Self {
        Self::of(DrainOverrides::default())
    }

    /// Of a pod whose owner wants this.
    fn of(wanted: DrainOverrides) -> Self {
        Self { answers: Answers::default(), nodes: NodeConnections::default(), count: Count::default(), wanted }
    }

    /// All of them have been opened by processes of the node.
    fn look(&mut self, stage: Stage, closing: Option<usize>, connections: &[Connection], among: Among) -> Ends {
        let (mut target, mut origin) = (target(stage), |_: &Connection| Origin::Node);
        let DrainOverrides { stragglers, straggler_after_seconds, .. } = self.wanted;
        let drain = &mut target.drain;
        drain.stragglers = stragglers.unwrap_or(drain.stragglers);
        drain.straggler_after_seconds = straggler_after_seconds.unwrap_or(drain.straggler_after_seconds);
        let now = Instant::now();
        let mut tally = Tally::begin(&target, None, closing, now, &mut self.answers, &mut self.nodes, &mut origin);
        for connection in connections {
            tally.add(connection, among);
        }
        tally.end(Duration::ZERO, &mut self.count).ends
    }
}

fn cookies(connections: &[Connection]) -> Vec<u64> {
    connections.iter().map(|connection| connection.cookie).collect()
}

#[test]
fn in_a_crowd_nobody_passes_for_a_probe() {
    let mut looker = Looker::new();
    looker.look(Stage::Draining, None, &[], Among::Few);
    looker.look(Stage::Draining, None, &[idle(1, OTHER, 0)], Among::Few);
    assert_eq!((looker.count.inbound, looker.count.perhaps_probes), (0, 1));
    looker.look(Stage::Draining, None, &[idle(1, OTHER, 0), idle(2, OTHER, 0)], Among::Crowd);
    assert_eq!((looker.count.inbound, looker.count.perhaps_probes), (2, 0));
    looker.look(Stage::Draining, None, &[idle(2, OTHER, 0)], Among::Few);
    assert_eq!((looker.count.inbound, looker.count.perhaps_probes), (1, 0), "it may have been there for long");
}

#[test]
fn in_a_crowd_only_who_has_been_silent_for_longer_than_any_pause_of_an_answer_is_closed() {
    let connections = [idle(1, HTTP, 1499), idle(2, HTTP, 1500), busy(3), idle(4, OTHER, 9000), idle(5, HTTP, 2000)];
    let closed = |closing| {
        let mut looker = Looker::new();
        let ends = looker.look(Stage::Draining, closing, &connections, Among::Crowd);
        assert_eq!(looker.count.inbound, 5, "all are waited for");
        cookies(&ends.http1)
    };
    assert_eq!(closed(None), [0; 0], "not quiet yet");
    assert_eq!(closed(Some(0)), [2, 5]);
    assert_eq!(closed(Some(1)), [5], "the first could not be closed");
}

#[test]
fn of_a_crowd_no_more_than_a_batch_is_kept_and_all_are_counted() {
    let connections: Vec<Connection> = (0..2 * BATCH).map(|cookie| idle(cookie as u64, HTTP, 9000)).collect();
    let mut looker = Looker::new();
    let ends = looker.look(Stage::Destroying, Some(0), &connections, Among::Crowd);
    assert_eq!((ends.http1.len(), ends.waited.len(), ends.is_last_batch), (BATCH, BATCH, false));
    assert_eq!(looker.count.inbound, u32::try_from(2 * BATCH).unwrap());
    let ends = looker.look(Stage::Draining, Some(BATCH + 1), &connections, Among::Crowd);
    assert_eq!((ends.http1.len(), ends.waited.len(), ends.is_last_batch), (BATCH - 1, 0, true));
}

#[test]
fn a_silent_connection_is_waited_for_as_long_as_its_owner_has_said() {
    let waited = |stragglers, straggler_after_seconds| {
        let mut looker =
            Looker::of(DrainOverrides { stragglers, straggler_after_seconds, ..DrainOverrides::default() });
        looker.look(Stage::Draining, Some(0), &[idle(1, OTHER, 10_000)], Among::Crowd);
        looker.count.inbound
    };
    assert_eq!(waited(None, None), 0, "nobody has said anything");
    assert_eq!([waited(None, Some(60)), waited(None, Some(20))], [1, 1]);
    assert_eq!([waited(Some(StragglerPolicy::Wait), None), waited(Some(StragglerPolicy::Close), None)], [1, 0]);
}

/// The same from another container of the pod.
fn sibling(connection: &Connection) -> Connection {
    Connection { peer: ([127, 0, 0, 6], 50_000).into(), ..connection.clone() }
}

#[test]
fn all_connections_of_siblings_are_waited_for_as_long_as_one_has_a_request_in_flight() {
    let (quiet, asked) = (sibling(&idle(1, HTTP, 2000)), sibling(&busy(2)));
    let recent = sibling(&idle(3, HTTP, 20));
    let look = |connections: &[Connection]| {
        let mut looker = Looker::new();
        let ends = looker.look(Stage::Destroying, Some(0), connections, Among::Few);
        assert_eq!(cookies(&ends.siblings), cookies(connections), "closed when the containers are replaced");
        assert_eq!((cookies(&ends.http1), looker.count.closed), (vec![], 0), "and not before");
        (looker.count.idle, looker.count.busy, cookies(&ends.waited))
    };
    assert_eq!(look(&[quiet.clone(), asked.clone()]), (1, 1, vec![1, 2]));
    assert_eq!(look(&[quiet.clone(), recent]), (2, 0, vec![1, 3]), "an answer in pieces, for all anybody knows");
    assert_eq!(look(&[quiet]), (0, 0, vec![]));
}

#[test]
fn other_clients_are_waited_for_and_closed_whatever_siblings_do() {
    let connections = [sibling(&idle(1, HTTP, 2000)), idle(2, HTTP, 2000)];
    let mut looker = Looker::new();
    let ends = looker.look(Stage::Draining, Some(0), &connections, Among::Few);
    assert_eq!((looker.count.inbound, cookies(&ends.http1)), (1, vec![2]));
}

fn asked(cookie: u64) -> Connection {
    Connection { shut_for_reading: true, ..idle(cookie, HTTP, 9000) }
}

#[test]
fn who_was_asked_to_end_is_not_asked_again_and_is_reset_when_its_time_is_over() {
    let mut looker = Looker::new();
    let connections = [asked(1), idle(2, HTTP, 9000), Connection { shut_for_reading: true, ..idle(3, OTHER, 9000) }];
    for among in [Among::Few, Among::Crowd] {
        let ends = looker.look(Stage::Draining, Some(0), &connections, among);
        assert_eq!((cookies(&ends.http1), cookies(&ends.overdue)), (vec![2], vec![]));
        assert_eq!(looker.count.inbound, 3, "all are waited for");
    }
    let ends = looker.look(Stage::Replacing, Some(0), &connections, Among::Few);
    assert_eq!(
        cookies(&ends.overdue),
        [1],
        "its server is about to be stopped; what travels on the other port nobody has asked"
    );
}
