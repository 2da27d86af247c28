//! Pods that have left service: how they are looked at, and who comes all the same.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hitless_agent::decision::{Direction, Hold};
use hitless_agent::drain::observed::{self, Stage as Looking};
use hitless_agent::drain::observer::Observer;
use hitless_agent::view::{Count, Observation, Stage};
use hitless_api::{DrainSpec, PortTreatment};
use hitless_kernel::list_holds;
use tokio::sync::Notify;

use super::lab::{Lab, eventually};
use super::{REPETITION, Shop, answer, ask, begin_slow_request, connect, drain, leave_behind, netns, newcomers};

pub(crate) fn late_comers(lab: &Lab) {
    let server = lab.start_server();
    let shop = Shop { has_left: true, ..Shop::new(lab, drain()) };
    shop.set_target(Hold::Prepare(Direction::Forward));
    shop.set_target(Hold::Begin(Direction::Forward));
    let netns = netns(lab);
    eventually("new connections are held", || (!list_holds(&netns).unwrap().is_empty()).then_some(()));
    server.kill();
    let clients = newcomers(lab, 3);
    thread::sleep(Duration::from_millis(100));
    assert!(clients.iter().all(|client| !client.is_finished()), "nobody is refused");
    shop.set_target(Hold::Continue(Direction::Forward));
    let _server = lab.start_server();
    for client in clients {
        assert!(client.join().unwrap().unwrap() < REPETITION, "by replay");
    }
    eventually("the block is gone", || list_holds(&netns).unwrap().is_empty().then_some(()));
    assert_eq!(shop.held(), None);
    shop.holds.set_targets(BTreeMap::new());

    // What an agent that was killed has left is removed at once.
    leave_behind(&netns);
    shop.set_target(Hold::Continue(Direction::Forward));
    eventually("that block is gone", || list_holds(&netns).unwrap().is_empty().then_some(()));
}

/// gVisor's pods, for instance: a count of 0 says nothing, and nobody can be held.
pub(crate) fn silent(lab: &Lab) {
    let _silent = lab.start_silent();
    let looker = Looker { must_listen: true, ..Looker::new(lab) };
    let shop = Shop { must_listen: true, ..Shop::new(lab, drain()) };
    both_fail(&looker, &shop, "another network stack");
    // A worker that listens to nothing, and says so.
    looker.observer.set_targets(BTreeMap::new());
    let looker = Looker::new(lab);
    looker.set_target(Looking::Draining, drain());
    looker.counted("it is drained", |count| count.drained());
}

/// Its TCP listeners are seen, and those of SCTP never are.
pub(crate) fn sctp(lab: &Lab) {
    let _server = lab.start_server();
    let looker = Looker { must_listen: true, sctp: Some(3868), ..Looker::new(lab) };
    let shop = Shop { must_listen: true, sctp: Some(3868), ..Shop::new(lab, drain()) };
    both_fail(&looker, &shop, "port 3868 for SCTP");
}

/// Neither the count nor the Hold succeeds, for this reason.
fn both_fail(looker: &Looker<'_>, shop: &Shop<'_>, words: &str) {
    looker.set_target(Looking::Draining, drain());
    let seen = eventually("the count fails", || match looker.observer.observations().remove(&looker.lab.pod_uid)? {
        // It is about to enter its namespace.
        Observation::Failed(why) if why.contains("no process") || why.contains("node's network namespace") => None,
        other => Some(other),
    });
    assert!(matches!(&seen, Observation::Failed(why) if why.contains(words)), "{seen:?}");
    shop.set_target(Hold::Prepare(Direction::Forward));
    let held = eventually("the Hold fails", || shop.held());
    assert!(matches!(&held.stage, Stage::Failed(why) if why.contains(words)), "{held:?}");
}

/// For a count; what was counted last is in the failure.
const WITHIN: Duration = Duration::from_secs(20);

/// Looks at the pod that leaves.
pub(crate) struct Looker<'a> {
    lab: &'a Lab,
    observer: Observer,
    must_listen: bool,
    sctp: Option<u16>,
}

impl<'a> Looker<'a> {
    pub(crate) fn new(lab: &'a Lab) -> Self {
        let observer = Observer::start("/proc".into(), Arc::new(Notify::new())).unwrap();
        Self { lab, observer, must_listen: false, sctp: None }
    }

    pub(crate) fn set_target(&self, stage: Looking, drain: DrainSpec) {
        self.order_with(stage, drain, vec![]);
    }

    fn order_with(&self, stage: Looking, drain: DrainSpec, probe_periods: Vec<u32>) {
        let containers = vec![self.lab.container_id.clone()];
        let (must_listen, sctp) = (self.must_listen, self.sctp);
        let udp = drain.ports.iter().any(|port| port.treat == PortTreatment::Udp);
        let target = observed::Target { stage, drain, probe_periods, containers, must_listen, sctp, udp };
        self.observer.set_targets(BTreeMap::from([(self.lab.pod_uid.clone(), target)]));
    }

    pub(crate) fn counted(&self, what: &str, is_so: fn(&Count) -> bool) -> Count {
        let mut last = None;
        let begin = Instant::now();
        loop {
            match self.observer.observations().remove(&self.lab.pod_uid) {
                Some(Observation::Counted(count)) if is_so(&count) => return count,
                Some(Observation::Counted(count)) => last = Some(count),
                None => {}
                other => panic!("{other:?}"),
            }
            assert!(begin.elapsed() < WITHIN, "not within {WITHIN:?}: {what}; the last count: {last:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

pub(crate) fn leave(lab: &Lab) {
    let server = lab.start_server();
    let mut idle = connect(lab);
    ask(&idle, "fast");
    assert_eq!(answer(&idle).unwrap(), "done\n");
    let slow = connect(lab);
    begin_slow_request(lab, &slow);

    let looker = Looker::new(lab);
    let look = |stage| looker.set_target(stage, drain());
    let counted = |what: &str, is_so: fn(&Count) -> bool| looker.counted(what, is_so);
    look(Looking::Leaving);
    counted("they are counted", |count| count.inbound >= 2);
    look(Looking::Draining);
    let count = counted("the idle one is closed", |count| count.quiet && count.closed >= 1);
    assert!(count.inbound >= 1 && count.newcomers == 0, "{count:?}");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    look(Looking::Destroying);
    let count = counted("the others are reset", |count| count.drained());
    assert!(count.destroyed >= 1, "{count:?}");
    assert_eq!(answer(&slow).unwrap_err().kind(), io::ErrorKind::ConnectionReset);

    look(Looking::Replacing);
    server.kill();
    let _server = lab.start_server();
    let count = counted("the new listener is seen", |count| count.listening.is_some());
    assert!(count.listening.unwrap().killed.is_some(), "{count:?}");
}

/// Websockets on a port of HTTP/1, whose server does not close when its client seems to.
pub(crate) fn upgraded(lab: &Lab) {
    let _server = lab.start_server();
    let clients = [connect(lab), connect(lab)];
    let upgrade = |client: &TcpStream| {
        ask(client, "upgrade");
        assert_eq!(answer(client).unwrap(), "done\n");
    };
    clients.iter().for_each(upgrade);
    let looker = Looker::new(lab);
    looker.set_target(Looking::Draining, drain());
    let count = looker.counted("they are reset", |count| count.quiet && count.drained());
    assert_eq!((count.closed, count.destroyed), (0, 2), "{count:?}");
    for mut client in &clients {
        // An answer that was sent before may still be there to be read.
        let end = client.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    }

    // The pod is to serve on: nobody is left there who will never be answered.
    let mut client = connect(lab);
    upgrade(&client);
    looker.counted("it is asked to end", |count| count.closed + count.destroyed > 2);
    looker.observer.set_targets(BTreeMap::new());
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

pub(crate) fn late(lab: &Lab) {
    let _server = lab.start_server();
    let mut idle = connect(lab);
    ask(&idle, "fast");
    assert_eq!(answer(&idle).unwrap(), "done\n");
    let looker = Looker::new(lab);
    // There would be room for clients among the probes.
    looker.order_with(Looking::Draining, drain(), vec![1, 1]);
    looker.counted("the idle one is closed", |count| count.quiet && count.closed == 1);
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    for closed in [2, 3] {
        let mut download = connect(lab);
        ask(&download, "pieces");
        looker.counted("it is waited for", |count| count.quiet && count.inbound == 1);
        let text = answer(&download).unwrap();
        assert!(text.ends_with("more done\n"), "{text:?}");
        ask(&download, "fast");
        assert_eq!(answer(&download).unwrap(), "done\n");
        assert_eq!(download.read(&mut [0]).unwrap(), 0);
        let count = looker.counted("it is closed, too", |count| count.drained());
        assert_eq!(count.closed, closed, "{count:?}");
    }
}

pub(crate) fn unused(lab: &Lab) {
    let _server = lab.start_server();
    let (idle, used) = (connect(lab), connect(lab));
    ask(&idle, "fast");
    assert_eq!(answer(&idle).unwrap(), "done\n");
    begin_slow_request(lab, &used);
    let looker = Looker::new(lab);
    let wait = |idle_after_seconds, what, is_so: fn(&Count) -> bool| {
        looker.set_target(Looking::Draining, DrainSpec { idle_after_seconds, ports: Vec::new(), ..drain() });
        looker.counted(what, is_so)
    };
    let count = wait(None, "both are waited for", |count| count.quiet && count.inbound == 2);
    assert_eq!((count.unused, count.closed), (0, 0), "{count:?}");
    let count = wait(Some(1), "nobody uses either of them", |count| count.drained() && count.unused == 2);
    assert_eq!((count.most, count.closed, count.destroyed), (2, 0, 0), "{count:?}");
    ask(&idle, "fast");
    assert_eq!(answer(&idle).unwrap(), "done\n");
    let count = looker.counted("one is used again", |count| count.inbound == 1);
    assert_eq!((count.unused, count.drained()), (1, false), "{count:?}");
    drop(idle);
    looker.counted("that one has ended", |count| count.drained() && count.unused == 1);
    drop(used);
}
