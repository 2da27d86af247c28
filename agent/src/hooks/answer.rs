//! What the answer to a call means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When an application does not say when it is to be asked again, in seconds.
pub const RETRY_AFTER_SECONDS: u32 = 30;
/// No application is asked again later than after so many seconds.
pub const LONGEST_RETRY_AFTER_SECONDS: u32 = 3600;

/// What a call has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Go,
    /// Ask again later.
    NotYet {
        /// After so many seconds.
        retry_after_seconds: u32,
    },
    /// Do not operate this pod.
    Never,
    /// No usable answer.
    Failed,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it means.
    pub verdict: Verdict,
    /// How long the call took, in milliseconds.
    pub milliseconds: u32,
    /// For people: what was said, or why nothing was.
    pub output: String,
}

/// What an application says about being operated, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TaskWord {
    /// It may be.
    Go,
    /// Not as long as this counts.
    NotYet,
    /// Not at all, as long as this counts.
    Never,
}

impl TaskWord {
    /// Reads it.
    ///
    /// # Errors
    /// If it is none of the three.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "go" => Ok(Self::Go),
            "notYet" => Ok(Self::NotYet),
            "never" => Ok(Self::Never),
            other => Err(format!("the task is {other:?}; use go, notYet or never")),
        }
    }
}

/// What an application says about being operated, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// The word; without it the object is about something else.
    pub task: Option<String>,
    /// When to ask again, with `notYet`.
    pub retry_after_seconds: Option<u32>,
    /// For people.
    #[serde(default)]
    pub message: String,
}

impl Said {
    /// What the words mean; `None` where nothing is said about a task.
    ///
    /// # Errors
    /// If the word is none of the three.
    pub fn verdict(&self) -> Result<Option<Verdict>, String> {
        let Some(task) = &self.task else { return Ok(None) };
        Ok(Some(match TaskWord::parse(task)? {
            TaskWord::Go => Verdict::Go,
            TaskWord::NotYet => not_yet(self.retry_after_seconds),
            TaskWord::Never => Verdict::Never,
        }))
    }
}

/// "Not yet", within bounds.
#[must_use]
pub fn not_yet(retry_after_seconds: Option<u32>) -> Verdict {
    let seconds = retry_after_seconds.unwrap_or(RETRY_AFTER_SECONDS);
    Verdict::NotYet { retry_after_seconds: seconds.clamp(1, LONGEST_RETRY_AFTER_SECONDS) }
}

/// What an HTTP answer means. `is_cut` says that the body was longer than is read.
#[must_use]
pub fn of_http(status: u16, retry_after: Option<&str>, body: &[u8], is_cut: bool) -> (Verdict, String) {
    let text = || String::from_utf8_lossy(body).trim().to_owned();
    match status {
        200..=299 => of_body(body, is_cut).unwrap_or_else(|| (Verdict::Go, text())),
        // A date is understood as "later".
        503 if retry_after.is_some() => (not_yet(retry_after.and_then(|seconds| seconds.trim().parse().ok())), text()),
        _ => (Verdict::Failed, format!("HTTP {status}: {}", text())),
    }
}

/// What the body says of a task, if it does.
fn of_body(body: &[u8], is_cut: bool) -> Option<(Verdict, String)> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    // What begins like the object may have been meant as a "never".
    if is_cut {
        return Some((Verdict::Failed, format!("the answer is longer than {} bytes", body.len())));
    }
    let said: Said = match serde_json::from_slice(body) {
        Ok(said) => said,
        Err(error) => return Some((Verdict::Failed, format!("the answer can't be understood: {error}"))),
    };
    match said.verdict() {
        Ok(None) => None,
        Ok(Some(verdict)) => Some((verdict, said.message)),
        Err(why) => Some((Verdict::Failed, why)),
    }
}

/// What the end of a command means (`EX_TEMPFAIL`, `EX_NOPERM` of sysexits.h).
#[must_use]
pub fn of_exit_code(code: i32) -> Verdict {
    match code {
        0 => Verdict::Go,
        75 => not_yet(None),
        77 => Verdict::Never,
        _ => Verdict::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_the_table_says() {
        let later = |retry_after_seconds| Verdict::NotYet { retry_after_seconds };
        let table: [(u16, Option<&str>, &str, Verdict, &str); 15] = [
            (200, None, "", Verdict::Go, ""),
            (204, None, "", Verdict::Go, ""),
            (200, None, "flushed\n", Verdict::Go, "flushed"),
            (200, None, r#"{"status": "fine"}"#, Verdict::Go, r#"{"status": "fine"}"#),
            (200, None, r#"{"task": "go", "message": "as you like"}"#, Verdict::Go, "as you like"),
            (200, None, r#"{"task": "notYet"}"#, later(30), ""),
            (200, None, r#"{"task": "notYet", "retryAfterSeconds": 7}"#, later(7), ""),
            (200, None, r#"{"task": "notYet", "retryAfterSeconds": 0}"#, later(1), ""),
            (200, None, r#"{"task": "notYet", "retryAfterSeconds": 99999}"#, later(3600), ""),
            (200, None, r#"{"task": "never", "message": "I lead"}"#, Verdict::Never, "I lead"),
            (200, None, r#"{"task": "Go"}"#, Verdict::Failed, "the task is \"Go\"; use go, notYet or never"),
            (503, Some("12"), "busy", later(12), "busy"),
            (503, Some("Wed, 21 Oct 2026 07:28:00 GMT"), "", later(30), ""),
            (503, None, "down", Verdict::Failed, "HTTP 503: down"),
            (302, None, "", Verdict::Failed, "HTTP 302: "),
        ];
        for (status, retry_after, body, verdict, output) in table {
            let answer = of_http(status, retry_after, body.as_bytes(), false);
            assert_eq!(answer, (verdict, output.to_owned()), "{status} {body}");
        }
    }

    #[test]
    fn a_word_that_may_have_been_cut_off_or_misspelt_is_no_go() {
        for body in [r#"{"task": "never""#, r#"{"task": "notYet", "retryAfterSeconds": "7"}"#, "{never}"] {
            let (verdict, output) = of_http(200, None, body.as_bytes(), false);
            assert!(verdict == Verdict::Failed && output.starts_with("the answer can't be understood: "), "{output}");
        }
        assert_eq!(of_http(200, None, b"{\"a\": \"xxxx", true).0, Verdict::Failed);
        assert_eq!(of_http(200, None, b"<html>xxxx", true).0, Verdict::Go);
    }

    #[test]
    fn exit_codes_are_those_of_sysexits() {
        let verdicts = [0, 75, 77, 1, 127, -1].map(of_exit_code);
        let later = Verdict::NotYet { retry_after_seconds: 30 };
        let failed = Verdict::Failed;
        assert_eq!(verdicts, [Verdict::Go, later, Verdict::Never, failed, failed, failed]);
    }
}
