//! The sockets of a network namespace, as the tables in `/proc/<pid>/net` have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// `TCP_LISTEN`.
const LISTEN: &str = "0A";
/// Of a Unix socket that accepts connections.
const ACCEPTS: u32 = 0x0001_0000;

/// What a socket says about whether somebody is served through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody is.
    Harmless,
    /// It accepts connections to this port, or is one.
    Tcp(u16),
    /// Anybody may send to this port.
    Udp(u16),
    /// Others can find it, by this name.
    Unix(String),
}

/// All sockets of a network namespace that are known to the tables, by inode.
#[derive(Debug, Default)]
pub(super) struct SocketTables(BTreeMap<u64, State>);

impl SocketTables {
    /// `net` is the directory `/proc/<pid>/net`.
    pub(super) fn read(net: &Path) -> io::Result<Self> {
        let mut sockets = BTreeMap::new();
        let tcp: Vec<Inet> =
            [net.join("tcp"), net.join("tcp6")].iter().map(|path| inet(path)).collect::<Result<Vec<_>, _>>()?.concat();
        let served: BTreeSet<u16> = tcp.iter().filter(|socket| socket.is_listening).map(|socket| socket.port).collect();
        sockets.extend(tcp.into_iter().map(|Inet { inode, port, .. }| {
            (inode, if served.contains(&port) { State::Tcp(port) } else { State::Harmless })
        }));
        for table in ["udp", "udp6"] {
            sockets.extend(inet(&net.join(table))?.into_iter().map(|Inet { inode, port, is_connected, .. }| {
                (inode, if is_connected { State::Harmless } else { State::Udp(port) })
            }));
        }
        sockets.extend(rows(&net.join("unix"))?.iter().filter_map(|row| unix(row)));
        sockets.extend(
            rows(&net.join("netlink"))?
                .iter()
                .filter_map(|row| Some((row.split_whitespace().last()?.parse().ok()?, State::Harmless))),
        );
        Ok(Self(sockets))
    }

    /// `None`: no table has it.
    pub(super) fn state(&self, inode: u64) -> Option<&State> {
        self.0.get(&inode)
    }
}

/// A row of the tables of TCP and UDP.
#[derive(Clone, Copy, Debug)]
struct Inet {
    inode: u64,
    port: u16,
    is_listening: bool,
    is_connected: bool,
}

/// The rows without the heading. Without IPv6 there is no such table.
fn rows(path: &Path) -> io::Result<Vec<String>> {
    match fs::read(path) {
        Ok(table) => Ok(String::from_utf8_lossy(&table).lines().skip(1).map(ToOwned::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn inet(path: &Path) -> io::Result<Vec<Inet>> {
    let row = |row: &String| {
        let mut fields = row.split_whitespace().skip(1);
        let (local, peer, state) = (fields.next()?, fields.next()?, fields.next()?);
        let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
        let inode = fields.nth(5)?.parse().ok()?;
        Some(Inet { inode, port: port(local)?, is_listening: state == LISTEN, is_connected: port(peer)? != 0 })
    };
    Ok(rows(path)?.iter().filter_map(row).collect())
}

/// One without a name that accepts nobody was made in a pair, or is a client's.
fn unix(row: &str) -> Option<(u64, State)> {
    let mut fields = row.split_whitespace().skip(3);
    let (flags, inode) = (u32::from_str_radix(fields.next()?, 16).ok()?, fields.nth(2)?.parse().ok()?);
    let name = fields.next().unwrap_or_default();
    let is_found = flags & ACCEPTS != 0 || !name.is_empty();
    Some((inode, if is_found { State::Unix(name.to_owned()) } else { State::Harmless }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:2382 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:C350 0100007F:2382 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0000000000000000 20 4 30 10 -1
";
    const UDP: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  100: 00000000:1FBD 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 21 2 0000000000000000 0
  101: 0100007F:C351 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 22 2 0000000000000000 0
";
    const UNIX: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01    31 /run/app.sock
0000000000000000: 00000002 00000000 00010000 0001 01    32
0000000000000000: 00000003 00000000 00000000 0001 03    33
0000000000000000: 00000002 00000000 00000000 0002 01    34 @log
";
    const NETLINK: &str = "\
sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
0000000000000000 0   0          00000000 0        0        0     2        0        41
";

    #[test]
    fn who_can_be_reached_through_a_socket_and_who_only_reaches_others() {
        let net = tempfile::tempdir().unwrap();
        for (name, table) in [("tcp", TCP), ("udp", UDP), ("unix", UNIX), ("netlink", NETLINK)] {
            fs::write(net.path().join(name), table).unwrap();
        }
        let tables = SocketTables::read(net.path()).unwrap();
        let unix = |name: &str| Some(State::Unix(name.to_owned()));
        for (inode, wanted) in [
            (11, Some(State::Tcp(9090))),
            (12, Some(State::Tcp(9090))),
            (13, Some(State::Harmless)),
            (21, Some(State::Udp(8125))),
            (22, Some(State::Harmless)),
            (31, unix("/run/app.sock")),
            (32, unix("")),
            (33, Some(State::Harmless)),
            (34, unix("@log")),
            (41, Some(State::Harmless)),
            (51, None),
        ] {
            assert_eq!(tables.state(inode), wanted.as_ref(), "{inode}");
        }
    }
}
