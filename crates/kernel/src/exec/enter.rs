//! The first helper: enters the container and starts the second one there. It keeps all of its rights, and does nothing with what
//! it finds in the container.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{chroot, fchdir};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use super::{HELPER, HELPER_FAILED, HelperError, call, code, path_of, standard};

/// Exit code, or why there is none.
pub(super) fn enter(mut arguments: impl Iterator<Item = OsString>) -> Result<u8, HelperError> {
    let (Some(user), Some(process)) = (arguments.next(), arguments.next()) else { return Err(HelperError::Arguments) };
    let process = PathBuf::from(process);
    let pidfd = standard(io::stdin())?;
    let directory = |path: &Path| {
        open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(call("can't open the container's directories"))
    };
    let root = directory(&process.join("root"))?;
    // One that the container has no way to.
    let place = directory(&process.join("cwd")).ok();
    let environ = File::open(process.join("environ")).map_err(call("can't open the container's environment"))?;
    let own = open("/proc/self/exe", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(call("can't open the helper's program"))?;
    let mut spaces = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::CONTROL_GROUP;
    if user == "user" {
        spaces |= ThreadNameSpaceType::USER;
    }
    // All or none, and those of the process that the pidfd is of, whoever has its pid by now.
    move_into_thread_name_spaces(pidfd.as_fd(), spaces)
        .map_err(call("can't enter the container's namespaces (CAP_SYS_ADMIN and CAP_SYS_CHROOT are needed)"))?;
    fchdir(&root).and_then(|()| chroot(".")).map_err(call("can't enter the container's root (CAP_SYS_CHROOT)"))?;
    place.as_ref().map_or(Ok(()), fchdir).map_err(call("can't enter the container's working directory"))?;
    run(&own, environ, arguments)
}

/// The second helper is this very program, which the container's files have nothing to do with.
fn run(own: &OwnedFd, environ: File, arguments: impl Iterator<Item = OsString>) -> Result<u8, HelperError> {
    let output = standard(io::stdout())?;
    let kept = standard(io::stderr())?;
    let mut child = Command::new(path_of(own))
        .arg0("hitless-hook")
        .args([HELPER, "run"])
        .args(arguments)
        .env_clear()
        .stdin(Stdio::from(environ))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(kept))
        .spawn()
        .map_err(call("can't start the second helper in the container; has it no /proc?"))?;
    let status = child.wait().map_err(call("can't wait for the second helper"))?;
    Ok(u8::try_from(code(status)).unwrap_or(HELPER_FAILED))
}
