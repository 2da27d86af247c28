//! Which pods are as the template says, and what the others need.

use std::collections::BTreeMap;

use hitless_api::grant::ImageChange;
use hitless_api::names::{KEEP_DIGEST, annotations};
use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{Change, GrantOp, PullPolicy};

use crate::because::Because;
use crate::downward::{self, Metadata};
use crate::image;
use crate::intent::{DesiredOperation, Obstacle, Operation, PodIntent};
use crate::labels;
use crate::object::Object;
use crate::restart_request;
use crate::shape::Shape;
use crate::template::Template;
use crate::world::World;

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
    /// Labels by which the native controller tells that a pod is up to date; they go into the same patch as the template's own.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations that go into the same patch, too.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Annotations of the template that the pod follows, as the template has them that it was brought to, and as this one has them.
    pub(crate) followed: BTreeMap<String, Change>,
    /// A restart is one of the same bytes, whatever a tag means by now (annotation `hitless.dev/restart: keep-digest`).
    pub(crate) keeps_digest: bool,
}

impl<'a> Goal<'a> {
    /// Of the workload, for pods that get these labels.
    pub(crate) fn of(root: &Object, template: &'a Template, labels: BTreeMap<String, String>) -> Self {
        let keeps_digest = root.annotations.get(annotations::RESTART).is_some_and(|value| value == KEEP_DIGEST);
        Self { template, labels, annotations: BTreeMap::new(), followed: BTreeMap::new(), keeps_digest }
    }

    /// The image change that restarts the container.
    fn restart(&self, pod: &PodView, container: &ContainerView) -> Result<ImageChange, Obstacle> {
        let tag = self.template.image(&container.name).filter(|image| image::digest_of(image).is_none());
        match tag {
            // As at every other start, the registry is asked what the tag means; all pods get the same answer.
            Some(tag) if container.pull_policy == PullPolicy::Always && !self.keeps_digest => {
                Ok(ImageChange { from: container.image.clone(), to: tag.to_owned() })
            }
            _ => restart_request::alias(pod, container, self.template.revision()),
        }
    }

    /// Whether annotations say that the containers are to be started again: those that the pod does not follow.
    fn restarts(&self, from: &Shape) -> bool {
        let mut differing = from.annotations.differing(&self.template.shape().annotations);
        differing.any(|key| !self.followed.contains_key(key))
    }

    fn own_label_changes(&self, pod: &PodView) -> BTreeMap<String, Change> {
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
    /// That digest is certainly the one of the template that it was brought to.
    pub(crate) is_certain: bool,
    /// The template that it was made from, if it was brought to none since: what admission made of its images then is right, whatever they
    /// are called.
    pub(crate) made_from: Option<&'a Shape>,
}

impl<'a> Origin<'a> {
    /// Of a pod that was made from or brought to this revision, which is known.
    pub(crate) const fn of(revision: &'a str) -> Self {
        Self { recorded: Some(revision), annotations: None, is_certain: false, made_from: None }
    }
}

/// Compares the pod with the goal. `bases` are all templates that are still known: with the one that the pod was brought to, what
/// has changed since needs no guess.
pub(crate) fn need<'a>(
    pod: &PodView,
    goal: &Goal<'a>,
    origin: &Origin<'a>,
    bases: impl IntoIterator<Item = &'a Shape> + Clone,
) -> Need {
    let (target, recorded) = (goal.template, origin.recorded);
    let mut labels = goal.own_label_changes(pod);
    // Where it is there, it alone decides (docs/contract.md#pod-revision).
    if recorded.is_some_and(|revision| revision == target.revision()) && labels.is_empty() {
        return Need::Nothing;
    }
    let known = bases.clone().into_iter();
    let base = recorded.and_then(|revision| bases.into_iter().find(|base| base.revision == revision));
    let differing = match differing(pod, target, base, origin.made_from) {
        Ok(differing) => differing,
        Err(obstacle) => return Need::Operation(Err(obstacle)),
    };
    // Others write annotations of a pod, too: they tell nothing. Whether a difference may be made in place was asked before; here it is
    // due.
    let annotations = base.map(|base| base.annotations.digest()).or(origin.annotations);
    let restarted = match base {
        Some(base) if !goal.followed.is_empty() => goal.restarts(base),
        Some(_) | None => annotations.is_some_and(|digest| digest != target.shape().annotations.digest()),
    };
    // Of a template that nobody knows any more: if the images do not tell the difference, it is a restart.
    let is_unknown = base.is_none() && !origin.is_certain && (recorded.is_some() || annotations.is_none());
    let restarted = restarted || (is_unknown && differing.is_empty());
    let of_template = labels::changes(pod, target.shape(), base.or(origin.made_from), known);
    let mut readers = downward::stale(target.content(), Metadata::Labels, &of_template);
    readers.extend(downward::stale(target.content(), Metadata::Annotations, &goal.followed));
    labels.extend(of_template);
    if differing.is_empty() && !restarted && labels.is_empty() && goal.followed.is_empty() {
        return Need::Nothing;
    }
    Need::Operation(operation(pod, goal, differing, |name| restarted || readers.contains(name), labels))
}

/// Why only new pods bring these pods what is wanted for them: a restart that can't be made in place. No time helps. The native
/// controller starts the same image in a new pod under the name that it has.
pub(crate) fn new_pods_only(desired: &[DesiredOperation], pods: &[&PodView], world: &World<'_>) -> Option<Because> {
    let with_pods =
        desired.iter().filter_map(|wanted| Some((wanted, pods.iter().find(|pod| pod.id.uid == wanted.pod.uid)?)));
    with_pods.into_iter().find_map(|(wanted, pod)| match &wanted.intent {
        Err(Obstacle::DigestUnknown { container }) => Some(Because::no_other_name(container)),
        Err(_) => None,
        Ok(intent) => {
            let is_stuck = |(name, change): &(&String, &ImageChange)| {
                let is_foreign = || pod.container(name).is_some_and(image::is_under_another_name);
                world.is_unfetched(&change.to)
                    && image::unpinned(&change.from) == image::unpinned(&change.to)
                    && is_foreign()
            };
            let (container, _) = intent.operation.containers.iter().find(is_stuck)?;
            Some(Because::no_other_name(container))
        }
    })
}

/// Why one of these pods can only be made anew: no agent is ever going to be where it is.
pub(crate) fn agentless(desired: &[DesiredOperation], pods: &[&PodView], world: &World<'_>) -> Option<Because> {
    let is_wanted = |pod: &&&PodView| desired.iter().any(|wanted| wanted.pod.uid == pod.id.uid);
    let pod = pods.iter().filter(|pod| world.is_agentless(pod)).find(is_wanted)?;
    Some(Because::no_agent(&pod.id.name, pod.node.as_deref().unwrap_or_default()))
}

/// Why only a new pod shows whether the image of one of these operations is accepted: the pods that would fetch it are not.
pub(crate) fn unaccepted(desired: &[DesiredOperation], world: &World<'_>) -> Option<Because> {
    desired.iter().filter_map(|wanted| Some((&wanted.pod.namespace, wanted.intent.as_ref().ok()?))).find_map(
        |(namespace, intent)| {
            let mut images = intent.operation.containers.values().map(|change| &change.to);
            images.find_map(|image| Some(Because::unaccepted(image, world.unaccepted(namespace, image)?)))
        },
    )
}

/// Image changes of the containers that differ from the target's.
fn differing(
    pod: &PodView,
    target: &Template,
    base: Option<&Shape>,
    made_from: Option<&Shape>,
) -> Result<BTreeMap<String, ImageChange>, Obstacle> {
    let mut changes = BTreeMap::new();
    for (name, wanted) in target.images() {
        let container = pod.container(name).ok_or_else(|| Obstacle::UnknownContainer { container: name.to_owned() })?;
        let same = if let Some(base) = base {
            base.image(name) == Some(wanted)
        } else {
            // A ReplicaSet's template changes under pods that it made before, so the name has to agree as far as a mirror leaves it.
            let is_made_of_it = made_from.is_some_and(|made| made.image(name) == Some(wanted));
            image::is_same(container, wanted) || (is_made_of_it && image::is_of_mirror(&container.image, wanted))
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
    restarted: impl Fn(&str) -> bool,
    labels: BTreeMap<String, Change>,
) -> Result<PodIntent, Obstacle> {
    let target = goal.template;
    let has_new_image = !differing.is_empty();
    let mut containers = differing;
    // Containers that something else put into the pod are not the template's to restart.
    let own = pod.containers.iter().filter(|container| target.image(&container.name).is_some());
    for container in own.filter(|container| restarted(&container.name)) {
        if !containers.contains_key(&container.name) {
            containers.insert(container.name.clone(), goal.restart(pod, container)?);
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
    changes.extend(goal.followed.clone());
    if let Some(wanted) = restart_request::wanted(pod) {
        fold_in(pod, &wanted, &mut containers, &mut changes);
    }
    let op = match (has_new_image, containers.is_empty()) {
        (true, _) => GrantOp::Update,
        (false, false) => GrantOp::Restart,
        (false, true) => GrantOp::Relabel,
    };
    Ok(PodIntent::new(pod, Operation::new(op, containers, changes, labels)))
}

/// Carries a wanted restart out in the same operation. If that can't be done, it stays wanted and is reported on its own
/// when the pod is up to date.
fn fold_in(
    pod: &PodView,
    wanted: &restart_request::RestartRequest,
    containers: &mut BTreeMap<String, ImageChange>,
    changes: &mut BTreeMap<String, Change>,
) {
    let Ok(selected) = wanted.select(pod) else { return };
    let rest: Result<Vec<_>, Obstacle> = selected
        .into_iter()
        .filter(|container| !containers.contains_key(&container.name))
        .map(|container| Ok((container.name.clone(), restart_request::alias(pod, container, &wanted.token)?)))
        .collect();
    if let Ok(rest) = rest {
        containers.extend(rest);
        changes.extend([wanted.mark(pod)]);
    }
}
