//! A command in a container's namespaces and control groups, as the container's own user and without any capability, without
//! asking the container runtime.
//!
//! Entering a mount namespace takes a process of one thread, so this program is run once more, as a helper:
//!
//! ```text
//! agent ─ helper: joins the control groups, enters namespaces and root, gives up all rights ─ the command
//! ```
//!
//! The container never gets hold of a process that can do more than itself. Only a child of the process that has entered a
//! process namespace is in it, so the helper stays in the node's, where the container does not see it. The one process of ours
//! that the container sees is the copy of the helper that becomes the command, and by then the helper has no rights, and no
//! descriptor but pipes. Of the container's files nothing is run but the command, and no path is looked up in it before the
//! rights are gone: what the helper reads, it reads through descriptors of the node's `/proc` that it opened before.
//!
//! The helper ends the command with its group once the agent's end of a pipe ([`Keep`]) is closed. A helper that does not do
//! that in time is killed with its children.

mod command;
mod enter;
mod groups;
pub(crate) mod ids;
mod rights;
mod seen;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use rustix::process::Pid;
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

/// The node, for whoever runs commands in its containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The `/proc` of the node's process namespace.
    pub proc_root: PathBuf,
    /// The node's `/sys/fs/cgroup`, with all hierarchies, writable.
    pub cgroup_root: PathBuf,
    /// Its first process, which sees all control groups of the node.
    pub first: Pid,
}

impl Node {
    /// A node with its files there.
    #[must_use]
    pub fn new(proc_root: PathBuf, cgroup_root: PathBuf) -> Self {
        Self { proc_root, cgroup_root, first: Pid::INIT }
    }
}

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

/// Whether all is there that is needed to run commands in containers, beyond what everything here needs: capabilities, and the
/// node's control groups, which `manifests/exec-hooks` mounts.
#[must_use]
pub fn can_exec(node: &Node) -> bool {
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::SYS_PTRACE
        | CapabilitySet::SYS_CHROOT
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::SETPCAP
        | CapabilitySet::KILL;
    groups::are_mounted(&node.cgroup_root)
        && rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Runs a command and waits for its end, and for that of its process group; as long as the [`Keep`] is there. When that is
/// dropped, this returns within two seconds, whatever the command and the container do. `helper` is this
/// program, or another one whose `main` calls [`helper`].
pub fn execute(node: &Node, helper: &Path, order: &ExecOrder, kept: Kept) -> Result<Executed, KernelError> {
    let exit = ProcessExit::of_container(&node.proc_root, &order.pod_uid, &order.container_id)?;
    let pid = exit.pid();
    let gone =
        || KernelError::ContainerNotFound { pod_uid: order.pod_uid.clone(), container_id: order.container_id.clone() };
    let failed = |what: &'static str| move |error: io::Error| KernelError::of_call(what, error, NEEDS);
    let process =
        Process::open(&node.proc_root, pid).map_err(failed("open a container's process"))?.ok_or_else(gone)?;
    let ids = Ids::of(&process).map_err(failed("read the user of a container"))?.ok_or_else(gone)?;
    let (output, says) = io::pipe().map_err(failed("open a pipe"))?;
    let pidfd = exit.as_fd().try_clone_to_owned().map_err(failed("duplicate a file descriptor"))?;
    let own_end = kept.0.try_clone().map_err(failed("duplicate a file descriptor"))?;
    let child = spawn(helper, node, order, &ids, pid, [pidfd, says.into(), kept.0.into()])
        .map_err(failed("start the helper that enters a container"))?;
    let (status, output) = watch::until_ended(child, output, &own_end, order.longest_output, &node.proc_root)
        .map_err(failed("wait for the helper that enters a container"))?;
    Ok(Executed { code: code(status), output: String::from_utf8_lossy(&output).into_owned() })
}

const NEEDS: &[Capability] = &[Capability::SysPtrace, Capability::SysAdmin];

/// Descriptors: the pidfd of the container's first process, where to write to, and the pipe that tells when to end.
fn spawn(
    helper: &Path,
    node: &Node,
    order: &ExecOrder,
    ids: &Ids,
    pid: Pid,
    [pidfd, says, kept]: [OwnedFd; 3],
) -> io::Result<Child> {
    Command::new(helper)
        .arg(HELPER)
        .args([&node.proc_root, &node.cgroup_root])
        .args([node.first, pid].map(|pid| pid.as_raw_pid().to_string()))
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

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(i32::from(HELPER_FAILED))
}

/// What a process does whose first argument is [`HELPER`]; `arguments` are those behind it. To be called while the process has a
/// single thread.
#[must_use]
pub fn helper(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match enter::enter(arguments.into_iter()) {
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
    #[error(
        "can't move into the container's control group {path:?} ({hierarchy}), and outside of it no command is \
         run: {why}"
    )]
    Group { hierarchy: String, path: String, why: String },
    #[error("the container has gone to another user namespace meanwhile, so its hook is not called now")]
    OtherUser,
    #[error("can't run {0:?} in the container: {1}")]
    Spawn(OsString, io::Error),
}

/// Names what failed.
fn call<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> HelperError {
    move |error| HelperError::Call(what, error.into())
}

/// The environment of a process: pieces that end with a zero byte.
fn environment(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    use std::os::unix::ffi::OsStrExt;
    let owned = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let pair = |piece: &[u8]| {
        let at = piece.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((owned(&piece[..at]), owned(&piece[at + 1..])))
    };
    bytes.split(|byte| *byte == 0).filter_map(pair).collect()
}
