//! Operators that know KusionStack's labels and nothing of hitless, on pods of a plain Deployment.

use anyhow::{Context as _, ensure};
use hitless_api::lifecycle::{self, SERVICE_AVAILABLE, SERVICE_READY, Step};
use hitless_e2e::app::{PATIENCE, Shape, all_ready, condition, image_of, is_ready};
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::watch::Objects;
use hitless_e2e::{App, Stack, Traffic, Watch};
use serde_json::{Value, json};

const IN_SERVICE: &str = "hitless.dev/InService";

/// Two pods that take part, under load, of which a rule lets one go at a time.
struct Scene {
    stack: Stack,
    app: App,
    traffic: Traffic,
}

fn label<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["labels"][key].as_str()
}

/// Whether the pod has a label of any operation.
fn is_operated(pod: &Value) -> bool {
    let labels = pod["metadata"]["labels"].as_object();
    labels.is_some_and(|labels| labels.keys().any(|key| Step::of(key).is_some() || lifecycle::permitted(key).is_some()))
}

impl Scene {
    fn start(namespace: &str) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let labels = json!({lifecycle::CONTROL: "true"});
        let patch = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
        let shape = Shape { replicas: 2, update: None, gate: false, mode: None, patch, ..Shape::default() };
        let app = App::start(&stack.cluster, namespace, &shape)?;
        let one = json!([{"name": "one", "availablePolicy": {"maxUnavailableValue": 1}}]);
        let rule = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule",
            "metadata": {"name": "rule"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "rules": one}});
        app.apply_rule(&rule)?;
        app.pods.wait("all pods to be said to be available", PATIENCE, |pods| {
            (all_ready(pods, 2) && pods.values().all(|pod| label(pod, SERVICE_AVAILABLE).is_some())).then_some(())
        })?;
        let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
        traffic.wait_for_requests(200, PATIENCE)?;
        Ok(Self { stack, app, traffic })
    }

    fn label(&self, pod: &str, labels: &[String]) -> anyhow::Result<()> {
        let labels = labels.iter().map(String::as_str);
        let arguments: Vec<&str> = ["label", "--overwrite", "pod", pod].into_iter().chain(labels).collect();
        self.app.kubectl.run(&arguments).map(drop)
    }

    /// The one write by which upstream's library begins.
    fn begin(&self, pod: &str, id: &str, kind: &str) -> anyhow::Result<()> {
        let begun = format!("{}={}", Step::Operating.key(id), jiff::Timestamp::now().as_nanosecond());
        self.label(pod, &[begun, format!("{}={kind}", Step::OperationType.key(id))])
    }

    fn finish(&self, pod: &str, id: &str) -> anyhow::Result<()> {
        self.label(pod, &[format!("{}-", Step::Operating.key(id))])
    }

    fn wait<T>(&self, what: &str, found: impl Fn(&Objects) -> Option<T>) -> anyhow::Result<T> {
        self.app.pods.wait(what, PATIENCE, found)
    }

    fn wait_for(&self, what: &str, pod: &str, is: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        self.wait(what, |pods| pods.get(pod).filter(|pod| is(pod)).cloned())
    }
}

#[test]
fn two_operators_of_a_pod_an_undo_and_a_deletion_under_a_rule_cost_no_request() -> anyhow::Result<()> {
    let scene = Scene::start("t-lifecycle")?;
    let names: Vec<String> = scene.app.pods.objects().keys().cloned().collect();
    let pods = scene.app.pods.objects();
    let gates = &pods[&names[0]]["spec"]["readinessGates"];
    for gate in [IN_SERVICE, SERVICE_READY] {
        ensure!(gates.as_array().is_some_and(|all| all.iter().any(|each| each["conditionType"] == gate)), "{gates}");
    }
    // Both at once: the rule lets one go.
    for name in &names {
        scene.begin(name, "patcher", "update")?;
    }
    let operate = Step::Operate.key("patcher");
    let first = scene.wait("a pod that may be operated", |pods| {
        pods.iter().find(|(_, pod)| label(pod, &operate).is_some()).map(|(name, _)| name.clone())
    })?;
    let second = names.iter().find(|name| **name != first).context("no second pod")?.clone();
    let other = scene
        .wait_for("the second pod to wait", &second, |pod| label(pod, &Step::PreCheck.key("patcher")).is_some())?;
    let pods = scene.app.pods.objects();
    let one = &pods[&first];
    ensure!(condition(one, IN_SERVICE) == Some("False") && condition(one, SERVICE_READY) == Some("False"), "{one}");
    ensure!(!is_ready(one) && label(one, SERVICE_AVAILABLE).is_none(), "it is said to serve");
    ensure!(label(one, &lifecycle::permission("update")).is_some(), "no permission");
    ensure!(is_ready(&other), "the second pod went, too");
    let words = ["that others may operate it", "rule/one"];
    scene.stack.wait_says(&scene.app, &["why", &format!("pod/{second}")], &words)?;
    // Another operator joins: the pod has left already.
    scene.begin(&first, "other", "restart")?;
    scene.wait_for("the other one to be allowed", &first, |pod| label(pod, &Step::Operate.key("other")).is_some())?;
    let words = ["patcher (update)", "other (restart)"];
    scene.stack.wait_says(&scene.app, &["status", &format!("pod/{first}")], &words)?;
    let id_of = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].as_str().map(ToOwned::to_owned);
    let before = id_of(&scene.app.pods.objects()[&first]);
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": scene.app.image("v2")}]);
    scene.app.kubectl.run(&["patch", "pod", &first, "--type=json", "-p", &image.to_string()])?;
    scene.wait_for("the new container", &first, |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        image_of(pod) == scene.app.image("v2")
            && id_of(pod) != before
            && status["ready"] == true
            && condition(pod, "ContainersReady") == Some("True")
    })?;
    scene.finish(&first, "patcher")?;
    // The second one takes its operation back, and was never out of service.
    let undo = format!("{}=update", Step::UndoOperationType.key("patcher"));
    scene.label(&second, &[undo])?;
    let kept = scene.wait_for("the undo", &second, |pod| !is_operated(pod))?;
    ensure!(is_ready(&kept) && label(&kept, SERVICE_AVAILABLE).is_some(), "it left service");
    let out = &scene.app.pods.objects()[&first];
    ensure!(condition(out, IN_SERVICE) == Some("False"), "it was put back while another operator works on it");
    scene.finish(&first, "other")?;
    scene.wait_for("the pod to be back", &first, |pod| {
        !is_operated(pod) && is_ready(pod) && label(pod, SERVICE_AVAILABLE).is_some()
    })?;
    // It is deleted after it has left, and another pod is made.
    let uid = scene.app.pods.objects()[&second]["metadata"]["uid"].clone();
    scene.label(&second, &[format!("{}=true", lifecycle::TO_DELETE)])?;
    scene.wait("another pod", |pods| {
        let is_new = pods.values().all(|pod| pod["metadata"]["uid"] != uid && label(pod, SERVICE_AVAILABLE).is_some());
        (is_new && all_ready(pods, 2)).then_some(())
    })?;
    scene.traffic.wait_for_more(200, PATIENCE)?;
    let report = scene.traffic.stop()?;
    ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
    Watch::start(&scene.app.kubectl, &["transitionledgers"])?.wait("no place to be left", PATIENCE, |ledgers| {
        ledgers.get("ledger")?["spec"]["reservations"].as_object().is_none_or(serde_json::Map::is_empty).then_some(())
    })
}

#[test]
fn nobody_allows_himself_to_operate_a_pod() -> anyhow::Result<()> {
    let scene = Scene::start("t-lifecycle-hostile")?;
    let namespace = scene.app.kubectl.namespace().to_owned();
    scene.app.kubectl.run(&[
        "create",
        "rolebinding",
        "edit",
        "--clusterrole=edit",
        &format!("--serviceaccount={namespace}:default"),
    ])?;
    let user = format!("--as=system:serviceaccount:{namespace}:default");
    until_answered(|| scene.app.kubectl.run(&["auth", "can-i", "patch", "pods", &user]))?;
    let pod = scene.app.pods.objects().keys().next().context("no pod")?.clone();
    let as_operator = |labels: &str| scene.app.kubectl.refused(&["label", "pod", &pod, labels, &user]);
    for step in [Step::Operate, Step::PreChecked, Step::Completing] {
        let words = as_operator(&format!("{}=1", step.key("mine")))?;
        ensure!(words.contains("set operating and operation-type"), "{words}");
    }
    let words = as_operator(&format!("{}=1", lifecycle::permission("update")))?;
    ensure!(words.contains("wait for operate"), "{words}");
    scene.app.kubectl.run(&["label", "pod", &pod, &format!("{}=1", Step::Operating.key("mine")), &user])?;
    scene.wait_for("the mark that it waits", &pod, |pod| label(pod, &Step::PreCheck.key("mine")).is_some())?;
    let report = scene.traffic.stop()?;
    ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
    Ok(())
}
