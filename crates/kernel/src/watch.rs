//! Keeping an eye on a pod's connections without listing the whole node's each time, and in little memory.

mod gather;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::connection::listening_ports;
use crate::{Connection, KernelError, PodNetns, TcpCounters, Within};
use gather::Gather;

/// All connections are listed for at most this part of the time.
const LISTING_SHARE: u32 = 100;
/// The same of a crowd, which nothing but a list tells of ...
const CROWD_SHARE: u32 = 20;
/// ... but it is listed at least so often, however long that takes on a busy machine.
const OLDEST_CROWD: Duration = Duration::from_secs(5);
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
///
/// More than a given number are a crowd. None of them is kept, so a pod with 200,000 connections costs no more memory than
/// one with a few. They are listed for a twentieth of the time, every five seconds at least, and whenever half of them have
/// gone.
#[derive(Debug)]
pub struct ConnectionWatch {
    most: usize,
    /// Which connections from the pod itself count; `None`: none.
    within: Option<Within>,
    listed: Option<Listed>,
}

#[derive(Debug)]
struct Listed {
    /// Which they are; `None` for a crowd.
    known: Option<Vec<ConnectionKey>>,
    /// Right before.
    counters: TcpCounters,
    at: Instant,
    took: Duration,
    /// Another list is worth its time from then on.
    hurry: Option<Instant>,
}

/// What it takes to find a connection again.
#[derive(Debug, Clone, Copy)]
struct ConnectionKey {
    local: SocketAddr,
    peer: SocketAddr,
    cookie: u64,
}

impl From<&Connection> for ConnectionKey {
    fn from(connection: &Connection) -> Self {
        Self { local: connection.local, peer: connection.peer, cookie: connection.cookie }
    }
}

impl Listed {
    /// Whether there is something to learn from another list, and enough time has passed since.
    fn is_out_of_date(&self, counters: TcpCounters, now: Instant) -> bool {
        let age = now.duration_since(self.at);
        let Some(known) = &self.known else {
            // Each half costs one list more, so all of them together cost little.
            let has_halved = counters.curr_estab.saturating_mul(2) < self.counters.curr_estab;
            return has_halved
                || age >= OLDEST_CROWD.min(self.took * CROWD_SHARE)
                || self.hurry.is_some_and(|from| now >= from);
        };
        let is_wanted = self.counters.passive_opens != counters.passive_opens || age >= OLDEST;
        (is_wanted || known.len() > MOST_LOOKED_AT) && age >= self.took * LISTING_SHARE
    }
}

/// Among how many others a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Each of them is passed once at each look: what was seen of it before can be kept by its cookie.
    Few,
    /// Too many to keep anything of each. One can be passed twice.
    Crowd,
}

/// What a look was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Each connection was passed, as it is now.
    Counted {
        /// Whether these are all. If not, others have been opened since the last list: whoever waits for the last one to end
        /// has to look again.
        is_complete: bool,
    },
    /// It is a crowd, and too early to list it again: none was passed. What was counted last is not up to date, so it is never
    /// to be taken for all there is.
    TooEarly,
}

impl Default for ConnectionWatch {
    /// More than 4096 are a crowd.
    fn default() -> Self {
        Self::new(4096)
    }
}

impl ConnectionWatch {
    /// More than `most` are a crowd.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, within: None, listed: None }
    }

    /// More than `most` are a crowd from the next list on.
    pub const fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Connections from the pod itself count, too, where these say so.
    pub fn count_within(&mut self, within: Within) {
        self.within = Some(within);
        self.forget();
    }

    /// Begins anew with the next look.
    pub fn forget(&mut self) {
        self.listed = None;
    }

    /// There is something to learn from another list of a crowd, for instance because who watches it has changed it: it is made
    /// soon, for up to four fifths of the time.
    pub fn hurry(&mut self) {
        let now = Instant::now();
        if let Some(listed) = &mut self.listed {
            listed.hurry = Some(now + now.duration_since(listed.at) / 4);
        }
    }

    /// Looks now, and passes what counts to `each`; whether it is established or one side has closed it, its state tells. `each`
    /// must not ask the namespace anything. After an error, which says nothing about the connections, whatever was passed is to be
    /// forgotten; look again.
    pub fn look(&mut self, netns: &PodNetns, mut each: impl FnMut(&Connection, Among)) -> Result<Look, KernelError> {
        let counters = netns.counters()?;
        let now = Instant::now();
        let Some(listed) = self.listed.take().filter(|listed| !listed.is_out_of_date(counters, now)) else {
            self.listed = Some(list(netns, self.most, self.within.as_mut(), counters, now, &mut each)?);
            return Ok(Look::Counted { is_complete: true });
        };
        let is_complete = listed.counters.passive_opens == counters.passive_opens;
        let (look, known) = match &listed.known {
            Some(known) => (Look::Counted { is_complete }, Some(look_again(netns, known, &mut each)?)),
            None => (Look::TooEarly, None),
        };
        self.listed = Some(Listed { known, ..listed });
        Ok(look)
    }
}

fn list(
    netns: &PodNetns,
    most: usize,
    within: Option<&mut Within>,
    counters: TcpCounters,
    at: Instant,
    each: &mut dyn FnMut(&Connection, Among),
) -> Result<Listed, KernelError> {
    let (mut gather, mut asked) = (Gather::new(most, each), Vec::new());
    netns.ask(|sockets| {
        sockets.each_accepted(|connection| {
            if !connection.is_from_pod_itself() {
                gather.add(connection);
            } else if within.as_ref().is_some_and(|within| within.concerns(&connection)) {
                // What can't be looked at is never taken for nobody.
                if Within::is_full(&asked) { gather.add(connection) } else { asked.push(connection) }
            }
        })
    })?;
    if let Some(within) = within {
        within.of_siblings(netns, asked)?.into_iter().for_each(|connection| gather.add(connection));
    }
    let known = gather.end();
    Ok(Listed { known, counters, at, took: at.elapsed(), hurry: None })
}

/// Looks again at connections that are known, and at nothing else: about 5 µs each, where a new list passes over all sockets of
/// the node. Those that have ended are left out.
///
/// Complete only if no connection was opened meanwhile: as long as [`TcpCounters::passive_opens`] is what it was right before the
/// known ones were listed.
fn look_again(
    netns: &PodNetns,
    known: &[ConnectionKey],
    each: &mut dyn FnMut(&Connection, Among),
) -> Result<Vec<ConnectionKey>, KernelError> {
    netns.ask(|sockets| {
        let listening = listening_ports(&sockets.listeners()?);
        let mut left = Vec::with_capacity(known.len());
        for connection in known {
            let found = sockets.find(connection.local, connection.peer, Some(connection.cookie))?;
            if let Some(found) = found.filter(|found| found.is_open_to(&listening)) {
                left.push(*connection);
                each(&found, Among::Few);
            }
        }
        Ok(left)
    })
}
