//! The second seam: who else wants something for pods, beside their workloads.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use hitless_api::event::EventNote;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GroupKind};
use jiff::Timestamp;
use serde::de::Error as _;
use serde_json::Value;

use crate::component::Component;
use crate::intent::DesiredOperation;
use crate::kind::Resource;
use crate::object::{Object, ReadError};
use crate::plan::Plan;
use crate::right::Right;
use crate::switch::Switch;
use crate::world::World;
use crate::write::Write;

/// No kind.
static NONE: BTreeSet<GroupKind> = BTreeSet::new();

/// What requests are derived from.
pub struct RequestContext<'s, 'a> {
    /// All pods.
    pub pods: &'s [Arc<PodView>],
    /// All objects.
    pub world: &'s World<'a>,
    /// What the workload of a pod plans, if it is looked after.
    pub plan_of: &'s dyn Fn(&PodView) -> Option<&'s Plan>,
    /// Kinds whose objects can't be read now, though there may be some.
    pub unreadable: &'s BTreeSet<GroupKind>,
    /// Kinds that are left alone: of their objects none is here, and nothing follows from that.
    pub left: &'s BTreeSet<GroupKind>,
    /// Tokens of restarts that were ordered and are not over, by uid of the pod.
    pub granted: &'s HashMap<&'s str, &'s str>,
    /// The time.
    pub now: Timestamp,
    by_name: OnceCell<HashMap<(&'s str, &'s str), &'s PodView>>,
}

impl<'s, 'a> RequestContext<'s, 'a> {
    /// Of these pods, objects and plans.
    pub fn new(
        pods: &'s [Arc<PodView>],
        world: &'s World<'a>,
        plan_of: &'s dyn Fn(&PodView) -> Option<&'s Plan>,
        granted: &'s HashMap<&'s str, &'s str>,
        now: Timestamp,
    ) -> Self {
        Self { pods, world, plan_of, unreadable: &NONE, left: &NONE, granted, now, by_name: OnceCell::new() }
    }

    /// Where the objects of these kinds can't be read now, and those of others are left alone.
    #[must_use]
    pub fn without(self, unreadable: &'s BTreeSet<GroupKind>, left: &'s BTreeSet<GroupKind>) -> Self {
        Self { unreadable, left, ..self }
    }

    /// The pod of that name. The index is made when it is first asked for: most clusters have no such requests most of the time.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Option<&'s PodView> {
        let index = || {
            let key = |pod: &'s Arc<PodView>| ((pod.id.namespace.as_str(), pod.id.name.as_str()), &**pod);
            self.pods.iter().map(key).collect()
        };
        self.by_name.get_or_init(index).get(&(namespace, name)).copied()
    }
}

/// What became of a desired operation in this round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationFailure {
    /// In CamelCase.
    pub reason: String,
    /// For people.
    pub text: String,
}

/// What became of desired operations in this round, for pods by their uid.
#[derive(Clone, Debug, Default)]
pub struct OperationFailures {
    /// Pods that can't be operated as long as they are as they are.
    pub never: HashMap<String, OperationFailure>,
    /// Operations that have ended badly, by the pod and the token that they were to record.
    pub failed: HashMap<(String, String), OperationFailure>,
}

/// What is to be written and said of requests.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// Next writes.
    pub writes: Vec<Write>,
    /// What people should know, for as long as it holds.
    pub notes: Vec<EventNote>,
    /// When to look again even if nothing changes.
    pub wake_at: Option<Timestamp>,
}

/// A kind of request for pods of any workload, or of none.
pub trait RequestKind: Sync {
    /// What is watched: the objects that stand for requests first. Nothing for requests that are on the pods themselves.
    fn resources(&self) -> &'static [Resource] {
        &[]
    }

    /// What has to be installed for it.
    fn component(&self) -> Component {
        Component::Base
    }

    /// The switch by which it can be turned off by itself, if it has one.
    fn switch(&self) -> Option<Switch> {
        None
    }

    /// What the controller needs besides the rights to these resources.
    fn rights(&self) -> Vec<Right> {
        Vec::new()
    }

    /// Reads an object of one of these resources.
    ///
    /// # Errors
    /// If a field does not have its type, or it has no resources.
    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        let _ = object;
        Err(ReadError { kind: of.clone(), error: serde_json::Error::custom("no request has such objects") })
    }

    /// What is wanted now.
    fn desired(&self, context: &RequestContext<'_, '_>) -> Vec<DesiredOperation>;

    /// Whether the grant carries out a request of this kind that is still wanted. `pod` is its pod, if it is there.
    fn wants(&self, grant: &Grant, pod: Option<&PodView>, context: &RequestContext<'_, '_>) -> bool;

    /// Whether it comes before what the pod's workload wants. Otherwise it goes along with that, or waits for it.
    fn goes_first(&self) -> bool {
        false
    }

    /// Whether the pod's token ([`hitless_api::names::annotations::RESTARTED`]) is evidence that the request's object has not
    /// recorded yet: until it has, nothing may put another one in its place.
    fn keeps_token(&self, pod: &PodView, context: &RequestContext<'_, '_>) -> bool {
        let _ = (pod, context);
        false
    }

    /// What is to be written and said of its objects.
    fn report(&self, context: &RequestContext<'_, '_>, failures: &OperationFailures) -> Reports {
        let _ = (context, failures);
        Reports::default()
    }
}
