//! A command in a container's namespaces, as the container's own user and without any capability, without asking the container
//! runtime.
//!
//! Entering a mount namespace takes a process of one thread, and only a child of the process that has entered a process
//! namespace is in it. So this program is run twice more:
//!
//! ```text
//! agent ─ helper "enter": enters the namespaces and the root ─ helper "run": drops its rights ─ the command
//! ```
//!
//! Whoever may not signal another user's process can end it all the same: both helpers hold the end of a pipe
//! ([`Keep`]), and when its other end is closed, "run", which has the command's own user, kills the command with its group. The second
//! helper can't be looked into from the container: it is not dumpable, and before that it has more capabilities.

mod enter;
mod ids;
mod run;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::CapabilitySet;

use crate::process::Process;
use crate::{Capability, KernelError, ProcessExit};
use ids::Ids;

/// First argument of a helper: `main` calls [`helper`] where it sees it, before anything else.
pub const HELPER: &str = "hook-exec";
/// Exit code of a helper that could not do its work; what it says then is its own, not the command's.
pub const HELPER_FAILED: u8 = 125;
/// Exit code of a command that was ended because nobody waited for it any more.
const ENDED: u8 = 124;
/// Environment variable that tells the command which operation and hook it is called for.
const OPERATION: &str = "HITLESS_OPERATION";

/// What is run where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOrder {
    /// The pod's uid.
    pub pod_uid: String,
    /// containerID, as the pod's status has it.
    pub container_id: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Value of the environment variable `HITLESS_OPERATION`.
    pub operation: String,
    /// So many bytes of what it says are kept: the last ones.
    pub longest_output: usize,
}

/// A command lives as long as this does.
#[derive(Debug)]
pub struct Keep(#[expect(dead_code, reason = "its end is what counts")] PipeWriter);

/// The other end of a [`Keep`].
#[derive(Debug)]
pub struct Kept(PipeReader);

/// Both.
pub fn keep() -> io::Result<(Keep, Kept)> {
    let (reader, writer) = io::pipe()?;
    Ok((Keep(writer), Kept(reader)))
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Its exit code; 128 and the signal, if it was killed by one; [`HELPER_FAILED`] if it was not even begun, or ended so.
    pub code: i32,
    /// The end of what it said.
    pub output: String,
}

/// What is needed to run commands in containers, beyond what everything here needs.
#[must_use]
pub fn can_exec() -> bool {
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::SYS_PTRACE
        | CapabilitySet::SYS_CHROOT
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::SETPCAP;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Runs a command and waits for its end, and for that of its process group; as long as the [`Keep`] is there. `helper` is this
/// program, or another one whose `main` calls [`helper`].
pub fn execute(proc_root: &Path, helper: &Path, order: &ExecOrder, kept: Kept) -> Result<Executed, KernelError> {
    let exit = ProcessExit::of_container(proc_root, &order.pod_uid, &order.container_id)?;
    let pid = exit.pid();
    let gone =
        || KernelError::ContainerNotFound { pod_uid: order.pod_uid.clone(), container_id: order.container_id.clone() };
    let failed = |what: &'static str| move |error: io::Error| KernelError::of_call(what, error, NEEDS);
    let process = Process::open(proc_root, pid).map_err(failed("open a container's process"))?.ok_or_else(gone)?;
    let ids = Ids::of(&process).map_err(failed("read the user of a container"))?.ok_or_else(gone)?;
    let is_own_user = has_own_user(proc_root, pid).map_err(failed("look at a container's user namespace"))?;
    let (output, says) = io::pipe().map_err(failed("open a pipe"))?;
    let pidfd = exit.as_fd().try_clone_to_owned().map_err(failed("duplicate a file descriptor"))?;
    let mut child = spawn(helper, proc_root, order, &ids, is_own_user, pid, [pidfd, says.into(), kept.0.into()])
        .map_err(failed("start the helper that enters a container"))?;
    let output = tail(output, &child, order.longest_output);
    let status = child.wait().map_err(failed("wait for the helper"))?;
    let output = output.map_err(failed("read what a command says"))?;
    Ok(Executed { code: code(status), output: String::from_utf8_lossy(&output).into_owned() })
}

const NEEDS: &[Capability] = &[Capability::SysPtrace, Capability::SysAdmin];

/// Descriptors: the pidfd of the container's first process, where to write to, and the pipe that tells when to end.
fn spawn(
    helper: &Path,
    proc_root: &Path,
    order: &ExecOrder,
    ids: &Ids,
    is_own_user: bool,
    pid: Pid,
    [pidfd, says, kept]: [OwnedFd; 3],
) -> io::Result<Child> {
    Command::new(helper)
        .args([HELPER, "enter", if is_own_user { "user" } else { "" }])
        .arg(proc_root.join(pid.as_raw_pid().to_string()))
        .args(ids.arguments())
        .arg(&order.operation)
        .args(&order.command)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(pidfd))
        .stdout(Stdio::from(says))
        .stderr(Stdio::from(kept))
        .spawn()
}

/// Whether the container has a user namespace of its own.
fn has_own_user(proc_root: &Path, pid: Pid) -> io::Result<bool> {
    let of = |who: &str| statat(CWD, proc_root.join(who).join("ns/user"), AtFlags::empty());
    let (theirs, own) = (of(&pid.as_raw_pid().to_string())?, of("self")?);
    Ok((theirs.st_dev, theirs.st_ino) != (own.st_dev, own.st_ino))
}

/// The last bytes of what is said until the helper has ended: somebody who has left the command's group may hold the pipe open
/// for ever.
fn tail(mut output: PipeReader, helper: &Child, longest: usize) -> io::Result<Vec<u8>> {
    let exit = pidfd_open(Pid::from_child(helper), PidfdFlags::empty())?;
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 4096]);
    loop {
        let mut both = [PollFd::new(&output, PollFlags::IN), PollFd::new(&exit, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if both[0].revents().is_empty() {
            if both[1].revents().is_empty() {
                continue;
            }
            return Ok(kept);
        }
        let count = output.read(&mut buffer)?;
        if count == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(&buffer[..count]);
        kept.drain(..kept.len().saturating_sub(longest));
    }
}

fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(i32::from(HELPER_FAILED))
}

/// What a process does whose first argument is [`HELPER`]; `arguments` are those behind it. To be called while the process has a
/// single thread.
#[must_use]
pub fn helper(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let done = match arguments.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("enter") => enter::enter(arguments),
        Some("run") => run::run(arguments),
        Some(_) | None => Err(HelperError::Arguments),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            println!("{error}");
            ExitCode::from(HELPER_FAILED)
        }
    }
}

/// Why a helper can't do its work.
#[derive(Debug, thiserror::Error)]
enum HelperError {
    #[error("this command is for the agent itself")]
    Arguments,
    #[error("{0}: {1}")]
    Call(&'static str, io::Error),
    #[error("can't run {0:?} in the container: {1}")]
    Spawn(OsString, io::Error),
}

/// Names what failed.
fn call<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> HelperError {
    move |error| HelperError::Call(what, error.into())
}

/// What a helper's standard stream was made of.
fn standard(stream: impl AsFd) -> Result<OwnedFd, HelperError> {
    stream.as_fd().try_clone_to_owned().map_err(call("can't duplicate a file descriptor"))
}

/// The environment of a process: pieces that end with a zero byte.
fn environment(file: File) -> io::Result<Vec<(OsString, OsString)>> {
    use std::os::unix::ffi::OsStringExt;
    const LONGEST: u64 = 1024 * 1024;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    let pair = |piece: &[u8]| {
        let at = piece.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((OsString::from_vec(piece[..at].to_vec()), OsString::from_vec(piece[at + 1..].to_vec())))
    };
    Ok(bytes.split(|byte| *byte == 0).filter_map(pair).collect())
}

/// A path behind a descriptor, as the process itself and its children see it.
fn path_of(fd: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
