//! `kubectl hitless doctor --pre`: what to know before hitless is installed.

use std::collections::BTreeSet;

use futures::future::join_all;
use hitless_api::names;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};

use super::facts::{Facts, Seen};
use super::finding::Finding;
use super::findings::unread;
use super::surroundings;
use crate::output::count;

/// The first version of Kubernetes whose admission policies are what hitless needs at least.
const OLDEST: (u32, u32) = (1, 30);
const ADMISSION: &str = "admissionregistration.k8s.io";
const POLICIES: &str = "mutatingadmissionpolicies";
/// A namespace's label that Pod Security reads.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// What an installation writes: verb, group, resource, and whether it is in the namespace of hitless.
const WRITES: [(&str, &str, &str, bool); 8] = [
    ("create", "", "namespaces", false),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions", false),
    ("create", "rbac.authorization.k8s.io", "clusterroles", false),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", false),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", false),
    ("create", ADMISSION, "validatingadmissionpolicies", false),
    ("create", "apps", "daemonsets", true),
    ("create", "apps", "deployments", true),
];

/// How changed workloads could be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// By mutating policies.
    V1,
    /// By those of an earlier version.
    V1beta1,
    /// Not at all: changes can only be refused.
    Refusing,
}

/// What is asked besides.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) admission: Seen<Admission>,
    /// What the user may not write, e.g. `create clusterroles`.
    pub(super) forbidden: Seen<Vec<String>>,
    /// What Pod Security enforces in the namespace of hitless, if that is there.
    pub(super) enforced: Option<String>,
}

pub(super) async fn read(client: &Client) -> Before {
    let (admission, forbidden, enforced) = futures::join!(admission(client), forbidden(client), enforced(client));
    Before { admission, forbidden, enforced }
}

async fn admission(client: &Client) -> Seen<Admission> {
    for (version, admission) in [("v1", Admission::V1), ("v1beta1", Admission::V1beta1)] {
        match client.list_api_group_resources(&format!("{ADMISSION}/{version}")).await {
            Ok(list) if list.resources.iter().any(|resource| resource.name == POLICIES) => {
                return Seen::Known(admission);
            }
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Seen::Unread(error.to_string()),
        }
    }
    Seen::Known(Admission::Refusing)
}

async fn forbidden(client: &Client) -> Seen<Vec<String>> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let asked = WRITES.map(|(verb, group, resource, in_own)| {
        let reviews = reviews.clone();
        async move {
            let attributes = ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                namespace: in_own.then(|| names::system_namespace().to_owned()),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let is_allowed = answer.status.is_some_and(|status| status.allowed);
            Ok::<_, kube::Error>((!is_allowed).then(|| format!("{verb} {resource}")))
        }
    });
    let answers: Result<Vec<Option<String>>, kube::Error> = join_all(asked).await.into_iter().collect();
    match answers {
        Ok(answers) => Seen::Known(answers.into_iter().flatten().collect()),
        Err(error) => Seen::Unread(error.to_string()),
    }
}

async fn enforced(client: &Client) -> Option<String> {
    let spaces: Api<Namespace> = Api::all(client.clone());
    let labels = spaces.get_metadata_opt(names::system_namespace()).await.ok()??.metadata.labels?;
    labels.get(ENFORCE).cloned()
}

/// Every finding, in the order in which it is read. Pure.
pub(super) fn findings(facts: &Facts, before: &Before) -> Vec<Finding> {
    let mut all: Vec<Finding> = [there(facts), server(facts, before), nodes(facts)].into_iter().flatten().collect();
    all.extend(rights(before));
    all.extend(pod_security(before));
    all.extend(surroundings::findings(facts));
    all.extend(surroundings::managers(facts));
    all.extend(unread(facts));
    all
}

fn there(facts: &Facts) -> Option<Finding> {
    if facts.controller.known()?.is_some() {
        return Some(Finding::warning(
            format!("hitless is installed already, in namespace {}", names::system_namespace()),
            "a cluster has it once; what follows is for a new installation",
            "look at that one instead: kubectl hitless doctor",
        ));
    }
    let ours = facts.definitions.known()?.iter().filter(|name| name.ends_with(".hitless.dev")).count();
    Some(if ours == 0 {
        Finding::ok("hitless is not installed")
    } else {
        Finding::ok(format!(
            "hitless is not installed; {} of an earlier installation are there, and what people wrote with them (Helm: --take-ownership)",
            count(ours, "definition")
        ))
    })
}

fn server(facts: &Facts, before: &Before) -> Option<Finding> {
    let (major, minor, version) = facts.server.known()?;
    if (*major, *minor) < OLDEST {
        return Some(Finding::error(
            format!("the API server is {version}"),
            "hitless needs admission policies, which are served from Kubernetes 1.30 on",
            "upgrade the cluster",
        ));
    }
    Some(match before.admission.known()? {
        Admission::V1 => Finding::ok(format!(
            "API server {version} holds changed workloads: install manifests, or the chart (admission: auto)"
        )),
        Admission::V1beta1 => Finding::ok(format!(
            "API server {version} holds changed workloads by policies of v1beta1: install overlays/v1beta1, or the chart (admission: auto)"
        )),
        Admission::Refusing => Finding::warning(
            format!("API server {version} has no mutating admission policies"),
            "changes of opted-in workloads are refused unless kubectl hitless set image or undo makes them, so GitOps can't change their images, and namespaces opt nothing in",
            "install overlays/refusing, or the chart (admission: auto); from Kubernetes 1.36 on that is over",
        ),
    })
}

fn nodes(facts: &Facts) -> Option<Finding> {
    let nodes = facts.nodes.known()?;
    let linux = nodes.iter().filter(|node| node.is_real && node.os == "linux").count();
    let others: BTreeSet<&str> =
        nodes.iter().filter(|node| node.is_real && node.os != "linux").map(|node| node.os.as_str()).collect();
    Some(if linux == 0 {
        Finding::error("no node runs Linux", "an agent can be on none of them", "add one")
    } else if others.is_empty() {
        Finding::ok(format!("Linux runs on {}, and each gets an agent", count(linux, "node")))
    } else {
        Finding::warning(
            format!(
                "Linux runs on {}, and {} on others",
                count(linux, "node"),
                others.into_iter().collect::<Vec<_>>().join(", ")
            ),
            "pods of the others are never operated",
            "opt no workload in whose pods run there",
        )
    })
}

fn rights(before: &Before) -> Option<Finding> {
    Some(match &before.forbidden {
        Seen::Known(forbidden) if forbidden.is_empty() => Finding::ok("you may install it"),
        Seen::Known(forbidden) => Finding::error(
            format!("you may not {}", forbidden.join(", ")),
            "the installation would stop in the middle",
            "let an administrator of the cluster install it",
        ),
        Seen::Unread(why) => Finding::warning(
            format!("whether you may install it is not known: {why}"),
            "the installation may stop in the middle",
            "let an administrator of the cluster install it",
        ),
        Seen::NotServed => return None,
    })
}

/// The agents need hostPID, hostNetwork and capabilities.
fn pod_security(before: &Before) -> Option<Finding> {
    let level = before.enforced.as_deref().filter(|level| *level != "privileged")?;
    let namespace = names::system_namespace();
    Some(Finding::error(
        format!("namespace {namespace} enforces Pod Security {level}"),
        "agents need more than that allows, so none would be made",
        format!("kubectl label namespace {namespace} {ENFORCE}=privileged --overwrite"),
    ))
}
