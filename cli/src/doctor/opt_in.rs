//! Namespaces that opt their workloads in by a label: whether it means something, whether it is obeyed, and what was there before it.

use std::fmt::Debug;

use hitless_api::names::{self, UPDATE_IN_PLACE, UPDATE_IN_PLACE_ONLY, UPDATE_NATIVE, annotations, labels};
use hitless_runtime::list;
use hitless_runtime::write::WriteError;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, PodTemplateSpec};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::facts::{Facts, Labelled, Seen};
use super::finding::Finding;
use super::findings::{NAMED, install_policies, refuses};
use crate::output::{count, names as listed};

/// At most so many namespaces are looked into: each takes three requests.
const MOST: usize = 20;
const POLICY: &str = "hitless-adopt";
const BINDINGS: [&str; 2] = [POLICY, "hitless-gate-opted-in"];

/// The namespaces that have the label.
pub(super) async fn read(client: &Client) -> Result<Vec<Labelled>, WriteError> {
    let with_label = ListParams::default().labels(labels::UPDATE);
    let view = |space: Namespace| {
        let value = space.labels().get(labels::UPDATE)?.clone();
        Some(Labelled { namespace: space.name_any(), value, left_out: Vec::new() })
    };
    let mut all = list::all(&Api::all(client.clone()), with_label, view).await?;
    for labelled in all.iter_mut().filter(|each| each.opts_in() && !names::is_system(&each.namespace)).take(MOST) {
        let (deployments, stateful_sets, daemon_sets) = futures::join!(
            left_out(client, labelled, |it: &Deployment| Some(&it.spec.as_ref()?.template)),
            left_out(client, labelled, |it: &StatefulSet| Some(&it.spec.as_ref()?.template)),
            left_out(client, labelled, |it: &DaemonSet| Some(&it.spec.as_ref()?.template)),
        );
        labelled.left_out = [deployments?, stateful_sets?, daemon_sets?].concat();
    }
    Ok(all)
}

/// Those of the kind that say nothing themselves, and could be operated.
async fn left_out<K>(
    client: &Client,
    labelled: &Labelled,
    template: impl Fn(&K) -> Option<&PodTemplateSpec>,
) -> Result<Vec<String>, WriteError>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), &labelled.namespace);
    let view = |object: K| {
        let host = template(&object)?.spec.as_ref()?.host_network == Some(true);
        let says_something = object.annotations().contains_key(annotations::UPDATE);
        let name = format!("{}/{}", K::kind(&()).to_lowercase(), object.name_any());
        (!host && !says_something && object.meta().deletion_timestamp.is_none()).then_some(name)
    };
    list::all(&api, ListParams::default(), view).await
}

impl Labelled {
    fn opts_in(&self) -> bool {
        [UPDATE_IN_PLACE, UPDATE_IN_PLACE_ONLY].contains(&self.value.as_str())
    }
}

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let Seen::Known(all) = &facts.labelled else { return Vec::new() };
    let mut found = Vec::new();
    let of_system = |each: &&Labelled| names::is_system(&each.namespace);
    found.extend(all.iter().filter(of_system).map(|Labelled { namespace, .. }| {
        let what = format!("namespace {namespace} has the label {}", labels::UPDATE);
        Finding::warning(
            what,
            "hitless updates nothing there, so it has no effect",
            format!("take it away: kubectl label namespace {namespace} {}-", labels::UPDATE),
        )
    }));
    let means_nothing = |each: &&Labelled| !each.opts_in() && each.value != UPDATE_NATIVE && !of_system(each);
    found.extend(all.iter().filter(means_nothing).map(|Labelled { namespace, value, .. }| {
        Finding::warning(
            format!("the label {} of namespace {namespace} is {value:?}, which means nothing", labels::UPDATE),
            "its workloads opt in only by an annotation of their own",
            format!(
                "kubectl label namespace {namespace} {}={UPDATE_IN_PLACE} --overwrite ({UPDATE_IN_PLACE_ONLY}, {UPDATE_NATIVE})",
                labels::UPDATE
            ),
        )
    }));
    let opted: Vec<&Labelled> = all.iter().filter(|each| each.opts_in() && !of_system(each)).collect();
    found.extend(obeyed(facts, &opted));
    found.extend(opted.iter().filter(|each| !each.left_out.is_empty()).map(|each| before(each)));
    if found.is_empty() && !opted.is_empty() {
        let of = count(opted.len(), "namespace");
        found.push(Finding::ok(format!("workloads of {of} opt in by the label {}", labels::UPDATE)));
    }
    found
}

/// Nothing writes the annotation where the policy is not there.
fn obeyed(facts: &Facts, opted: &[&Labelled]) -> Option<Finding> {
    let (guards, first) = (facts.guards.known()?, opted.first()?);
    let missing: Vec<&str> = BINDINGS.into_iter().filter(|name| !guards.bindings.contains(*name)).collect();
    if guards.policies.contains(POLICY) && missing.is_empty() {
        return None;
    }
    let what = format!("{} the label {}, which opts nothing in", has(opted), labels::UPDATE);
    let adopt = format!("kubectl hitless adopt -n {} --yes", first.namespace);
    Some(if refuses(guards) {
        Finding::warning(
            what,
            "this API server has no mutating admission policies, so nothing writes the annotation into new workloads",
            format!("opt them in yourself: {adopt}"),
        )
    } else {
        let names = if guards.policies.contains(POLICY) { missing.join(" and ") } else { POLICY.to_owned() };
        Finding::error(
            what,
            format!("policy or binding {names} is missing"),
            format!("{}; or {adopt}", install_policies(facts)),
        )
    })
}

fn has(opted: &[&Labelled]) -> String {
    match opted {
        [one] => format!("namespace {} has", one.namespace),
        all => format!("{} have", count(all.len(), "namespace")),
    }
}

fn before(Labelled { namespace, left_out, .. }: &Labelled) -> Finding {
    Finding::warning(
        format!(
            "{} of namespace {namespace} did not opt in: {}",
            count(left_out.len(), "workload"),
            listed(left_out, NAMED)
        ),
        "they were there before the namespace's label, or their annotation was taken away; their changes roll natively",
        format!(
            "kubectl hitless adopt -n {namespace} --yes; to keep one out: kubectl annotate -n {namespace} {} {}={UPDATE_NATIVE}",
            left_out.first().map_or("KIND/NAME", String::as_str),
            annotations::UPDATE
        ),
    )
}
