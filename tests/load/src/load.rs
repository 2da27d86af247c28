//! A running load: starts it, watches it, ends it.

mod fresh;
mod keepalive;
mod schedule;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::recorder::Recorder;
use crate::{ConfigError, LoadConfig, Report};

/// A load that runs on the current tokio runtime, in the network namespace of its threads. Dropping it cuts
/// everything off.
#[derive(Debug)]
pub struct Load {
    recorder: Arc<Recorder>,
    stop: CancellationToken,
    ended: CancellationToken,
    task: JoinHandle<()>,
}

/// What both classes of requests share.
#[derive(Debug)]
struct Plan {
    config: LoadConfig,
    targets: Vec<Target>,
    recorder: Arc<Recorder>,
    started: Instant,
    stop: CancellationToken,
}

/// One address and the bytes to send there.
#[derive(Debug)]
struct Target {
    address: SocketAddr,
    fresh_request: Vec<u8>,
    keepalive_request: Vec<u8>,
}

impl Load {
    /// Starts sending. The first requests are due at once. Must be called inside a tokio runtime with I/O and time.
    pub fn start(config: LoadConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let started = Instant::now();
        let recorder = Arc::new(Recorder::new(started));
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let request_target = config.request_target();
        let targets = config.targets.iter().map(|address| Target::new(*address, &request_target)).collect();
        let plan = Arc::new(Plan { config, targets, recorder: Arc::clone(&recorder), started, stop: stop.clone() });
        let guard = ended.clone().drop_guard();
        let task = tokio::spawn(async move {
            let _ended = guard;
            tokio::join!(fresh::run(Arc::clone(&plan)), keepalive::run(Arc::clone(&plan)));
            plan.recorder.finish();
        });
        Ok(Self { recorder, stop, ended, task })
    }

    /// The counts at this moment; takes some tens of microseconds.
    #[must_use]
    pub fn snapshot(&self) -> Report {
        self.recorder.report()
    }

    /// Sends nothing new from now on. What is outstanding goes on until it is answered or times out.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the last request has ended: after [`Load::stop`] or at the end of the configured duration.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Stops, waits for what is outstanding (at most the timeout) and gives the final counts.
    pub async fn finish(self) -> Report {
        self.stop();
        self.ended().await;
        self.snapshot()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Target {
    fn new(address: SocketAddr, request_target: &str) -> Self {
        let head = format!("GET {request_target} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: hitless-load\r\n");
        Self {
            address,
            fresh_request: format!("{head}Connection: close\r\n\r\n").into_bytes(),
            keepalive_request: format!("{head}\r\n").into_bytes(),
        }
    }
}

impl Plan {
    fn deadline(&self, due: Instant) -> Instant {
        due + self.config.timeout
    }

    fn target(&self, index: usize) -> Option<&Target> {
        self.targets.get(index % self.targets.len().max(1))
    }

    fn schedule(&self, per_second: u32) -> schedule::Schedule {
        schedule::Schedule::new(self.started, self.config.duration, per_second, self.stop.clone())
    }
}

/// How long a fresh connection waits for the server's FIN after a complete answer.
const CLOSE_WAIT: Duration = Duration::from_secs(1);
