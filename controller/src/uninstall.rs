//! When hitless is uninstalled, its controllers put back what they hold (manifests/README.md, "Uninstall").
//!
//! `kubectl delete -k manifests` takes the controller's own account and rights away at once. So each controller makes another
//! account at its start, which is deleted with the namespace and not before. When it is told to stop and the namespace is
//! being deleted, it lifts what is held, takes our labels off and raises every pod; otherwise it is a plain restart and it
//! just stops. Companion pods leave last ([`companions`]). Every write is conditional, so several controllers may do this at the same time.

mod companions;
mod restore;
mod service_account;

use std::convert::Infallible;
use std::time::Duration;

use hitless_api::names::SYSTEM_NAMESPACE;
use hitless_runtime::write::Writes;
use hitless_workloads::Component;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// A token is valid for an hour.
const RENEW: Duration = Duration::from_mins(30);
const RETRY: Duration = Duration::from_secs(10);
/// The namespace's deletion may be seen a little later than the signal.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// An agent may still be at work when the first pass is made.
const QUIET: Duration = Duration::from_secs(2);
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
        && timeout(LONGEST, restore_all(client, &components, &writes)).await.is_err()
    {
        tracing::error!("not everything could be put back within {} s", LONGEST.as_secs());
    }
    Ok(())
}

async fn restore_all(client: Client, components: &[Component], writes: &Writes) {
    if !is_uninstall(&client).await {
        return;
    }
    tracing::info!("hitless is being uninstalled: lifting what is held, raising every pod");
    let mut quiet_since = Instant::now();
    let mut waited_for = Vec::new();
    while quiet_since.elapsed() < QUIET {
        let passed = restore::pass(&client, components, writes).await;
        if passed.changed > 0 {
            tracing::info!(changed = passed.changed, "put back");
            quiet_since = Instant::now();
        }
        if let Some(error) = passed.failed {
            tracing::warn!(%error, "could not put everything back, trying again");
            quiet_since = Instant::now();
        }
        if !passed.waiting.is_empty() {
            quiet_since = Instant::now();
        }
        if passed.waiting != waited_for {
            for (pod, why) in &passed.waiting {
                tracing::info!(pod = %format!("{}/{}", pod.namespace, pod.name), why, "a companion pod stays for now");
            }
            waited_for = passed.waiting;
        }
        sleep(LOOK_AGAIN).await;
    }
}

async fn is_uninstall(client: &Client) -> bool {
    let api: Api<Namespace> = Api::all(client.clone());
    let start = Instant::now();
    loop {
        match api.get_opt(SYSTEM_NAMESPACE).await {
            Ok(None) => return true,
            Ok(Some(namespace)) if namespace.metadata.deletion_timestamp.is_some() => return true,
            Ok(Some(_)) => {}
            Err(error) => tracing::warn!(%error, "can't tell whether hitless is being uninstalled"),
        }
        if start.elapsed() >= LOOK {
            return false;
        }
        sleep(LOOK_AGAIN).await;
    }
}
