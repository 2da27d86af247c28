//! Logs, and what this build is.

use std::str::FromStr;

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;

/// Version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit of this build, as far as `build.rs` was told or has found it.
pub const COMMIT: &str = match option_env!("HITLESS_COMMIT") {
    Some(commit) if !commit.is_empty() => commit,
    Some(_) | None => "unknown",
};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line, for collectors.
    Json,
    /// For people.
    #[default]
    Text,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err("choose json or text"),
        }
    }
}

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter does not parse.
    #[error("the log filter {filter:?} is not usable: {why}; write for example info or hitless_agent=debug,info")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What the parser said.
        why: String,
    },
    /// Somebody else in this process has set up logging.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Writes log lines to stderr that pass `filter` (syntax of `RUST_LOG`, e.g. `info,kube=warn`).
pub fn init(filter: &str, format: Format) -> Result<(), TelemetryError> {
    let parsed = EnvFilter::try_new(filter)
        .map_err(|why| TelemetryError::Filter { filter: filter.to_owned(), why: why.to_string() })?;
    let builder = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(std::io::stderr);
    match format {
        Format::Json => builder.json().flatten_event(true).try_init(),
        Format::Text => builder.with_ansi(false).try_init(),
    }
    .map_err(|_| TelemetryError::AlreadySet)
}

/// Registers `hitless_build_info`.
pub fn register_build(registry: &mut Registry) {
    registry.register(
        "hitless_build",
        "Version and commit of this build",
        Info::new([("version", VERSION), ("commit", COMMIT)]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_filter_is_named() {
        let error = init("a=b=c", Format::Text).unwrap_err();
        assert!(error.to_string().contains("a=b=c"), "{error}");
    }

    #[test]
    fn formats_parse() {
        assert_eq!("json".parse(), Ok(Format::Json));
        assert_eq!("xml".parse::<Format>(), Err("choose json or text"));
    }
}
