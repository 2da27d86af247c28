use serde_json::{Value, json};

use super::*;

fn spec(init: &Value) -> Template {
    Template::new(json!({"spec": {
        "volumes": [{"name": "in", "configMap": {"name": "conf"}}, {"name": "tls", "secret": {"secretName": "tls"}},
            {"name": "all", "projected": {"sources": []}}, {"name": "info", "downwardAPI": {"items": []}}, {"name": "out", "emptyDir": {}},
            {"name": "own", "emptyDir": {}}],
        "initContainers": [init],
        "containers": [{"name": "web", "volumeMounts": [{"name": "out"}, {"name": "in"}]}]}}))
}

fn found(mut init: Value) -> Vec<OncePerPod> {
    init["name"] = "render".into();
    OncePerPod::of(&spec(&init))
}

#[test]
fn what_an_init_container_is_given_and_what_it_leaves_are_found() {
    let table = [
        (json!({"volumeMounts": [{"name": "in"}]}), Some("mounts ConfigMap conf"), None),
        (json!({"volumeMounts": [{"name": "out"}, {"name": "tls"}]}), Some("mounts Secret tls"), Some("out")),
        (json!({"volumeMounts": [{"name": "all"}]}), Some("mounts projected volume all"), None),
        (json!({"volumeMounts": [{"name": "info"}]}), Some("mounts downward API volume info"), None),
        (json!({"envFrom": [{"configMapRef": {"name": "c"}}]}), Some("reads ConfigMap c"), None),
        (json!({"envFrom": [{"secretRef": {"name": "s"}}]}), Some("reads Secret s"), None),
        (
            json!({"env": [{"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]}),
            Some("reads ConfigMap c"),
            None,
        ),
        (json!({"env": [{"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}), Some("reads Secret s"), None),
        (json!({"volumeMounts": [{"name": "out"}]}), None, Some("out")),
    ];
    for (init, reads, shares) in table {
        let [reads, shares] = [reads, shares].map(|text| text.map(ToOwned::to_owned));
        assert_eq!(found(init), [OncePerPod::InitContainer { container: "render".to_owned(), reads, shares }]);
    }
}

#[test]
fn what_waits_for_others_and_what_runs_on_are_nothing_of_it() {
    assert_eq!(found(json!({"env": [{"name": "A", "value": "1"}], "volumeMounts": [{"name": "own"}]})), []);
    assert_eq!(found(json!({"restartPolicy": "Always", "volumeMounts": [{"name": "in"}]})), []);
}

#[test]
fn volumes_that_are_filled_when_a_pod_is_made_are_found() {
    let volumes = json!([{"name": "keys", "csi": {"driver": "secrets-store.csi.k8s.io"}}, {"name": "data", "persistentVolumeClaim": {}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]);
    let found = OncePerPod::of(&Template::new(json!({"spec": {"volumes": volumes, "containers": [{"name": "web"}]}})));
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["volume keys is not mounted again", "volume scratch is not mounted again"]);
    let because = |says| found[0].keeps_from(says, "rollme");
    let text = because(Says::Restart).unwrap().text;
    assert!(text.ends_with("volume keys is an inline CSI volume, which is mounted once for each pod"), "{text}");
    assert!(because(Says::ConfigChanged).is_some());
    assert_eq!(because(Says::Reload), None, "it is about ConfigMaps and Secrets");
}

#[test]
fn containers_that_the_template_does_not_have_are_found_in_either_list() {
    let template = spec(&json!({"name": "render"}));
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json!({"metadata": {}, "spec": {
        "containers": [{"name": "web"}, {"name": "proxy"}],
        "initContainers": [{"name": "render"}, {"name": "setup"}, {"name": "native", "restartPolicy": "Always"}]}}))
    .unwrap();
    let pod = PodView::from(&pod);
    let said: Vec<String> = OncePerPod::injected(&template, &[&pod, &pod]).iter().map(ToString::to_string).collect();
    assert_eq!(said, ["native", "proxy", "setup"].map(|name| format!("container {name} is left as it is")));
}

#[test]
fn what_containers_write_into_an_empty_dir_is_said_beforehand() {
    let template = Template::new(json!({"spec": {
        "volumes": [{"name": "run", "emptyDir": {}}, {"name": "conf", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}],
        "containers": [{"name": "web", "volumeMounts": [{"name": "run"}, {"name": "conf", "readOnly": true}]}]}}));
    let [found] = OncePerPod::all(&template, &[]).try_into().unwrap();
    assert!(matches!(&found, OncePerPod::EmptyDir { volume, container } if volume == "run" && container == "web"));
    let restarts = |annotations: Value| {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop",
            "uid": "u", "annotations": annotations}, "spec": {"template": {"spec": {"containers": []}}}});
        RestartAnnotations::of(&crate::registry::read(object).unwrap().unwrap(), &template)
    };
    let in_place = restarts(json!({"hitless.dev/update": "in-place"}));
    let only = restarts(json!({"hitless.dev/update": "in-place-only"}));
    let containers = restarts(json!({"hitless.dev/update": "in-place", "hitless.dev/restarts": "containers"}));
    let said = found.beforehand(&in_place);
    assert!(
        said.contains("a pid or lock file that container web leaves") && said.ends_with("tried in new pods"),
        "{said}"
    );
    assert!(found.beforehand(&only).ends_with("halted"));
    assert_eq!(OncePerPod::of(&template), [], "a restart does not say it each time");
    let volume = OncePerPod::Volume { volume: "keys".to_owned(), what: "an inline CSI volume" };
    assert!(volume.beforehand(&in_place).ends_with("is native"));
    assert!(volume.beforehand(&only).ends_with("is refused"));
    assert!(volume.beforehand(&containers).ends_with("is in place"), "its owner wants that");
}

#[test]
fn a_restart_for_configuration_says_that_nobody_has_seen_it_in_the_volumes() {
    let template = |annotations: Value, volume: &str| {
        Template::new(json!({"metadata": {"annotations": annotations}, "spec": {
            "volumes": [{"name": "conf", "configMap": {"name": "web-config"}}, {"name": "own", "emptyDir": {}}],
            "containers": [{"name": "web", "image": "web:v1", "volumeMounts": [{"name": volume, "mountPath": "/etc/web"}]}]}}))
    };
    let said = |opt_in: Value, key: &str, volume: &str| {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop",
            "uid": "u", "annotations": opt_in}, "spec": {"template": {"spec": {"containers": []}}}});
        let workload = crate::registry::read(object).unwrap().unwrap();
        let [from, to] = ["1", "2"].map(|value| template(json!({key: value}), volume));
        left_by_restart(&workload, Some(&from.shape().annotations), &to, &[])
    };
    let in_place = json!({"hitless.dev/update": "in-place"});
    let expected = ", but whether their volumes had the new ConfigMap web-config is not proven (hitless.dev/reload=auto proves it); new pods: \
                    kubectl hitless restart --new-pods -n shop deployment/web";
    assert_eq!(said(in_place.clone(), "checksum/config", "conf"), expected);
    let reloads = json!({"hitless.dev/update": "in-place", "hitless.dev/reload": "auto"});
    for (opt_in, key, volume) in [
        (in_place.clone(), "rollme", "conf"),
        (in_place, "checksum/config", "own"),
        (reloads, "checksum/config", "conf"),
    ] {
        let said = said(opt_in, key, volume);
        assert!(said.starts_with("; new pods: "), "{said}");
    }
}
