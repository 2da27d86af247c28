//! A real Kubernetes of several nodes on one machine, for tests, the demo and the bench.
//!
//! Nothing is simulated: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and on every node containerd,
//! runc, kubelet and kube-proxy run as they would on separate machines. They are built from the pinned
//! Go modules in `modules/` and kept by version in `.cache/bin`. [`Options`] are the stacks that people have.
//!
//! # Where things live
//!
//! * The control plane and every node have a **network namespace** of their own (`hitless.<cluster>.cp`,
//!   `hitless.<cluster>.n1`, …) without a route out of the machine. Addresses are therefore the same in every cluster of the same [`IpFamily`].
//! * Every node also has a **mount namespace** of its own in which `/run`, `/var/log`, `/var/lib/kubelet` and
//!   `/var/lib/cni` are the node's: paths that agents and tools expect (`/run/containerd/containerd.sock`) are where
//!   they are on a real node, two nodes cannot meet in them, and all mounts are gone when the node's processes are.
//! * Every process of a cluster is in the **cgroup** `hitless/<cluster>` of the v2 hierarchy, so [`Cluster::down`] ends
//!   exactly what belongs to the cluster, also after a crash.
//! * Files are under `.cache/clusters/<cluster>` in the workspace.
//!
//! # Images
//!
//! Every cluster has a registry of its own, which stands for all others. Pulls of a repository can be made slow, refused, asked
//! for a login, cut in the middle or left without an answer, while the registry runs: [`Cluster::fault`]. The secret that a pod
//! needs for a login names the registry as the image does (`hitless.test`), wherever it is in truth.
//!
//! # Running a test inside
//!
//! A client of the API server or of a pod must be in one of the cluster's network namespaces. Either the whole test
//! process runs there (`nsenter --net=/run/netns/hitless.<cluster>.cp <test binary>`, which is what
//! `cargo xtask cluster exec` does), or single threads and child processes do: [`Cluster::in_network`] and
//! [`Cluster::command`].

mod address;
mod audit;
mod cgroup;
mod cluster;
mod control_plane;
mod down;
mod error;
mod flannel;
mod http;
pub mod image;
mod ip_family;
mod kubernetes;
mod moment;
mod named;
mod network;
mod node;
mod options;
mod packages;
mod part;
mod pki;
mod pod_network;
mod proxy;
mod registry;
mod requirements;
mod run;
mod runtime;
mod state;
mod tools;
mod workspace;

pub use audit::{Write, WriteCount, count_writes};
pub use cluster::{Cluster, UpOptions};
pub use error::{Error, Result};
pub use ip_family::IpFamily;
pub use kubernetes::Kubernetes;
pub use moment::parse_since;
pub use network::Place;
pub use options::Options;
pub use packages::{ensure_for_fuzzing, ensure_for_running as ensure_packages, program_of};
pub use pod_network::PodNetwork;
pub use proxy::Proxy;
pub use registry::{Fault, FaultGuard, Registry};
pub use requirements::{Missing, missing_requirements};
pub use runtime::Runtime;
pub use state::{DeadPart, Summary};
pub use tools::{Tools, helm};

/// Told what is going on, one line at a time. Called from several threads.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);
