//! Looks for the admission policies that hold workloads. Some API servers do not serve mutating ones, so that they can't be watched.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hitless_rollout::guard::{Guards, LABEL};
use hitless_runtime::admission;
use kube::Client;
use tokio::sync::Notify;
use tokio::sync::watch::Sender;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

/// Between two looks. Somebody who deletes a policy is told within this time.
const EVERY: Duration = Duration::from_secs(30);
/// For one look.
const AT_MOST: Duration = Duration::from_secs(10);

/// Looks until `token` is cancelled. `wake` is notified when something else is seen.
pub async fn look(
    client: Client,
    seen: Sender<Option<Guards>>,
    wake: Arc<Notify>,
    token: CancellationToken,
) -> Result<(), Infallible> {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            _ = tick.tick() => {}
        }
        let Ok(answer) = timeout(AT_MOST, admission::policies(&client, Some(LABEL))).await else { continue };
        match answer {
            Ok((policies, bindings)) => {
                let guards = Some(Guards { policies, bindings });
                if seen.send_if_modified(|known| (*known != guards).then(|| known.clone_from(&guards)).is_some()) {
                    wake.notify_one();
                }
            }
            // What was seen last may still be so.
            Err(error) => tracing::debug!(%error, "can't look for the guard's policies"),
        }
    }
}
