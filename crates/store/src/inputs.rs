//! What rounds look at, one row a resource ([`rows`]). The watches of the controller, the lists and watches of the command line, and the
//! caches of the simulation are loops over the rows. What each of them keeps for a row is its own ([`Holder`]).

use std::fmt::Debug;
use std::sync::Arc;

use hitless_rollout::snapshot::Snapshot;
use hitless_runtime::watch::{Listing, Outline, Selection};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

pub mod part;
pub mod rows;

pub use part::{Part, Question};
pub use rows::{Inputs, each};

/// A row: a resource that rounds look at.
pub trait Input: Sized + 'static {
    /// An object as the API server has it.
    type Object: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static;
    /// What decisions use of it.
    type View: PartialEq + Send + Sync + 'static;

    /// The kind, in the log and as a label of metrics.
    const KIND: &'static str;
    /// What is watched, in the log and in what `/readyz` says.
    const PLURAL: &'static str;
    /// The objects, human-readable.
    const NAME: &'static str;
    /// Which of its objects.
    const SELECT: Select = Select::All;
    /// What is read of objects that are too large.
    const OUTLINE: Option<Outline> = None;
    /// Which of them the command line reads.
    const REACH: Reach = Reach::Shown;
    /// When the command line reads it.
    const TURN: Turn = Turn::Last;
    /// What people are told where they may not read it; `None`: the command line needs it, or never reads it.
    const PART: Option<Part> = None;
    /// Objects of the system namespace that count in every other one.
    const SYSTEM: Option<System<Self::View>> = None;

    /// Its objects in one namespace, or in all.
    fn api(client: &Client, namespace: Option<&str>) -> Api<DeserializeGuard<Self::Object>>;

    /// What makes views of objects; `None`: the object is of no interest.
    fn view() -> impl Fn(Self::Object) -> Option<Self::View> + Send + Sync + 'static;

    /// Puts all views into the snapshot, in the place of those that are there.
    fn put(snapshot: &mut Snapshot, views: Vec<Arc<Self::View>>);

    /// What somebody keeps for this row.
    fn of<H: Holder>(inputs: &Inputs<H>) -> &H::Of<Self>;

    /// The same, to be changed.
    fn of_mut<H: Holder>(inputs: &mut Inputs<H>) -> &mut H::Of<Self>;
}

/// Somebody who keeps something for each row, such as a cache.
pub trait Holder {
    /// What is kept for a row.
    type Of<R: Input>;
}

/// Makes what is kept for each row.
pub trait Make<H: Holder> {
    /// For one row.
    fn make<R: Input>(&mut self) -> H::Of<R>;
}

/// What is done with each row, see [`each`].
pub trait Visit {
    /// With one row.
    fn visit<R: Input>(&mut self);
}

/// Which objects of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// All of them.
    All,
    /// Those that match this label selector.
    Labels(&'static str),
    /// Those of this name. Roles know objects of one name, also in all namespaces, as a right to that name.
    Named(&'static str),
}

impl Select {
    /// For a list.
    #[must_use]
    pub fn list(self) -> ListParams {
        let Selection { labels, fields, .. } = self.watch(Listing::Cached);
        ListParams { label_selector: labels, field_selector: fields, ..ListParams::default() }
    }

    /// For a watch.
    #[must_use]
    pub fn watch(self, listing: Listing) -> Selection {
        match self {
            Self::All => Selection::all(listing),
            Self::Labels(labels) => Selection::labels(labels, listing),
            Self::Named(name) => Selection::fields(format!("metadata.name={name}"), listing),
        }
    }
}

/// Which objects the command line reads of a resource, besides those that [`Input::SYSTEM`] adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of the namespaces that are shown; all of a resource that is in no namespace.
    Shown,
    /// Those of all namespaces where a budget counts the pods of the whole cluster.
    Counted,
    /// None, or in a way of its own.
    Apart,
}

/// When the command line reads a resource, after workloads. What comes later is never older than what comes before: a reservation is written
/// before its grant, and given back after the pod is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Together with workloads.
    First,
    /// Once those have been read.
    Second,
    /// Once all others have.
    Last,
}

/// What the command line reads of the system namespace where that one is not shown.
pub struct System<V> {
    /// What people are told where they may not read it.
    pub part: Part,
    /// What is done, for an error: "list …".
    pub what: &'static str,
    /// Which objects.
    pub select: Select,
    /// Whether an object counts in other namespaces.
    pub counts: fn(&V) -> bool,
}

/// Objects of a resource in one namespace, or in all.
#[must_use]
pub fn namespaced<K>(client: &Client, namespace: Option<&str>) -> Api<DeserializeGuard<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// All objects of a resource that is in no namespace.
fn clusterwide<K: Resource<DynamicType = ()>>(client: &Client, _: Option<&str>) -> Api<DeserializeGuard<K>> {
    Api::all(client.clone())
}
