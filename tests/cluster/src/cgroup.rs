//! The cgroups of a cluster: `hitless/<cluster>` in every hierarchy of the machine.
//!
//! All processes of a cluster are in the v2 hierarchy's: its own parts are put there when they start, and what they
//! start inherits it. (Where the controllers are still v1, runc leaves containers where they are in v2; where they are
//! v2, the kubelet's root is in the same subtree.) So this says without doubt what belongs to a cluster.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Error, Result};

/// The containers of all clusters together get this many times the processor time of a session that wants it, too. Without, they get as
/// much as one, and what is built or computed beside a test keeps them from starting within the time for which clients are held.
const PREFERENCE: u32 = 10;
/// Where shares of processor time are written, and what anybody has without.
const SHARES: [(&str, u32); 2] = [("cpu.shares", 1024), ("cpu.weight", 100)];

/// The hierarchies of this machine.
pub(crate) struct Hierarchies {
    v2: PathBuf,
    v1: Vec<PathBuf>,
}

impl Hierarchies {
    /// Finds them.
    pub(crate) fn find() -> Result<Self> {
        let path = "/proc/self/mountinfo";
        let mounts = fs::read_to_string(path).map_err(Error::file("read", path))?;
        Self::from_mountinfo(&mounts).ok_or_else(|| {
            Error::Requirement(
                "no cgroup v2 hierarchy is mounted; a cluster needs one, at /sys/fs/cgroup or /sys/fs/cgroup/unified"
                    .into(),
            )
        })
    }

    fn from_mountinfo(mounts: &str) -> Option<Self> {
        let (mut v2, mut v1) = (None, Vec::new());
        for line in mounts.lines() {
            let Some((mount, filesystem)) = line.split_once(" - ") else { continue };
            let Some(point) = mount.split(' ').nth(4).map(PathBuf::from) else { continue };
            match filesystem.split(' ').next() {
                Some("cgroup2") => v2 = v2.or(Some(point)),
                Some("cgroup") => v1.push(point),
                _ => {}
            }
        }
        Some(Self { v2: v2?, v1 })
    }

    /// Where the cluster's own processes are put.
    pub(crate) fn parts(&self, cluster: &str) -> PathBuf {
        self.v2.join("hitless").join(cluster).join("parts")
    }

    /// Makes the cgroups of a cluster.
    pub(crate) fn make(&self, cluster: &str, nodes: u8) -> Result<()> {
        create(&self.parts(cluster))?;
        for index in 1..=nodes {
            let path = format!("hitless/{cluster}/n{index}");
            for root in &self.v1 {
                make_v1(root, &path)?;
            }
            make_v2(&self.v2, &path, self.v1.is_empty())?;
        }
        self.v1.iter().chain([&self.v2]).try_for_each(|root| prefer(&root.join("hitless")))
    }

    /// Every process in a cluster's cgroups.
    pub(crate) fn processes(&self, cluster: &str) -> Vec<i32> {
        let mut pids: Vec<i32> = self.roots(cluster).iter().flat_map(|root| subtree(root)).flat_map(members).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// The cluster's cgroups that exist, one in each hierarchy.
    pub(crate) fn roots(&self, cluster: &str) -> Vec<PathBuf> {
        let all = std::iter::once(&self.v2).chain(&self.v1);
        all.map(|root| root.join("hitless").join(cluster)).filter(|path| path.is_dir()).collect()
    }

    /// Ends every process of a cluster at once and waits until they are gone.
    pub(crate) fn kill(&self, cluster: &str, limit: Duration) -> Result<()> {
        let root = self.v2.join("hitless").join(cluster);
        let all_at_once = root.join("cgroup.kill");
        if all_at_once.exists() {
            fs::write(&all_at_once, "1").map_err(Error::file("write", all_at_once))?;
        }
        let deadline = Instant::now() + limit;
        loop {
            // What is left is in a v1 cgroup only, or the kernel is older than cgroup.kill (5.14).
            let left = self.processes(cluster);
            if left.is_empty() {
                return Ok(());
            }
            for pid in &left {
                // It may have ended by itself meanwhile.
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
            if Instant::now() >= deadline {
                let what = format!("the end of the processes {left:?} of cluster {cluster:?}");
                return Err(Error::Timeout { what, seconds: limit.as_secs(), last: String::new() });
            }
            wait_until_empty(&root, Duration::from_millis(200))?;
        }
    }

    /// Removes the cgroups of a cluster, which must be empty of processes.
    pub(crate) fn remove(&self, cluster: &str) -> Result<()> {
        for root in self.roots(cluster) {
            for path in subtree(&root) {
                remove(&path)?;
            }
            // The parent goes with the last cluster; it is not empty before.
            if let Some(parent) = root.parent() {
                let _ = fs::remove_dir(parent);
            }
        }
        Ok(())
    }
}

/// Waits for the kernel's word that no process is left below, at most so long.
fn wait_until_empty(root: &Path, limit: Duration) -> Result<()> {
    let path = root.join("cgroup.events");
    let Ok(mut events) = File::open(&path) else { return Ok(()) };
    let mut text = String::new();
    events.read_to_string(&mut text).map_err(Error::file("read", &path))?;
    if text.contains("populated 0") {
        return Ok(());
    }
    events.rewind().map_err(Error::file("read", &path))?;
    let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
    let mut watched = [PollFd::new(events.as_fd(), PollFlags::POLLPRI)];
    poll(&mut watched, timeout).map_err(|errno| Error::File { action: "watch", path, source: errno.into() })?;
    Ok(())
}

/// A directory and all below it, deepest first.
fn subtree(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(subtree(&entry.path()));
        }
    }
    found.push(root.to_path_buf());
    found
}

/// The processes of one cgroup.
pub(crate) fn members(cgroup: impl AsRef<Path>) -> Vec<i32> {
    let text = fs::read_to_string(cgroup.as_ref().join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// A cgroup whose processes have just ended may be busy for a moment longer; nothing tells when it no longer is.
fn remove(path: &Path) -> Result<()> {
    crate::run::until(&format!("removal of {}", path.display()), Duration::from_secs(5), || {
        match fs::remove_dir(path) {
            Ok(()) => Ok(Ok(())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ok(())),
            Err(error) => Ok(Err(error.to_string())),
        }
    })
}

fn create(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::file("create", path))
}

/// Makes a v1 cgroup level by level: in `cpuset` a new one has no CPUs, and its children cannot get any either.
fn make_v1(root: &Path, path: &str) -> Result<()> {
    let mut parent = root.to_path_buf();
    for name in path.split('/') {
        let child = parent.join(name);
        create(&child)?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (from, to) = (parent.join(file), child.join(file));
            if from.exists() {
                let value = fs::read_to_string(&from).map_err(Error::file("read", from))?;
                fs::write(&to, value.trim()).map_err(Error::file("write", to))?;
            }
        }
        parent = child;
    }
    Ok(())
}

/// Prefers what is in a cgroup, if its hierarchy is the one that shares processor time.
fn prefer(cgroup: &Path) -> Result<()> {
    for (file, usual) in SHARES {
        let path = cgroup.join(file);
        if path.exists() {
            fs::write(&path, (usual * PREFERENCE).to_string()).map_err(Error::file("write", path))?;
        }
    }
    Ok(())
}

/// Makes a v2 cgroup, and hands all controllers down to it where v2 has them.
fn make_v2(root: &Path, path: &str, controllers: bool) -> Result<()> {
    create(&root.join(path))?;
    if !controllers {
        return Ok(());
    }
    let mut level = root.to_path_buf();
    for name in path.split('/') {
        let offered = fs::read_to_string(level.join("cgroup.controllers")).unwrap_or_default();
        let switch = level.join("cgroup.subtree_control");
        for controller in offered.split_whitespace() {
            fs::write(&switch, format!("+{controller}")).map_err(Error::file("write", &switch))?;
        }
        level = level.join(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine_has_its_v2_hierarchy_beside_the_v1_ones() {
        let mounts = "30 20 0:26 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw\n\
                      31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 30 0:28 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let found = Hierarchies::from_mountinfo(mounts).unwrap();
        assert_eq!(found.parts("a"), Path::new("/sys/fs/cgroup/unified/hitless/a/parts"));
        assert_eq!(found.v1, [PathBuf::from("/sys/fs/cgroup/cpu")]);
    }

    #[test]
    fn containers_are_preferred_where_processor_time_is_shared() {
        let directory = tempfile::tempdir().unwrap();
        prefer(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "another hierarchy");
        for (file, usual) in SHARES {
            let path = directory.path().join(file);
            fs::write(&path, usual.to_string()).unwrap();
            prefer(directory.path()).unwrap();
            assert_eq!(fs::read_to_string(path).unwrap().parse::<u32>().unwrap(), usual * PREFERENCE);
        }
    }

    #[test]
    fn a_machine_without_v2_is_refused() {
        assert!(Hierarchies::from_mountinfo("31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n").is_none());
    }
}
