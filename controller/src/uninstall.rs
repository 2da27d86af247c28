//! When hitless is uninstalled, its controllers put back what they hold (manifests/README.md, "Uninstall").
//!
//! `kubectl delete -k manifests` takes the controller's own account and rights away at once. So each controller makes another
//! account at its start, which outlives all that the manifests name. When it is told to stop it asks why ([`Leaving`]). If hitless is
//! being uninstalled, it lifts what is held, takes our labels off and raises every pod. Every write is conditional, so several
//! controllers may do this at the same time.

mod leaving;
mod service_account;

use std::convert::Infallible;
use std::time::Duration;

use hitless_runtime::write::Writes;
use hitless_store::restore::{Passed, Restorer};
use hitless_workloads::Component;
use kube::Client;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use leaving::Leaving;

/// A token is valid for an hour.
const RENEW: Duration = Duration::from_mins(30);
const RETRY: Duration = Duration::from_secs(10);
/// Longest time for all of it; shorter than the pod's termination grace period.
pub const LONGEST: Duration = Duration::from_secs(45);

/// Keeps the account ready until `token` is cancelled and `last_write` too (the controller's own last write); then puts
/// everything back if hitless is being uninstalled.
pub async fn run(
    client: Client,
    components: Vec<Component>,
    writes: Writes,
    token: CancellationToken,
    last_write: CancellationToken,
) -> Result<(), Infallible> {
    let mut client_for_uninstall = None;
    while !token.is_cancelled() {
        let wait = match service_account::prepare(&client, &components, &writes).await {
            Ok(ready) => {
                client_for_uninstall = Some(ready);
                RENEW
            }
            Err(error) => {
                tracing::warn!(%error, "can't prepare for an uninstall, trying again");
                RETRY
            }
        };
        let _ = timeout(wait, token.cancelled()).await;
    }
    // If the controller's loop has died, it can't tell of its last write.
    let _ = timeout(Writes::TIMEOUT, last_write.cancelled()).await;
    if let Some(client) = client_for_uninstall
        && timeout(LONGEST, leave(client, components, &writes)).await.is_err()
    {
        tracing::error!(
            "not everything could be put back within {} s; see what is left with: kubectl hitless cleanup -A",
            LONGEST.as_secs()
        );
    }
    Ok(())
}

async fn leave(client: Client, components: Vec<Component>, writes: &Writes) {
    let restorer = Restorer::new(client.clone(), components, writes.clone());
    match leaving::ask(&client).await {
        Leaving::Restart => {}
        Leaving::ScaledToZero => {
            tracing::info!("scaled to 0: closing Services that were opened for a Hold, once their pods are Ready");
            restorer.until_closed(|passed| log(passed, &mut Vec::new())).await;
        }
        Leaving::Uninstall => {
            tracing::info!("hitless is being uninstalled: lifting what is held, raising every pod");
            let mut waited_for = Vec::new();
            restorer.until_quiet(|passed| log(passed, &mut waited_for)).await;
            if leaving::namespace_stays(&client).await
                && let Err(error) = service_account::remove(&client, writes).await
            {
                tracing::warn!(%error, "the account of the uninstall is left over");
            }
        }
    }
}

fn log(passed: &Passed, waited_for: &mut Vec<(hitless_api::PodRef, &'static str)>) {
    for restore in &passed.changed {
        tracing::info!(%restore, "put back");
    }
    for error in &passed.failed {
        tracing::warn!(%error, "could not put everything back, trying again");
    }
    if passed.waiting != *waited_for {
        for (pod, why) in &passed.waiting {
            tracing::info!(pod = %format!("{}/{}", pod.namespace, pod.name), why, "a companion pod stays for now");
        }
        waited_for.clone_from(&passed.waiting);
    }
}
