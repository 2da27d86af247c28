//! The thread that holds new connections, and the kernel's timers behind it.

use hitless_agent::decision::{Direction, Hold};
use hitless_agent::view::{Held, HoldNumbers, Listening, NodePod, Observation, Stage};
use hitless_api::Grant;
use jiff::{SignedDuration, Timestamp};

use super::kubelet::Kubelet;

/// One Hold that this process has begun.
#[derive(Clone, Debug)]
struct Cycle {
    direction: Direction,
    stage: Stage,
    /// When the stage ends by itself.
    until: Option<Timestamp>,
    /// Of the container that is to be replaced.
    image: String,
    parked: Option<Timestamp>,
    numbers: HoldNumbers,
    listening: Option<Listening>,
    /// When the new listener is noticed, once there is one.
    noticed: Option<Timestamp>,
}

pub(crate) struct Holder {
    /// Milliseconds until everything is open.
    pub(crate) opening: i64,
    /// Milliseconds until requests in flight are answered; those that take longer than half the cap are left.
    pub(crate) settling: i64,
    /// Milliseconds until a new listener is noticed.
    pub(crate) noticing: i64,
    pub(crate) ports: usize,
    pub(crate) fails: bool,
    /// When new connections were held, and whether for the way back.
    pub(crate) parks: Vec<(Timestamp, Direction)>,
    /// Longest time that clients were held, in milliseconds.
    pub(crate) longest: i64,
    opened: Option<(Timestamp, Direction)>,
    cycle: Option<Cycle>,
}

fn later(now: Timestamp, milliseconds: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_millis(milliseconds)).unwrap()
}

impl Holder {
    pub(crate) fn new() -> Self {
        let parks = Vec::new();
        let (opening, settling, noticing) = (8, 20, 0);
        Self { opening, settling, noticing, ports: 1, fails: false, parks, longest: 0, opened: None, cycle: None }
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.cycle.as_ref().is_some_and(|cycle| matches!(cycle.stage, Stage::Settling(_) | Stage::Settled(_)))
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.cycle.as_ref().is_some_and(|cycle| matches!(cycle.stage, Stage::Settled(_)))
    }

    /// Clients that the killed process held are let in by the cap at the latest.
    pub(crate) fn kill(&mut self, cap: i64) {
        if self.is_parked() {
            self.longest = self.longest.max(cap);
        }
        (self.opened, self.cycle) = (None, None);
    }

    pub(crate) fn observation(&self) -> Option<Observation> {
        let Cycle { direction, stage, numbers, listening, .. } = self.cycle.clone()?;
        Some(Observation::Held(Held { direction, stage, numbers, listening }))
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        let opened = self.opened.map(|(at, _)| at);
        let cycle =
            self.cycle.iter().flat_map(|cycle| [cycle.until, cycle.noticed.filter(|_| cycle.listening.is_none())]);
        cycle.chain([opened]).flatten().min()
    }

    pub(crate) fn order(&mut self, hold: Hold, grant: &Grant, now: Timestamp) {
        let (direction, parks) = match hold {
            Hold::No => return self.end(now),
            Hold::Keep(direction) => {
                let is_other = self.cycle.as_ref().is_some_and(|cycle| cycle.direction != direction);
                if is_other {
                    self.end(now);
                }
                return;
            }
            Hold::Prepare(direction) => (direction, false),
            Hold::Park(direction) => (direction, true),
        };
        if self.cycle.as_ref().is_some_and(|cycle| cycle.direction != direction) {
            self.end(now);
        }
        let Some(cycle) = &mut self.cycle else {
            self.opened.get_or_insert((later(now, self.opening), direction));
            return;
        };
        if parks && matches!(cycle.stage, Stage::Prepared(_)) {
            let expiry = i64::from(grant.ttl_seconds + Grant::CLOCK_SKEW_SECONDS) * 1000;
            assert!(direction == Direction::Back || now <= later(grant.granted.0, expiry), "under a fresh grant only");
            let most = i64::from(grant.drain.hold_cap_milliseconds) / 2;
            cycle.stage = Stage::Settling(2);
            cycle.parked = Some(now);
            cycle.numbers.connections = 5;
            cycle.until = Some(later(now, self.settling.min(most)));
            self.parks.push((now, direction));
        }
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, cap: i64, kubelet: &Kubelet, pod: &NodePod, now: Timestamp) {
        if let Some((_, direction)) = self.opened.take_if(|(at, _)| *at <= now) {
            let stage = if self.fails { Stage::Failed("no nf_tables".into()) } else { Stage::Prepared(self.ports) };
            let (image, numbers) = (kubelet.running_image.clone(), HoldNumbers::default());
            let (until, parked, listening, noticed) = (None, None, None, None);
            self.cycle = Some(Cycle { direction, stage, until, image, parked, numbers, listening, noticed });
        }
        let Some(cycle) = &mut self.cycle else { return };
        let Some(parked) = cycle.parked else { return };
        if matches!(cycle.stage, Stage::Settling(_)) && cycle.until.is_some_and(|until| until <= now) {
            let left = u32::from(self.settling > cap / 2);
            cycle.numbers.left = left;
            (cycle.stage, cycle.until) = (Stage::Settled(left), Some(later(parked, cap)));
        }
        let runs = pod.view.containers[0].status.as_ref().is_some_and(|status| status.running_since.is_some());
        if cycle.listening.is_none() && runs && kubelet.running_image != cycle.image {
            let noticed = *cycle.noticed.get_or_insert(later(now, self.noticing));
            if noticed <= now {
                cycle.listening = Some(Listening { killed: None, at: now });
            }
        }
        let is_over = now >= later(parked, cap);
        if matches!(cycle.stage, Stage::Settled(_)) && (cycle.listening.is_some() || is_over) {
            cycle.numbers.expired = cycle.listening.is_none();
            self.release(now);
        }
    }

    fn release(&mut self, now: Timestamp) {
        let Some(cycle) = &mut self.cycle else { return };
        if let Some(parked) = cycle.parked.filter(|_| cycle.stage != Stage::Released) {
            let held = i64::try_from(now.duration_since(parked).as_millis()).unwrap();
            self.longest = self.longest.max(held);
            cycle.numbers.longest_milliseconds = u32::try_from(held).unwrap();
            (cycle.numbers.parked, cycle.numbers.replayed) = (3, 3);
            (cycle.stage, cycle.until) = (Stage::Released, None);
        }
    }

    fn end(&mut self, now: Timestamp) {
        self.release(now);
        (self.opened, self.cycle) = (None, None);
    }
}
