//! Builds the programs: static binaries, those of the images as they are shipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// The only target: static binaries for glibc run in an empty image, see the Dockerfile.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Name of the setting that chooses another cargo profile than `release`, for quick rounds.
pub const PROFILE: &str = "HITLESS_PROFILE";
/// The profile of what runs in pods beside hitless. To link it as hitless itself is linked takes as long as that, and shows nothing.
const QUICK: &str = "fast";

/// The built programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `hitless-agent`.
    pub agent: PathBuf,
    /// `hitless-controller`.
    pub controller: PathBuf,
    /// `kubectl-hitless`.
    pub cli: PathBuf,
    /// The reference server.
    pub echo_server: PathBuf,
    /// The load client.
    pub load: PathBuf,
    /// The client of KusionStack's tutorial.
    pub tutorial_client: PathBuf,
    /// The server of long streams.
    pub streams_server: PathBuf,
    /// The client of long streams.
    pub streams: PathBuf,
}

/// The workspace that this was built from.
#[must_use]
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

impl Programs {
    /// Builds what has changed; cargo's own progress goes to standard error.
    pub fn build() -> anyhow::Result<Self> {
        for (name, mut cargo) in [("the plugin", plugin())].into_iter().chain(Self::commands()) {
            let status = cargo.status().context("run cargo")?;
            ensure!(status.success(), "cargo could not build {name}");
        }
        Self::existing()
    }

    /// Builds the plugin alone and returns its path.
    pub fn build_cli() -> anyhow::Result<PathBuf> {
        let status = plugin().status().context("run cargo")?;
        ensure!(status.success(), "cargo could not build kubectl-hitless");
        Ok(Self::built(&profile()).cli)
    }

    /// What [`Programs::build`] runs for what is in images, and what each builds.
    #[must_use]
    pub fn commands() -> [(&'static str, Command); 2] {
        // Apart, as in the Dockerfile: cargo gives all packages of one build the features that any of them wants of a library.
        let shipped = command(&profile(), &["hitless-agent", "hitless-controller"]);
        let others = command(QUICK, &["hitless-load", "hitless-streams"]);
        [("hitless", shipped), ("load and streams", others)]
    }

    /// The programs of an earlier [`Programs::build`] of this profile.
    pub fn existing() -> anyhow::Result<Self> {
        let programs = Self::built(&profile());
        ensure!(
            programs.agent.is_file(),
            "{} is not built: run the tests by `cargo xtask test`",
            programs.agent.display()
        );
        Ok(programs)
    }

    /// The one of this name that is in an image.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&PathBuf> {
        let Self { agent, controller, cli, echo_server, load, tutorial_client, streams_server, streams } = self;
        let all = [agent, controller, cli, echo_server, load, tutorial_client, streams_server, streams];
        all.into_iter().find(|path| path.file_name().is_some_and(|own| own == name))
    }

    fn built(profile: &str) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
        let shipped = target.join(TARGET).join(profile);
        let others = target.join(TARGET).join(QUICK);
        Self {
            agent: shipped.join("hitless-agent"),
            controller: shipped.join("hitless-controller"),
            cli: target.join("debug/kubectl-hitless"),
            echo_server: others.join("echo-server"),
            load: others.join("load"),
            tutorial_client: others.join("tutorial-client"),
            streams_server: others.join("streams-server"),
            streams: others.join("streams"),
        }
    }
}

/// A cargo that builds what any other cargo of this workspace builds.
#[must_use]
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace());
    as_from_a_shell(cargo)
}

/// Without what `cargo run` and `cargo test` tell the programs that they start. Build scripts of libraries (ring's) look at it: with
/// other values they run again, and all that depends on them is compiled once more.
#[must_use]
pub fn as_from_a_shell(mut command: Command) -> Command {
    let told = std::env::vars_os().map(|(name, _)| name);
    let is_told = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
    };
    told.filter(is_told).for_each(|name| _ = command.env_remove(name));
    command
}

/// The plugin as a test of its own package has it, which runs it, among all tests: there it is built anyway, and with other features all
/// libraries would be compiled once more.
#[must_use]
pub fn plugin() -> Command {
    let mut cargo = cargo();
    cargo.args(["test", "--locked", "--no-run", "--workspace", "--exclude", "hitless-sim", "--test", "consoles"]);
    cargo
}

fn profile() -> String {
    std::env::var(PROFILE).unwrap_or_else(|_| "release".to_owned())
}

fn command(profile: &str, packages: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(["build", "--locked", "--bins", "--target", TARGET, "--profile", profile]);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    // The same flags as in the Dockerfile; a caller's own would make other binaries.
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
}
