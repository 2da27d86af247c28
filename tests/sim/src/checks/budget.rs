//! The rules, read a second time and on their own: nothing here is taken from the gate.

use std::collections::BTreeSet;

use hitless_api::pod::PodView;
use hitless_api::pod_transition_rule::TransitionRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Seen;
use hitless_api::names::{annotations, labels};
use hitless_workloads::{Body, Object};

/// Share of a workload's pods that may be unavailable where no rule selects a pod.
const IMPLICIT_PERCENT: usize = 25;

/// Whether two references name the same image, as far as images are named in a simulation: `repo:v2`, `repo:v2@sha256:2`,
/// `repo:anything@sha256:2`.
pub(crate) fn same_image(one: &str, other: &str) -> bool {
    number(one) == number(other)
}

/// The version behind a reference.
pub(crate) fn number(image: &str) -> Option<&str> {
    match image.split_once("@sha256:") {
        Some((_, digest)) => Some(digest),
        None => image.split_once(":v").map(|(_, tag)| tag),
    }
}

/// Whether every rule has room for the pods of `spending`, which are among those that are `taken`.
pub(super) fn check(
    seen: &Seen,
    namespace: &str,
    taken: &BTreeSet<&str>,
    spending: &BTreeSet<&str>,
) -> Result<(), String> {
    let here = counting(seen, namespace);
    // A companion pod is one more than its workload is meant to have.
    let (companions, pods): (Vec<&PodView>, Vec<&PodView>) =
        here.partition(|pod| pod.labels.contains_key(labels::COMPANION));
    for uid in spending {
        let Some(pod) = pods.iter().find(|pod| pod.id.uid == *uid) else { continue };
        let mut governed = false;
        for rule in seen.rules.iter().filter(|rule| rule.namespace == namespace) {
            let Some(selector) = rule.spec.selector.as_ref().filter(|selector| selects(selector, pod)) else {
                continue;
            };
            governed = true;
            let serves =
                |pod: &&&PodView| pod.available() && !taken.contains(pod.id.uid.as_str()) && selects(selector, pod);
            let instead = companions.iter().filter(serves).count();
            let group = Group::of(seen, &pods, taken, |other| selects(selector, other)).with(instead);
            for each in &rule.spec.rules {
                within(each, pod, &group).map_err(|why| format!("rule {}/{}: {why}", rule.name, each.name))?;
            }
        }
        let owner = workload(seen, pod);
        let own_limit = owner.and_then(|owner| own_limit(seen, owner));
        if !governed || own_limit.is_some() {
            let group = Group::of(seen, &pods, taken, |other| workload(seen, other) == owner);
            let quota = own_limit.unwrap_or_else(|| (group.total * IMPLICIT_PERCENT / 100).max(1));
            let is_lost = |other: &&&PodView| workload(seen, other) == owner && seen.lost.contains(&other.id.uid);
            let lost = pods.iter().filter(is_lost).count();
            // Of a CloneSet those are gone that it lacks: pods beyond the wanted ones serve in the place of others.
            let gone = if is_clone_set(seen, owner) { group.total.saturating_sub(group.left) } else { group.gone };
            if gone.saturating_sub(lost) > quota {
                return Err(format!("implicit budget of {}: {}", pod.id.name, group.text("at most", quota)));
            }
        }
    }
    Ok(())
}

/// Pods of the namespace that count: not those that have finished, nor those that are being deleted and whose workload has as many
/// others as it is meant to have.
fn counting<'a>(seen: &'a Seen, namespace: &str) -> impl Iterator<Item = &'a PodView> {
    let here = seen.pods.iter().map(|pod| &**pod).filter(move |pod| pod.id.namespace == namespace && !pod.finished);
    let here: Vec<&PodView> = here.collect();
    let is_replaced = |pod: &PodView| {
        let Some(owner) = workload(seen, pod).filter(|_| pod.terminating) else { return false };
        let others = here.iter().filter(|other| !other.terminating && !other.labels.contains_key(labels::COMPANION));
        let there = others.filter(|other| workload(seen, other) == Some(owner)).count();
        desired(seen, owner).is_some_and(|desired| there >= desired)
    };
    let counting: Vec<&PodView> = here.iter().copied().filter(|pod| !is_replaced(pod)).collect();
    counting.into_iter()
}

/// How many pods of this one's workload may be unavailable at a time, but one at least.
pub(super) fn bound(seen: &Seen, namespace: &str, uid: &str) -> usize {
    let nobody = BTreeSet::new();
    let here = counting(seen, namespace);
    let (companions, pods): (Vec<&PodView>, Vec<&PodView>) =
        here.partition(|pod| pod.labels.contains_key(labels::COMPANION));
    let Some(pod) = pods.iter().find(|pod| pod.id.uid == uid) else { return 1 };
    let (mut governed, mut most) = (false, pods.len());
    for rule in seen.rules.iter().filter(|rule| rule.namespace == namespace) {
        let Some(selector) = rule.spec.selector.as_ref().filter(|selector| selects(selector, pod)) else { continue };
        governed = true;
        let members = pods.iter().filter(|other| selects(selector, other)).count();
        let instead = companions.iter().filter(|other| other.available() && selects(selector, other)).count();
        let total = Group::of(seen, &pods, &nobody, |other| selects(selector, other)).total;
        for each in rule.spec.rules.iter().filter(|each| concerns(each, pod)) {
            let Some(available) = &each.available_policy else { continue };
            let max = available.max_unavailable_value.as_ref().and_then(|limit| scaled(limit, total, true));
            let min = available.min_available_value.as_ref().and_then(|limit| scaled(limit, total, false));
            let min = min.map(|min| total.max(members).saturating_sub(min));
            most = [max, min].into_iter().flatten().map(|limit| limit + instead).fold(most, usize::min);
        }
    }
    let owner = workload(seen, pod);
    let own_limit = owner.and_then(|owner| own_limit(seen, owner));
    if !governed || own_limit.is_some() {
        let is_its_own = |other: &PodView| workload(seen, other) == owner;
        let total = Group::of(seen, &pods, &nobody, is_its_own).total;
        let beyond = pods.iter().filter(|other| is_its_own(other)).count().saturating_sub(total);
        let beyond = if is_clone_set(seen, owner) { beyond } else { 0 };
        most = most.min(own_limit.unwrap_or(total * IMPLICIT_PERCENT / 100) + beyond);
    }
    most.max(1)
}

/// Pods that share a budget.
struct Group {
    /// Base of percentages.
    total: usize,
    /// Taken by us, unavailable, or wanted and not there.
    gone: usize,
    /// There, available and not taken.
    left: usize,
}

impl Group {
    fn of(seen: &Seen, pods: &[&PodView], taken: &BTreeSet<&str>, member: impl Fn(&PodView) -> bool) -> Self {
        let members: Vec<&&PodView> = pods.iter().filter(|pod| member(pod)).collect();
        let left = members.iter().filter(|pod| pod.available() && !taken.contains(pod.id.uid.as_str())).count();
        let (mut total, mut missing) = (0, 0);
        let mut owners: BTreeSet<&str> = BTreeSet::new();
        for pod in &members {
            // Two ReplicaSets of one Deployment have its number of pods between them.
            let Some(owner) = workload(seen, pod) else {
                total += 1;
                continue;
            };
            if !owners.insert(owner) {
                continue;
            }
            let of_owner = |pod: &&&PodView| workload(seen, pod) == Some(owner);
            let inside = members.iter().copied().filter(of_owner).count();
            let all = pods.iter().filter(of_owner).count();
            let desired = desired(seen, owner).filter(|_| inside == all).unwrap_or(inside);
            total += desired;
            missing += desired.saturating_sub(inside);
        }
        Self { total, gone: members.len() - left + missing, left }
    }

    /// With so many pods that serve in place of those that are gone.
    fn with(self, instead: usize) -> Self {
        Self { gone: self.gone.saturating_sub(instead), left: self.left + instead, ..self }
    }

    fn text(&self, limit: &str, quota: usize) -> String {
        format!("{} of {} are gone and {} left, {limit} {quota} allowed", self.gone, self.total, self.left)
    }
}

/// uid of the workload that a pod belongs to in the end.
fn workload<'a>(seen: &'a Seen, pod: &'a PodView) -> Option<&'a str> {
    let direct = pod.owner.as_ref()?.uid.as_str();
    let object = seen.objects.iter().find(|known| known.id.uid == direct);
    Some(object.and_then(|object| object.owner.as_ref()).map_or(direct, |above| above.uid.as_str()))
}

/// How many pods the workload behind a pod's direct owner is meant to have.
fn desired(seen: &Seen, owner: &str) -> Option<usize> {
    let find = |uid: &str| seen.objects.iter().find(|known| known.id.uid == uid);
    let direct = find(owner)?;
    let top = direct.owner.as_ref().and_then(|above| find(&above.uid)).unwrap_or(direct);
    let replicas = match &top.body {
        Body::Deployment(body) => body.replicas,
        Body::ReplicaSet(body) => body.replicas,
        Body::StatefulSet(body) => body.replicas,
        Body::DaemonSet(body) => body.status.desired_number_scheduled,
        // One that is being deleted wants none of those that are gone already.
        Body::CollaSet(body) => return (!top.deleting).then_some(body.replicas),
        Body::CloneSet(body) => return (!top.deleting).then_some(body.replicas),
        Body::ResourceContext(_)
        | Body::Claim(_)
        | Body::PodDecoration(_)
        | Body::SidecarSet(_)
        | Body::SidecarInjection(_)
        | Body::ControllerRevision(_)
        | Body::Request(_)
        | Body::Omitted(_) => return None,
    };
    usize::try_from(replicas).ok()
}

fn is_clone_set(seen: &Seen, owner: Option<&str>) -> bool {
    let is_it = |known: &&std::sync::Arc<Object>| Some(known.id.uid.as_str()) == owner;
    seen.objects.iter().find(is_it).is_some_and(|known| known.clone_set().is_some())
}

/// How many of its pods a workload's own update strategy lets be away, if it says so in place.
fn own_limit(seen: &Seen, owner: &str) -> Option<usize> {
    strategy_limit(seen.objects.iter().find(|known| known.id.uid == owner).map(|object| &**object))
}

/// The same of this workload.
pub(super) fn strategy_limit(object: Option<&Object>) -> Option<usize> {
    let object = object?;
    let (strategy, total, up) = match &object.body {
        Body::CloneSet(body) => return Some(body.max_unavailable),
        Body::StatefulSet(body) => (&body.strategy, body.replicas, false),
        Body::DaemonSet(body) => (&body.strategy, body.status.desired_number_scheduled, true),
        Body::Deployment(_)
        | Body::ReplicaSet(_)
        | Body::CollaSet(_)
        | Body::ResourceContext(_)
        | Body::Claim(_)
        | Body::PodDecoration(_)
        | Body::SidecarSet(_)
        | Body::SidecarInjection(_)
        | Body::ControllerRevision(_)
        | Body::Request(_)
        | Body::Omitted(_) => return None,
    };
    let total = usize::try_from(total).unwrap_or_default();
    let limit = owners_strategy(object, strategy)["rollingUpdate"]["maxUnavailable"].clone();
    let limit: Option<IntOrString> = serde_json::from_value(limit).ok();
    Some(limit.and_then(|limit| scaled(&limit, total, up)).unwrap_or(1).max(1))
}

/// How many pods of a StatefulSet, the first ones, keep their version, as its owner wants it.
pub(crate) fn partition(object: &Object) -> usize {
    let strategy = object.stateful_set().map(|set| owners_strategy(object, &set.body.strategy));
    let partition = strategy.and_then(|strategy| strategy["rollingUpdate"]["partition"].as_u64());
    partition.and_then(|partition| usize::try_from(partition).ok()).unwrap_or_default()
}

/// The update strategy that the owner wants: a workload that is held has another one.
fn owners_strategy(object: &Object, strategy: &serde_json::Value) -> serde_json::Value {
    let kept = object.annotations.get(annotations::UPDATE_STRATEGY);
    kept.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| strategy.clone())
}

/// Whether the rule is asked about the pod before its operation.
fn concerns(rule: &TransitionRule, pod: &PodView) -> bool {
    let filter = rule.filter.as_ref().and_then(|filter| filter.label_selector.as_ref());
    !rule.disabled && rule.stage.as_deref() != Some("PostCheck") && filter.is_none_or(|filter| selects(filter, pod))
}

fn within(rule: &TransitionRule, pod: &PodView, group: &Group) -> Result<(), String> {
    if !concerns(rule, pod) {
        return Ok(());
    }
    if let Some(available) = &rule.available_policy {
        if let Some(limit) = &available.max_unavailable_value {
            let quota = scaled(limit, group.total, true).ok_or("not understood")?;
            if group.gone > quota {
                return Err(group.text("at most", quota));
            }
        }
        if let Some(limit) = &available.min_available_value {
            let quota = scaled(limit, group.total, false).ok_or("not understood")?;
            if group.left < quota {
                return Err(group.text("at least", quota));
            }
        }
    } else if let Some(labels) = &rule.label_check
        && labels.requires.as_ref().is_none_or(|wanted| !selects(wanted, pod))
    {
        return Err("the pod lacks the labels".to_owned());
    }
    Ok(())
}

fn scaled(limit: &IntOrString, total: usize, up: bool) -> Option<usize> {
    match limit {
        IntOrString::Int(count) => usize::try_from(*count).ok(),
        IntOrString::String(text) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            let hundredths = total * percent;
            Some(if up { hundredths.div_ceil(100) } else { hundredths / 100 })
        }
    }
}

fn selects(selector: &LabelSelector, pod: &PodView) -> bool {
    // Rules in a simulation select by equality only.
    selector.match_labels.iter().flatten().all(|(key, value)| pod.labels.get(key) == Some(value))
}
