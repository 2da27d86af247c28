//! Closing keep-alive connections between two requests, so that the application's end does not cut one off.
//!
//! The application's own socket is shut down for reading: the application reads end-of-file, as if the client had closed,
//! and closes in its turn. The client sees a clean end. On a connection with a request in flight several servers would
//! abort that request, so each is looked at again right before.
//!
//! An application that has left HTTP/1 on the connection (a websocket) may not close: it hears nothing any more, and its client is told
//! nothing. [`Connection::shut_for_reading`] tells such a connection; who asks for the end resets it ([`PodNetns::destroy`]).
//!
//! Where another container of the pod has the other end, that one is told first, as if the application had closed: it sends no request
//! on a connection that its server is about to close.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::sockopt::socket_cookie;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{ForeignRawFd, Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::{Activity, Capability, Connection, KernelError, PodNetns, TcpState, classify, find_pod_pids};

/// What became of the connections that were to be closed. The four numbers add up to those given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClosedReport {
    /// The application has been told that its client is done.
    pub closed: usize,
    /// Left alone: at the second look a request was in flight or could not be ruled out.
    pub busy: usize,
    /// Ended by themselves meanwhile.
    pub gone: usize,
    /// Open, but no process of the pod holds them: not accepted yet, or passed elsewhere.
    pub unowned: usize,
}

/// A client that has just connected is about to send its request; on a busy machine that takes it a while.
const FRESH_LASTS: Duration = Duration::from_millis(250);

/// Closes those of the connections that are still [`Activity::Idle`], or [`Activity::Fresh`] for 250 ms; [`close_unused`] without a time.
///
/// Only for request-response protocols (HTTP/1): see [`classify`].
pub fn close_idle(proc_root: &Path, pod_uid: &str, connections: &[Connection]) -> Result<ClosedReport, KernelError> {
    close_unused(&PodNetns::open(proc_root, pod_uid)?, connections, Duration::MAX)
}

/// Like [`close_idle`], and also closes those that are [`Activity::Ambiguous`] but have passed no data for `unused`. About
/// three times the usual response time is safe; a connection that was used once only is often ambiguous for ever.
///
/// Costs some 10 µs for each connection and file descriptor of the pod. After an error some may have been closed; asking
/// again is harmless.
pub fn close_unused(
    netns: &PodNetns,
    connections: &[Connection],
    unused: Duration,
) -> Result<ClosedReport, KernelError> {
    close_unused_if(netns, connections, unused, |_| true)
}

/// Like [`close_unused`], but only those of which `may_close` says so too, given the connection as it is at the second look.
pub fn close_unused_if(
    netns: &PodNetns,
    connections: &[Connection],
    unused: Duration,
    may_close: impl Fn(&Connection) -> bool,
) -> Result<ClosedReport, KernelError> {
    let (siblings, clients): (Vec<&Connection>, Vec<&Connection>) =
        connections.iter().partition(|connection| connection.is_from_pod_itself());
    let mut report = ClosedReport::default();
    tell(netns, clients.into_iter().map(End::own).collect(), unused, &may_close, &mut report)?;
    if !siblings.is_empty() {
        let others = siblings.iter().map(|sibling| End::other(netns, sibling)).collect::<Result<_, _>>()?;
        tell(netns, others, unused, &may_close, &mut report)?;
        // Who does not look at a connection between two requests does not close it either. Each has been counted.
        let own = siblings.into_iter().map(End::own).collect();
        tell(netns, own, unused, &may_close, &mut ClosedReport::default())?;
    }
    Ok(report)
}

/// Tells each of these that the other side is done.
fn tell(
    netns: &PodNetns,
    ends: Vec<End<'_>>,
    unused: Duration,
    may_close: impl Fn(&Connection) -> bool,
    report: &mut ClosedReport,
) -> Result<(), KernelError> {
    let all = ends.len();
    let mut wanted: HashMap<u32, End<'_>> = ends.into_iter().filter(|e| e.inode != 0).map(|e| (e.inode, e)).collect();
    report.unowned += all - wanted.len();
    let places = find_owners(netns, &mut wanted)?;

    let mut pidfds = HashMap::new();
    for place in &places {
        match take_socket(place, &mut pidfds)? {
            None => report.gone += 1,
            // Asked for it alone, right before: no other connection's turn lies between.
            Some(socket) => match look_again(netns, place.end.connection)? {
                None => report.gone += 1,
                Some(now) if is_between_requests(&now, unused) && may_close(&now) => close(&socket, report)?,
                Some(_) => report.busy += 1,
            },
        }
    }
    for end in wanted.into_values() {
        match look_again(netns, end.connection)? {
            Some(_) => report.unowned += 1,
            None => report.gone += 1,
        }
    }
    Ok(())
}

/// The connection as it is now; `None` if either side has closed it.
fn look_again(netns: &PodNetns, connection: &Connection) -> Result<Option<Connection>, KernelError> {
    let now = netns.ask(|sockets| sockets.find(connection.local, connection.peer, Some(connection.cookie)))?;
    Ok(now.filter(|now| now.state == TcpState::Established))
}

/// Whether no request is in flight on a connection of a request-response protocol (HTTP/1). One of which that can't be told counts
/// as busy until it has been without data for `unused`.
#[must_use]
pub fn is_between_requests(connection: &Connection, unused: Duration) -> bool {
    match classify(connection) {
        Activity::Idle => true,
        Activity::Fresh => connection.silent_for().is_some_and(|silent| silent >= FRESH_LASTS),
        Activity::Ambiguous => connection.unused_for().is_some_and(|lasted| lasted >= unused),
        Activity::Busy => false,
    }
}

/// Shuts the socket down for reading, unless a request has come since the last look.
fn close(socket: &OwnedFd, report: &mut ClosedReport) -> Result<(), KernelError> {
    let failed = |errno| KernelError::of_call("shut down an idle connection", errno, &[]);
    if ioctl_fionread(socket).map_err(failed)? > 0 {
        report.busy += 1;
        return Ok(());
    }
    match shutdown(socket, Shutdown::Read) {
        Ok(()) => report.closed += 1,
        Err(Errno::NOTCONN) => report.gone += 1,
        Err(errno) => return Err(failed(errno)),
    }
    Ok(())
}

/// The socket that is told.
#[derive(Clone, Copy)]
struct End<'a> {
    /// As the application has it.
    connection: &'a Connection,
    inode: u32,
    cookie: u64,
}

impl<'a> End<'a> {
    /// The application's.
    const fn own(connection: &'a Connection) -> Self {
        Self { connection, inode: connection.inode, cookie: connection.cookie }
    }

    /// That of another container of the pod; nobody's, if it has gone.
    fn other(netns: &PodNetns, connection: &'a Connection) -> Result<Self, KernelError> {
        let other = netns.ask(|sockets| sockets.find(connection.peer, connection.local, None))?;
        Ok(Self { connection, ..other.as_ref().map_or(Self { connection, inode: 0, cookie: 0 }, End::own) })
    }
}

/// A file descriptor of one of the pod's processes.
struct Place<'a> {
    pid: Pid,
    descriptor: ForeignRawFd,
    end: End<'a>,
}

/// Looks through the open files of the pod's processes and takes what it finds out of `wanted`, which goes by inode.
fn find_owners<'a>(netns: &PodNetns, wanted: &mut HashMap<u32, End<'a>>) -> Result<Vec<Place<'a>>, KernelError> {
    let mut places = Vec::with_capacity(wanted.len());
    for pid in find_pod_pids(&netns.proc_root, &netns.pod_uid)? {
        if wanted.is_empty() {
            break;
        }
        each_socket_of(&netns.proc_root, pid, |descriptor, inode| {
            places.extend(wanted.remove(&inode).map(|end| Place { pid, descriptor, end }));
        })?;
    }
    Ok(places)
}

/// Calls `each` with descriptor and inode of every socket that a process holds; none if it has ended.
pub(crate) fn each_socket_of(
    proc_root: &Path,
    pid: Pid,
    each: impl FnMut(ForeignRawFd, u32),
) -> Result<(), KernelError> {
    let directory = proc_root.join(pid.as_raw_pid().to_string()).join("fd");
    each_socket(&directory, each).or_else(|error| if has_ended(&error) { Ok(()) } else { Err(error) }).map_err(
        |error| {
            let needs = &[Capability::SysPtrace, Capability::DacReadSearch];
            KernelError::of_call(format!("list the open files in {}", directory.display()), error, needs)
        },
    )
}

/// Calls `each` with descriptor and inode of every socket a process holds. Descriptors that close meanwhile are skipped.
pub(crate) fn each_socket(directory: &Path, mut each: impl FnMut(ForeignRawFd, u32)) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let target = match fs::read_link(&path) {
            Ok(target) => target,
            Err(error) if has_ended(&error) => continue,
            Err(error) => return Err(error),
        };
        let descriptor = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let inode = target.to_str().and_then(socket_inode);
        if let (Some(descriptor), Some(inode)) = (descriptor, inode) {
            each(descriptor, inode);
        }
    }
    Ok(())
}

/// The number in `socket:[number]`.
fn socket_inode(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

pub(crate) fn has_ended(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|raw| crate::process::is_gone(Errno::from_raw_os_error(raw)))
}

/// Duplicates the socket into this process. `None` when the process or the socket has gone; the cookie makes sure that a
/// descriptor or pid that was reused meanwhile is not taken for it.
fn take_socket(place: &Place<'_>, pidfds: &mut HashMap<Pid, OwnedFd>) -> Result<Option<OwnedFd>, KernelError> {
    let failed = |errno| {
        let action = format!("take a socket of process {} (pidfd_getfd)", place.pid.as_raw_pid());
        KernelError::of_call(action, errno, &[Capability::SysPtrace])
    };
    let pidfd = match pidfds.entry(place.pid) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => match pidfd_open(place.pid, PidfdFlags::empty()) {
            Ok(pidfd) => unknown.insert(pidfd),
            Err(Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        },
    };
    match pidfd_getfd(pidfd, place.descriptor, PidfdGetfdFlags::empty()) {
        Ok(socket) if socket_cookie(&socket) == Ok(place.end.cookie) => Ok(Some(socket)),
        Ok(_) | Err(Errno::SRCH | Errno::BADF) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::SockDiag;

    #[test]
    fn only_socket_links_have_an_inode() {
        assert_eq!(socket_inode("socket:[123]"), Some(123));
        for link in
            ["", "socket:[]", "socket:[x]", "socket:123", "pipe:[123]", "/tmp/socket:[1]", "socket:[4294967296]"]
        {
            assert_eq!(socket_inode(link), None, "{link}");
        }
    }

    #[test]
    fn sockets_of_a_process_are_found_and_taken_only_under_their_own_cookie() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let inode = fs::metadata(format!("/proc/self/fd/{}", client.as_raw_fd())).unwrap().ino();

        let mut found = Vec::new();
        each_socket(Path::new("/proc/self/fd"), |descriptor, inode| found.push((descriptor, u64::from(inode))))
            .unwrap();
        assert!(found.contains(&(client.as_raw_fd(), inode)), "{inode} in {found:?}");

        let cookie = socket_cookie(&client).unwrap();
        let (local, peer) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let connection = SockDiag::open().unwrap().find(local, peer, Some(cookie)).unwrap().unwrap();
        let another = Connection { cookie: cookie + 1, ..connection.clone() };
        let take = |connection: &Connection, descriptor| {
            let place = Place { pid: rustix::process::getpid(), descriptor, end: End::own(connection) };
            take_socket(&place, &mut HashMap::new()).unwrap()
        };
        assert!(take(&connection, client.as_raw_fd()).is_some());
        assert!(take(&another, client.as_raw_fd()).is_none());
        assert!(take(&connection, 1_000_000).is_none());
    }

    #[test]
    fn a_request_that_came_after_the_dump_keeps_its_connection_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let duplicate = OwnedFd::from(server.try_clone().unwrap());
        let mut report = ClosedReport::default();

        client.write_all(b"request").unwrap();
        close(&duplicate, &mut report).unwrap();
        assert_eq!(report, ClosedReport { busy: 1, ..ClosedReport::default() });
        assert_eq!(server.read(&mut [0; 16]).unwrap(), 7);

        close(&duplicate, &mut report).unwrap();
        assert_eq!(report, ClosedReport { busy: 1, closed: 1, ..ClosedReport::default() });
        assert_eq!(server.read(&mut [0; 16]).unwrap(), 0, "the application sees the end");
        server.write_all(b"response").unwrap();
        drop((server, duplicate));
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert_eq!(received, "response");
    }
}
