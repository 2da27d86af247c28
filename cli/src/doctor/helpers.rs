//! Whether the pods that the controller makes beside the workloads' own would be accepted in the namespace that is asked about.

use std::collections::BTreeSet;

use hitless_rollout::beforehand::Helper;
use hitless_workloads::{OptIn, World, registry};
use kube::Client;

use super::facts::{Facts, Helpers};
use super::finding::Finding;
use crate::output::count;
use crate::source::{self, Scope};
use crate::trial::{self, Answer};

/// So many workloads are tried: each takes up to three requests.
const MOST: usize = 10;

/// Tries those of the namespace's workloads that have opted in. Where they can't be read nothing is: that is said of more than these.
pub(super) async fn read(client: &Client, namespace: &str) -> Helpers {
    let mut helpers = Helpers { namespace: namespace.to_owned(), ..Helpers::default() };
    let Ok(snapshot) = source::read(client, &Scope::Namespace(namespace.to_owned())).await else { return helpers };
    let world = World::new(&snapshot.cluster.objects, &snapshot.cluster.pods, BTreeSet::new());
    let has_opted_in = |uid: &str| world.object(uid).is_some_and(|object| object.opt_in() != OptIn::No);
    let all = snapshot.cluster.objects.iter().filter(|object| registry::is_workload(&object.id.group_kind));
    let opted: Vec<_> = all.filter(|object| object.id.namespace == namespace && has_opted_in(&object.id.uid)).collect();
    helpers.others = opted.len().saturating_sub(MOST);
    for workload in opted.into_iter().take(MOST) {
        let is_own = |pod: &&hitless_api::pod::PodView| world.top(pod).is_some_and(|top| top.uid == workload.id.uid);
        let pods: Vec<_> = snapshot.pods().filter(is_own).collect();
        let tried = trial::run(client, &snapshot, workload, &pods).await;
        helpers.tried.insert(workload.id.target(), tried.into_iter().map(|(_, tried)| tried).collect());
    }
    helpers
}

/// One finding for each that is refused, one for all that could not be tried, one for the others.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let Helpers { namespace, tried, others } = &facts.helpers;
    let all = || tried.iter().flat_map(|(workload, tried)| tried.iter().map(move |each| (workload, each)));
    let mut found = Vec::new();
    for (workload, each) in all() {
        let Answer::Refused(words) = &each.answer else { continue };
        let to_do = if each.pod == Helper::Companion.label() {
            "let such pods pass (they have the label hitless.dev/companion), or run two replicas".to_owned()
        } else {
            "let such pods pass (they have the label hitless.dev/prefetch); a label that is asked for they get by HITLESS_PREFETCH_LABELS of \
             Deployment hitless-controller"
                .to_owned()
        };
        let what = format!("{} of {namespace}/{workload} would be refused: {words}", each.label());
        found.push(Finding::warning(what, each.instead.clone().unwrap_or_default(), to_do));
    }
    let not_tried: BTreeSet<&str> = all()
        .filter_map(|(_, each)| match &each.answer {
            Answer::NotTried(why) => Some(why.as_str()),
            Answer::Accepted | Answer::Refused(_) => None,
        })
        .collect();
    if !not_tried.is_empty() {
        let why = not_tried.into_iter().collect::<Vec<_>>().join("; ");
        found.push(Finding::warning(
            format!(
                "whether all pods that the controller makes in namespace {namespace} would be accepted is not known"
            ),
            format!("not tried: {why}"),
            "ask as somebody who may, or look after an update at: kubectl hitless why",
        ));
    }
    let accepted: BTreeSet<&String> =
        all().filter(|(_, each)| each.answer == Answer::Accepted).map(|(workload, _)| workload).collect();
    if found.is_empty() && !accepted.is_empty() {
        let rest = if *others > 0 { format!(" ({others} more were not tried)") } else { String::new() };
        found.push(Finding::ok(format!(
            "pods that fetch images, and companion pods, would be accepted for {} of namespace {namespace}{rest}",
            count(accepted.len(), "workload")
        )));
    }
    found
}
