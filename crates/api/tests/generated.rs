//! The committed definitions are the ones that the types say.

use std::fs;
use std::path::Path;

use hitless_api::PodDecoration;
use serde_json::Value;

#[test]
fn committed_crds_are_what_the_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests");
    for (name, text) in hitless_api::crds::all().unwrap() {
        let committed = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(committed == text, "manifests/{name} is stale: run `cargo xtask generate` and commit the result");
    }
}

/// An object that can't be read is left out: pods would be made anew without the sidecar.
#[test]
fn the_api_server_takes_no_number_that_can_not_be_read() {
    for (name, text) in hitless_api::crds::all().unwrap() {
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        check_numbers(name, &crd);
    }
    let with = |weight: i64| {
        let spec = serde_json::json!({"selector": {}, "weight": weight});
        let object = serde_json::json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration",
            "metadata": {"name": "log"}, "spec": spec});
        serde_json::from_value::<PodDecoration>(object)
    };
    assert!(with(i32::MIN.into()).is_ok() && with(i32::MAX.into()).is_ok());
    assert!(with(i64::from(i32::MIN) - 1).is_err());
}

fn check_numbers(path: &str, schema: &Value) {
    if schema["format"] == "int32" {
        let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        assert!(least.is_some_and(|least| least >= f64::from(i32::MIN)), "{path}: {least:?}");
        assert!(most.is_some_and(|most| most <= f64::from(i32::MAX)), "{path}: {most:?}");
    }
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields {
                check_numbers(&format!("{path}/{name}"), field);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| check_numbers(path, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
