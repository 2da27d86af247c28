//! Fuzz targets: what hitless reads of kernels, processes, users, approvers and load balancers, as bytes that a fuzzer makes up.
//!
//! Each target is a function of bytes, in a file of its own. It calls the code that production calls, and it panics where a promise
//! is broken: that is a finding. `cargo xtask fuzz` links them with libFuzzer, whose edges of the program it reads guide it. It
//! needs a C++ compiler, and neither nightly Rust nor cargo-fuzz: the compiler's flags are those that `cargo fuzz --sanitizer none` sets.
//!
//! This is a package of the workspace, with one lock file and one check of licences for all, and whatever a target calls can't
//! be renamed without it. libFuzzer is behind the feature `libfuzzer`, which only `cargo xtask fuzz` sets: without it nothing here is C++,
//! and the test `seeds` runs all targets over their seeds.
//!
//! A new target: a file in `src/targets`, a line in [`TARGETS`]; `tests/seeds.rs` compares both.

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a promise that is broken is a panic, and a finding"
)]

mod json;
mod parts;
mod pool;
mod targets;

use std::fs;
use std::io;
use std::path::Path;

use targets::{alibaba, annotations, approvers, frames, haproxy, packet_filter, proc_texts, rules, sock_diag};

/// Something to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its file.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Inputs to begin with, which get far.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something there. A fuzzer would need long to guess them.
    pub words: &'static [&'static str],
}

/// All of them.
pub const TARGETS: [Target; 9] = [
    alibaba::TARGET,
    annotations::TARGET,
    approvers::TARGET,
    frames::TARGET,
    haproxy::TARGET,
    packet_filter::TARGET,
    proc_texts::TARGET,
    rules::TARGET,
    sock_diag::TARGET,
];

impl Target {
    /// The target with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Writes the seeds into `directory`, which is emptied before, and the words into `dictionary`, as libFuzzer reads them.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn prepare(&self, directory: &Path, dictionary: &Path) -> io::Result<()> {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(directory)?,
        }
        for (number, seed) in (self.seeds)().into_iter().enumerate() {
            fs::write(directory.join(format!("seed-{number}")), seed)?;
        }
        // A file without a line would be refused.
        let title = format!("# Words of {}.\n", self.name);
        fs::write(dictionary, title + &self.words.iter().map(|word| line(word)).collect::<String>())
    }
}

/// A line of a dictionary. libFuzzer wants quotes, and all that is not visible ASCII in hexadecimal.
fn line(word: &str) -> String {
    let byte = |byte: u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    };
    format!("\"{}\"\n", word.bytes().map(byte).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_written_as_libfuzzer_reads_it() {
        assert_eq!(line("a \"b\"\\\n"), "\"a \\\"b\\\"\\\\\\x0A\"\n");
    }
}
