//! System packages: Debian's names, installed by apt after saying so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Options, Progress, Proxy, Result, Runtime, requirements, run, workspace};

/// What is needed, how it is recognised, and the Debian package that has it.
struct Need {
    /// A program on the search path, or an absolute path of a file.
    file: &'static str,
    package: &'static str,
}

const RUNNING: [Need; 4] = [
    Need { file: "ip", package: "iproute2" },
    Need { file: "nft", package: "nftables" },
    Need { file: "nsenter", package: "util-linux" },
    Need { file: "sysctl", package: "procps" },
];

/// kube-proxy's mode of this name runs them, and flannel beside it.
const IPTABLES: [Need; 1] = [Need { file: "iptables-restore", package: "iptables" }];

/// The runtime of this name.
const CRUN: [Need; 1] = [Need { file: "crun", package: "crun" }];

/// runc is built with C for its seccomp support.
const BUILDING_C: [Need; 3] = [
    Need { file: "gcc", package: "gcc" },
    Need { file: "pkg-config", package: "pkg-config" },
    Need { file: "/usr/include/seccomp.h", package: "libseccomp-dev" },
];

/// libFuzzer is C++.
const FUZZING: [Need; 1] = [Need { file: "c++", package: "g++" }];

/// Makes sure that all is there to run a cluster, or tests on network namespaces.
///
/// # Errors
/// If something is missing and can't be installed: without root, or on a system without apt.
pub fn ensure_for_running(progress: Progress<'_>) -> Result<()> {
    ensure(&RUNNING, progress)
}

/// Makes sure that all is there to run a cluster of that kind.
pub(crate) fn ensure_for_options(options: Options, progress: Progress<'_>) -> Result<()> {
    ensure(&RUNNING, progress)?;
    match options.proxy {
        Proxy::Nftables => {}
        Proxy::Iptables => ensure(&IPTABLES, progress)?,
    }
    match options.runtime {
        Runtime::Containerd2 | Runtime::Containerd1_7 => Ok(()),
        Runtime::Crun => ensure(&CRUN, progress),
    }
}

/// Makes sure that all is there to build libFuzzer.
///
/// # Errors
/// As [`ensure_for_running`].
pub fn ensure_for_fuzzing(progress: Progress<'_>) -> Result<()> {
    ensure(&FUZZING, progress)
}

/// Makes sure that all is there to build a Go module, with C or without.
pub(crate) fn ensure_for_building(c: bool, progress: Progress<'_>) -> Result<()> {
    if !present("go") {
        return Err(Error::Requirement(
            "Go is missing: install Go 1.26 or newer from go.dev/dl, and put its bin directory on PATH".into(),
        ));
    }
    if c { ensure(&BUILDING_C, progress) } else { Ok(()) }
}

fn ensure(needs: &[Need], progress: Progress<'_>) -> Result<()> {
    let missing: Vec<&str> = needs.iter().filter(|need| !present(need.file)).map(|need| need.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    let by_hand = format!("apt-get update && apt-get install --yes --no-install-recommends {list}");
    if !present("apt-get") {
        return Err(Error::Requirement(format!("these programs are missing (by their Debian package): {list}")));
    }
    if !requirements::is_root() {
        return Err(Error::Requirement(format!("system packages are missing; install them as root: {by_hand}")));
    }
    progress(&format!("installing missing system packages: {by_hand}"));
    run::output(apt().arg("update"))?;
    run::output(apt().args(["install", "--yes", "--no-install-recommends"]).args(&missing)).map(drop)
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    // A fresh machine may be busy with its own updates.
    command.args(["-o", "DPkg::Lock::Timeout=120"]);
    command
}

/// Whether a program is on the search path, or a file is there.
pub(crate) fn present(file: &str) -> bool {
    if Path::new(file).is_absolute() {
        return fs::exists(file).unwrap_or(false);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(file).is_file())
}

/// A program of a Debian package that is not installed: the package is downloaded, checked by apt and unpacked, and none of its scripts
/// runs, so no service is started. `file` is its path in the package, e.g. `usr/bin/promtool`.
///
/// # Errors
/// Without apt and dpkg-deb, if there is no such package or file, or if it can't be downloaded.
pub fn program_of(package: &str, file: &str, progress: Progress<'_>) -> Result<PathBuf> {
    let folder = workspace::packages().join(package);
    let program = folder.join(file);
    if program.is_file() {
        return Ok(program);
    }
    if !present("apt-get") || !present("dpkg-deb") {
        return Err(Error::Requirement(format!("{file} is missing: it is in the Debian package {package}")));
    }
    progress(&format!("fetching {package} from Debian …"));
    // Beside what is there by now: two tests may want it at a time.
    let unfinished = folder.with_extension(format!("unfinished-{}", std::process::id()));
    fs::create_dir_all(&unfinished).map_err(Error::file("create", &unfinished))?;
    let download = || {
        let options = ["-o", "APT::Sandbox::User=root", "download", package];
        run::output(apt().args(options).current_dir(&unfinished))
    };
    if download().is_err() {
        // The lists of a machine that was made a while ago name versions that are no more.
        run::output(apt().arg("update"))?;
        download()?;
    }
    let entries = fs::read_dir(&unfinished).map_err(Error::file("list", &unfinished))?;
    for entry in entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "deb")) {
        run::output(Command::new("dpkg-deb").arg("-x").arg(entry.path()).arg(&unfinished))?;
        fs::remove_file(entry.path()).map_err(Error::file("remove", entry.path()))?;
    }
    if fs::rename(&unfinished, &folder).is_err() {
        // Another one was quicker.
        fs::remove_dir_all(&unfinished).map_err(Error::file("remove", &unfinished))?;
    }
    if program.is_file() {
        return Ok(program);
    }
    Err(Error::Requirement(format!("the Debian package {package} has no {file}")))
}
