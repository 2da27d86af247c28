//! What all actors of a run share: time, the API server, the wire to it, chance and checks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hitless_api::PodRef;
use hitless_workloads::Write;

use crate::balancer::Balancer;
use crate::chance::Chance;
use crate::checks::Checks;
use crate::clock::{MS, Micros, NEVER, SECOND, stamp};
use crate::faults::{Counts, Fault, Weather};
use crate::kubelet::Image;
use crate::server::{Answer, Refusal, Request, Server};
use crate::servers::{BACK_OFF, Servers};
use crate::trace::{Trace, Who};

/// After so long a request is given up by its sender (`hitless_runtime::write::Writes::TIMEOUT`).
const TIMEOUT: Micros = 4 * SECOND;

/// Who is to get an answer: a process that was started anew does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    pub(crate) who: Who,
    /// Counts the starts of the process.
    pub(crate) life: u32,
    /// Of the sender, to tell its requests apart.
    pub(crate) token: usize,
}

/// Something on its way to or from the API server.
pub(crate) enum Flight {
    Request(Request, Option<ReplyTo>, Micros),
    Answer(Answer, ReplyTo),
}

/// From this seed on there are companion pods.
const COMPANIONS_FROM: u64 = 1_000_000;
/// With these seeds Services have a load balancer outside of the cluster.
const BALANCERS: Range<u64> = 2_000_000..3_000_000;
/// With these seeds, and from [`PAUSES_FROM`] on, there are CollaSets, too.
const COLLA_SETS: Range<u64> = 3_000_000..4_000_000;
/// With these seeds there are foreign operators.
const OPERATORS: Range<u64> = 4_000_000..5_000_000;
/// From this seed on there are OperationJobs.
const JOBS_FROM: u64 = 5_000_000;

/// From this seed on workloads are paused at times.
const PAUSES_FROM: u64 = 6_000_000;

/// From this seed on CollaSets have claims that are kept, and are deleted in the foreground at times.
const DELETIONS_FROM: u64 = 7_000_000;

/// With these seeds servers start late and stop slowly.
const APPLICATIONS: Range<u64> = 8_000_000..9_000_000;

/// With these seeds the sets of pods that we make are CloneSets.
const CLONE_SETS: Range<u64> = 9_000_000..10_000_000;

/// Tells what is drawn of dependencies apart from everything else.
const DEPENDENCIES: u64 = 0x6465_7073;
/// Tells what is drawn of OperationJobs apart from everything else.
const JOBS: u64 = 0x006a_6f62;
/// The same of nodes.
const NODES: u64 = 0x6e6f_6465;
/// The same of ports.
const PORTS: u64 = 0x706f_7274;
/// The same of helper pods.
const HELPERS: u64 = 0x6865_6c70;
/// The same of servers.
const SERVERS: u64 = 0x0073_7276;
/// The same of deletions.
const DELETIONS: u64 = 0x6465_6c65;
/// The same of pauses.
const PAUSES: u64 = 0x7061_7573;

/// The seed with this number, where clusters of all kinds take turns: without companion pods, with them, behind a load balancer, with
/// CollaSets, with foreign operators, with OperationJobs, with all kinds of workloads that are paused at times,
/// with CollaSets that are deleted in the foreground, with servers that start late and stop slowly, with CloneSets.
#[must_use]
pub fn seed_of_all(number: u64) -> u64 {
    let from = [
        0,
        COMPANIONS_FROM,
        BALANCERS.start,
        COLLA_SETS.start,
        OPERATORS.start,
        JOBS_FROM,
        PAUSES_FROM,
        DELETIONS_FROM,
        APPLICATIONS.start,
        CLONE_SETS.start,
    ];
    let kinds = from.len() as u64;
    from[usize::try_from(number % kinds).unwrap_or_default()] + number / kinds
}

#[expect(clippy::struct_excessive_bools, reason = "each is a part of the world that seeds have or have not")]
pub(crate) struct Ground {
    pub(crate) now: Micros,
    pub(crate) server: Server,
    pub(crate) chance: Chance,
    /// Which Services serve by node. Of its own, so that seeds of before keep their meaning otherwise.
    pub(crate) node_local: Chance,
    /// Users make OperationJobs, or where there are CloneSets ContainerRecreateRequests.
    pub(crate) has_jobs: bool,
    /// Which ones. Of its own, for the same reason.
    pub(crate) jobs: Chance,
    /// What readiness probes ask is away. Of its own, for the same reason.
    pub(crate) dependencies: Chance,
    /// Namespaces and names of workloads of whose pods all readiness probes fail now.
    pub(crate) away: BTreeSet<(String, String)>,
    /// Which workloads are paused, and when; `None`: none is.
    pub(crate) pauses: Option<Chance>,
    /// Which CollaSets are deleted, and when; `None`: none is.
    pub(crate) deletions: Option<Chance>,
    /// They are CloneSets.
    pub(crate) has_clone_sets: bool,
    /// What CollaSets there are, and what their owners do to them; `None`: there are none.
    pub(crate) colla_sets: Option<Chance>,
    /// How servers start and stop; `None`: at once.
    pub(crate) servers: Option<Servers>,
    /// Which nodes have no agent or are lost; `None`: no more than happens everywhere.
    pub(crate) nodes: Option<Chance>,
    /// Where ports of Services lead to; `None`: to the same one of all pods.
    pub(crate) ports: Option<Chance>,
    /// Where helper pods are refused; `None`: nowhere.
    pub(crate) helpers: Option<Chance>,
    /// Workloads with a single pod get companion pods.
    pub(crate) has_companions: bool,
    /// Pods take part in PodOpsLifecycle, and operators act on them.
    pub(crate) has_operators: bool,
    /// What they do. Of its own, as above.
    pub(crate) operators: Chance,
    pub(crate) weather: Weather,
    pub(crate) faults: Counts,
    pub(crate) trace: Trace,
    pub(crate) checks: Checks,
    /// How the images with these numbers do.
    pub(crate) images: BTreeMap<String, Image>,
    /// uids of pods around which something may go wrong now: they are held, or about to be.
    pub(crate) troubles: Vec<String>,
    wire: BTreeMap<(Micros, u64), Flight>,
    sent: u64,
}

impl Ground {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        let is_application = APPLICATIONS.contains(&seed);
        let has_clone_sets = CLONE_SETS.contains(&seed);
        let has_colla_sets = COLLA_SETS.contains(&seed) || seed >= PAUSES_FROM && !is_application;
        Self {
            now: 0,
            server: Server::with_balancer(BALANCERS.contains(&seed).then(|| Balancer::new(seed))),
            chance: Chance::new(seed),
            node_local: Chance::new(!seed),
            has_jobs: seed >= JOBS_FROM && !is_application,
            jobs: Chance::new(seed.rotate_left(32) ^ JOBS),
            deletions: (seed >= DELETIONS_FROM && !is_application && !has_clone_sets)
                .then(|| Chance::new(seed ^ DELETIONS)),
            dependencies: Chance::new(seed.rotate_left(16) ^ DEPENDENCIES),
            away: BTreeSet::new(),
            pauses: (seed >= PAUSES_FROM && !is_application).then(|| Chance::new(seed ^ PAUSES)),
            has_clone_sets,
            colla_sets: has_colla_sets.then(|| Chance::new(seed.rotate_left(32))),
            servers: is_application.then(|| Servers::new(Chance::new(seed.rotate_left(48) ^ SERVERS))),
            nodes: is_application.then(|| Chance::new(seed.rotate_left(48) ^ NODES)),
            ports: is_application.then(|| Chance::new(seed.rotate_left(48) ^ PORTS)),
            helpers: is_application.then(|| Chance::new(seed.rotate_left(48) ^ HELPERS)),
            has_companions: seed >= COMPANIONS_FROM,
            has_operators: OPERATORS.contains(&seed),
            operators: Chance::new(!seed.rotate_left(32)),
            weather: Weather::default(),
            faults: Counts::default(),
            trace: Trace::new(traced),
            checks: Checks::playing(is_application),
            images: BTreeMap::new(),
            troubles: Vec::new(),
            wire: BTreeMap::new(),
            sent: 0,
        }
    }

    pub(crate) fn pass_to(&mut self, now: Micros) {
        self.now = now;
        self.server.now = now;
    }

    pub(crate) fn say(&mut self, who: Who, what: impl FnOnce() -> String) {
        self.trace.say(self.now, who, what);
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    /// An image, and how it does.
    pub(crate) fn add_image(&mut self, number: u32, image: Image) {
        let number = number.to_string();
        if let Image::Good(ready_after) = image {
            let crashes = self.servers.as_ref().map_or(0, |servers| servers.crashes(&number));
            self.checks.starts(&number, crashes, ready_after, BACK_OFF);
        }
        self.images.insert(number, image);
    }

    /// Wall clock of an actor whose clock is wrong by `skew`.
    pub(crate) fn wall(&self, skew: Micros) -> jiff::Timestamp {
        stamp(self.now + skew)
    }

    pub(crate) fn next_flight(&self) -> Micros {
        self.wire.first_key_value().map_or(NEVER, |((at, _), _)| *at)
    }

    /// A patch of that pod's images is on its way.
    pub(crate) fn may_be_patched(&self, pod: &PodRef) -> bool {
        let on_its_way =
            |flight: &Flight| matches!(flight, Flight::Request(Request::Images { pod: of, .. }, ..) if of == pod);
        self.wire.values().any(on_its_way)
    }

    fn fly(&mut self, at: Micros, flight: Flight) {
        self.sent += 1;
        self.wire.insert((at, self.sent), flight);
    }

    /// Sends a request; what becomes of it is decided here.
    pub(crate) fn send(&mut self, request: Request, to: ReplyTo) {
        let writes = !matches!(request, Request::Read(_) | Request::ReadTransition(_));
        // A write to a ReplicaSet that arrives after the un-pausing that was decided without it would make the Deployment
        // controller roll; nothing fences that off yet, and requests do not live on for seconds in a real API server.
        // So would a pod that is made after one of its name was made, removed and gone.
        let lingers = !matches!(&request, Request::Lead { write, .. } if is_prompt(write));
        let there = self.now + self.chance.delay(MS, 8 * MS);
        let mut back = self.chance.delay(MS, 8 * MS);
        if !writes && self.chance.happens(self.weather.slow_answer) {
            self.fault(Fault::SlowAnswer);
            back = self.chance.delay(200 * MS, 2 * SECOND);
        }
        let unsure = Answer::Refused(Refusal::Transient);
        if self.chance.happens(self.weather.lost_request) {
            self.fault(Fault::LostRequest);
            let wait = self.chance.delay(10 * MS, TIMEOUT);
            self.say(to.who, || "  (the request is lost)".to_owned());
            self.fly(self.now + wait, Flight::Answer(unsure, to));
        } else if writes && self.chance.happens(self.weather.conflict) {
            self.fault(Fault::Conflict);
            self.say(to.who, || "  (refused with a conflict)".to_owned());
            self.fly(there + back, Flight::Answer(Answer::Refused(Refusal::Conflict), to));
        } else if writes && self.chance.happens(self.weather.lost_answer) {
            self.fault(Fault::LostAnswer);
            let wait = self.chance.delay(MS, TIMEOUT);
            self.say(to.who, || "  (its answer will be lost)".to_owned());
            self.fly(there, Flight::Request(request, None, 0));
            self.fly(there + wait, Flight::Answer(unsure, to));
        } else if writes && lingers && self.chance.happens(self.weather.late_write) {
            self.fault(Fault::LateWrite);
            let given_up = self.chance.delay(10 * MS, TIMEOUT);
            let late = self.chance.delay(0, 20 * SECOND);
            self.say(to.who, || "  (it will arrive late)".to_owned());
            self.fly(self.now + given_up, Flight::Answer(unsure, to));
            self.fly(self.now + given_up + late, Flight::Request(request, None, 0));
        } else {
            self.fly(there, Flight::Request(request, Some(to), back));
        }
    }

    /// The next flight, if it is due: a request is carried out here, an answer is handed on.
    pub(crate) fn land(&mut self) -> Option<(Answer, ReplyTo)> {
        let (at, _) = *self.wire.first_key_value()?.0;
        if at > self.now {
            return None;
        }
        match self.wire.pop_first()?.1 {
            Flight::Answer(answer, to) => Some((answer, to)),
            Flight::Request(request, to, back) => {
                let answer = self.server.serve(request, &mut self.checks);
                match to {
                    Some(to) => self.fly(self.now + back, Flight::Answer(answer, to)),
                    None => self.say(Who::Server, || format!("an unanswered write arrived: {}", text(&answer))),
                }
                None
            }
        }
    }
}

/// Whether the request may not arrive late: a write to an object that a native controller looks after, or a pod that is made.
fn is_prompt(write: &Write) -> bool {
    let on = &write.on.group_kind;
    let is_workloads = write.subject.is_none();
    is_workloads && write.makes_pod() || on.group == "apps" && on.kind != "ControllerRevision"
}

/// For the trace.
pub(crate) fn text(answer: &Answer) -> String {
    match answer {
        Answer::Stored(_) => "done".to_owned(),
        Answer::Absent => "absent".to_owned(),
        Answer::Refused(why) => format!("{why:?}"),
    }
}
