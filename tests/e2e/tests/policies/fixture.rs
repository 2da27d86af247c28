//! Objects that the rows of the table are about.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_api::lifecycle::{self, Step};
use hitless_api::names;
use serde_json::{Value, json};

use crate::request::{Api, Call, USERS};

/// The agent's node; no machine stands behind it.
pub(crate) const NODE: &str = "policy-test-here";
/// Another node.
pub(crate) const OTHER_NODE: &str = "policy-test-there";
/// Pod of the agent of [`NODE`].
pub(crate) const AGENT_POD: &str = "policy-test-agent";
/// Namespace with a ledger.
pub(crate) const NAMESPACE: &str = "policy-test";
/// Namespace without one.
pub(crate) const BARE: &str = "policy-test-bare";
/// Namespace whose pods all get the gate.
pub(crate) const GATED: &str = "policy-test-gated";
const ROLE: &str = "policy-test-wide";
const CONTROLLER_DEPLOYMENT: &str = "/apis/apps/v1/namespaces/hitless-system/deployments/hitless-controller";
const PATIENCE: Duration = Duration::from_mins(1);

/// What was created, and what has to be restored.
pub(crate) struct Fixture {
    /// uid of [`AGENT_POD`].
    pub(crate) agent_uid: String,
    /// Replicas of the controller before it was stopped; `None` where none is installed.
    controller_replicas: Option<i64>,
}

/// Installs everything of the manifests but the programs.
pub(crate) fn install() -> anyhow::Result<()> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests");
    let mut kubectl = Command::new("kubectl");
    kubectl.current_dir(manifests).args(["apply", "--server-side", "--force-conflicts"]);
    let output = kubectl
        .args([
            "-f",
            "namespace.yaml",
            "-f",
            "crds",
            "-f",
            "policies",
            "-f",
            "rbac",
            "-f",
            "kusionstack/collasets.yaml",
            "-f",
            "kusionstack/lifecycle.yaml",
            "-f",
            "kusionstack/operationjobs.yaml",
            "-f",
            "kusionstack/poddecorations.yaml",
        ])
        .output()?;
    ensure!(output.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

impl Fixture {
    /// Creates everything; what an earlier run left is removed first.
    pub(crate) async fn create(api: &Api) -> anyhow::Result<Self> {
        install()?;
        let controller_replicas = stop_controller(api).await?;
        let fixture = Self { agent_uid: String::new(), controller_replicas };
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
        for (name, labels) in
            [(NAMESPACE, json!({})), (BARE, json!({})), (GATED, json!({"hitless.dev/gate": "enabled"}))]
        {
            let metadata = json!({"name": name, "labels": labels});
            api.admin(&Call::create("/api/v1/namespaces", json!({"metadata": metadata}))).await?;
        }
        give_wide_rights(api).await?;
        create_ledger(api, &create_pods(api).await?).await?;
        for name in [NODE, OTHER_NODE] {
            let body = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "NodeTransition", "metadata": {"name": name}, "spec": {"nodeUID": "x"}});
            api.admin(&Call::create("/apis/hitless.dev/v1alpha1/nodetransitions", body)).await?;
        }
        create_workloads(api).await?;
        create_sets(api).await?;
        create_colla_set(api).await?;
        create_jobs(api).await?;
        let mut agent = pod(AGENT_POD, NODE, &json!({}));
        agent["spec"]["serviceAccountName"] = json!(names::AGENT);
        let agent = api.admin(&Call::create(pods(names::SYSTEM_NAMESPACE), agent)).await?;
        Ok(agent["metadata"]["uid"].as_str().context("a pod without uid")?.to_owned())
    }

    /// Removes everything and starts the controller again.
    pub(crate) async fn remove(self, api: &Api) -> anyhow::Result<()> {
        self.clear(api).await?;
        if let Some(replicas) = self.controller_replicas {
            api.admin(&Call::merge(CONTROLLER_DEPLOYMENT, json!({"spec": {"replicas": replicas}}))).await?;
        }
        Ok(())
    }

    async fn clear(&self, api: &Api) -> anyhow::Result<()> {
        let mut paths = vec![
            format!("{}/{AGENT_POD}", pods(names::SYSTEM_NAMESPACE)),
            format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{ROLE}"),
            format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{ROLE}"),
        ];
        paths.extend([Set::StatefulSet, Set::DaemonSet].map(|of| format!("{}/held", system_sets(of))));
        paths.extend([NODE, OTHER_NODE].map(|name| format!("/apis/hitless.dev/v1alpha1/nodetransitions/{name}")));
        paths.extend([NAMESPACE, BARE, GATED].map(|name| format!("/api/v1/namespaces/{name}")));
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

/// A controller that runs would lift the fixture's holds.
async fn stop_controller(api: &Api) -> anyhow::Result<Option<i64>> {
    let Ok(deployment) = api.admin(&Call::get(CONTROLLER_DEPLOYMENT)).await else { return Ok(None) };
    api.admin(&Call::merge(CONTROLLER_DEPLOYMENT, json!({"spec": {"replicas": 0}}))).await?;
    let list = Call::get(format!(
        "{}?labelSelector=app.kubernetes.io/name%3Dhitless-controller",
        pods(names::SYSTEM_NAMESPACE)
    ));
    eventually("the controller to stop", async || {
        api.admin(&list).await.is_ok_and(|list| list["items"].as_array().is_some_and(Vec::is_empty))
    })
    .await?;
    Ok(deployment["spec"]["replicas"].as_i64())
}

async fn give_wide_rights(api: &Api) -> anyhow::Result<()> {
    // Every verb of the API on every resource. `operate` is none, and stays with the RoleBinding below.
    let verbs = json!(["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]);
    let role = json!({"metadata": {"name": ROLE}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]});
    api.admin(&Call::create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)).await?;
    let account = |name: &str| json!({"kind": "ServiceAccount", "namespace": names::SYSTEM_NAMESPACE, "name": name});
    let subjects = json!([account(names::AGENT), account(names::CONTROLLER), {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": USERS}]);
    let reference = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let binding = json!({"metadata": {"name": ROLE}, "roleRef": reference(ROLE), "subjects": subjects});
    api.admin(&Call::create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)).await?;
    // As the controller does where it keeps a ledger.
    let binding = json!({"metadata": {"name": names::AGENT}, "roleRef": reference("hitless-agent-operator"), "subjects": [account(names::AGENT)]});
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings");
    api.admin(&Call::create(path, binding)).await.map(drop)
}

/// Path of a namespace's pods.
pub(crate) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// Path of a kind of `apps/v1` in [`NAMESPACE`].
pub(crate) fn apps(resource: &str) -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/{resource}")
}

/// Init containers: one that has run, and one that runs as long as the pod does.
fn init_containers() -> Value {
    json!([{"name": "setup", "image": "setup:1"}, {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}])
}

/// A pod with two containers and two init containers.
pub(crate) fn pod(name: &str, node: &str, metadata: &Value) -> Value {
    let mut body = json!({"metadata": {"name": name}, "spec": {
        "nodeName": node, "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
        "initContainers": init_containers(),
        "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1m"}}}, {"name": "side", "image": "side:1"}]}});
    for (key, value) in metadata.as_object().into_iter().flatten() {
        body["metadata"][key] = value.clone();
    }
    body
}

/// Name, uid and reservation of each pod.
type Reserved = Vec<(String, String)>;

async fn create_pods(api: &Api) -> anyhow::Result<Reserved> {
    let metadata = json!({"labels": {"app": "policy-test", "controller-revision-hash": "old"}, "annotations": {"example.com/note": "x"}});
    let mut reserved = Vec::new();
    // Name, namespace, node, InService, whether the ledger has it.
    for (name, namespace, node, in_service, is_reserved) in [
        ("reserved", NAMESPACE, NODE, Some("True"), true),
        ("operated", NAMESPACE, NODE, Some("False"), true),
        ("free", NAMESPACE, NODE, Some("True"), false),
        ("left", NAMESPACE, NODE, Some("False"), false),
        ("fresh", NAMESPACE, NODE, None, false),
        ("takes-part", NAMESPACE, NODE, Some("True"), false),
        ("leaving", NAMESPACE, NODE, Some("False"), false),
        ("elsewhere", NAMESPACE, OTHER_NODE, Some("True"), true),
        ("bare", BARE, NODE, Some("True"), false),
        ("companion", NAMESPACE, NODE, Some("True"), false),
    ] {
        let mut body = pod(name, node, &metadata);
        if name == "reserved" || name == "operated" {
            body["metadata"]["labels"]["poddecoration.kusionstack.io/pd-log"] = json!("old");
            body["metadata"]["annotations"][names::annotations::DECORATIONS] = json!("[]");
        }
        if name == "operated" {
            body["metadata"]["labels"]["controller-revision-hash"] = json!("new");
            body["metadata"]["annotations"][names::annotations::REVISION] = json!("new");
            body["spec"]["containers"][0]["image"] = json!("web:2");
        }
        if name == "takes-part" || name == "leaving" {
            body["metadata"]["labels"][lifecycle::CONTROL] = json!("true");
        }
        if name == "leaving" {
            for key in [Step::Operating.key(lifecycle::DELETE_ID), Step::Operate.key(lifecycle::DELETE_ID)] {
                body["metadata"]["labels"][key] = json!("1");
            }
            body["metadata"]["labels"][lifecycle::TO_DELETE] = json!("true");
        }
        let created = api.admin(&Call::create(pods(namespace), body)).await?;
        let mut conditions = vec![json!({"type": "Ready", "status": "True"})];
        conditions.extend(in_service.map(|status| json!({"type": names::IN_SERVICE, "status": status})));
        let status = json!({"phase": "Running", "podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}], "conditions": conditions,
            "containerStatuses": [{"name": "web", "image": "web:1", "imageID": "", "ready": true, "restartCount": 0}]});
        api.admin(&Call::merge(format!("{}/{name}/status", pods(namespace)), json!({"status": status}))).await?;
        if name == "companion" {
            // Whoever makes one with the label is asked for its Deployment.
            let label = json!({"metadata": {"labels": {(names::labels::COMPANION): "0123"}}});
            api.admin(&Call::merge(format!("{}/{name}", pods(namespace)), label)).await?;
        }
        if is_reserved {
            reserved
                .push((name.to_owned(), created["metadata"]["uid"].as_str().context("a pod without uid")?.to_owned()));
        }
    }
    Ok(reserved)
}

async fn create_ledger(api: &Api, pods: &Reserved) -> anyhow::Result<()> {
    let mut reservations = json!({});
    for (name, uid) in pods {
        reservations[uid] = json!({"id": format!("{uid}.0"), "pod": name, "node": NODE, "since": "2026-01-01T00:00:00.000000Z",
            "images": {"web": "web:2", "setup": "setup:2", "proxy": "proxy:2"}, "fromImages": {"web": "web:1"}, "labels": {"controller-revision-hash": "new"}});
        match name.as_str() {
            "reserved" => {
                for label in ["app", "poddecoration.kusionstack.io/pd-log", "poddecoration.kusionstack.io/pd-other"] {
                    reservations[uid]["labels"][label] = json!("named");
                }
            }
            "operated" => {
                reservations[uid]["labels"]["pod-template-generation"] = json!("2");
                reservations[uid]["labels"]["poddecoration.kusionstack.io/pd-log"] = json!("named");
            }
            _ => {}
        }
    }
    let body = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionLedger", "metadata": {"name": names::LEDGER}, "spec": {"reservations": reservations}});
    api.admin(&Call::create(format!("/apis/hitless.dev/v1alpha1/namespaces/{NAMESPACE}/transitionledgers"), body))
        .await
        .map(drop)
}

/// A Deployment or ReplicaSet whose pods are never scheduled.
pub(crate) fn workload(name: &str, replicas: i64, metadata: &Value) -> Value {
    let mut body = json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 0,
            "nodeSelector": {"policy-test": "nowhere"}, "initContainers": init_containers(),
            "containers": [{"name": "web", "image": "web:1"}]}}}});
    for (key, value) in metadata.as_object().into_iter().flatten() {
        body["metadata"][key] = value.clone();
    }
    body
}

async fn create_workloads(api: &Api) -> anyhow::Result<()> {
    let opted = |more: Value| {
        let mut annotations = json!({"hitless.dev/update": "in-place"});
        for (key, value) in more.as_object().into_iter().flatten() {
            annotations[key] = value.clone();
        }
        json!({"annotations": annotations})
    };
    let held = opted(json!({"hitless.dev/rollout": "held"}));
    let halted = opted(json!({"hitless.dev/rollout": "held", "hitless.dev/halted": "{}"}));
    let only = opted(json!({"hitless.dev/update": "in-place-only"}));
    for (name, replicas, metadata, paused) in [
        ("plain", 1, json!({}), false),
        ("opted", 1, opted(json!({})), false),
        ("only", 1, only, false),
        ("reloads", 1, opted(json!({"hitless.dev/reload": "auto"})), false),
        ("held", 1, held, true),
        ("halted", 1, halted, true),
        ("owners", 1, opted(json!({})), true),
        ("settled", 1, opted(json!({})), false),
        ("zero", 0, opted(json!({})), false),
    ] {
        let mut body = workload(name, replicas, &metadata);
        body["spec"]["paused"] = json!(paused);
        api.admin(&Call::create(apps("deployments"), body)).await?;
    }
    let service = json!({"metadata": {"name": "web", "annotations": {"team": "shop"}}, "spec": {"selector": {"app": "nobody"}, "ports": [{"port": 80}]}});
    api.admin(&Call::create(format!("/api/v1/namespaces/{NAMESPACE}/services"), service)).await?;
    let settled = format!("{}/settled", apps("deployments"));
    eventually("the Deployment controller to make a pod", async || {
        api.admin(&Call::get(settled.as_str())).await.is_ok_and(|it| it["status"]["updatedReplicas"] == 1)
    })
    .await?;
    api.admin(&Call::merge(settled.as_str(), json!({"spec": {"paused": true}}))).await?;
    eventually("the Deployment controller to see the pause", async || {
        let seen = api.admin(&Call::get(settled.as_str())).await;
        seen.is_ok_and(|it| it["status"]["observedGeneration"] == it["metadata"]["generation"])
    })
    .await?;
    for (name, replicas, label) in [
        ("history", 0, names::labels::HISTORY),
        ("live", 1, names::labels::LIVE),
        ("live-empty", 0, names::labels::LIVE),
        ("ordinary", 1, "example.com/x"),
    ] {
        let body = workload(name, replicas, &json!({"labels": {(label): "x"}}));
        api.admin(&Call::create(apps("replicasets"), body)).await?;
    }
    Ok(())
}

/// Path of CollaSets in [`NAMESPACE`].
pub(crate) fn colla_sets() -> String {
    format!("/apis/apps.kusionstack.io/v1alpha1/namespaces/{NAMESPACE}/collasets")
}

/// A CollaSet at revision `new`, for which nobody makes pods.
async fn create_colla_set(api: &Api) -> anyhow::Result<()> {
    let mut set = workload("colla", 1, &json!({}));
    set["apiVersion"] = json!("apps.kusionstack.io/v1alpha1");
    set["kind"] = json!("CollaSet");
    api.admin(&Call::create(colla_sets(), set)).await?;
    let status = json!({"status": {"updatedRevision": "new"}});
    api.admin(&Call::merge(format!("{}/colla/status", colla_sets()), status.clone())).await?;
    let path = format!("/apis/apps.kusionstack.io/v1alpha1/namespaces/{NAMESPACE}/poddecorations");
    let containers = json!([{"name": "log", "image": "log:1", "command": ["/log"]}]);
    let primary = json!([{"targetPolicy": "First", "image": "decorated:1"}, {"name": "web", "image": "decorated:2"}]);
    // One that sets images, and one that says nothing.
    for (name, template) in
        [("log", json!({"containers": containers, "primaryContainers": primary})), ("other", json!({}))]
    {
        let decoration = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration",
            "metadata": {"name": name}, "spec": {"template": template}});
        api.admin(&Call::create(path.clone(), decoration)).await?;
        api.admin(&Call::merge(format!("{path}/{name}/status"), status.clone())).await?;
    }
    Ok(())
}

/// Path of OperationJobs in [`NAMESPACE`].
pub(crate) fn operation_jobs() -> String {
    format!("/apis/apps.kusionstack.io/v1alpha1/namespaces/{NAMESPACE}/operationjobs")
}

/// One that has ended, and one that has not; and a pod of the CollaSet.
async fn create_jobs(api: &Api) -> anyhow::Result<()> {
    for (name, progress) in [("ended", "Succeeded"), ("open", "Processing")] {
        let job = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "OperationJob", "metadata": {"name": name},
            "spec": {"action": "Restart", "targets": [{"name": "nobody"}]}});
        api.admin(&Call::create(operation_jobs(), job)).await?;
        let status = json!({"status": {"progress": progress}});
        api.admin(&Call::merge(format!("{}/{name}/status", operation_jobs()), status)).await?;
    }
    Ok(())
}

/// The kinds that are held by their own strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    StatefulSet,
    DaemonSet,
}

impl Set {
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
        }
    }

    /// The strategy of most of them, as the guard remembers it.
    pub(crate) fn wanted(self) -> &'static str {
        match self {
            Self::StatefulSet => r#"{"type":"RollingUpdate","rollingUpdate":{"partition":2}}"#,
            Self::DaemonSet => r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":0}}"#,
        }
    }

    pub(crate) fn rolling(self) -> Value {
        let fields = match self {
            Self::StatefulSet => json!({"partition": 2}),
            Self::DaemonSet => json!({"maxUnavailable": "25%", "maxSurge": 0}),
        };
        json!({"type": "RollingUpdate", "rollingUpdate": fields})
    }
}

/// A StatefulSet or DaemonSet whose pods are never scheduled.
pub(crate) fn set(of: Set, name: &str, metadata: &Value, strategy: Value) -> Value {
    let mut body = workload(name, 1, metadata);
    body["apiVersion"] = json!("apps/v1");
    body["kind"] = json!(format!("{of:?}"));
    body["spec"]["updateStrategy"] = strategy;
    if let (Set::DaemonSet, Some(spec)) = (of, body["spec"].as_object_mut()) {
        spec.remove("replicas");
    }
    body
}

/// Path of a kind of set in kube-system.
fn system_sets(of: Set) -> String {
    format!("/apis/apps/v1/namespaces/kube-system/{}", of.resource())
}

async fn create_sets(api: &Api) -> anyhow::Result<()> {
    let opted = json!({"annotations": {"hitless.dev/update": "in-place"}});
    let only = json!({"annotations": {"hitless.dev/update": "in-place-only"}});
    let reloads = json!({"annotations": {"hitless.dev/update": "in-place", "hitless.dev/reload": "auto"}});
    let on_delete = || json!({"type": "OnDelete"});
    for of in [Set::StatefulSet, Set::DaemonSet] {
        let held = json!({"annotations": {"hitless.dev/update": "in-place", "hitless.dev/rollout": "held", "hitless.dev/update-strategy": of.wanted(),
            "hitless.dev/restart-annotations": "own, example.com/*,h*"}});
        let mut host = set(of, "host", &opted, of.rolling());
        host["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
        let mut owners = set(of, "owners", &opted, on_delete());
        if of == Set::DaemonSet {
            // This one has pods, on the nodes without a machine.
            owners["spec"]["template"]["spec"]["nodeSelector"] = json!({"type": "kwok"});
            owners["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        }
        let system = set(of, "held", &held, on_delete());
        api.admin(&Call::create(system_sets(of), system)).await?;
        for body in [
            set(of, "plain", &json!({}), of.rolling()),
            set(of, "opted", &opted, of.rolling()),
            set(of, "only", &only, of.rolling()),
            set(of, "reloads", &reloads, of.rolling()),
            set(of, "held", &held, on_delete()),
            set(of, "settled", &opted, on_delete()),
            host,
            owners,
        ] {
            api.admin(&Call::create(apps(of.resource()), body)).await?;
        }
    }
    let sets = apps("statefulsets");
    let mut zero = set(Set::StatefulSet, "zero", &opted, Set::StatefulSet.rolling());
    zero["spec"]["replicas"] = json!(0);
    api.admin(&Call::create(sets.as_str(), zero)).await?;
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    api.admin(&Call::create(sets.as_str(), set(Set::StatefulSet, "staged", &json!({}), partition))).await?;

    // A newer version of what keeps its pods at the old one.
    for (path, pods) in [
        (format!("{sets}/owners"), "/status/updatedReplicas"),
        (format!("{sets}/staged"), "/status/updatedReplicas"),
        (format!("{}/owners", apps("daemonsets")), "/status/updatedNumberScheduled"),
    ] {
        let updated = async || {
            let set = api.admin(&Call::get(path.as_str())).await.unwrap_or_default();
            let seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            seen.then(|| set.pointer(pods).and_then(Value::as_i64).unwrap_or(0))
        };
        eventually(&format!("{path} to have pods"), async || updated().await.is_some_and(|count| count > 0)).await?;
        let newer = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
        api.admin(&Call::merge(path.as_str(), newer)).await?;
        eventually(&format!("{path} to be behind"), async || updated().await == Some(0)).await?;
    }
    api.admin(&Call::merge(format!("{sets}/staged"), json!({"metadata": opted}))).await?;
    let settled = format!("{sets}/settled");
    eventually("the StatefulSet controller to make a pod", async || {
        api.admin(&Call::get(settled.as_str())).await.is_ok_and(|it| it["status"]["updatedReplicas"] == 1)
    })
    .await
}
