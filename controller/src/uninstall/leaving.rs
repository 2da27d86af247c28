//! Why a controller is told to stop.

use std::time::Duration;

use hitless_api::names::{CONTROLLER, system_namespace};
use hitless_runtime::write::{WriteError, Writes};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

/// Deletions may be seen a little later than the signal.
const LOOK: Duration = Duration::from_secs(1);
/// So long it may take until who uninstalls has deleted the rest, too.
const LOOK_LONGER: Duration = Duration::from_secs(10);
/// So long the rest is gone before that is an uninstall: who replaces each object by force lets each be absent for a moment.
const SURE: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Another one comes, or is there.
    Restart,
    /// The Deployment is gone or goes, and the rest of hitless is there: it is replaced, or somebody has deleted it alone.
    WithoutDeployment,
    /// Nobody comes, but hitless stays: agents end what is under way.
    ScaledToZero,
    /// Namespace, or Deployment and rights go, as by `kubectl delete -k` or `helm uninstall`.
    Uninstall,
}

/// What was seen in one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The Namespace is gone, or is going.
    WithoutNamespace,
    /// Deployment and rights of the controller are gone, or are going: no controller can ever come. Helm never deletes the Namespace.
    WithoutRights,
    /// The Deployment is gone, or is going (foreground deletion): so it also looks when it is replaced.
    WithoutDeployment,
    ScaledToZero,
    Running,
}

/// Asks the API server. If it does not answer, it is a restart.
pub(super) async fn ask(client: &Client) -> Leaving {
    let (start, mut last, mut without_rights) = (Instant::now(), Leaving::Restart, None);
    loop {
        match look(client).await {
            Ok(Seen::WithoutNamespace) => return Leaving::Uninstall,
            Ok(Seen::WithoutRights) => {
                let since: Instant = *without_rights.get_or_insert_with(Instant::now);
                if since.elapsed() >= SURE {
                    return Leaving::Uninstall;
                }
                last = Leaving::WithoutDeployment;
            }
            Ok(seen) => {
                without_rights = None;
                last = match seen {
                    Seen::ScaledToZero => Leaving::ScaledToZero,
                    Seen::Running => Leaving::Restart,
                    Seen::WithoutNamespace | Seen::WithoutRights | Seen::WithoutDeployment => {
                        Leaving::WithoutDeployment
                    }
                };
            }
            Err(error) => tracing::warn!(%error, "can't tell whether hitless is being uninstalled"),
        }
        let longest = match last {
            Leaving::WithoutDeployment => LOOK_LONGER,
            Leaving::Restart | Leaving::ScaledToZero | Leaving::Uninstall => LOOK,
        };
        if start.elapsed() >= longest {
            return last;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Whether the Namespace is not being deleted, and no controller was made anew: what outlives the manifests has to go by itself then.
pub(super) async fn namespace_stays(client: &Client) -> bool {
    matches!(look(client).await, Ok(Seen::WithoutRights | Seen::WithoutDeployment))
}

/// Whether there is to be no controller, as far as is known.
pub(super) async fn is_still_at_zero(client: &Client) -> bool {
    !matches!(look(client).await, Ok(Seen::Running))
}

async fn look(client: &Client) -> Result<Seen, WriteError> {
    if !is_there(namespace(client).await?.as_ref().map(|namespace| &namespace.metadata)) {
        return Ok(Seen::WithoutNamespace);
    }
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), system_namespace());
    let deployment = Writes::read(deployments.get_opt(CONTROLLER)).await?;
    let Some(deployment) = deployment.filter(|there| is_there(Some(&there.metadata))) else {
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let role = Writes::read(roles.get_opt(CONTROLLER)).await?;
        let has_rights = is_there(role.as_ref().map(|role| &role.metadata));
        return Ok(if has_rights { Seen::WithoutDeployment } else { Seen::WithoutRights });
    };
    let is_zero = deployment.spec.is_some_and(|spec| spec.replicas == Some(0));
    Ok(if is_zero { Seen::ScaledToZero } else { Seen::Running })
}

async fn namespace(client: &Client) -> Result<Option<Namespace>, WriteError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    Writes::read(namespaces.get_opt(system_namespace())).await
}

fn is_there(object: Option<&ObjectMeta>) -> bool {
    object.is_some_and(|metadata| metadata.deletion_timestamp.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What there is at one look.
    #[derive(Clone, Copy)]
    struct There {
        namespace: Is,
        deployment: Is,
        replicas: u32,
        role: Is,
    }

    #[derive(Clone, Copy)]
    enum Is {
        There,
        Going,
        Gone,
    }

    const ALL: There = There { namespace: Is::There, deployment: Is::There, replicas: 2, role: Is::There };

    impl Is {
        fn object(self, spec: &Value) -> Option<Value> {
            let at = match self {
                Self::There => Value::Null,
                Self::Going => json!("2026-01-01T00:00:00Z"),
                Self::Gone => return None,
            };
            Some(json!({"metadata": {"name": "hitless-controller", "deletionTimestamp": at}, "spec": spec}))
        }
    }

    /// What is concluded from these looks, each of which lasts so many times; the last one goes on.
    async fn asked(looks: &[(usize, There)]) -> Leaving {
        let looks: Vec<There> = looks.iter().flat_map(|(times, there)| std::iter::repeat_n(*there, *times)).collect();
        let begun = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path();
            // A look begins with the Namespace.
            let at = if path.contains("/deployments/") || path.contains("/clusterroles/") {
                begun.load(Ordering::Relaxed).saturating_sub(1)
            } else {
                begun.fetch_add(1, Ordering::Relaxed)
            };
            let there = looks[at.min(looks.len() - 1)];
            let found = if path.contains("/deployments/") {
                there.deployment.object(&json!({"replicas": there.replicas, "selector": {}, "template": {}}))
            } else if path.contains("/clusterroles/hitless-controller") {
                there.role.object(&Value::Null)
            } else {
                there.namespace.object(&json!({}))
            };
            let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
            let (code, body) = found.map_or((404, missing), |found| (200, found));
            std::future::ready(http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes())))
        });
        ask(&Client::new(service, "default")).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_uninstall_is_known_by_the_namespace_or_by_deployment_and_rights() {
        for namespace in [Is::Going, Is::Gone] {
            assert_eq!(asked(&[(1, There { namespace, ..ALL })]).await, Leaving::Uninstall);
        }
        for (deployment, role) in [(Is::Gone, Is::Gone), (Is::Going, Is::Gone), (Is::Gone, Is::Going)] {
            let gone = There { deployment, role, ..ALL };
            assert_eq!(asked(&[(1, gone)]).await, Leaving::Uninstall);
            // Whoever uninstalls deletes one object after the other.
            assert_eq!(asked(&[(2, ALL), (20, There { deployment, ..ALL }), (1, gone)]).await, Leaving::Uninstall);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deployment_that_is_replaced_in_the_foreground_or_deleted_alone_is_no_uninstall() {
        for deployment in [Is::Going, Is::Gone] {
            let replaced = There { deployment, ..ALL };
            assert_eq!(asked(&[(1, replaced)]).await, Leaving::WithoutDeployment);
            assert_eq!(asked(&[(30, replaced), (1, ALL)]).await, Leaving::Restart);
            // All objects are replaced by force, one after the other.
            let both = There { deployment, role: Is::Gone, ..ALL };
            assert_eq!(asked(&[(10, replaced), (2, both), (20, replaced), (1, ALL)]).await, Leaving::Restart);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_and_none_to_run_are_none_either() {
        assert_eq!(asked(&[(1, ALL)]).await, Leaving::Restart);
        assert_eq!(asked(&[(1, There { replicas: 0, ..ALL })]).await, Leaving::ScaledToZero);
    }
}
