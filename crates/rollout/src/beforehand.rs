//! The pods that the controller makes beside a workload's own, as it would make them now. Whoever wants to know beforehand whether they are
//! accepted asks the API server by a dry run; and what follows where one is not.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;
use hitless_gate::selector;
use hitless_workloads::{Object, OptIn, Template, registry};
use jiff::Timestamp;
use serde_json::Value;

use crate::companion;
use crate::prefetch::{self, Pull, Resources, choose};
use crate::round::is_made;
use crate::snapshot::{OwnWrites, Refusal, Snapshot};

/// Which of these pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Helper {
    /// The one that fetches an image (docs/contract.md#images-first).
    Prefetch,
    /// The companion (docs/contract.md#companion-pod).
    Companion,
}

impl Helper {
    /// What it is, for people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Prefetch => "pod that fetches images",
            Self::Companion => "companion pod",
        }
    }
}

/// A pod to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Which it is.
    pub helper: Helper,
    /// One after the other until one is accepted: the controller tries them in this order.
    pub pods: Vec<Value>,
    /// By these the controller knows what was refused: one for each node of the image.
    keys: BTreeSet<String>,
    /// Namespace and image of one that fetches.
    image: Option<(String, String)>,
}

impl Trial {
    /// Notes that all were refused, so that a round decides as the controller's does then; `at` is when that was said.
    pub fn refused(&self, words: &str, own: &mut OwnWrites, at: Timestamp) {
        let tries = u32::try_from(self.pods.len()).unwrap_or(u32::MAX);
        let refusal = Refusal { words: words.to_owned(), tries, at, image: self.image.clone() };
        own.refused.extend(self.keys.iter().map(|key| (key.clone(), refusal.clone())));
    }
}

/// What the controller makes for this workload while its pods are brought to its template: for these pods of its own.
#[must_use]
pub fn trials(snapshot: &Snapshot, workload: &Object, pods: &[&PodView]) -> Vec<Trial> {
    let Some(template) = workload.template().filter(|template| template.too_large().is_none()) else {
        return Vec::new();
    };
    let mut all = fetching(snapshot, workload, template, pods);
    all.extend(companion(snapshot, workload, template, pods));
    all
}

/// One for each image: whatever the node is, the API server is not asked for it.
fn fetching(snapshot: &Snapshot, workload: &Object, template: &Template, pods: &[&PodView]) -> Vec<Trial> {
    let images: BTreeMap<&str, &str> = template.images().map(|(name, image)| (image, name)).collect();
    let of_image = |(image, name): (&str, &str)| {
        let pull = |pod: &&PodView| {
            let container = pod.containers.iter().find(|container| container.name == name)?;
            Pull::of(pod, container, image)
        };
        let pulls: Vec<Pull> = pods.iter().filter_map(pull).collect();
        let mut first = pulls.first()?.clone();
        first.extra = choose(snapshot, &first, Some(template)).extra;
        let made = |resources| prefetch::manifest(&first, 1, resources, &workload.id);
        Some(Trial {
            helper: Helper::Prefetch,
            pods: vec![made(Resources::None), made(Resources::OfContainer)],
            keys: pulls.iter().map(Pull::key).collect(),
            image: Some((first.namespace.clone(), image.to_owned())),
        })
    };
    images.into_iter().filter_map(of_image).collect()
}

/// Where one is made: beside an only pod, where its owner wants that, and where a limit may want all pods to stay.
fn companion(snapshot: &Snapshot, workload: &Object, template: &Template, pods: &[&PodView]) -> Option<Trial> {
    let of_template = registry::of_workload(&workload.id.group_kind)?.surge(workload).ok()?;
    let (beside, node) = pods.iter().find_map(|pod| Some((*pod, pod.node.as_deref()?)))?;
    let namespace = &workload.id.namespace;
    let may_want_all = || {
        let budgets = snapshot.disruption_budgets.iter().filter(|budget| budget.namespace == *namespace);
        let mut selectors = budgets.filter_map(|budget| budget.selector.as_ref()).chain(
            snapshot
                .budgets
                .iter()
                .filter(|budget| budget.namespace == *namespace)
                .filter_map(|each| each.spec.selector.as_ref()),
        );
        selectors.any(|by| selector::limits(by, &template.shape().labels))
    };
    let total = registry::size(workload).and_then(|size| usize::try_from(size.desired).ok())?;
    let is_made = is_made(snapshot, workload, total, beside, may_want_all());
    is_made.then(|| {
        let key = companion::key(&workload.id, template.revision());
        let pod = companion::manifest(&workload.id, &key, of_template, &BTreeMap::new(), node);
        Trial { helper: Helper::Companion, pods: vec![pod], keys: [key].into(), image: None }
    })
}

/// What is done where this pod of the workload's is refused in these words.
#[must_use]
pub fn instead(helper: Helper, workload: &Object, words: &str) -> String {
    let refusal = Refusal { words: words.to_owned(), ..Refusal::default() };
    let is_deployment = workload.deployment().is_some();
    match helper {
        Helper::Companion if workload.opt_in() == OptIn::InPlaceOnly => {
            "its pods are operated without one: an only pod is held, and waits as LossExpected where its clients would be refused then".to_owned()
        }
        Helper::Companion => {
            "its pods are operated without one: an only pod is held, and goes natively where its clients would be refused then".to_owned()
        }
        Helper::Prefetch if refusal.is_about_room() => {
            "images are not fetched before: the kubelet pulls them for the pods' own containers, and pods leave where another pod serves".to_owned()
        }
        Helper::Prefetch if is_deployment && workload.opt_in() == OptIn::InPlaceOnly => {
            "its changes of images are refused (PrefetchRefused), because it may be the image that is not accepted".to_owned()
        }
        Helper::Prefetch if is_deployment => {
            "its changes of images go natively (PrefetchRefused), because it may be the image that is not accepted".to_owned()
        }
        Helper::Prefetch => {
            "its pods stay as they are where an image is not on their nodes yet, and kubectl hitless wait ends with 3, because it may be the \
             image that is not accepted"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
