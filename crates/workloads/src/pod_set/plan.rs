//! What is to be done for one set: the phases in their order.

use std::collections::BTreeSet;

use hitless_api::pod::PodView;

use super::departures::{Departures, Leave};
use super::dress::{Dress, Undressed};
use super::facts::Facts;
use super::instances::Instances;
use super::journal::Journal;
use super::scale::{give_up, scale};
use super::surge::Replacing;
use super::update::{Progress, Update, retarget};
use super::writes::{Own, writes};
use crate::removal::{MayGo, serves};
use crate::write::Write;

/// What is to be done for one set.
pub(crate) struct Plan<'w, 'a> {
    /// What becomes of its ids.
    pub(crate) instances: Instances<'a>,
    /// What becomes of pods that leave. `desired` has those that are updated in place, too.
    pub(crate) leaving: Departures<'a>,
    /// How far its update is.
    pub(crate) progress: Progress,
    dress: Box<dyn Dress<'a> + 'w>,
}

/// Nothing is done yet.
pub(crate) fn still<'w, 'a>(facts: &Facts<'w, 'a>, journal: &dyn Journal) -> Plan<'w, 'a> {
    Plan {
        instances: Instances::of(&facts.spec, journal, facts.world),
        leaving: Departures::default(),
        progress: Progress::default(),
        dress: Box::new(Undressed { spec: facts.spec, revisions: facts.revisions }),
    }
}

/// The set goes on to what its owner wants. `dressed` says what its pods get beside the template; it is asked again once pods that are
/// to be made have got their revisions.
pub(crate) fn advance<'w, 'a>(
    facts: &Facts<'w, 'a>,
    journal: &dyn Journal,
    dressed: &dyn Fn(&Instances<'a>) -> Box<dyn Dress<'a> + 'w>,
) -> Plan<'w, 'a> {
    let mut instances = Instances::of(&facts.spec, journal, facts.world);
    let dress = dressed(&instances);
    // A pod that was let go keeps its name.
    let unowned = facts.world.unowned_pods(facts.spec.namespace()).iter();
    let taken: BTreeSet<&str> = facts.pods.iter().chain(unowned).map(|pod| pod.id.name.as_str()).collect();
    let mut leaving = Departures::default();
    give_up(facts, &mut instances, &mut leaving);
    leaving.exclude(facts.rules.excluded(&instances));
    let replacing = Replacing { facts, dress: &*dress };
    replacing.go_on(&mut instances, &mut leaving);
    scale(facts, &mut instances, &mut leaving, &taken);
    replacing.begin(&mut instances, &leaving, &taken);
    let scope = facts.scope(&instances);
    retarget(facts, &mut instances, &scope);
    let dress = dressed(&instances);
    let update = Update { facts, dress: &*dress, pairs: instances.pairs(), scope };
    let progress = update.run(&mut instances, &mut leaving);
    Plan { instances, leaving, progress, dress }
}

/// The set is being deleted, and all of its pods go. `is_late`: the rules have kept them for long enough.
pub(crate) fn dissolve<'w, 'a>(facts: &Facts<'w, 'a>, journal: &dyn Journal, is_late: bool) -> Plan<'w, 'a> {
    let Plan { mut instances, mut leaving, progress, dress } = still(facts, journal);
    let ids: Vec<i32> = instances.by_id.keys().copied().collect();
    for id in ids {
        // Nobody who has seen this makes another one.
        instances.mark_scale_in(id);
        let Some(pod) = instances.pod(id) else { continue };
        // One that serves nobody is not judged: its owner wants nothing of the set to be left.
        if is_late || !(serves(pod, facts.world) || pod.is_protected()) {
            leaving.removed.extend(MayGo::of_deleted(pod, facts.spec.object));
        } else {
            leaving.remove(facts, Some(pod), Leave::after(facts.spec.delays.removal));
        }
    }
    Plan { instances, leaving, progress, dress }
}

impl<'a> Plan<'_, 'a> {
    /// The writes for it, with those of the kind in their places.
    pub(crate) fn writes(&self, facts: &Facts<'_, 'a>, journal: &dyn Journal, own: Own) -> Vec<Write> {
        writes(facts, &self.instances, &self.leaving, &self.progress, &*self.dress, journal, own)
    }

    /// The revision that pods are brought to in the end, and those that single pods are brought to.
    pub(crate) fn goals(&self) -> (String, BTreeSet<String>) {
        self.dress.goals(&self.instances)
    }

    /// Whether the pod stays where it is: it is neither deleted nor let go.
    pub(crate) fn keeps(&self, id: i32, pod: &PodView) -> bool {
        !self.leaving.is_removed(pod) && !self.leaving.excluded.contains(&id)
    }
}
