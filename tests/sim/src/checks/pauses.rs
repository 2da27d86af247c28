//! Pauses: no operation of a paused workload's pods begins.

use hitless_api::{Grant, GrantOp};

use super::Checks;
use crate::clock::{Micros, SECOND, stamp};
use crate::server::Server;

/// So much later everybody has seen a pause: caches and answers are late, a leader that was taken the Lease from does not know it, and
/// clocks are wrong by some seconds.
const SEEN: Micros = 60 * SECOND;

impl Checks {
    /// The workload with this uid is paused since then, or no more.
    pub(crate) fn paused(&mut self, uid: &str, since: Option<Micros>) {
        match since {
            Some(since) => _ = self.paused.insert(uid.to_owned(), since),
            None => _ = self.paused.remove(uid),
        }
    }

    /// This grant is about to be written for the first time. Pods that leave for good are not kept.
    pub(super) fn begins_under_pause(&mut self, server: &Server, grant: &Grant) {
        let since = grant.owner.as_ref().and_then(|owner| self.paused.get(&owner.uid)).copied();
        let is_late = since.is_some_and(|since| grant.granted.0 > stamp(since + SEEN));
        if is_late && grant.op != GrantOp::Drain {
            self.fail(server.now, format!("grant {} was given while its workload is paused", grant.id));
        }
    }
}
