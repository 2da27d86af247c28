//! Requests of the reference server: GET, or POST with an empty body, answered in a line.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io;

use super::{Fail, ServerConfig};

const MAX_REQUEST_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;
const MAX_DELAY: Duration = Duration::from_mins(1);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Usual,
    Health,
    Hook,
}

/// What matters of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Its method is one that is answered, and no body follows.
    is_plain: bool,
    route: Route,
    /// How long the answer is to take.
    pub(super) delay: Duration,
    /// The client wants no further answer on this connection.
    pub(super) closes: bool,
}

impl Request {
    /// Takes a whole request off the front of `buffer`; `None` while it is incomplete.
    pub(super) fn take(buffer: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let parsed = head.parse(buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let httparse::Status::Complete(length) = parsed else {
            if buffer.len() > MAX_REQUEST_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            return Ok(None);
        };
        let has = |name: &str, value: &[u8]| {
            head.headers
                .iter()
                .any(|header| header.name.eq_ignore_ascii_case(name) && header.value.eq_ignore_ascii_case(value))
        };
        let (path, query) = head.path.map_or(("", ""), |path| path.split_once('?').unwrap_or((path, "")));
        let is_plain = head.method == Some("GET") || (head.method == Some("POST") && has("content-length", b"0"));
        // Where a body may follow, the next request cannot be found: such a connection ends after its answer.
        let closes = !is_plain || head.version == Some(0) || has("connection", b"close");
        let route = match path {
            "/healthz" => Route::Health,
            "/hook" => Route::Hook,
            _ => Route::Usual,
        };
        let request = Self { is_plain, route, delay: delay(query), closes };
        buffer.drain(..length);
        Ok(Some(request))
    }

    /// The bytes of the answer; `closes` announces the end of the connection, `hooks` counts the hooks so far.
    pub(super) fn answer(&self, config: &ServerConfig, hooks: &AtomicUsize, closes: bool) -> Vec<u8> {
        let (status, body) = if self.route == Route::Hook {
            let before = hooks.fetch_add(1, Ordering::Relaxed);
            hook(config, before)
        } else if !self.is_plain {
            ("405 Method Not Allowed", "only GET, or POST with an empty body\n".to_owned())
        } else if self.route != Route::Health {
            ("200 OK", format!("{} {} {}\n", config.version, config.hostname, config.start_id))
        } else if config.fail == Some(Fail::Unready) {
            ("500 Internal Server Error", "unready, as FAIL=unready asks\n".to_owned())
        } else {
            ("200 OK", "ok\n".to_owned())
        };
        let connection = if closes { "Connection: close\r\n" } else { "" };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n{connection}");
        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }
}

/// What the hook after so many others is answered.
fn hook(config: &ServerConfig, before: usize) -> (&'static str, String) {
    match config.hook.get(before).or(config.hook.last()).map(String::as_str) {
        Some("fail") => ("500 Internal Server Error", "failing, as HOOK asks\n".to_owned()),
        word => {
            let (word, call) = (word.unwrap_or("go"), before + 1);
            ("200 OK", format!("{{\"task\": \"{word}\", \"retryAfterSeconds\": 5, \"message\": \"call {call}\"}}\n"))
        }
    }
}

/// `d=MS` of the query, at most [`MAX_DELAY`]; anything else is no delay.
fn delay(query: &str) -> Duration {
    let millis = query.split('&').find_map(|pair| pair.strip_prefix("d=")).and_then(|value| value.parse().ok());
    Duration::from_millis(millis.unwrap_or(0)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_one_by_one() {
        let mut buffer =
            b"GET /?d=20 HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nConnection: Close\r\n\r\nGET".to_vec();
        let first = Request::take(&mut buffer).unwrap().unwrap();
        assert_eq!((first.delay, first.route, first.closes), (Duration::from_millis(20), Route::Usual, false));
        let second = Request::take(&mut buffer).unwrap().unwrap();
        assert_eq!((second.delay, second.route, second.closes), (Duration::ZERO, Route::Health, true));
        assert_eq!(Request::take(&mut buffer).unwrap(), None);
        assert_eq!(buffer, b"GET");
    }

    #[test]
    fn other_methods_are_refused_and_end_the_connection() {
        let mut buffer = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".to_vec();
        let request = Request::take(&mut buffer).unwrap().unwrap();
        assert!(request.closes);
        let config = ServerConfig::read(|_| None).unwrap();
        assert!(request.answer(&config, &AtomicUsize::new(0), true).starts_with(b"HTTP/1.1 405 "));
    }

    #[test]
    fn hooks_are_answered_one_after_another_whatever_their_method() {
        let request = Request::take(&mut b"POST /hook HTTP/1.1\r\n\r\n".to_vec()).unwrap().unwrap();
        let config = ServerConfig::read(|name| (name == "HOOK").then(|| "notYet,fail,go".to_owned())).unwrap();
        let hooks = AtomicUsize::new(0);
        for words in ["\"notYet\"", "HTTP/1.1 500 ", "\"go\"", "\"message\": \"call 4\""] {
            let answer = String::from_utf8(request.answer(&config, &hooks, true)).unwrap();
            assert!(answer.contains(words), "{answer}");
        }
    }

    #[test]
    fn rubbish_and_endless_heads_are_errors() {
        assert!(Request::take(&mut b"\0\0\0\r\n\r\n".to_vec()).is_err());
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(MAX_REQUEST_BYTES));
        assert!(Request::take(&mut endless.into_bytes()).is_err());
    }

    #[test]
    fn an_odd_delay_is_none_and_a_long_one_is_cut() {
        assert_eq!(delay("d=x"), Duration::ZERO);
        assert_eq!(delay("a=b&d=5"), Duration::from_millis(5));
        assert_eq!(delay("d=99999999"), MAX_DELAY);
    }
}
