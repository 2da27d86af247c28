//! The guard, where it is in the way of a cleanup: its policies hold again what anybody but our own accounts lets go.

use std::fmt;

use hitless_api::names::{CONTROLLER, system_namespace};
use hitless_rollout::guard::LABEL;
use hitless_runtime::admission;
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::restore::Restore;
use hitless_workloads::{Write, registry};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::failure::Failure;

/// The account of the uninstall.
const UNINSTALL: &str = "hitless-uninstall";
/// The resources of bindings: of policies that hold, and of policies that refuse.
const MUTATING: &str = "mutatingadmissionpolicybindings";
const VALIDATING: &str = "validatingadmissionpolicybindings";

/// It is installed, and does not let this user through. Its text says that, and what to do first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Guard {
    /// Resources of the bindings that are there.
    resources: Vec<&'static str>,
}

impl Guard {
    pub(super) fn of_any_kind() -> Self {
        Self { resources: vec![MUTATING, VALIDATING] }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the guard is installed, and lets only our own accounts let a workload go. First remove it (kubectl delete {} -l {LABEL}; \
             from then on changes of workloads that have opted in roll natively), or act as the uninstall's account where it still \
             is there (--as {})",
            self.resources.join(","),
            account(UNINSTALL)
        )
    }
}

fn account(name: &str) -> String {
    format!("system:serviceaccount:{}:{name}", system_namespace())
}

/// Whether it lets a workload go that is held. A CollaSet is held by nobody: what is left of us there is a finalizer.
pub(super) fn holds(restore: &Restore) -> bool {
    let is_held =
        |write: &Write| registry::of_workload(&write.on.group_kind).is_some_and(|kind| kind.guard().is_some());
    matches!(restore, Restore::Write(write) if is_held(write))
}

/// The guard, if it keeps this user from putting that back. Where the user may not look, nothing is known, and so nothing is in the way.
pub(super) async fn in_the_way(client: &Client, wanted: &[Restore]) -> Result<Option<Guard>, Failure> {
    if !wanted.iter().any(holds) {
        return Ok(None);
    }
    let (mutating, validating) = match admission::bindings(client, LABEL).await {
        Ok(found) => found,
        Err(WriteError::Transient { message, .. }) => return Err(Failure::Unreachable(message)),
        Err(_) => return Ok(None),
    };
    let kinds = [(MUTATING, !mutating.is_empty()), (VALIDATING, !validating.is_empty())];
    let resources: Vec<&str> =
        kinds.into_iter().filter(|(_, is_there)| *is_there).map(|(resource, _)| resource).collect();
    if resources.is_empty() || user(client).await.is_none_or(|user| is_let_through(&user)) {
        return Ok(None);
    }
    Ok(Some(Guard { resources }))
}

fn is_let_through(user: &str) -> bool {
    [UNINSTALL, CONTROLLER].iter().any(|name| user == account(name))
}

/// As whom the user acts, `--as` included; `None`: the API server does not say.
async fn user(client: &Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    // It is a question, and writes nothing.
    let answer = Writes::read(reviews.create(&PostParams::default(), &SelfSubjectReview::default())).await.ok()?;
    answer.status?.user_info?.username
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    use kube::client::Body;
    use serde_json::{Value, json};

    use crate::cleanup;
    use crate::source::Scope;

    /// A held Deployment and its ReplicaSet with our label, in a cluster without a controller; what is asked of it, by method and path.
    fn cluster(bindings: Result<&'static str, u16>, user: &'static str) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (method, path) = (request.method().as_str().to_owned(), request.uri().path().to_owned());
            let (code, body) = answer(&path, bindings, user);
            log.lock().unwrap().push(format!("{method} {path}"));
            std::future::ready(http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes())))
        });
        (Client::new(service, "default"), asked)
    }

    fn answer(path: &str, bindings: Result<&str, u16>, user: &str) -> (u16, Value) {
        let refused = |code: u16| {
            (
                code,
                json!({"kind": "Status", "status": "Failure", "code": code, "message": "m",
            "reason": if code == 404 { "NotFound" } else { "" }}),
            )
        };
        let list = |items: Value| (200, json!({"metadata": {}, "items": items}));
        let resource = path.rsplit('/').next().unwrap_or_default();
        match resource {
            "hitless-controller" | "v1alpha1" => refused(404),
            "selfsubjectreviews" => (201, json!({"metadata": {}, "status": {"userInfo": {"username": user}}})),
            MUTATING | VALIDATING => match bindings {
                Ok(there) if there == resource => list(json!([{"metadata": {"name": "hitless-guard"}}])),
                Ok(_) => list(json!([])),
                Err(code) => refused(code),
            },
            "deployments" => list(json!([deployment()])),
            _ => list(json!([])),
        }
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "team", "name": "web", "uid": "u", "resourceVersion": "1",
                "annotations": {"hitless.dev/rollout": "held"}},
            "spec": {"paused": true, "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:v1"}]}}}})
    }

    fn held() -> Restore {
        let object = registry::read(deployment()).unwrap().unwrap();
        let write = registry::of_workload(&object.id.group_kind).unwrap().release(&object).unwrap();
        Restore::Write(Box::new(write))
    }

    #[tokio::test]
    async fn a_guard_that_holds_again_what_is_let_go_is_named_before_anything_is_changed() {
        let (client, asked) = cluster(Ok(MUTATING), "jane");
        let scope = Scope::Namespace("team".to_owned());
        for (yes, changed) in [(false, "nothing was changed"), (true, "no held workload was changed")] {
            let failure = cleanup::run(client.clone(), &scope, yes).await.unwrap_err();
            let said = failure.to_string();
            assert_eq!(failure.code(), 1);
            for words in [
                "the guard is installed",
                "1 to put back, and",
                changed,
                "kubectl delete mutatingadmissionpolicybindings -l hitless.dev/guard;",
                "--as system:serviceaccount:hitless-system:hitless-uninstall",
                "Then: kubectl hitless cleanup -n team --yes",
            ] {
                assert!(said.contains(words), "{words}: {said}");
            }
        }
        let asked = asked.lock().unwrap();
        assert!(!asked.iter().any(|request| request.starts_with("PATCH")), "{asked:?}");
    }

    #[tokio::test]
    async fn the_finalizer_of_a_collaset_goes_also_where_the_guard_is_installed() {
        let set = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet",
            "metadata": {"namespace": "team", "name": "web", "uid": "u", "resourceVersion": "1", "finalizers": ["apps.kusionstack.io/pre-reclaim"]},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": []}}}});
        let object = registry::read(set).unwrap().unwrap();
        let write = registry::of_workload(&object.id.group_kind).unwrap().release(&object).unwrap();
        assert_eq!(write.verb, "remove-finalizer");
        let wanted = [Restore::Write(Box::new(write))];
        assert_eq!(in_the_way(&cluster(Ok(MUTATING), "jane").0, &wanted).await.unwrap(), None);
    }

    #[tokio::test]
    async fn nobody_is_kept_from_it_whom_the_guard_lets_through_or_where_none_is_seen() {
        let found = |bindings, user: &'static str| async move {
            in_the_way(&cluster(bindings, user).0, &[held()]).await.unwrap()
        };
        assert_eq!(found(Ok(VALIDATING), "jane").await, Some(Guard { resources: vec![VALIDATING] }));
        assert_eq!(found(Ok(MUTATING), "system:serviceaccount:hitless-system:hitless-uninstall").await, None);
        assert_eq!(found(Ok("none"), "jane").await, None);
        assert_eq!(found(Err(403), "jane").await, None, "what may not be read is not claimed");
        let (client, asked) = cluster(Ok(MUTATING), "jane");
        assert_eq!(in_the_way(&client, &[]).await.unwrap(), None, "nothing is held");
        assert!(asked.lock().unwrap().is_empty());
        assert!(in_the_way(&cluster(Err(503), "jane").0, &[held()]).await.is_err());
    }
}
