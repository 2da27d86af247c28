//! Where the kubelet keeps a pod's volumes, as a process of the node sees it. Nothing is read through the pod's own mounts: what is
//! there, a container may have arranged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::process::Process;
use crate::{Capability, KernelError, find_pod_pids};

/// So far up a process outside of the pod is looked for.
const ANCESTORS: usize = 16;
/// What `/proc/<pid>/root` and `/proc/<pid>/ns` of another user's process need.
const NEEDS: &[Capability] = &[Capability::SysPtrace];

/// The kubelet's directory of the pod, `…/pods/<uid>`, seen through the root of a process outside of the pod. `None`: no
/// container of the pod runs that has anything of it mounted.
///
/// The kubelet mounts files of that directory into every container (the termination message at least). From the mount it is known
/// which part of which file system they are, and the container's runtime outside knows that file system by a path.
pub fn pod_directory(proc_root: &Path, pod_uid: &str) -> Result<Option<PathBuf>, KernelError> {
    let wanted = format!("/pods/{pod_uid}/");
    for pid in find_pod_pids(proc_root, pod_uid)? {
        let Some(mounts) = mountinfo(proc_root, pid)? else { continue };
        let Some((device, directory)) = mounts.lines().filter_map(Mount::parse).find_map(|mount| {
            let end = mount.root.find(&wanted)? + wanted.len() - 1;
            Some((mount.device.to_owned(), mount.root[..end].to_owned()))
        }) else {
            continue;
        };
        let Some(outside) = outside(proc_root, pid)? else { continue };
        let Some(mounts) = mountinfo(proc_root, outside)? else { continue };
        let Some(path) = path_of(&mounts, &device, &directory) else { continue };
        let root = proc_root.join(outside.as_raw_pid().to_string()).join("root");
        return Ok(Some(root.join(path.trim_start_matches('/'))));
    }
    Ok(None)
}

/// The first ancestor in another mount namespace.
fn outside(proc_root: &Path, pid: Pid) -> Result<Option<Pid>, KernelError> {
    let namespace = |pid: Pid| {
        let path = proc_root.join(pid.as_raw_pid().to_string()).join("ns/mnt");
        fs::read_link(&path).map_err(|error| KernelError::of_call(format!("read {}", path.display()), error, NEEDS))
    };
    let (own, mut at) = (namespace(pid)?, pid);
    for _ in 0..ANCESTORS {
        let parent = ask(proc_root, at, "stat", Process::parent)?;
        let Some(parent) = parent else { return Ok(None) };
        if namespace(parent)? != own {
            return Ok(Some(parent));
        }
        at = parent;
    }
    Ok(None)
}

/// Where a directory of a file system is, by the mount that shows the least of it: others may have something mounted over it.
pub(crate) fn path_of(mounts: &str, device: &str, directory: &str) -> Option<String> {
    let shows = |mount: &Mount<'_>| {
        let root = mount.root.trim_end_matches('/');
        let is_below = directory.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        mount.device == device && is_below
    };
    let mount = mounts.lines().filter_map(Mount::parse).filter(shows).max_by_key(|mount| mount.root.len())?;
    let rest = directory.strip_prefix(mount.root.trim_end_matches('/'))?;
    Some(format!("{}{rest}", mount.point.trim_end_matches('/')))
}

/// A line of `mountinfo`.
struct Mount<'a> {
    device: &'a str,
    root: String,
    point: String,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(' ').skip(2);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self { device, root: unescaped(root), point: unescaped(point) })
    }
}

/// The kernel writes blanks, line ends and backslashes as three octal digits.
pub(crate) fn unescaped(text: &str) -> String {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

/// What a process's file of this name says.
fn ask<T>(
    proc_root: &Path,
    pid: Pid,
    name: &str,
    read: impl Fn(&Process) -> io::Result<Option<T>>,
) -> Result<Option<T>, KernelError> {
    let failed =
        |error| KernelError::of_call(format!("read {}/{}/{name}", proc_root.display(), pid.as_raw_pid()), error, NEEDS);
    let Some(process) = Process::open(proc_root, pid).map_err(failed)? else { return Ok(None) };
    read(&process).map_err(failed)
}

fn mountinfo(proc_root: &Path, pid: Pid) -> Result<Option<String>, KernelError> {
    ask(proc_root, pid, "mountinfo", |process| process.text("mountinfo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "8f1c2d3e-0a1b-4c5d-9e8f-001122334455";
    const OUTSIDE: &str = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
        30 21 8:1 /data/kubelet /var/lib/kubelet rw shared:1 - ext4 /dev/sda1 rw\n\
        31 21 0:40 / /run rw - tmpfs tmpfs rw\n";

    fn add(root: &Path, pid: u32, parent: u32, namespace: &str, cgroup: &str, mounts: &str) {
        let directory = root.join(pid.to_string());
        fs::create_dir_all(directory.join("ns")).unwrap();
        std::os::unix::fs::symlink(namespace, directory.join("ns/mnt")).unwrap();
        let stat = format!("{pid} (x) S {parent} 1 1 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 {pid} 222 3{}", " 0".repeat(28));
        for (name, content) in [("cgroup", cgroup.to_owned()), ("mountinfo", mounts.to_owned()), ("stat", stat)] {
            fs::write(directory.join(name), content).unwrap();
        }
    }

    #[test]
    fn the_directory_is_named_as_a_process_outside_sees_it() {
        let root = tempfile::tempdir().unwrap();
        let cgroup = format!("0::/kubepods/pod{UID}/abc\n");
        let log = format!(
            "90 80 8:1 /data/kubelet/pods/{UID}/containers/web/1 /dev/termination-log rw - ext4 /dev/sda1 rw\n"
        );
        add(root.path(), 7, 1, "mnt:[1]", "0::/system.slice\n", OUTSIDE);
        add(root.path(), 20, 7, "mnt:[2]", &cgroup, "80 1 0:50 / / ro - overlay overlay ro\n");
        assert_eq!(pod_directory(root.path(), UID).unwrap(), None, "the sandbox has nothing of it");
        add(root.path(), 21, 7, "mnt:[3]", &cgroup, &log);
        let wanted = root.path().join(format!("7/root/var/lib/kubelet/pods/{UID}"));
        assert_eq!(pod_directory(root.path(), UID).unwrap(), Some(wanted));
        assert_eq!(pod_directory(root.path(), "8f1c2d3e-0a1b-4c5d-9e8f-ffffffffffff").unwrap(), None);
    }

    #[test]
    fn the_mount_that_shows_the_least_counts_and_other_file_systems_do_not() {
        let path = |device: &str, directory: &str| path_of(OUTSIDE, device, directory);
        assert_eq!(path("8:1", "/data/kubelet/pods/1").as_deref(), Some("/var/lib/kubelet/pods/1"));
        assert_eq!(path("8:1", "/data/kubelet2/pods/1").as_deref(), Some("/data/kubelet2/pods/1"));
        assert_eq!(path("8:2", "/data/kubelet/pods/1"), None);
        assert_eq!(path("0:40", "/pods/1").as_deref(), Some("/run/pods/1"));
        assert_eq!(unescaped("/a\\040b\\134"), "/a b\\");
    }
}
