//! Which processes belong to a pod, told by the names the kubelet gives to control groups. No container runtime is asked.

use std::path::Path;

use rustix::process::Pid;

use crate::KernelError;
use crate::process::Process;

/// Processes of the pod with this uid, the longest-running first: that one is the sandbox, where the runtime keeps one.
///
/// `proc_root` is the `/proc` of the node's process namespace. The kubelet names a pod's control group `pod<uid>`
/// (cgroupfs driver) or `…-pod<uid with _ for ->.slice` (systemd driver), in both versions of control groups. Of several such
/// names in a path the outermost counts: a container with writable control groups names those below its own as it likes.
/// An empty list means: no process seen.
pub fn find_pod_pids(proc_root: &Path, pod_uid: &str) -> Result<Vec<Pid>, KernelError> {
    let group = PodGroup::new(proc_root, pod_uid)?;
    find(proc_root, |cgroups| group.holds(cgroups))
}

/// Processes of one container of the pod, the first process of the container first. `container_id` may carry the
/// runtime's prefix as in the pod's status (`containerd://…`).
pub fn find_container_pids(proc_root: &Path, pod_uid: &str, container_id: &str) -> Result<Vec<Pid>, KernelError> {
    let group = PodGroup::new(proc_root, pod_uid)?;
    let id = checked_id(bare_container_id(container_id))?;
    find(proc_root, |cgroups| group.holds_of_container(cgroups, id))
}

/// uids of the pods whose control groups this process is in, the outermost first; `None` when there is no such process.
///
/// Empty means that it is in no pod: a process of the node. More than one is seen where a whole node runs in a pod. The uid of a
/// static pod is the one of its manifest, which its mirror pod carries in an annotation.
pub fn pod_uids_of(proc_root: &Path, pid: Pid) -> Result<Option<Vec<String>>, KernelError> {
    let failed =
        |error| KernelError::of_call(format!("read {}/{}/cgroup", proc_root.display(), pid.as_raw_pid()), error, &[]);
    let Some(process) = Process::open(proc_root, pid).map_err(failed)? else { return Ok(None) };
    let Some(cgroups) = process.cgroups().map_err(failed)? else { return Ok(None) };
    Ok(Some(pod_uids_in(&cgroups)))
}

/// uids of the pods that the paths name, the outermost first.
pub(crate) fn pod_uids_in(cgroups: &str) -> Vec<String> {
    let mut uids = Vec::new();
    for uid in cgroups.lines().flat_map(components).filter_map(pod_uid_in) {
        if !uids.contains(&uid) {
            uids.push(uid);
        }
    }
    uids
}

/// The pieces of a line that may be a pod's name: those of the path. Where the runtime has put several names into one, they are
/// parted by colons.
fn components(cgroup_line: &str) -> impl Iterator<Item = &str> {
    cgroup_line.split(['/', ':'])
}

/// The uid in one component of a control group's path, in either spelling; `None` where it names no pod.
fn pod_uid_in(component: &str) -> Option<String> {
    let name = component.strip_suffix(".slice").unwrap_or(component);
    let (before, uid) = name.rsplit_once("pod")?;
    // A uid has 36 characters, the hash that a static pod has instead 32. `kubepods` has none.
    let is_uid = (32..=36).contains(&uid.len())
        && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
    (is_uid && (before.is_empty() || before.ends_with('-'))).then(|| uid.replace('_', "-"))
}

/// The id without the runtime's prefix.
pub(crate) fn bare_container_id(container_id: &str) -> &str {
    container_id.rsplit_once("://").map_or(container_id, |(_, id)| id)
}

fn find(proc_root: &Path, belongs: impl Fn(&str) -> bool) -> Result<Vec<Pid>, KernelError> {
    let failed = |what: String| move |error| KernelError::of_call(what, error, &[]);
    let list = || failed(format!("list {}", proc_root.display()));
    let mut found = Vec::new();
    for process in Process::all(proc_root).map_err(list())? {
        let process = process.map_err(list())?;
        let Some(pid) = process.pid() else { continue };
        let start = || {
            if process.cgroups()?.is_some_and(|cgroups| belongs(&cgroups)) { process.start_ticks() } else { Ok(None) }
        };
        if let Some(start) = start().map_err(failed(format!("read {}/{}", proc_root.display(), pid.as_raw_pid())))? {
            found.push((start, pid));
        }
    }
    found.sort_unstable_by_key(|&(start, pid)| (start, pid.as_raw_pid()));
    Ok(found.into_iter().map(|(_, pid)| pid).collect())
}

/// A pod, as control groups name it.
pub(crate) struct PodGroup {
    /// The two spellings of its own group.
    names: [String; 2],
    /// uids of the pods that the whole node runs in, as the paths of all of its processes may name them.
    around: Vec<String>,
}

impl PodGroup {
    fn new(proc_root: &Path, pod_uid: &str) -> Result<Self, KernelError> {
        let around = pod_uids_of(proc_root, Pid::INIT)?.unwrap_or_default();
        Self::of(pod_uid, around)
    }

    /// `around`: the pods that the node runs in.
    pub(crate) fn of(pod_uid: &str, around: Vec<String>) -> Result<Self, KernelError> {
        let uid = checked_id(pod_uid)?;
        Ok(Self { names: [format!("pod{uid}"), format!("pod{}", uid.replace('-', "_"))], around })
    }

    /// Whether a process with these control groups is the pod's: it is in the pod's group, and in no other pod's. Where the
    /// versions are used beside each other, a container may have made a group of any name at the top of the one that is not its
    /// runtime's. Who is told to be in two pods is in none.
    pub(crate) fn holds(&self, cgroups: &str) -> bool {
        let mut named = cgroups.lines().filter_map(|line| self.outermost(line)).peekable();
        named.peek().is_some() && named.all(|name| self.is_name(name))
    }

    /// Whether a process with these control groups is this container's of the pod.
    pub(crate) fn holds_of_container(&self, cgroups: &str, id: &str) -> bool {
        self.holds(cgroups) && cgroups.lines().any(|line| self.is_named_in(line) && is_container(line, id))
    }

    fn is_named_in(&self, cgroup_line: &str) -> bool {
        self.outermost(cgroup_line).is_some_and(|name| self.is_name(name))
    }

    /// The first component that is a pod's group, but for those that the node itself is in.
    fn outermost<'a>(&self, cgroup_line: &'a str) -> Option<&'a str> {
        components(cgroup_line).find(|name| {
            self.is_name(name) || pod_uid_in(name).is_some_and(|uid| self.around.iter().all(|around| *around != uid))
        })
    }

    /// `pod<uid>`, or `…-pod<uid>.slice`.
    fn is_name(&self, component: &str) -> bool {
        let bare = component.strip_suffix(".slice").unwrap_or(component);
        self.names.iter().any(|name| {
            bare.strip_suffix(name.as_str()).is_some_and(|before| before.is_empty() || before.ends_with('-'))
        })
    }
}

/// Whether the line names this container. CRI-O keeps its monitor beside the container in a group `crio-conmon-<id>`;
/// that process outlives the container and is none of its processes.
fn is_container(cgroup_line: &str, id: &str) -> bool {
    contains_name(cgroup_line, id) && !cgroup_line.contains("conmon")
}

/// Whether `name` stands in `text` as a whole word, so that the uid `1` is not found in the group of the uid `12`.
fn contains_name(text: &str, name: &str) -> bool {
    let is_part_of_id = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part_of_id) && !after.is_some_and(|c| is_part_of_id(c) || c == '-')
    })
}

/// Ids come from the API and are compared with file names: anything but an id is refused.
fn checked_id(id: &str) -> Result<&str, KernelError> {
    let is_id = (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_id { Ok(id) } else { Err(KernelError::InvalidId(id.chars().take(128).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "8f1c2d3e-0a1b-4c5d-9e8f-001122334455";
    const ID: &str = "f00dfeed0123456789abcdef";

    fn add(root: &Path, pid: u32, start: u64, cgroup: &str) {
        let directory = root.join(pid.to_string());
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("cgroup"), cgroup).unwrap();
        let stat_line = format!("{pid} (x) S 1 1 1 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 {start} 222 3{}", " 0".repeat(28));
        std::fs::write(directory.join("stat"), stat_line).unwrap();
    }

    fn raw(pids: &[Pid]) -> Vec<i32> {
        pids.iter().map(|pid| pid.as_raw_pid()).collect()
    }

    #[test]
    fn every_spelling_of_a_pods_cgroup_is_recognised() {
        let group = PodGroup::new(Path::new("/nowhere"), UID).unwrap();
        let underscored = UID.replace('-', "_");
        for path in [
            format!("0::/kubepods/burstable/pod{UID}/{ID}"),
            format!("4:memory:/kubepods/pod{UID}"),
            format!(
                "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{underscored}.slice/cri-containerd-{ID}.scope"
            ),
            format!("1:name=systemd:/kubepods.slice/kubepods-pod{underscored}.slice"),
            format!("0::/../../pod{UID}/{ID}"),
            // a node that is itself a container (kind, k3d), its kubelet in a group of its own, and other runtimes
            format!(
                "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{underscored}.slice/cri-containerd-{ID}.scope"
            ),
            format!("0::/docker/0123abc/kubelet/kubepods/burstable/pod{UID}/{ID}"),
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{underscored}.slice/docker-{ID}.scope"
            ),
            format!("0::/kubepods.slice/kubepods-pod{underscored}.slice/crio-{ID}.scope/container"),
            format!("7:devices:/kubepods/besteffort/pod{UID}/{ID}"),
            format!("0::/system.slice/containerd.service/kubepods-pod{underscored}.slice:cri-containerd:{ID}"),
        ] {
            assert!(group.holds(&path), "{path}");
        }
        for path in [
            format!("0::/kubepods/pod{UID}0/{ID}"),
            format!("0::/kubepods/pod{UID}-1"),
            format!("0::/kubepods/xpod{UID}"),
            format!("0::/kubepods/{UID}"),
            "0::/".to_owned(),
            String::new(),
        ] {
            assert!(!group.holds(&path), "{path}");
        }
    }

    #[test]
    fn a_process_is_told_by_its_cgroup_to_be_in_a_pod_or_of_the_node() {
        let root = tempfile::tempdir().unwrap();
        let underscored = UID.replace('-', "_");
        let of = |pid| pod_uids_of(root.path(), Pid::from_raw(pid).unwrap()).unwrap();
        for (pid, cgroup) in [
            (21, format!("0::/kubepods/burstable/pod{UID}/{ID}\n")),
            (22, format!("0::/kubepods.slice/kubepods-pod{underscored}.slice/cri-containerd-{ID}.scope\n")),
            (23, format!("12:pids:/kubepods/pod{UID}/{ID}\n3:cpu,cpuacct:/kubepods/pod{UID}/{ID}\n0::/\n")),
            // As seen from a control group namespace of one's own.
            (24, format!("0::/../../kubelet-kubepods-burstable-pod{underscored}.slice/crio-{ID}.scope\n")),
            (25, format!("0::/system.slice/containerd.service/kubepods-pod{underscored}.slice:cri-containerd:{ID}\n")),
        ] {
            add(root.path(), pid, 1, &cgroup);
            assert_eq!(of(i32::try_from(pid).unwrap()), Some(vec![UID.to_owned()]), "{cgroup}");
        }
        for (pid, cgroup) in [
            (31, "0::/system.slice/kubelet.service\n".to_owned()),
            (32, "0::/\n".to_owned()),
            (33, "0::/../../kubepods.slice/kubepods-burstable.slice\n".to_owned()),
            (34, format!("0::/user.slice/xpod{UID}\n")),
        ] {
            add(root.path(), pid, 1, &cgroup);
            assert_eq!(of(i32::try_from(pid).unwrap()), Some(vec![]), "{cgroup}");
        }
        let inner = "0123456789abcdef0123456789abcdef";
        add(root.path(), 41, 1, &format!("0::/kubepods/pod{UID}/{ID}/kubelet/kubepods/pod{inner}/x\n"));
        assert_eq!(of(41), Some(vec![UID.to_owned(), inner.to_owned()]), "a node in a pod");
        assert_eq!(of(99), None);
    }

    /// Whoever makes control groups below his own can name them as he likes, and run a process there that is older.
    #[test]
    fn a_container_can_not_pose_as_another_pod() {
        let root = tempfile::tempdir().unwrap();
        let (other, underscored) = ("11111111-2222-3333-4444-555555555555", UID.replace('-', "_"));
        let below = format!("/kubepods/pod{other}/feed/pod{UID}/{ID}");
        add(root.path(), 20, 10, &format!("0::{below}\n"));
        add(
            root.path(),
            21,
            20,
            &format!(
                "0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-feed.scope/kubepods-pod{underscored}.slice/cri-containerd-{ID}.scope\n",
                other.replace('-', "_")
            ),
        );
        add(root.path(), 22, 30, &format!("5:pids:{below}\n4:cpu:{below}\n0::/\n"));
        // Version 2 is mounted beside version 1, and nobody but this container has made a group there.
        add(root.path(), 23, 40, &format!("5:pids:/kubepods/pod{other}/feed\n0::/pod{UID}/{ID}\n"));
        add(root.path(), 30, 900, &format!("0::/kubepods/pod{UID}/{ID}\n"));
        assert_eq!(raw(&find_pod_pids(root.path(), UID).unwrap()), [30]);
        assert_eq!(raw(&find_container_pids(root.path(), UID, ID).unwrap()), [30]);
        assert_eq!(raw(&find_pod_pids(root.path(), other).unwrap()), [20, 21, 22]);
    }

    #[test]
    fn of_a_node_that_runs_in_a_pod_the_pods_are_found() {
        let root = tempfile::tempdir().unwrap();
        let node = "/kubepods/pod0123456789abcdef0123456789abcdef/feed";
        add(root.path(), 1, 1, &format!("0::{node}/init.scope\n"));
        add(root.path(), 20, 10, &format!("0::{node}/kubepods/pod{UID}/{ID}\n"));
        assert_eq!(raw(&find_container_pids(root.path(), UID, ID).unwrap()), [20]);
    }

    #[test]
    fn processes_come_oldest_first_and_foreign_ones_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        add(root.path(), 30, 500, &format!("0::/kubepods/pod{UID}/app\n"));
        add(root.path(), 40, 100, &format!("5:cpu:/x\n4:pids:/kubepods/pod{UID}/sandbox\n"));
        add(root.path(), 7, 900, "0::/kubepods/podffffffff/app\n");
        std::fs::create_dir(root.path().join("8")).unwrap();
        std::fs::write(root.path().join("version"), "Linux").unwrap();
        assert_eq!(raw(&find_pod_pids(root.path(), UID).unwrap()), [40, 30]);
        assert_eq!(raw(&find_pod_pids(root.path(), "other").unwrap()), []);
    }

    #[test]
    fn a_containers_first_process_is_not_the_monitor_nor_another_containers() {
        let root = tempfile::tempdir().unwrap();
        add(root.path(), 10, 100, &format!("0::/kubepods/pod{UID}/sandbox"));
        add(root.path(), 11, 150, &format!("0::/kubepods/pod{UID}/crio-conmon-{ID}.scope"));
        add(root.path(), 13, 300, &format!("0::/kubepods/pod{UID}/crio-{ID}.scope"));
        add(root.path(), 12, 200, &format!("0::/kubepods/pod{UID}/crio-{ID}.scope"));
        add(root.path(), 14, 50, &format!("0::/kubepods/podother/crio-{ID}.scope"));
        let pids = find_container_pids(root.path(), UID, &format!("cri-o://{ID}")).unwrap();
        assert_eq!(raw(&pids), [12, 13]);
        assert_eq!(raw(&find_container_pids(root.path(), UID, "nobody").unwrap()), []);
    }

    /// Version 1 has a line for each controller, and a hybrid node an empty one for version 2.
    #[test]
    fn a_container_is_found_in_either_version_and_under_either_driver() {
        let underscored = UID.replace('-', "_");
        let systemd = format!("/kubepods.slice/kubepods-pod{underscored}.slice/cri-containerd-{ID}.scope");
        let cgroupfs = format!("/kubepods/pod{UID}/{ID}");
        for cgroups in [
            format!("0::{systemd}\n"),
            format!("0::{cgroupfs}\n"),
            format!("12:pids:{systemd}\n3:cpu,cpuacct:{systemd}\n1:name=systemd:{systemd}\n0::/\n"),
            format!("12:pids:{cgroupfs}\n3:cpu,cpuacct:{cgroupfs}\n0::/\n"),
            // A process that has moved itself to a group below its own.
            format!("0::{cgroupfs}/worker\n"),
        ] {
            let root = tempfile::tempdir().unwrap();
            add(root.path(), 21, 100, &cgroups);
            add(root.path(), 22, 50, "0::/system.slice/kubelet.service\n");
            assert_eq!(raw(&find_pod_pids(root.path(), UID).unwrap()), [21], "{cgroups}");
            let id = format!("containerd://{ID}");
            assert_eq!(raw(&find_container_pids(root.path(), UID, &id).unwrap()), [21], "{cgroups}");
        }
    }

    #[test]
    fn a_group_whose_name_is_no_text_hides_nobody() {
        let root = tempfile::tempdir().unwrap();
        add(root.path(), 21, 100, &format!("0::/kubepods/pod{UID}/{ID}\n"));
        add(root.path(), 22, 200, "");
        let odd = [format!("0::/kubepods/pod{UID}/{ID}/").as_bytes(), &[0xff, b'\n']].concat();
        std::fs::write(root.path().join("22/cgroup"), odd).unwrap();
        assert_eq!(raw(&find_pod_pids(root.path(), UID).unwrap()), [21, 22]);
    }

    #[test]
    fn ids_that_are_none_are_refused() {
        for id in ["", "a/b", "..", "a b", "ä", &"a".repeat(129)] {
            assert!(matches!(find_pod_pids(Path::new("/proc"), id), Err(KernelError::InvalidId(_))), "{id:?}");
        }
    }
}
