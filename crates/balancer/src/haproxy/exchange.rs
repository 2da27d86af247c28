//! One command on a connection of its own: HAProxy answers, then closes.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::ProviderError;

use super::Endpoint;

/// Longest answer, in bytes: `show stat` of some 5,000 servers.
pub(super) const LONGEST: usize = 4 << 20;

/// Sends a command and returns all of its answer.
pub(super) async fn ask(endpoint: &Endpoint, command: &str, limit: Duration) -> Result<String, ProviderError> {
    match timeout(limit, connected(endpoint, command)).await {
        Err(_) => Err(ProviderError::TimedOut { endpoint: endpoint.to_string(), request: command.to_owned(), limit }),
        Ok(Err(source)) => Err(ProviderError::Unreachable { endpoint: endpoint.to_string(), source }),
        Ok(Ok(answer)) => text(command, answer),
    }
}

/// The answer as text, if it is whole.
pub(super) fn text(command: &str, answer: Vec<u8>) -> Result<String, ProviderError> {
    let request = command.to_owned();
    if answer.len() > LONGEST {
        return Err(ProviderError::TooLong { request, limit: LONGEST });
    }
    match String::from_utf8(answer) {
        // Every answer has a line, even if it is empty.
        Ok(answer) if answer.ends_with('\n') => Ok(answer),
        Ok(_) => Err(ProviderError::Unexpected { request, why: "it breaks off".into() }),
        Err(_) => Err(ProviderError::Unexpected { request, why: "it is not UTF-8".into() }),
    }
}

async fn connected(endpoint: &Endpoint, command: &str) -> io::Result<Vec<u8>> {
    match endpoint {
        Endpoint::Unix(path) => exchange(UnixStream::connect(path).await?, command).await,
        Endpoint::Tcp(authority) => exchange(TcpStream::connect(authority).await?, command).await,
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, command: &str) -> io::Result<Vec<u8>> {
    stream.write_all(format!("{command}\n").as_bytes()).await?;
    let mut answer = Vec::new();
    // One more than is taken, so that too much can be told.
    stream.take(LONGEST as u64 + 1).read_to_end(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Listens, takes one command, answers this, and closes if told to.
    async fn answering(answer: Vec<u8>, close: bool) -> (Endpoint, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::Tcp(listener.local_addr().unwrap().to_string());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut command = vec![0; 64];
            assert!(stream.read(&mut command).await.unwrap() > 0);
            // The other end may have had enough before all is written.
            drop(stream.write_all(&answer).await);
            if !close {
                std::future::pending::<()>().await;
            }
        });
        (endpoint, server)
    }

    async fn asked(answer: &[u8]) -> Result<String, ProviderError> {
        let (endpoint, _server) = answering(answer.to_vec(), true).await;
        ask(&endpoint, "show stat", Duration::from_mins(1)).await
    }

    #[tokio::test]
    async fn an_answer_is_taken_as_a_whole() {
        assert_eq!(asked(b"one\ntwo\n\n").await.unwrap(), "one\ntwo\n\n");
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_or_is_no_text_is_not_taken() {
        for answer in [&b""[..], b"one\ntw", b"\xff\n"] {
            assert!(matches!(asked(answer).await, Err(ProviderError::Unexpected { .. })), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_not_taken() {
        let answer = vec![b'\n'; LONGEST + 1];
        assert!(matches!(asked(&answer).await, Err(ProviderError::TooLong { .. })));
        assert_eq!(asked(&answer[1..]).await.unwrap().len(), LONGEST);
    }

    #[tokio::test]
    async fn an_answer_that_never_ends_is_given_up() {
        let (endpoint, server) = answering(b"one\n".to_vec(), false).await;
        let answer = ask(&endpoint, "show stat", Duration::from_millis(50)).await;
        assert!(matches!(answer, Err(ProviderError::TimedOut { .. })));
        server.abort();
    }
}
