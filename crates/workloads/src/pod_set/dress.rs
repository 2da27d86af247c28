//! What pods of a set get beside its template.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hitless_api::pod::PodView;
use serde_json::Value;

use super::instances::{Instance, Instances};
use super::pods::revision_of;
use super::revisions::Revisions;
use super::spec::Spec;
use crate::because::Because;
use crate::need::Goal;
use crate::template::Template;

/// What a pod was made from and what it is to become.
pub(crate) struct Change {
    pub(crate) from: Template,
    pub(crate) to: Template,
    /// What marks the pod afterwards, beside its revision.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Change {
    /// With what marks the pod afterwards.
    pub(super) fn goal<'g>(&'g self, goal: Goal<'g>) -> Goal<'g> {
        let Goal { template: _, mut labels, annotations: _, followed, keeps_digest } = goal;
        labels.extend(self.labels.clone());
        Goal { template: &self.to, labels, annotations: self.annotations.clone(), followed, keeps_digest }
    }
}

/// What the pods get beside the template (a CollaSet's decorations), as it is for the ids of one [`Instances`].
pub(crate) trait Dress<'a> {
    /// Why no pod is made or changed at all: something in it makes no sense.
    fn refusal(&self) -> Option<Because>;

    /// Nobody can tell yet what pods are to have: they stay as they are.
    fn is_open(&self) -> bool;

    /// Pods are as the template says, and nothing else.
    fn is_plain(&self) -> bool;

    /// Whether the pod has what it is to have. As long as nobody can tell, it has.
    fn is_on(&self, pod: &PodView) -> bool;

    /// The template of a pod that is to be made, perhaps to replace another one; `None`: it can't be made yet.
    fn of_new(&self, id: i32, instance: &Instance<'a>, replaces: Option<&Instance<'a>>) -> Option<Cow<'a, Value>>;

    /// The template of the pod once it has been made anew at the revision with this name.
    fn template_at(&self, pod: &PodView, revision: &str) -> Cow<'_, Template>;

    /// What becomes of a pod that is updated to the revision with this name; `None` if it needs a new pod.
    fn change(&self, pod: &PodView, to: &str) -> Option<Rc<Change>>;

    /// What of it can't be changed in a running pod, as people say it.
    fn fixed(&self) -> &'static str;

    /// The revision that pods are brought to in the end, and those that single pods are brought to.
    fn goals(&self, instances: &Instances<'a>) -> (String, BTreeSet<String>);
}

/// Nothing beside the template.
pub(crate) struct Undressed<'w, 'a> {
    pub(crate) spec: Spec<'a>,
    pub(crate) revisions: &'w Revisions<'a>,
}

impl<'a> Dress<'a> for Undressed<'_, 'a> {
    fn refusal(&self) -> Option<Because> {
        None
    }

    fn is_open(&self) -> bool {
        false
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn is_on(&self, _: &PodView) -> bool {
        true
    }

    fn of_new(&self, _: i32, instance: &Instance<'a>, _: Option<&Instance<'a>>) -> Option<Cow<'a, Value>> {
        Some(Cow::Borrowed(self.revisions.template_or_own(instance.revision())))
    }

    fn template_at(&self, _: &PodView, revision: &str) -> Cow<'_, Template> {
        match self.revisions.template(revision) {
            Some(template) => Cow::Owned(Template::new(template.clone())),
            None => Cow::Borrowed(self.spec.template),
        }
    }

    fn change(&self, pod: &PodView, to: &str) -> Option<Rc<Change>> {
        let template = |revision: &str| {
            let (template, shape) = (self.revisions.template(revision)?, self.revisions.shape(revision)?);
            Some(Template::new(template.clone()).with_revision(&shape.revision))
        };
        let (from, to) = (template(revision_of(pod))?, template(to)?);
        Some(Rc::new(Change { from, to, labels: BTreeMap::new(), annotations: BTreeMap::new() }))
    }

    fn fixed(&self) -> &'static str {
        "something else than images"
    }

    fn goals(&self, _: &Instances<'a>) -> (String, BTreeSet<String>) {
        (self.spec.template.revision().to_owned(), BTreeSet::new())
    }
}
