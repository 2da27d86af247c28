//! The agent's side: waits for a helper, and kills one that does not end.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::process::Process;

/// How long a helper may take to end the command after nobody waits for it any more. It takes milliseconds, unless it hangs: the
/// container's working directory or the command may be on a file system that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How long a process that was killed may take to be gone.
const DEATH: Duration = Duration::from_secs(1);

/// So much of what is said is still read when the helper has ended; who has left the command's group may go on for ever.
const LAST_WORDS: usize = 1024 * 1024;

/// How the helper ended, and the last `longest` bytes of what was said until then. Fails if it was killed and is not gone
/// after all.
pub(super) fn until_ended(
    mut helper: Child,
    output: PipeReader,
    kept: &PipeReader,
    longest: usize,
    proc_root: &Path,
) -> io::Result<(ExitStatus, Vec<u8>)> {
    let pid = Pid::from_child(&helper);
    let exit = pidfd_open(pid, PidfdFlags::empty())?;
    let mut output = Tail { pipe: output, longest, bytes: Vec::new(), is_open: true };
    // When it is killed, and later when it is given up.
    let (mut until, mut is_killed): (Option<Instant>, _) = (None, false);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let mut all = vec![PollFd::new(&exit, PollFlags::IN)];
        all.extend(output.is_open.then(|| PollFd::new(&output.pipe, PollFlags::IN)));
        all.extend(until.is_none().then(|| PollFd::new(kept, PollFlags::IN)));
        wait(&mut all, left)?;
        if is_ready(&exit)? {
            output.read_rest()?;
            return Ok((helper.wait()?, output.bytes));
        }
        if is_ready(&output.pipe)? {
            output.read()?;
        }
        match until {
            None if is_ready(kept)? => until = Some(Instant::now() + PATIENCE),
            Some(until) if Instant::now() < until => {}
            // Frozen, or in a call that can't be broken off. It is a zombie once that is over.
            Some(_) if is_killed => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it was killed, and is there still"));
            }
            Some(_) => {
                kill(pid, &exit, proc_root)?;
                (until, is_killed) = (Some(Instant::now() + DEATH), true);
            }
            None => {}
        }
    }
}

/// The end of what is said.
struct Tail {
    pipe: PipeReader,
    longest: usize,
    bytes: Vec<u8>,
    is_open: bool,
}

impl Tail {
    /// Returns how much it was. Waits if there is nothing.
    fn read(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let count = self.pipe.read(&mut buffer)?;
        self.is_open = count > 0;
        self.bytes.extend_from_slice(&buffer[..count]);
        self.bytes.drain(..self.bytes.len().saturating_sub(self.longest));
        Ok(count)
    }

    fn read_rest(&mut self) -> io::Result<()> {
        let mut count = 0;
        while self.is_open && count < LAST_WORDS && is_ready(&self.pipe)? {
            count += self.read()?;
        }
        Ok(())
    }
}

/// Whether there is something to read, or the other end is closed.
fn is_ready(fd: impl AsFd) -> io::Result<bool> {
    let mut one = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    wait(&mut one, Some(Duration::ZERO))?;
    Ok(!one[0].revents().is_empty())
}

fn wait(all: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(all, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Kills a helper, and first its child: one that has not become the command yet has nobody else to end it.
fn kill(helper: Pid, exit: &OwnedFd, proc_root: &Path) -> io::Result<()> {
    for process in Process::all(proc_root)?.filter_map(Result::ok) {
        let is_child = || process.parent().is_ok_and(|parent| parent == Some(helper));
        if let Some(child) = process.pid().filter(|_| is_child()) {
            // A helper that hangs does not reap its child, so the pid is that child's still.
            let _ = kill_process_group(child, Signal::KILL);
            let _ = kill_process(child, Signal::KILL);
        }
    }
    match pidfd_send_signal(exit, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
