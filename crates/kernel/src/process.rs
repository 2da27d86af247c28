//! A process as seen through its `/proc` directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use procfs::process::{Process as Directory, all_processes_with_root};
use procfs::{ProcError, ProcResult};
use rustix::io::Errno;
use rustix::process::Pid;

/// An open `/proc/<pid>`. It stays bound to the process it was opened for: once that process is gone every read fails,
/// even when its pid has been given to another.
#[derive(Debug)]
pub(crate) struct Process(Directory);

impl Process {
    /// `None` when there is no such process (any more).
    pub(crate) fn open(proc_root: &Path, pid: Pid) -> io::Result<Option<Self>> {
        unless_gone(Directory::new_with_root(proc_root.join(pid.as_raw_pid().to_string())).map(Self))
    }

    /// All processes under `proc_root`, in no particular order.
    pub(crate) fn all(proc_root: &Path) -> io::Result<impl Iterator<Item = io::Result<Self>>> {
        let processes = all_processes_with_root(proc_root).map_err(into_io)?;
        Ok(processes.filter_map(|process| unless_gone(process.map(Self)).transpose()))
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.0.pid())
    }

    /// Opens a file below the directory for reading; `None` when the process is gone.
    pub(crate) fn file(&self, name: &str) -> io::Result<Option<File>> {
        unless_gone(self.0.open_relative(name))
    }

    /// The lines of `cgroup`: one a hierarchy. `None` when the process is gone.
    ///
    /// Not parsed by the library, which refuses names that are not UTF-8: a process could hide from us behind one.
    pub(crate) fn cgroups(&self) -> io::Result<Option<String>> {
        self.text("cgroup")
    }

    /// Clock ticks between the node's start and this process's. Together with the pid it identifies a process.
    /// `None` when the process is gone.
    pub(crate) fn start_ticks(&self) -> io::Result<Option<u64>> {
        Ok(self.stat()?.map(|stat| stat.start_ticks))
    }

    /// The process that started it, or that has taken it over; `None` when the process is gone or has none.
    pub(crate) fn parent(&self) -> io::Result<Option<Pid>> {
        Ok(self.stat()?.and_then(|stat| Pid::from_raw(stat.parent)))
    }

    fn stat(&self) -> io::Result<Option<Stat>> {
        let unexpected = || io::Error::new(io::ErrorKind::InvalidData, "stat is not as the kernel writes it");
        self.text("stat")?.map(|text| Stat::parse(&text).ok_or_else(unexpected)).transpose()
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

/// What is looked at of a process's `stat`.
///
/// Not parsed by the library, which panics if what follows the command's name is not ASCII.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    parent: i32,
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// `<pid> (<command>) <state> <parent> …`; the start is the 22nd field. The command's name may have anything in it.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace().skip(1);
        Some(Self { parent: fields.next()?.parse().ok()?, start_ticks: fields.nth(17)?.parse().ok()? })
    }
}

/// `None` when the process is gone.
fn unless_gone<T>(result: ProcResult<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(ProcError::NotFound(_)) => Ok(None),
        Err(error) => Err(into_io(error)),
    }
}

/// Keeps apart what the kernel refused: what to do about that is said with it.
fn into_io(error: ProcError) -> io::Error {
    match error {
        ProcError::PermissionDenied(_) => Errno::ACCESS.into(),
        ProcError::NotFound(_) => Errno::NOENT.into(),
        ProcError::Io(error, _) => error,
        ProcError::Incomplete(_) | ProcError::Other(_) | ProcError::InternalError(_) => {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        }
    }
}

/// What `/proc` answers for a process that has ended: `ENOENT` at opening, `ESRCH` through something already open.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_found_behind_any_command_name() {
        let fields = "S 1 7 7 0 -1 4194560 0 0 0 0 1 2 0 0 20 0 1 0 98765 222 3";
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("1")).unwrap();
        let process = Process::open(root.path(), Pid::INIT).unwrap().unwrap();
        let start_ticks = |stat: &str| {
            std::fs::write(root.path().join("1/stat"), stat).unwrap();
            process.start_ticks()
        };
        for command in ["pause", "a b) c", "))", ""] {
            let stat = format!("7 ({command}) {fields}{}", " 0".repeat(28));
            assert_eq!(start_ticks(&stat).unwrap(), Some(98_765), "{command:?}");
        }
        for broken in ["", "7 (pause", "7 (pause) S 1"] {
            assert!(start_ticks(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn what_is_no_stat_is_none_whatever_it_is() {
        let stat = |end: &str| Stat::parse(&format!("7 (a b) c){end} 1 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 98765 222"));
        assert_eq!(stat(" S"), Some(Stat { parent: 1, start_ticks: 98_765 }));
        assert_eq!(stat("\u{fffd}"), Some(Stat { parent: 1, start_ticks: 98_765 }), "found by fuzzing: no panic");
        for broken in ["", ")", "7 (a) S 1", "7 (a) S x 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 98765"] {
            assert_eq!(Stat::parse(broken), None, "{broken:?}");
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
