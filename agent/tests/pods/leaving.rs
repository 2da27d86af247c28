//! A pod that leaves service: who is waited for, who is closed, and what is seen of its successor.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use hitless_agent::drain::observed::{self, Stage as Looking};
use hitless_agent::drain::observer::Observer;
use hitless_agent::view::{Count, Observation};
use hitless_api::DrainSpec;
use tokio::sync::Notify;

use crate::lab::{Lab, eventually};
use crate::{answer, ask, begin_slow_request, connect, drain};

/// Looks at the pod that leaves.
struct Looker<'a> {
    lab: &'a Lab,
    observer: Observer,
}

impl<'a> Looker<'a> {
    fn new(lab: &'a Lab) -> Self {
        Self { lab, observer: Observer::start("/proc".into(), Arc::new(Notify::new())).unwrap() }
    }

    fn set_target(&self, stage: Looking, drain: DrainSpec) {
        self.order_with(stage, drain, vec![]);
    }

    fn order_with(&self, stage: Looking, drain: DrainSpec, probe_periods: Vec<u32>) {
        let containers = vec![self.lab.container_id.clone()];
        let target = observed::Target { stage, drain, probe_periods, containers };
        self.observer.set_targets(BTreeMap::from([(self.lab.pod_uid.clone(), target)]));
    }

    fn counted(&self, what: &str, is_so: fn(&Count) -> bool) -> Count {
        eventually(what, || match self.observer.observations().remove(&self.lab.pod_uid)? {
            Observation::Counted(count) => is_so(&count).then_some(count),
            other => panic!("{other:?}"),
        })
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
