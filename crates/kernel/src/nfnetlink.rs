//! The kernel's packet filter (nf_tables) over netlink: changes as one atomic batch, and questions.
//!
//! Over the raw socket, like [`crate::SockDiag`]: a handful of messages, and no `nft` binary in the image.

mod message;

use std::io;
use std::time::Duration;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_netfilter::nftables::NfTablesMessage;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, send, socket_with};

pub(crate) use message::{Change, Reply, attribute, attributes, replies};

/// The kernel answers within the sending call; this much silence means a broken socket.
const PATIENCE: Duration = Duration::from_secs(5);

/// A dump is packed into replies of at most 32 KiB.
const BUFFER_BYTES: usize = 32 * 1024;

/// So often a list is asked for while rules change all the time.
const LISTS: u32 = 16;

/// A netlink socket to the packet filter of the namespace it was opened in, whichever thread uses it. Every call needs
/// `CAP_NET_ADMIN`.
#[derive(Debug)]
pub(crate) struct Nfnetlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Nfnetlink {
    /// Opens the socket in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Applies all of the changes or none.
    pub(crate) fn commit(&mut self, changes: Vec<Change>) -> io::Result<()> {
        let sequence = self.next_sequence();
        self.send(&message::batch(sequence, changes))?;

        // Each failing message is answered, and the last one in any case. All answers are there when the call returns.
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut outcome = None;
        while let Some(length) = self.receive(&mut buffer, outcome.is_none())? {
            for reply in replies(&buffer[..length], sequence) {
                match (reply?, &outcome) {
                    (Reply::Error(error), None | Some(Ok(()))) => outcome = Some(Err(error)),
                    (Reply::Acknowledged, None) => outcome = Some(Ok(())),
                    _ => {}
                }
            }
        }
        outcome.unwrap_or_else(|| Err(Errno::TIMEDOUT.into()))
    }

    /// Asks for one object; `None` if there is no such. The answer is the object's attributes.
    pub(crate) fn get(&mut self, question: NfTablesMessage) -> io::Result<Option<Vec<u8>>> {
        let sequence = self.next_sequence();
        self.send(&message::question(sequence, 0, question))?;
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Some(length) = self.receive(&mut buffer, true)? {
            let Some(reply) = replies(&buffer[..length], sequence).next() else { continue };
            return match reply? {
                Reply::Object(attributes) => Ok(Some(attributes.to_vec())),
                Reply::Error(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
                Reply::Error(error) => Err(error),
                Reply::Acknowledged | Reply::Done => Ok(None),
            };
        }
        Err(Errno::TIMEDOUT.into())
    }

    /// Lists all objects that the question is about: the attributes of each. A list in the middle of which somebody has changed the
    /// rules is asked for again.
    pub(crate) fn list(&mut self, question: &NfTablesMessage) -> io::Result<Vec<Vec<u8>>> {
        let mut left = LISTS;
        loop {
            left -= 1;
            match self.list_once(question.clone()) {
                // What is still to come of the old list comes first: the kernel makes one at a time.
                Err(error) if error.kind() == io::ErrorKind::Interrupted && left > 0 => self.clear()?,
                result => return result,
            }
        }
    }

    fn clear(&self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        while self.receive(&mut buffer, false)?.is_some() {}
        Ok(())
    }

    fn list_once(&mut self, question: NfTablesMessage) -> io::Result<Vec<Vec<u8>>> {
        let sequence = self.next_sequence();
        self.send(&message::question(sequence, NLM_F_DUMP, question))?;
        let (mut buffer, mut objects) = (vec![0; BUFFER_BYTES], Vec::new());
        while let Some(length) = self.receive(&mut buffer, true)? {
            for reply in replies(&buffer[..length], sequence) {
                match reply? {
                    Reply::Object(attributes) => objects.push(attributes.to_vec()),
                    Reply::Done => return Ok(objects),
                    Reply::Error(error) => return Err(error),
                    Reply::Acknowledged => {}
                }
            }
        }
        Err(Errno::TIMEDOUT.into())
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        send(&self.socket, bytes, SendFlags::empty())?;
        Ok(())
    }

    /// One datagram of the kernel; `None` when there is no more.
    fn receive(&self, buffer: &mut [u8], wait: bool) -> io::Result<Option<usize>> {
        let flags = if wait { RecvFlags::TRUNC } else { RecvFlags::TRUNC | RecvFlags::DONTWAIT };
        loop {
            match recvfrom(&self.socket, &mut *buffer, flags) {
                Ok((_, length, _)) if length > buffer.len() => return Err(Errno::MSGSIZE.into()),
                Ok((_, length, Some(sender)))
                    if SocketAddrNetlink::try_from(sender.clone()).is_ok_and(|address| address.pid() == 0) =>
                {
                    return Ok(Some(length));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
