//! The end of TCP connections, as an event.

use std::io;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use crate::{KernelError, PodNetns};

/// `SKNLGRP_INET_TCP_DESTROY` (1) and `SKNLGRP_INET6_TCP_DESTROY` (3) of `linux/sock_diag.h`, as a mask that counts from 1.
const GROUPS: u32 = 0b101;

/// Room for a few notices. Which connection has ended is asked elsewhere, so more of them say nothing new.
const BUFFER_BYTES: usize = 4096;

/// Becomes readable when the kernel has forgotten a TCP socket of the namespace: a connection that has ended, inbound or
/// outgoing. Costs nothing while none ends.
///
/// A hint, some 3 ms late where both sides have closed: a connection that only one side has closed is not told of. Wait
/// with a time limit, and look again.
#[derive(Debug)]
pub struct DestroyEvents {
    socket: OwnedFd,
}

impl PodNetns {
    /// Sees connections end from now on. Needs `CAP_SYS_ADMIN`, for `setns`.
    pub fn destroy_events(&self) -> Result<DestroyEvents, KernelError> {
        const ACTION: &str = "subscribe to the end of connections";
        self.inside(ACTION, || DestroyEvents::open().map_err(|error| KernelError::of_call(ACTION, error, &[])))
    }
}

impl DestroyEvents {
    fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
        set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
        // A socket that joins the groups without being bound gets nothing.
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self { socket })
    }

    /// Forgets what it has told of; says whether there was anything.
    pub fn clear(&self) -> Result<bool, KernelError> {
        let mut has_ended = false;
        loop {
            match recv(&self.socket, &mut [0; 16], RecvFlags::TRUNC) {
                // More notices than there was room for.
                Ok(_) | Err(Errno::NOBUFS) => has_ended = true,
                Err(Errno::AGAIN) => return Ok(has_ended),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(KernelError::of_call("read which connections have ended", errno, &[])),
            }
        }
    }
}

impl AsFd for DestroyEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
