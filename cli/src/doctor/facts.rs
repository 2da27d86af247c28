//! What is seen of a cluster, as far as hitless depends on it.

use std::collections::{BTreeMap, BTreeSet};

use hitless_rollout::foreign_manager::PresentManagers;
use hitless_rollout::guard::Guards;
use jiff::Timestamp;

use crate::trial::Tried;

/// What was read, or why it could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen<T> {
    Known(T),
    /// The API server says no, in its words.
    Unread(String),
    /// The API server does not know the kind.
    NotServed,
}

impl<T> Seen<Option<T>> {
    /// Of a list; `None`: the API server does not know the kind.
    pub(crate) fn served(self) -> Seen<T> {
        match self {
            Self::Known(Some(value)) => Seen::Known(value),
            Self::Known(None) | Self::NotServed => Seen::NotServed,
            Self::Unread(why) => Seen::Unread(why),
        }
    }
}

impl<T> Seen<T> {
    pub(crate) const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unread(_) | Self::NotServed => None,
        }
    }

    /// With what is made of it, if it is known.
    pub(crate) fn map<V>(self, make: impl FnOnce(T) -> V) -> Seen<V> {
        match self {
            Self::Known(value) => Seen::Known(make(value)),
            Self::Unread(why) => Seen::Unread(why),
            Self::NotServed => Seen::NotServed,
        }
    }
}

/// Everything that is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Version of this program.
    pub(crate) client: String,
    /// Version of the API server: major, minor, and as it calls itself.
    pub(crate) server: Seen<(u32, u32, String)>,
    /// Names of the definitions of custom resources.
    pub(crate) definitions: Seen<BTreeSet<String>>,
    /// The admission policies and their bindings.
    pub(crate) guards: Seen<Guards>,
    pub(crate) controller: Seen<Option<Program>>,
    /// Names of our programs' ClusterRoleBindings that are there.
    pub(crate) bindings: Seen<BTreeSet<String>>,
    pub(crate) agent: Seen<Option<Program>>,
    pub(crate) nodes: Seen<Vec<NodeFacts>>,
    pub(crate) agents: Seen<Vec<AgentPod>>,
    /// What the agents say of themselves, by node. One says it with its first operation.
    pub(crate) reports: Seen<BTreeMap<String, Report>>,
    /// Images of DaemonSets and Deployments of the whole cluster, by `<namespace>/<name>`.
    pub(crate) programs: Seen<BTreeMap<String, Vec<String>>>,
    /// Handlers of runtime classes, by the name of the class.
    pub(crate) runtime_classes: Seen<BTreeMap<String, String>>,
    /// CollaSets that are being deleted, and that a controller has to let go: `<namespace>/<name>`.
    pub(crate) leaving_sets: Seen<Vec<String>>,
    /// Namespaces with the label for the opt-in.
    pub(crate) labelled: Seen<Vec<Labelled>>,
    /// The managers that kinds come from, as far as they are seen.
    pub(crate) managers: PresentManagers,
    /// What the API server says of the pods that the controller makes for workloads of the namespace that is asked about.
    pub(crate) helpers: Helpers,
    pub(crate) now: Timestamp,
}

/// Of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Helpers {
    pub(crate) namespace: String,
    /// By workload, e.g. `deployment/web`.
    pub(crate) tried: BTreeMap<String, Vec<Tried>>,
    /// So many more have opted in.
    pub(crate) others: usize,
}

/// A namespace with the label `hitless.dev/update`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labelled {
    pub(crate) namespace: String,
    /// What the label says.
    pub(crate) value: String,
    /// Workloads that say nothing themselves, e.g. `deployment/web`; looked for where the label opts in.
    pub(crate) left_out: Vec<String>,
}

/// A workload of hitless itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) image: String,
    pub(crate) wanted: i32,
    pub(crate) ready: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    /// `linux`, `windows`.
    pub(crate) os: String,
    /// An agent can be on it: nodes without a machine (Fargate, virtual-kubelet, kwok) have none.
    pub(crate) is_real: bool,
    pub(crate) kernel: String,
    pub(crate) runtime: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentPod {
    pub(crate) node: String,
    pub(crate) ready: bool,
    pub(crate) since: Option<Timestamp>,
    pub(crate) image: String,
}

/// What an agent says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
}
