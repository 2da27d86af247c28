//! A HAProxy process of its own for each test. Everything listens on unix sockets in the test's own directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

use crate::package::{Program, program};

/// The process, and its directory.
pub(crate) struct Process {
    program: Program,
    directory: TempDir,
    running: Option<Pid>,
    /// Reloaded, and may still have sessions.
    retired: Vec<Pid>,
}

impl Process {
    /// Starts it with this configuration, which may say `DIR` for the directory; nothing without a HAProxy.
    pub(crate) fn start(configuration: &str) -> Option<Self> {
        let program = program()?;
        let directory = tempfile::tempdir().unwrap();
        let configuration = configuration.replace("DIR", directory.path().to_str().unwrap());
        fs::write(directory.path().join("haproxy.cfg"), configuration).unwrap();
        let mut process = Self { program, directory, running: None, retired: Vec::new() };
        process.run();
        Some(process)
    }

    /// Starts it (again). HAProxy goes to the background when all of its sockets listen.
    pub(crate) fn run(&mut self) {
        assert_eq!(self.running, None);
        self.launch(&[]);
    }

    /// Starts a new process that takes the sockets over. The old one ends when its last session has ended.
    pub(crate) fn reload(&mut self) {
        let old = self.running.take().unwrap();
        self.retired.push(old);
        self.launch(&["-sf", &old.as_raw_nonzero().to_string()]);
    }

    fn launch(&mut self, more: &[&str]) {
        let mut command = Command::new(&self.program.path);
        command.arg("-D").arg("-f").arg(self.path("haproxy.cfg")).arg("-p").arg(self.path("pid")).args(more);
        if let Some(libraries) = &self.program.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let started = command.output().unwrap();
        assert!(started.status.success(), "HAProxy says: {}", String::from_utf8_lossy(&started.stderr));
        let pid = fs::read_to_string(self.path("pid")).unwrap().trim().parse().unwrap();
        self.running = Some(Pid::from_raw(pid).unwrap());
    }

    /// Kills it, and waits until it has ended.
    pub(crate) fn kill(&mut self) {
        if let Some(pid) = self.running.take() {
            end(pid);
        }
    }

    /// Stops it from running without ending it: its sockets still take connections.
    pub(crate) fn freeze(&self) {
        kill_process(self.running.unwrap(), Signal::STOP).unwrap();
    }

    pub(crate) fn thaw(&self) {
        kill_process(self.running.unwrap(), Signal::CONT).unwrap();
    }

    /// A file in the test's directory.
    pub(crate) fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(file)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.retired.drain(..).for_each(end);
    }
}

/// Kills a process, unless it has ended, and waits until it has.
fn end(pid: Pid) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if pidfd_send_signal(&process, Signal::KILL).is_ok() {
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
    }
}
