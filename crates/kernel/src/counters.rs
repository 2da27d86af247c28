//! The counters of a network namespace: the cheap signal to look closer.

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
    /// Absent where the kernel does not have these counters.
    pub resets: Option<ResetCounters>,
}

/// Counters from which it can be told how many connections others have reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetCounters {
    /// `EstabResets`: connections that went from ESTABLISHED or CLOSE_WAIT to CLOSED (`tcp_set_state`). A reset that came in does that.
    /// So does one that the pod sends, because its program aborts a connection or somebody destroys its socket, and the end of
    /// all retransmissions. A close by FIN does not.
    pub ended: u64,
    /// `OutRsts`: resets that the namespace has sent, for whatever reason.
    pub sent: u64,
}

impl ResetCounters {
    /// How many connections were reset by their other side since `before`, at least: whatever the pod has reset itself it has sent a
    /// reset for. `None`: the counters are those of another namespace.
    #[must_use]
    pub fn received_since(self, before: Self) -> Option<u64> {
        let (ended, sent) = (self.ended.checked_sub(before.ended)?, self.sent.checked_sub(before.sent)?);
        Some(ended.saturating_sub(sent))
    }
}

/// The files have less than 5000 bytes on every known kernel; a counter that is cut off would be an error.
const BUFFER_BYTES: usize = 8 * 1024;

impl TcpCounters {
    /// One `pread`, about 12 µs whatever the number of connections.
    pub(crate) fn read(snmp: &File) -> Result<Self, KernelError> {
        Self::parse(&text(snmp)?)
    }

    /// The file holds two lines a protocol: names, then values in the same order.
    pub(crate) fn parse(snmp: &str) -> Result<Self, KernelError> {
        let counter = |wanted| counter(snmp, "Tcp: ", wanted);
        let resets = || Some(ResetCounters { ended: counter("EstabResets").ok()?, sent: counter("OutRsts").ok()? });
        Ok(Self { curr_estab: counter("CurrEstab")?, passive_opens: counter("PassiveOpens")?, resets: resets() })
    }
}

/// UDP counters of a whole network namespace, both address families together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams that have come in since the namespace was made, whatever became of them. No growth over a while is the
    /// only sign that nobody uses a UDP port any more.
    ///
    /// Answers to the pod's own questions, as to the DNS, are among them. A datagram counts when the application reads it
    /// or the kernel drops it, so one that waits in a socket's buffer does not count yet.
    pub datagrams: u64,
}

/// The first is read, the others dropped: nobody has the port, damaged or no room.
const UDP: [&str; 3] = ["InDatagrams", "NoPorts", "InErrors"];
/// The same for IPv6, which the kernel counts apart.
const UDP6: [&str; 3] = ["Udp6InDatagrams", "Udp6NoPorts", "Udp6InErrors"];

impl UdpCounters {
    pub(crate) fn read(snmp: &File, snmp6: Option<&File>) -> Result<Self, KernelError> {
        let snmp6 = snmp6.map(text).transpose()?;
        Self::parse(&text(snmp)?, snmp6.as_deref())
    }

    pub(crate) fn parse(snmp: &str, snmp6: Option<&str>) -> Result<Self, KernelError> {
        let v4 = Self::parse_v4(snmp)?;
        let v6 = snmp6.map_or(Ok(0), Self::parse_v6)?;
        Ok(Self { datagrams: v4.wrapping_add(v6) })
    }

    fn parse_v4(snmp: &str) -> Result<u64, KernelError> {
        sum(UDP.into_iter().map(|wanted| counter(snmp, "Udp: ", wanted)))
    }

    /// This file holds a name and a value a line.
    fn parse_v6(snmp6: &str) -> Result<u64, KernelError> {
        let value = |wanted: &'static str| {
            let line = snmp6.lines().find_map(|line| line.strip_prefix(wanted)?.trim().parse::<u64>().ok());
            line.ok_or(KernelError::Counter(wanted))
        };
        sum(UDP6.into_iter().map(value))
    }
}

/// Counters begin at zero again, and so does their sum: what counts is how it grows.
fn sum(mut counters: impl Iterator<Item = Result<u64, KernelError>>) -> Result<u64, KernelError> {
    counters.try_fold(0_u64, |sum, counter| Ok(sum.wrapping_add(counter?)))
}

fn text(counters: &File) -> Result<String, KernelError> {
    let mut buffer = [0; BUFFER_BYTES];
    let length = pread(counters, &mut buffer, 0)
        .map_err(|errno| KernelError::of_call("read counters from /proc/<pid>/net/snmp", errno, &[]))?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn counter(snmp: &str, protocol: &str, wanted: &'static str) -> Result<u64, KernelError> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    std::iter::zip(names.split_ascii_whitespace(), values.split_ascii_whitespace())
        .find(|(name, _)| *name == wanted)
        .and_then(|(_, value)| value.parse().ok())
        .ok_or(KernelError::Counter(wanted))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Captured on Linux 6.18, shortened to three protocols.
    const SNMP: &str = "\
Icmp: InMsgs InErrors
Icmp: 3 0
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts
Tcp: 1 200 120000 -1 52 41 3 2 7 9016 8872 4 0 5
Udp: InDatagrams NoPorts InErrors OutDatagrams
Udp: 11 2 1 40
UdpLite: InDatagrams NoPorts InErrors
UdpLite: 7 7 7
";

    const SNMP6: &str = "\
Ip6InReceives                   \t99
Udp6InDatagrams                 \t20
Udp6NoPorts                     \t3
Udp6InErrors                    \t0
Udp6OutDatagrams                \t8
";

    #[test]
    fn counters_are_found_by_name() {
        let resets = Some(ResetCounters { ended: 2, sent: 5 });
        assert_eq!(TcpCounters::parse(SNMP).unwrap(), TcpCounters { curr_estab: 7, passive_opens: 41, resets });
    }

    #[test]
    fn counters_of_resets_are_no_condition_for_the_others() {
        let old = "Tcp: PassiveOpens EstabResets CurrEstab\nTcp: 41 2 7\n";
        assert_eq!(TcpCounters::parse(old).unwrap(), TcpCounters { curr_estab: 7, passive_opens: 41, resets: None });
    }

    #[test]
    fn resets_that_the_pod_has_sent_are_not_those_of_others() {
        let before = ResetCounters { ended: 10, sent: 100 };
        let since = |ended, sent| ResetCounters { ended, sent }.received_since(before);
        assert_eq!((since(10, 100), since(14, 100), since(14, 103)), (Some(0), Some(4), Some(1)));
        assert_eq!(since(14, 120), Some(0), "most were answers to strangers");
        assert_eq!((since(9, 100), since(10, 99)), (None, None), "another namespace");
    }

    #[test]
    fn datagrams_of_both_families_are_counted_whatever_became_of_them() {
        assert_eq!(UdpCounters::parse_v4(SNMP).unwrap(), 14);
        assert_eq!(UdpCounters::parse_v6(SNMP6).unwrap(), 23);
        for broken in ["", "Udp6InDatagrams 20\n", "Udp6InDatagrams x\nUdp6NoPorts 3\nUdp6InErrors 0\n"] {
            assert!(matches!(UdpCounters::parse_v6(broken), Err(KernelError::Counter(_))), "{broken:?}");
            assert!(matches!(UdpCounters::parse_v4(broken), Err(KernelError::Counter(_))), "{broken:?}");
        }
    }

    #[test]
    fn counters_that_are_at_their_end_go_on_at_zero() {
        let most = format!("Udp: InDatagrams NoPorts InErrors\nUdp: {} 2 1\n", u64::MAX);
        assert_eq!(UdpCounters::parse(&most, Some(SNMP6)).unwrap().datagrams, 2 + 23);
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

        let snmp6 = File::open("/proc/self/net/snmp6").ok();
        let before = UdpCounters::read(&snmp, snmp6.as_ref()).unwrap();
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.send_to(b"x", other.local_addr().unwrap()).unwrap();
        other.recv(&mut [0]).unwrap();
        assert!(UdpCounters::read(&snmp, snmp6.as_ref()).unwrap().datagrams > before.datagrams);
    }
}
