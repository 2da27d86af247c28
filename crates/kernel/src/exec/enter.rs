//! The helper: on the node it joins the container's control groups, then it enters the container, and gives up all rights.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::process::{Pid, chroot, fchdir};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use super::ids::Ids;
use super::seen::Seen;
use super::{HelperError, call, command, environment, groups, rights};

/// What is to be entered.
struct Container {
    proc_root: PathBuf,
    cgroup_root: PathBuf,
    /// The node's first process.
    first: Pid,
    /// The container's.
    pid: String,
}

/// Exit code, or why there is none.
pub(super) fn enter(mut arguments: impl Iterator<Item = OsString>) -> Result<u8, HelperError> {
    // Should the container share the node's process namespace, it sees this process, and may have the same user.
    rights::hide()?;
    let mut next = || arguments.next().ok_or(HelperError::Arguments);
    let (proc_root, cgroup_root) = (next()?.into(), next()?.into());
    let mut word = || next()?.into_string().map_err(|_| HelperError::Arguments);
    let first = word()?.parse().ok().and_then(Pid::from_raw).ok_or(HelperError::Arguments)?;
    let pid = word()?;
    let ids = Ids::from_arguments(&mut arguments).ok_or(HelperError::Arguments)?;
    let (Some(operation), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err(HelperError::Arguments);
    };
    let environ = go_in(&Container { proc_root, cgroup_root, first, pid })?;
    rights::give_up(&ids)?;
    command::run(&program, arguments, environment(&environ), operation, &ids)
}

/// Returns the environment of the container's first process. All descriptors that were opened for this are closed then.
fn go_in(container: &Container) -> Result<Vec<u8>, HelperError> {
    const LONGEST: u64 = 1024 * 1024;
    let looks = |error| call("can't look at the container's process (CAP_SYS_PTRACE is needed)")(error);
    let theirs = Seen::open(&container.proc_root, &container.pid).map_err(looks)?;
    let own = Seen::open(&container.proc_root, "self").map_err(looks)?;
    groups::join(&container.cgroup_root, container.first, &theirs, &own)?;
    let root = theirs.directory("root").map_err(looks)?;
    // One that the container has no way to.
    let place = theirs.directory("cwd").ok();
    let environ = theirs.bytes("environ", LONGEST).map_err(looks)?;
    let mut spaces = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::CONTROL_GROUP;
    if theirs.user_space().map_err(looks)? != own.user_space().map_err(looks)? {
        spaces |= ThreadNameSpaceType::USER;
    }
    // All or none, and those of the process that the pidfd is of, whoever has its pid by now.
    move_into_thread_name_spaces(io::stdin().as_fd(), spaces)
        .map_err(call("can't enter the container's namespaces (CAP_SYS_ADMIN and CAP_SYS_CHROOT are needed)"))?;
    // A process goes to user namespaces below its own only. So if it is in ours now, it was when its namespaces were entered.
    if theirs.user_space().map_err(looks)? != own.user_space().map_err(looks)? {
        return Err(HelperError::OtherUser);
    }
    fchdir(&root).and_then(|()| chroot(".")).map_err(call("can't enter the container's root (CAP_SYS_CHROOT)"))?;
    place.as_ref().map_or(Ok(()), fchdir).map_err(call("can't enter the container's working directory"))?;
    Ok(environ)
}
