//! When a request may be sent again without asking anybody.
//!
//! RFC 9112 §9.3.1 lets a client that finds its connection closed early open a new one and send its idempotent
//! requests again, and says that a failed automatic retry should not be retried automatically. We only send GET,
//! which is idempotent (RFC 9110 §9.2.2), and take a narrower reading that deployed clients share: the connection must
//! have carried an answer before, and no byte of this answer may have arrived. So a server that dies under a fresh
//! connection, or in the middle of an answer, or that does not answer in time, has failed its client.

use crate::FailureKind;

/// How one attempt ended without a usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What the client saw.
    pub kind: FailureKind,
    /// The connection had carried an answer before this request.
    pub reused: bool,
    /// At least one byte of the answer had arrived.
    pub answer_begun: bool,
}

impl Broken {
    /// Whether the request may be sent once more on a new connection. A retry is on a fresh connection and so never
    /// leads to another.
    #[must_use]
    pub fn may_be_retried(self) -> bool {
        let closed = matches!(self.kind, FailureKind::Reset | FailureKind::Eof);
        closed && self.reused && !self.answer_begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unanswered_request_on_a_reused_closed_connection_is_retried() {
        for kind in FailureKind::ALL {
            for (reused, answer_begun) in [(false, false), (false, true), (true, false), (true, true)] {
                let wanted = reused && !answer_begun && (kind == FailureKind::Reset || kind == FailureKind::Eof);
                assert_eq!(Broken { kind, reused, answer_begun }.may_be_retried(), wanted, "{kind:?}");
            }
        }
    }
}
