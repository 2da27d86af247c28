//! The owner's update strategy, kept while `OnDelete` stands in its place.

use hitless_api::names::{self, annotations};
use serde_json::{Value, json};

use crate::halted::Halted;
use crate::kinds::update_strategy::is_on_delete;
use crate::object::Object;
use crate::template::Template;
use crate::write::Write;

const STRATEGY: [&str; 2] = ["spec", "updateStrategy"];

/// The strategy that the owner wants.
pub(in crate::kinds) fn wanted(object: &Object, strategy: &Value) -> Value {
    if !object.held_by_guard() || !is_on_delete(strategy) {
        return strategy.clone();
    }
    let kept = object.annotations.get(annotations::UPDATE_STRATEGY).and_then(|text| serde_json::from_str(text).ok());
    kept.unwrap_or_else(|| json!({"type": "RollingUpdate"}))
}

/// Gives the object the strategy that its owner wants, and takes the guard's marks off. The mark of a version that was judged bad
/// goes once another one than that which was put back has come to its end.
pub(in crate::kinds) fn put_back(object: &Object, strategy: &Value, template: &Template) -> Write {
    release_with(object, strategy, Halted::is_over(object, template))
}

/// The same for an uninstall.
pub(in crate::kinds) fn release(object: &Object, strategy: &Value) -> Option<Write> {
    object.held_by_guard().then(|| release_with(object, strategy, false))
}

fn release_with(object: &Object, strategy: &Value, forget_halt: bool) -> Write {
    let halted = if forget_halt { Some(annotations::HALTED) } else { None };
    let marks = [Some(annotations::ROLLOUT), Some(annotations::UPDATE_STRATEGY), Some(annotations::WAY), halted];
    let present = marks.into_iter().flatten().filter(|name| object.annotations.contains_key(*name));
    let strategy = wanted(object, strategy);
    Write::patch("put-strategy-back", object, |patch| {
        let patch = patch.replace(&STRATEGY, strategy);
        present.fold(patch, |patch, name| patch.remove(&["metadata", "annotations", name]))
    })
}

/// A strategy in the only form in which the policies `hitless-wanted-*` let it be remembered.
fn text(strategy: &Value) -> String {
    let field = |name: &str| Some(format!("\"{name}\":{}", strategy["rollingUpdate"].get(name)?));
    let fields: Vec<String> = ["partition", "maxUnavailable", "maxSurge"].into_iter().filter_map(field).collect();
    let fields = if fields.is_empty() { String::new() } else { format!(",\"rollingUpdate\":{{{}}}", fields.join(",")) };
    format!("{{\"type\":{}{fields}}}", strategy["type"])
}

/// The object as the guard policy stores it when its template changes.
pub(in crate::kinds) fn held(mut root: Value) -> Value {
    let strategy = root["spec"]["updateStrategy"].clone();
    if !is_on_delete(&strategy) {
        let strategy = if strategy.is_null() { json!({"type": "RollingUpdate"}) } else { strategy };
        root["metadata"]["annotations"][annotations::UPDATE_STRATEGY] = text(&strategy).into();
        root["metadata"]["annotations"][annotations::ROLLOUT] = names::ROLLOUT_HELD.into();
        root["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    }
    root
}
