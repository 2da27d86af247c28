//! Copies the sources, puts the bugs in, and builds the simulation with them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{SWITCH, bugs};

/// What of the workspace the simulation is built from. All crates: one that is new need not be named here.
pub(crate) const COPIED: [&str; 5] = ["crates", "agent", "controller", "tests/sim", "tests/world"];

/// The packages in it.
const MEMBERS: [&str; 5] = ["crates/*", "agent", "controller", "tests/sim", "tests/world"];

/// What the compiler includes in them.
pub(crate) const INCLUDED: [&str; 1] = ["docs/openapi.json"];

/// Copies sources, except those that are changed. What is the same already is left alone, so that it is not compiled again. What is
/// there of an earlier copy and no more in the workspace goes: cargo would find a test twice that has become a folder.
pub(crate) fn copy(from: &Path, to: &Path, except: &[(PathBuf, String)]) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(to).unwrap() {
        let entry = entry.unwrap();
        if from.join(entry.file_name()).exists() {
            continue;
        }
        let remove = if entry.file_type().unwrap().is_dir() { fs::remove_dir_all } else { fs::remove_file };
        remove(entry.path()).unwrap();
    }
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

pub(crate) fn write(to: &Path, content: &[u8]) {
    if fs::read(to).ok().as_deref() != Some(content) {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, content).unwrap();
    }
}

/// The files that are not as they are in the workspace.
pub(crate) fn planted(workspace: &Path, tree: &Path) -> Vec<(PathBuf, String)> {
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
    let manifest = manifest.replace(members, &format!("members = {MEMBERS:?}"));
    changed.push((tree.join("Cargo.toml"), quick_to_build(&manifest)));
    changed
}

/// The crates of the workspace with little optimisation: a bug is found within seconds, and all of it takes minutes more to compile. The
/// libraries stay as the simulation without bugs has them, so nobody compiles them twice.
fn quick_to_build(manifest: &str) -> String {
    let (before, after) = manifest.split_once("\n[profile.sim]\n").unwrap();
    assert!(after.contains("\n[profile.sim.package.\"*\"]\n"), "libraries have a level of their own");
    format!("{before}\n[profile.sim]\n{}", after.replacen("opt-level = 3\n", "opt-level = 1\n", 1))
}

pub(crate) fn build(workspace: &Path, tree: &Path, target: &Path) -> PathBuf {
    // The versions that the workspace is tested with; cargo takes out what is not needed here.
    if !tree.join("Cargo.lock").exists() {
        fs::copy(workspace.join("Cargo.lock"), tree.join("Cargo.lock")).unwrap();
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", "sim", "-p", "hitless-sim"]).current_dir(tree);
    cargo.env("CARGO_TARGET_DIR", target);
    // What cargo tells this test: build scripts of libraries would run again, and all that depends on them would be compiled anew.
    let told = std::env::vars_os().map(|(name, _)| name);
    let is_told = |name: &OsString| {
        let name = name.to_string_lossy();
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
    };
    told.filter(is_told).for_each(|name| _ = cargo.env_remove(name));
    assert!(cargo.status().unwrap().success(), "the simulation with the bugs does not build");
    target.join("sim/hitless-sim-mutants")
}
