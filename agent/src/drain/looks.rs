//! What was seen of each connection at the last look at all of them.

use std::collections::HashMap;

use hitless_kernel::Connection;

/// Kept from one look to the next, so that what is gone is forgotten. By the kernel's identity of the socket.
pub(super) struct Looks<T> {
    known: HashMap<u64, T>,
    /// Of the look that is under way; between two looks, of the one before.
    seen: HashMap<u64, T>,
}

impl<T> Default for Looks<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), seen: HashMap::new() }
    }
}

impl<T: Copy> Looks<T> {
    /// Before a look at all connections.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
    }

    /// After it: those that are gone are forgotten.
    pub(super) fn end(&mut self) {
        std::mem::swap(&mut self.known, &mut self.seen);
    }

    /// What was kept of the connection at the last look.
    pub(super) fn of(&self, connection: &Connection) -> Option<T> {
        self.known.get(&connection.cookie).copied()
    }

    /// Keeps this of the connection.
    pub(super) fn keep(&mut self, connection: &Connection, what: T) {
        self.seen.insert(connection.cookie, what);
    }

    /// Of how many something was kept at the last look.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Of how many something has been kept in the look that is under way; after it, at the one before.
    pub(super) fn kept(&self) -> usize {
        self.seen.len()
    }
}

/// A connection for tests, on which so many bytes have passed.
#[cfg(test)]
pub(super) fn connection(received: u64, sent: u64) -> Connection {
    use std::time::Duration;

    use hitless_kernel::{TcpInfo, TcpState};

    let (address, now) = ("10.0.0.1:80".parse().unwrap(), Duration::ZERO);
    let info = TcpInfo {
        last_data_sent: now,
        last_data_recv: now,
        last_ack_recv: now,
        bytes_acked: sent,
        bytes_received: received,
        notsent_bytes: 0,
        timeouts: 0,
    };
    Connection {
        local: address,
        peer: address,
        state: TcpState::Established,
        inode: 1,
        cookie: 7,
        rqueue: 0,
        wqueue: 0,
        shut_for_reading: false,
        info: Some(info),
    }
}
