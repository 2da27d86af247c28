//! What happened, for people: kept only when somebody asked for it.

use std::fmt;

use crate::clock::{Micros, shown};

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Controller(usize),
    Agent(usize),
    Kubelet(usize),
    Kubernetes,
    User,
    Server,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(index) => f.pad(&format!("controller-{index}")),
            Self::Agent(index) => f.pad(&format!("agent-{index}")),
            Self::Kubelet(index) => f.pad(&format!("kubelet-{index}")),
            Self::Kubernetes => f.pad("kubernetes"),
            Self::User => f.pad("user"),
            Self::Server => f.pad("api-server"),
        }
    }
}

/// The lines so far.
#[derive(Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(on: bool) -> Self {
        Self { lines: on.then(Vec::new) }
    }

    /// Notes one line, if anybody wants to know.
    pub(crate) fn say(&mut self, at: Micros, who: Who, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{} {who:<13} {}", shown(at), what()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
