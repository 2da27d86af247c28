//! A server that does to its n-th connection what the test says, and answers all others.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nv1 web-0 1";

/// What to do with a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Answer,
    /// Answer, then FIN without announcing it.
    AnswerThenClose,
    /// Answer, then RST while idle.
    AnswerThenReset,
    /// Answer with a header that announces the end.
    AnswerAndAnnounceClose,
    /// RST instead of an answer.
    Reset,
    /// FIN instead of an answer.
    Close,
    /// FIN in the middle of the answer.
    CloseHalfway,
    /// No answer, the connection stays open.
    Silence,
    /// Status 503.
    Unavailable,
}

/// Dropping it closes everything.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// The n-th connection follows the n-th list, then answers; connections beyond the lists answer.
pub(crate) async fn scripted(lists: Vec<Vec<Step>>) -> Scripted {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        let mut lists = lists.into_iter();
        while let Ok((stream, _peer)) = listener.accept().await {
            connections.spawn(follow(stream, lists.next().unwrap_or_default()));
        }
    });
    Scripted { address, _tasks: tasks }
}

async fn follow(mut stream: TcpStream, steps: Vec<Step>) {
    let mut steps = steps.into_iter();
    while read_request(&mut stream).await {
        let step = steps.next().unwrap_or(Step::Answer);
        let bytes: &[u8] = match step {
            Step::Answer | Step::AnswerThenClose | Step::AnswerThenReset => ANSWER,
            Step::AnswerAndAnnounceClose => b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nv1",
            Step::CloseHalfway => &ANSWER[..20],
            Step::Unavailable => b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
            Step::Reset | Step::Close | Step::Silence => b"",
        };
        stream.write_all(bytes).await.unwrap();
        match step {
            Step::Answer | Step::Unavailable => {}
            Step::Silence => std::future::pending().await,
            Step::AnswerThenClose | Step::AnswerAndAnnounceClose | Step::Close | Step::CloseHalfway => return,
            Step::Reset | Step::AnswerThenReset => return reset(&stream),
        }
    }
}

fn reset(stream: &TcpStream) {
    set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

async fn read_request(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return false;
        }
    }
    true
}
