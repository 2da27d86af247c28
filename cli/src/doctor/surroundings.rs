//! What else is in the cluster that decides how connections reach pods, and what each means for hitless. What is said rests on reading
//! these programs' source and documentation; only kube-proxy is a part of the tests.

use std::collections::BTreeMap;

use hitless_workloads::image::name_and_tag;

use super::facts::{Facts, Seen};
use super::finding::Finding;

/// How something is recognised.
enum Sign {
    /// By a word in the name of a DaemonSet or Deployment, or in one of its images.
    Program(&'static str),
    /// By a definition of a custom resource.
    Definition(&'static str),
}

/// What was found where the sign is.
struct Software {
    sign: Sign,
    name: &'static str,
    /// `None`: it is fine.
    means: Option<(&'static str, &'static str)>,
    /// It carries the pods' connections.
    is_network: bool,
}

const fn program(
    word: &'static str,
    name: &'static str,
    means: Option<(&'static str, &'static str)>,
    is_network: bool,
) -> Software {
    Software { sign: Sign::Program(word), name, means, is_network }
}

const KNOWN: &[Software] = &[
    program("kube-proxy", "kube-proxy", None, true),
    program("calico-node", "Calico", None, true),
    program("aws-node", "AWS VPC CNI", None, true),
    program("kindnet", "kindnet", None, true),
    program("flannel", "flannel", None, true),
    program("antrea-agent", "Antrea", None, true),
    program(
        "anetd",
        "GKE Dataplane V2 (Cilium)",
        Some((
            "its version of Cilium can't be seen; before 1.19, and before December 2025 in 1.18, a pod that leaves service loses open connections of NodePorts and load balancers",
            "prefer Hold there: DrainPolicy mode: Hold",
        )),
        true,
    ),
    program(
        "istiod",
        "Istio",
        Some((
            "a sidecar's requests are answered before its application is replaced, and what it asks meanwhile waits; clients that stay connected to it wait, too, and get 503 if that takes longer than holdCapMilliseconds. Tried with another proxy only",
            "try one workload under load first (docs/draining.md, Meshes)",
        )),
        false,
    ),
    program(
        "ztunnel",
        "Istio ambient",
        Some((
            "its tunnels stay open and are not waited for; what comes through them counts, and waits for the new process. Its rules were tried, and not itself",
            "try one workload under load first (docs/draining.md, Meshes)",
        )),
        false,
    ),
    program(
        "linkerd-proxy-injector",
        "Linkerd",
        Some((
            "its proxy's connections between pods stay open and are not waited for; its requests are answered before its application is replaced. Tried with another proxy only",
            "try one workload under load first (docs/draining.md, Meshes)",
        )),
        false,
    ),
    program(
        "aws-load-balancer-controller",
        "AWS Load Balancer Controller",
        Some((
            "with target-type ip it sends new connections to a pod as long as its containers are ready, so a pod that leaves service goes on getting them",
            "nothing, where its readiness gates are on (label elbv2.k8s.aws/pod-readiness-gate-inject: enabled on the namespace): mode Auto holds such pods. Else use target-type instance, or DrainPolicy mode: Hold for these pods",
        )),
        false,
    ),
    Software {
        sign: Sign::Definition("servicenetworkendpointgroups.networking.gke.io"),
        name: "GKE network endpoint groups",
        means: Some((
            "container-native load balancing takes only deleted pods out, so a pod that leaves service goes on getting connections until the health check fails",
            "nothing, where the pods have its readiness gate: mode Auto holds them. Else let its health check ask the node's endpoint /lb/<namespace>/<pod> (docs/endpoint.md), or DrainPolicy mode: Hold",
        )),
        is_network: false,
    },
    program("ingress-nginx-controller", "ingress-nginx", None, false),
    program("traefik", "Traefik", None, false),
    program(
        "argo-rollouts",
        "Argo Rollouts",
        Some((
            "it owns ReplicaSets of its own, and hitless does not look after its Rollouts",
            "opt only Deployments, StatefulSets and DaemonSets in",
        )),
        false,
    ),
];

/// Managers of other projects whose kinds are theirs while they are there.
pub(super) fn managers(facts: &Facts) -> impl Iterator<Item = Finding> {
    facts.managers.iter().map(|there| {
        Finding::warning(
            there.to_string(),
            "its kinds are left to it, and hitless does nothing for them",
            "docs/migration.md says how to change over",
        )
    })
}

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Seen::Known(programs) = &facts.programs {
        let mut has_network = false;
        for known in KNOWN.iter().filter(|known| is_there(known, facts, programs)) {
            has_network |= known.is_network;
            found.push(known.means.map_or_else(
                || {
                    Finding::ok(format!(
                        "{} is there; its endpoints follow a pod that leaves service within seconds",
                        known.name
                    ))
                },
                |(why, to_do)| Finding::warning(format!("{} is there", known.name), why, to_do),
            ));
        }
        if let Some(cilium) = cilium(programs) {
            has_network = true;
            found.push(cilium);
        }
        if !has_network {
            found.push(Finding::warning(
                "no network plugin that is known here was recognised",
                "how fast new connections stop when a pod leaves service is not known",
                "try one workload under load first; a DrainPolicy gives minSeconds",
            ));
        }
    }
    found.extend(sandboxes(facts));
    found
}

fn is_there(known: &Software, facts: &Facts, programs: &BTreeMap<String, Vec<String>>) -> bool {
    match known.sign {
        Sign::Definition(name) => facts.definitions.known().is_some_and(|there| there.contains(name)),
        Sign::Program(word) => programs.iter().any(|(name, images)| {
            let own = name.rsplit('/').next().unwrap_or_default();
            own.starts_with(word) || images.iter().any(|image| name_and_tag(image).0.ends_with(word))
        }),
    }
}

/// The first version of Cilium 1.18 that was made after its backport for pods that are not Ready was merged, in the middle of November
/// 2025 (cilium/cilium#42708). Which version has it is not said there: one that may not is warned of.
const KEEPS_UNREADY: (u32, u32, u32) = (1, 18, 5);

/// Its version decides.
fn cilium(programs: &BTreeMap<String, Vec<String>>) -> Option<Finding> {
    let (_, images) = programs.iter().find(|(name, _)| name.rsplit('/').next() == Some("cilium"))?;
    let tag = images.iter().find_map(|image| name_and_tag(image).1);
    let version = tag.and_then(version);
    let name = tag.map_or_else(|| "Cilium".to_owned(), |tag| format!("Cilium {tag}"));
    Some(match version {
        Some(version) if version >= (1, 19, 3) => {
            Finding::ok(format!("{name} is there; its endpoints follow a pod that leaves service within seconds"))
        }
        Some(version) if version >= KEEPS_UNREADY => Finding::warning(
            format!("{name} is there"),
            "up to 1.19.2 it may keep an old endpoint for half an hour after its connection to the API server broke",
            "update it to 1.19.3 or later",
        ),
        _ => Finding::warning(
            format!("{name} is there"),
            "before 1.19, and before December 2025 in 1.18, a pod that leaves service loses open connections of NodePorts and load balancers (cilium/cilium#42708)",
            "update it, or prefer Hold: DrainPolicy mode: Hold",
        ),
    })
}

fn version(tag: &str) -> Option<(u32, u32, u32)> {
    let mut parts = tag.trim_start_matches('v').split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next().flatten().unwrap_or_default()))
}

/// Runtimes whose pods have their sockets where no agent sees them.
fn sandboxes(facts: &Facts) -> Option<Finding> {
    let Seen::Known(classes) = &facts.runtime_classes else { return None };
    let is_sandbox = |handler: &str| ["runsc", "gvisor", "kata"].iter().any(|word| handler.contains(word));
    let names: Vec<&str> =
        classes.iter().filter(|(_, handler)| is_sandbox(handler)).map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| {
        Finding::warning(
            format!("runtime classes of sandboxes: {}", names.join(", ")),
            "connections of such pods are not in their network namespace, so they can be neither counted nor held",
            "do not opt workloads with these classes in, or give them hooks and minSeconds",
        )
    })
}
