use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::diff::InPlace;
use crate::labels::Selections;
use crate::registry;

fn workload(own: Option<&str>) -> Object {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    if let Some(own) = own {
        object["metadata"]["annotations"] = json!({"hitless.dev/restart-annotations": own});
    }
    registry::read(object).unwrap().unwrap()
}

fn template(annotations: &Value, spec: &Value) -> Template {
    Template::new(json!({"metadata": {"labels": {"app": "web"}, "annotations": annotations}, "spec": spec}))
}

/// Why a change of this annotation can't be made in place.
fn change(own: Option<&str>, key: &str, spec: &Value) -> Option<String> {
    let values = [json!({}), json!({key: "a"}), json!({key: "b"})];
    let all = values.map(|values| template(&values, spec));
    let restarts = RestartAnnotations::of(&workload(own), &all[0]);
    let answers: Vec<Option<String>> = [(0, 1), (1, 0), (1, 2)]
        .into_iter()
        .map(|(from, to)| {
            let (from, to) = (all[from].shape(), all[to].shape());
            let because = restarts.first_native_change(&from.annotations, &to.annotations);
            because.map(|because| because.text)
        })
        .collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "added, removed and changed are the same: {answers:?}");
    answers[0].clone()
}

#[test]
fn which_annotations_restart_by_themselves() {
    let table = [
        ("kubectl.kubernetes.io/restartedAt", true),
        ("rollme", true),
        ("checksum/config", true),
        ("reloader.stakater.com/last-reloaded-from", true),
        ("keel.sh/update-time", true),
        ("checksum", false),
        ("rollme2", false),
        ("kubectl.kubernetes.io/default-container", false),
        ("argocd.argoproj.io/tracking-id", false),
        ("sidecar.istio.io/inject", false),
        ("hitless.dev/drain", false),
    ];
    for (key, restarts) in table {
        assert_eq!(change(None, key, &json!({})).is_none(), restarts, "{key}");
    }
}

#[test]
fn own_keys_and_prefixes_count_and_what_hitless_reads_never_does() {
    let own = Some(" config-hash, example.com/* ,h*,podt*");
    for (key, restarts) in [
        ("config-hash", true),
        ("config-hash2", false),
        ("example.com/a", true),
        ("example.org/a", false),
        ("hello", true),
        ("hitless.dev/mode", false),
        ("podtransitionrule.kusionstack.io/skip-rule-conditions", false),
    ] {
        assert_eq!(change(own, key, &json!({})).is_none(), restarts, "{key}");
    }
}

#[test]
fn a_broken_list_names_every_entry_that_means_nothing() {
    let broken =
        |text: &str| -> Vec<String> { OwnList::parse(text).broken.into_iter().map(|broken| broken.entry).collect() };
    for right in ["", "  ", "a", "a.b/c_d-e", "a/*", "a-*", "A/b,c"] {
        assert_eq!(broken(right), Vec::<String>::new(), "{right}");
    }
    for wrong in
        ["*", "a b", "a/b/c", "/a", "a/", "-a", "a-", "a*b", "**", "hitless.dev/drain", "hitless.dev/*", "ä", "/*"]
    {
        assert_eq!(broken(&format!("x,{wrong}")), [wrong], "{wrong}");
    }
    assert_eq!(broken("a,,b,"), ["", ""]);
    let text = change(Some("my key"), "mykey", &json!({})).unwrap();
    assert!(text.contains(r#"the entry "my key" of hitless.dev/restart-annotations"#), "{text}");
}

#[test]
fn an_annotation_that_the_downward_api_reads_is_native_and_the_field_is_named() {
    let reference = |path: &str| json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}});
    let env = |path: &str| json!({"name": "web", "env": [{"name": "A", "value": "b"}, {"name": "SUM", "valueFrom": reference(path)}]});
    let item = |path: &str| json!({"items": [{"path": "notes", "fieldRef": {"fieldPath": path}}]});
    let one = "metadata.annotations['checksum/config']";
    let table = [
        (json!({"containers": [env(one)]}), Some("containers[web].env[SUM]")),
        (json!({"initContainers": [env(one)]}), Some("initContainers[web].env[SUM]")),
        (json!({"containers": [env("metadata.annotations['checksum/other']")]}), None),
        (json!({"containers": [env("metadata.labels['checksum/config']")]}), None),
        (json!({"containers": [env("metadata.name")]}), None),
        (
            json!({"volumes": [{"name": "v", "downwardAPI": item("metadata.annotations")}]}),
            Some("volumes[v].downwardAPI.items[notes]"),
        ),
        (json!({"volumes": [{"name": "v", "downwardAPI": item(one)}]}), Some("volumes[v].downwardAPI.items[notes]")),
        (json!({"volumes": [{"name": "v", "downwardAPI": item("metadata.labels")}]}), None),
        (
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {}}, {"downwardAPI": item("metadata.annotations")}]}}]}),
            Some("volumes[v].projected.sources[1].downwardAPI.items[notes]"),
        ),
    ];
    for (spec, field) in table {
        let text = change(None, "checksum/config", &spec);
        let expected = field.map(|field| {
            format!(
                "a change of spec.template.metadata.annotations[checksum/config] can't be made to running pods, because \
                 spec.template.spec.{field} reads it"
            )
        });
        assert_eq!(text, expected, "{spec}");
    }
}

fn annotations() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = prop_oneof![Just("checksum/a"), Just("checksum/b"), Just("rollme"), Just("foreign")];
    prop::collection::btree_map(key.prop_map(str::to_owned), "[a-c]{1,2}", 0..4)
}

proptest! {
    #[test]
    fn a_template_is_put_back_exactly_and_only_where_all_of_it_can_be(
        before in annotations(), after in annotations(), images in ("[a-b]", "[a-b]"), charts in ("[1-2]?", "[1-2]?"),
    ) {
        let of = |annotations: &BTreeMap<String, String>, image: &str, chart: &str| {
            let mut value = json!({"metadata": {}, "spec": {"containers": [{"name": "web", "image": image}]}});
            if !annotations.is_empty() {
                value["metadata"]["annotations"] = json!(annotations);
            }
            if !chart.is_empty() {
                value["metadata"]["labels"] = json!({"helm.sh/chart": chart});
            }
            Template::new(value)
        };
        let (from, to) = (of(&before, &images.0, &charts.0), of(&after, &images.1, &charts.1));
        prop_assert_eq!(&from.shape().fixed, &to.shape().fixed);
        let back = Template::new(to.reshaped(from.shape()));
        prop_assert_eq!(back.shape(), from.shape());
        prop_assert_eq!(back.content(), from.content());
        let allowed = InPlace::of(&workload(None), &to, &Selections::default()).allows(from.shape());
        prop_assert_eq!(allowed, before.get("foreign") == after.get("foreign"));
        prop_assert_eq!(from.shape().annotations.digest() == to.shape().annotations.digest(), before == after);
    }
}

#[test]
fn what_its_owner_wants_restarts_to_be_decides() {
    use crate::because::Cause::{Field, InitContainer, NewPodsWished, VolumeMountedOnce};
    let spec = json!({"volumes": [{"name": "keys", "csi": {}}], "containers": [{"name": "web"}],
        "initContainers": [{"name": "render", "envFrom": [{"secretRef": {"name": "db"}}]}]});
    let cause_of = |policy: Option<&str>, key: &str| {
        let mut workload = workload(None);
        workload.annotations.extend(policy.map(|policy| ("hitless.dev/restarts".to_owned(), policy.to_owned())));
        let [from, to] = [json!({}), json!({key: "2"})].map(|all| template(&all, &spec));
        let because = RestartAnnotations::of(&workload, &to)
            .first_native_change(&from.shape().annotations, &to.shape().annotations);
        because.map(|because| because.cause)
    };
    let (restart, sum, reload) = ("kubectl.kubernetes.io/restartedAt", "checksum/a", "hitless.dev/config");
    for policy in [None, Some("auto"), Some("pod")] {
        let all = [restart, sum, reload].map(|key| cause_of(policy, key));
        assert_eq!(all, [Some(VolumeMountedOnce), Some(InitContainer), None], "{policy:?}");
    }
    assert_eq!([restart, sum, reload].map(|key| cause_of(Some("containers"), key)), [None; 3]);
    assert_eq!([restart, sum, reload].map(|key| cause_of(Some("pods"), key)), [Some(NewPodsWished); 3]);
    for policy in [None, Some("containers"), Some("pods")] {
        assert_eq!(cause_of(policy, "hitless.dev/new-pods"), Some(NewPodsWished));
        assert_eq!(cause_of(policy, "example.com/a"), Some(Field));
    }
}

#[test]
fn a_wish_for_restarts_that_means_nothing_is_told() {
    let said = |value: &str| {
        let mut workload = workload(None);
        workload.annotations.insert("hitless.dev/restarts".to_owned(), value.to_owned());
        notes(&workload, &crate::kinds::deployment::DEPLOYMENT).map(|note| (note.reason, note.text)).collect::<Vec<_>>()
    };
    assert_eq!(said("pods"), []);
    let [(reason, text)] = said("Pods").try_into().unwrap();
    assert_eq!(reason, "RestartsInvalid");
    assert!(text.contains(r#"is "Pods", which means nothing"#), "{text}");
}
