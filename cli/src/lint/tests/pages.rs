//! The objects that the pages of documentation show are objects that the API server takes and that do what they are meant to.

use hitless_api::InvalidDrain;
use hitless_api::pod::PodView;
use hitless_pages::{Code, pages};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;

/// Keys of the parts of a kustomization that pages show.
const KUSTOMIZATION: [&str; 4] = ["resources", "components", "images", "patches"];

/// What is wrong with a block of YAML or JSON.
fn faults(text: &str) -> Vec<String> {
    let value: Value = match serde_saphyr::from_str(text) {
        Ok(value) => value,
        // Several documents, or none.
        Err(error) if !text.contains("\n---") => return vec![format!("is no YAML: {error}")],
        Err(_) => Value::Null,
    };
    let object = match keys(&value).as_slice() {
        [] if value.is_null() => text.to_owned(),
        keys if keys.contains(&"apiVersion") => text.to_owned(),
        // Of a pod, or of its template.
        ["spec"] | ["metadata", "spec"] => {
            let mut metadata = json!({"name": "a"});
            json_patch::merge(&mut metadata, value.get("metadata").unwrap_or(&json!({})));
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": value["spec"]}).to_string()
        }
        keys if keys.iter().all(|key| key.starts_with("hitless.dev/")) => return annotations(&value),
        keys if keys.iter().all(|key| KUSTOMIZATION.contains(key)) => return Vec::new(),
        keys => return vec![format!("it is neither an object nor a part of one that is known: {keys:?}")],
    };
    let report = lint(&object);
    let errors = report.findings.into_iter().filter(|found| found.severity == finding::Severity::Error);
    errors.map(|found| format!("{}: {}", found.object, found.text)).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

/// What is wrong with these annotations of a pod.
fn annotations(annotations: &Value) -> Vec<String> {
    let pod = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "web"}]}});
    let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
    InvalidDrain::in_annotations(&pod).into_iter().map(|(_, error)| error.to_string()).collect()
}

#[test]
fn every_object_of_the_pages_is_in_order() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages().unwrap() {
        for fence in page.fences.iter().filter(|fence| matches!(fence.language(), "yaml" | "json")) {
            count += 1;
            wrong.extend(faults(&fence.text).into_iter().map(|fault| format!("{}:{}: {fault}", page.path, fence.line)));
        }
        let said =
            |code: &&Code| InvalidDrain::ANNOTATIONS.iter().any(|key| code.text.starts_with(&format!("{key}: ")));
        for code in page.code.iter().filter(said) {
            count += 1;
            let value: Value = serde_saphyr::from_str(&code.text).unwrap();
            wrong.extend(annotations(&value).into_iter().map(|fault| format!("{}:{}: {fault}", page.path, code.line)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 7, "{count} were looked at");
}

#[test]
fn what_would_be_refused_is_found() {
    let policy = "apiVersion: hitless.dev/v1alpha1\nkind: DrainPolicy\nmetadata: {name: a}\nspec: {selektor: {}}\n";
    assert!(faults(policy).iter().any(|fault| fault.contains("selektor")));
    assert!(faults("spec:\n  containers:\n  - {name: a, image: b, prots: []}\n")[0].contains("prots"));
    assert!(faults("    a: 1\n  b: 2\n")[0].starts_with("is no YAML"));
    assert!(faults("hitless.dev/mode: hold\n")[0].contains("use Auto, Leave or Hold"));
    assert!(faults("replicas: 3\n")[0].contains("neither an object nor a part"));
}
