//! The little HTTP that the registry and health checks need: one request, one connection, inside a namespace.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// By this name the registry knows who pushes images: it meets no faults.
const USER_AGENT: &str = "hitless-cluster";
/// How long one request may take.
const LIMIT: Duration = Duration::from_mins(1);

/// What a server answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    /// The value of a header, whatever its case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn parse(raw: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(raw);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect();
        Some(Self { status, headers, body: body.to_owned() })
    }
}

/// Sends a request from the namespace of the calling thread.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    content_type: &str,
    body: &[u8],
) -> std::io::Result<Response> {
    let invalid = |what: String| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: {USER_AGENT}\r\nConnection: close\r\n\
         Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw)?;
    Response::parse(&raw).ok_or_else(|| invalid("the answer is not HTTP".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let raw = b"HTTP/1.1 202 Accepted\r\nLocation: http://r/v2/x?_state=a:b\r\nContent-Length: 2\r\n\r\nok";
        let response = Response::parse(raw).unwrap();
        assert_eq!((response.status, response.body.as_str()), (202, "ok"));
        assert_eq!(response.header("location"), Some("http://r/v2/x?_state=a:b"));
        assert_eq!(Response::parse(b"garbage"), None);
    }
}
