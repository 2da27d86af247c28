//! What the node agent needs from the Linux kernel, as small safe calls: find a pod's processes and network namespace
//! without the container runtime, count its connections, tell busy ones from idle ones, close idle ones kindly, hold new
//! ones while its process is replaced, and see a container's first process end and its successor listen.
//!
//! Every call here blocks for microseconds to milliseconds; none is async and none changes the namespace of the calling
//! thread. From an async task call them on a blocking thread, except [`PodNetns::counters`], which is one `pread`.
//!
//! An answer that could not be had is an error, never zero: a count that failed must not look like "drained".
//!
//! # Which call needs which capability
//!
//! | Call | Capability | Why |
//! |---|---|---|
//! | [`find_pod_pids`], [`find_container_pids`], [`pod_uids_of`], [`ProcessExit`] | none | world-readable files of `/proc`, `pidfd_open` |
//! | [`PodNetns::open`], [`NodeSockets::open`] | `CAP_SYS_PTRACE` | open `/proc/<pid>/ns/net` of another user's process |
//! | [`PodNetns::sockets`], [`PodNetns::destroy_events`], and the first question to sockets | `CAP_SYS_ADMIN` | `setns` |
//! | [`pod_directory`] | `CAP_SYS_PTRACE` | `/proc/<pid>/root` and `/proc/<pid>/ns/mnt` of another user's process |
//! | [`PodNetns::counters`], [`PodNetns::udp_counters`], [`SockDiag`] once open | none | |
//! | [`close_idle`], [`close_unused`], [`close_unused_if`], [`PodNetns::listeners_of`], [`exposure()`] | `CAP_SYS_PTRACE`, `CAP_DAC_READ_SEARCH` | `pidfd_getfd`, list `/proc/<pid>/fd` |
//! | [`PodNetns::destroy`] | `CAP_NET_ADMIN` | `SOCK_DESTROY` |
//! | [`SynHold::open`] | `CAP_SYS_ADMIN`, `CAP_NET_RAW`, `CAP_NET_ADMIN` | `setns`, packet and raw sockets and their buffers |
//! | [`exec::execute`] | `CAP_SYS_ADMIN`, `CAP_SYS_PTRACE`, `CAP_SYS_CHROOT`, `CAP_SETUID`, `CAP_SETGID`, `CAP_SETPCAP`, `CAP_KILL` | `setns` with mounts, become the container's user, give everything up, end what hangs |
//! | [`SynHold`], [`sweep_holds`], [`list_holds`] | `CAP_NET_ADMIN` | nf_tables |
//!
//! All of them need the host's process namespace (`hostPID`). [`check_capabilities`] asks beforehand.

mod capability;
mod classify;
mod close;
mod connection;
mod counters;
mod destroy_events;
mod error;
pub mod exec;
mod exit;
mod exposure;
#[doc(hidden)]
pub mod fuzz;
mod hold;
mod listen;
mod netns;
mod nfnetlink;
mod node;
mod pod;
mod process;
mod sock_diag;
mod volumes;
mod watch;
mod within;

pub use capability::{Capability, MissingCapability, check_capabilities};
pub use classify::{Activity, classify};
pub use close::{ClosedReport, close_idle, close_unused, close_unused_if, is_between_requests};
pub use connection::{Connection, Connections, Listener, TcpInfo, TcpState};
pub use counters::{ResetCounters, TcpCounters, UdpCounters};
pub use destroy_events::DestroyEvents;
pub use error::KernelError;
pub use exit::ProcessExit;
pub use exposure::{Exposure, exposure};
pub use hold::{Held, HoldSpec, Released, SynHold, list_holds, sweep_holds};
pub use listen::{ListenWatch, Pending};
pub use netns::{DestroyOutcome, NetnsId, PodNetns};
pub use node::{NodeSockets, Origin};
pub use pod::{find_container_pids, find_pod_pids, pod_uids_of};
pub use rustix::process::Pid;
pub use sock_diag::{DumpError, SockDiag};
pub use volumes::pod_directory;
pub use watch::{Among, ConnectionWatch, Look};
pub use within::Within;
