//! Clients that come at a steady rate whether they are answered or not, one request on a connection each.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Long enough for a machine that is busy with something else.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
const STACK_BYTES: usize = 64 * 1024;

/// What one client saw.
#[derive(Debug)]
pub(crate) struct Visit {
    /// From the first packet to the whole answer.
    pub(crate) took: Duration,
    pub(crate) outcome: io::Result<()>,
}

/// Clients that are under way.
pub(crate) struct Load {
    dispatcher: JoinHandle<Vec<Visit>>,
    enough: Arc<AtomicBool>,
    begun: Arc<AtomicU32>,
}

impl Load {
    /// Starts in the calling thread's network namespace, `rate` clients a second.
    pub(crate) fn start(server: SocketAddr, rate: u32, connect_timeout: Duration) -> Self {
        let (enough, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stop, count) = (Arc::clone(&enough), Arc::clone(&begun));
        let dispatcher = thread::spawn(move || {
            let start = Instant::now();
            let mut clients = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let due = start + Duration::from_secs(1) * number / rate;
                thread::sleep(due.saturating_duration_since(Instant::now()));
                let client = thread::Builder::new().stack_size(STACK_BYTES);
                clients.push(client.spawn(move || visit(server, connect_timeout)).unwrap());
            }
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        Self { dispatcher, enough, begun }
    }

    /// How many have begun so far.
    pub(crate) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Sends no more clients and waits for those under way.
    pub(crate) fn finish(self) -> Vec<Visit> {
        self.enough.store(true, Ordering::Relaxed);
        self.dispatcher.join().unwrap()
    }
}

fn visit(server: SocketAddr, connect_timeout: Duration) -> Visit {
    let start = Instant::now();
    let outcome = TcpStream::connect_timeout(&server, connect_timeout).and_then(|mut stream| {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.write_all(b"fast\n")?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        if line == "done\n" { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    });
    Visit { took: start.elapsed(), outcome }
}

/// Those that were not answered.
pub(crate) fn failures(visits: &[Visit]) -> Vec<&Visit> {
    visits.iter().filter(|visit| visit.outcome.is_err()).collect()
}

pub(crate) fn longest(visits: &[Visit]) -> Duration {
    visits.iter().map(|visit| visit.took).max().unwrap_or_default()
}
