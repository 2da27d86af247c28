//! Load balancers outside of the cluster are driven between rounds: a round says what is wanted of each pool ([`DesiredPool`]), a task for each
//! pool brings it about with [`hitless_balancer`], and what it reads is in the next snapshot.
//!
//! Only the leader does that. What a task was told last is what it goes on with: if rounds stop, pods stay where they are.

mod connection;
mod convert;
mod task;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hitless_api::TrafficProviderSpec;
use hitless_rollout::pools::{DesiredPool, PoolKey, ProviderView};
use hitless_rollout::snapshot::Snapshot;
use hitless_runtime::lease::Leadership;
use kube::Client;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

pub use convert::{reading, wanted};
pub use task::Seen;

/// What a pool's task is told.
#[derive(Clone, Debug, PartialEq)]
struct Order {
    spec: TrafficProviderSpec,
    desired: DesiredPool,
}

struct Driver {
    order: watch::Sender<Order>,
    seen: Arc<Mutex<Option<Seen>>>,
    task: AbortHandle,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The pools that are driven.
pub struct Traffic {
    client: Client,
    leadership: watch::Receiver<Leadership>,
    wake: Arc<Notify>,
    drivers: BTreeMap<PoolKey, Driver>,
}

impl Traffic {
    /// None yet. `client` reads credentials; `wake` is notified when a pool shows something else.
    #[must_use]
    pub fn new(client: Client, leadership: watch::Receiver<Leadership>, wake: Arc<Notify>) -> Self {
        Self { client, leadership, wake, drivers: BTreeMap::new() }
    }

    /// Tells the round what is known.
    pub fn fill(&self, snapshot: &mut Snapshot) {
        let now = std::time::Instant::now();
        let all = self.drivers.iter().filter_map(|(key, driver)| {
            let seen = driver.seen.lock().unwrap_or_else(PoisonError::into_inner);
            Some((key.clone(), reading(seen.as_ref()?, now)))
        });
        snapshot.pools = all.collect();
    }

    /// Tells the tasks what a round wants. A pool that no TrafficProvider lists any more is left as it is.
    pub fn follow(&mut self, desired: &[DesiredPool], providers: &[Arc<ProviderView>]) {
        self.drivers.retain(|key, _| desired.iter().any(|desired| desired.key == *key));
        for desired in desired {
            let Some(provider) = providers.iter().find(|provider| provider.name == desired.key.provider) else {
                continue;
            };
            let order = Order { spec: provider.spec.clone(), desired: desired.clone() };
            match self.drivers.get(&desired.key) {
                Some(driver) => {
                    driver.order.send_if_modified(|known| {
                        let is_new = *known != order;
                        *known = order;
                        is_new
                    });
                }
                None => _ = self.drivers.insert(desired.key.clone(), self.start(order)),
            }
        }
    }

    fn start(&self, order: Order) -> Driver {
        let (order, orders) = watch::channel(order);
        let seen = Arc::new(Mutex::new(None));
        let task = task::Task {
            client: self.client.clone(),
            leadership: self.leadership.clone(),
            orders,
            seen: Arc::clone(&seen),
            wake: Arc::clone(&self.wake),
        };
        Driver { order, seen, task: tokio::spawn(task.run()).abort_handle() }
    }

    /// Another one drives them from now on.
    pub fn end_of_term(&mut self) {
        self.drivers.clear();
    }
}
