//! Fields of an object of the API as JSON.

use serde_json::{Map, Value};

/// Entries of a list; none where it is absent.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Sets a field, making the objects on the way. Does nothing where something else than an object is in the way: that is no
/// object of the API.
pub(crate) fn set(value: &mut Value, path: &[&str], to: impl Into<Value>) {
    if let Some(field) = field(value, path) {
        *field = to.into();
    }
}

/// Changes the list at that place, in the same way: where there is none, an empty one.
pub(crate) fn change_list(value: &mut Value, path: &[&str], change: impl FnOnce(&mut Vec<Value>)) {
    let Some(field) = field(value, path) else { return };
    let mut list = match field.take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    };
    change(&mut list);
    *field = list.into();
}

fn field<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |at, key| Some(object(at)?.entry(*key).or_insert(Value::Null)))
}

fn object(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}
