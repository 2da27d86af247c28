//! Who owns which fields of an object (`metadata.managedFields`).

use hitless_api::names::CONTROLLER;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// An entry of `metadata.managedFields`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Managed {
    manager: String,
    subresource: String,
    fields_v1: Fields,
}

/// Its fields, without what is below them: there may be thousands.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:spec")]
    spec: Option<IgnoredAny>,
}

/// The index of the entry by which our controller owns fields of the spec. `None`, too, if there is no other entry: an empty list is no
/// list to the API server, and leaves what was.
pub(crate) fn of_spec(entries: &[Managed]) -> Option<usize> {
    let is_ours =
        |entry: &Managed| entry.manager == CONTROLLER && entry.subresource.is_empty() && entry.fields_v1.spec.is_some();
    entries.iter().position(is_ours).filter(|_| entries.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn only_fields_of_the_spec_that_are_ours_are_given_up() {
        let entry =
            |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
        let (spec, note) = (json!({"f:spec": {"f:paused": {}}}), json!({"f:metadata": {"f:annotations": {}}}));
        let mut status = entry(CONTROLLER, spec.clone());
        status["subresource"] = json!("status");
        let others = entry("gitops", spec.clone());
        for (entries, expected, why) in [
            (json!([others, entry(CONTROLLER, spec.clone())]), Some(1), "we have put it back"),
            (json!([others, entry(CONTROLLER, note)]), None, "an annotation is our own"),
            (json!([others, status]), None, "so is what we report"),
            (json!([entry(CONTROLLER, spec)]), None, "the only entry can't be taken away"),
            (json!([others]), None, "nothing is ours"),
        ] {
            let entries: Vec<Managed> = serde_json::from_value(entries).unwrap();
            assert_eq!(of_spec(&entries), expected, "{why}");
        }
    }
}
