//! The threads that hold new connections, one for each pod, and the kernel behind them: what `hitless_agent::drain::hold` and
//! `held` do, without any sockets.

use std::collections::BTreeMap;

use hitless_agent::decision::{Direction, Hold};
use hitless_agent::view::{Held, HoldNumbers, Listening, Observation, Stage};
use hitless_api::pod::PodView;
use hitless_api::{DrainSpec, StragglerPolicy};

use crate::checks::image_number;
use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::counts::HoldEvent;
use crate::faults::Fault;
use crate::ground::Ground;
use crate::kubelet::Image;
use crate::trace::Who;

/// The block ends after so long even if no client comes.
const EXPIRES: Micros = 20 * SECOND;
/// Longest wait for requests in flight, and never more than half of the cap.
const SETTLE_MOST: Micros = 1_500 * MS;
/// What can't be opened is tried again after so long.
const RETRY: Micros = 250 * MS;

/// What to do about a pod's new connections.
pub(super) struct Target {
    pub(super) hold: Hold,
    pub(super) drain: DrainSpec,
    /// The grant has not expired.
    pub(super) fresh: bool,
}

/// All threads of a process. What the kernel holds when the process is killed its own timer ends; nobody sees that here.
#[derive(Default)]
pub(super) struct Holder {
    threads: BTreeMap<String, Thread>,
    has_news: bool,
}

/// What a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// It leaves what an earlier process holds to the kernel's timers.
    Timers,
    /// It opens what it needs, until then.
    Opening(Micros),
    /// Everything is open.
    Prepared,
    /// Clients are held, and requests in flight are answered until then.
    Settling(Micros),
    /// Clients are held until the new process listens.
    Awaiting,
    /// Nobody is held; it looks for the new listener.
    Watching,
}

struct Thread {
    target: Target,
    work: Work,
    stage: Option<Stage>,
    /// The pod is known to have listened.
    has_listened: bool,
    /// The container that ran when everything was opened.
    container: String,
    /// Another one, of which it is known when it listens.
    next: String,
    listens: Option<Micros>,
    listening: Option<Listening>,
    /// Since when the first client waits, and when the block ends by itself.
    held: Option<(Micros, Micros)>,
    left: u32,
    numbers: HoldNumbers,
}

impl Holder {
    /// Whether clients of some pod wait.
    pub(super) fn holds(&self) -> bool {
        self.threads.values().any(|thread| thread.held.is_some())
    }

    /// Whether it is told to do anything.
    pub(super) fn is_busy(&self) -> bool {
        !self.threads.is_empty()
    }

    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    pub(super) fn has_news(&self) -> bool {
        self.has_news
    }

    pub(super) fn next(&self) -> Micros {
        self.threads.values().map(Thread::due).min().unwrap_or(NEVER)
    }

    pub(super) fn observations(&self) -> impl Iterator<Item = (&String, Observation)> {
        self.threads.iter().filter_map(|(uid, thread)| Some((uid, thread.observation()?)))
    }

    /// Does as told, and lets clients of all other pods in.
    pub(super) fn set_targets(&mut self, targets: BTreeMap<String, Target>, who: Who, ground: &mut Ground) {
        self.threads.retain(|uid, thread| {
            let goes_on = targets.contains_key(uid);
            if !goes_on {
                thread.release(uid, who, ground);
            }
            goes_on
        });
        for (uid, target) in targets {
            let Some(thread) = self.threads.get_mut(&uid) else {
                let mut thread = Thread::new(target, false);
                thread.follow(&uid, who, ground);
                self.threads.insert(uid, thread);
                continue;
            };
            if direction(target.hold) == direction(thread.target.hold) {
                thread.target = target;
            } else {
                thread.release(&uid, who, ground);
                *thread = Thread::new(target, thread.has_listened);
            }
            self.has_news |= thread.follow(&uid, who, ground);
        }
    }

    /// Does what is due.
    pub(super) fn step(&mut self, who: Who, skew: Micros, ground: &mut Ground) {
        for (uid, thread) in &mut self.threads {
            while thread.due() <= ground.now {
                thread.act(uid, who, skew, ground);
                self.has_news = true;
            }
        }
    }

    /// The kubelet has done something to the pod.
    pub(super) fn notice(&mut self, pod: &PodView, ground: &mut Ground) {
        let Some(thread) = self.threads.get_mut(&pod.id.uid) else { return };
        let is_open = !matches!(thread.work, Work::Timers | Work::Opening(_));
        if thread.listening.is_some() || !is_open {
            return;
        }
        let Some((id, image, _)) = running(pod) else {
            (thread.next, thread.listens) = (String::new(), None);
            return;
        };
        if id != thread.container && id != thread.next {
            id.clone_into(&mut thread.next);
            thread.listens = listens_within(image, ground).map(|most| ground.now + ground.chance.delay(0, most));
        }
    }
}

impl Thread {
    fn new(target: Target, has_listened: bool) -> Self {
        Self {
            work: Work::Timers,
            target,
            stage: None,
            has_listened,
            container: String::new(),
            next: String::new(),
            listens: None,
            listening: None,
            held: None,
            left: 0,
            numbers: HoldNumbers::default(),
        }
    }

    fn observation(&self) -> Option<Observation> {
        let (direction, stage) = (direction(self.target.hold), self.stage.clone()?);
        Some(Observation::Held(Held { direction, stage, numbers: self.numbers, listening: self.listening }))
    }

    fn due(&self) -> Micros {
        let listens = self.listens.filter(|_| self.listening.is_none()).unwrap_or(NEVER);
        match self.work {
            Work::Timers | Work::Prepared => NEVER,
            Work::Opening(at) | Work::Settling(at) => at,
            Work::Awaiting => listens.min(self.held.map_or(NEVER, |(_, end)| end)),
            Work::Watching => listens,
        }
    }

    /// Takes note of the target; says whether that is news at once.
    fn follow(&mut self, uid: &str, who: Who, ground: &mut Ground) -> bool {
        match (self.work, self.target.hold) {
            (Work::Timers, Hold::Prepare(_) | Hold::Begin(_)) | (Work::Watching, Hold::Prepare(_)) => {
                self.work = Work::Opening(ground.now + ground.chance.delay(MS, 30 * MS));
                false
            }
            (Work::Prepared, Hold::Begin(_)) if self.stage == Some(Stage::Prepared(1)) => {
                self.begin(uid, who, ground);
                true
            }
            (Work::Prepared, Hold::Begin(_) | Hold::Continue(_)) => {
                self.work = Work::Watching;
                false
            }
            _ => false,
        }
    }

    fn act(&mut self, uid: &str, who: Who, skew: Micros, ground: &mut Ground) {
        match self.work {
            Work::Timers | Work::Prepared => {}
            Work::Opening(_) if ground.chance.happens(ground.weather.hold_impossible) => {
                ground.fault(Fault::HoldImpossible);
                self.stage = Some(Stage::Failed("no nf_tables".to_owned()));
                self.work = Work::Opening(ground.now + RETRY);
            }
            Work::Opening(_) => {
                self.open(uid, ground);
                self.follow(uid, who, ground);
            }
            Work::Settling(_) => {
                if self.left > 0 && self.target.drain.stragglers == StragglerPolicy::Destroy {
                    self.numbers.destroyed += std::mem::take(&mut self.left);
                }
                self.numbers.left = self.left;
                (self.stage, self.work) = (Some(Stage::Settled(self.left)), Work::Awaiting);
            }
            Work::Awaiting | Work::Watching => {
                if self.listens.is_some_and(|at| at <= ground.now) {
                    self.listening = Some(Listening { killed: None, at: ground.wall(skew) });
                } else {
                    self.numbers.expired = true;
                }
                self.release(uid, who, ground);
                self.work = Work::Watching;
            }
        }
    }

    /// Notes where the containers listen.
    fn open(&mut self, uid: &str, ground: &Ground) {
        let pod = ground.server.pods.get(uid).map(|pod| pod.view.clone());
        let runs = pod.as_deref().and_then(running);
        self.container = runs.map(|(id, _, _)| id.to_owned()).unwrap_or_default();
        self.has_listened |= runs.is_some_and(|(_, image, ready)| ready || listens_within(image, ground) == Some(0));
        (self.next, self.listens, self.listening) = (String::new(), None, None);
        self.numbers = HoldNumbers::default();
        self.stage = Some(Stage::Prepared(usize::from(self.has_listened)));
        self.work = Work::Prepared;
    }

    fn begin(&mut self, uid: &str, who: Who, ground: &mut Ground) {
        let way_back = direction(self.target.hold) == Direction::Back;
        if !self.target.fresh && !way_back {
            ground.checks.fail(ground.now, format!("clients of {uid} are held under a grant that has expired"));
        }
        let Ground { chance, weather, .. } = ground;
        if chance.happens(weather.hold_impossible / 4) {
            ground.fault(Fault::HoldImpossible);
            (self.stage, self.work) = (Some(Stage::Failed("no memory".to_owned())), Work::Watching);
            return;
        }
        let cap = Micros::from(self.target.drain.hold_cap_milliseconds.max(1)) * MS;
        let most = SETTLE_MOST.min(cap / 2);
        let straggles = chance.happens(weather.straggler);
        let takes = if straggles { most } else { chance.delay(0, 300 * MS).min(most) };
        self.left = u32::from(straggles);
        let first = if chance.happens(1_000) { NEVER } else { ground.now + chance.delay(0, 500 * MS) };
        let end = first.saturating_add(cap).min(ground.now + EXPIRES);
        self.held = Some((first, end));
        self.numbers.connections = 5;
        (self.stage, self.work) = (Some(Stage::Settling(2)), Work::Settling(ground.now + takes));
        ground.checks.counted.add(if way_back { HoldEvent::BegunBack } else { HoldEvent::Begun });
        ground.troubles.push(uid.to_owned());
        ground.say(who, || format!("{uid}: clients are held{}", if way_back { " for the way back" } else { "" }));
    }

    /// Lets clients in, if any are held.
    fn release(&mut self, uid: &str, who: Who, ground: &mut Ground) {
        if let Some((first, _)) = self.held.take() {
            let waited = u32::try_from((ground.now - first.min(ground.now)) / MS).unwrap_or(u32::MAX);
            let came = u32::from(waited > 0) * 3;
            (self.numbers.waited, self.numbers.replayed) = (came, came);
            self.numbers.longest_milliseconds = waited;
            let event = match (self.listening, self.numbers.expired) {
                (Some(_), _) => HoldEvent::LetIn,
                (None, true) => HoldEvent::Expired,
                (None, false) => HoldEvent::GivenUp,
            };
            ground.checks.counted.add(event);
            ground.say(who, || format!("{uid}: clients are let in after {waited} ms ({event:?})"));
        }
        self.stage = Some(Stage::Released);
    }
}

/// containerID and image of the container that runs, and whether it is ready.
fn running(pod: &PodView) -> Option<(&str, &str, bool)> {
    let container = pod.containers.first()?;
    let status = container.status.as_ref().filter(|status| status.running_since.is_some())?;
    Some((&status.container_id, &status.image_id, status.ready))
}

/// How long after its start a container of this image listens at the latest, if it does. Some listen and are never ready.
fn listens_within(image: &str, ground: &Ground) -> Option<Micros> {
    let number = image_number(image)?;
    match ground.images.get(number)? {
        // A little longer than until it is ready: the kubelet may be quicker than the thread that looks.
        Image::Good(ready_after) => Some(*ready_after + 20 * MS),
        Image::NeverReady => number.parse::<u32>().is_ok_and(|number| number % 2 == 0).then_some(0),
        Image::ReadyFor(_) | Image::RunsFor(_) => Some(20 * MS),
        Image::Missing | Image::Crashes => None,
    }
}

fn direction(hold: Hold) -> Direction {
    match hold {
        Hold::Prepare(direction) | Hold::Begin(direction) | Hold::Continue(direction) => direction,
        Hold::No => Direction::Forward,
    }
}
