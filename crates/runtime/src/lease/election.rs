//! Carries the decisions of [`super::evaluate`] out and publishes who leads.

use std::convert::Infallible;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Action, LeaseConfig, LeaseView, Observed, evaluate};
use crate::write::{WriteError, Writes};

const RESOURCE: &str = "leases";

/// Whether this process leads. The watch channel tells of changes of `leading` and `epoch`; `until` moves silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// As of the last change. Ask [`Self::leads`] before writing.
    pub leading: bool,
    /// `leaseTransitions` of our term.
    pub epoch: i64,
    /// End of the term, should it not be renewed.
    until: Option<Instant>,
}

impl Leadership {
    /// A term of this process that ends at `until`, as others who write are told of it.
    #[must_use]
    pub const fn term(epoch: i64, until: Instant) -> Self {
        Self { leading: true, epoch, until: Some(until) }
    }

    /// Whether this process leads at `now`, even if a stalled process has not been told yet that its term has ended.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        self.leading && self.until.is_some_and(|until| now < until)
    }
}

/// A contender for one Lease.
#[derive(Debug)]
pub struct Election {
    api: Api<Lease>,
    name: &'static str,
    identity: String,
    config: LeaseConfig,
    writes: Writes,
    publish: watch::Sender<Leadership>,
    start: Instant,
    /// The Lease as last read or written: what a write starts from.
    lease: Option<Lease>,
    observed: Observed,
}

impl Election {
    /// A contender for the Lease `name`. `pod` is made unique for this process, see [`Self::identity`].
    #[must_use]
    pub fn new(api: Api<Lease>, name: &'static str, pod: &str, config: LeaseConfig, writes: Writes) -> Self {
        let identity = format!("{pod}_{:016x}", RandomState::new().build_hasher().finish());
        Self {
            api,
            name,
            identity,
            config,
            writes,
            publish: watch::Sender::default(),
            start: Instant::now(),
            lease: None,
            observed: Observed { lease: None, since: Duration::ZERO },
        }
    }

    /// The holder's name in the Lease.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Tells who leads.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Leadership> {
        self.publish.subscribe()
    }

    /// Contends until `stop` is cancelled, then gives the Lease back, so that a successor need not wait. Cancel it only after
    /// this process has sent its last write as a leader.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.clone().run_until_cancelled(self.contend()).await;
        self.release().await;
        Ok(())
    }

    async fn contend(&mut self) {
        self.read().await;
        loop {
            let wake = match evaluate(&self.observed, &self.identity, self.now(), &self.config) {
                Action::Hold { until } => until,
                Action::Wait { until } => {
                    let next_look = until.min(self.now() + self.config.retry);
                    self.pause(next_look).await;
                    self.read().await;
                    continue;
                }
                Action::Renew => {
                    let epoch = self.observed.lease.as_ref().map_or(0, |lease| lease.transitions);
                    self.write(epoch).await
                }
                Action::Acquire { transitions } => self.write(transitions).await,
            };
            self.pause(wake).await;
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn pause(&self, until: Duration) {
        let wake = sleep_until(self.start + until);
        stepping_down(&self.publish, wake).await;
    }

    /// Looks at the Lease; tells when somebody else holds it.
    async fn read(&mut self) {
        let request = tokio::time::timeout(Writes::TIMEOUT, self.api.get_opt(self.name));
        match stepping_down(&self.publish, request).await {
            Ok(Ok(lease)) => self.saw(lease),
            Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "can't read the lease"),
            Err(_) => tracing::warn!(lease = self.name, "can't read the lease: no answer"),
        }
    }

    fn saw(&mut self, lease: Option<Lease>) {
        let view = lease.as_ref().map(LeaseView::from);
        if view.as_ref().is_none_or(|view| view.holder != self.identity) {
            step_down(&self.publish, "another holds the lease");
        }
        self.lease = lease;
        self.observed.look(view, self.now());
    }

    /// Renews or takes the Lease; says when to go on.
    async fn write(&mut self, transitions: i64) -> Duration {
        let sent = Instant::now();
        let wanted = claim(self.lease.as_ref(), self.name, &self.identity, transitions, &self.config);
        match self.send(&wanted).await {
            Ok(lease) => {
                self.saw(Some(lease));
                lead(&self.publish, transitions, sent + self.config.renew_deadline);
                self.now() + self.config.retry
            }
            Err(error) if error.is_stale() => {
                tracing::info!(lease = self.name, %error, "somebody else was faster");
                self.read().await;
                // What was read decides; without an answer the next look must not come at once.
                self.now() + self.config.retry / 10
            }
            Err(error) => {
                tracing::warn!(lease = self.name, %error, "can't write the lease");
                // The write may have happened: without a new look, the next one would be refused for sure.
                self.read().await;
                self.now() + self.config.retry / 2
            }
        }
    }

    async fn send(&self, lease: &Lease) -> Result<Lease, WriteError> {
        let parameters = PostParams::default();
        if lease.metadata.resource_version.is_some() {
            let request = self.api.replace(self.name, &parameters, lease);
            stepping_down(&self.publish, self.writes.send(RESOURCE, request)).await
        } else {
            stepping_down(&self.publish, self.writes.send(RESOURCE, self.api.create(&parameters, lease))).await
        }
    }

    async fn release(&mut self) {
        let led = self.publish.borrow().leading;
        step_down(&self.publish, "stopping");
        if !led {
            return;
        }
        // A renewal may have been under way.
        self.read().await;
        let Some(mut lease) = self.lease.take() else { return };
        let Some(spec) = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity))
        else {
            return;
        };
        spec.holder_identity = Some(String::new());
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        match self.send(&lease).await {
            Ok(_) => tracing::info!(lease = self.name, "released the lease"),
            Err(error) => tracing::warn!(lease = self.name, %error, "can't release the lease, it will expire"),
        }
    }
}

impl From<&Lease> for LeaseView {
    fn from(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            transitions: spec.lease_transitions.map(i64::from).unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0),
            duration: Duration::from_secs(seconds.unwrap_or_default()),
        }
    }
}

/// The Lease as we want it. It keeps `base`'s resourceVersion, which makes the write a compare-and-swap.
fn claim(base: Option<&Lease>, name: &str, identity: &str, transitions: i64, config: &LeaseConfig) -> Lease {
    let mut lease = base.cloned().unwrap_or_default();
    lease.metadata.name = Some(name.to_owned());
    let now = MicroTime(Timestamp::now());
    let before = lease.spec.take().unwrap_or_default();
    let renewal = before.holder_identity.as_deref() == Some(identity);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(config.duration.as_secs()).ok(),
        acquire_time: if renewal { before.acquire_time } else { Some(now.clone()) },
        renew_time: Some(now),
        lease_transitions: i32::try_from(transitions).ok(),
        ..before
    });
    lease
}

/// Runs `work`; publishes the end of the term should it fall into it.
async fn stepping_down<T>(publish: &watch::Sender<Leadership>, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let term = *publish.borrow();
    if let (true, Some(until)) = (term.leading, term.until) {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep_until(until) => step_down(publish, "could not renew the lease in time"),
        }
    }
    work.await
}

fn step_down(publish: &watch::Sender<Leadership>, why: &str) {
    publish.send_if_modified(|term| {
        let changed = term.leading;
        if changed {
            tracing::info!(epoch = term.epoch, why, "no longer leading");
        }
        (term.leading, term.until) = (false, None);
        changed
    });
}

fn lead(publish: &watch::Sender<Leadership>, epoch: i64, until: Instant) {
    // The answer may have come after the end of the term that it grants.
    let leading = Instant::now() < until;
    publish.send_if_modified(|term| {
        let changed = (term.leading, term.epoch) != (leading, epoch);
        if changed {
            tracing::info!(epoch, leading, "the lease is ours");
        }
        *term = Leadership { leading, epoch, until: Some(until) };
        changed
    });
}

#[cfg(test)]
mod tests;
