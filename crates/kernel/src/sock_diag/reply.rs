//! The bytes of the kernel's answer: netlink messages, each with a `struct inet_diag_msg` and attributes.
//!
//! Nothing here trusts a length or an offset: whatever does not fit is [`DumpError::Malformed`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::DumpError;
use crate::connection::normalised;
use crate::{Connection, TcpInfo};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_OVERRUN: u16 = 4;
const TCPDIAG_GETSOCK: u16 = 18;
/// The same in answer to the newer form of request.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The kernel says that the table changed under its hands.
const NLM_F_DUMP_INTR: u16 = 0x10;

const NETLINK_HEADER: usize = 16;
const DIAG_MESSAGE: usize = 72;
const ATTRIBUTE_HEADER: usize = 4;
const INET_DIAG_INFO: u16 = 2;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Socket(Connection),
    Done,
}

/// The messages of one datagram that answer the request `sequence`; answers to earlier, broken-off requests are skipped.
pub(super) struct Messages<'a> {
    rest: &'a [u8],
    sequence: u32,
}

impl<'a> Messages<'a> {
    pub(super) fn new(datagram: &'a [u8], sequence: u32) -> Self {
        Self { rest: datagram, sequence }
    }

    fn parse_next(&mut self) -> Result<Option<Message>, DumpError> {
        while !self.rest.is_empty() {
            let message = self.rest;
            let length = size(u32_at(message, 0)?);
            if length < NETLINK_HEADER || length > message.len() {
                return Err(DumpError::Malformed("a message longer than its datagram"));
            }
            self.rest = message.get(length.next_multiple_of(4)..).unwrap_or_default();
            if u32_at(message, 8)? != self.sequence {
                continue;
            }
            if u16_at(message, 6)? & NLM_F_DUMP_INTR != 0 {
                return Err(DumpError::Interrupted);
            }
            let payload = &message[NETLINK_HEADER..length];
            match u16_at(message, 4)? {
                TCPDIAG_GETSOCK | SOCK_DIAG_BY_FAMILY => {
                    return parse_socket(payload).map(|socket| Some(Message::Socket(socket)));
                }
                NLMSG_DONE => {
                    // Old kernels send no code with it.
                    let code = if payload.is_empty() { 0 } else { i32_at(payload, 0)? };
                    return if code < 0 { Err(refused(code)) } else { Ok(Some(Message::Done)) };
                }
                NLMSG_ERROR => {
                    // "No error" is the acknowledgement of a request that asks for one.
                    let code = i32_at(payload, 0)?;
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

/// `struct inet_diag_msg`. Ports and addresses are in network order, all else in the machine's.
fn parse_socket(message: &[u8]) -> Result<Connection, DumpError> {
    let attributes = message.get(DIAG_MESSAGE..).ok_or(DumpError::Malformed("a short socket record"))?;
    let family = message[0];
    Ok(Connection {
        local: normalised(address_at(message, 8, family)?, u16::from_be_bytes(array_at(message, 4)?)),
        peer: normalised(address_at(message, 24, family)?, u16::from_be_bytes(array_at(message, 6)?)),
        state: message[1].into(),
        cookie: u64::from(u32_at(message, 48)?) << 32 | u64::from(u32_at(message, 44)?),
        rqueue: u32_at(message, 56)?,
        wqueue: u32_at(message, 60)?,
        inode: u32_at(message, 68)?,
        info: tcp_info(attributes)?,
    })
}

fn address_at(message: &[u8], offset: usize, family: u8) -> Result<IpAddr, DumpError> {
    match family {
        AF_INET => Ok(Ipv4Addr::from(array_at::<4>(message, offset)?).into()),
        AF_INET6 => Ok(Ipv6Addr::from(array_at::<16>(message, offset)?).into()),
        _ => Err(DumpError::Malformed("an unknown address family")),
    }
}

/// Finds `INET_DIAG_INFO` among the attributes. `struct tcp_info` grows with the kernel; one that ends before
/// `tcpi_notsent_bytes` (Linux 4.6) is as good as none.
fn tcp_info(mut attributes: &[u8]) -> Result<Option<TcpInfo>, DumpError> {
    while !attributes.is_empty() {
        let length = usize::from(u16_at(attributes, 0)?);
        if length < ATTRIBUTE_HEADER || length > attributes.len() {
            return Err(DumpError::Malformed("an attribute longer than its message"));
        }
        if u16_at(attributes, 2)? == INET_DIAG_INFO {
            return Ok(parse_tcp_info(&attributes[ATTRIBUTE_HEADER..length]).ok());
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(None)
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
    })
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], DumpError> {
    bytes
        .get(offset..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .ok_or(DumpError::Malformed("a record shorter than its type"))
}

fn u16_at(bytes: &[u8], offset: usize) -> Result<u16, DumpError> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, DumpError> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

fn i32_at(bytes: &[u8], offset: usize) -> Result<i32, DumpError> {
    array_at(bytes, offset).map(i32::from_ne_bytes)
}

/// A length field as an index; on a machine where it does not fit, longer than any datagram.
fn size(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
