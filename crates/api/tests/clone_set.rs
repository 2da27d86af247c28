//! The definition of CloneSet, and which version its objects are of.

#![allow(clippy::unwrap_used, reason = "a test")]

use hitless_api::CloneSet;
use hitless_api::clone_set::Shape;
use serde_json::{Value, json};

#[test]
fn both_versions_are_served_with_one_schema_and_the_stored_one_is_that_of_released_kruise() {
    let definitions = hitless_api::crds::definitions();
    let (_, crd) = definitions.iter().find(|(path, _)| path.ends_with("clonesets.yaml")).unwrap();
    let said = |version: usize| {
        (
            crd.spec.versions[version].name.as_str(),
            crd.spec.versions[version].served,
            crd.spec.versions[version].storage,
        )
    };
    assert_eq!([said(0), said(1)], [("v1alpha1", true, true), ("v1beta1", true, false)]);
    let [alpha, beta] = [0, 1].map(|version| json!(crd.spec.versions[version]));
    for field in ["schema", "subresources", "additionalPrinterColumns"] {
        assert_eq!(alpha[field], beta[field], "{field}");
    }
    assert_eq!(crd.spec.names.short_names, Some(vec!["clone".to_owned()]));
    let conversion = crd.spec.conversion.as_ref().unwrap();
    assert_eq!((conversion.strategy.as_str(), conversion.webhook.is_none()), ("None", true), "no server converts");
    let columns = alpha["additionalPrinterColumns"].as_array().unwrap();
    let names: Vec<&str> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names[..7], ["DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE", "READY", "TOTAL", "AGE"]);
}

fn shape(spec: &Value) -> (Shape, bool) {
    let mut all = json!({"selector": {"matchLabels": {"app": "web"}}, "template": {}});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    let object =
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"}, "spec": all});
    let set: CloneSet = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(json!(set)["spec"], object["spec"], "every field is read and written as it was");
    (set.spec.shape(), set.spec.is_of_both())
}

#[test]
fn an_object_is_of_the_version_that_its_fields_show() {
    let alpha = [
        json!({}),
        json!({"updateStrategy": {"type": "OnDelete"}}),
        json!({"updateStrategy": {"type": "InPlaceIfPossible", "maxSurge": "20%", "partition": 3}}),
        json!({"scaleStrategy": {"disablePVCReuse": true, "podsToDelete": ["web-a"]}}),
    ];
    let beta = [
        json!({"updateStrategy": {"type": "RollingUpdate"}}),
        json!({"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": 1}}}),
        json!({"scaleStrategy": {"enablePVCReuse": true}}),
    ];
    let both = [
        json!({"updateStrategy": {"type": "ReCreate", "rollingUpdate": {}}}),
        json!({"updateStrategy": {"type": "RollingUpdate", "partition": 1}}),
        json!({"updateStrategy": {"rollingUpdate": {}}, "scaleStrategy": {"disablePVCReuse": false}}),
    ];
    assert!(alpha.iter().all(|spec| shape(spec) == (Shape::V1Alpha1, false)));
    assert!(beta.iter().all(|spec| shape(spec) == (Shape::V1Beta1, false)));
    assert!(both.iter().all(|spec| shape(spec).1));
}
