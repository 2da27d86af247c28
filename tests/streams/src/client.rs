//! Some streams of each kind, again and again.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Cut, Kind, Report};

/// What is to be kept open.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where each kind is served.
    pub servers: [(Kind, SocketAddr); 3],
    /// Streams of each kind at the same time.
    pub each: u32,
    /// How long each lasts. The first ones last a share of it, so that not all end together.
    pub lasts: Duration,
}

impl Plan {
    /// The ports of a Service, which have the numbers of the pod's.
    #[must_use]
    pub fn servers(service: IpAddr) -> [(Kind, SocketAddr); 3] {
        Kind::ALL.map(|kind| (kind, (service, kind.port().number).into()))
    }
}

/// Running streams.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    report: Arc<Mutex<Report>>,
    stop: CancellationToken,
}

impl Streams {
    /// What has been seen so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens no more.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Keeps streams open until it is told to stop, and then until the last one has ended.
    pub async fn run(&self, plan: Plan) {
        let mut slots = JoinSet::new();
        for (kind, server) in plan.servers {
            for index in 1..=plan.each {
                slots.spawn(self.clone().slot(kind, server, plan, plan.lasts * index / plan.each));
            }
        }
        slots.join_all().await;
        self.with(|report| report.finished = true);
    }

    /// One stream after the other.
    async fn slot(self, kind: Kind, server: SocketAddr, plan: Plan, first: Duration) {
        let mut lasts = first;
        while !self.stop.is_cancelled() {
            let begin = Instant::now();
            self.with(|report| *report.opened.entry(kind).or_default() += 1);
            let ended = kind.run(server, lasts).await;
            let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            self.with(|report| match &ended {
                Ok(()) => {
                    *report.completed.entry(kind).or_default() += 1;
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    report.last_end_unix_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
                }
                Err(why) => report.cut.push(Cut {
                    kind,
                    lasted_ms: milliseconds(begin.elapsed()),
                    planned_ms: milliseconds(lasts),
                    why: format!("{why:#}"),
                }),
            });
            if ended.is_err() {
                // Not a busy loop against a server that is away.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            lasts = plan.lasts;
        }
    }

    fn with(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
