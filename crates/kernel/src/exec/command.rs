//! The helper has no rights any more: it starts the command and waits for it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::stdio::dup2_stdin;

use super::ids::Ids;
use super::{ENDED, HELPER_FAILED, HelperError, OPERATION, call, code};

/// Exit code, or why there is none.
pub(super) fn run(
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
    environment: Vec<(OsString, OsString)>,
    operation: OsString,
    ids: &Ids,
) -> Result<u8, HelperError> {
    read_nothing().map_err(call("can't open a pipe"))?;
    let errors = io::stdout().as_fd().try_clone_to_owned().map_err(call("can't duplicate a file descriptor"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment)
        .env(OPERATION, operation)
        .process_group(0)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::from(errors));
    let child = in_memory_of_its_own(&mut command, ids).spawn();
    wait(child.map_err(|error| HelperError::Spawn(program.to_owned(), error))?, io::stderr().as_fd())
}

/// Makes std fork. Otherwise it calls `posix_spawn` for a program with a slash, and then the new process has the helper's own
/// memory until it becomes the command. It is in the container already: whoever may trace processes there could write into the
/// helper, which is not. To set the group that the process has anyway takes no right, and is one of the requests that
/// `posix_spawn` can't fulfil (`library/std/src/sys/process/unix/unix.rs` of Rust 1.95). With `uid` std would also try to give
/// up the groups.
fn in_memory_of_its_own<'a>(command: &'a mut Command, ids: &Ids) -> &'a mut Command {
    command.gid(ids.group().as_raw())
}

/// Puts a pipe without a writer in the place of standard input. No `/dev/null` is looked for in the container, and the command
/// gets none of the node's.
fn read_nothing() -> io::Result<()> {
    let (nothing, _) = io::pipe()?;
    Ok(dup2_stdin(nothing)?)
}

/// Until the command has ended, or nobody waits for it any more; then its whole group is ended.
fn wait(mut child: Child, kept: BorrowedFd<'_>) -> Result<u8, HelperError> {
    let group = Pid::from_child(&child);
    let exit = pidfd_open(group, PidfdFlags::empty()).map_err(call("can't watch the command"))?;
    let is_wanted = loop {
        let mut both = [PollFd::new(&exit, PollFlags::IN), PollFd::from_borrowed_fd(kept, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) if !both[1].revents().is_empty() => break false,
            Ok(_) if !both[0].revents().is_empty() => break true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(call("can't wait for the command")(error)),
        }
    };
    // Nobody may be left in it.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait().map_err(call("can't wait for the command"))?;
    Ok(if is_wanted { u8::try_from(code(status)).unwrap_or(HELPER_FAILED) } else { ENDED })
}
