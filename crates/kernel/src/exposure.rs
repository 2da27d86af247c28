//! Whether somebody may be served by a container, as far as the kernel shows: by a connection, a datagram, a file system, a device.
//!
//! What is certain is that nobody is: each open file of its processes is of a kind that serves nobody. Whatever else there is counts
//! as a doubt. Files and memory that containers share are not seen.

mod files;
pub(crate) mod sockets;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::close::has_ended;
use crate::{Capability, KernelError, find_container_pids};
use files::Kind;
use sockets::{SocketTables, State};

/// What speaks against the certainty that a container serves nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// It accepts connections to this TCP port, or has one.
    Tcp(u16),
    /// It receives datagrams on this UDP port from anybody.
    Udp(u16),
    /// It has a Unix socket that others can find: this one, or one without a name.
    Unix(String),
    /// It has an open file of a kind that may serve others, such as `/dev/fuse`, `/dev/net/tun` or a FIFO.
    File(String),
    /// It has a socket of another kind than those that are looked at.
    Socket,
    /// It has no process that can be seen.
    NoProcess,
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "it serves TCP port {port}"),
            Self::Udp(port) => write!(f, "it receives on UDP port {port}"),
            Self::Unix(path) => write!(f, "it has the Unix socket {path:?}"),
            Self::File(path) => write!(f, "it has {path:?} open"),
            Self::Socket => write!(f, "it has a socket of an unknown kind"),
            Self::NoProcess => write!(f, "it has no process that can be seen"),
        }
    }
}

/// The first thing that speaks for somebody's being served by the container; `None`: nobody is. `container_id` may carry the
/// runtime's prefix.
pub fn exposure(proc_root: &Path, pod_uid: &str, container_id: &str) -> Result<Option<Exposure>, KernelError> {
    let pids = find_container_pids(proc_root, pod_uid, container_id)?;
    if pids.is_empty() {
        return Ok(Some(Exposure::NoProcess));
    }
    let mut tables = BTreeMap::new();
    for pid in pids {
        let process = proc_root.join(pid.as_raw_pid().to_string());
        match of_process(&process, &mut tables) {
            Ok(None) => {}
            Ok(exposure) => return Ok(exposure),
            // It serves nobody any more.
            Err(error) if has_ended(&error) => {}
            Err(error) => {
                let needs = &[Capability::SysPtrace, Capability::DacReadSearch];
                return Err(KernelError::of_call(format!("look at the files of {}", process.display()), error, needs));
            }
        }
    }
    Ok(None)
}

/// `tables`: those of the network namespaces that were looked at already. A process may be in another one than its pod.
fn of_process(process: &Path, tables: &mut BTreeMap<PathBuf, SocketTables>) -> io::Result<Option<Exposure>> {
    let netns = fs::read_link(process.join("ns/net"))?;
    if !tables.contains_key(&netns) {
        tables.insert(netns.clone(), SocketTables::read(&process.join("net"))?);
    }
    let tables = &tables[&netns];
    for entry in fs::read_dir(process.join("fd"))? {
        match of_file(&entry?.path(), tables) {
            Ok(None) => {}
            Ok(exposure) => return Ok(exposure),
            // Closed meanwhile.
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn of_file(descriptor: &Path, tables: &SocketTables) -> io::Result<Option<Exposure>> {
    let target = fs::read_link(descriptor)?;
    Ok(match files::kind(descriptor, &target)? {
        Kind::Harmless => None,
        Kind::Doubtful => Some(Exposure::File(target.to_string_lossy().into_owned())),
        Kind::Socket(inode) => match tables.state(inode) {
            Some(State::Harmless) => None,
            Some(State::Tcp(port)) => Some(Exposure::Tcp(*port)),
            Some(State::Udp(port)) => Some(Exposure::Udp(*port)),
            Some(State::Unix(path)) => Some(Exposure::Unix(path.clone())),
            None => Some(Exposure::Socket),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const UID: &str = "8f1c2d3e-0a1b-4c5d-9e8f-001122334455";

    /// A process of container `id` with these open files; TCP socket 11 listens on port 9090.
    fn add(root: &Path, pid: u32, id: &str, files: &[&str]) {
        let process = root.join(pid.to_string());
        for directory in ["ns", "net", "fd"] {
            fs::create_dir_all(process.join(directory)).unwrap();
        }
        fs::write(process.join("cgroup"), format!("0::/kubepods/pod{UID}/{id}\n")).unwrap();
        let stat = format!("{pid} (x) S 1 1 1 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 {pid} 222 3{}", " 0".repeat(28));
        fs::write(process.join("stat"), stat).unwrap();
        symlink("net:[1]", process.join("ns/net")).unwrap();
        let row = "0: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 11 1";
        fs::write(process.join("net/tcp"), format!("heading\n{row}\n")).unwrap();
        for (number, target) in files.iter().enumerate() {
            symlink(target, process.join("fd").join(number.to_string())).unwrap();
        }
    }

    #[test]
    fn one_process_that_serves_is_enough_and_only_of_that_container() {
        let root = tempfile::tempdir().unwrap();
        add(root.path(), 21, "app", &["/dev/null", "socket:[11]"]);
        add(root.path(), 22, "side", &["/dev/null", "pipe:[5]", "anon_inode:[eventpoll]"]);
        add(root.path(), 23, "side", &["/dev/null"]);
        let of = |id: &str| exposure(root.path(), UID, &format!("containerd://{id}")).unwrap();
        assert_eq!((of("app"), of("side")), (Some(Exposure::Tcp(9090)), None));
        add(root.path(), 24, "side", &["socket:[99]"]);
        assert_eq!(of("side"), Some(Exposure::Socket), "no table has it");
        assert_eq!(of("gone"), Some(Exposure::NoProcess));
        add(root.path(), 25, "ring", &["anon_inode:[io_uring]"]);
        assert_eq!(of("ring"), Some(Exposure::File("anon_inode:[io_uring]".to_owned())));
        add(root.path(), 26, "closed", &["/no/such/file"]);
        assert_eq!(of("closed"), None, "it was closed meanwhile");
    }
}
