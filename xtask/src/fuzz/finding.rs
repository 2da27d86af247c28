//! An input that breaks a promise.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use hitless_e2e::build::workspace;
use serde::Serialize;

/// Bytes of an input that are shown.
const SHOWN: usize = 512;

/// What was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    target: String,
    /// The file with the input, below the workspace.
    input: PathBuf,
    /// What the panic said.
    message: String,
    #[serde(skip)]
    bytes: Vec<u8>,
}

impl Finding {
    /// `said`: what libFuzzer has written.
    pub(super) fn read(target: &str, input: PathBuf, said: &str) -> anyhow::Result<Self> {
        let bytes = fs::read(&input).with_context(|| format!("read {}", input.display()))?;
        let input = input.strip_prefix(workspace()).map(PathBuf::from).unwrap_or(input);
        Ok(Self { target: target.to_owned(), input, message: message(said), bytes })
    }
}

/// A panic says where in one line, and then why; anything else libFuzzer names.
fn message(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let panic = lines.iter().position(|line| line.starts_with("thread ") && line.contains(" panicked at "));
    let end = |line: &&&str| !["note: ", "stack backtrace:", "=="].iter().any(|start| line.starts_with(start));
    match panic {
        Some(at) => lines[at..].iter().take_while(end).take(8).copied().collect::<Vec<_>>().join("\n"),
        None => lines.iter().find(|line| line.contains("ERROR: libFuzzer")).copied().unwrap_or_default().to_owned(),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(SHOWN)];
        let more = if shown.len() < self.bytes.len() { " …" } else { "" };
        writeln!(formatter, "finding in {}, {} bytes: {}", self.target, self.bytes.len(), self.message)?;
        write!(formatter, "  bytes: ")?;
        shown.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))?;
        writeln!(formatter, "{more}")?;
        writeln!(formatter, "  text:  {:?}{more}", String::from_utf8_lossy(shown))?;
        let (target, input) = (&self.target, self.input.display());
        write!(formatter, "  again: cargo xtask fuzz --target {target} --input {input}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_shown_with_the_command_that_repeats_it() {
        let finding = Finding {
            target: "frames".to_owned(),
            input: PathBuf::from("target/fuzz/findings/frames/crash-1"),
            message: "attempt to add with overflow".to_owned(),
            bytes: b"a\n\xff".to_vec(),
        };
        assert_lines(
            &finding.to_string(),
            &[
                "finding in frames, 3 bytes: attempt to add with overflow",
                "  bytes: 610aff",
                "  text:  \"a\\n\u{fffd}\"",
                "  again: cargo xtask fuzz --target frames --input target/fuzz/findings/frames/crash-1",
            ],
        );
        let long = Finding { bytes: vec![0; SHOWN + 1], ..finding };
        assert!(long.to_string().contains("00 …\n"), "{long}");
    }

    fn assert_lines(text: &str, lines: &[&str]) {
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn the_message_is_the_panics_own() {
        let said = "INFO: Seed: 1\n\nthread '<unnamed>' (7) panicked at crates/kernel/src/counters.rs:1:2:\nattempt to add with overflow\nnote: run with `RUST_BACKTRACE=1`\n==7== ERROR: libFuzzer: deadly signal\n";
        assert_eq!(
            message(said),
            "thread '<unnamed>' (7) panicked at crates/kernel/src/counters.rs:1:2:\nattempt to add with overflow"
        );
        assert_eq!(
            message("==7== ERROR: libFuzzer: timeout after 11 seconds\n"),
            "==7== ERROR: libFuzzer: timeout after 11 seconds"
        );
    }
}
