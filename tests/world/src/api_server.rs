//! What an API server makes of a request for an object.

use hitless_workloads::{Request, Write};
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
        (Request::Create(object), None) => Ok(Some(created(object.clone(), version, now))),
        (Request::Patch(_) | Request::Status(_) | Request::Delete { .. } | Request::Look, None) => {
            Err(Refused::NotFound)
        }
        (Request::Patch(patch) | Request::Status(patch), Some(known)) => {
            let mut object = known.clone();
            json_patch::patch(&mut object, &patch.clone().operations()).map_err(|_| Refused::Conflict)?;
            Ok(Some(stored(known, object, version)))
        }
        (Request::Delete { resource_version }, Some(known)) => {
            let same = known["metadata"]["resourceVersion"] == resource_version.as_str()
                && known["metadata"]["uid"] == write.on.uid.as_str();
            if same { Ok(None) } else { Err(Refused::Conflict) }
        }
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

/// The object as it is stored when somebody has changed it: with the next version, and the next generation if its spec differs.
#[must_use]
pub fn stored(before: &Value, mut object: Value, version: &str) -> Value {
    object["metadata"]["resourceVersion"] = json!(version);
    let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
    object["metadata"]["generation"] = json!(generation + i64::from(before["spec"] != object["spec"]));
    object
}
