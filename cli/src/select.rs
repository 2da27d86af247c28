//! Which workloads a command means: those that are named, or those that a label selector selects.

use std::fmt;
use std::str::FromStr;

use hitless_api::selector::{self, Selector};
use hitless_workloads::{Object, registry};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::args::{Selection, Target, TargetKind, workload_targets};
use crate::failure::Failure;
use crate::snapshot::Snapshot;

/// kubectl's `-l`: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Labels(Selector<'static>);

impl Labels {
    pub(crate) fn match_object(&self, object: &Object) -> bool {
        self.0.matches(&object.labels)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Labels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = split(text)?;
        let requirements = parts.into_iter().map(requirement).collect::<Result<Vec<_>, _>>()?;
        let selector = LabelSelector { match_expressions: Some(requirements), match_labels: None };
        let understood = selector::read(&selector).map_err(|fault| fault.to_string())?;
        Ok(Self(understood.into_owned()))
    }
}

/// At commas that are not between parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    if inside { Err("a parenthesis is not closed; write for example tier in (web,api)".to_owned()) } else { Ok(parts) }
}

fn requirement(part: &str) -> Result<LabelSelectorRequirement, String> {
    let part = part.trim();
    let made = |key: &str, operator: &str, values: Option<Vec<String>>| {
        let key = key.trim();
        if key.is_empty() || key.contains(|c: char| c.is_whitespace() || "!=()".contains(c)) {
            return Err(format!("{part:?} is no label selector; write for example app=web or tier in (web,api)"));
        }
        Ok(LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values })
    };
    let one = |value: &str| Some(vec![value.trim().to_owned()]);
    if let Some(key) = part.strip_prefix('!') {
        return made(key, "DoesNotExist", None);
    }
    if let Some((key, value)) = part.split_once("!=") {
        return made(key, "NotIn", one(value));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return made(key, "In", one(value));
    }
    let Some((before, list)) = part.split_once('(') else { return made(part, "Exists", None) };
    let values = list.trim_end().trim_end_matches(')').split(',').map(|value| value.trim().to_owned()).collect();
    match before.trim_end().rsplit_once(char::is_whitespace) {
        Some((key, "in")) => made(key, "In", Some(values)),
        Some((key, "notin")) => made(key, "NotIn", Some(values)),
        Some(_) | None => made("", "", None),
    }
}

/// The workloads that are meant, in the order of their names.
pub(crate) fn workloads<'a>(snapshot: &'a Snapshot, selection: &Selection) -> Result<Vec<&'a Object>, Failure> {
    let Selection { targets, selector, all } = selection;
    if targets.is_empty() && selector.is_none() && !all {
        let text = format!("say which workloads: {}, or -l SELECTOR, or --all", workload_targets());
        return Err(Failure::Usage(text));
    }
    if !targets.is_empty() {
        return targets.iter().map(|target| named(snapshot, target)).collect();
    }
    let is_meant = |object: &&Object| {
        registry::is_workload(&object.id.group_kind)
            && snapshot.shows(&object.id.namespace)
            && selector.as_ref().is_none_or(|labels| labels.match_object(object))
    };
    let mut found: Vec<&Object> = snapshot.cluster.objects.iter().map(|object| &**object).filter(is_meant).collect();
    found.sort_by_key(|object| (&object.id.namespace, object.id.group_kind.to_string(), &object.id.name));
    if found.is_empty() {
        let which =
            selector.as_ref().map_or_else(|| "is there".to_owned(), |labels| format!("has the labels {labels}"));
        return Err(snapshot.missing(&format!("no workload {which}")));
    }
    Ok(found)
}

/// The workload that is named.
pub(crate) fn named<'a>(snapshot: &'a Snapshot, target: &Target) -> Result<&'a Object, Failure> {
    if target.kind == TargetKind::Pod {
        return Err(Failure::Usage(format!("{target} is no workload; write {}", workload_targets())));
    }
    let found = snapshot.find(target).and_then(|found| found.workload);
    found.ok_or_else(|| snapshot.missing(&format!("{target} does not exist")))
}

/// `deployment/NAME`, as users write it.
pub(crate) fn name(object: &Object) -> String {
    object.id.target()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{pod, rollout, with_object};

    fn selection(text: &str) -> Selection {
        Selection { targets: Vec::new(), selector: Some(text.parse().unwrap()), all: false }
    }

    #[test]
    fn selectors_are_kubectls() {
        let snapshot = with_object(rollout(&[pod("a", "web:v1")]), 0, |deployment| {
            deployment["metadata"]["labels"] = serde_json::json!({"app": "web", "tier": "front"});
        });
        for selects in ["app=web", "app==web,tier", "tier in (front, back),!x", "app!=other", "x notin (y)", "app"] {
            assert_eq!(workloads(&snapshot, &selection(selects)).unwrap().len(), 1, "{selects}");
        }
        for misses in ["app=other", "!app", "tier notin (front)", "x"] {
            let failure = workloads(&snapshot, &selection(misses)).unwrap_err();
            assert!(failure.to_string().contains("has the labels"), "{misses}: {failure}");
        }
        for wrong in ["", "a in (b", "a of (b)", "=b", "a b"] {
            assert!(wrong.parse::<Labels>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_is_meant_by_accident() {
        let snapshot = rollout(&[pod("a", "web:v1")]);
        let none = Selection { targets: Vec::new(), selector: None, all: false };
        assert_eq!(workloads(&snapshot, &none).unwrap_err().code(), 2);
        let all = Selection { all: true, ..none };
        assert_eq!(
            workloads(&snapshot, &all).unwrap().iter().map(|each| name(each)).collect::<Vec<_>>(),
            ["deployment/web"]
        );
        let decoration = serde_json::json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration",
            "metadata": {"name": "log", "namespace": "team", "uid": "log"}, "spec": {"template": {}}});
        let mut objects = snapshot.objects.clone();
        objects.push(crate::snapshot::WorkloadObject::of(decoration).unwrap().into());
        let found = snapshot.clone().with_objects(objects);
        assert_eq!(workloads(&found, &all).unwrap().len(), 1, "a PodDecoration has no pods of its own");
        let pod = Selection { targets: vec!["pod/a".parse().unwrap()], selector: None, all: false };
        assert_eq!(workloads(&snapshot, &pod).unwrap_err().code(), 2);
    }
}
