//! A way to wake a thread that waits for files.

use std::io;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// Notified by one thread; another waits for it and for whatever else can be polled.
#[derive(Debug)]
pub(super) struct Notifier {
    event: OwnedFd,
}

impl Notifier {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes whoever waits, or will.
    pub(super) fn notify(&self) {
        // It fails only where the counter is full, and then the other thread wakes anyway.
        let _: Result<usize, Errno> = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Until it is notified, one of the others is readable or the time has come. May return early.
    pub(super) fn wait<'a>(&'a self, others: impl Iterator<Item = BorrowedFd<'a>>, until: Option<Instant>) {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        // What is too long for the kernel is as good as no time.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut files = vec![PollFd::new(&self.event, PollFlags::IN)];
        files.extend(others.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        // The only possible failure is a signal.
        let _: Result<usize, Errno> = poll(&mut files, timeout.as_ref());
        let _: Result<usize, Errno> = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::fd::AsFd;

    use super::*;

    #[test]
    fn it_wakes_who_waits_and_who_comes_later_once() {
        let notifier = Notifier::new().unwrap();
        notifier.notify();
        notifier.notify();
        notifier.wait(std::iter::empty(), None);
        let begin = Instant::now();
        notifier.wait(std::iter::empty(), Some(begin + Duration::from_millis(20)));
        assert!(begin.elapsed() >= Duration::from_millis(20), "nobody has notified it since");
        std::thread::scope(|scope| {
            scope.spawn(|| notifier.wait(std::iter::empty(), None));
            notifier.notify();
        });
    }

    #[test]
    fn another_file_ends_the_wait_too() {
        let (notifier, other) = (Notifier::new().unwrap(), Notifier::new().unwrap());
        other.notify();
        notifier.wait([other.event.as_fd()].into_iter(), None);
    }
}
