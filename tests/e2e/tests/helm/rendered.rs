//! What the chart renders. No cluster is needed, but a kubectl on the PATH.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, ensure};
use hitless_e2e::Helm;
use hitless_e2e::build::workspace;
use hitless_e2e::stack::SYSTEM_NAMESPACE;
use serde_json::Value;

/// What the objects are: kind of admission, components of the chart, and what an overlay names for the same.
const INSTALLATIONS: [(&str, &[&str], &[&str]); 7] = [
    ("v1", &[], &[]),
    ("v1beta1", &[], &["v1beta1"]),
    ("refusing", &[], &["refusing"]),
    ("v1", &["kusionstack", "exec-hooks"], &["kusionstack", "exec-hooks", "network"]),
    ("v1", &["kruise"], &["kruise", "network"]),
    ("v1beta1", &["kusionstack", "kruise"], &["kruise-kusionstack", "network", "v1beta1"]),
    ("refusing", &["exec-hooks"], &["exec-hooks", "network", "refusing"]),
];

type Objects = BTreeMap<String, Value>;

/// The objects of that text by kind, namespace and name.
fn objects(text: &str) -> anyhow::Result<Objects> {
    let mut all = Objects::new();
    for mut object in serde_saphyr::from_multiple::<Value>(text).context("no YAML")? {
        same_numbers(&mut object);
        let metadata = &object["metadata"];
        let name = format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"]);
        ensure!(all.insert(name.clone(), object).is_none(), "{name} is there twice");
    }
    Ok(all)
}

/// YAML knows 1 and 1.0 apart, an API server does not.
fn same_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => items.iter_mut().for_each(same_numbers),
        Value::Object(fields) => fields.values_mut().for_each(same_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// What `kubectl apply -k` would send, definitions too, without the Namespace: Helm makes the release's.
fn kustomized(name: &str, components: &[&str]) -> anyhow::Result<Objects> {
    let directory = workspace().join(".cache/install").join(name);
    fs::create_dir_all(&directory)?;
    let mut folders = vec!["manifests", "manifests/crds"];
    for (project, definitions) in [("kusionstack", "manifests/kusionstack/crds"), ("kruise", "manifests/kruise/crds")] {
        folders.extend(
            components.iter().any(|component| component.split('-').any(|name| name == project)).then_some(definitions),
        );
    }
    let paths = |all: &[&str], below: &str| -> String {
        all.iter().map(|each| format!("- ../../../{below}{each}\n")).collect::<Vec<_>>().concat()
    };
    let text = format!("resources:\n{}components:\n{}", paths(&folders, ""), paths(components, "manifests/"));
    fs::write(directory.join("kustomization.yaml"), text)?;
    let output = Command::new("kubectl").arg("kustomize").arg(&directory).output().context("cannot run kubectl")?;
    ensure!(output.status.success(), "kubectl kustomize: {}", String::from_utf8_lossy(&output.stderr));
    let mut all = objects(&String::from_utf8_lossy(&output.stdout))?;
    all.retain(|_, object| object["kind"] != "Namespace");
    Ok(all)
}

fn rendered(helm: &Helm, namespace: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = helm.template(namespace, arguments)?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} template {}: {why}", helm.name(), arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_chart_has_the_same_objects_as_the_manifests_for_each_kind_of_admission() -> anyhow::Result<()> {
    let helms = Helm::both()?;
    for (number, (admission, chosen, components)) in INSTALLATIONS.into_iter().enumerate() {
        let wanted = kustomized(&format!("same-objects-{number}"), components)?;
        ensure!(wanted.len() > 50, "kubectl kustomize has only {} objects", wanted.len());
        let admission = format!("admission={admission}");
        let chosen = format!("components={}", Value::from(chosen.to_vec()));
        let network = format!("networkPolicy.enabled={}", components.contains(&"network"));
        for helm in &helms {
            let text =
                rendered(helm, SYSTEM_NAMESPACE, &["--set", &admission, "--set-json", &chosen, "--set", &network])?;
            let there = objects(&text)?;
            let name = helm.name();
            for (object, wanted) in &wanted {
                ensure!(
                    there.get(object) == Some(wanted),
                    "{name} {admission} {chosen}: {object} differs:\n{:#?}\n{wanted:#?}",
                    there.get(object)
                );
            }
            let more: Vec<&String> = there.keys().filter(|object| !wanted.contains_key(*object)).collect();
            ensure!(more.is_empty(), "{name} {admission} {chosen}: the manifests do not have {more:?}");
        }
    }
    Ok(())
}

#[test]
fn auto_takes_the_best_that_is_served() -> anyhow::Result<()> {
    let (workloads, policies) = ("apps/v1/Deployment", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy");
    let beta = "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy";
    let cases: [(&[&str], Option<&str>); 5] = [
        (&["--kube-version", "1.36.0"], Some("v1")),
        (&["--kube-version", "1.35.9"], None),
        (&["--api-versions", workloads, "--api-versions", policies, "--api-versions", beta], Some("v1")),
        (&["--api-versions", workloads, "--api-versions", beta], Some("v1beta1")),
        (&["--api-versions", workloads, "--kube-version", "1.36.0"], None),
    ];
    for helm in Helm::both()? {
        for (arguments, wanted) in cases {
            let all = objects(&rendered(&helm, SYSTEM_NAMESPACE, arguments)?)?;
            let version =
                all.get(r#""MutatingAdmissionPolicy" null "hitless-guard""#).map(|policy| &policy["apiVersion"]);
            let wanted = wanted.map(|version| Value::from(format!("admissionregistration.k8s.io/{version}")));
            ensure!(version == wanted.as_ref(), "{} {arguments:?}: {version:?}", helm.name());
        }
    }
    Ok(())
}

#[test]
fn another_namespace_changes_nothing_but_its_name() -> anyhow::Result<()> {
    for helm in Helm::both()? {
        for admission in ["admission=v1", "admission=refusing"] {
            let arguments = ["--set", admission, "--set", "reload.namespaces={shop}"];
            let own = rendered(&helm, SYSTEM_NAMESPACE, &arguments)?;
            let other = rendered(&helm, "upgrades", &arguments)?;
            ensure!(other == own.replace(SYSTEM_NAMESPACE, "upgrades"), "{} {admission}", helm.name());
        }
    }
    Ok(())
}

#[test]
fn values_reach_the_objects() -> anyhow::Result<()> {
    let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000001";
    let image = format!("agent.image.digest={digest}");
    let arguments = [
        "--set",
        &image,
        "--set",
        "approvers={a.example,10.0.0.0/8}",
        "--set",
        "controller.settings.HITLESS_LOG=debug",
        "--set",
        "controller.resources.limits.memory=1Gi",
        "--set",
        "components={selinux}",
        "--set",
        "podMonitor.enabled=true",
        "--set",
        "prometheusRule.enabled=true",
        "--set",
        "imagePullSecrets[0].name=login",
        "--set",
        "reload.namespaces={shop}",
        "--set",
        "podMonitor.labels.release=prometheus",
        "--set",
        "prometheusRule.runbooks=https://runbooks.example/hitless",
        "--set-json",
        r#"optIn.namespaceSelector={"matchLabels":{"team":"shop"}}"#,
    ];
    for helm in Helm::both()? {
        let all = objects(&rendered(&helm, SYSTEM_NAMESPACE, &arguments)?)?;
        let find = |name: &str| all.get(name).with_context(|| format!("{name} is not in {:?}", all.keys()));
        let agent = find(r#""DaemonSet" "hitless-system" "hitless-agent""#)?
            .pointer("/spec/template/spec")
            .context("no pods")?;
        let container = &agent["containers"][0];
        ensure!(container["image"] == format!("hitless/agent@{digest}"), "{container}");
        ensure!(container["securityContext"]["seLinuxOptions"]["type"] == "spc_t", "{container}");
        ensure!(
            agent["imagePullSecrets"][0]["name"] == "login" && agent["tolerations"][0]["operator"] == "Exists",
            "{agent}"
        );
        let controller = find(r#""Deployment" "hitless-system" "hitless-controller""#)?;
        let container = controller.pointer("/spec/template/spec/containers/0").context("no container")?;
        let setting =
            |name: &str| container["env"].as_array()?.iter().find(|each| each["name"] == name)?["value"].as_str();
        ensure!(setting("HITLESS_APPROVERS") == Some("a.example,10.0.0.0/8"), "{container}");
        ensure!(setting("HITLESS_LOG") == Some("debug"), "{container}");
        let resources = &container["resources"];
        ensure!(resources["limits"]["memory"] == "1Gi" && resources["requests"]["cpu"] == "50m", "{resources}");
        let binding = find(r#""RoleBinding" "shop" "hitless-reload""#)?;
        ensure!(binding["subjects"][0]["namespace"] == SYSTEM_NAMESPACE, "{binding}");
        let monitor = find(r#""PodMonitor" "hitless-system" "hitless""#)?;
        ensure!(monitor["metadata"]["labels"]["release"] == "prometheus", "{monitor}");
        let rule = find(r#""PrometheusRule" "hitless-system" "hitless""#)?;
        ensure!(rule.to_string().contains("{{ $labels.reason }}"), "{rule}");
        let first = rule.pointer("/spec/groups/0/rules/0/annotations/runbook_url");
        ensure!(first == Some(&"https://runbooks.example/hitless/HitlessRolloutHalted".into()), "{rule}");
        for (name, policy) in [("hitless-adopt-selected", "hitless-adopt"), ("hitless-gate-selected", "hitless-gate")] {
            let binding = find(&format!(r#""MutatingAdmissionPolicyBinding" null "{name}""#))?;
            let selector = &binding["spec"]["matchResources"]["namespaceSelector"];
            ensure!(binding["spec"]["policyName"] == policy && selector["matchLabels"]["team"] == "shop", "{binding}");
            let own = &selector["matchExpressions"][0];
            ensure!(own["key"] == "hitless.dev/update" && own["operator"] == "DoesNotExist", "{binding}");
        }
    }
    Ok(())
}

#[test]
fn a_bad_value_is_told_in_one_sentence() -> anyhow::Result<()> {
    let kusionstack = ["--set", "components={kusionstack}", "--set", "admission=refusing"];
    let not_served = ["--set", "admission=v1", "--api-versions", "apps/v1/Deployment"];
    let selected = ["--set", "admission=refusing", "--set", "optIn.namespaceSelector.matchLabels.team=shop"];
    let misspelt = ["--set", "optIn.namespaceSelector.matchLabel.team=shop"];
    let cases: [(&str, &[&str], &str); 12] = [
        (SYSTEM_NAMESPACE, &["--set", "admision=v1"], "additional properties 'admision' not allowed"),
        (SYSTEM_NAMESPACE, &["--set", "admission=v2"], "value must be one of 'auto', 'v1', 'v1beta1', 'refusing'"),
        (
            SYSTEM_NAMESPACE,
            &["--set", "components={kusion}"],
            "value must be one of 'exec-hooks', 'kruise', 'kusionstack', 'selinux'",
        ),
        (SYSTEM_NAMESPACE, &["--set", "agent.image.digest=abc"], "'abc' does not match pattern"),
        (
            SYSTEM_NAMESPACE,
            &["--set", "controller.resources.limit.memory=1Gi"],
            "additional properties 'limit' not allowed",
        ),
        (SYSTEM_NAMESPACE, &["--set", "agent.tolerations[0].kye=a"], "additional properties 'kye' not allowed"),
        (SYSTEM_NAMESPACE, &["--set", "controller.settings.LOG=debug"], "LOG"),
        (SYSTEM_NAMESPACE, &kusionstack, "leave kusionstack out of components"),
        (SYSTEM_NAMESPACE, &selected, "opt workloads in by kubectl hitless adopt --namespace NAMESPACE"),
        (SYSTEM_NAMESPACE, &misspelt, "additional properties 'matchLabel' not allowed"),
        (SYSTEM_NAMESPACE, &not_served, "use admission: auto, which takes refusing here"),
        ("kube-system", &[], "use --namespace hitless-system --create-namespace"),
    ];
    for helm in Helm::both()? {
        for (namespace, arguments, words) in cases {
            let output = helm.template(namespace, arguments)?;
            let why = String::from_utf8_lossy(&output.stderr);
            ensure!(!output.status.success() && why.contains(words), "{} {arguments:?}: {why}", helm.name());
        }
    }
    Ok(())
}
