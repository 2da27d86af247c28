//! The client of KusionStack's tutorial: workers that send requests one after the other, and a line for every fifty of them.

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::FailureKind;
use crate::connection::{Connection, Idle};

/// Requests that one line is about.
pub const LOOP: u32 = 50;

/// What the tutorial's command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where to.
    pub target: SocketAddr,
    /// Path of the URL.
    pub path: String,
    /// Method.
    pub method: String,
    /// Requests that a worker sends in a second.
    pub per_second: u32,
    /// Number of workers.
    pub workers: u32,
    /// Longest time for one request, in milliseconds.
    pub timeout_milliseconds: u64,
}

/// Why a command line can't be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    /// No such flag.
    #[error("{0} is no flag of this client: use -url, -m, -qps, -worker, -timeout")]
    Unknown(String),
    /// A flag without a value that fits.
    #[error("{flag} {value}: not a value that can be used")]
    Value {
        /// The flag.
        flag: String,
        /// What was given.
        value: String,
    },
    /// There is nothing to send requests to.
    #[error("-url is missing: http://ADDRESS[:PORT]/PATH")]
    NoUrl,
}

impl Settings {
    /// Reads the arguments. The tutorial gives `d operating-tutorial`, which is no flag, and means it for a body.
    ///
    /// # Errors
    /// If there is a flag or a value that is not understood.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, SettingsError> {
        let (mut target, mut method) = (None, "GET".to_owned());
        let (mut per_second, mut workers, mut timeout_milliseconds) = (10, 1, 10_000);
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let wrong = || SettingsError::Value { flag: flag.clone(), value: value.clone() };
            let number = || value.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(wrong);
            match flag.trim_start_matches('-') {
                "url" => target = Some(url(&value).ok_or_else(wrong)?),
                "m" => method.clone_from(&value),
                "qps" => per_second = number()?,
                "worker" => workers = number()?,
                "timeout" => timeout_milliseconds = number()?.into(),
                "d" => {}
                _ => return Err(SettingsError::Unknown(flag)),
            }
        }
        let (target, path) = target.ok_or(SettingsError::NoUrl)?;
        Ok(Self { target, path, method, per_second, workers, timeout_milliseconds })
    }
}

/// Address and path of an `http` URL without a name to look up.
fn url(url: &str) -> Option<(SocketAddr, String)> {
    let rest = url.strip_prefix("http://")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = host.parse().ok().or_else(|| Some(SocketAddr::new(host.parse().ok()?, 80)))?;
    Some((address, format!("/{path}")))
}

/// One of the workers; it never ends. A connection is kept alive from one request to the next, and no request is sent twice.
pub async fn work(index: u32, settings: &Settings) {
    let Settings { target, path, method, per_second, timeout_milliseconds, .. } = settings;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {target}\r\nContent-Length: 0\r\n\r\n");
    let limit = Duration::from_millis(*timeout_milliseconds);
    let mut due = interval(Duration::from_secs(1) / *per_second);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut connection, mut failed): (Option<Connection>, u32) = (None, 0);
    loop {
        for _ in 0..LOOP {
            due.tick().await;
            connection = connection.filter(|known| known.idle() == Idle::Usable);
            let outcome = timeout(limit, exchange(connection.take(), *target, request.as_bytes())).await;
            match outcome.unwrap_or(Err(FailureKind::Timeout)) {
                Ok(kept) => connection = kept,
                Err(kind) => {
                    failed += 1;
                    println!("worker-{index} fails to request {method} http://{target}{path} : {kind:?}");
                }
            }
        }
        println!("worker-{index} another loop, request: {LOOP}, failed: {failed}");
        failed = 0;
    }
}

/// One request, on a connection of its own if there is none; the connection, if it can be used again.
async fn exchange(
    known: Option<Connection>,
    target: SocketAddr,
    request: &[u8],
) -> Result<Option<Connection>, FailureKind> {
    let mut connection = match known {
        Some(known) => known,
        None => Connection::open(target).await.map_err(|error| FailureKind::from(&error))?,
    };
    let answer = connection.exchange(request).await.map_err(|failed| failed.kind)?;
    Ok((!answer.closes).then_some(connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings, SettingsError> {
        Settings::parse(line.split_whitespace().map(ToOwned::to_owned))
    }

    #[test]
    fn the_tutorials_arguments_are_understood() {
        let line = "-url http://10.0.0.1/echo -m POST d operating-tutorial -qps 10 -worker 10 -timeout 10000";
        let expected = Settings {
            target: "10.0.0.1:80".parse().unwrap(),
            path: "/echo".to_owned(),
            method: "POST".to_owned(),
            per_second: 10,
            workers: 10,
            timeout_milliseconds: 10_000,
        };
        assert_eq!(parse(line), Ok(expected));
    }

    #[test]
    fn what_can_not_be_used_is_named() {
        assert_eq!(parse("-m POST"), Err(SettingsError::NoUrl));
        assert_eq!(parse("-nonsense 1"), Err(SettingsError::Unknown("-nonsense".to_owned())));
        let wrong = |flag: &str, value: &str| Err(SettingsError::Value { flag: flag.into(), value: value.into() });
        assert_eq!(parse("-url https://10.0.0.1/"), wrong("-url", "https://10.0.0.1/"));
        assert_eq!(parse("-url http://<EXTERNAL_IP>/echo"), wrong("-url", "http://<EXTERNAL_IP>/echo"));
        assert_eq!(parse("-url http://10.0.0.1 -qps 0"), wrong("-qps", "0"));
    }
}
