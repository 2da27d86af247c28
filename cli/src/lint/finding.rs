//! What was found.

use std::fmt::Write;

use serde::Serialize;

use crate::files::{Object, Unreadable};
use crate::output;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Error,
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) file: String,
    /// From 1; 0 if it is about the whole file.
    pub(super) line: u64,
    pub(super) severity: Severity,
    /// `<kind>/<name>`; empty if it is about the file.
    pub(super) object: String,
    /// What is wrong and what to do.
    pub(super) text: String,
}

impl Finding {
    pub(super) fn error(object: &Object, line: u64, text: impl AsRef<str>) -> Self {
        Self::new(Severity::Error, object, line, text.as_ref())
    }

    pub(super) fn warning(object: &Object, line: u64, text: impl AsRef<str>) -> Self {
        Self::new(Severity::Warning, object, line, text.as_ref())
    }

    fn new(severity: Severity, object: &Object, line: u64, text: &str) -> Self {
        let name = output::one_line(&format!("{}/{}", object.kind(), object.name()));
        Self { file: object.file.clone(), line, severity, object: name, text: output::one_line(text) }
    }

    pub(super) fn unreadable(what: Unreadable) -> Self {
        let Unreadable { file, line, text } = what;
        Self { file, line, severity: Severity::Error, object: String::new(), text: output::one_line(&text) }
    }

    pub(super) fn is_error_of(&self, object: &Object) -> bool {
        self.severity == Severity::Error
            && self.file == object.file
            && self.object == output::one_line(&format!("{}/{}", object.kind(), object.name()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) objects: usize,
    pub(super) errors: usize,
    pub(super) warnings: usize,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(mut findings: Vec<Finding>, objects: usize) -> Self {
        findings.sort();
        findings.dedup();
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        Self { objects, errors, warnings: findings.len() - errors, findings }
    }

    /// The same, and these.
    pub(super) fn with(mut self, findings: Vec<Finding>) -> Self {
        self.findings.extend(findings);
        Self::new(self.findings, self.objects)
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            let line = if finding.line > 0 { format!(":{}", finding.line) } else { String::new() };
            let object = if finding.object.is_empty() { String::new() } else { format!(" {}:", finding.object) };
            let _ = writeln!(out, "{}{line}: {severity}:{object} {}", finding.file, finding.text);
        }
        let count = output::count;
        let (errors, warnings) = (count(self.errors, "error"), count(self.warnings, "warning"));
        let _ = writeln!(out, "{}, {errors}, {warnings}", count(self.objects, "object"));
        out
    }
}
