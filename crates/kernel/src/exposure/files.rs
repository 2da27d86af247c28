//! Open files of a process, by what they are.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// What an open file says about whether somebody is served through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody is.
    Harmless,
    /// A socket, with this inode.
    Socket(u64),
    /// Somebody may be.
    Doubtful,
}

/// Devices that every program uses for itself.
const OWN_DEVICES: [&str; 8] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/ptmx"];
/// Files without a name by which a process waits for itself or its children. Others may serve: io_uring has files of its own, eBPF
/// programs work on.
const OWN_ANONYMOUS: [&str; 7] = ["eventfd", "eventpoll", "inotify", "signalfd", "timerfd", "pidfd", "pidfs"];

/// `target` is what the link in `/proc/<pid>/fd` says.
pub(super) fn kind(descriptor: &Path, target: &Path) -> io::Result<Kind> {
    let Some(text) = target.to_str() else { return Ok(Kind::Doubtful) };
    if let Some(inode) = text.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
        return Ok(inode.parse().map_or(Kind::Doubtful, Kind::Socket));
    }
    // A pipe without a name has its other end in the process itself, its children or the runtime.
    if text.starts_with("pipe:[") || text.starts_with("pidfd:[") {
        return Ok(Kind::Harmless);
    }
    if let Some(name) = text.strip_prefix("anon_inode:") {
        let is_own = OWN_ANONYMOUS.contains(&name.trim_matches(['[', ']']));
        return Ok(if is_own { Kind::Harmless } else { Kind::Doubtful });
    }
    if !text.starts_with('/') {
        return Ok(Kind::Doubtful);
    }
    // The link leads to the open file itself, whatever is at that path by now.
    let file = fs::metadata(descriptor)?.file_type();
    let is_own_device = || file.is_char_device() && (OWN_DEVICES.contains(&text) || text.starts_with("/dev/pts/"));
    Ok(if file.is_file() || file.is_dir() || is_own_device() { Kind::Harmless } else { Kind::Doubtful })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_a_process_keeps_for_itself_is_harmless_and_the_rest_is_a_doubt() {
        let fd = tempfile::tempdir().unwrap();
        let path = fd.path().join("0");
        let kind_of = |target: &str| {
            let _ = fs::remove_file(&path);
            symlink(target, &path).unwrap();
            kind(&path, Path::new(target)).unwrap()
        };
        for target in
            ["pipe:[7]", "anon_inode:[eventpoll]", "anon_inode:inotify", "/dev/null", "/proc", "/proc/version"]
        {
            assert_eq!(kind_of(target), Kind::Harmless, "{target}");
        }
        for target in ["anon_inode:[io_uring]", "anon_inode:bpf-prog", "net:[1]", "socket:[x]"] {
            assert_eq!(kind_of(target), Kind::Doubtful, "{target}");
        }
        assert_eq!(kind_of("socket:[4711]"), Kind::Socket(4711));
    }

    #[test]
    fn a_fifo_with_a_name_is_a_doubt_and_what_was_closed_an_error() {
        let fd = tempfile::tempdir().unwrap();
        let (fifo, link) = (fd.path().join("fifo"), fd.path().join("0"));
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        symlink(&fifo, &link).unwrap();
        assert_eq!(kind(&link, &fifo).unwrap(), Kind::Doubtful);
        fs::remove_file(&fifo).unwrap();
        assert!(kind(&link, &fifo).is_err());
    }
}
