//! Verdicts in words: what is in the way, and the smallest change that would unblock.

use std::fmt;

use super::{Denies, Reason, RuleVerdict, Verdict};

impl RuleVerdict {
    /// Why, in words and numbers. Where upstream has a text that operators look for, it begins with exactly that text.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.because {
            because @ Reason::Denies(Denies::MaxUnavailable { .. }) => format!("[{}] {because}", self.rule_name()),
            because => because.to_string(),
        }
    }

    /// The smallest change that would unblock the pod, in words; `None` where nothing is in the way.
    #[must_use]
    pub fn unblock(&self) -> Option<String> {
        self.denies().and_then(Denies::unblock)
    }
}

impl fmt::Display for RuleVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.reason())
    }
}

impl fmt::Display for Verdict {
    /// One line for the pod, one for each rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.pod.is_empty() { &self.pod_uid } else { &self.pod };
        write!(f, "{name}: {}", if self.allowed { "may go" } else { "waits" })?;
        for rule in &self.rules {
            let mark = if rule.is_allowed() { "+" } else { "-" };
            write!(f, "\n  {mark} {rule}")?;
        }
        Ok(())
    }
}

pub(super) fn pods(count: u64) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

pub(super) fn others(count: u64) -> String {
    if count == 1 { "1 other is".to_owned() } else { format!("{count} others are") }
}

/// ` (<message>)`, or nothing.
pub(super) fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
