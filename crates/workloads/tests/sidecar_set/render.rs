//! What pods get of SidecarSets: upstream's vectors (OpenKruise v1.9, `pkg/webhook/pod/mutating`), and its own rules where it has none.

use std::collections::BTreeMap;

use hitless_api::InjectedSet;
use hitless_workloads::{PodPlace, render_sidecars};
use serde_json::{Value, json};

/// What a SidecarSet with this specification puts into pods.
fn set(name: &str, spec: &Value) -> InjectedSet {
    let mut set = json!({"name": name, "uid": name, "generation": 1, "selector": {"matchLabels": {"app": "web"}}, "hash": format!("hash-{name}"),
        "podHash": "{}", "podHashWithoutImage": "{}"});
    set.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(set).unwrap()
}

fn rendered(spec: &Value, sets: &[InjectedSet]) -> Value {
    let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    render_sidecars(pod, sets, &PodPlace { namespace: "shop", labels: &BTreeMap::new() })
}

fn names(pod: &Value, list: &str) -> Vec<String> {
    pod["spec"][list].as_array().into_iter().flatten().map(|each| each["name"].as_str().unwrap().to_owned()).collect()
}

fn after(name: &str) -> Value {
    json!({"name": name, "image": name, "podInjectPolicy": "AfterAppContainer"})
}

fn before(name: &str) -> Value {
    json!({"name": name, "image": name})
}

#[test]
fn containers_come_where_upstream_puts_them() {
    for (own, sidecars, expected) in [
        (vec!["app"], vec![after("S1"), after("S2"), before("N1")], vec!["N1", "app", "S1", "S2"]),
        (vec!["app"], vec![before("N1")], vec!["N1", "app"]),
        (vec!["app"], vec![after("S1"), after("S2")], vec!["app", "S1", "S2"]),
        (vec!["S1", "app", "S2"], vec![after("S1"), after("S2")], vec!["S1", "app", "S2"]),
        (vec!["S1", "app", "S2"], vec![before("N1"), after("S1"), after("S2")], vec!["N1", "S1", "app", "S2"]),
        (vec![], vec![before("N1"), after("S1"), after("S2")], vec!["N1", "S1", "S2"]),
    ] {
        let own: Vec<Value> = own.iter().map(|name| json!({"name": name, "image": "own"})).collect();
        let pod = rendered(&json!({"containers": own}), &[set("a", &json!({"containers": sidecars}))]);
        assert_eq!(names(&pod, "containers"), expected);
    }
}

/// Report of users #1933, #1484, #565: the order is that of the SidecarSets' names, of init containers that of their own names.
#[test]
fn the_order_is_that_of_names_whatever_was_made_first() {
    let own = json!({"containers": [{"name": "app"}], "initContainers": [{"name": "own"}]});
    let sets = [
        set("a", &json!({"containers": [before("a1"), after("a2")], "initContainers": [{"name": "z"}, {"name": "c"}]})),
        set(
            "b",
            &json!({"containers": [before("b1"), after("b2")],
            "initContainers": [{"name": "b"}, {"name": "first", "podInjectPolicy": "BeforeAppContainer"}]}),
        ),
    ];
    let pod = rendered(&own, &sets);
    assert_eq!(names(&pod, "containers"), ["a1", "b1", "app", "a2", "b2"]);
    assert_eq!(names(&pod, "initContainers"), ["first", "own", "b", "c", "z"]);
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["hitless.dev/sidecarsets"], "a=hash-a,b=hash-b");
    assert_eq!(annotations["kruise.io/sidecarset-injected-list"], "a,b");
    assert_eq!(annotations["kruise.io/sidecarset-hash"], r#"{"a":{},"b":{}}"#);
}

/// The announcement's example: a log collector, and the pod's own volume of that name. Reports of users #254, #1330, #1459.
#[test]
fn a_volume_that_is_mounted_arrives_and_the_pods_own_wins() {
    let spec = json!({"containers": [{"name": "log", "volumeMounts": [{"name": "log-volume", "mountPath": "/var/log"},
            {"name": "cache", "mountPath": "/cache"}]}],
        "initContainers": [{"name": "setup", "volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}]}],
        "volumes": [{"name": "log-volume", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}, {"name": "unused", "emptyDir": {}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]});
    let own = json!({"containers": [{"name": "app"}], "volumes": [{"name": "log-volume", "persistentVolumeClaim": {"claimName": "logs"}}]});
    let pod = rendered(&own, &[set("log", &spec)]);
    assert_eq!(names(&pod, "volumes"), ["log-volume", "cache", "disk"]);
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "logs");
    assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["name"], "log-volume");
}

#[test]
fn mounts_and_variables_of_the_pods_own_containers_are_shared_and_transferred() {
    let spec = json!({"containers": [{"name": "log", "env": [{"name": "B", "value": "own"}],
        "volumeMounts": [{"name": "x", "mountPath": "/taken"}], "shareVolumePolicy": {"type": "enabled"},
        "transferEnv": [{"sourceContainerName": "app", "envNames": ["C", "A", "B"]},
            {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "envName": "W"}]}],
        "volumes": [{"name": "x", "emptyDir": {}}]});
    let own = json!({"containers": [
        {"name": "app", "env": [{"name": "A", "value": "a"}, {"name": "B", "value": "b"}, {"name": "C", "value": "c"}, {"name": "D", "value": "d"}],
            "volumeMounts": [{"name": "own", "mountPath": "/taken"}, {"name": "own", "mountPath": "/data", "subPathExpr": "$(D)"}]},
        {"name": "web", "env": [{"name": "W", "value": "w"}]}],
        "initContainers": [{"name": "init", "volumeMounts": [{"name": "own", "mountPath": "/init"}]}]});
    let pod = rendered(&own, &[set("log", &spec)]);
    let log = &pod["spec"]["containers"][0];
    let env: Vec<(&str, &str)> = log["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|env| (env["name"].as_str().unwrap(), env["value"].as_str().unwrap()))
        .collect();
    assert_eq!(env, [("B", "own"), ("IS_INJECTED", "true"), ("A", "a"), ("C", "c"), ("W", "w"), ("D", "d")]);
    let paths: Vec<&Value> = log["volumeMounts"].as_array().unwrap().iter().map(|mount| &mount["mountPath"]).collect();
    assert_eq!(paths, ["/taken", "/data"]);
    assert!(log.get("shareVolumePolicy").is_none() && log.get("transferEnv").is_none());
}

#[test]
fn pull_secrets_and_annotations_are_added_beside_the_pods_own() {
    let mut own = set(
        "a",
        &json!({"containers": [before("a1")], "imagePullSecrets": [{"name": "own"}, {"name": "more"}],
        "patchPodMetadata": [{"annotations": {"kept": "a", "new": "a"}}, {"annotations": {"taken": "a"}, "patchPolicy": "Overwrite"}]}),
    );
    own.namespace = Some("shop".to_owned());
    let pod = json!({"metadata": {"labels": {"app": "web"}, "annotations": {"kept": "own", "taken": "own"}},
        "spec": {"containers": [{"name": "app"}], "imagePullSecrets": [{"name": "own"}]}});
    let at = |namespace: &str| {
        render_sidecars(pod.clone(), std::slice::from_ref(&own), &PodPlace { namespace, labels: &BTreeMap::new() })
    };
    let made = at("shop");
    assert_eq!(names(&made, "imagePullSecrets"), ["own", "more"]);
    let annotations = &made["metadata"]["annotations"];
    assert_eq!([&annotations["kept"], &annotations["new"], &annotations["taken"]], ["own", "a", "a"]);
    assert_eq!(at("other"), pod, "it is for pods of another namespace");
}

#[test]
fn a_canary_comes_in_the_place_of_its_base_where_it_selects_the_pod() {
    let base = set("base", &json!({"containers": [{"name": "log", "image": "log:v1"}]}));
    let canary = json!({"containers": [{"name": "log", "image": "log:v2"}], "base": "base", "selector": {"matchLabels": {"canary": "yes"}}});
    let sets = [base, set("canary", &canary)];
    let image = |labels: Value| {
        let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app"}]}});
        let made = render_sidecars(pod, &sets, &PodPlace { namespace: "shop", labels: &BTreeMap::new() });
        made["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(image(json!({"app": "web"})), "log:v1");
    assert_eq!(image(json!({"app": "web", "canary": "yes"})), "log:v2");
}
