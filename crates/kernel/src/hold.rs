//! Holding new connections of a pod while its process is replaced, so that clients notice a pause and nothing else.
//!
//! SYNs to the pod's ports are dropped inside its namespace and remembered; when the new process listens, the newest of
//! each client is sent once more. Everything happens in the pod's own namespace: neither the network plug-in nor
//! address translation on the way takes part. Connections that are open are not touched.
//!
//! All of it ends by itself. The block has its timers in the kernel, and sees there when the new process listens; without the agent
//! it degrades to dropped SYNs, which clients repeat after a second.

pub(crate) mod block;
pub(crate) mod frame;
pub(crate) mod held_syns;
mod replay;
mod rules;
mod tap;

use std::collections::BTreeSet;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use crate::nfnetlink::Nfnetlink;
use crate::{Capability, DumpError, KernelError, PodNetns, SockDiag};
use block::{Block, Rules};
use held_syns::HeldSyns;
use replay::{Replay, replay};
use tap::{MOST_PORTS, Tap};

const NEEDS: &[Capability] = &[Capability::NetAdmin, Capability::NetRaw];

/// What to hold, and for how long at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldSpec {
    /// TCP ports, as packets carry them when they reach the pod's sockets.
    pub ports: Vec<u16>,
    /// No client is held for longer: counted from the first SYN held, by a timer of the kernel. Whole milliseconds.
    pub cap: Duration,
    /// When the block ends even if no client has come. Whole milliseconds.
    pub expires_after: Duration,
    /// Unless it is [renewed](SynHold::renew) within this time, the hold lets clients in by itself where a new process listens, and
    /// as long as it is not settled to the old one. Kernels without `nft_socket` hold until the cap.
    pub lease: Duration,
    /// Whether the old process is about to end, and is to get no client in any case.
    pub is_settled: bool,
    /// Sources that are let through. An address of the node is also the address of every client whose packets the node
    /// translates (masquerade): exempt it only where that does not happen, or those clients are refused.
    pub exempt: Vec<IpAddr>,
}

/// How a hold stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// How long ago the first SYN was held, to within two ticks of the kernel's clock (20 ms at most).
    pub since: Duration,
    /// Clients waiting, up to 16,384; each once, however often it repeats its SYN.
    pub clients: usize,
}

/// How a hold ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Released {
    /// Clients whose SYN was sent once more.
    pub replayed: usize,
    /// Clients who were left to repeat their SYN themselves: nobody listens on their port, or they were too many.
    pub left: usize,
    /// How long the client that came first was held, as exactly as [`Held::since`]; `None` when nobody came.
    pub longest: Option<Duration>,
    /// The kernel's timer was quicker: connections have been let in since the cap.
    pub expired: bool,
}

/// New connections of one pod, held or about to be.
///
/// Open it early and [`begin`](Self::begin) when it matters. As a file descriptor (tokio's `AsyncFd`) it is readable while
/// there are SYNs to [`collect`](Self::collect). Calls take some ten microseconds, except `open` and `drop`
/// (milliseconds) and [`release`](Self::release) (about 17 µs a client; half a second more at most when the application
/// is slow to accept): these belong on a blocking thread.
///
/// Dropping it lifts the block without replay. If the process dies, the timers do.
#[derive(Debug)]
pub struct SynHold {
    tap: Tap,
    block: Block,
    replay: Replay,
    sockets: SockDiag,
    snmp: File,
    syns: HeldSyns,
    /// What is held now, if anything.
    spec: Option<HoldSpec>,
}

impl SynHold {
    /// Opens everything that a hold needs in the pod's namespace. Nothing is held yet.
    pub fn open(netns: &PodNetns) -> Result<Self, KernelError> {
        let snmp = netns.snmp()?;
        netns.inside("open the sockets of a hold", move || {
            let failed = |what: &'static str| move |error| KernelError::of_call(what, error, NEEDS);
            Ok(Self {
                tap: Tap::open().map_err(failed("open a packet socket"))?,
                block: Block::new(Nfnetlink::open().map_err(failed("open a socket to the packet filter"))?),
                replay: Replay::open().map_err(failed("open a raw socket"))?,
                sockets: SockDiag::open().map_err(DumpError::Socket)?,
                snmp,
                syns: HeldSyns::default(),
                spec: None,
            })
        })
    }

    /// Begins to hold new connections. From here on the kernel's timers run; asked again, the new spec replaces the
    /// former one, with new timers, and those who wait go on waiting.
    ///
    /// When it fails nothing is held.
    pub fn begin(&mut self, mut spec: HoldSpec) -> Result<(), KernelError> {
        spec.ports.sort_unstable();
        spec.ports.dedup();
        let is_millisecond = |duration: Duration| duration.as_millis() > 0;
        if spec.ports.is_empty()
            || spec.ports.len() > MOST_PORTS
            || !is_millisecond(spec.cap)
            || !is_millisecond(spec.expires_after)
            || !is_millisecond(spec.lease)
        {
            return Err(KernelError::HoldSpec { ports: spec.ports.len() });
        }
        // First the ears: a SYN that is dropped unseen makes its client wait a second.
        let begun = self
            .tap
            .listen(&spec.ports)
            .map_err(|error| KernelError::of_call("filter a packet socket", error, NEEDS))
            .and_then(|()| self.install(&spec));
        match begun {
            Ok(()) => {
                self.spec = Some(spec);
                Ok(())
            }
            Err(error) => {
                // What failed first is what matters.
                _ = self.lift();
                _ = self.tap.mute();
                self.syns.take();
                Err(error)
            }
        }
    }

    /// Begins the lease anew. `false`: it was over, and clients may have been let in. Those who wait for a process that listens are
    /// left to their own repetition then: to replay who has been served would puzzle that process.
    pub fn renew(&mut self) -> Result<bool, KernelError> {
        self.renew_with(false)
    }

    /// The same, and from now on the old process is about to end.
    pub fn settle(&mut self) -> Result<bool, KernelError> {
        self.renew_with(true)
    }

    fn renew_with(&mut self, settle: bool) -> Result<bool, KernelError> {
        let failed = |error| KernelError::of_call("renew a block (nf_tables)", error, NEEDS);
        let is_kept = self.block.renew(settle).map_err(failed)?;
        if !is_kept {
            self.collect()?;
            let listeners = self.sockets.listeners()?;
            self.syns.leave(|flow| listeners.iter().any(|listener| listener.accepts(flow.server)));
        }
        Ok(is_kept)
    }

    /// Takes what has been held since the last time out of the kernel's buffer, which has room for some two thousand SYNs
    /// of each address family: what does not fit there is held, but not counted and not replayed. Answers with the number
    /// of clients waiting.
    pub fn collect(&mut self) -> Result<usize, KernelError> {
        let Self { tap, syns, spec, .. } = self;
        let exempt = spec.as_ref().map_or(&[][..], |spec| &spec.exempt);
        let add = |syn: frame::Syn| {
            if !exempt.contains(&syn.flow.client.ip()) {
                syns.add(syn);
            }
        };
        tap.collect(add).map_err(|error| KernelError::of_call("read a packet socket", error, &[]))?;
        Ok(syns.len())
    }

    /// Ports on which clients wait, as far as they have been [collected](Self::collect).
    #[must_use]
    pub fn awaited(&self) -> BTreeSet<u16> {
        self.syns.ports()
    }

    /// Whether anybody is held, and since when by the kernel's clock; `None` when not, or no hold has begun.
    pub fn held(&mut self) -> Result<Option<Held>, KernelError> {
        let clients = self.collect()?;
        let since = self.started()?;
        Ok(since.map(|since| Held { since, clients }))
    }

    /// Lets new connections in and replays those who wait, in the order of their arrival, as fast as the listeners can
    /// take them. Without a block it does nothing.
    ///
    /// After an error the block is gone, or goes by its timer; who has not been replayed gets in by its own repetition.
    /// It may be asked again.
    pub fn release(&mut self) -> Result<Released, KernelError> {
        let Some(cap) = self.spec.as_ref().map(|spec| spec.cap) else { return Ok(Released::default()) };
        let longest = self.started();
        self.lift()?;
        let longest = longest?;
        // What the filter dropped on another processor just now reaches the tap a moment later; so the tap is read
        // twice, the second time when nothing more comes in, our own repetitions included.
        self.collect()?;
        self.tap.close().map_err(|error| KernelError::of_call("close a packet socket", error, NEEDS))?;
        self.collect()?;
        self.spec = None;
        let (syns, overflow) = self.syns.take();
        let replayed = replay(&self.replay, &syns, &mut self.sockets, &self.snmp)?;
        Ok(Released {
            replayed: replayed.replayed,
            left: replayed.left + overflow,
            longest,
            expired: longest.is_some_and(|longest| longest >= cap),
        })
    }

    fn install(&mut self, spec: &HoldSpec) -> Result<(), KernelError> {
        let HoldSpec { ports, cap, expires_after, lease, is_settled, exempt } = spec;
        let (cap, expires_after, lease, is_settled) = (*cap, *expires_after, *lease, *is_settled);
        let rules = Rules { ports, cap, expires_after, lease, is_settled, exempt };
        let action = "block new connections (nf_tables)";
        self.block.install(&rules).map_err(|error| KernelError::of_call(action, error, NEEDS))
    }

    fn lift(&mut self) -> Result<bool, KernelError> {
        self.block.lift().map_err(|error| KernelError::of_call("let new connections in (nf_tables)", error, NEEDS))
    }

    fn started(&mut self) -> Result<Option<Duration>, KernelError> {
        self.block.started().map_err(|error| KernelError::of_call("read a timer of nf_tables", error, NEEDS))
    }
}

impl Drop for SynHold {
    fn drop(&mut self) {
        if self.spec.is_some() {
            // If it fails the timer does it.
            _ = self.lift();
        }
    }
}

impl AsFd for SynHold {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}

impl AsRawFd for SynHold {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Names of the blocks in the pod's namespace, whoever made them.
pub fn list_holds(netns: &PodNetns) -> Result<Vec<String>, KernelError> {
    block::names(&mut packet_filter(netns)?)
        .map_err(|error| KernelError::of_call("list the tables of nf_tables", error, NEEDS))
}

/// Removes all blocks from the pod's namespace and says which there were. For an agent that starts: what it finds is an
/// earlier agent's. Its own holds would go, too.
pub fn sweep_holds(netns: &PodNetns) -> Result<Vec<String>, KernelError> {
    let mut nft = packet_filter(netns)?;
    let failed = |error| KernelError::of_call("remove a table of nf_tables", error, NEEDS);
    let names = block::names(&mut nft).map_err(failed)?;
    for name in &names {
        block::delete(&mut nft, name).map_err(failed)?;
    }
    Ok(names)
}

fn packet_filter(netns: &PodNetns) -> Result<Nfnetlink, KernelError> {
    netns.inside("open a socket to the packet filter", || {
        Nfnetlink::open().map_err(|error| KernelError::of_call("open a socket to the packet filter", error, NEEDS))
    })
}
