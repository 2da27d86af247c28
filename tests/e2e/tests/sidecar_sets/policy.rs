//! The policy does to a pod what the renderer in Rust does, on a real API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_api::InjectedSet;
use hitless_workloads::{PodPlace, render_sidecars};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::chance::Chance;

/// Pods that are made by chance, in groups with the same SidecarSets.
const GROUPS: u64 = 50;
const PODS: usize = 40;
const PATIENCE: Duration = Duration::from_mins(2);
/// A namespace in which the copy of the policy is in force, and one in which it is not.
const INJECTED: &str = "sidecar-policy";
const PLAIN: &str = "sidecar-policy-plain";
const PARAMETERS: &str = "/apis/test.hitless.dev/v1/injections";

struct Api(Client);

impl Api {
    async fn send(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let kind = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let text = self.0.request_text(request.body(body.to_string().into_bytes())?).await;
        Ok(serde_json::from_str(&text.with_context(|| format!("{method} {path}"))?)?)
    }

    /// Server-side apply.
    async fn apply(&self, collection: &str, object: &Value) -> anyhow::Result<()> {
        let name = object["metadata"]["name"].as_str().context("an object without a name")?;
        self.send("PATCH", &format!("{collection}/{name}?fieldManager=test&force=true"), object).await.map(drop)
    }

    /// The pod as it would be stored.
    async fn made(&self, namespace: &str, pod: &Value) -> anyhow::Result<Value> {
        self.send("POST", &format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), pod).await
    }

    async fn remove(&self, path: &str) -> anyhow::Result<()> {
        self.send("DELETE", path, &json!({})).await.map(drop)
    }
}

/// The policy of the manifests, for parameters of the test's own, so that the controller has nothing to do with them.
fn objects() -> anyhow::Result<Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/kruise/policies/sidecarsets.yaml");
    let text = std::fs::read_to_string(path)?;
    let is_mutating = |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.starts_with("Mutating"));
    let mut all: Vec<Value> = serde_saphyr::from_multiple(&text)?.into_iter().filter(is_mutating).collect();
    for object in &mut all {
        object["metadata"]["name"] = json!("sidecar-policy-test");
        if object["kind"] == "MutatingAdmissionPolicy" {
            object["spec"]["paramKind"] = json!({"apiVersion": "test.hitless.dev/v1", "kind": "Injection"});
            object["spec"]["matchConstraints"]["namespaceSelector"] =
                json!({"matchLabels": {"kubernetes.io/metadata.name": INJECTED}});
            object["spec"]["failurePolicy"] = json!("Fail");
        } else {
            object["spec"]["policyName"] = json!("sidecar-policy-test");
        }
    }
    Ok(all)
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "injections.test.hitless.dev"},
        "spec": {"group": "test.hitless.dev", "scope": "Cluster", "names": {"kind": "Injection", "plural": "injections", "singular": "injection"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

async fn install(api: &Api) -> anyhow::Result<()> {
    let admission = "/apis/admissionregistration.k8s.io/v1";
    api.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await?;
    for name in [INJECTED, PLAIN] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "shop"}}});
        api.apply("/api/v1/namespaces", &namespace).await?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        api.apply(&format!("/api/v1/namespaces/{name}/serviceaccounts"), &account).await?;
    }
    for object in objects()? {
        let plural = if object["kind"] == "MutatingAdmissionPolicy" {
            "mutatingadmissionpolicies"
        } else {
            "mutatingadmissionpolicybindings"
        };
        api.apply(&format!("{admission}/{plural}"), &object).await?;
    }
    Ok(())
}

async fn remove(api: &Api) -> anyhow::Result<()> {
    let admission = "/apis/admissionregistration.k8s.io/v1";
    api.remove(&format!("{admission}/mutatingadmissionpolicybindings/sidecar-policy-test")).await?;
    api.remove(&format!("{admission}/mutatingadmissionpolicies/sidecar-policy-test")).await?;
    api.remove("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/injections.test.hitless.dev").await?;
    for name in [INJECTED, PLAIN] {
        api.remove(&format!("/api/v1/namespaces/{name}")).await?;
    }
    Ok(())
}

/// Waits until admission reads these, as a pod that the first of them selects shows.
async fn in_force(api: &Api, mark: &str, sets: &[InjectedSet]) -> anyhow::Result<()> {
    let mut probe = InjectedSet {
        name: "zz-probe".to_owned(),
        hash: format!("probe-{mark}"),
        ..sets.first().cloned().unwrap_or_default()
    };
    probe.selector = serde_json::from_value(json!({"matchLabels": {"probe": "yes"}}))?;
    probe.containers = vec![json!({"name": "probe", "image": "probe"})];
    (probe.namespace_selector, probe.base, probe.init_containers) = (None, None, Vec::new());
    (probe.pod_hash, probe.pod_hash_without_image) = ("{}".to_owned(), "{}".to_owned());
    let all: Vec<&InjectedSet> = sets.iter().chain([&probe]).collect();
    let parameter = json!({"apiVersion": "test.hitless.dev/v1", "kind": "Injection", "metadata": {"name": "sidecarsets"}, "spec": {"sets": all}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "labels": {"probe": "yes"}},
        "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let expected = format!("zz-probe=probe-{mark}");
    let seen = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            // The definition is not served at once.
            let is_there = api.apply(PARAMETERS, &parameter).await.is_ok();
            let made = api.made(INJECTED, &pod).await;
            let list =
                made.as_ref().ok().and_then(|made| made["metadata"]["annotations"]["hitless.dev/sidecarsets"].as_str());
            if is_there && list.is_some_and(|list| list.split(',').any(|each| each == expected)) {
                return;
            }
            tick.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.context("the policy does not come into force")
}

/// What was decided on: all but what the API server writes for each pod, the volume of its account's token among them, which has a name by
/// chance.
fn decided(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let is_token = |each: &Value| each["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"));
    let spec = &mut pod["spec"];
    let without = |list: &mut Value| list.as_array_mut().into_iter().for_each(|all| all.retain(|each| !is_token(each)));
    without(&mut spec["volumes"]);
    for list in ["containers", "initContainers"] {
        let all = spec[list].as_array_mut().into_iter().flatten();
        all.for_each(|container| without(&mut container["volumeMounts"]));
    }
    json!({"annotations": pod["metadata"]["annotations"], "labels": pod["metadata"]["labels"], "spec": pod["spec"]})
}

async fn compare(api: &Api) -> anyhow::Result<()> {
    let labels = BTreeMap::from([("team".to_owned(), "shop".to_owned())]);
    let place = PodPlace { namespace: INJECTED, labels: &labels };
    let (mut injected, mut refused) = (0, 0);
    for group in 1..=GROUPS {
        let (mut chance, mark) = (Chance::new(group), group.to_string());
        let sets = chance.sets(&mark)?;
        in_force(api, &mark, &sets).await?;
        for number in 0..PODS {
            let pod = chance.pod();
            let by_policy = api.made(INJECTED, &pod).await;
            let expected = render_sidecars(pod.clone(), &sets, &place);
            injected += usize::from(expected != pod);
            match (by_policy, api.made(PLAIN, &expected).await) {
                (Ok(by_policy), Ok(expected)) => ensure!(
                    decided(&by_policy) == decided(&expected),
                    "group {group}, pod {number}:\n{}\nby the policy\n{}\nby the renderer\n{}\nof {}",
                    json!(sets),
                    decided(&by_policy),
                    decided(&expected),
                    pod
                ),
                (Err(_), Err(_)) => refused += 1,
                (by_policy, expected) => anyhow::bail!(
                    "group {group}, pod {number}: {:?} by the policy, {:?} by the renderer\n{}\n{pod}",
                    by_policy.err(),
                    expected.err(),
                    json!(sets)
                ),
            }
        }
    }
    println!(
        "{injected} of {} pods got containers, {refused} were refused either way",
        usize::try_from(GROUPS)? * PODS
    );
    ensure!(
        injected * 2 > usize::try_from(GROUPS)? * PODS && refused * 4 < injected,
        "the pods by chance say too little"
    );
    Ok(())
}

/// Report of users #1933, #1484, #565: equal pods get equal containers, whatever order the API server goes by.
#[tokio::test]
async fn the_policy_does_what_the_renderer_does() -> anyhow::Result<()> {
    let api = Api(Client::try_from(Config::infer().await?)?);
    install(&api).await?;
    let compared = compare(&api).await;
    remove(&api).await?;
    compared
}
