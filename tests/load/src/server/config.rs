//! Settings of the reference server, all from the environment, as a pod sets them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Everything the server can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// `PORT`, default 8080; 0 takes any free one.
    pub port: u16,
    /// `VERSION`, first word of every answer, default `v0`.
    pub version: String,
    /// `HOSTNAME`, second word: the pod's name.
    pub hostname: String,
    /// Third word, `<pid>-<start in ms since 1970>`: another one after every restart, also where the pid is always 1.
    pub start_id: String,
    /// `MODE`, `naive` (default) or `graceful`.
    pub mode: Mode,
    /// `START_DELAY` in milliseconds before the server listens, default 0.
    pub start_delay: Duration,
    /// `HOOK`, what hooks on `/hook` are answered, one after another, the last one again and again: `go` (default), `notYet`,
    /// `never` or `fail`, separated by commas.
    pub hook: Vec<String>,
    /// `FAIL`, `exit` (or `1`) or `unready`; default: do not fail.
    pub fail: Option<Fail>,
}

/// What SIGTERM does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The process exits at once, whatever is under way: the worst case.
    Naive,
    /// The listener is closed at once, idle connections get a FIN, requests under way are finished; then it exits.
    Graceful,
}

/// How a bad version behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// Exit code 1 at start.
    Exit,
    /// `/healthz` answers 500 for ever.
    Unready,
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name}={value:?} cannot be used: expected {expected}")]
pub struct ServerConfigError {
    name: &'static str,
    value: String,
    expected: &'static str,
}

impl ServerConfig {
    /// Reads the settings through `setting`, usually the environment. Empty counts as not set.
    pub fn read(setting: impl Fn(&str) -> Option<String>) -> Result<Self, ServerConfigError> {
        let setting = |name: &str| setting(name).filter(|value| !value.is_empty());
        let mode = match setting("MODE").as_deref() {
            None | Some("naive") => Mode::Naive,
            Some("graceful") => Mode::Graceful,
            Some(other) => return Err(refuse("MODE", other, "naive or graceful")),
        };
        let fail = match setting("FAIL").as_deref() {
            None | Some("0") => None,
            Some("1" | "exit") => Some(Fail::Exit),
            Some("unready") => Some(Fail::Unready),
            Some(other) => return Err(refuse("FAIL", other, "exit or unready")),
        };
        Ok(Self {
            port: number("PORT", setting("PORT"), 8080, "a port number")?,
            version: word("VERSION", setting("VERSION"), "v0")?,
            hostname: word("HOSTNAME", setting("HOSTNAME"), "-")?,
            start_id: start_id(),
            mode,
            start_delay: Duration::from_millis(
                number("START_DELAY", setting("START_DELAY"), 0_u32, "milliseconds")?.into(),
            ),
            hook: setting("HOOK").unwrap_or_else(|| "go".to_owned()).split(',').map(str::to_owned).collect(),
            fail,
        })
    }
}

fn number<T: std::str::FromStr>(
    name: &'static str,
    value: Option<String>,
    default: T,
    expected: &'static str,
) -> Result<T, ServerConfigError> {
    value.map_or(Ok(default), |value| value.parse().map_err(|_| refuse(name, &value, expected)))
}

/// Answers are words separated by spaces, so a value must be one word.
fn word(name: &'static str, value: Option<String>, default: &str) -> Result<String, ServerConfigError> {
    let value = value.unwrap_or_else(|| default.to_owned());
    if value.len() <= 128 && value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(value);
    }
    Err(refuse(name, &value, "one word of at most 128 printable ASCII characters"))
}

fn refuse(name: &'static str, value: &str, expected: &'static str) -> ServerConfigError {
    ServerConfigError { name, value: value.to_owned(), expected }
}

fn start_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, value: &'static str) -> Result<ServerConfig, ServerConfigError> {
        ServerConfig::read(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn defaults_are_the_worst_case_on_port_8080() {
        let config = ServerConfig::read(|_| None).unwrap();
        assert_eq!((config.port, config.mode, config.fail), (8080, Mode::Naive, None));
        assert_eq!((&*config.version, config.start_delay), ("v0", Duration::ZERO));
    }

    #[test]
    fn each_setting_is_read() {
        assert_eq!(read("PORT", "0").unwrap().port, 0);
        assert_eq!(read("MODE", "graceful").unwrap().mode, Mode::Graceful);
        assert_eq!(read("START_DELAY", "250").unwrap().start_delay, Duration::from_millis(250));
        assert_eq!(read("FAIL", "1").unwrap().fail, Some(Fail::Exit));
        assert_eq!(read("FAIL", "unready").unwrap().fail, Some(Fail::Unready));
        assert_eq!(read("VERSION", "v2").unwrap().version, "v2");
        assert_eq!(read("HOSTNAME", "web-0").unwrap().hostname, "web-0");
    }

    #[test]
    fn a_bad_setting_is_named() {
        for (name, value) in [
            ("PORT", "x"),
            ("PORT", "70000"),
            ("MODE", "kind"),
            ("FAIL", "maybe"),
            ("VERSION", "v 1"),
            ("START_DELAY", "-1"),
        ] {
            let error = read(name, value).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}={value:?}")), "{error}");
        }
    }
}
