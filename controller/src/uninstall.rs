//! When hitless is uninstalled, its controllers put back what they hold (manifests/README.md, "Uninstall").
//!
//! `kubectl delete -k manifests` takes the controller's own account and rights away at once. So each controller makes another
//! account at its start, which outlives all that the manifests name. When it is told to stop it asks why ([`Leaving`]). If hitless is
//! being uninstalled, it lifts what is held, takes our labels off and raises every pod. Every write is conditional, so several
//! controllers may do this at the same time.

mod leaving;
mod service_account;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use hitless_api::NodeTransition;
use hitless_api::names::CONTROLLER;
use hitless_rollout::snapshot::NodeTransitionView;
use hitless_runtime::list;
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::restore::{Passed, Restorer};
use hitless_workloads::Component;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use leaving::Leaving;

/// A token is valid for an hour.
const RENEW: Duration = Duration::from_mins(30);
const RETRY: Duration = Duration::from_secs(10);
/// Between two looks at what has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// From our own end to that of the account.
const LET_OTHERS_END: Duration = Duration::from_secs(5);
/// Longest time for all of it; shorter than the pod's termination grace period.
pub const LONGEST: Duration = Duration::from_secs(45);

/// Keeps the account ready until `token` is cancelled and `last_write` too (the controller's own last write); then puts
/// everything back if hitless is being uninstalled.
pub async fn run(
    client: Client,
    components: Vec<&'static Component>,
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
    if let Some(leaver) = client_for_uninstall
        && timeout(LONGEST, leave(&client, leaver, components, &writes)).await.is_err()
    {
        tracing::error!(
            "not everything could be put back within {} s; see what is left with: kubectl hitless cleanup -A",
            LONGEST.as_secs()
        );
    }
    Ok(())
}

/// `own` has the controller's rights, which go with the manifests; `client` has those of the account that stays.
async fn leave(own: &Client, client: Client, components: Vec<&'static Component>, writes: &Writes) {
    let restorer = Restorer::new(client.clone(), components, writes.clone());
    match leaving::ask(&client).await {
        Leaving::Restart => {}
        Leaving::WithoutDeployment => tracing::warn!(
            "Deployment {CONTROLLER} is gone, and hitless is not being uninstalled: what is held stays held until a controller comes; \
             if none comes: kubectl hitless cleanup -A"
        ),
        Leaving::ScaledToZero => {
            tracing::info!(
                "scaled to 0: closing Services that were opened for a Hold, once their operations have ended"
            );
            while leaving::is_still_at_zero(&client).await {
                match unfinished(own).await {
                    Ok(live) => {
                        let (is_open, passed) = restorer.close_ended(&live).await;
                        log(&passed, &mut Vec::new());
                        if !is_open && passed.is_quiet() {
                            return;
                        }
                    }
                    Err(error) => tracing::warn!(%error, "can't tell which operations are under way"),
                }
                sleep(LOOK_AGAIN).await;
            }
        }
        Leaving::Uninstall => {
            tracing::info!("hitless is being uninstalled: lifting what is held, raising every pod");
            let mut waited_for = Vec::new();
            restorer.until_quiet(|passed| log(passed, &mut waited_for)).await;
            // The other replica uses the account, too, and may be a little behind.
            sleep(LET_OTHERS_END).await;
            if leaving::namespace_stays(&client).await
                && let Err(error) = service_account::remove(&client, writes).await
            {
                tracing::warn!(%error, "the account of the uninstall is left over");
            }
        }
    }
}

/// Ids of the operations that are under way: none is begun any more.
async fn unfinished(client: &Client) -> Result<BTreeSet<String>, WriteError> {
    let nodes: Api<NodeTransition> = Api::all(client.clone());
    let views = list::all(&nodes, ListParams::default(), |node| Some(NodeTransitionView::from(node))).await?;
    Ok(views.iter().flat_map(NodeTransitionView::unfinished).map(|grant| grant.id.clone()).collect())
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
