//! Which pods are as the template says, and what the others need.

use std::collections::BTreeMap;

use hitless_api::grant::ImageChange;
use hitless_api::names::{KEEP_DIGEST, annotations};
use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{Change, GrantOp, PullPolicy};

use crate::image;
use crate::intent::{Obstacle, Operation, PodIntent};
use crate::object::Object;
use crate::requests::restart;
use crate::template::{Shape, Template};

/// What a pod needs to be as the target says.
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// This operation, or it can't be done.
    Operation(Result<PodIntent, Obstacle>),
}

/// What pods are to be brought to.
pub(crate) struct Goal<'a> {
    /// The template.
    pub(crate) template: &'a Template,
    /// Labels by which the native controller tells that a pod is up to date; they go into the same patch.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations that go into the same patch, too.
    pub(crate) annotations: BTreeMap<String, String>,
    /// A restart is one of the same bytes, whatever a tag means by now (annotation `hitless.dev/restart: keep-digest`).
    pub(crate) keeps_digest: bool,
}

impl<'a> Goal<'a> {
    /// Of the workload, for pods that get these labels.
    pub(crate) fn of(root: &Object, template: &'a Template, labels: BTreeMap<String, String>) -> Self {
        let keeps_digest = root.annotations.get(annotations::RESTART).is_some_and(|value| value == KEEP_DIGEST);
        Self { template, labels, annotations: BTreeMap::new(), keeps_digest }
    }

    /// The image change that restarts the container.
    fn restart(&self, container: &ContainerView) -> Result<ImageChange, Obstacle> {
        let tag = self.template.image(&container.name).filter(|image| image::digest_of(image).is_none());
        match tag {
            // As at every other start, the registry is asked what the tag means; all pods get the same answer.
            Some(tag) if container.pull_policy == PullPolicy::Always && !self.keeps_digest => {
                Ok(ImageChange { from: container.image.clone(), to: tag.to_owned() })
            }
            _ => restart::alias(container, self.template.revision()),
        }
    }

    fn label_changes(&self, pod: &PodView) -> BTreeMap<String, Change> {
        let differing = self.labels.iter().filter(|(name, value)| pod.labels.get(*name) != Some(*value));
        let change = |(name, value): (&String, &String)| {
            (name.clone(), Change { from: pod.labels.get(name).cloned(), to: Some(value.clone()) })
        };
        differing.map(change).collect()
    }
}

/// What is known of the template that a pod was made from or brought to.
pub(crate) struct Origin<'a> {
    /// Revision that it was brought to.
    pub(crate) recorded: Option<&'a str>,
    /// Digest of the annotations of the template that it was made from; if it was brought to another one since, of the template that
    /// its workload had before.
    pub(crate) annotations: Option<&'a str>,
}

/// Compares the pod with the goal. `bases` are all templates that are still known: with the one that the pod was brought to, what
/// has changed since needs no guess.
pub(crate) fn need<'a>(
    pod: &PodView,
    goal: &Goal<'_>,
    origin: &Origin<'_>,
    bases: impl IntoIterator<Item = &'a Shape>,
) -> Need {
    let (target, recorded) = (goal.template, origin.recorded);
    let labels = goal.label_changes(pod);
    // Where it is there, it alone decides (docs/contract.md 1).
    if recorded.is_some_and(|revision| revision == target.revision()) && labels.is_empty() {
        return Need::Nothing;
    }
    let base = recorded.and_then(|revision| bases.into_iter().find(|base| base.revision == revision));
    let differing = match differing(pod, target, base) {
        Ok(differing) => differing,
        Err(obstacle) => return Need::Operation(Err(obstacle)),
    };
    // The pod's own annotations do not follow its template, and others write there, too: they tell nothing. Whether a difference may
    // be made in place was asked before; here it is due.
    let annotations = base.map(|base| base.annotations.digest()).or(origin.annotations);
    let restarted = annotations.is_some_and(|digest| digest != target.shape().annotations.digest());
    // Of a template that nobody knows any more: if the images do not tell the difference, it is a restart.
    let is_unknown = base.is_none() && (recorded.is_some() || annotations.is_none());
    let restarted = restarted || (is_unknown && differing.is_empty());
    // Labels alone can't be changed by an operation; and who has other ones is not up to date.
    let restarted = restarted || (differing.is_empty() && !labels.is_empty());
    if differing.is_empty() && !restarted {
        return Need::Nothing;
    }
    Need::Operation(operation(pod, goal, differing, restarted, labels))
}

/// Image changes of the containers that differ from the target's.
fn differing(
    pod: &PodView,
    target: &Template,
    base: Option<&Shape>,
) -> Result<BTreeMap<String, ImageChange>, Obstacle> {
    let mut changes = BTreeMap::new();
    for (name, wanted) in target.images() {
        let container = pod.container(name).ok_or_else(|| Obstacle::UnknownContainer { container: name.to_owned() })?;
        let same = match base {
            Some(base) => base.image(name) == Some(wanted),
            None => image::is_same(container, wanted),
        };
        // A differing name that is equal to the letter would be no operation.
        if !same && container.image != wanted {
            changes.insert(name.to_owned(), ImageChange { from: container.image.clone(), to: wanted.to_owned() });
        }
    }
    Ok(changes)
}

fn operation(
    pod: &PodView,
    goal: &Goal<'_>,
    differing: BTreeMap<String, ImageChange>,
    restarted: bool,
    labels: BTreeMap<String, Change>,
) -> Result<PodIntent, Obstacle> {
    let target = goal.template;
    let op = if differing.is_empty() { GrantOp::Restart } else { GrantOp::Update };
    let mut containers = differing;
    if restarted {
        // Containers that something else put into the pod are not the template's to restart.
        for container in pod.containers.iter().filter(|container| target.image(&container.name).is_some()) {
            if !containers.contains_key(&container.name) {
                containers.insert(container.name.clone(), goal.restart(container)?);
            }
        }
    }
    let recorded = pod.annotations.get(annotations::REVISION).cloned();
    let mut changes = BTreeMap::from([(
        annotations::REVISION.to_owned(),
        Change { from: recorded, to: Some(target.revision().to_owned()) },
    )]);
    for (name, value) in goal.annotations.iter().filter(|(name, value)| pod.annotations.get(*name) != Some(*value)) {
        changes.insert(name.clone(), Change { from: pod.annotations.get(name).cloned(), to: Some(value.clone()) });
    }
    if let Some(wish) = restart::wish(pod) {
        fold_in(pod, &wish, &mut containers, &mut changes);
    }
    Ok(PodIntent::new(pod, Operation::new(op, containers, changes, labels)))
}

/// Carries a wished restart out in the same operation. If that can't be done, it stays wished and is reported on its own
/// when the pod is up to date.
fn fold_in(
    pod: &PodView,
    wish: &restart::RestartWish,
    containers: &mut BTreeMap<String, ImageChange>,
    changes: &mut BTreeMap<String, Change>,
) {
    let Ok(selected) = wish.select(pod) else { return };
    let rest: Result<Vec<_>, Obstacle> = selected
        .into_iter()
        .filter(|container| !containers.contains_key(&container.name))
        .map(|container| Ok((container.name.clone(), restart::alias(container, &wish.token)?)))
        .collect();
    if let Ok(rest) = rest {
        containers.extend(rest);
        changes.extend([wish.mark(pod)]);
    }
}
