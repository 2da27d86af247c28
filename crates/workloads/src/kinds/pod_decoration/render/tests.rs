use super::super::body::template;
use super::*;
use serde_json::json;

fn rendered(decorations: &[Value]) -> Value {
    let own = json!({"metadata": {"labels": {"app": "web"}, "annotations": {"config": "{\"a\":1,\"b\":2}", "plain": "own"}},
        "spec": {"containers": [{"name": "web", "image": "web:v1", "env": [{"name": "A", "value": "1"}]}, {"name": "second", "image": "s:v1"}],
            "initContainers": [{"name": "first", "image": "i:v1"}], "volumes": [{"name": "data", "emptyDir": {}}]}});
    let decorations: Vec<DecorationTemplate> = decorations.iter().map(template).collect();
    render(&own, &decorations)
}

fn field(pod: &Value, list: &str, name: &str) -> Vec<String> {
    items(&pod["spec"][list]).map(|each| each[name].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn without_decorations_it_is_the_template() {
    assert_eq!(rendered(&[]), rendered(&[json!({})]));
}

#[test]
fn containers_come_before_or_after_the_templates_own() {
    let pod = rendered(&[
        json!({"containers": [{"name": "proxy", "image": "p:v1", "injectPolicy": "AfterPrimaryContainer"}, {"name": "log", "image": "l:v1"},
            {"name": "agent", "image": "a:v1", "injectPolicy": "BeforePrimaryContainer"}], "initContainers": [{"name": "first", "image": "x"}, {"name": "more", "image": "m"}]}),
    ]);
    assert_eq!(field(&pod, "containers", "name"), ["log", "agent", "web", "second", "proxy"]);
    assert!(pod["spec"]["containers"][4].get("injectPolicy").is_none(), "no field of a container");
    assert_eq!(field(&pod, "initContainers", "image"), ["i:v1", "m"], "the name is taken, so its own is kept");
}

#[test]
fn a_container_of_the_same_name_is_replaced() {
    let pod = rendered(&[json!({"containers": [{"name": "second", "image": "s:v9"}]})]);
    assert_eq!(field(&pod, "containers", "image"), ["web:v1", "s:v9"]);
}

#[test]
fn labels_and_annotations_follow_their_policy() {
    let with = |policy: Value| {
        let pod = rendered(&[json!({"metadata": [{"patchPolicy": policy, "labels": {"team": "x"},
            "annotations": {"config": "{\"b\":null,\"c\":3}", "plain": "other", "new": "n"}}]})]);
        let all = &pod["metadata"]["annotations"];
        assert_eq!((&pod["metadata"]["labels"]["team"], &all["new"]), (&json!("x"), &json!("n")));
        (all["config"].clone(), all["plain"].clone())
    };
    assert_eq!(with(Value::Null), (json!("{\"a\":1,\"b\":2}"), json!("own")), "Retain is the default");
    assert_eq!(with(json!("Overwrite")), (json!("{\"b\":null,\"c\":3}"), json!("other")));
    assert_eq!(with(json!("MergePatchJson")), (json!("{\"a\":1,\"c\":3}"), json!("other")), "text is no JSON");
}

#[test]
fn primary_containers_are_meant_by_name_or_by_place() {
    let with = |target: Value| {
        let mut primary = json!({"image": "x:v1", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
            "volumeMounts": [{"name": "data", "mountPath": "/d"}]});
        for (key, value) in target.as_object().into_iter().flatten() {
            primary[key] = value.clone();
        }
        let side =
            json!({"containers": [{"name": "side", "image": "side:v1", "injectPolicy": "AfterPrimaryContainer"}]});
        rendered(&[side, json!({"primaryContainers": [primary]})])
    };
    let images = |target: Value| field(&with(target), "containers", "image");
    assert_eq!(images(json!({})), ["x:v1", "x:v1", "side:v1"], "never another decoration's");
    assert_eq!(images(json!({"name": "second"})), ["web:v1", "x:v1", "side:v1"]);
    assert_eq!(images(json!({"targetPolicy": "First"})), ["x:v1", "s:v1", "side:v1"]);
    assert_eq!(images(json!({"targetPolicy": "Last"})), ["web:v1", "x:v1", "side:v1"]);
    assert_eq!(images(json!({"targetPolicy": "ByName", "name": "gone"})), ["web:v1", "s:v1", "side:v1"]);
    let web = with(json!({"targetPolicy": "First"}))["spec"]["containers"][0].clone();
    assert_eq!(web["env"], json!([{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]));
    assert_eq!(web["volumeMounts"], json!([{"name": "data", "mountPath": "/d"}]));
}

#[test]
fn volumes_affinity_tolerations_and_the_runtime_class_are_set() {
    let term = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
    let pod = rendered(&[
        json!({"volumes": [{"name": "data", "configMap": {"name": "c"}}, {"name": "more", "emptyDir": {}}],
        "tolerations": [{"key": "k", "operator": "Exists"}], "runtimeClassName": "kata",
        "affinity": {"overrideAffinity": {"podAntiAffinity": {}}, "nodeSelectorTerms": [term]}}),
    ]);
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "data", "configMap": {"name": "c"}}, {"name": "more", "emptyDir": {}}])
    );
    assert_eq!(
        (&pod["spec"]["tolerations"][0]["key"], &pod["spec"]["runtimeClassName"]),
        (&json!("k"), &json!("kata"))
    );
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required["nodeSelectorTerms"], json!([term]));
    assert!(pod["spec"]["affinity"].get("podAntiAffinity").is_some());
}
