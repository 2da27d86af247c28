//! The thread that holds new connections, and the kernel's timers behind it.

use hitless_agent::decision::{Direction, Hold};
use hitless_agent::view::{Held, HoldNumbers, Listening, NodePod, Observation, Stage};
use hitless_api::{Grant, GrantMode};
use jiff::{SignedDuration, Timestamp};

use super::kubelet::Kubelet;

/// One Hold that this process has begun.
#[derive(Clone, Debug)]
struct Session {
    direction: Direction,
    stage: Stage,
    /// When the stage ends by itself.
    until: Option<Timestamp>,
    /// Of the container that is to be replaced.
    image: String,
    since: Option<Timestamp>,
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
    /// Milliseconds for which requests are waited for before, with nobody held.
    pub(crate) unparked: i64,
    /// Milliseconds until a new listener is noticed.
    pub(crate) noticing: i64,
    pub(crate) ports: usize,
    pub(crate) fails: bool,
    /// What it was told, without repetitions.
    pub(crate) told: Vec<Hold>,
    /// When new connections were held, and whether for the way back.
    pub(crate) begun: Vec<(Timestamp, Direction)>,
    /// Longest time that clients were held, in milliseconds.
    pub(crate) longest: i64,
    opened: Option<(Timestamp, Direction)>,
    session: Option<Session>,
}

fn later(now: Timestamp, milliseconds: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_millis(milliseconds)).unwrap()
}

impl Holder {
    pub(crate) fn new() -> Self {
        let (told, begun) = (Vec::new(), Vec::new());
        let (opening, settling, unparked, noticing) = (8, 20, 0, 0);
        Self {
            opening,
            settling,
            unparked,
            noticing,
            ports: 1,
            fails: false,
            told,
            begun,
            longest: 0,
            opened: None,
            session: None,
        }
    }

    pub(crate) fn is_holding(&self) -> bool {
        self.session.as_ref().is_some_and(|session| matches!(session.stage, Stage::Settling(_) | Stage::Settled(_)))
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.session.as_ref().is_some_and(|session| matches!(session.stage, Stage::Settled(_)))
    }

    /// Clients that the killed process held are let in by the cap at the latest.
    pub(crate) fn kill(&mut self, cap: i64) {
        if self.is_holding() {
            self.longest = self.longest.max(cap);
        }
        (self.opened, self.session) = (None, None);
    }

    pub(crate) fn observation(&self) -> Option<Observation> {
        let Session { direction, stage, numbers, listening, .. } = self.session.clone()?;
        Some(Observation::Held(Held { direction, stage, numbers, listening }))
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        let opened = self.opened.map(|(at, _)| at);
        let session = self
            .session
            .iter()
            .flat_map(|session| [session.until, session.noticed.filter(|_| session.listening.is_none())]);
        session.chain([opened]).flatten().min()
    }

    /// `is_patched`: the API server has carried out the image patch.
    pub(crate) fn set_target(&mut self, hold: Hold, grant: &Grant, is_patched: bool, now: Timestamp) {
        if self.told.last() != Some(&hold) {
            self.told.push(hold);
        }
        // Of a pod that has left nothing is told.
        if grant.mode == GrantMode::Leave {
            return;
        }
        let (direction, begins) = match hold {
            Hold::No => return self.end(now),
            Hold::Continue(direction) => {
                let is_other = self.session.as_ref().is_some_and(|session| session.direction != direction);
                if is_other {
                    self.end(now);
                }
                return;
            }
            Hold::Prepare(direction) => (direction, false),
            Hold::Begin(direction) => (direction, true),
        };
        if self.session.as_ref().is_some_and(|session| session.direction != direction) {
            self.end(now);
        }
        // Everything is opened anew.
        self.session.take_if(|session| !begins && session.stage == Stage::Released);
        let Some(session) = &mut self.session else {
            self.opened.get_or_insert((later(now, self.opening), direction));
            return;
        };
        if begins && matches!(session.stage, Stage::Prepared(_)) {
            let expiry = i64::from(grant.ttl_seconds + Grant::CLOCK_SKEW_SECONDS) * 1000;
            let is_fresh = now <= later(grant.granted.0, expiry) || is_patched;
            assert!(direction == Direction::Back || is_fresh, "under a fresh grant only");
            let most = i64::from(grant.drain.hold_cap_milliseconds) / 2;
            session.stage = Stage::Settling(2);
            let begin = later(now, self.unparked);
            session.since = Some(begin);
            session.numbers.connections = 5;
            session.until = Some(later(begin, self.settling.min(most)));
            self.begun.push((now, direction));
        }
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, cap: i64, kubelet: &Kubelet, pod: &NodePod, now: Timestamp) {
        if let Some((_, direction)) = self.opened.take_if(|(at, _)| *at <= now) {
            let stage = if self.fails { Stage::Failed("no nf_tables".into()) } else { Stage::Prepared(self.ports) };
            let (image, numbers) = (kubelet.running_image.clone(), HoldNumbers::default());
            let (until, since, listening, noticed) = (None, None, None, None);
            self.session = Some(Session { direction, stage, until, image, since, numbers, listening, noticed });
        }
        let Some(session) = &mut self.session else { return };
        let Some(since) = session.since else { return };
        if matches!(session.stage, Stage::Settling(_)) && session.until.is_some_and(|until| until <= now) {
            let left = u32::from(self.settling > cap / 2);
            session.numbers.left = left;
            (session.stage, session.until) = (Stage::Settled(left), Some(later(since, cap)));
        }
        let runs = pod.view.containers[0].status.as_ref().is_some_and(|status| status.running_since.is_some());
        if session.listening.is_none() && runs && kubelet.running_image != session.image {
            let noticed = *session.noticed.get_or_insert(later(now, self.noticing));
            if noticed <= now {
                session.listening = Some(Listening { killed: None, at: now });
            }
        }
        let is_over = now >= later(since, cap);
        if matches!(session.stage, Stage::Settled(_)) && (session.listening.is_some() || is_over) {
            session.numbers.expired = session.listening.is_none();
            self.release(now);
        }
    }

    fn release(&mut self, now: Timestamp) {
        let Some(session) = &mut self.session else { return };
        if let Some(since) = session.since.filter(|_| session.stage != Stage::Released) {
            let held = i64::try_from(now.duration_since(since).as_millis()).unwrap().max(0);
            self.longest = self.longest.max(held);
            session.numbers.longest_milliseconds = u32::try_from(held).unwrap();
            (session.numbers.waited, session.numbers.replayed) = (3, 3);
            (session.stage, session.until) = (Stage::Released, None);
        }
    }

    fn end(&mut self, now: Timestamp) {
        self.release(now);
        (self.opened, self.session) = (None, None);
    }
}
