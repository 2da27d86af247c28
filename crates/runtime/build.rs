//! Tells the build its commit: what `HITLESS_COMMIT` says, else what git says of the checkout; of a source archive nobody knows it.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=HITLESS_COMMIT");
    let told = std::env::var("HITLESS_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = told.or_else(of_checkout) {
        println!("cargo::rustc-env=HITLESS_COMMIT={commit}");
    }
}

/// The commit of the checkout that this package is in. An archive that somebody has unpacked within a checkout of something else is not
/// that one's.
fn of_checkout() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    if !root.join(".git").exists() {
        return None;
    }
    let git = |words: &[&str]| {
        let said = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
        let text = String::from_utf8(said.stdout).ok()?.trim().to_owned();
        (said.status.success() && !text.is_empty()).then_some(text)
    };
    // A commit, and going to another one, is written to the log of HEAD.
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).map(|log| root.join(log)).filter(|log| log.exists())
    {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}
