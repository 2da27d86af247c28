//! The end of a process, as an event.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::pod::bare_container_id;
use crate::{KernelError, find_container_pids};

/// A pidfd: it becomes readable when its process ends, and never refers to another process with the same pid.
///
/// It can be wrapped as it is in tokio's `AsyncFd` and awaited with `readable()`. The end of a container's first
/// process is the moment at which the kubelet's kill has begun to take effect.
#[derive(Debug)]
pub struct ProcessExit {
    pid: Pid,
    pidfd: OwnedFd,
}

impl ProcessExit {
    /// Watches the first process of a container. Fails with [`KernelError::ContainerNotFound`] when it has none.
    pub fn of_container(proc_root: &Path, pod_uid: &str, container_id: &str) -> Result<Self, KernelError> {
        let first = || find_container_pids(proc_root, pod_uid, container_id).map(|pids| pids.first().copied());
        let not_found = || KernelError::ContainerNotFound {
            pod_uid: pod_uid.to_owned(),
            container_id: bare_container_id(container_id).to_owned(),
        };
        let exit = Self::of_process(first()?.ok_or_else(not_found)?)?;
        // Between finding and opening, the pid may have gone to a stranger. If it is still the container's, it was then.
        if first()? == Some(exit.pid) { Ok(exit) } else { Err(not_found()) }
    }

    /// Watches the process that has this pid now. `pid` is one of this process's own pid namespace.
    pub fn of_process(pid: Pid) -> Result<Self, KernelError> {
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)
            .map_err(|errno| KernelError::of_call(format!("watch process {}", pid.as_raw_pid()), errno, &[]))?;
        Ok(Self { pid, pidfd })
    }

    /// The watched pid.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the process has ended, without waiting. A zombie has ended.
    pub fn has_exited(&self) -> Result<bool, KernelError> {
        loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&Timespec::default())) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(KernelError::of_call("poll a pidfd", errno, &[])),
            }
        }
    }
}

impl AsFd for ProcessExit {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl AsRawFd for ProcessExit {
    fn as_raw_fd(&self) -> RawFd {
        self.pidfd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen_once_it_ends_and_not_before() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let exit = ProcessExit::of_process(Pid::from_child(&child)).unwrap();
        assert!(!exit.has_exited().unwrap());
        assert_eq!(exit.as_raw_fd(), exit.as_fd().as_raw_fd());

        drop(child.stdin.take());
        let ready = poll(&mut [PollFd::new(&exit, PollFlags::IN)], Some(&Timespec { tv_sec: 10, tv_nsec: 0 }));
        assert_eq!(ready, Ok(1));
        assert!(exit.has_exited().unwrap());
        child.wait().unwrap();
        assert!(exit.has_exited().unwrap(), "still so after the zombie is reaped");
    }

    #[test]
    fn a_container_without_process_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = ProcessExit::of_container(root.path(), "u-1", "containerd://c1").unwrap_err();
        assert_eq!(error.to_string(), "container c1 of pod u-1 has no process: not started yet, or ended");
    }
}
