//! One client connection: sending a request, reading its answer, noticing its end while idle.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::FailureKind;
use crate::recorder::Answerer;

const MAX_ANSWER_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 64;

/// A TCP connection that carries one request at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// The pod that answered last, once one did.
    answered_by: Option<String>,
}

/// A complete 2xx answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) answerer: Answerer,
    /// The server will close the connection.
    pub(crate) closes: bool,
}

/// An exchange that brought no good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) kind: FailureKind,
    pub(crate) answer_begun: bool,
}

/// What the kernel knows about a connection on which no request is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    Usable,
    /// FIN, or bytes that nobody asked for: either way the connection is over without harm.
    Closed,
    Reset,
}

impl Connection {
    /// One that is given up before it is open goes on by itself, so that nobody gets its port meanwhile: a node's connection tracking knows
    /// for two minutes to which pod an unanswered SYN from there went, and would send the next one to it, too, gone or not.
    pub(crate) async fn open(target: SocketAddr) -> io::Result<Self> {
        let stream = tokio::spawn(TcpStream::connect(target)).await.map_err(io::Error::other)??;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answered_by: None })
    }

    /// The pod at the other end, known once it has answered; so also whether the connection has been used before.
    pub(crate) fn answered_by(&self) -> Option<&str> {
        self.answered_by.as_deref()
    }

    /// Sends `request` and reads the whole answer. The caller bounds the time; a connection that failed is dropped.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer, Failed> {
        let fail = |kind, bytes: &[u8]| Failed { kind, answer_begun: !bytes.is_empty() };
        let mut bytes = Vec::with_capacity(512);
        self.stream.write_all(request).await.map_err(|error| fail((&error).into(), &bytes))?;
        loop {
            let read = self.stream.read_buf(&mut bytes).await.map_err(|error| fail((&error).into(), &bytes))?;
            match parse(&bytes, read == 0).map_err(|kind| fail(kind, &bytes))? {
                Some(answer) => {
                    self.answered_by = Some(answer.answerer.pod.clone());
                    return Ok(answer);
                }
                None if read == 0 => return Err(fail(FailureKind::Eof, &bytes)),
                None => {}
            }
        }
    }

    /// Asks the kernel itself, because the runtime may not have been told yet of a FIN that is already here.
    pub(crate) fn idle(&self) -> Idle {
        match recv(&self.stream, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => Idle::Usable,
            Ok(_) => Idle::Closed,
            Err(_) => Idle::Reset,
        }
    }

    /// Waits until an idle connection ends.
    pub(crate) async fn idle_end(&self) -> Idle {
        match self.stream.peek(&mut [0_u8; 1]).await {
            Ok(_) => Idle::Closed,
            Err(_) => Idle::Reset,
        }
    }
}

/// The answer, if `bytes` hold it whole; `ended` says that no more will come.
fn parse(bytes: &[u8], ended: bool) -> Result<Option<Answer>, FailureKind> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(status) = head.parse(bytes) else { return Err(FailureKind::Malformed) };
    let httparse::Status::Complete(head_length) = status else {
        return if bytes.len() > MAX_ANSWER_BYTES { Err(FailureKind::Malformed) } else { Ok(None) };
    };
    let mut length = None;
    let mut closes = head.version == Some(0);
    for header in head.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            length = Some(parse_length(header.value).ok_or(FailureKind::Malformed)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(FailureKind::Malformed);
        } else if header.name.eq_ignore_ascii_case("connection") {
            closes |= header.value.eq_ignore_ascii_case(b"close");
        }
    }
    let body = bytes.get(head_length..).unwrap_or_default();
    let complete = match length {
        Some(length) if body.len() > length => return Err(FailureKind::Malformed),
        Some(length) => body.len() == length,
        // Without a length the body lasts until the connection ends (RFC 9112 §6.3).
        None => ended,
    };
    if !complete {
        return if body.len() > MAX_ANSWER_BYTES { Err(FailureKind::Malformed) } else { Ok(None) };
    }
    if !matches!(head.code, Some(200..300)) {
        return Err(FailureKind::BadStatus);
    }
    Ok(Some(Answer { answerer: Answerer::parse(body), closes: closes || length.is_none() }))
}

fn parse_length(value: &[u8]) -> Option<usize> {
    let length = str::from_utf8(value).ok()?.trim().parse().ok()?;
    (length <= MAX_ANSWER_BYTES).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: &str, ended: bool) -> Result<Option<bool>, FailureKind> {
        parse(bytes.as_bytes(), ended).map(|answer| answer.map(|answer| answer.closes))
    }

    #[test]
    fn an_answer_is_complete_at_its_length() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nv1 pod-0\n";
        for cut in 0..whole.len() {
            assert_eq!(kind(&whole[..cut], false), Ok(None), "cut at {cut}");
        }
        assert_eq!(kind(whole, false), Ok(Some(false)));
        assert_eq!(kind(&format!("{whole}x"), false), Err(FailureKind::Malformed));
    }

    #[test]
    fn an_announced_end_is_seen() {
        assert_eq!(kind("HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 0\r\n\r\n", false), Ok(Some(true)));
        assert_eq!(kind("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", false), Ok(Some(true)));
        assert_eq!(kind("HTTP/1.1 200 OK\r\n\r\nv1", false), Ok(None));
        assert_eq!(kind("HTTP/1.1 200 OK\r\n\r\nv1", true), Ok(Some(true)));
    }

    #[test]
    fn what_is_no_good_answer_is_named() {
        assert_eq!(kind("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", false), Err(FailureKind::BadStatus));
        assert_eq!(kind("SSH-2.0-x\r\n\r\n", false), Err(FailureKind::Malformed));
        assert_eq!(kind("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", false), Err(FailureKind::Malformed));
        assert_eq!(kind("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", false), Err(FailureKind::Malformed));
    }

    #[test]
    fn the_answer_names_version_pod_and_process() {
        let answerer = Answerer::parse(b"v2 web-7 1-1764\n");
        assert_eq!((&*answerer.version, &*answerer.pod, &*answerer.instance), ("v2", "web-7", "web-7/1-1764"));
        assert_eq!(Answerer::parse(b"").instance, "-/-");
    }
}
