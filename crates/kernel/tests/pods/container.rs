//! A container that sleeps: namespaces, a root, control groups, a user.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hitless_kernel::Pid;
use rustix::process::{Signal, kill_process};

use super::eventually;

/// Where a container differs from the ordinary one.
#[derive(Default)]
pub(crate) struct Shape {
    /// It has a user namespace of its own, whose user 0 is [`FIRST_USER`] of the node.
    pub(crate) has_own_user: bool,
    /// Its `/proc` is its own: whatever is run through that is a program which makes the file `/taken`.
    pub(crate) has_fake_proc: bool,
    /// Bytes of memory that it may use.
    pub(crate) memory: Option<u64>,
}

/// The node's number of user 0 of a container with a user namespace.
pub(crate) const FIRST_USER: u32 = 100_000;

/// A container whose first process has user 1000 and groups 1000 and 2000, as it counts.
pub(crate) struct Container {
    child: Child,
    /// The control group that has its name.
    pub(crate) cgroup: PathBuf,
    memory: Option<MemoryGroup>,
    root: tempfile::TempDir,
}

/// The first process of the container's process namespace makes itself a root of what the machine has, and becomes the
/// container's program. It waits for a line, and is put into its control groups meanwhile.
const CONTAINER: &str = r#"
    read go
    cd "$1"
    for directory in usr bin lib lib64 dev; do
        if [ -e "/$directory" ]; then mkdir -p "$directory" && mount --rbind "/$directory" "$directory"; fi
    done
    mkdir -p proc work && mount -t proc proc proc
    if [ -n "$2" ]; then
        mount -t tmpfs fake proc && mkdir -p proc/self/fd
        printf '#!/bin/sh\necho taken > /taken\necho taken\n' > proc/self/exe
        chmod 755 proc/self/exe
        for number in $(seq 0 63); do cp proc/self/exe "proc/self/fd/$number"; done
    fi
    chmod 755 . && echo here > marker
    hostname container
    exec chroot --userspec=1000:1000 --groups=1000,2000 . /usr/bin/env -i PATH=/usr/bin:/bin GREETING='good day' \
        sh -c 'cd /work && echo ready && exec sleep 1000'
"#;

impl Container {
    pub(crate) fn start(cgroup: &Path, shape: &Shape) -> Self {
        let root = tempfile::tempdir().unwrap();
        let user_space = shape.has_own_user.then(UserSpace::new);
        let mut command = Command::new(if shape.has_own_user { "nsenter" } else { "unshare" });
        if let Some(UserSpace(holder)) = &user_space {
            chown(root.path(), Some(FIRST_USER), Some(FIRST_USER)).unwrap();
            command.arg(format!("--user=/proc/{}/ns/user", holder.id()));
            command.args(["--setuid=0", "--setgid=0", "--", "unshare"]);
        }
        let mut child = command
            .args(["--mount", "--pid", "--fork", "--ipc", "--uts", "--net", "sh", "-ec", CONTAINER, "sh"])
            .arg(root.path())
            .arg(if shape.has_fake_proc { "fake" } else { "" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let memory = shape.memory.map(|limit| MemoryGroup::new(cgroup, limit));
        // `nsenter` and `unshare` become one another; the first process of the new namespace is a child of theirs.
        let first = eventually("the first process is there", || {
            let children = format!("/proc/{0}/task/{0}/children", child.id());
            fs::read_to_string(children).unwrap().split_whitespace().next().map(str::to_owned)
        });
        for group in std::iter::once(cgroup).chain(memory.iter().map(|group| group.leaf.as_path())) {
            fs::write(group.join("cgroup.procs"), &first).unwrap();
        }
        fs::write(format!("/proc/{first}/oom_score_adj"), "500").unwrap();
        writeln!(child.stdin.take().unwrap(), "go").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, cgroup: cgroup.to_owned(), memory, root }
    }

    /// Its files, as the machine sees them.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Its processes, the first one first.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.cgroup.join("cgroup.procs")).unwrap();
        let mut pids: Vec<u32> = text.lines().map(|pid| pid.parse().unwrap()).collect();
        pids.sort_unstable();
        pids
    }

    /// Puts a program into its root, and returns where the machine has it. In the container it is `/<name>`.
    pub(crate) fn add_program(&self, name: &str) -> PathBuf {
        let path = self.root().join(name);
        fs::copy("/bin/true", &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// How many of its processes were killed for want of memory.
    pub(crate) fn killed_for_memory(&self) -> u64 {
        let group = self.memory.as_ref().unwrap();
        let text = ["memory.events", "memory.oom_control"]
            .iter()
            .find_map(|file| fs::read_to_string(group.leaf.join(file)).ok())
            .unwrap();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap().parse().unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The first process of the namespace: all others end with it.
        for pid in fs::read_to_string(self.cgroup.join("cgroup.procs")).unwrap().lines() {
            let pid = pid.parse().ok().and_then(Pid::from_raw).unwrap();
            // One that has ended with the first one meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        self.child.wait().unwrap();
    }
}

/// A user namespace, kept by a process that waits.
struct UserSpace(Child);

impl UserSpace {
    fn new() -> Self {
        let child = Command::new("unshare").args(["--user", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let space = |who: &str| fs::read_link(format!("/proc/{who}/ns/user")).unwrap();
        eventually("the user namespace is there", || (space(&child.id().to_string()) != space("self")).then_some(()));
        for map in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{}/{map}", child.id()), format!("0 {FIRST_USER} 65536")).unwrap();
        }
        Self(child)
    }
}

impl Drop for UserSpace {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Whether memory can be limited here: not in a container whose control groups are of version 2 and its own.
pub(crate) fn can_limit_memory() -> bool {
    let root = Path::new("/sys/fs/cgroup");
    root.join("memory/cgroup.procs").exists() || fs::write(root.join("cgroup.subtree_control"), "+memory").is_ok()
}

/// A group with limited memory, of the same name as the other one, or itself.
struct MemoryGroup {
    leaf: PathBuf,
    /// What was made for it, the outermost first.
    levels: Vec<PathBuf>,
}

impl MemoryGroup {
    fn new(cgroup: &Path, limit: u64) -> Self {
        let hierarchies = Path::new("/sys/fs/cgroup");
        let version_1 = hierarchies.join("memory");
        let names: Vec<_> = cgroup.components().rev().take(3).collect();
        let mut levels: Vec<PathBuf> = Vec::new();
        if version_1.join("cgroup.procs").exists() {
            for name in names.iter().rev() {
                levels.push(levels.last().unwrap_or(&version_1).join(name));
                fs::create_dir(levels.last().unwrap()).unwrap();
            }
            let leaf = levels.last().unwrap().clone();
            fs::write(leaf.join("memory.limit_in_bytes"), limit.to_string()).unwrap();
            return Self { leaf, levels };
        }
        for parent in cgroup.ancestors().skip(1).take(3).collect::<Vec<_>>().into_iter().rev() {
            fs::write(parent.join("cgroup.subtree_control"), "+memory").unwrap();
        }
        fs::write(cgroup.join("memory.max"), limit.to_string()).unwrap();
        // Where there is swap.
        let _ = fs::write(cgroup.join("memory.swap.max"), "0");
        Self { leaf: cgroup.to_owned(), levels }
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for level in self.levels.iter().rev() {
            eventually("the control group is empty", || fs::remove_dir(level).ok());
        }
    }
}
