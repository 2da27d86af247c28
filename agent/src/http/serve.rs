//! Connections: let in within limits, and ended when they are too slow.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::guard::ConnInfo;
use super::identity::Peer;
use super::limits::{Client, Place, Source};
use super::socket::Socket;
use super::state::AppState;
use super::untrusted::UntrustedConnection;
use super::wait::LONGEST_WAIT;

/// For the head of a request, counted from the end of the last answer: also the longest pause between two requests.
const HEAD: Duration = Duration::from_secs(10);
/// The same on a connection beyond the limits.
const RESERVE_HEAD: Duration = Duration::from_secs(1);
/// Longest head of a request, in bytes; hyper takes no less.
const LONGEST_HEAD: usize = 8192;
/// Most header fields.
const MOST_FIELDS: usize = 48;
/// A client that takes nothing of its answer for so long is given up, in milliseconds.
const NOT_TAKEN: u32 = 30_000;
/// No connection lasts longer.
const LASTS: Duration = Duration::from_secs(LONGEST_WAIT.as_secs() + 60);
/// For what is begun, when a connection has to end.
const FAREWELL: Duration = Duration::from_secs(2);
/// After an error of accept, e.g. for want of file descriptors; nothing tells when there are some again.
const PAUSE: Duration = Duration::from_millis(100);

/// Where connections come from.
pub trait Acceptor: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next one, and its other end.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Acceptor for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, from) = self.accept().await?;
        let set = |stream: &TcpStream| {
            stream.set_nodelay(true)?;
            set_tcp_user_timeout(stream, NOT_TAKEN)?;
            stream.local_addr()
        };
        let to = set(&stream).map_err(gone)?;
        Ok((stream, Peer::tcp(from.ip(), to.ip())))
    }
}

/// The unix socket, and where processes are looked up.
#[derive(Debug)]
pub struct UnixAcceptor {
    /// Removed when nobody is served any more.
    pub socket: Socket,
    /// The `/proc` of the node's process namespace.
    pub proc_root: PathBuf,
}

impl Acceptor for UnixAcceptor {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.socket.listener().accept().await?;
        let peer = Peer::process(&self.proc_root, &stream.peer_cred().map_err(gone)?);
        Ok((stream, peer))
    }
}

/// What can't be done with a connection that has just come: its client is gone already.
fn gone(error: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}

/// Serves who comes through `acceptor` until the state's token is cancelled.
pub async fn serve(acceptor: impl Acceptor, state: AppState, router: Router) -> Result<(), Infallible> {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = acceptor.accept() => match accepted {
                Ok((stream, peer)) => {
                    if let Some((place, is_reserve)) = admit(&state, &peer) {
                        let untrusted = matches!(place.of(), Source::Other(_))
                            .then(|| state.limits.untrusted.enter(place.of().clone(), Instant::now()));
                        let info = ConnInfo { peer, is_reserve, place: Arc::new(Mutex::new(place)) };
                        open.spawn(connection(stream, info, untrusted, state.clone(), router.clone()));
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    // Who hangs up early, however often, keeps nobody else waiting.
                    if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
                        sleep(PAUSE).await;
                    }
                }
            },
            Some(_) = open.join_next(), if !open.is_empty() => {}
            () = state.token.cancelled() => break,
        }
    }
    drop(acceptor);
    while open.join_next().await.is_some() {}
    Ok(())
}

/// A place for the connection, and whether it is one for probes only; `None` to close it at once.
fn admit(state: &AppState, peer: &Peer) -> Option<(Place, bool)> {
    let source = state.caller(peer).source(Client::Unknown);
    let limits = &state.limits;
    let place = limits.connect(&source).map(|place| (place, false));
    let place = place.or_else(|| limits.reserve.take(&source).map(|place| (place, true)));
    if place.is_none() {
        state.refusals.count("connections");
    }
    place
}

async fn connection<S>(
    stream: S,
    info: ConnInfo,
    untrusted: Option<UntrustedConnection>,
    state: AppState,
    router: Router,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (is_reserve, place) = (info.is_reserve, info.place.clone());
    let evicted = untrusted.as_ref().map_or_else(CancellationToken::new, |untrusted| untrusted.evicted.clone());
    let untrusted = Arc::new(untrusted);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(info.clone());
        let (router, untrusted) = (router.clone(), untrusted.clone());
        async move {
            let set_idle = |since| untrusted.iter().for_each(|untrusted| untrusted.set_idle(since));
            set_idle(None);
            let answer = router.oneshot(request).await;
            // What a client that is not trusted may ask for has short answers.
            set_idle(Some(Instant::now()));
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(if is_reserve { RESERVE_HEAD } else { HEAD })
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_FIELDS)
        .keep_alive(!is_reserve)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // Whatever the error is, the client is gone, or has sent what is no request.
        _ = connection.as_mut() => {}
        // It has no request, and makes room for somebody who may have one.
        () = evicted.cancelled() => {}
        () = ended(&state) => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(FAREWELL, connection).await;
        }
    }
    drop(place);
}

/// When a connection has to end.
async fn ended(state: &AppState) {
    tokio::select! {
        () = state.token.cancelled() => {}
        () = sleep(LASTS) => {}
    }
}
