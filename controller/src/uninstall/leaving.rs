//! Why a controller is told to stop.

use std::time::Duration;

use hitless_api::names::{CONTROLLER, SYSTEM_NAMESPACE};
use hitless_runtime::write::{WriteError, Writes};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

/// Deletions may be seen a little later than the signal; and a Deployment that is replaced is absent for a moment.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Another one comes, or is there.
    Restart,
    /// Nobody comes, but hitless stays: agents end what is under way.
    ScaledToZero,
    /// Namespace or Deployment go, as by `kubectl delete -k` or `helm uninstall`.
    Uninstall,
}

/// What was seen in one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The Namespace is gone, or is going.
    WithoutNamespace,
    /// The Deployment is going, and waits for its pods (foreground deletion).
    DeploymentGoes,
    /// Helm never deletes the Namespace. Who replaces the Deployment makes another one at once.
    WithoutDeployment,
    ScaledToZero,
    Running,
}

/// Asks the API server. If it does not answer, it is a restart.
pub(super) async fn ask(client: &Client) -> Leaving {
    let (start, mut last) = (Instant::now(), Leaving::Restart);
    loop {
        match look(client).await {
            Ok(Seen::WithoutNamespace | Seen::DeploymentGoes) => return Leaving::Uninstall,
            Ok(Seen::WithoutDeployment) => last = Leaving::Uninstall,
            Ok(Seen::ScaledToZero) => last = Leaving::ScaledToZero,
            Ok(Seen::Running) => last = Leaving::Restart,
            Err(error) => tracing::warn!(%error, "can't tell whether hitless is being uninstalled"),
        }
        if start.elapsed() >= LOOK {
            return last;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Whether the Namespace is not being deleted, and no controller was made anew: what outlives the manifests has to go by itself then.
pub(super) async fn namespace_stays(client: &Client) -> bool {
    matches!(look(client).await, Ok(Seen::DeploymentGoes | Seen::WithoutDeployment))
}

/// Whether there is to be no controller, as far as is known.
pub(super) async fn is_still_at_zero(client: &Client) -> bool {
    !matches!(look(client).await, Ok(Seen::Running))
}

async fn look(client: &Client) -> Result<Seen, WriteError> {
    if !is_there(namespace(client).await?) {
        return Ok(Seen::WithoutNamespace);
    }
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let deployment = Writes::read(deployments.get_opt(CONTROLLER)).await?;
    Ok(seen(deployment.as_ref()))
}

async fn namespace(client: &Client) -> Result<Option<Namespace>, WriteError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    Writes::read(namespaces.get_opt(SYSTEM_NAMESPACE)).await
}

fn is_there(namespace: Option<Namespace>) -> bool {
    namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
}

fn seen(deployment: Option<&Deployment>) -> Seen {
    match deployment {
        None => Seen::WithoutDeployment,
        Some(deployment) if deployment.metadata.deletion_timestamp.is_some() => Seen::DeploymentGoes,
        Some(deployment) if deployment.spec.as_ref().is_some_and(|spec| spec.replicas == Some(0)) => Seen::ScaledToZero,
        Some(_) => Seen::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What is concluded from a Namespace, and from the Deployment's replicas at each look; the last one goes on.
    async fn asked(namespace: Option<Value>, replicas: &[u32]) -> Leaving {
        let deployments: Vec<Option<Value>> = replicas.iter().copied().map(deployment).collect();
        let looks = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let found = if request.uri().path().contains("/deployments/") {
                let at = looks.fetch_add(1, Ordering::Relaxed).min(deployments.len() - 1);
                deployments[at].clone()
            } else {
                namespace.clone()
            };
            let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
            let (code, body) = found.map_or((404, missing), |found| (200, found));
            std::future::ready(http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes())))
        });
        ask(&Client::new(service, "default")).await
    }

    fn namespace(deleted: bool) -> Value {
        let at = deleted.then_some("2026-01-01T00:00:00Z");
        json!({"metadata": {"name": "hitless-system", "deletionTimestamp": at}})
    }

    fn deployment(replicas: u32) -> Option<Value> {
        let spec = json!({"replicas": replicas, "selector": {}, "template": {}});
        (replicas != NONE).then(|| json!({"metadata": {"name": "hitless-controller"}, "spec": spec}))
    }

    /// The Deployment is not there.
    const NONE: u32 = u32::MAX;

    #[tokio::test(start_paused = true)]
    async fn an_uninstall_is_known_by_the_namespace_or_by_the_deployment() {
        assert_eq!(asked(None, &[2]).await, Leaving::Uninstall);
        assert_eq!(asked(Some(namespace(true)), &[2]).await, Leaving::Uninstall);
        assert_eq!(asked(Some(namespace(false)), &[NONE]).await, Leaving::Uninstall);
        assert_eq!(asked(Some(namespace(false)), &[2, NONE]).await, Leaving::Uninstall);
    }

    #[test]
    fn a_foreground_deletion_is_one_that_leaves_the_namespace() {
        let going = json!({"metadata": {"name": "hitless-controller", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let going: Deployment = serde_json::from_value(going).unwrap();
        assert_eq!(seen(Some(&going)), Seen::DeploymentGoes);
        assert_eq!(seen(None), Seen::WithoutDeployment);
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_and_a_deployment_that_is_replaced_are_none() {
        assert_eq!(asked(Some(namespace(false)), &[2]).await, Leaving::Restart);
        assert_eq!(asked(Some(namespace(false)), &[NONE, NONE, 2]).await, Leaving::Restart);
        assert_eq!(asked(Some(namespace(false)), &[0]).await, Leaving::ScaledToZero);
    }
}
