//! Why a command did not end well: what is wrong, why, what to do, and the exit code (docs/contract.md#units-and-exit-codes).

use crate::kubeconfig::ConnectError;
use hitless_runtime::write::WriteError;

/// Exit code for a wrong command line.
pub(crate) const USAGE: u8 = 2;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Client(#[from] ConnectError),
    #[error(
        "hitless is not installed in this cluster (it knows no NodeTransition); install it with: kubectl apply -k manifests/crds, kubectl apply -k manifests"
    )]
    NotInstalled,
    #[error("can't reach the API server: {0}; is --kubeconfig or --context the right one?")]
    Unreachable(String),
    #[error("may not {what}: {message}; ask for a role that allows it")]
    Forbidden { what: String, message: String },
    #[error(
        "can't {what}: the kind is not installed in this cluster; install it: kubectl apply -k manifests/crds, kubectl apply -k manifests"
    )]
    NotServed { what: String },
    #[error("can't {what}: {message}")]
    Api { what: String, message: String },
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Blocked(String),
    #[error("{0}")]
    TimedOut(String),
    #[error("can't write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    /// What an answer of the API server means for the user who wanted to `what`, e.g. "list pods".
    pub(crate) fn of(what: impl Into<String>, error: WriteError) -> Self {
        let what = what.into();
        match error {
            WriteError::Denied { message } => Self::Forbidden { what, message },
            WriteError::Transient { message, .. } => Self::Unreachable(message),
            WriteError::Conflict { message } | WriteError::Gone { message } | WriteError::Invalid { message } => {
                Self::Api { what, message }
            }
        }
    }

    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Client(_)
            | Self::NotInstalled
            | Self::Unreachable(_)
            | Self::Forbidden { .. }
            | Self::NotServed { .. }
            | Self::Api { .. }
            | Self::NotFound(_)
            | Self::Failed(_)
            | Self::Output(_) => 1,
            Self::Usage(_) => USAGE,
            Self::Blocked(_) => 3,
            Self::TimedOut(_) => 4,
        }
    }
}
