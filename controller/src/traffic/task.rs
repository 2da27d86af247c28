//! The task of one pool: reads, decides, acts, reads again, and tells.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hitless_api::TrafficProviderSpec;
use hitless_api::traffic_provider::TrafficTarget;
use hitless_balancer::{Observation, PoolName, ProviderError};
use hitless_rollout::pools::DesiredBackend;
use hitless_runtime::backoff::Backoff;
use hitless_runtime::lease::Leadership;
use kube::Client;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::{Order, reading, wanted};

/// What a round of a pool has shown.
pub struct Seen {
    /// The pool after its last step.
    pub observation: Observation,
    /// What was wanted in that round.
    pub told: Vec<DesiredBackend>,
}

pub(super) struct Task {
    pub(super) client: Client,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) seen: Arc<Mutex<Option<Seen>>>,
    pub(super) wake: Arc<Notify>,
}

/// What comes of a round.
enum Came {
    /// Nothing is left to do.
    AsWanted,
    /// Something is, or what was read is not as wanted.
    OnTheWay,
    /// It could not be read, or not be changed.
    Away,
}

/// How often a pool is read.
#[derive(Clone, Copy)]
struct Pace {
    /// One that is as wanted: a load balancer that has lost its servers gets them back then.
    idle: Duration,
    /// One that is not: sessions end, a change takes effect.
    busy: Duration,
    /// One that can't be read, or not be changed.
    away: Backoff,
}

impl Pace {
    fn of(spec: &TrafficProviderSpec) -> Self {
        match spec.target() {
            // Its calls are counted and throttled, and it takes seconds for each change.
            Some(TrafficTarget::AlibabaNlb(_) | TrafficTarget::AlibabaAlb(_) | TrafficTarget::AlibabaClb(_)) => {
                let (idle, busy) = (Duration::from_secs(5), Duration::from_secs(1));
                Self { idle, busy, away: Backoff::new(busy, idle) }
            }
            Some(TrafficTarget::HaProxy(_)) | None => {
                let (idle, busy) = (Duration::from_millis(500), Duration::from_millis(50));
                Self { idle, busy, away: Backoff::new(Duration::from_millis(100), Duration::from_secs(1)) }
            }
        }
    }
}

impl Task {
    /// Until it is aborted, or nobody gives orders any more.
    pub(super) async fn run(mut self) {
        let mut failures: u32 = 0;
        loop {
            let order = self.orders.borrow_and_update().clone();
            let pace = Pace::of(&order.spec);
            let leads = self.leadership.borrow().leads(Instant::now());
            let came = if leads { self.round(order).await } else { Came::Away };
            failures = if matches!(came, Came::Away) { failures.saturating_add(1) } else { 0 };
            let pause = match came {
                Came::AsWanted => pace.idle,
                Came::OnTheWay => pace.busy,
                Came::Away => pace.away.delay(failures),
            };
            tokio::select! {
                () = sleep(pause) => {}
                changed = self.orders.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn round(&self, order: Order) -> Came {
        let Order { spec, desired } = order;
        let seen = match PoolName::new(desired.key.pool.as_str()) {
            Err(error) => unusable(&error.to_string()),
            Ok(pool) => match Connection::of(&self.client, &spec).await {
                Err(words) => unusable(&words),
                Ok(connection) => {
                    let round = connection.round(&pool, &wanted(&desired.backends)).await;
                    for failed in &round.failed {
                        tracing::warn!(pool = %desired.key, step = ?failed.step, error = %failed.error, "a step was not taken");
                    }
                    if !round.plan.steps.is_empty() {
                        tracing::info!(pool = %desired.key, steps = ?round.plan.steps, kept = ?round.plan.kept, "driven");
                    }
                    // Where servers can't be registered or taken out, what is seen of the others is no ground to go on.
                    let lasting = round.failed.into_iter().find(|failed| failed.error.is_lasting());
                    if let Some(failed) = lasting {
                        Observation::new(Err(failed.error), std::time::Instant::now())
                    } else {
                        let seen = Seen { observation: round.observation, told: desired.backends };
                        let came = came(&seen, round.plan.steps.is_empty());
                        self.tell(seen);
                        return came;
                    }
                }
            },
        };
        self.tell(Seen { observation: seen, told: desired.backends });
        Came::Away
    }

    /// Wakes the loop if the round would be told something else than before.
    fn tell(&self, seen: Seen) {
        let now = std::time::Instant::now();
        let mut known = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.as_ref().map(|known| reading(known, now));
        let is_new = before.as_ref() != Some(&reading(&seen, now));
        *known = Some(seen);
        drop(known);
        if is_new {
            self.wake.notify_one();
        }
    }
}

fn came(seen: &Seen, is_done: bool) -> Came {
    let now = std::time::Instant::now();
    match seen.observation.servers(now) {
        Err(_) => Came::Away,
        Ok(_) if is_done && hitless_balancer::steps(&wanted(&seen.told), &seen.observation, now).steps.is_empty() => {
            let is_draining = seen.told.iter().any(|desired| {
                let evidence = hitless_balancer::evidence(desired.address, &seen.observation, now);
                matches!(evidence, hitless_balancer::Evidence::Draining { .. } | hitless_balancer::Evidence::Changing)
            });
            if is_draining { Came::OnTheWay } else { Came::AsWanted }
        }
        Ok(_) => Came::OnTheWay,
    }
}

/// A TrafficProvider that can't be used is a pool that can't be read.
fn unusable(words: &str) -> Observation {
    let error = ProviderError::Unexpected { request: "spec of the TrafficProvider".to_owned(), why: words.to_owned() };
    Observation::new(Err(error), std::time::Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn apis_whose_calls_are_counted_are_asked_less_often() {
        let idle = |field: &str, value: serde_json::Value| {
            Pace::of(&serde_json::from_value(json!({ field: value })).unwrap()).idle
        };
        for field in ["alibabaNlb", "alibabaAlb", "alibabaClb"] {
            assert_eq!(idle(field, json!({"region": "cn-hangzhou", "secret": "key"})), Duration::from_secs(5));
        }
        assert_eq!(idle("haproxy", json!({"endpoint": "tcp://10.0.0.9:9999"})), Duration::from_millis(500));
    }
}
