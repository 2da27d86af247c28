//! Which template a pod was made from or brought to, and what of it nobody keeps.

use std::collections::BTreeMap;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;

use super::Planner;
use crate::because::{Because, Cause};
use crate::kinds::deployment::ReplicaSet;
use crate::labels::Selections;
use crate::need::{Goal, Need, Origin, need};
use crate::shape::Shape;
use crate::template::Template;

impl<'a> Planner<'a> {
    pub(super) fn need(&self, live: ReplicaSet<'a>, pod: &PodView) -> Need {
        let target = &self.deployment.body.template;
        // The template may be gone before the pod is brought to the next one: then the mark still tells which annotations it had.
        let annotations = BTreeMap::from([(annotations::MIXED.to_owned(), target.mixed_mark())]);
        let goal = Goal { annotations, ..Goal::of(self.deployment.object, target, BTreeMap::new()) };
        let recorded = pod.annotations.get(annotations::REVISION).map(String::as_str);
        let mark = pod.annotations.get(annotations::MIXED).and_then(|mark| mark.split_once('.'));
        let certain = mark.filter(|(_, revision)| recorded == Some(*revision)).map(|(digest, _)| digest);
        let annotations = if recorded.is_some() { certain.or_else(|| live.left()) } else { live.annotations_of(pod) };
        let made_from = if recorded.is_some() { None } else { self.made_from(live, pod) };
        let origin = Origin { recorded, annotations, is_certain: certain.is_some(), made_from };
        need(pod, &goal, &origin, self.owned.iter().map(|set| set.body.template.shape()))
    }

    /// The template that a pod was made from which was brought to none since: the one that its mark names, that of its ReplicaSet, or,
    /// during a rollout, the one that this had before, which the newest of the others keeps.
    fn made_from(&self, live: ReplicaSet<'a>, pod: &PodView) -> Option<&'a Shape> {
        let own = pod.owner.as_ref().is_some_and(|owner| owner.uid == live.id.uid);
        if !own {
            return None;
        }
        if let Some(mark) = pod.annotations.get(annotations::MIXED) {
            // A version before this one wrote no revision there.
            let (_, revision) = mark.split_once('.')?;
            let sets = self.owned.iter().map(|set| set.body.template.shape());
            let mut all = std::iter::once(self.deployment.body.template.shape()).chain(sets);
            return all.find(|shape| shape.revision == revision);
        }
        if !live.is_marked_live() && !live.body.template.is_mixed() {
            return Some(live.body.template.shape());
        }
        let others = self.owned.iter().filter(|set| set.id.uid != live.id.uid && !set.body.template.is_mixed());
        let before = others.max_by_key(|set| set.number())?.body.template.shape();
        (live.left() == Some(before.annotations.digest())).then_some(before)
    }

    pub(super) fn selections(&self) -> Selections<'a> {
        self.world.selections(&self.deployment.id.namespace)
    }

    /// Which labels pods have from a template that nobody keeps is not known: of any, or of one that was never complete.
    pub(super) fn forgets_labels(&self, from: &Template) -> Option<Because> {
        let (before, target) = (&from.shape().labels, &self.deployment.body.template.shape().labels);
        if before != target && self.deployment.body.revision_history_limit < 2 {
            let text = "a change of labels is made to running pods only where spec.revisionHistoryLimit is 2 or more";
            return Some(Because::of(Cause::Field, text));
        }
        let gone = before.keys().find(|key| from.is_mixed() && !target.contains_key(*key))?;
        Some(Because::label(gone, "because a version had it that has not reached all pods"))
    }
}
