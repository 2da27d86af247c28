//! Keeping an eye on a pod's connections without listing the whole node's each time.

use std::time::{Duration, Instant};

use crate::{Connections, KernelError, PodNetns};

/// All connections are listed for at most this part of the time.
const LISTING_SHARE: u32 = 100;
/// After so long they are listed in any case: a connection that was being made while the last list was read may have
/// been counted before and listed after.
const OLDEST: Duration = Duration::from_secs(1);
/// From here on a list is cheaper than to look at each.
const MOST_LOOKED_AT: usize = 2000;

/// The connections of one pod, as they change.
///
/// A list passes over all TCP sockets of the node: 0.2 ms on a small one, some 20 ms where others hold 200,000. So it is
/// made only when connections have been opened since the last one, and for no more than a hundredth of the time; else
/// the known ones are looked at again, at 5 µs each.
#[derive(Debug, Default)]
pub struct ConnectionWatch {
    listed: Option<Listed>,
}

#[derive(Debug)]
struct Listed {
    connections: Connections,
    /// `PassiveOpens` right before.
    opened: u64,
    at: Instant,
    took: Duration,
}

impl Listed {
    /// Whether enough time has passed since.
    fn allows_another(&self, now: Instant) -> bool {
        now.duration_since(self.at) >= self.took * LISTING_SHARE
    }

    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.at) >= OLDEST
    }

    fn is_long(&self) -> bool {
        self.connections.inbound.len() + self.connections.half_closed.len() > MOST_LOOKED_AT
    }
}

/// What was seen at a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look<'a> {
    /// The known connections, as they are now.
    pub connections: &'a Connections,
    /// Whether these are all. If not, others have been opened since the last list: whoever waits for the last one to
    /// end has to look again.
    pub is_complete: bool,
}

impl ConnectionWatch {
    /// Looks now. After an error, which says nothing about the connections, look again.
    pub fn look(&mut self, netns: &PodNetns) -> Result<Look<'_>, KernelError> {
        let opened = netns.counters()?.passive_opens;
        let now = Instant::now();
        let mut is_complete = true;
        let listed = match self.listed.take() {
            Some(known) => {
                let is_wanted = known.opened != opened || known.is_old(now) || known.is_long();
                if is_wanted && known.allows_another(now) {
                    list(netns, opened, now)?
                } else {
                    is_complete = known.opened == opened;
                    Listed { connections: netns.look_again(&known.connections)?, ..known }
                }
            }
            None => list(netns, opened, now)?,
        };
        let Listed { connections, .. } = self.listed.insert(listed);
        Ok(Look { connections, is_complete })
    }
}

fn list(netns: &PodNetns, opened: u64, at: Instant) -> Result<Listed, KernelError> {
    let connections = netns.connections()?;
    Ok(Listed { connections, opened, at, took: at.elapsed() })
}
