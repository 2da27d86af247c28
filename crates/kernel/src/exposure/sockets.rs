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
pub(crate) enum State {
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
pub(crate) struct SocketTables(BTreeMap<u64, State>);

impl SocketTables {
    /// `net` is the directory `/proc/<pid>/net`.
    pub(super) fn read(net: &Path) -> io::Result<Self> {
        Self::of(|name| table(&net.join(name)))
    }

    /// `table` has the text of the table with a name; an empty one where there is none.
    pub(crate) fn of(table: impl Fn(&str) -> io::Result<String>) -> io::Result<Self> {
        let tcp = [inet(&table("tcp")?), inet(&table("tcp6")?)].concat();
        let served: BTreeSet<u16> = tcp.iter().filter(|socket| socket.is_listening).map(|socket| socket.port).collect();
        let mut sockets = Self::default();
        for Inet { inode, port, .. } in tcp {
            sockets.add(inode, if served.contains(&port) { State::Tcp(port) } else { State::Harmless });
        }
        for name in ["udp", "udp6"] {
            for Inet { inode, port, is_connected, .. } in inet(&table(name)?) {
                sockets.add(inode, if is_connected { State::Harmless } else { State::Udp(port) });
            }
        }
        rows(&table("unix")?).filter_map(unix).for_each(|(inode, state)| sockets.add(inode, state));
        let netlink = table("netlink")?;
        let inodes = rows(&netlink).filter_map(|row| row.split_whitespace().last()?.parse().ok());
        inodes.for_each(|inode| sockets.add(inode, State::Harmless));
        Ok(sockets)
    }

    /// A table can't take back what another one has said: a process may choose a name for a Unix socket that looks like a row.
    fn add(&mut self, inode: u64, state: State) {
        let known = self.0.entry(inode).or_insert(State::Harmless);
        if *known == State::Harmless {
            *known = state;
        }
    }

    /// `None`: no table has it.
    pub(crate) fn state(&self, inode: u64) -> Option<&State> {
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

/// Without IPv6 some tables are not there.
fn table(path: &Path) -> io::Result<String> {
    match fs::read(path) {
        Ok(table) => Ok(String::from_utf8_lossy(&table).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// The rows without the heading.
fn rows(table: &str) -> impl Iterator<Item = &str> {
    table.lines().skip(1)
}

fn inet(table: &str) -> Vec<Inet> {
    let row = |row: &str| {
        let mut fields = row.split_whitespace().skip(1);
        let (local, peer, state) = (fields.next()?, fields.next()?, fields.next()?);
        let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
        let inode = fields.nth(5)?.parse().ok()?;
        Some(Inet { inode, port: port(local)?, is_listening: state == LISTEN, is_connected: port(peer)? != 0 })
    };
    rows(table).filter_map(row).collect()
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

    #[test]
    fn a_name_that_looks_like_a_row_hides_no_socket() {
        let forged = format!("{UNIX}0000000000000000: 00000002 00000000 00010000 0001 01    35 /x\n0: 0 0 0 0 0 11\n");
        let tables = SocketTables::of(|name| {
            Ok(match name {
                "tcp" => TCP.to_owned(),
                "unix" => forged.clone(),
                _ => String::new(),
            })
        });
        assert_eq!(tables.unwrap().state(11), Some(&State::Tcp(9090)));
    }
}
