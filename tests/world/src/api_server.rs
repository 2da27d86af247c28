//! What an API server makes of a request for an object.

use hitless_api::{JsonPatch, Version};
use hitless_workloads::{Request, Write};
use json_patch::PatchOperation;
use serde_json::{Value, json};

/// Why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The object is not as the request wants it to be, or exists already.
    Conflict,
    /// There is none of that name.
    NotFound,
}

/// The object as it is stored after `write`; `None`: it was deleted. `known` is the one that is stored under its name, `version`
/// the next resourceVersion, `now` the time of a creation.
///
/// # Errors
/// If a precondition does not hold.
pub fn carry_out(write: &Write, known: Option<&Value>, version: &str, now: &str) -> Result<Option<Value>, Refused> {
    match (&write.request, known) {
        (Request::Create(_), Some(_)) => Err(Refused::Conflict),
        (Request::Create(object) | Request::Ensure { object, .. }, None) => {
            Ok(Some(created(object.clone(), version, now)))
        }
        // Nobody makes one that says something else here.
        (Request::Ensure { .. }, Some(known)) => Ok(Some(known.clone())),
        (Request::Patch(_) | Request::Merge(_) | Request::Status(_) | Request::Delete(_) | Request::Look, None) => {
            Err(Refused::NotFound)
        }
        (Request::Merge(patch), Some(known)) => {
            let is_same = |name: &str| patch["metadata"][name] == known["metadata"][name];
            if !is_same("uid") || !is_same("resourceVersion") {
                return Err(Refused::Conflict);
            }
            let mut object = known.clone();
            json_patch::merge(&mut object, patch);
            Ok(Some(stored(known, object, version)))
        }
        (Request::Patch(patch) | Request::Status(patch), Some(known)) => {
            Ok(Some(stored(known, patched(known, patch).ok_or(Refused::Conflict)?, version)))
        }
        (Request::Delete(deletion), Some(known)) => {
            let is_of = |version: &str| known["metadata"]["resourceVersion"] == version;
            let same =
                deletion.resource_version().is_none_or(is_of) && known["metadata"]["uid"] == write.on.uid.as_str();
            if same { Ok(None) } else { Err(Refused::Conflict) }
        }
        // Who refuses pods is not played here.
        (Request::Try(_), known) => Ok(known.cloned()),
        (Request::Absent { .. }, None) => Ok(None),
        (Request::Absent { owner_uid }, Some(known)) => {
            let owners = known["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let is_there =
                owners.into_iter().any(|owner| owner["uid"] == owner_uid.as_str() && owner["controller"] == true);
            if is_there { Err(Refused::Conflict) } else { Ok(Some(known.clone())) }
        }
        (Request::Look, Some(known)) => {
            let same = known["metadata"]["uid"] == write.on.uid.as_str();
            if same { Ok(Some(known.clone())) } else { Err(Refused::Conflict) }
        }
    }
}

/// Whether the write is carried out on an object of which a harness keeps something else than JSON; `None`: there is none.
///
/// # Errors
/// If a precondition does not hold.
pub fn review(write: &Write, known: Option<&Version>) -> Result<(), Refused> {
    let stub = |known: &Version| json!({"metadata": {"uid": known.uid, "resourceVersion": known.resource_version}, "spec": {}, "status": {"conditions": []}});
    carry_out(write, known.map(stub).as_ref(), "", "").map(drop)
}

/// The object after the patch; `None` if a test fails. For the API server a test for null is one for absence, which RFC 6902 does not
/// know (`evanphx/json-patch`, `Patch.test`).
fn patched(known: &Value, patch: &JsonPatch) -> Option<Value> {
    let is_there = |path: &str| known.pointer(path).is_some();
    let is_absence = |operation: &PatchOperation| matches!(operation, PatchOperation::Test(test) if test.value.is_null() && !is_there(test.path.as_str()));
    let mut operations = patch.clone().operations();
    operations.0.retain(|operation| !is_absence(operation));
    let mut object = known.clone();
    json_patch::patch(&mut object, &operations).ok()?;
    Some(object)
}

/// The object as it is stored when somebody has made it.
#[must_use]
pub fn created(mut object: Value, version: &str, now: &str) -> Value {
    let meta = &mut object["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    meta["uid"] = json!(format!("uid-{name}-{version}"));
    meta["resourceVersion"] = json!(version);
    meta["creationTimestamp"] = json!(now);
    meta["generation"] = json!(1);
    object
}

/// The object as it is stored when somebody has changed it: with the next version, and the next generation if its spec differs. A map
/// of labels or annotations without entries is none.
#[must_use]
pub fn stored(before: &Value, mut object: Value, version: &str) -> Value {
    object["metadata"]["resourceVersion"] = json!(version);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
        metadata.retain(|name, value| !(["labels", "annotations"].contains(&name.as_str()) && is_empty(value)));
    }
    let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
    object["metadata"]["generation"] = json!(generation + i64::from(before["spec"] != object["spec"]));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_for_null_is_one_for_absence_and_an_empty_map_is_none() {
        let bare = json!({"metadata": {"uid": "u", "resourceVersion": "1"}});
        let annotation = ["metadata", "annotations", "a"];
        let patch = JsonPatch::of("u").new_map(&annotation[..2]).add(&annotation, "1");
        let annotated = stored(&bare, patched(&bare, &patch).unwrap(), "2");
        assert_eq!(annotated["metadata"]["annotations"]["a"], "1");
        assert_eq!(patched(&annotated, &patch), None, "they are there");
        let taken_off = stored(&annotated, patched(&annotated, &JsonPatch::of("u").remove(&annotation)).unwrap(), "3");
        assert_eq!(taken_off["metadata"].get("annotations"), None);
        assert!(patched(&taken_off, &patch).is_some());
        assert_eq!(patched(&bare, &JsonPatch::of("another")), None);
    }
}
