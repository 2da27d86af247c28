//! What makes no sense in a CloneSet, whatever the cluster is like. What the API server checks is checked here, too, for files and for
//! definitions of others.

use std::collections::BTreeMap;

use hitless_api::clone_set::{CloneSetSpec, PriorityStrategy};
use hitless_api::names::{PREFIX, labels};

use super::Update;
use crate::kinds::clone_set::{names::GROUP, rounding};
use crate::pod_set::policy::UpgradePolicy;
use crate::template;

/// Why nothing is done for it, as a clause for people.
pub(super) fn of(spec: &CloneSetSpec, update: &Update) -> Option<String> {
    shape(spec, update)
        .or_else(|| numbers(spec, update))
        .or_else(|| priority(update.pace.priority_strategy.as_ref()?))
        .or_else(|| template(spec))
        .or_else(|| claims(spec))
        .or_else(|| hooks(spec))
}

fn shape(spec: &CloneSetSpec, update: &Update) -> Option<String> {
    if spec.is_of_both() {
        let text = "it has fields of v1alpha1 and of v1beta1; give the strategy either in spec.updateStrategy (v1alpha1) or in \
            spec.updateStrategy.rollingUpdate (v1beta1)";
        return Some(text.to_owned());
    }
    let policy = &update.policy;
    update
        .policy()
        .is_none()
        .then(|| format!("the update policy {policy} is not known; use ReCreate, InPlaceIfPossible or InPlaceOnly"))
}

fn numbers(spec: &CloneSetSpec, update: &Update) -> Option<String> {
    let Ok(replicas) = usize::try_from(spec.replicas.unwrap_or(1)) else {
        return Some("spec.replicas is negative; give 0 or more".to_owned());
    };
    let pace = &update.pace;
    let scale = spec.scale_strategy.as_ref().and_then(|scale| scale.max_unavailable.as_ref());
    // Upstream rounds both up here.
    let (surge, most) = (
        rounding::max_surge(replicas, pace.max_surge.as_ref(), false),
        rounding::max_unavailable(replicas, pace.max_unavailable.as_ref(), 0),
    );
    let unreadable = [
        ("partition", rounding::partition(replicas, pace.partition.as_ref()).err()),
        ("maxSurge", surge.as_ref().err().cloned()),
        ("maxUnavailable", most.as_ref().err().cloned()),
        ("spec.scaleStrategy.maxUnavailable", rounding::scale_max_unavailable(replicas, scale).err()),
    ];
    if let Some((field, error)) = unreadable.into_iter().find_map(|(field, error)| Some((field, error?))) {
        return Some(format!("{field}: {error}"));
    }
    let (has_surge, has_most) = (surge.is_ok_and(|surge| surge > 0), most.is_ok_and(|most| most > 0));
    if has_surge && update.policy() == Some(UpgradePolicy::InPlaceOnly) {
        return Some("maxSurge can't be used with InPlaceOnly; set it to 0".to_owned());
    }
    (replicas > 0 && !has_surge && !has_most)
        .then(|| "maxUnavailable and maxSurge are both 0, so no pod could be updated; raise one of them".to_owned())
}

fn priority(strategy: &PriorityStrategy) -> Option<String> {
    (strategy.weight_priority.is_empty() == strategy.order_priority.is_empty())
        .then(|| "priorityStrategy needs exactly one of weightPriority and orderPriority".to_owned())
}

fn template(spec: &CloneSetSpec) -> Option<String> {
    let labels = spec.template["metadata"]["labels"].as_object().into_iter().flatten();
    let labels: BTreeMap<String, String> =
        labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    if let Some(fault) = template::not_selected(&spec.selector, &labels) {
        return Some(fault);
    }
    let pod = &spec.template["spec"];
    if pod["restartPolicy"].as_str().is_some_and(|policy| policy != "Always") {
        return Some(
            "spec.template.spec.restartPolicy must be Always: a CloneSet's pods run until they are deleted".to_owned(),
        );
    }
    pod["activeDeadlineSeconds"]
        .is_number()
        .then(|| "spec.template.spec.activeDeadlineSeconds can't be used in a CloneSet; take it off".to_owned())
}

fn claims(spec: &CloneSetSpec) -> Option<String> {
    let name = |claim: &'_ serde_json::Value| claim["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = spec.volume_claim_templates.iter().map(name).collect();
    if names.iter().any(String::is_empty) {
        return Some("an entry of spec.volumeClaimTemplates has no metadata.name".to_owned());
    }
    let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name))?;
    Some(format!("spec.volumeClaimTemplates has two entries with the name {}", twice.1))
}

/// A hook whose label is of the CloneSet's own: who takes it off a pod takes the pod away from the set, and who puts it back tells of another
/// revision. Upstream lets such hooks through.
fn hooks(spec: &CloneSetSpec) -> Option<String> {
    let lifecycle = spec.lifecycle.as_ref()?;
    let all = [
        ("preNormal", &lifecycle.pre_normal),
        ("preDelete", &lifecycle.pre_delete),
        ("inPlaceUpdate", &lifecycle.in_place_update),
    ];
    let is_own = |key: &String| {
        let selects = spec.selector.match_labels.as_ref().is_some_and(|all| all.contains_key(key));
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_revision = [labels::CONTROLLER_REVISION_HASH, labels::POD_TEMPLATE_HASH].contains(&key.as_str());
        selects || is_revision || key.starts_with(PREFIX) || domain == GROUP || domain.ends_with(".apps.kruise.io")
    };
    all.into_iter().find_map(|(name, hook)| {
        let label = hook.as_ref()?.labels_handler.keys().find(|key| is_own(key))?;
        Some(format!(
            "hook {name} of spec.lifecycle names the label {label}, by which the CloneSet finds its pods or tells them apart; use another label"
        ))
    })
}
