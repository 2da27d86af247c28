//! What failed while the machine was busy runs once more, with nothing of ours beside it.
//!
//! A test that watches time needs a processor when it asks for one. Without, its failure says nothing of the product; it stands in
//! the table all the same, and so does the second run, which decides.

use std::fs;

use super::binaries::{Binary, Job};
use super::failures;
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
        let failed = failures::names(&output);
        if !failed.is_empty() {
            command.arg("--exact").args(failed);
        }
        minutes.set_aside(&title);
        // A failure stands in the table.
        let _ = minutes.step(&format!("{title}, alone"), Output::Kept, &mut command);
    }
    Ok(())
}
