//! What a workload's file does not have: what its pods are made from, and its pods.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::labels;
use hitless_gate::selector;
use hitless_workloads::registry;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::with_uid;
use crate::args::TargetKind;
use crate::files::Object;
use crate::snapshot::WorkloadObject;

/// Most pods that are made for a workload.
const MOST: u64 = 10_000;

/// Gives a workload what its native controller would give it, where the files do not have it; returns what was made up, if any
/// pods were. Other objects are left alone.
pub(super) fn complete(
    object: &Object,
    raw: &mut Vec<WorkloadObject>,
    pods: &mut Vec<Value>,
    nodes: &[String],
) -> Option<String> {
    let index = raw.iter().position(|each| {
        let id = &each.view.id;
        id.group_kind.is(object.group(), object.kind())
            && id.namespace == object.namespace()
            && id.name == object.name()
    })?;
    let group_kind = raw[index].view.id.group_kind.clone();
    let kind = registry::of_workload(&group_kind)?;
    let root = with_uid(object);
    let uid = root["metadata"]["uid"].as_str().unwrap_or_default();
    let owned = |each: &&WorkloadObject| each.view.owner.as_ref().is_some_and(|owner| owner.uid == uid);
    let parts: Vec<Value> = raw.iter().filter(owned).map(|part| part.raw.clone()).collect();
    let made = kind.rolled_out(root.clone(), &parts, u64::try_from(nodes.len()).unwrap_or(u64::MAX));
    if let Some(root) = WorkloadObject::of(made.root) {
        raw[index] = root;
    }
    if parts.is_empty() {
        raw.extend(WorkloadObject::of(made.part));
    }
    let selector: Option<LabelSelector> = serde_json::from_value(root["spec"]["selector"].clone()).ok();
    let selector = selector.as_ref().map(selector::read);
    let owners: Vec<&str> = parts.iter().filter_map(|part| part["metadata"]["uid"].as_str()).chain([uid]).collect();
    let known: BTreeSet<String> = raw.iter().map(|each| each.view.id.uid.clone()).collect();
    let mut has_pods = false;
    for pod in pods.iter_mut().filter(|pod| pod["metadata"]["namespace"] == object.namespace()) {
        let labels = serde_json::from_value(pod["metadata"]["labels"].clone()).unwrap_or_default();
        let controller = &pod["metadata"]["ownerReferences"][0];
        let uid = controller["uid"].as_str().unwrap_or_default();
        let is_owned = owners.contains(&uid);
        let is_elsewhere = known.contains(uid) && !is_owned;
        let is_selected = matches!(&selector, Some(Ok(selector)) if selector.matches(&labels));
        let is_meant =
            is_selected && !is_elsewhere && (is_owned || controller.is_null() || object.is_owner(controller));
        if is_meant && (!is_owned || parts.is_empty()) {
            // What it was made from is not in the files: it is taken for one of the present template.
            pod["metadata"]["ownerReferences"] = json!([made.owner]);
            add_labels(pod, &made.labels);
        }
        has_pods |= is_owned || is_meant;
    }
    if has_pods {
        return None;
    }
    let count = made.count.min(MOST);
    if count == 0 {
        return None;
    }
    let width = count.to_string().len();
    for number in 0..count {
        // As its controller does: a Service may select a single pod of a StatefulSet.
        let (name, own) = match made.first_ordinal.map(|first| first + number) {
            Some(ordinal) => {
                let name = format!("{}-{ordinal}", object.name());
                let own = [(labels::POD_NAME, name.clone()), (labels::POD_INDEX, ordinal.to_string())];
                (name, BTreeMap::from(own.map(|(label, value)| (label.to_owned(), value))))
            }
            None => (format!("{}-{number:0width$}", object.name()), BTreeMap::new()),
        };
        let mut pod = root["spec"]["template"].clone();
        let node = usize::try_from(number).ok().and_then(|number| nodes.get(number % nodes.len().max(1)));
        pod["metadata"]["name"] = name.clone().into();
        pod["metadata"]["namespace"] = object.namespace().into();
        pod["metadata"]["uid"] = format!("Pod/{}/{name}", object.namespace()).into();
        pod["metadata"]["ownerReferences"] = json!([made.owner]);
        add_labels(&mut pod, made.labels.iter().chain(&own));
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.clone().into();
        }
        pods.push(pod);
    }
    let place = if nodes.is_empty() { ", each on a node of its own (say how many there are with --nodes)" } else { "" };
    let workload = TargetKind::Workload(group_kind).name();
    Some(format!("the files have no pods of {workload}/{}; {count} were made up{place}", object.name()))
}

fn add_labels<'a>(pod: &mut Value, labels: impl IntoIterator<Item = (&'a String, &'a String)>) {
    for (name, value) in labels {
        pod["metadata"]["labels"][name] = value.clone().into();
    }
}
