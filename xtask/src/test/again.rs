//! What failed while the machine was busy runs once more, with nothing of ours beside it.
//!
//! A test that watches time needs a processor when it asks for one. Without, its failure says nothing of the product; it stands in
//! the table all the same, and so does the second run, which decides.

use std::fs;

use super::binaries::{Binary, Job};
use super::minutes::{Minutes, Output, log};

/// Runs what failed of `binaries` while the machine was busy once more, one by one. Before the first of them `alone` waits until
/// what keeps processors busy has ended.
pub(super) fn run(
    minutes: &Minutes,
    binaries: &[&Binary],
    alone: &mut dyn FnMut() -> anyhow::Result<()>,
    job: impl Fn(&Binary) -> anyhow::Result<Job>,
) -> anyhow::Result<()> {
    for binary in binaries {
        let title = binary.title();
        if !minutes.was_disturbed(&title) {
            continue;
        }
        minutes.say(&format!("\n{title} failed while the machine was busy: it runs once more, alone"));
        alone()?;
        let (_, mut command) = job(binary)?;
        let output = fs::read_to_string(log(&title)?)?;
        let failed = failed_tests(&output);
        if !failed.is_empty() {
            command.arg("--exact").args(failed);
        }
        minutes.set_aside(&title);
        // A failure stands in the table.
        let _ = minutes.step(&format!("{title}, alone"), Output::Kept, &mut command);
    }
    Ok(())
}

/// The tests that failed, by the list at the end of the test program's output; none if it ended without one.
fn failed_tests(output: &str) -> Vec<&str> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().map_while(|line| line.strip_prefix("    ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_at_the_end_tells_what_failed() {
        let output = "test one ... ok\ntest two ... FAILED\n\nfailures:\n\n---- two stdout ----\n    failures: none\n\n\
                      failures:\n    two\n    room::three\n\ntest result: FAILED. 1 passed; 2 failed\n";
        assert_eq!(failed_tests(output), ["two", "room::three"]);
        assert!(failed_tests("test one ... \nterminated by signal 9\n").is_empty());
    }
}
