//! Would the simulation notice? Deliberate bugs, each of which it must find within a bounded number of rollouts.
//!
//! The product has no hooks for this. Its sources are copied to a directory below `target`, the bugs are put in there by
//! replacing exact texts (each must be found exactly once, so that a change of the product shows here and not in a bug that is
//! never planted), all behind one run-time switch, and the simulation is built once with them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod applications;
mod balancers;
mod build;
mod colla_sets;
mod companions;
mod deletions;
mod holds;
mod jobs;
mod operators;
mod pauses;
mod rounds;
mod workloads;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use build::{COPIED, INCLUDED, build, copy, planted, write};

/// Which bug is on, by its number in [`bugs`] from 1.
const SWITCH: &str = "HITLESS_SIM_MUTANT";
/// From this seed on there are companion pods.
const COMPANIONS: u64 = 1_000_000;
/// From this seed on there is a load balancer outside of the cluster.
const BALANCERS: u64 = 2_000_000;
/// And from this one on foreign operators.
const OPERATORS: u64 = 4_000_000;
/// And from this one on OperationJobs.
const JOBS: u64 = 5_000_000;
/// And from this one on pauses.
const PAUSES: u64 = 6_000_000;
/// And from this one on CollaSets.
const COLLA_SETS: u64 = 3_000_000;
/// And from this one on deletions of CollaSets.
const DELETIONS: u64 = 7_000_000;
/// And from this one on servers that start late and stop slowly.
const APPLICATIONS: u64 = 8_000_000;
/// And from this one on CloneSets and ContainerRecreateRequests.
const CLONE_SETS: u64 = 9_000_000;
/// Which part of the bugs is looked for, as `1/6` to `6/6`; absent: all of them. `cargo xtask test` takes turns by commit.
const PART: &str = "HITLESS_SIM_MUTANTS";
/// Rollouts within which each bug must be found.
const ROLLOUTS: &str = "20000";

struct Bug {
    what: &'static str,
    /// File, text, and what it becomes; `MUTANT` stands for "this bug is on".
    changes: &'static [(&'static str, &'static str, &'static str)],
}

/// All of them in the order of their numbers, with the seed from which on they are looked for.
fn bugs() -> impl Iterator<Item = (u64, &'static Bug)> {
    let companions = companions::BUGS.iter().map(|bug| (COMPANIONS, bug));
    let balancers = balancers::BUGS.iter().map(|bug| (BALANCERS, bug));
    let operators = operators::BUGS.iter().map(|bug| (OPERATORS, bug));
    let jobs = jobs::BUGS.iter().map(|bug| (JOBS, bug));
    let pauses = pauses::BUGS.iter().map(|bug| (PAUSES, bug));
    let colla_sets = colla_sets::BUGS.iter().map(|bug| (COLLA_SETS, bug));
    let deletions = deletions::BUGS.iter().map(|bug| (DELETIONS, bug));
    let applications = applications::BUGS.iter().map(|bug| (APPLICATIONS, bug));
    let kubernetes = rounds::BUGS.iter().chain(holds::BUGS).chain(workloads::BUGS).map(|bug| (0, bug));
    let more = companions.chain(balancers).chain(colla_sets).chain(operators).chain(jobs).chain(pauses);
    let recreations = jobs::RECREATIONS.iter().map(|bug| (CLONE_SETS, bug));
    kubernetes.chain(more).chain(deletions).chain(applications).chain(recreations)
}

/// The part from 0, and of how many.
fn part() -> (usize, usize) {
    let Some(text) = std::env::var_os(PART) else { return (0, 1) };
    let text = text.into_string().unwrap();
    let (part, parts) = text.split_once('/').unwrap();
    let (part, parts): (usize, usize) = (part.parse().unwrap(), parts.parse().unwrap());
    assert!((1..=parts).contains(&part), "{PART}={text}");
    (part - 1, parts)
}

#[test]
fn every_deliberate_bug_is_found() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let tree = target.join("sim-mutants");
    let changed = planted(&workspace, &tree);
    for part in COPIED {
        copy(&workspace.join(part), &tree.join(part), &changed);
    }
    for file in INCLUDED {
        write(&tree.join(file), &fs::read(workspace.join(file)).unwrap());
    }
    for (path, text) in &changed {
        write(path, text.as_bytes());
    }
    let program = build(&workspace, &tree, &target);

    let run = |number: usize, from: u64, rollouts: &str| {
        let mut simulation = Command::new(&program);
        let from = from.to_string();
        simulation.args(["--first", "--rollouts", rollouts, "--from", &from]).env(SWITCH, number.to_string());
        let output = simulation.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let broken = text.lines().find_map(|line| line.strip_prefix("BROKEN seed ")?.split_once(": "));
        let broken = broken.map(|(seed, what)| (seed.parse::<u64>().unwrap(), what.to_owned()));
        assert_eq!(output.status.success(), broken.is_none(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        (broken, text.lines().next().unwrap_or_default().to_owned())
    };
    let (part, parts) = part();
    let wanted = bugs().enumerate().filter(|(index, _)| index % parts == part);
    let (left, unnoticed) = (Mutex::new(wanted), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().next();
    let look = || {
        while let Some((index, (from, bug))) = next() {
            match run(index + 1, from, ROLLOUTS) {
                (Some((seed, broken)), after) => {
                    println!("{}: seed {seed}: {broken} ({after})", bug.what);
                    assert_eq!(run(0, seed, "1").0, None, "the same seed without {}", bug.what);
                }
                (None, after) => unnoticed.lock().unwrap().push(format!("{} ({after})", bug.what)),
            }
        }
    };
    // Each of them has one thread to do.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(look);
        }
    });
    assert_eq!(unnoticed.into_inner().unwrap(), Vec::<String>::new(), "bugs that the simulation does not see");
}
