//! What can go wrong with a cluster, in words that say what to do about it.

use std::path::PathBuf;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be used.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program ended with an error.
    #[error("`{command}` failed ({status}): {output}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it wrote, standard error first.
        output: String,
    },
    /// A process of the cluster has died.
    #[error(
        "{part} has died; the end of {log}:\n{tail}\n\
         `cargo xtask cluster down --name {cluster}` and `up` make the cluster anew", log = log.display()
    )]
    Died {
        /// Of which cluster.
        cluster: String,
        /// Which one, for instance `n1/kubelet`.
        part: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// Something did not become ready in time.
    #[error("{what} was not ready after {seconds} s{last}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long, in seconds.
        seconds: u64,
        /// What the last try said, with its separator, or nothing.
        last: String,
    },
    /// This machine lacks something.
    #[error("{0}")]
    Requirement(String),
    /// The caller asked for something that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// No cluster has that name.
    #[error(
        "there is no cluster {0:?}: `cargo xtask cluster list` shows what there is, `cargo xtask cluster up --name {0}` makes one"
    )]
    NoCluster(String),
    /// A cluster was not completely made; it cannot be used.
    #[error(
        "cluster {0:?} is half-made: `cargo xtask cluster up --name {0}` makes it anew, `cargo xtask cluster down --name {0}` removes it"
    )]
    HalfMade(String),
    /// A certificate could not be made.
    #[error("cannot make the certificate of {subject}: {source}")]
    Certificate {
        /// Whose.
        subject: String,
        /// Why.
        source: rcgen::Error,
    },
    /// A file of the cluster is not what it should be.
    #[error("cannot read {path}: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The image registry refused something.
    #[error("the registry answered {status} to {request}: {body}")]
    Registry {
        /// Method and path.
        request: String,
        /// HTTP status code; 0 when there was no HTTP answer.
        status: u16,
        /// What it said.
        body: String,
    },
    /// A Dockerfile cannot be built by this crate's small reader.
    #[error("Dockerfile line {line}: {message}")]
    Dockerfile {
        /// Line number, from 1; 0 for the file as a whole.
        line: usize,
        /// What is wrong and what to do.
        message: String,
    },
}

impl Error {
    /// For `map_err` on operations on a path.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
