//! The TCP counters of a network namespace: the cheap signal to look closer.

use std::fs::File;

use rustix::io::pread;

use crate::KernelError;

/// TCP counters of a whole network namespace, both address families together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpCounters {
    /// Connections now in ESTABLISHED or CLOSE_WAIT: inbound, outgoing, and both ends of those over loopback. It says
    /// when to look again, not how many clients there are.
    pub curr_estab: u64,
    /// Connections accepted by the kernel since the namespace was made, those over loopback included. No growth over a
    /// while means that nobody sends new connections any more.
    pub passive_opens: u64,
}

/// The `Tcp:` lines end before byte 2000 on every known kernel; the rest of the file is of no interest.
const BUFFER_BYTES: usize = 8 * 1024;

impl TcpCounters {
    /// One `pread`, about 12 µs whatever the number of connections.
    pub(crate) fn read(snmp: &File) -> Result<Self, KernelError> {
        let mut buffer = [0; BUFFER_BYTES];
        let length = pread(snmp, &mut buffer, 0)
            .map_err(|errno| KernelError::of_call("read TCP counters from /proc/<pid>/net/snmp", errno, &[]))?;
        Self::parse(&String::from_utf8_lossy(&buffer[..length]))
    }

    /// The file holds two lines a protocol: names, then values in the same order.
    fn parse(snmp: &str) -> Result<Self, KernelError> {
        let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let counter = |wanted: &'static str| {
            std::iter::zip(names.split_ascii_whitespace(), values.split_ascii_whitespace())
                .find(|(name, _)| *name == wanted)
                .and_then(|(_, value)| value.parse().ok())
                .ok_or(KernelError::Counter(wanted))
        };
        Ok(Self { curr_estab: counter("CurrEstab")?, passive_opens: counter("PassiveOpens")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captured on Linux 6.18, shortened to three protocols.
    const SNMP: &str = "\
Icmp: InMsgs InErrors
Icmp: 3 0
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs
Tcp: 1 200 120000 -1 52 41 3 2 7 9016 8872
Udp: InDatagrams NoPorts
Udp: 11 0
";

    #[test]
    fn counters_are_found_by_name() {
        assert_eq!(TcpCounters::parse(SNMP).unwrap(), TcpCounters { curr_estab: 7, passive_opens: 41 });
    }

    #[test]
    fn a_missing_counter_is_an_error_and_not_zero() {
        for broken in ["", "Tcp: CurrEstab\n", "Tcp: CurrEstab PassiveOpens\nTcp: 7\n", "Tcp: CurrEstab\nTcp: -3\n"] {
            assert!(matches!(TcpCounters::parse(broken), Err(KernelError::Counter(_))), "{broken:?}");
        }
    }

    #[test]
    fn the_running_kernel_has_the_counters() {
        let snmp = File::open("/proc/self/net/snmp").unwrap();
        let before = TcpCounters::read(&snmp).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let after = TcpCounters::read(&snmp).unwrap();
        assert!(after.passive_opens > before.passive_opens);
        assert!(after.curr_estab >= 2);
        drop(client);
    }
}
