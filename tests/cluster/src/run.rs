//! Running other programs, and waiting for them to be of use.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Runs a command to its end; its standard output, or an error with all that it wrote.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let done = command.stdin(Stdio::null()).output().map_err(|source| start_error(command, source))?;
    checked(command, &done)
}

/// As [`output`], with something to read on its standard input.
pub(crate) fn output_with_input(command: &mut Command, input: &[u8]) -> Result<String> {
    use std::io::Write as _;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| start_error(command, source))?;
    let mut stdin = child.stdin.take();
    let done = std::thread::scope(|scope| {
        // A command that ends without reading all of its input is judged by its exit code, not by our broken pipe.
        scope.spawn(move || stdin.take().map(|mut pipe| pipe.write_all(input)));
        child.wait_with_output()
    });
    let done = done.map_err(|source| start_error(command, source))?;
    checked(command, &done)
}

/// A command that could not be started, as an error.
pub(crate) fn start_error(command: &Command, source: std::io::Error) -> Error {
    Error::Start { program: command.get_program().to_string_lossy().into_owned(), source }
}

fn checked(command: &Command, done: &Output) -> Result<String> {
    let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    let output = format!("{}\n{}", stderr.trim(), stdout.trim()).trim().to_owned();
    Err(Error::Failed { command: line(command), status: done.status.to_string(), output })
}

/// The command line as a person would type it, without the environment.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Tries until it works: for other people's servers, which tell nobody when they are ready.
///
/// `attempt` returns `Ok(Err(why))` for "not yet"; an `Err` ends the waiting.
pub(crate) fn until<T>(
    what: &str,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<std::result::Result<T, String>>,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        match attempt()? {
            Ok(value) => return Ok(value),
            Err(why) if begin.elapsed() >= limit => {
                let last = if why.is_empty() { why } else { format!(": {why}") };
                return Err(Error::Timeout { what: what.to_owned(), seconds: limit.as_secs(), last });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
