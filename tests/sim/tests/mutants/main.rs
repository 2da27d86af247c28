//! Would the simulation notice? Deliberate bugs, each of which it must find within a bounded number of rollouts.
//!
//! The product has no hooks for this. Its sources are copied to a directory below `target`, the bugs are put in there by
//! replacing exact texts (each must be found exactly once, so that a change of the product shows here and not in a bug that is
//! never planted), all behind one run-time switch, and the simulation is built once with them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod cluster;
mod companions;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Which bug is on, by its number in [`bugs`] from 1.
const SWITCH: &str = "HITLESS_SIM_MUTANT";
/// From this seed on there are companion pods.
const COMPANIONS: u64 = 1_000_000;
/// Rollouts within which each bug must be found.
const ROLLOUTS: &str = "20000";
/// What of the workspace the simulation is built from.
const COPIED: [&str; 10] = [
    "crates/api",
    "crates/rollout",
    "crates/gate",
    "crates/workloads",
    "crates/kernel",
    "crates/runtime",
    "agent",
    "controller",
    "tests/sim",
    "tests/world",
];

/// What the compiler includes in them.
const INCLUDED: [&str; 1] = ["docs/openapi.json"];

struct Bug {
    what: &'static str,
    /// File, text, and what it becomes; `MUTANT` stands for "this bug is on".
    changes: &'static [(&'static str, &'static str, &'static str)],
}

/// All of them in the order of their numbers, with the seed from which on they are looked for.
fn bugs() -> impl Iterator<Item = (u64, &'static Bug)> {
    cluster::BUGS.iter().map(|bug| (0, bug)).chain(companions::BUGS.iter().map(|bug| (COMPANIONS, bug)))
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
        let broken = text.lines().find(|line| line.starts_with("BROKEN")).map(str::to_owned);
        assert_eq!(output.status.success(), broken.is_none(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        (broken, text.lines().next().unwrap_or_default().to_owned())
    };
    for (from, rollouts) in [(0, "1000"), (COMPANIONS, "500")] {
        let (broken, _) = run(0, from, rollouts);
        assert_eq!(broken, None, "without a bug");
    }
    let (left, unnoticed) = (Mutex::new(bugs().enumerate()), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().next();
    let look = || {
        while let Some((index, (from, bug))) = next() {
            match run(index + 1, from, ROLLOUTS) {
                (Some(broken), after) => println!("{}: {broken} ({after})", bug.what),
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

/// Copies sources, except those that are changed. What is the same already is left alone, so that it is not compiled again.
fn copy(from: &Path, to: &Path, except: &[(PathBuf, String)]) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&from, &to, except);
        } else if !except.iter().any(|(path, _)| *path == to) {
            write(&to, &fs::read(&from).unwrap());
        }
    }
}

fn write(to: &Path, content: &[u8]) {
    if fs::read(to).ok().as_deref() != Some(content) {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, content).unwrap();
    }
}

/// The files that are not as they are in the workspace.
fn planted(workspace: &Path, tree: &Path) -> Vec<(PathBuf, String)> {
    let read = |file: &str| fs::read_to_string(workspace.join(file)).unwrap();
    let mut changed: Vec<(PathBuf, String)> = Vec::new();
    for (index, (_, bug)) in bugs().enumerate() {
        let switch = format!("hitless_api::is_mutant({})", index + 1);
        for (file, text, replacement) in bug.changes {
            let path = tree.join(file);
            let at = changed.iter().position(|(known, _)| *known == path).unwrap_or_else(|| {
                changed.push((path, read(file)));
                changed.len() - 1
            });
            let found = changed[at].1.matches(text).count();
            assert_eq!(found, 1, "{:?} is put in place of a text that {file} has {found} times: {text}", bug.what);
            changed[at].1 = changed[at].1.replace(text, &replacement.replace("MUTANT", &switch));
        }
    }
    let switch = format!(
        "\n/// Whether this deliberate bug is on.\npub fn is_mutant(number: usize) -> bool {{\n    \
         static ON: std::sync::OnceLock<usize> = std::sync::OnceLock::new();\n    \
         let read = || std::env::var({SWITCH:?}).ok().and_then(|on| on.parse().ok()).unwrap_or_default();\n    \
         *ON.get_or_init(read) == number\n}}\n"
    );
    changed.push((tree.join("crates/api/src/lib.rs"), read("crates/api/src/lib.rs") + &switch));
    // Another name than that of the simulation without bugs, which is built into the same directory.
    let manifest = read("tests/sim/Cargo.toml").replace("\n[dependencies]", "autobins = false\n\n[dependencies]")
        + "\n[[bin]]\nname = \"hitless-sim-mutants\"\npath = \"src/main.rs\"\n";
    changed.push((tree.join("tests/sim/Cargo.toml"), manifest));
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find(|line| line.starts_with("members = ")).unwrap();
    let version = manifest.lines().find(|line| line.starts_with("version = ")).unwrap();
    // Both workspaces are built into one directory, for the sake of the libraries. With equal versions cargo would take the one's
    // crates for the other's.
    let manifest = manifest.replacen(version, "version = \"0.0.0-mutants\"", 1);
    changed.push((tree.join("Cargo.toml"), manifest.replace(members, &format!("members = {COPIED:?}"))));
    changed
}

fn build(workspace: &Path, tree: &Path, target: &Path) -> PathBuf {
    // The versions that the workspace is tested with; cargo takes out what is not needed here.
    if !tree.join("Cargo.lock").exists() {
        fs::copy(workspace.join("Cargo.lock"), tree.join("Cargo.lock")).unwrap();
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", "sim", "-p", "hitless-sim"]).current_dir(tree);
    cargo.env("CARGO_TARGET_DIR", target);
    assert!(cargo.status().unwrap().success(), "the simulation with the bugs does not build");
    target.join("sim/hitless-sim-mutants")
}
