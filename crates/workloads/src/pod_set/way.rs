//! How a pod gets another version.

use hitless_api::pod::PodView;

use super::dress::Dress;
use super::facts::Facts;
use super::pods::revision_of;
use super::policy::UpgradePolicy;
use crate::because::Because;
use crate::intent::PodIntent;
use crate::labels;
use crate::need::{Goal, Need, Origin, need};
use crate::restart_annotations::RestartAnnotations;
use crate::revision;
use crate::shape::Shape;

/// How one pod gets it.
pub(super) enum Way {
    InPlace(Box<PodIntent>),
    /// The pod is removed and made anew.
    Anew,
    /// The same; whether the pod that would be made is accepted is being asked.
    Asked,
    /// Another one is made before, as soon as there is room.
    Replaced,
    /// Its owner does not let it be done as it would have to be.
    Refused(Because),
}

/// What ways are decided on.
pub(super) struct Ways<'r, 'w, 'a> {
    pub(super) facts: &'r Facts<'w, 'a>,
    pub(super) dress: &'r dyn Dress<'a>,
    pub(super) restarts: &'r RestartAnnotations,
}

impl Ways<'_, '_, '_> {
    /// How the pod gets the revision `to`.
    pub(super) fn of(&self, pod: &PodView, to: &str) -> Way {
        let policy = self.facts.spec.policy;
        if policy == UpgradePolicy::Recreate {
            return Way::Anew;
        }
        if policy == UpgradePolicy::Replace {
            return Way::Replaced;
        }
        match self.in_place(pod, to) {
            Some(intent) => Way::InPlace(Box::new(intent)),
            None if policy == UpgradePolicy::InPlaceOnly => Way::Refused(self.not_in_place(pod, to)),
            None => Way::Anew,
        }
    }

    fn in_place(&self, pod: &PodView, to: &str) -> Option<PodIntent> {
        let Facts { spec, revisions, target, .. } = *self.facts;
        let label = revision_of(pod);
        if label != to && !revisions.has_same_claims(label) {
            return None;
        }
        let goal = Goal::of(spec.object, spec.template, revision::label(to));
        if self.dress.is_plain() && to == target && self.dress.is_on(pod) {
            return self.changed(pod, revisions.shape(label)?, goal);
        }
        let change = self.dress.change(pod, to)?;
        self.changed(pod, change.from.shape(), change.goal(goal))
    }

    /// Why it can't be done in a running pod.
    fn not_in_place(&self, pod: &PodView, to: &str) -> Because {
        let Facts { spec, revisions, .. } = *self.facts;
        let label = revision_of(pod);
        if label == to {
            return Because::field(self.dress.fixed());
        }
        let annotations = &spec.template.shape().annotations;
        let shape = revisions.shape(label);
        let because = shape.and_then(|shape| self.restarts.first_native_change(&shape.annotations, annotations));
        because.unwrap_or_else(|| {
            Because::field(if revisions.has_same_claims(label) {
                "something else than images and restart annotations in spec.template"
            } else {
                "spec.volumeClaimTemplates"
            })
        })
    }

    /// The operation that brings the pod there, if all that differs can be changed in a running pod.
    fn changed(&self, pod: &PodView, from: &Shape, goal: Goal<'_>) -> Option<PodIntent> {
        let (target, restarts) = (goal.template.shape(), self.restarts);
        let is_possible = from.fixed == target.fixed
            && self.may_change_labels(from, &goal)
            && restarts.first_native_change(&from.annotations, &target.annotations).is_none()
            && restarts.asks_admission(&from.annotations, goal.template, &[pod]).is_none();
        if !is_possible {
            return None;
        }
        let goal = Goal { followed: restarts.followed(&from.annotations, &target.annotations), ..goal };
        let origin = Origin::of(&from.revision);
        match need(pod, &goal, &origin, [from]) {
            Need::Operation(Ok(intent)) => Some(intent),
            Need::Operation(Err(_)) | Need::Nothing => None,
        }
    }

    fn may_change_labels(&self, from: &Shape, goal: &Goal<'_>) -> bool {
        let Facts { spec, world, .. } = self.facts;
        if spec.has_metadata_in_place {
            return labels::first_native_change(from, goal.template, &world.selections(spec.namespace())).is_none();
        }
        from.labels == goal.template.shape().labels
    }
}
