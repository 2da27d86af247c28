//! What the fuzz targets (tests/fuzz) call: the functions that read what comes from the kernel and from other people's processes,
//! over bytes instead of sockets and files. No API: nobody else may use it.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::connection::Connections;
use crate::exec::ids::Ids;
use crate::exposure::sockets::{SocketTables, State};
use crate::hold::block::{expiration, own_name};
use crate::hold::frame::Syn;
use crate::hold::held_syns::HeldSyns;
use crate::nfnetlink::{self, replies};
use crate::pod::{PodGroup, pod_uids_in};
use crate::process::Stat;
use crate::sock_diag::reply::{Message, Messages};
use crate::volumes::{path_of, unescaped};
use crate::{Connection, DumpError, KernelError, Listener, TcpCounters, UdpCounters};

/// The sockets that a datagram of sock_diag lists in answer to the request with this number; `None` is its end.
pub fn sockets(datagram: &[u8], sequence: u32) -> impl Iterator<Item = Result<Option<Connection>, DumpError>> {
    Messages::new(datagram, sequence).map(|message| {
        message.map(|message| match message {
            Message::Socket(socket) => Some(socket),
            Message::Done => None,
        })
    })
}

/// Listeners and their inbound connections, of what a dump has listed.
#[must_use]
pub fn select(listening: Vec<Listener>, sockets: Vec<Connection>) -> Connections {
    Connections::select(listening, sockets)
}

/// One message of the packet filter.
#[derive(Debug)]
pub enum Reply {
    /// An object: its name, if it is a table of ours, and how long it lasts, if it is an element of a set of ours.
    Object(Option<String>, Option<Duration>),
    /// Done.
    Acknowledged,
    /// Refused.
    Refused,
    /// The end of a list.
    Done,
}

/// What a datagram of the packet filter says in answer to the request with this number.
pub fn packet_filter(datagram: &[u8], sequence: u32) -> impl Iterator<Item = io::Result<Reply>> {
    replies(datagram, sequence).map(|reply| {
        reply.map(|reply| match reply {
            nfnetlink::Reply::Object(attributes) => Reply::Object(own_name(attributes), expiration(attributes).ok()),
            nfnetlink::Reply::Acknowledged => Reply::Acknowledged,
            nfnetlink::Reply::Error(_) => Reply::Refused,
            nfnetlink::Reply::Done => Reply::Done,
        })
    })
}

/// A frame that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Who sends it.
    pub client: SocketAddr,
    /// To whom.
    pub server: SocketAddr,
    /// As it is sent once more.
    pub packet: Box<[u8]>,
}

impl From<Syn> for Frame {
    fn from(Syn { flow, packet }: Syn) -> Self {
        Self { client: flow.client, server: flow.server, packet }
    }
}

/// A captured frame, if it is one that is held.
#[must_use]
pub fn frame(captured: &[u8]) -> Option<Frame> {
    Syn::parse(captured).map(Frame::from)
}

/// The frames that are sent once more when all of these were captured, and how many more found no room.
#[must_use]
pub fn replayed<'a>(captured: impl Iterator<Item = &'a [u8]>) -> (Vec<Frame>, usize) {
    let mut held = HeldSyns::default();
    captured.filter_map(Syn::parse).for_each(|syn| held.add(syn));
    let (syns, overflow) = held.take();
    (syns.into_iter().map(Frame::from).collect(), overflow)
}

/// uids of the pods that a process with these control groups is in.
#[must_use]
pub fn pods_of(cgroups: &str) -> Vec<String> {
    pod_uids_in(cgroups)
}

/// Whether a process with these control groups is the pod's, and whether it is the container's; `around`: pods that the node is in.
pub fn is_of(
    cgroups: &str,
    pod_uid: &str,
    container_id: &str,
    around: Vec<String>,
) -> Result<(bool, bool), KernelError> {
    let group = PodGroup::of(pod_uid, around)?;
    Ok((group.holds(cgroups), group.holds_of_container(cgroups, container_id)))
}

/// The counters of `/proc/<pid>/net/snmp` and `snmp6`.
pub fn counters(
    snmp: &str,
    snmp6: Option<&str>,
) -> (Result<TcpCounters, KernelError>, Result<UdpCounters, KernelError>) {
    (TcpCounters::parse(snmp), UdpCounters::parse(snmp, snmp6))
}

/// User, group and further groups of a process as a helper is told them, and as it reads them.
#[must_use]
pub fn ids(status: &str, users: &str, groups: &str) -> Option<([String; 3], Option<[String; 3]>)> {
    let told = Ids::parse(status, users, groups)?.arguments();
    let read = Ids::from_arguments(&mut told.clone().into_iter().map(OsString::from));
    Some((told, read.map(|ids| ids.arguments())))
}

/// What the tables in `/proc/<pid>/net` say of a socket: its TCP port, where somebody listens on that, or another sign that others
/// reach the process by it.
#[must_use]
pub fn reached_by(tables: impl Fn(&str) -> String, inode: u64) -> Option<(Option<u16>, bool)> {
    let tables = SocketTables::of(|name| Ok(tables(name))).ok()?;
    Some(match tables.state(inode)? {
        State::Tcp(port) => (Some(*port), true),
        State::Udp(_) | State::Unix(_) => (None, true),
        State::Harmless => (None, false),
    })
}

/// Where a directory of a file system is mounted.
#[must_use]
pub fn mounted_at(mountinfo: &str, device: &str, directory: &str) -> Option<String> {
    path_of(mountinfo, device, directory)
}

/// A field of `mountinfo` as the path that it stands for.
#[must_use]
pub fn unescape(field: &str) -> String {
    unescaped(field)
}

/// When a process was started, by its `stat`.
#[must_use]
pub fn start_ticks(stat: &str) -> Option<u64> {
    Stat::parse(stat).map(|stat| stat.start_ticks)
}
