//! HAProxy from Debian's package: apt resolves and downloads, `dpkg-deb` unpacks. Nothing is installed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The program, and where its libraries are.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) libraries: Option<OsString>,
}

static PROGRAM: LazyLock<Result<Program, String>> = LazyLock::new(find);

/// HAProxy, if it can be had. A test that gets nothing is left out, unless `CI` is set or there is root to get it with.
pub(crate) fn program() -> Option<Program> {
    match &*PROGRAM {
        Ok(program) => Some(program.clone()),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "these tests need HAProxy, and CI is set: {why}");
            assert!(!rustix::process::geteuid().is_root(), "there is root, and still no HAProxy: {why}");
            eprintln!("left out: there is no HAProxy: {why}");
            None
        }
    }
}

fn find() -> Result<Program, String> {
    let named = std::env::var_os("HAPROXY").map(PathBuf::from);
    match named.or_else(|| on_the_search_path("haproxy")) {
        Some(path) => Ok(Program { path, libraries: None }),
        None => unpacked(Path::new(env!("CARGO_TARGET_TMPDIR"))),
    }
}

fn on_the_search_path(program: &str) -> Option<PathBuf> {
    // Not on everybody's search path.
    let sbin = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(sbin).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// Unpacked once for all runs. It gets its name last, so that a half of it is never used.
fn unpacked(target: &Path) -> Result<Program, String> {
    let root = target.join("haproxy");
    if !root.is_dir() {
        let work = tempfile::tempdir_in(target).map_err(|error| error.to_string())?;
        unpack(work.path())?;
        // Another process may have been faster.
        if let Err(error) = fs::rename(work.path().join("root"), &root)
            && !root.is_dir()
        {
            return Err(error.to_string());
        }
    }
    let library = root.join("usr/lib");
    let architectures = fs::read_dir(&library).map_err(|error| format!("list {}: {error}", library.display()))?;
    let directories = architectures.filter_map(Result::ok).map(|entry| entry.path());
    let libraries = std::env::join_paths(directories).map_err(|error| error.to_string())?;
    Ok(Program { path: root.join("usr/sbin/haproxy"), libraries: Some(libraries) })
}

fn unpack(work: &Path) -> Result<(), String> {
    let missing = ["install", "--simulate", "--no-install-recommends", "haproxy"];
    let simulate = || run(apt().args(missing));
    // A machine that was just made has no lists.
    let plan = simulate().or_else(|_| run(apt().arg("update")).and_then(|_| simulate()))?;
    let packages: Vec<&str> = plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next()).collect();
    let download = || run(apt().arg("download").args(&packages).current_dir(work));
    // The lists of a machine that was made a while ago name packages that are no more.
    download().or_else(|_| run(apt().arg("update")).and_then(|_| download()))?;
    for entry in fs::read_dir(work).map_err(|error| error.to_string())?.filter_map(Result::ok) {
        let file = entry.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(file).arg(work.join("root")))?;
        }
    }
    Ok(())
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.args(["-o", "APT::Sandbox::User=root"]).env("LC_ALL", "C");
    command
}

/// Runs it; an error says what it said.
fn run(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|error| format!("{command:?} can't be run: {error}"))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&done.stderr).trim()))
    }
}
