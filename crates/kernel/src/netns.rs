//! A pod's network namespace: a way in that stays open while processes come and go.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, fstat, statat};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::Process;
use crate::{
    Capability, Connection, Connections, DumpError, KernelError, Listener, SockDiag, TcpCounters, UdpCounters,
    find_pod_pids,
};

/// Identity of a network namespace while anything holds it open. Names and pids are reused, this pair is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NetnsId {
    /// Device of the namespace file system.
    pub device: u64,
    /// Number of the namespace.
    pub inode: u64,
}

impl NetnsId {
    fn of(stat: &rustix::fs::Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// What became of a connection that was to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestroyOutcome {
    /// It was there, and has been reset.
    Destroyed,
    /// It had ended by itself.
    Gone,
}

/// The network namespace of a running pod.
///
/// It is found through one of the pod's processes but does not depend on that process afterwards. It keeps the namespace
/// in existence: drop it when the operation on the pod ends.
#[derive(Debug)]
pub struct PodNetns {
    pub(crate) proc_root: PathBuf,
    pub(crate) pod_uid: String,
    namespace: OwnedFd,
    id: NetnsId,
    snmp: File,
    /// Absent where the kernel has no IPv6.
    snmp6: Option<File>,
    /// Kept between dumps, dropped after a failed one.
    sockets: Mutex<Option<SockDiag>>,
}

impl PodNetns {
    /// Finds the pod by its uid and opens the namespace of its longest-running process: the sandbox. (A container may
    /// hold further namespaces of its own, if it runs containers itself.)
    ///
    /// Fails with [`KernelError::NotFound`] when the pod has no process, with [`KernelError::HostNetwork`] when its
    /// network is the node's.
    pub fn open(proc_root: &Path, pod_uid: &str) -> Result<Self, KernelError> {
        for pid in find_pod_pids(proc_root, pod_uid)? {
            let opened = open_namespace(proc_root, pid).map_err(|error| {
                KernelError::of_call(
                    format!("open the network namespace of process {}", pid.as_raw_pid()),
                    error,
                    &[Capability::SysPtrace],
                )
            })?;
            let Some((namespace, snmp, snmp6)) = opened else { continue };
            let stat =
                fstat(&namespace).map_err(|errno| KernelError::of_call("stat a network namespace", errno, &[]))?;
            let id = NetnsId::of(&stat);
            if is_foreign(proc_root, id) {
                return Err(KernelError::HostNetwork { pod_uid: pod_uid.to_owned() });
            }
            return Ok(Self {
                proc_root: proc_root.to_owned(),
                pod_uid: pod_uid.to_owned(),
                namespace,
                id,
                snmp,
                snmp6,
                sockets: Mutex::new(None),
            });
        }
        Err(KernelError::NotFound { pod_uid: pod_uid.to_owned() })
    }

    /// Which namespace this is. A pod whose sandbox was made anew has another one.
    #[must_use]
    pub fn id(&self) -> NetnsId {
        self.id
    }

    /// The namespace's TCP counters. One system call of about 12 µs, whatever the number of connections, which goes on
    /// working when the process it was opened through is gone.
    pub fn counters(&self) -> Result<TcpCounters, KernelError> {
        TcpCounters::read(&self.snmp)
    }

    /// The namespace's UDP counters, both families together: two system calls of some 30 µs.
    pub fn udp_counters(&self) -> Result<UdpCounters, KernelError> {
        UdpCounters::read(&self.snmp, self.snmp6.as_ref())
    }

    /// Listening sockets and inbound connections, by one pass over the kernel's tables.
    pub fn connections(&self) -> Result<Connections, KernelError> {
        self.ask(SockDiag::connections)
    }

    /// Listening sockets only: some 15 µs, cheap enough to poll for a new process that listens.
    pub fn listeners(&self) -> Result<Vec<Listener>, KernelError> {
        self.ask(SockDiag::listeners)
    }

    /// Ends connections at once, whatever they are doing: their clients see a reset, and what has not been sent is lost.
    /// Says of each, in the given order, whether it was still there. Needs `CAP_NET_ADMIN`; about 9 µs each.
    ///
    /// After an error some may have been ended; asking again is harmless.
    pub fn destroy(&self, connections: &[Connection]) -> Result<Vec<DestroyOutcome>, KernelError> {
        let destroyed = self.ask(|sockets| {
            let end = |connection| {
                Ok(if sockets.destroy(connection)? { DestroyOutcome::Destroyed } else { DestroyOutcome::Gone })
            };
            connections.iter().map(end).collect()
        });
        destroyed.map_err(|error| match error {
            KernelError::Dump(DumpError::Refused(source)) => {
                KernelError::of_call("end a connection (SOCK_DESTROY)", source, &[Capability::NetAdmin])
            }
            other => other,
        })
    }

    /// Listens inside the namespace, on all its addresses of both families. The socket keeps the namespace alive: close it when the pod
    /// has gone.
    pub fn listen(&self, port: u16) -> Result<TcpListener, KernelError> {
        self.inside("listen in the pod's namespace", || {
            let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
            let bound = both.or_else(|error| match error.kind() {
                ErrorKind::AddrInUse | ErrorKind::PermissionDenied => Err(error),
                // Without IPv6.
                _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
            });
            bound.map_err(|error| KernelError::of_call(format!("listen at port {port}"), error, &[]))
        })
    }

    /// A netlink socket inside the namespace, for whoever wants one of their own.
    pub fn sockets(&self) -> Result<SockDiag, KernelError> {
        self.inside("open a netlink socket in the pod's namespace", || {
            SockDiag::open().map_err(|error| DumpError::Socket(error).into())
        })
    }

    /// Runs something in the namespace, such as opening a socket, which stays there.
    pub(crate) fn inside<T: Send>(
        &self,
        action: &'static str,
        run: impl FnOnce() -> Result<T, KernelError> + Send,
    ) -> Result<T, KernelError> {
        run_inside(self.namespace.as_fd(), action, run)
    }

    /// The file of the counters, for a reader of its own.
    pub(crate) fn snmp(&self) -> Result<File, KernelError> {
        self.snmp.try_clone().map_err(|error| KernelError::of_call("duplicate a file descriptor", error, &[]))
    }

    /// Asks the kept socket. One that failed is not kept: the rest of its answer may still be in it.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&mut SockDiag) -> Result<T, DumpError>,
    ) -> Result<T, KernelError> {
        let mut kept = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sockets = match kept.take() {
            Some(sockets) => sockets,
            None => self.sockets()?,
        };
        let answer = question(&mut sockets)?;
        *kept = Some(sockets);
        Ok(answer)
    }
}

/// Runs something in a network namespace, on a thread of its own that ends right away: a thread that had entered a
/// namespace could be reused by a thread pool for something else.
pub(crate) fn run_inside<T: Send>(
    namespace: BorrowedFd<'_>,
    action: &'static str,
    run: impl FnOnce() -> Result<T, KernelError> + Send,
) -> Result<T, KernelError> {
    let enter_and_run = || {
        move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
            .map_err(|errno| KernelError::of_call("enter a network namespace", errno, &[Capability::SysAdmin]))?;
        run()
    };
    let ended_early = || KernelError::Io {
        action: action.to_owned(),
        source: io::Error::other("the thread made for it ended early"),
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("enter-netns".to_owned())
            .spawn_scoped(scope, enter_and_run)
            .map_err(|error| KernelError::of_call("start a thread", error, &[]))?;
        thread.join().unwrap_or_else(|_| Err(ended_early()))
    })
}

/// The namespace and its counters of either family through a process; `None` when that process has just ended.
fn open_namespace(proc_root: &Path, pid: rustix::process::Pid) -> io::Result<Option<(OwnedFd, File, Option<File>)>> {
    let Some(process) = Process::open(proc_root, pid)? else { return Ok(None) };
    let Some(namespace) = process.file("ns/net")? else { return Ok(None) };
    // Not there: the kernel has no IPv6, or the process has ended, which the next file tells.
    let snmp6 = process.file("net/snmp6")?;
    let Some(snmp) = process.file("net/snmp")? else { return Ok(None) };
    Ok(Some((namespace.into(), snmp, snmp6)))
}

/// Whether this is the namespace of the node's first process or the agent's own.
fn is_foreign(proc_root: &Path, id: NetnsId) -> bool {
    ["1/ns/net", "self/ns/net"].into_iter().any(|other| {
        statat(CWD, proc_root.join(other), rustix::fs::AtFlags::empty()).is_ok_and(|stat| NetnsId::of(&stat) == id)
    })
}
