//! The bytes of the kernel's answer: netlink messages, each with a `struct inet_diag_msg` and attributes.
//!
//! Nothing here trusts a length or an offset: whatever does not fit is [`DumpError::Malformed`].

use std::io;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, NLMSG_OVERRUN, NetlinkBuffer, NlasIterator, Parseable,
};
use netlink_packet_sock_diag::constants::{INET_DIAG_INFO, INET_DIAG_SHUTDOWN, SOCK_DIAG_BY_FAMILY};
use netlink_packet_sock_diag::inet::{InetResponseBuffer, InetResponseHeader};

use super::DumpError;
use super::request::{TCPDIAG_GETSOCK, cookie_from};
use crate::connection::normalised;
use crate::{Connection, TcpInfo};

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Socket(Connection),
    Done,
}

/// The messages of one datagram that answer the request `sequence`; answers to earlier, broken-off requests are skipped.
pub(crate) struct Messages<'a> {
    rest: &'a [u8],
    sequence: u32,
}

impl<'a> Messages<'a> {
    pub(crate) fn new(datagram: &'a [u8], sequence: u32) -> Self {
        Self { rest: datagram, sequence }
    }

    fn parse_next(&mut self) -> Result<Option<Message>, DumpError> {
        while !self.rest.is_empty() {
            let message = NetlinkBuffer::new_checked(self.rest)
                .map_err(|_| DumpError::Malformed("a message longer than its datagram"))?;
            self.rest = self.rest.get(size(message.length()).next_multiple_of(4)..).unwrap_or_default();
            if message.sequence_number() != self.sequence {
                continue;
            }
            if message.flags() & NLM_F_DUMP_INTR != 0 {
                return Err(DumpError::Interrupted);
            }
            let payload = message.payload();
            match message.message_type() {
                TCPDIAG_GETSOCK | SOCK_DIAG_BY_FAMILY => {
                    return parse_socket(payload).map(|socket| Some(Message::Socket(socket)));
                }
                NLMSG_DONE => {
                    // Old kernels send no code with it.
                    let code = if payload.is_empty() { 0 } else { code_of(payload)? };
                    return if code < 0 { Err(refused(code)) } else { Ok(Some(Message::Done)) };
                }
                NLMSG_ERROR => {
                    // "No error" is the acknowledgement of a request that asks for one.
                    let code = code_of(payload)?;
                    return if code == 0 { Ok(Some(Message::Done)) } else { Err(refused(code)) };
                }
                NLMSG_OVERRUN => return Err(DumpError::Interrupted),
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Iterator for Messages<'_> {
    type Item = Result<Message, DumpError>;

    fn next(&mut self) -> Option<Self::Item> {
        let parsed = self.parse_next();
        if parsed.is_err() {
            self.rest = &[];
        }
        parsed.transpose()
    }
}

fn refused(code: i32) -> DumpError {
    DumpError::Refused(io::Error::from_raw_os_error(code.saturating_neg()))
}

fn code_of(payload: &[u8]) -> Result<i32, DumpError> {
    array_at(payload, 0).map(i32::from_ne_bytes)
}

fn parse_socket(message: &[u8]) -> Result<Connection, DumpError> {
    let header = InetResponseHeader::parse(message)
        .map_err(|_| DumpError::Malformed("a short socket record or an unknown address family"))?;
    let id = header.socket_id;
    let Attributes { shut_for_reading, info } = attributes(&message[size_of::<InetResponseBuffer>()..])?;
    Ok(Connection {
        local: normalised(id.source_address, id.source_port),
        peer: normalised(id.destination_address, id.destination_port),
        state: header.state.into(),
        cookie: cookie_from(id.cookie),
        rqueue: header.recv_queue,
        wqueue: header.send_queue,
        inode: header.inode,
        shut_for_reading,
        info,
    })
}

/// What is read of the attributes.
#[derive(Default)]
struct Attributes {
    shut_for_reading: bool,
    info: Option<TcpInfo>,
}

/// `RCV_SHUTDOWN`: the bit of `sk_shutdown` that the kernel sets for reading.
const SHUT_FOR_READING: u8 = 1;

/// `struct tcp_info` grows with the kernel; one that ends before `tcpi_notsent_bytes` (Linux 4.6) is as good as none. The library's
/// own type wants all fields of Linux 5.4.
fn attributes(bytes: &[u8]) -> Result<Attributes, DumpError> {
    let mut found = Attributes::default();
    for attribute in NlasIterator::new(bytes) {
        let attribute = attribute.map_err(|_| DumpError::Malformed("an attribute longer than its message"))?;
        match attribute.kind() {
            INET_DIAG_INFO => found.info = parse_tcp_info(attribute.value()).ok(),
            INET_DIAG_SHUTDOWN => {
                found.shut_for_reading = attribute.value().first().is_some_and(|bits| bits & SHUT_FOR_READING != 0);
            }
            _ => {}
        }
    }
    Ok(found)
}

fn parse_tcp_info(info: &[u8]) -> Result<TcpInfo, DumpError> {
    let age = |offset| u32_at(info, offset).map(|milliseconds| Duration::from_millis(milliseconds.into()));
    Ok(TcpInfo {
        last_data_sent: age(44)?,
        last_data_recv: age(52)?,
        last_ack_recv: age(56)?,
        bytes_acked: u64::from_ne_bytes(array_at(info, 120)?),
        bytes_received: u64::from_ne_bytes(array_at(info, 128)?),
        notsent_bytes: u32_at(info, 144)?,
        timeouts: u8::from_ne_bytes(array_at(info, 2)?),
    })
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], DumpError> {
    bytes
        .get(offset..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .ok_or(DumpError::Malformed("a record shorter than its type"))
}

fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, DumpError> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

/// A length field as an index; on a machine where it does not fit, longer than any datagram.
fn size(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
