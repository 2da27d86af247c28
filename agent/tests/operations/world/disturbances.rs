//! What goes wrong in a run that a property test makes up.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::kubelet::Image;
use super::{Fault, World, start};

/// What happens when to the agent and its pod, in milliseconds from the start.
#[derive(Clone, Debug)]
pub(crate) struct Disturbances {
    /// The agent is killed.
    pub(crate) kills: Vec<i64>,
    /// The grant is cancelled.
    pub(crate) cancel_at: Option<i64>,
    /// The pod is not ready; and for how long.
    pub(crate) blips: Vec<(i64, i64)>,
}

pub(crate) fn images() -> impl Strategy<Value = Image> {
    prop_oneof![
        4 => (0..20_000_i64).prop_map(Image::Good),
        1 => Just(Image::Missing),
        1 => Just(Image::Crashes),
        1 => Just(Image::NeverReady),
        1 => (0..20_000_i64).prop_map(Image::ReadyFor),
        1 => (0..20_000_i64).prop_map(Image::RunsFor),
    ]
}

pub(crate) fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let fault = prop_oneof![
        3 => Just(Fault::None),
        2 => Just(Fault::KilledBefore),
        2 => Just(Fault::KilledAfter),
        1 => Just(Fault::Lost),
        1 => Just(Fault::Unanswered),
        1 => Just(Fault::Conflict),
    ];
    prop::collection::vec(fault, 0..24)
}

/// So many milliseconds after the start.
pub(crate) fn at(milliseconds: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_millis(milliseconds)).unwrap()
}

/// Milliseconds since the start.
pub(crate) fn passed(world: &World) -> i64 {
    i64::try_from(world.now.duration_since(start()).as_millis()).unwrap()
}

impl World {
    /// Runs while all of that happens.
    pub(crate) fn run_disturbed(&mut self, limit: SignedDuration, disturbances: &Disturbances) {
        let Disturbances { kills, cancel_at, mut blips } = disturbances.clone();
        let times = kills.iter().chain(&cancel_at).chain(blips.iter().map(|(at, _)| at));
        self.alarms = times.map(|milliseconds| at(*milliseconds)).collect();
        let mut left = kills;
        self.run(limit, |world| {
            let passed = passed(world);
            let due = left.len();
            left.retain(|at| *at > passed);
            if left.len() < due {
                world.kill();
            }
            for (_, milliseconds) in blips.extract_if(.., |(at, _)| *at <= passed) {
                world.unready_for(milliseconds);
            }
            if cancel_at.is_some_and(|at| at <= passed) && world.grant().cancel.is_none() {
                world.cancel();
            }
        });
    }
}
