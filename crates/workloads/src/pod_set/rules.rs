//! What a kind decides about the pods of its sets.

use std::collections::BTreeSet;

use hitless_api::pod::PodView;

use super::instances::{Instance, Instances};

/// An id that counts, as rules see it.
#[derive(Clone, Copy)]
pub(crate) struct Member<'m, 'a> {
    pub(crate) id: i32,
    pub(crate) instance: &'m Instance<'a>,
    /// Its pod has the target's revision, or gets it when it is made.
    pub(crate) is_at_target: bool,
    /// Its pod is being operated or has left service, or another one is to replace it.
    pub(crate) is_moving: bool,
    /// Its pod has left service, or the rules have let its removal go.
    pub(crate) is_leaving: bool,
}

/// The functions that a kind gives. All are pure, and say the same about the same.
pub(crate) trait Rules {
    /// The ids, the first one to be removed first.
    fn order_of_removal(&self, all: Vec<Member<'_, '_>>) -> Vec<i32>;

    /// The ids, the first one to be updated first. Where a partition keeps some at their version, it is the last ones.
    fn order_of_update(&self, all: Vec<Member<'_, '_>>) -> Vec<i32>;

    /// Whether the pod counts as available.
    fn is_available(&self, pod: &PodView) -> bool;

    /// The owner has named the pod: it is to go before others.
    fn is_named(&self, pod: &PodView) -> bool;

    /// The pod is to be removed and made anew as it is.
    fn is_made_anew(&self, pod: &PodView) -> bool;

    /// Somebody asks for another pod in the place of this one, which leaves once the other one serves.
    fn is_to_be_replaced(&self, pod: &PodView) -> bool;

    /// Other operators have to do something before the pod is deleted. One that serves leaves service meanwhile.
    fn is_kept(&self, pod: &PodView) -> bool;

    /// Ids whose pods the set lets go: nothing else is done to them.
    fn excluded(&self, instances: &Instances<'_>) -> BTreeSet<i32>;

    /// How many pods the set takes on: as many fewer are made.
    fn taken_on(&self) -> usize;

    /// Labels of the pod that is made for an id, beside those of the template; `replaces`: name of the pod that it replaces.
    fn labels(&self, id: i32, replaces: Option<&str>) -> Vec<(&'static str, String)>;
}
