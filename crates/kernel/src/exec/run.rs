//! The second helper: in the container already, it gives up all rights, starts the command and waits for it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, set_dumpable_behavior,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::ids::Ids;
use super::{ENDED, HELPER_FAILED, HelperError, OPERATION, call, code, environment, standard};

/// Exit code, or why there is none.
pub(super) fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<u8, HelperError> {
    // Until here it was the capabilities that kept the container from looking into this process.
    hide()?;
    let ids = Ids::from_arguments(&mut arguments).ok_or(HelperError::Arguments)?;
    let (Some(operation), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err(HelperError::Arguments);
    };
    let environ = File::from(standard(io::stdin())?);
    let environ = environment(environ).map_err(call("can't read the container's environment"))?;
    let kept = standard(io::stderr())?;
    give_up_rights(&ids)?;
    let output = || standard(io::stdout()).map(Stdio::from);
    let child = Command::new(&program)
        .args(arguments)
        .env_clear()
        .envs(environ)
        .env(OPERATION, operation)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output()?)
        .stderr(output()?)
        .spawn();
    wait(child.map_err(|error| HelperError::Spawn(program, error))?, &kept)
}

fn hide() -> Result<(), HelperError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(call("can't keep others from looking"))
}

/// User and groups of the container; no capability, and no way to any.
fn give_up_rights(ids: &Ids) -> Result<(), HelperError> {
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // One that this kernel does not know.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(call("can't give up capabilities (CAP_SETPCAP is needed)")(error)),
        }
    }
    clear_ambient_capability_set().map_err(call("can't give up ambient capabilities"))?;
    set_thread_groups(&ids.groups()).map_err(call("can't take the container's groups (CAP_SETGID is needed)"))?;
    let (user, group) = (ids.user(), ids.group());
    set_thread_res_gid(group, group, group)
        .map_err(call("can't become the container's group (CAP_SETGID is needed)"))?;
    set_thread_res_uid(user, user, user).map_err(call("can't become the container's user (CAP_SETUID is needed)"))?;
    set_no_new_privs(true).map_err(call("can't give up new rights"))?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(call("can't give up capabilities"))?;
    hide()
}

/// Until the command has ended, or nobody waits for it any more; then its whole group is ended.
fn wait(mut child: Child, kept: &OwnedFd) -> Result<u8, HelperError> {
    let group = Pid::from_child(&child);
    let exit = pidfd_open(group, PidfdFlags::empty()).map_err(call("can't watch the command"))?;
    let is_wanted = loop {
        let mut both = [PollFd::new(&exit, PollFlags::IN), PollFd::from_borrowed_fd(kept.as_fd(), PollFlags::IN)];
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
