//! A process as the helper sees it through the node's `/proc`, also after it has entered the container.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, open, openat, statat};

/// An open `/proc/<pid>` of the node. Whatever is read by it is of this process and of the node's own `/proc`, whichever files
/// the container has mounted over its own.
pub(super) struct Seen(OwnedFd);

impl Seen {
    /// `name`: a pid, or `self`.
    pub(super) fn open(proc_root: &Path, name: &str) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(open(proc_root.join(name), flags, Mode::empty())?))
    }

    /// A directory that the process has, such as `root`: only a way to enter it.
    pub(super) fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(openat(&self.0, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// At most `longest` bytes of a file.
    pub(super) fn bytes(&self, name: &str, longest: u64) -> io::Result<Vec<u8>> {
        let file = File::from(openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
        let mut bytes = Vec::new();
        file.take(longest).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn text(&self, name: &str) -> io::Result<String> {
        const LONGEST: u64 = 64 * 1024;
        Ok(String::from_utf8_lossy(&self.bytes(name, LONGEST)?).into_owned())
    }

    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        File::from(openat(&self.0, name, flags, Mode::empty())?).write_all(text.as_bytes())
    }

    /// Which user namespace it is in.
    pub(super) fn user_space(&self) -> io::Result<(u64, u64)> {
        let status = statat(&self.0, "ns/user", AtFlags::empty())?;
        Ok((status.st_dev, status.st_ino))
    }
}
