//! A process as seen through its `/proc` directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use rustix::process::Pid;

/// An open `/proc/<pid>`. It stays bound to the process it was opened for: once that process is gone every read fails,
/// even when its pid has been given to another.
#[derive(Debug)]
pub(crate) struct Process {
    directory: OwnedFd,
}

impl Process {
    /// `None` when there is no such process (any more).
    pub(crate) fn open(proc_root: &Path, pid: Pid) -> io::Result<Option<Self>> {
        let path = proc_root.join(pid.as_raw_pid().to_string());
        match open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(directory) => Ok(Some(Self { directory })),
            Err(errno) if is_gone(errno) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// All processes under `proc_root`, in no particular order.
    pub(crate) fn all(proc_root: &Path) -> io::Result<Vec<Pid>> {
        let mut pids = Vec::new();
        for entry in std::fs::read_dir(proc_root)? {
            let name = entry?.file_name();
            pids.extend(
                name.to_str().and_then(|name| name.parse().ok()).filter(|pid| *pid > 0).and_then(Pid::from_raw),
            );
        }
        Ok(pids)
    }

    /// Opens a file below the directory for reading; `None` when the process is gone.
    pub(crate) fn file(&self, name: &str) -> io::Result<Option<File>> {
        match openat(&self.directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(errno) if is_gone(errno) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The lines of `cgroup`: one a hierarchy. `None` when the process is gone.
    pub(crate) fn cgroups(&self) -> io::Result<Option<String>> {
        self.text("cgroup")
    }

    /// Clock ticks between the node's start and this process's. Together with the pid it identifies a process.
    /// `None` when the process is gone.
    pub(crate) fn start_ticks(&self) -> io::Result<Option<u64>> {
        self.text("stat")?
            .map(|stat| {
                parse_start_ticks(&stat)
                    .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no start time in /proc/<pid>/stat"))
            })
            .transpose()
    }

    /// The content of a file below the directory; `None` when the process is gone.
    pub(crate) fn text(&self, name: &str) -> io::Result<Option<String>> {
        let Some(mut file) = self.file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        match file.read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What `/proc` answers for a process that has ended: `ENOENT` at opening, `ESRCH` through something already open.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::SRCH)
}

/// Field 22 of `stat`. Field 2, the command in brackets, may itself hold spaces and brackets, so counting begins after
/// the last one.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    let (_, after_command) = stat.rsplit_once(')')?;
    after_command.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_found_behind_any_command_name() {
        let fields = "S 1 7 7 0 -1 4194560 0 0 0 0 1 2 0 0 20 0 1 0 98765 222 3";
        for command in ["pause", "a b) c", "))", ""] {
            assert_eq!(parse_start_ticks(&format!("7 ({command}) {fields}")), Some(98_765), "{command:?}");
        }
        for broken in ["", "7 (pause", "7 (pause) S 1", "7 (x) S 1 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 -5 2"] {
            assert_eq!(parse_start_ticks(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_none_and_not_an_error() {
        let root = tempfile::tempdir().unwrap();
        assert!(Process::open(root.path(), Pid::INIT).unwrap().is_none());
        std::fs::create_dir(root.path().join("1")).unwrap();
        let process = Process::open(root.path(), Pid::INIT).unwrap().unwrap();
        assert!(process.cgroups().unwrap().is_none());
        assert!(process.start_ticks().unwrap().is_none());
    }
}
