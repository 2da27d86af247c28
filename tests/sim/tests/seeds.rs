//! What CI runs: seeds, and that a seed is a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use hitless_sim::{Counts, HoldCounts, Outcome, run};

/// Seeds that are run here; `cargo xtask sim` runs as many as it is asked for.
const SEEDS: u64 = 2_000;
/// From this seed on there is a load balancer outside of the cluster, and so many of these are run.
const BALANCERS: u64 = 2_000_000;
const BALANCED: u64 = 300;
/// And so many of clusters with CollaSets, from the seed on from which there are any.
const COLLA_SETS: (u64, u64) = (3_000_000, 500);

#[test]
fn two_thousand_clusters_keep_every_promise_under_every_fault() {
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let part = || {
        let (mut faults, mut holds, mut broken) = (Counts::default(), HoldCounts::default(), Vec::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS + COLLA_SETS.1 {
                return (faults, holds, broken);
            }
            let seed = if seed < SEEDS { seed } else { COLLA_SETS.0 + seed - SEEDS };
            let outcome = run(seed, false);
            faults.merge(&outcome.faults);
            holds.merge(&outcome.holds);
            broken.extend(outcome.broken.map(|what| format!("seed {seed}: {what}")));
        }
    };
    let parts = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(part)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let (mut faults, mut holds) = (Counts::default(), HoldCounts::default());
    let broken: Vec<String> = parts
        .into_iter()
        .flat_map(|(counted, held, broken)| {
            faults.merge(&counted);
            holds.merge(&held);
            broken
        })
        .collect();
    assert!(broken.is_empty(), "replay with `cargo xtask sim --seed N`:\n{}", broken.join("\n"));
    assert_eq!(faults.missing().collect::<Vec<_>>(), Vec::<&str>::new(), "faults that were never injected");
    assert_eq!(holds.missing().collect::<Vec<_>>(), Vec::<&str>::new(), "what never happened around Holds");
}

#[test]
fn clusters_behind_a_load_balancer_keep_their_promises_too() {
    let broken: Vec<String> = (0..BALANCED)
        .map(|index| run(BALANCERS + index, false))
        .filter_map(|outcome| Some(format!("seed {}: {}", outcome.seed, outcome.broken?)))
        .collect();
    assert!(broken.is_empty(), "replay with `cargo xtask sim --seed N`:\n{}", broken.join("\n"));
}

#[test]
fn the_same_seed_is_the_same_run_to_the_last_line() {
    for seed in [4, 2, 3, 5, 7, BALANCERS, 3_000_004] {
        let [first, again]: [Outcome; 2] = [run(seed, true), run(seed, true)];
        assert!(first.trace.len() > 100, "seed {seed} does something");
        assert_eq!(first.trace, again.trace, "seed {seed}");
        assert_eq!((first.writes, first.faults, first.holds), (again.writes, again.faults, again.holds));
    }
}
