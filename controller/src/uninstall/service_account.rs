//! The account that outlives the controller's own.

use hitless_api::names::{CONTROLLER, system_namespace};
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::{Component, rights};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};

/// Name of the account, of its role and of the binding of the two; also named by the admission policies.
pub(super) const NAME: &str = "hitless-uninstall";
const TOKEN_SECONDS: i64 = 3600;

#[derive(Debug, thiserror::Error)]
pub(super) enum AccountError {
    #[error("reading namespace {name}: {0}", name = system_namespace())]
    Namespace(#[source] Box<kube::Error>),
    #[error("writing {0} {NAME}: {1}")]
    Write(&'static str, #[source] WriteError),
    #[error("the API server gave no token for {NAME}")]
    NoToken,
    #[error("the address of the API server: {0}")]
    Config(#[from] kube::config::InClusterError),
    #[error("a client with the token of {NAME}: {0}")]
    Client(#[source] Box<kube::Error>),
}

/// Applies the account and its rights, and returns a client that uses it.
pub(super) async fn prepare(
    client: &Client,
    components: &[&'static Component],
    writes: &Writes,
) -> Result<Client, AccountError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace =
        namespaces.get(system_namespace()).await.map_err(|error| AccountError::Namespace(Box::new(error)))?;
    let params = PatchParams::apply(CONTROLLER).force();
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let role = ClusterRole {
        metadata: owned(&NAMESPACE_KIND, system_namespace(), namespace.metadata.uid),
        rules: Some(rules(components)),
        aggregation_rule: None,
    };
    let apply = async { roles.patch(NAME, &params, &Patch::Apply(&role)).await };
    let written = writes.send("clusterroles", apply).await;
    let role = written.map_err(|error| AccountError::Write("ClusterRole", error))?;
    let of_role = || owned(&ROLE_KIND, NAME, role.metadata.uid.clone());

    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), system_namespace());
    let account = ServiceAccount { metadata: of_role(), ..ServiceAccount::default() };
    let apply = async { accounts.patch(NAME, &params, &Patch::Apply(&account)).await.map(drop) };
    let written = writes.send("serviceaccounts", apply).await;
    written.map_err(|error| AccountError::Write("ServiceAccount", error))?;

    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = binding(of_role());
    let apply = async { bindings.patch(NAME, &params, &Patch::Apply(&binding)).await.map(drop) };
    let written = writes.send("clusterrolebindings", apply).await;
    written.map_err(|error| AccountError::Write("ClusterRoleBinding", error))?;

    let wanted = TokenRequest {
        spec: Some(TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    };
    let request = async { accounts.create_token_request(NAME, &PostParams::default(), &wanted).await };
    let answer = writes.send("serviceaccounts/token", request).await;
    let answer = answer.map_err(|error| AccountError::Write("token of ServiceAccount", error))?;
    let token = answer.status.and_then(|status| status.token).ok_or(AccountError::NoToken)?;
    with_token(token)
}

fn with_token(token: String) -> Result<Client, AccountError> {
    let mut config = Config::incluster_env()?;
    config.auth_info.token = Some(token.into());
    config.auth_info.token_file = None;
    config.default_retry = false;
    Client::try_from(config).map_err(|error| AccountError::Client(Box::new(error)))
}

/// Deletes the role, which takes account and binding along. For an uninstall that leaves the Namespace.
pub(super) async fn remove(client: &Client, writes: &Writes) -> Result<(), AccountError> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let params = DeleteParams::background();
    match writes.send("clusterroles", async { roles.delete(NAME, &params).await.map(drop) }).await {
        Ok(()) | Err(WriteError::Gone { .. }) => Ok(()),
        Err(error) => Err(AccountError::Write("ClusterRole", error)),
    }
}

const NAMESPACE_KIND: (&str, &str) = ("v1", "Namespace");
const ROLE_KIND: (&str, &str) = ("rbac.authorization.k8s.io/v1", "ClusterRole");

/// The role is cluster-scoped, and the end of the Namespace takes it along; the end of the role takes account and binding along.
fn owned((api_version, kind): &(&str, &str), name: &str, uid: Option<String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        owner_references: Some(vec![OwnerReference {
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
            name: name.to_owned(),
            uid: uid.unwrap_or_default(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    }
}

/// What the role in manifests/uninstall/account.yaml says, for these components; a test compares them where there are none.
fn rules(components: &[&'static Component]) -> Vec<PolicyRule> {
    let rule = |group: &str, resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let namespace = rule("", "namespaces", &["get"]);
    let rights_of_controller = rule("rbac.authorization.k8s.io", "clusterroles", &["get"]);
    let itself = rule("rbac.authorization.k8s.io", "clusterroles", &["delete"]);
    let mut rules = vec![
        rule("", "pods", &["get", "list", "watch", "delete"]),
        rule("", "pods/status", &["patch"]),
        rule("", "services", &["get", "list", "watch", "patch"]),
        PolicyRule { resource_names: Some(vec![system_namespace().to_owned()]), ..namespace },
        PolicyRule { resource_names: Some(vec![CONTROLLER.to_owned()]), ..rights_of_controller },
        PolicyRule { resource_names: Some(vec![NAME.to_owned()]), ..itself },
    ];
    let of_kinds = rights::uninstall(components);
    rules.extend(of_kinds.iter().map(|right| rule(&right.group, right.resource, &right.verbs)));
    rules
}

fn binding(metadata: ObjectMeta) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: NAME.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: NAME.to_owned(),
            namespace: Some(system_namespace().to_owned()),
            ..Subject::default()
        }]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_is_the_one_in_the_manifests() {
        let text = include_str!("../../../manifests/uninstall/account.yaml");
        let role = text.split("\n---\n").find(|part| part.contains("\nkind: ClusterRole\n")).unwrap();
        let role: ClusterRole = serde_saphyr::from_str(role).unwrap();
        assert_eq!(role.metadata.name.as_deref(), Some(NAME));
        assert_eq!(role.rules, Some(rules(&[])));
    }
}
