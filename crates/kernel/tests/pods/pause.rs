//! Stops programs where they are about to start, so that what is there between `fork` and `exec` can be looked at.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyEvent, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whoever starts one of the programs has to wait. When this is dropped, all go on.
pub(crate) struct Pause(Fanotify);

/// A process that is about to become a program.
pub(crate) struct Paused<'a> {
    pause: &'a Pause,
    event: FanotifyEvent,
    pub(crate) process: Seen,
}

impl Pause {
    pub(crate) fn at(programs: &[&Path]) -> Self {
        let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        let group = Fanotify::init(flags, EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC).unwrap();
        for program in programs {
            let root = fs::File::open("/").unwrap();
            group.mark(MarkFlags::FAN_MARK_ADD, MaskFlags::FAN_OPEN_EXEC_PERM, &root, Some(*program)).unwrap();
        }
        Self(group)
    }

    /// The next one, within so many seconds.
    pub(crate) fn next(&self, seconds: i64) -> Option<Paused<'_>> {
        let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)).unwrap();
        let event = self.0.read_events().unwrap_or_default().pop()?;
        let process = Seen(event.pid().unsigned_abs());
        Some(Paused { pause: self, event, process })
    }
}

impl Paused<'_> {
    pub(crate) fn go_on(self) {
        let response = FanotifyResponse::new(self.event.fd().unwrap(), Response::FAN_ALLOW);
        self.pause.0.write_response(response).unwrap();
    }
}

/// A process, as the machine sees it.
pub(crate) struct Seen(pub(crate) u32);

impl Seen {
    fn path(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.0.to_string()).join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// A line of `status`.
    pub(crate) fn status(&self, name: &str) -> Vec<String> {
        let text = self.text("status");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) fn parent(&self) -> Self {
        Self(self.status("PPid")[0].parse().unwrap())
    }

    /// Names of all of its capability sets that are not empty.
    pub(crate) fn capabilities(&self) -> Vec<&'static str> {
        let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
        sets.into_iter().filter(|set| u64::from_str_radix(&self.status(set)[0], 16) != Ok(0)).collect()
    }

    /// What its descriptors are of.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("fd")).unwrap();
        let target = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.unwrap().path()).unwrap();
        entries.map(|entry| target(entry).display().to_string()).collect()
    }

    /// Device and number of a directory of it.
    pub(crate) fn directory(&self, name: &str) -> (u64, u64) {
        directory(&self.path(name))
    }

    pub(crate) fn exists(&self) -> bool {
        // A zombie has no memory.
        fs::read_to_string(self.path("status")).is_ok_and(|status| status.contains("VmSize"))
    }

    /// Whether what is written into the memory of `other` is then in its own. Both have the same mappings.
    pub(crate) fn has_memory_of(&self, other: &Self) -> bool {
        let maps = self.text("maps");
        let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let at = u64::from_str_radix(stack.split('-').next().unwrap(), 16).unwrap();
        let open = |process: &Self| fs::File::options().read(true).write(true).open(process.path("mem")).unwrap();
        let mut found = [0; 8];
        open(other).write_all_at(b"written!", at).unwrap();
        open(self).read_exact_at(&mut found, at).unwrap();
        found == *b"written!"
    }
}

pub(crate) fn directory(path: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).unwrap();
    (metadata.dev(), metadata.ino())
}
