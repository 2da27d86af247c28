//! The helper's way into the container's control groups, in both versions and where both are used beside each other.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use super::seen::Seen;
use super::{HelperError, call};

/// The file to which a process writes itself.
const MEMBERS: &str = "cgroup.procs";

/// Whether control groups of some version are there.
pub(super) fn are_mounted(root: &Path) -> bool {
    let is_hierarchy = |directory: &Path| directory.join(MEMBERS).exists();
    is_hierarchy(root)
        || std::fs::read_dir(root)
            .is_ok_and(|entries| entries.filter_map(Result::ok).any(|entry| is_hierarchy(&entry.path())))
}

/// Puts this process into all control groups of the container's process, and makes it as likely to be killed for want of memory,
/// so that what is run takes of the container's limits and not of the caller's. It is all or an error.
pub(super) fn join(root: &Path, first: Pid, theirs: &Seen, own: &Seen) -> Result<(), HelperError> {
    let looks = |error| call("can't read control groups")(error);
    let entered = see_as(first);
    let (wanted, present) = (theirs.text("cgroup").map_err(looks)?, own.text("cgroup").map_err(looks)?);
    let wanted: Vec<Group<'_>> = wanted.lines().filter_map(Group::parse).collect();
    if wanted.is_empty() {
        return Err(looks(io::Error::new(io::ErrorKind::NotFound, "the container's process is in none")));
    }
    let is_in = |groups: &str, group: &Group<'_>| groups.lines().any(|line| Group::parse(line).as_ref() == Some(group));
    let failed = |group: &Group<'_>, why: String| {
        let space = "can't be entered (hostPID, CAP_SYS_ADMIN and CAP_SYS_PTRACE are needed)";
        let also = entered.err().map(|error| format!("; the control group namespace of the node {space}: {error}"));
        let hierarchy = if group.hierarchy.is_empty() { "version 2" } else { group.hierarchy };
        HelperError::Group {
            hierarchy: hierarchy.to_owned(),
            path: group.path.to_owned(),
            why: why + &also.unwrap_or_default(),
        }
    };
    for group in wanted.iter().filter(|group| !is_in(&present, group)) {
        group.join(root).map_err(|why| failed(group, why))?;
    }
    // Another node's files would have been as good until here.
    let reached = own.text("cgroup").map_err(looks)?;
    if let Some(group) = wanted.iter().find(|group| !is_in(&reached, group)) {
        return Err(failed(group, "it had no effect".to_owned()));
    }
    share_fate(theirs, own).map_err(call("can't take over the container's oom_score_adj"))
}

/// Enters the control group namespace of the node's first process: paths are told as seen from the reader's namespace, and over
/// the edge of one nobody is moved. Whoever is in it already does not need to, so a failure counts only if something follows
/// from it.
fn see_as(first: Pid) -> Result<(), Errno> {
    let first = pidfd_open(first, PidfdFlags::empty())?;
    move_into_thread_name_spaces(first.as_fd(), ThreadNameSpaceType::CONTROL_GROUP)
}

/// As likely to be killed as the container, or more. Less is a right, and nobody needs it.
fn share_fate(theirs: &Seen, own: &Seen) -> io::Result<()> {
    const FILE: &str = "oom_score_adj";
    let score = |seen: &Seen| {
        seen.text(FILE)?.trim().parse::<i32>().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    };
    let (wanted, present) = (score(theirs)?, score(own)?);
    if wanted > present { own.write(FILE, &wanted.to_string()) } else { Ok(()) }
}

/// A line of `/proc/<pid>/cgroup`: `<number>:<controllers>:<path>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group<'a> {
    /// Controllers with commas, or `name=<name>`: a hierarchy of version 1. Empty: version 2.
    hierarchy: &'a str,
    path: &'a str,
}

impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (_number, rest) = line.split_once(':')?;
        let (hierarchy, path) = rest.split_once(':')?;
        Some(Self { hierarchy, path })
    }

    /// Says why not.
    fn join(&self, root: &Path) -> Result<(), String> {
        if !self.path.starts_with('/') || self.path.split('/').any(|name| name == "..") {
            return Err("it is outside of what is seen from here".to_owned());
        }
        let Some(top) = self.tops(root).into_iter().find(|top| top.join(MEMBERS).exists()) else {
            let root = root.display();
            return Err(format!(
                "{root} does not have this hierarchy (manifests/exec-hooks mounts the node's /sys/fs/cgroup)"
            ));
        };
        let file = top.join(self.path.trim_start_matches('/')).join(MEMBERS);
        // 0 is whoever writes.
        let written = OpenOptions::new().write(true).open(&file).and_then(|mut file| file.write_all(b"0\n"));
        written.map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Where the hierarchy may be mounted.
    fn tops(&self, root: &Path) -> Vec<PathBuf> {
        match self.hierarchy {
            // Alone, or beside version 1.
            "" => vec![root.to_owned(), root.join("unified")],
            named if named.starts_with("name=") => vec![root.join(&named["name=".len()..])],
            // The directory may have the controllers in another order; then each of them is a link to it.
            controllers => {
                std::iter::once(controllers).chain(controllers.split(',')).map(|name| root.join(name)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(root: &Path, directory: &str) {
        std::fs::create_dir_all(root.join(directory)).unwrap();
        std::fs::write(root.join(directory).join(MEMBERS), "").unwrap();
    }

    fn join(root: &Path, line: &str) -> Result<(), String> {
        Group::parse(line).unwrap().join(root)
    }

    fn read(root: &Path, directory: &str) -> String {
        std::fs::read_to_string(root.join(directory).join(MEMBERS)).unwrap()
    }

    #[test]
    fn each_hierarchy_is_found_where_it_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert!(!are_mounted(root) && !are_mounted(&root.join("nothing")));
        for (top, line) in [
            ("memory", "4:memory:/pod/c"),
            ("cpu,cpuacct", "3:cpu,cpuacct:/pod/c"),
            // Another order, and a link for each.
            ("blkio", "2:io,blkio:/pod/c"),
            ("systemd", "1:name=systemd:/pod/c"),
            ("unified", "0::/pod/c"),
        ] {
            members(root, top);
            members(root, &format!("{top}/pod/c"));
            join(root, line).unwrap();
            assert_eq!((read(root, top), read(root, &format!("{top}/pod/c"))), (String::new(), "0\n".to_owned()));
        }
        assert!(are_mounted(root));
    }

    #[test]
    fn alone_version_2_is_the_root_itself_whatever_groups_it_has() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for directory in ["", "unified", "pod/c", "unified/pod/c"] {
            members(root, directory);
        }
        join(root, "0::/pod/c").unwrap();
        assert_eq!((read(root, "pod/c"), read(root, "unified/pod/c")), ("0\n".to_owned(), String::new()));
    }

    #[test]
    fn what_can_not_be_joined_says_what_and_why() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        members(root, "");
        for (line, words) in [
            ("0::/../pod/c", "it is outside of what is seen from here"),
            ("4:memory:/pod/c", "does not have this hierarchy (manifests/exec-hooks mounts"),
            ("0::/gone", "cgroup.procs: No such file or directory"),
        ] {
            let error = join(root, line).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
