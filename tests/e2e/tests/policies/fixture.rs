//! Objects that the rows of the table are about.

mod controller;
mod exec_hooks;
mod kruise;
mod kusionstack;
mod pods;
mod rules;
mod sets;
mod workloads;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_api::names;
use serde_json::json;

use crate::request::{Api, Call, USERS};
use controller::Before;
use exec_hooks::create_exec_hooks;
pub(crate) use exec_hooks::{command, drain_policies, drain_policy};
pub(crate) use kruise::{
    CLONE, HOOK, INJECTION, SIDECAR_SET, clone_set_claim, clone_set_pod, clone_set_revision, clone_sets,
    recreate_requests,
};
use kruise::{create_clone_set, create_recreate_requests, create_sidecar_set, sidecar_paths};
pub(crate) use kusionstack::{claim, claims, colla_set_pod, colla_sets, node_rights, operation_jobs, revision};
use kusionstack::{create_colla_set, create_jobs, create_node_rights};
use pods::{create_labelled_pod, create_ledger, create_pods, create_system_pod};
pub(crate) use pods::{pod, pods};
use rules::create_rule_authors;
pub(crate) use rules::{asking, rules};
pub(crate) use sets::{Set, set};
use sets::{create_sets, system_sets};
pub(crate) use workloads::{adopted, annotated_workload, apps, owned, sidecar, spelt, system_replica_sets, workload};
use workloads::{create_adopted, create_workloads};

/// The agent's node; no machine stands behind it.
pub(crate) const NODE: &str = "policy-test-here";
/// Another node.
pub(crate) const OTHER_NODE: &str = "policy-test-there";
/// Pod of the agent of [`NODE`].
pub(crate) const AGENT_POD: &str = "policy-test-agent";
/// Name of a pod in kube-system, on [`NODE`].
pub(crate) const SYSTEM_POD: &str = "policy-test-system";
/// Namespace with a ledger.
pub(crate) const NAMESPACE: &str = "policy-test";
/// Namespace without one.
pub(crate) const BARE: &str = "policy-test-bare";
/// Namespace whose pods all get the gate.
pub(crate) const GATED: &str = "policy-test-gated";
/// Namespace that opts its workloads in.
pub(crate) const ADOPTING: &str = "policy-test-adopting";
/// The same, in place only, and without the gate.
pub(crate) const ADOPTING_ONLY: &str = "policy-test-adopting-only";
/// Namespace whose pods may have rights on their nodes.
pub(crate) const NODES: &str = "policy-test-nodes";
/// Name of a pod in [`GATED`] that takes part in PodOpsLifecycle.
pub(crate) const LABELLED_POD: &str = "policy-test-labelled";
const ROLE: &str = "policy-test-wide";
const PATIENCE: Duration = Duration::from_mins(2);

/// What was created, and what has to be restored.
pub(crate) struct Fixture {
    /// uid of [`AGENT_POD`].
    pub(crate) agent_uid: String,
    /// The controller before it was stopped.
    controller: Before,
}

/// Files and directories of the manifests: everything but the programs.
const MANIFESTS: [&str; 11] = [
    "namespace.yaml",
    "crds",
    "policies",
    "rbac",
    "exec-hooks/policies.yaml",
    "kusionstack/crds",
    "kusionstack/lifecycle.yaml",
    "kusionstack/rbac/rbac.yaml",
    "kruise/crds",
    "kruise/rbac/rbac.yaml",
    "kruise/policies",
];

/// Installs everything of the manifests but the programs.
pub(crate) fn install() -> anyhow::Result<()> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests");
    // The API server serves mutating policies in one version only.
    let versions = run(Command::new("kubectl").arg("api-versions"), "")?;
    let version =
        if versions.lines().any(|line| line == "admissionregistration.k8s.io/v1beta1") { "v1beta1" } else { "v1" };
    let mut objects = String::new();
    for path in MANIFESTS.map(|path| manifests.join(path)) {
        let files = if path.is_dir() {
            path.read_dir()?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?
        } else {
            vec![path]
        };
        for file in files.into_iter().filter(|file| !file.ends_with("kustomization.yaml")) {
            objects += &std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            objects += "\n---\n";
        }
    }
    let objects = objects.replace(
        "admissionregistration.k8s.io/v1\nkind: Mutating",
        &format!("admissionregistration.k8s.io/{version}\nkind: Mutating"),
    );
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    run(Command::new("kubectl").args(apply), &objects).map(drop)
}

/// What it says.
fn run(command: &mut Command, input: &str) -> anyhow::Result<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let output = std::thread::scope(|scope| {
        // It may say something before it has read everything.
        let writes = scope.spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output();
        writes.join().map_err(|_panic| anyhow::anyhow!("a thread panicked"))??;
        anyhow::Ok(output?)
    })?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Fixture {
    /// Creates everything; what an earlier run left is removed first.
    pub(crate) async fn create(api: &Api) -> anyhow::Result<Self> {
        install()?;
        let controller = controller::stop(api).await?;
        let fixture = Self { agent_uid: String::new(), controller };
        match fixture.fill(api).await {
            Ok(agent_uid) => Ok(Self { agent_uid, ..fixture }),
            Err(error) => {
                // Other tests need the controller.
                fixture.remove(api).await?;
                Err(error)
            }
        }
    }

    /// Returns the uid of the agent's pod.
    async fn fill(&self, api: &Api) -> anyhow::Result<String> {
        self.clear(api).await?;
        for name in [NODE, OTHER_NODE] {
            // No agent is started here.
            let metadata = json!({"name": name, "labels": {"kubernetes.io/os": "linux", "type": "kwok"}});
            let node = json!({"metadata": metadata, "spec": {"unschedulable": true}});
            api.admin(&Call::create("/api/v1/nodes", node)).await?;
            let room = json!({"cpu": "1", "memory": "1Gi", "pods": "20"});
            let status = json!({"status": {"capacity": room, "allocatable": room}});
            api.admin(&Call::merge(format!("/api/v1/nodes/{name}/status"), status)).await?;
        }
        for (name, labels) in [
            (NAMESPACE, json!({})),
            (BARE, json!({})),
            (GATED, json!({"hitless.dev/gate": "enabled"})),
            (NODES, json!({"hitless.dev/node-access": "allowed"})),
            (ADOPTING, json!({"hitless.dev/update": "in-place"})),
            (ADOPTING_ONLY, json!({"hitless.dev/update": "in-place-only", "hitless.dev/gate": "disabled"})),
        ] {
            let metadata = json!({"name": name, "labels": labels});
            api.admin(&Call::create("/api/v1/namespaces", json!({"metadata": metadata}))).await?;
        }
        give_wide_rights(api).await?;
        create_ledger(api, &create_pods(api).await?).await?;
        create_system_pod(api).await?;
        create_labelled_pod(api).await?;
        for name in [NODE, OTHER_NODE] {
            let body = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "NodeTransition", "metadata": {"name": name}, "spec": {"nodeUID": "x"}});
            api.admin(&Call::create("/apis/hitless.dev/v1alpha1/nodetransitions", body)).await?;
        }
        create_workloads(api).await?;
        create_adopted(api).await?;
        create_sets(api).await?;
        create_colla_set(api).await?;
        create_clone_set(api).await?;
        create_recreate_requests(api).await?;
        create_sidecar_set(api).await?;
        create_node_rights(api).await?;
        create_jobs(api).await?;
        create_exec_hooks(api).await?;
        create_rule_authors(api).await?;
        let mut agent = pod(AGENT_POD, NODE, &json!({}));
        agent["spec"]["serviceAccountName"] = json!(names::AGENT);
        let agent = api.admin(&Call::create(pods(names::DEFAULT_SYSTEM_NAMESPACE), agent)).await?;
        Ok(agent["metadata"]["uid"].as_str().context("a pod without uid")?.to_owned())
    }

    /// Removes everything and starts the controller again.
    pub(crate) async fn remove(self, api: &Api) -> anyhow::Result<()> {
        self.clear(api).await?;
        self.controller.put_back(api).await
    }

    async fn clear(&self, api: &Api) -> anyhow::Result<()> {
        let mut paths = vec![
            format!("{}/{AGENT_POD}", pods(names::DEFAULT_SYSTEM_NAMESPACE)),
            format!("{}/{SYSTEM_POD}", pods(names::KUBE_SYSTEM)),
            format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{ROLE}"),
            format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{ROLE}"),
        ];
        paths.extend(exec_hooks::paths());
        paths.extend(sidecar_paths());
        paths.extend(rules::paths());
        paths.extend([Set::StatefulSet, Set::DaemonSet].map(|of| format!("{}/held", system_sets(of))));
        paths.push(format!("{}/owner", system_replica_sets()));
        paths.extend([NODE, OTHER_NODE].map(|name| format!("/apis/hitless.dev/v1alpha1/nodetransitions/{name}")));
        paths.extend(
            [NAMESPACE, BARE, GATED, NODES, ADOPTING, ADOPTING_ONLY].map(|name| format!("/api/v1/namespaces/{name}")),
        );
        paths.extend([NODE, OTHER_NODE].map(|name| format!("/api/v1/nodes/{name}")));
        for path in &paths {
            // Mostly "not found"; what could not be removed shows below.
            let _deleted = api.admin(&Call::delete(path.as_str())).await;
        }
        for path in &paths {
            eventually(&format!("{path} to be gone"), async || api.admin(&Call::get(path.as_str())).await.is_err())
                .await?;
        }
        Ok(())
    }
}

/// Asks again until it is so. Used where what is waited for comes from several objects.
async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) -> anyhow::Result<()> {
    let wait = async {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        while !is_so().await {
            tick.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.with_context(|| format!("waited for {what}"))
}

async fn give_wide_rights(api: &Api) -> anyhow::Result<()> {
    // Every verb of the API on every resource. `operate` is none, and stays with the RoleBinding below.
    let verbs = json!(["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]);
    let role = json!({"metadata": {"name": ROLE}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]});
    api.admin(&Call::create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)).await?;
    let account =
        |name: &str| json!({"kind": "ServiceAccount", "namespace": names::DEFAULT_SYSTEM_NAMESPACE, "name": name});
    let subjects = json!([account(names::AGENT), account(names::CONTROLLER), {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": USERS}]);
    let reference = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let binding = json!({"metadata": {"name": ROLE}, "roleRef": reference(ROLE), "subjects": subjects});
    api.admin(&Call::create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)).await?;
    // As the controller does where it keeps a ledger.
    let binding = json!({"metadata": {"name": names::AGENT}, "roleRef": reference("hitless-agent-operator"), "subjects": [account(names::AGENT)]});
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings");
    api.admin(&Call::create(path, binding)).await.map(drop)
}
