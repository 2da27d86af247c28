//! A pod's server. It answers each HTTP request with its own name; a request of `/slow` gets the beginning of its answer at once and the end
//! when the test says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// It ends when it is dropped.
pub(crate) struct Pod {
    pub(crate) address: SocketAddr,
    served: Arc<AtomicUsize>,
    release: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Pod {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (served, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let task = tokio::spawn(accept(listener, Arc::clone(&served), Arc::clone(&release)));
        Self { address, served, release, task }
    }

    /// Requests that it has got.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// Lets one slow request end.
    pub(crate) fn release(&self) {
        self.release.add_permits(1);
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, served: Arc<AtomicUsize>, release: Arc<Semaphore>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, Arc::clone(&served), Arc::clone(&release)));
    }
}

async fn serve(stream: TcpStream, served: Arc<AtomicUsize>, release: Arc<Semaphore>) -> std::io::Result<()> {
    let name = stream.local_addr()?.to_string();
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        served.fetch_add(1, Ordering::SeqCst);
        let length = name.len() + 1;
        let begin = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}");
        stream.write_all(begin.as_bytes()).await?;
        if head.starts_with("GET /slow ") {
            release.acquire().await.unwrap().forget();
        }
        stream.write_all(b"\n").await?;
    }
}
