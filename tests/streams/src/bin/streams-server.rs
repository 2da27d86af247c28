//! The server of long streams as a process: `VERSION` is printed, SIGTERM ends it at once.

use hitless_streams::server::{Port, serve};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    // Process 1 of a container ignores SIGTERM until somebody handles it, so that comes first.
    let mut terminate = signal(SignalKind::terminate())?;
    let (http, grpc, websocket) =
        (Port::HTTP.listen().await?, Port::GRPC.listen().await?, Port::WEBSOCKET.listen().await?);
    println!("streams-server {} listens", std::env::var("VERSION").unwrap_or_default());
    tokio::select! {
        ended = serve(http, grpc, websocket) => ended,
        _ = terminate.recv() => Ok(()),
    }
}
