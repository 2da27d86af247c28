//! Lines on standard error, with the seconds since the start.

use std::time::Instant;

pub(super) struct Say {
    begin: Instant,
}

impl Say {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now() }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// What comes next.
    pub(super) fn line(&self, text: &str) {
        eprintln!("[{:5.1} s] {text}", self.seconds());
    }

    /// What came of it: below the line before, without a time of its own.
    pub(super) fn more(text: &str) {
        eprintln!("          {text}");
    }
}
