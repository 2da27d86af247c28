use super::*;
use proptest::prelude::*;

const CONFIG: LeaseConfig = LeaseConfig {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn held(holder: &str, since: u64) -> Observed {
    let lease = LeaseView { holder: holder.into(), transitions: 7, renewed: None, duration: CONFIG.duration };
    Observed { lease: Some(lease), since: seconds(since) }
}

#[test]
fn a_lease_that_is_absent_or_released_is_taken_with_the_next_epoch() {
    let absent = Observed { lease: None, since: seconds(0) };
    assert_eq!(evaluate(&absent, "me", seconds(0), &CONFIG), Action::Acquire { transitions: 1 });
    assert_eq!(evaluate(&held("", 0), "me", seconds(0), &CONFIG), Action::Acquire { transitions: 8 });
}

#[test]
fn an_own_lease_is_renewed_when_it_is_due() {
    assert_eq!(evaluate(&held("me", 5), "me", seconds(6), &CONFIG), Action::Hold { until: seconds(7) });
    assert_eq!(evaluate(&held("me", 5), "me", seconds(7), &CONFIG), Action::Renew);
}

#[test]
fn somebody_elses_lease_is_taken_only_after_it_was_seen_unchanged_for_its_duration() {
    assert_eq!(evaluate(&held("other", 5), "me", seconds(19), &CONFIG), Action::Wait { until: seconds(20) });
    assert_eq!(evaluate(&held("other", 5), "me", seconds(20), &CONFIG), Action::Acquire { transitions: 8 });
    let mut longer = held("other", 5);
    longer.lease.as_mut().unwrap().duration = seconds(60);
    assert_eq!(evaluate(&longer, "me", seconds(20), &CONFIG), Action::Wait { until: seconds(65) });
}

#[test]
fn only_a_changed_lease_starts_the_wait_anew() {
    let mut observed = held("other", 5);
    observed.look(held("other", 0).lease, seconds(9));
    assert_eq!(observed.since, seconds(5));
    let mut renewed = held("other", 0).lease.unwrap();
    renewed.renewed = Some(Timestamp::UNIX_EPOCH);
    observed.look(Some(renewed), seconds(9));
    assert_eq!(observed.since, seconds(9));
}

/// A contender in the model: its clock starts anywhere and runs up to 10 % fast or slow.
struct Contender {
    name: &'static str,
    offset: Duration,
    percent: u32,
    observed: Option<Observed>,
    /// The version of the last read, which a write must name.
    version: u64,
    /// On its own clock.
    leads_until: Option<Duration>,
    in_flight: Option<Write>,
}

#[derive(Clone)]
struct Write {
    lease: LeaseView,
    version: u64,
    sent: Duration,
}

impl Contender {
    fn clock(&self, real: Duration) -> Duration {
        self.offset + real * self.percent / 100
    }

    fn leads(&self, real: Duration) -> bool {
        self.leads_until.is_some_and(|until| self.clock(real) < until)
    }
}

struct Server {
    lease: Option<LeaseView>,
    version: u64,
    history: Vec<(Duration, String, i64)>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Read(usize),
    Send(usize),
    /// The server carries the write out, or it is lost (`false`).
    Arrive(usize, bool),
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        3 => (0..2_usize).prop_map(Step::Read),
        3 => (0..2_usize).prop_map(Step::Send),
        3 => (0..2_usize, any::<bool>()).prop_map(|(who, arrives)| Step::Arrive(who, arrives)),
    ];
    (prop_oneof![4 => 0..3_000_u64, 1 => 3_000..20_000_u64], step)
}

fn apply(step: Step, real: Duration, server: &mut Server, contenders: &mut [Contender; 2]) {
    match step {
        Step::Read(who) => {
            let contender = &mut contenders[who];
            let now = contender.clock(real);
            contender.version = server.version;
            match &mut contender.observed {
                Some(observed) => observed.look(server.lease.clone(), now),
                None => contender.observed = Some(Observed { lease: server.lease.clone(), since: now }),
            }
        }
        Step::Send(who) => {
            let contender = &mut contenders[who];
            let now = contender.clock(real);
            let Some(observed) = &contender.observed else { return };
            let transitions = match evaluate(observed, contender.name, now, &CONFIG) {
                Action::Hold { .. } | Action::Wait { .. } => return,
                Action::Renew => observed.lease.as_ref().unwrap().transitions,
                Action::Acquire { transitions } => transitions,
            };
            let renewed = Timestamp::from_millisecond(i64::try_from(now.as_millis()).unwrap()).ok();
            let lease = LeaseView { holder: contender.name.into(), transitions, renewed, duration: CONFIG.duration };
            contender.in_flight = Some(Write { lease, version: contender.version, sent: now });
        }
        Step::Arrive(who, arrives) => {
            let Some(write) = contenders[who].in_flight.take() else { return };
            if !arrives || write.version != server.version {
                return;
            }
            server.version += 1;
            server.history.push((real, write.lease.holder.clone(), write.lease.transitions));
            server.lease = Some(write.lease.clone());
            let contender = &mut contenders[who];
            let now = contender.clock(real);
            contender.version = server.version;
            contender.observed = Some(Observed { lease: Some(write.lease), since: now });
            contender.leads_until = Some(write.sent + CONFIG.renew_deadline);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the clocks, delays and lost writes: never two leaders, and the epoch tells the terms apart.
    #[test]
    fn two_contenders_never_lead_at_the_same_time(
        offsets in [0..1_000_000_u64, 0..1_000_000_u64],
        percents in [90..=110_u32, 90..=110_u32],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let contender = |who: usize, name| Contender {
            name, offset: Duration::from_millis(offsets[who]), percent: percents[who], observed: None, version: 0,
            leads_until: None, in_flight: None,
        };
        let mut contenders = [contender(0, "a"), contender(1, "b")];
        let mut server = Server { lease: None, version: 1, history: Vec::new() };
        let mut real = Duration::ZERO;
        for (delay, step) in steps {
            real += Duration::from_millis(delay);
            apply(step, real, &mut server, &mut contenders);
            prop_assert!(!(contenders[0].leads(real) && contenders[1].leads(real)), "both lead at {real:?}");
        }
        for pair in server.history.windows(2) {
            let ((_, before, old), (_, after, new)) = (&pair[0], &pair[1]);
            prop_assert_eq!(before != after, new > old, "an epoch belongs to one term of one holder");
        }
    }
}
