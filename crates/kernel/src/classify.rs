//! Is a request in flight on this connection? Told from the kernel's view alone, without reading a byte.

use crate::{Connection, TcpInfo};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// A request is in flight, or data is under way.
    Busy,
    /// Never used: the client has sent nothing yet.
    Fresh,
    /// The last request has been answered.
    Idle,
    /// Cannot be told. Treat as busy until it has been unused for about three times the usual response time.
    Ambiguous,
}

/// Classifies a connection of a request-response protocol (HTTP/1).
///
/// Streams (server-sent events, websockets, HTTP/2, gRPC) look idle between frames: do not ask about them.
///
/// "Sent not earlier than received" alone would be wrong: the kernel keeps the ages in jiffies, and for a quick server
/// request and response fall into the same one. A tie therefore counts as idle only with a second witness: a response
/// that still awaits its acknowledgement, or an acknowledgement that came later than the last request and hence
/// belongs to the response. In 4 × 350 measured connections this rule called no busy one idle.
#[must_use]
pub fn classify(connection: &Connection) -> Activity {
    let Connection { rqueue, wqueue, .. } = *connection;
    let Some(info) = connection.info else {
        return if rqueue > 0 { Activity::Busy } else { Activity::Ambiguous };
    };
    // How often something was sent again says nothing of the request.
    let TcpInfo {
        last_data_sent,
        last_data_recv,
        last_ack_recv,
        bytes_acked,
        bytes_received,
        notsent_bytes,
        timeouts: _,
    } = info;
    let never_answered = bytes_received > 0 && bytes_acked == 0 && wqueue == 0;
    if rqueue > 0 || notsent_bytes > 0 || last_data_recv < last_data_sent || never_answered {
        Activity::Busy
    } else if bytes_received == 0 {
        Activity::Fresh
    } else if last_data_sent < last_data_recv || wqueue > 0 || last_ack_recv < last_data_recv {
        Activity::Idle
    } else {
        Activity::Ambiguous
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::TcpState;

    /// Ages in milliseconds.
    struct Row {
        name: &'static str,
        rqueue: u32,
        wqueue: u32,
        notsent: u32,
        sent: u64,
        recv: u64,
        ack: u64,
        received: u64,
        acked: u64,
        expected: Activity,
    }

    /// A connection that answered its last request in an earlier jiffy than it came, response acknowledged.
    const ANSWERED: Row = Row {
        name: "answered last",
        rqueue: 0,
        wqueue: 0,
        notsent: 0,
        sent: 40,
        recv: 44,
        ack: 40,
        received: 100,
        acked: 200,
        expected: Activity::Idle,
    };

    fn connection(row: &Row) -> Connection {
        Connection {
            local: "10.0.0.2:8080".parse().unwrap(),
            peer: "10.0.0.1:50000".parse().unwrap(),
            state: TcpState::Established,
            inode: 7,
            cookie: 7,
            rqueue: row.rqueue,
            wqueue: row.wqueue,
            shut_for_reading: false,
            info: Some(TcpInfo {
                last_data_sent: Duration::from_millis(row.sent),
                last_data_recv: Duration::from_millis(row.recv),
                last_ack_recv: Duration::from_millis(row.ack),
                bytes_acked: row.acked,
                bytes_received: row.received,
                notsent_bytes: row.notsent,
                timeouts: 0,
            }),
        }
    }

    #[test]
    fn the_table_of_the_rule() {
        use Activity::{Ambiguous, Busy, Fresh, Idle};
        for row in [
            ANSWERED,
            Row { name: "unread request", rqueue: 1, expected: Busy, ..ANSWERED },
            Row { name: "response waits to be sent", notsent: 1, wqueue: 1, expected: Busy, ..ANSWERED },
            Row { name: "request came last", sent: 44, recv: 40, expected: Busy, ..ANSWERED },
            Row {
                name: "request came last, old response unacknowledged",
                sent: 44,
                recv: 40,
                wqueue: 9,
                expected: Busy,
                ..ANSWERED
            },
            Row { name: "first request, nothing answered", sent: 80, recv: 40, acked: 0, expected: Busy, ..ANSWERED },
            // Accepted and asked in the same jiffy: the ages tie although nothing was ever sent.
            Row {
                name: "first request in the jiffy of the handshake",
                sent: 40,
                recv: 40,
                acked: 0,
                expected: Busy,
                ..ANSWERED
            },
            Row {
                name: "the same, acknowledged later for another reason",
                sent: 40,
                recv: 40,
                ack: 0,
                acked: 0,
                expected: Busy,
                ..ANSWERED
            },
            Row { name: "fresh", sent: 9, recv: 9, ack: 9, received: 0, acked: 0, expected: Fresh, ..ANSWERED },
            Row {
                name: "fresh, but the pod spoke first",
                sent: 9,
                recv: 30,
                received: 0,
                acked: 20,
                expected: Fresh,
                ..ANSWERED
            },
            Row { name: "answered last, unacknowledged", wqueue: 200, ack: 44, expected: Idle, ..ANSWERED },
            Row {
                name: "first answer on its way",
                wqueue: 200,
                acked: 0,
                sent: 40,
                recv: 44,
                ack: 60,
                expected: Idle,
                ..ANSWERED
            },
            Row {
                name: "tie, response unacknowledged",
                sent: 40,
                recv: 40,
                ack: 40,
                wqueue: 200,
                expected: Idle,
                ..ANSWERED
            },
            Row { name: "tie, acknowledged later", sent: 40, recv: 40, ack: 36, expected: Idle, ..ANSWERED },
            // The client's next request in the jiffy of the last response looks just the same as no next request.
            Row {
                name: "tie, acknowledged in the same jiffy",
                sent: 40,
                recv: 40,
                ack: 40,
                expected: Ambiguous,
                ..ANSWERED
            },
            Row {
                name: "tie, last acknowledgement is older",
                sent: 40,
                recv: 40,
                ack: 44,
                expected: Ambiguous,
                ..ANSWERED
            },
            Row { name: "tie at age zero", sent: 0, recv: 0, ack: 0, expected: Ambiguous, ..ANSWERED },
            Row { name: "tie, next request unread", sent: 0, recv: 0, ack: 0, rqueue: 80, expected: Busy, ..ANSWERED },
        ] {
            assert_eq!(classify(&connection(&row)), row.expected, "{}", row.name);
        }
    }

    #[test]
    fn without_tcp_info_nothing_counts_as_idle() {
        let mut unknown = connection(&ANSWERED);
        unknown.info = None;
        assert_eq!(classify(&unknown), Activity::Ambiguous);
        unknown.rqueue = 1;
        assert_eq!(classify(&unknown), Activity::Busy);
    }
}
