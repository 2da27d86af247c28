//! The writes for what has been decided about a set, in their order.

use hitless_api::PodRef;

use super::claims::told;
use super::creations::creations;
use super::departures::Departures;
use super::dress::Dress;
use super::facts::Facts;
use super::follow::{follow, superseded};
use super::instances::Instances;
use super::journal::Journal;
use super::spec::Spec;
use super::tell::normal;
use super::update::Progress;
use crate::write::{Request, Write};

/// What a kind writes beside.
#[derive(Default)]
pub(crate) struct Own {
    /// Only if the journal is as it was seen, or was written just before: what speaks of ids.
    pub(crate) resting: Vec<Write>,
    /// Whatever the journal says.
    pub(crate) beside: Vec<Write>,
}

/// The journal first, after a look at the pods that leave and whose ids get another name, and at those that are seen no more; pods are
/// deleted, made and labelled only if it is as it was seen, or as it was written just before.
pub(super) fn writes<'a>(
    facts: &Facts<'_, 'a>,
    instances: &Instances<'a>,
    leaving: &Departures<'a>,
    progress: &Progress,
    dress: &dyn Dress<'a>,
    journal: &dyn Journal,
    own: Own,
) -> Vec<Write> {
    let spec = &facts.spec;
    let looks = instances.leaving.iter().map(|pod| Write::on_pod("look", &pod.id, Request::Look));
    let looks: Vec<Write> = looks.chain(instances.vanished.iter().map(|name| absent(spec, name))).collect();
    let seen = looks.iter().map(Write::key).collect();
    let given_up = told(spec, leaving.claims.clone(), "fewer pods are wanted (whenScaled: Delete)");
    let resting = removals(spec, leaving).into_iter().chain(given_up);
    let resting = resting.chain(superseded(facts, instances, leaving, progress));
    let resting: Vec<Write> = resting.chain(creations(facts, instances, dress)).chain(own.resting).collect();
    let changed = journal.write(&instances.records(), instances.next()).map(|write| Write { needs: seen, ..write });
    let first = if resting.is_empty() { changed } else { changed.or_else(|| journal.confirm()) };
    let needed: Vec<String> = first.iter().map(Write::key).collect();
    let resting = resting.into_iter().map(|write| {
        let needs = needed.iter().cloned().chain(write.needs.iter().cloned()).collect();
        Write { needs, ..write }
    });
    let others = follow(facts, instances).into_iter().chain(own.beside);
    looks.into_iter().chain(first).chain(resting).chain(others).chain(progress.tries.values().cloned()).collect()
}

/// A pod that is replaced goes only if the one that replaces it is there.
fn removals(spec: &Spec<'_>, leaving: &Departures<'_>) -> Vec<Write> {
    let mut writes = Vec::new();
    for may_go in &leaving.removed {
        let pod = may_go.pod();
        let successor = leaving.successors.get(&pod.id.uid);
        let look = successor.map(|new| Write::on_pod("look-at-successor", new, Request::Look));
        let needs = look.iter().map(Write::key).collect();
        let deletion = Write::delete_pod("delete-pod", *may_go);
        let [one, several] = spec.names.reasons.deleted;
        // One Event for all of them: each is a write.
        let tells = writes.is_empty().then(|| match leaving.removed.len() {
            1 => normal(spec, one, format!("deletes pod {}", pod.id.name)),
            count => normal(spec, several, format!("deletes {count} pods, {} first", pod.id.name)),
        });
        writes.extend(look);
        writes.push(Write { tells, needs, ..deletion });
    }
    writes
}

fn absent(spec: &Spec<'_>, name: &str) -> Write {
    let id = &spec.object.id;
    let pod = PodRef { namespace: id.namespace.clone(), name: name.to_owned(), uid: String::new() };
    Write::on_pod("look-for", &pod, Request::Absent { owner_uid: id.uid.clone() })
}
