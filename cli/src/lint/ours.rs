//! The kinds of hitless as their CustomResourceDefinitions have them, and names that are nearly theirs.

use std::sync::LazyLock;

use hitless_api::crds;
use hitless_api::names::GROUP;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion;
use serde_json::Value;

use super::finding::Finding;
use super::nearest::distance;
use crate::files::Object;

/// So many letters may differ in a name that is meant to be another one.
const NEAR: usize = 3;

#[derive(Debug)]
pub(super) struct Definition {
    group: String,
    kind: String,
    pub(super) version: String,
    pub(super) schema: Value,
}

static ALL: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let definitions = crds::definitions().into_iter();
    let versions = definitions.flat_map(|(_, crd)| {
        let (group, kind) = (crd.spec.group, crd.spec.names.kind);
        let read = move |version: CustomResourceDefinitionVersion| {
            let schema = serde_json::to_value(version.schema?.open_api_v3_schema?).ok()?;
            Some(Definition { group: group.clone(), kind: kind.clone(), version: version.name, schema })
        };
        crd.spec.versions.into_iter().filter_map(read)
    });
    versions.collect()
});

/// The definition of the object's kind in its version, else the first one of the kind; `None`: it is of no kind of hitless.
pub(super) fn definition(object: &Object) -> Option<&'static Definition> {
    let version = object.value["apiVersion"].as_str().and_then(|text| Some(text.rsplit_once('/')?.1));
    let of_kind = || ALL.iter().filter(|each| each.group == object.group() && each.kind == object.kind());
    of_kind().find(|each| Some(each.version.as_str()) == version).or_else(|| of_kind().next())
}

/// What is wrong with the kind or the group of an object that is meant to be one of ours: the API server does not know it.
fn misspelt(object: &Object) -> Option<String> {
    if definition(object).is_some() {
        return None;
    }
    let (group, kind) = (object.group(), object.kind());
    let version = object.value["apiVersion"].as_str().unwrap_or_default();
    let unknown = format!("kind {kind} of apiVersion {version} is not known");
    let meant = |each: &Definition| {
        format!("{unknown}; did you mean kind {} of apiVersion {}/{}?", each.kind, each.group, each.version)
    };
    let near = ALL.iter().filter_map(|each| {
        let away = (distance(&each.group, group), distance(&each.kind, kind));
        (away.0 <= NEAR && away.1 <= NEAR).then_some((away.0 + away.1, each))
    });
    if let Some((_, each)) = near.min_by_key(|(away, _)| *away) {
        return Some(meant(each));
    }
    // Another vendor may have a kind of that name. Kubernetes itself has none.
    let is_kubernetes = !group.contains('.') || group.ends_with(".k8s.io");
    if let Some(same) = ALL.iter().find(|each| each.kind == kind && (is_kubernetes || is_own(group))) {
        return Some(meant(same));
    }
    let kinds: Vec<&str> = ALL.iter().filter(|each| each.group == group).map(|each| each.kind.as_str()).collect();
    (group == GROUP).then(|| format!("{unknown}; known are: {}", kinds.join(", ")))
}

fn is_own(group: &str) -> bool {
    ALL.iter().any(|each| each.group == group)
}

/// The same, where it stands.
pub(super) fn check(object: &Object) -> Option<Finding> {
    let field = if ALL.iter().any(|each| each.kind == object.kind()) { "apiVersion" } else { "kind" };
    Some(Finding::error(object, object.node.line_of(&[field]), misspelt(object)?))
}
