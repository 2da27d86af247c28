//! Requests to the API server in somebody's name.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use hitless_api::names;
use http::Request;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::fixture::{self, Fixture};

/// Group of the user whose RBAC is as wide as everybody's here.
pub(crate) const USERS: &str = "policy-test-users";
/// Group of those who may write workloads, and run no commands in their pods.
pub(crate) const DEPLOYERS: &str = "policy-test-deployers";
/// The group of [`Who::RuleAuthor`].
pub(crate) const RULE_AUTHORS: &str = "policy-test-rule-authors";

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Member of system:masters.
    Admin,
    /// The agent of node [`fixture::NODE`], by a token that is bound to its pod.
    Agent,
    /// The agent's account by a token that is bound to nothing.
    UnboundAgent,
    /// The controller.
    Controller,
    /// The account that the controller leaves by.
    Uninstall,
    /// A user with rights on everything, without the privileges of system:masters.
    User,
    /// A user who may write workloads and DrainPolicies everywhere, and `pods/exec` only in [`fixture::GATED`] and our own namespace.
    Deployer,
    /// A user who may write PodTransitionRules everywhere, and read pods only in [`fixture::GATED`].
    RuleAuthor,
    /// The ReplicaSet controller, with the same rights.
    ReplicaSetController,
    /// The Deployment controller.
    DeploymentController,
    /// The garbage collector.
    GarbageCollector,
    /// The controller that empties namespaces.
    NamespaceController,
}

impl Who {
    fn impersonated(self) -> Option<&'static str> {
        match self {
            Self::Admin | Self::Agent | Self::UnboundAgent => None,
            Self::Controller => Some(names::CONTROLLER_USER),
            Self::Uninstall => Some("system:serviceaccount:hitless-system:hitless-uninstall"),
            Self::User => Some("jane"),
            Self::Deployer => Some("joe"),
            Self::RuleAuthor => Some("ann"),
            Self::ReplicaSetController => Some("system:serviceaccount:kube-system:replicaset-controller"),
            Self::DeploymentController => Some("system:serviceaccount:kube-system:deployment-controller"),
            Self::GarbageCollector => Some("system:serviceaccount:kube-system:generic-garbage-collector"),
            Self::NamespaceController => Some("system:serviceaccount:kube-system:namespace-controller"),
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Deployer | Self::ReplicaSetController => DEPLOYERS,
            Self::RuleAuthor => RULE_AUTHORS,
            _ => USERS,
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: &'static str,
    pub(crate) path: String,
    content_type: &'static str,
    body: Value,
    /// Whether the API server can go through it without doing it.
    can_be_dry: bool,
}

impl Call {
    fn new(method: &'static str, path: impl Into<String>, content_type: &'static str, body: Value) -> Self {
        Self { method, path: path.into(), content_type, body, can_be_dry: true }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path, "application/json", Value::Null)
    }

    pub(crate) fn create(path: impl Into<String>, body: Value) -> Self {
        Self::new("POST", path, "application/json", body)
    }

    /// A connection (`exec`, …), which fails after admission for want of an upgrade.
    pub(crate) fn connect(path: impl Into<String>) -> Self {
        Self { can_be_dry: false, ..Self::new("POST", path, "application/json", Value::Null) }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path, "application/json", Value::Null)
    }

    pub(crate) fn merge(path: impl Into<String>, body: Value) -> Self {
        Self::new("PATCH", path, "application/merge-patch+json", body)
    }

    pub(crate) fn strategic(path: impl Into<String>, body: Value) -> Self {
        Self::new("PATCH", path, "application/strategic-merge-patch+json", body)
    }

    pub(crate) fn json_patch(path: impl Into<String>, body: Value) -> Self {
        Self::new("PATCH", path, "application/json-patch+json", body)
    }

    pub(crate) fn replace(path: impl Into<String>, body: Value) -> Self {
        Self::new("PUT", path, "application/json", body)
    }

    /// Server-side apply, taking fields over from others.
    pub(crate) fn apply(path: &str, body: Value) -> Self {
        Self::new("PATCH", format!("{path}?fieldManager=policy-test&force=true"), "application/apply-patch+yaml", body)
    }

    fn dry_run(&self) -> Self {
        if !self.can_be_dry {
            return self.clone();
        }
        let sign = if self.path.contains('?') { '&' } else { '?' };
        Self { path: format!("{}{sign}dryRun=All", self.path), ..self.clone() }
    }

    fn request(&self) -> anyhow::Result<Request<Vec<u8>>> {
        let body = if self.body.is_null() { Vec::new() } else { serde_json::to_vec(&self.body)? };
        Ok(Request::builder()
            .method(self.method)
            .uri(&self.path)
            .header("content-type", self.content_type)
            .body(body)?)
    }
}

/// An answer.
pub(crate) enum Outcome {
    /// The object that would have been stored, and what its author is warned of.
    Admitted(Value, Vec<String>),
    /// The message of a 403 or 422.
    Refused(String),
}

/// The API server, as seen by each of them.
pub(crate) struct Api {
    config: Config,
    admin: Client,
    agents: Option<(Client, Client)>,
    /// What stands for [`uid`] in requests to a namespace.
    uids: BTreeMap<(String, String), String>,
}

/// Stands for the uid of this workload of the namespace that the request goes to; of one that is not there it is no uid at all.
pub(crate) fn uid(kind: &str, name: &str) -> String {
    format!("uid-of:{kind}/{name}.")
}

impl Api {
    /// Connects by KUBECONFIG. `None`: there is none, and the tests are left out, which is an error in CI.
    pub(crate) async fn connect() -> anyhow::Result<Option<Self>> {
        if std::env::var_os("KUBECONFIG").is_none() {
            if std::env::var_os("CI").is_some() {
                bail!("CI is set, so no test may be left out, but KUBECONFIG names no cluster");
            }
            eprintln!(
                "left out: KUBECONFIG names no cluster; try `cargo xtask cluster exec -- cargo test -p hitless-e2e`"
            );
            return Ok(None);
        }
        let kubeconfig = Kubeconfig::from_env()?.context("KUBECONFIG is empty")?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Some(Self { admin: Client::try_from(config.clone())?, config, agents: None, uids: BTreeMap::new() }))
    }

    /// The same with the agents' tokens.
    pub(crate) async fn with_agents(&self, fixture: &Fixture) -> anyhow::Result<Self> {
        let bound = json!({"spec": {"expirationSeconds": 3600, "boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": fixture::AGENT_POD, "uid": fixture.agent_uid}}});
        let unbound = json!({"spec": {"expirationSeconds": 3600}});
        let agents = (self.with_token(bound).await?, self.with_token(unbound).await?);
        let uids = self.uids().await?;
        Ok(Self { config: self.config.clone(), admin: self.admin.clone(), agents: Some(agents), uids })
    }

    async fn uids(&self) -> anyhow::Result<BTreeMap<(String, String), String>> {
        let mut uids = BTreeMap::new();
        for (kind, path) in [
            ("Deployment", "/apis/apps/v1/deployments"),
            ("CollaSet", "/apis/apps.kusionstack.io/v1alpha1/collasets"),
            ("CloneSet", "/apis/apps.kruise.io/v1alpha1/clonesets"),
            ("SidecarSet", "/apis/apps.kruise.io/v1alpha1/sidecarsets"),
        ] {
            let list = self.admin(&Call::get(path)).await?;
            for meta in list["items"].as_array().into_iter().flatten().map(|each| &each["metadata"]) {
                let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
                uids.insert((text("namespace"), uid(kind, &text("name"))), text("uid"));
            }
        }
        Ok(uids)
    }

    /// With the uids of the namespace's workloads.
    fn with_uids(&self, call: &Call) -> anyhow::Result<Call> {
        let text = call.body.to_string();
        let known = |((namespace, stands), uid): (&'_ (String, String), &'_ String)| {
            let is_there = namespace.is_empty() || call.path.contains(&format!("/namespaces/{namespace}/"));
            (is_there && text.contains(stands.as_str())).then(|| (stands.clone(), uid.clone()))
        };
        let known: Vec<_> = self.uids.iter().filter_map(known).collect();
        let text = known.iter().fold(text.clone(), |text, (stands, uid)| text.replace(stands, uid));
        Ok(Call { body: serde_json::from_str(&text)?, ..call.clone() })
    }

    async fn with_token(&self, request: Value) -> anyhow::Result<Client> {
        let path =
            format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", names::DEFAULT_SYSTEM_NAMESPACE, names::AGENT);
        let answer = self.admin(&Call::create(path, request)).await?;
        let token = answer["status"]["token"].as_str().context("no token in the answer")?.to_owned();
        let mut config = self.config.clone();
        config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
        Ok(Client::try_from(config)?)
    }

    /// Sends a request as the administrator, for good.
    pub(crate) async fn admin(&self, call: &Call) -> anyhow::Result<Value> {
        let text = self.admin.request_text(call.request()?).await;
        let text = text.with_context(|| format!("{} {}", call.method, call.path))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Sends a request in somebody's name, as a dry run.
    pub(crate) async fn send(&self, who: Who, call: &Call) -> anyhow::Result<Outcome> {
        let mut request = self.with_uids(call)?.dry_run().request()?;
        if let Some(user) = who.impersonated() {
            request.headers_mut().insert("impersonate-user", user.parse()?);
            request.headers_mut().insert("impersonate-group", who.group().parse()?);
        }
        let (agent, unbound) = self.agents.as_ref().context("the agents have no tokens yet")?;
        let client = match who {
            Who::Agent => agent,
            Who::UnboundAgent => unbound,
            _ => &self.admin,
        };
        let response = client.send(request.map(Body::from)).await?;
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|each| String::from_utf8_lossy(each.as_bytes()).into_owned()).collect();
        let code = response.status().as_u16();
        let answer: Value = serde_json::from_slice(&response.into_body().collect_bytes().await?)?;
        match code {
            200..300 => Ok(Outcome::Admitted(answer, warnings)),
            // The store is asked after admission, so whoever is told this was admitted.
            _ if answer["reason"] == "AlreadyExists" => Ok(Outcome::Admitted(Value::Null, warnings)),
            403 | 422 => Ok(Outcome::Refused(answer["message"].as_str().unwrap_or_default().to_owned())),
            _ => bail!("{answer}"),
        }
    }
}
