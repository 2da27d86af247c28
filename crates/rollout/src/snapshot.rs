//! Everything that a round looks at, as small structs.

mod binding;
mod left_out;
mod namespaces;
mod observer;
mod own_writes;
mod read;
mod reported;
mod selections;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::companion;
use crate::foreign_manager::PresentManagers;
use crate::guard::Guards;
use crate::mode::{AgentStatus, PolicyView, ServiceView};
use crate::pools::{PoolKey, PoolReading, ProviderView};
use crate::prefetch::{self, NodeImages, PrefetchView};
use crate::reload::Finds;
use hitless_api::node_transition::AgentInfo;
use hitless_api::pod::PodView;
use hitless_api::pod_transition_rule::{PodTransitionRuleStatus, RuleState};
use hitless_api::{
    Grant, GroupKind, NodeTransitionSpec, PodTransitionRuleSpec, Reservation, Transition, TransitionLedgerSpec,
};
use hitless_gate::{Approvals, Budget, DisruptionBudget};
use hitless_workloads::{Holder, Installed, Object};
use jiff::{SignedDuration, Timestamp};

pub use binding::{AGENT_ROLE, BindingView};
pub use hitless_api::Version;
pub use left_out::{LeftOut, Unread};
pub use namespaces::{Namespaces, is_ours};
pub use own_writes::{OwnWrites, Refusal};
pub use read::agents;
pub(crate) use read::{is_agent, is_agents};

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Labels, for topologies.
    pub labels: BTreeMap<String, String>,
    /// Images that it says it has.
    pub images: NodeImages,
    /// Why no image is brought to it. A cordon is no reason: it keeps pods away that are not there yet.
    pub pressure: Option<NodePressure>,
    /// Since when it is not Ready: its kubelet says so, or says nothing.
    pub not_ready_since: Option<Timestamp>,
}

/// A node that its kubelet says is short of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePressure {
    /// The condition, e.g. `DiskPressure`.
    pub condition: &'static str,
    /// Since when it is true, as far as its kubelet says.
    pub since: Option<Timestamp>,
}

impl NodePressure {
    /// A kubelet that removes images and pods may have made room after so long.
    const LASTS_AFTER: SignedDuration = SignedDuration::from_mins(2);

    /// From when on nobody waits for its end.
    #[must_use]
    pub fn lasts_from(&self) -> Option<Timestamp> {
        self.since?.saturating_add(Self::LASTS_AFTER).ok()
    }
}

/// A NodeTransition.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTransitionView {
    /// The node's name.
    pub node: String,
    /// What a write is conditional on.
    pub version: Version,
    /// Annotation [`crate::round::FENCE`].
    pub fence: Option<String>,
    /// What we wrote.
    pub spec: NodeTransitionSpec,
    /// What the agent says of itself; absent before its first report.
    pub agent: Option<AgentInfo>,
    /// What the agent reports.
    pub transitions: Vec<Transition>,
}

impl NodeTransitionView {
    /// What the agent has said.
    #[must_use]
    pub fn agent_status(&self) -> AgentStatus<'_> {
        AgentStatus { info: self.agent.as_ref(), reports: &self.transitions }
    }

    /// What the agent reports of `grant`.
    #[must_use]
    pub fn transition(&self, grant: &Grant) -> Option<&Transition> {
        self.transitions.iter().find(|transition| transition.is_of(grant))
    }

    /// The grants whose operation the agent has not reported to be over.
    pub fn unfinished(&self) -> impl Iterator<Item = &Grant> {
        self.spec.grants.iter().filter(|grant| !self.has_ended(grant))
    }

    /// Whether the agent has reported that the grant's operation is over.
    #[must_use]
    pub fn has_ended(&self, grant: &Grant) -> bool {
        self.transition(grant).is_some_and(|transition| transition.result.is_some())
    }
}

/// The ledger of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerView {
    /// Namespace, or [`hitless_api::ledger::CLUSTER`].
    pub namespace: String,
    /// What a write is conditional on.
    pub version: Version,
    /// Its content.
    pub spec: TransitionLedgerSpec,
}

/// A PodTransitionRule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What a write is conditional on.
    pub version: Version,
    /// `metadata.generation`.
    pub generation: i64,
    /// The rules.
    pub spec: PodTransitionRuleSpec,
    /// Why the spec can't be read, but for whom it selects.
    pub unreadable: Option<String>,
    /// What we last reported.
    pub status: Option<PodTransitionRuleStatus>,
}

/// Whether a node has an agent (docs/contract.md#ready-agent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Its pod is Ready.
    Ready,
    /// It has none, or it is not Ready, and this has been so since then at the latest.
    MissingSince(Timestamp),
    /// It has none and gets none: the agents' own DaemonSet wants no pod there.
    Never,
}

/// What a read of a pod said that was made after the result of its operation was seen: a cache may show the pod as it was
/// before the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The pod is Ready.
    Ready,
    /// The pod is there and not Ready; whether it has become so since is for the cache to tell.
    NotReady,
    /// There is no pod with that uid any more.
    Gone,
}

/// Identity of an operation: a grant's id may come again for a later operation of the same kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationKey {
    /// Id of the grant and the reservation.
    pub id: String,
    /// When it was granted and reserved.
    pub since: Timestamp,
}

impl OperationKey {
    /// Of the operation that was granted.
    #[must_use]
    pub fn granted(grant: &Grant) -> Self {
        Self { id: grant.id.clone(), since: grant.granted.0 }
    }

    /// Of the operation that has the reservation.
    #[must_use]
    pub fn reserved(reservation: &Reservation) -> Self {
        Self { id: reservation.id.clone(), since: reservation.since.0 }
    }
}

/// The state of the cluster as one controller sees it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Epoch of our leadership.
    pub epoch: i64,
    /// Our identity as a leader.
    pub holder: String,
    /// All objects of workloads' kinds.
    pub objects: Vec<Arc<Object>>,
    /// Kinds of workloads whose objects can't be read now, though there may be some. Nothing begins for their pods, and nothing that is
    /// under way for them is ended.
    pub unreadable: BTreeSet<GroupKind>,
    /// Namespaces about which too little is known now. Nothing begins in them, nothing that is under way there is ended, and nothing of
    /// theirs is written: what stands there counts.
    pub left_out: BTreeMap<String, LeftOut>,
    /// A budget counts the pods of the whole cluster, and not all of them have been read: nothing begins under it.
    pub uncounted: bool,
    /// What is installed and switched on.
    pub installed: Arc<Installed>,
    /// Kinds that are left alone: they are off, or the manager that they come from is there. Nothing that is under way for their pods is ended,
    /// and no pod is kept out of service for them.
    pub left: BTreeSet<GroupKind>,
    /// Objects of these kinds, as far as they are read.
    pub left_objects: Vec<Arc<Object>>,
    /// The managers that are there and that kinds come from.
    pub managers: PresentManagers,
    /// Which policies keep native controllers from rolling what has opted in; absent where that is not known.
    pub guards: Option<Guards>,
    /// All pods but those that fetch images, and companions that were never put in service.
    pub pods: Vec<Arc<PodView>>,
    /// Companion pods. Those that were ever put in service are among [`Self::pods`], too; the others are nobody's.
    pub companions: Vec<Arc<PodView>>,
    /// The pods that fetch images.
    pub prefetches: Vec<Arc<PrefetchView>>,
    /// All nodes by name.
    pub nodes: BTreeMap<String, Arc<NodeView>>,
    /// All NodeTransitions by node.
    pub node_transitions: BTreeMap<String, Arc<NodeTransitionView>>,
    /// All ledgers by namespace, that of the whole cluster as [`hitless_api::ledger::CLUSTER`].
    pub ledgers: BTreeMap<String, Arc<LedgerView>>,
    /// RoleBindings by which agents may operate, by namespace.
    pub bindings: BTreeMap<String, Arc<BindingView>>,
    /// All PodTransitionRules.
    pub rules: Vec<Arc<RuleView>>,
    /// All TransitionBudgets.
    pub budgets: Vec<Arc<Budget>>,
    /// All PodDisruptionBudgets.
    pub disruption_budgets: Vec<Arc<DisruptionBudget>>,
    /// All Services.
    pub services: Vec<Arc<ServiceView>>,
    /// All DrainPolicies.
    pub drain_policies: Vec<Arc<PolicyView>>,
    /// All TrafficProviders.
    pub providers: Vec<Arc<ProviderView>>,
    /// What their pools were read to have. One that is not listed has not been read.
    pub pools: BTreeMap<PoolKey, PoolReading>,
    /// What workloads find that reload, by uid; one that is not listed has not been looked at.
    pub reloads: Finds,
    /// What approvers have said.
    pub approvals: Approvals,
    /// What approvers are at, by namespace and name of the PodTransitionRule; one that is not listed has not been looked at yet.
    pub rule_states: BTreeMap<(String, String), Vec<RuleState>>,
    /// Agents by node; a node that is not listed has just been seen for the first time.
    pub agents: BTreeMap<String, AgentState>,
    /// What pods that fetch images have besides, as the controller is told.
    pub prefetch_settings: Arc<prefetch::Settings>,
    /// What is known of this term's own writes.
    pub own_writes: OwnWrites,
    /// What [`crate::round::Round::reads`] asked for earlier.
    pub evidence: BTreeMap<OperationKey, Evidence>,
    /// What could not be read; nothing for a controller.
    pub unknown: Unknown,
}

/// What an observer could not read. A check that needs it is left out; whoever asks has to tell the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct Unknown {
    /// Nodes. Whether the Node of a pod is there is not checked.
    pub nodes: bool,
    /// The agents' pods. Whether a node has a Ready agent is not checked.
    pub agents: bool,
    /// Companion pods. None is made, and none is waited for.
    pub companions: bool,
    /// What images nodes have. An image is taken to be there unless a prefetch pod says something else.
    pub images: bool,
    /// Services, DrainPolicies or NodeTransitions. Leave or Hold is not forecast.
    pub modes: bool,
    /// Services or TrafficProviders. Whether a pod may leave its pools is not checked.
    pub pools: bool,
    /// Pods and ledgers of all namespaces but this one. A pod of another namespace is not missing because it is not listed.
    pub outside: Option<String>,
}

impl Unknown {
    /// Whether pods and ledgers of the namespace are known.
    pub(crate) fn lists(&self, namespace: &str) -> bool {
        self.outside.as_deref().is_none_or(|only| only == namespace)
    }
}

impl Snapshot {
    /// Whether the ledger of the pod's namespace has a reservation for this very operation.
    pub(crate) fn has_reservation(&self, grant: &Grant) -> bool {
        let ledger = self.ledgers.get(&grant.pod.namespace);
        let reservation = ledger.and_then(|ledger| ledger.spec.reservations.get(&grant.pod.uid));
        reservation.is_some_and(|reservation| OperationKey::reserved(reservation) == OperationKey::granted(grant))
    }

    /// Whether it is looked after: it is installed and on, and the manager that it comes from is not there to do so.
    #[must_use]
    pub fn serves(&self, holder: Holder) -> bool {
        let manager = holder.component().and_then(|component| self.managers.of(component));
        self.installed.has(holder) && manager.is_none()
    }

    /// Whether the grant is for a workload whose objects can't be read now.
    pub(crate) fn is_of_unreadable(&self, grant: &Grant) -> bool {
        grant.owner.as_ref().is_some_and(|owner| self.unreadable.contains(&owner.group_kind))
    }

    /// Whether the grant is for a workload of a kind that is left alone now.
    pub(crate) fn is_of_left(&self, grant: &Grant) -> bool {
        grant.owner.as_ref().is_some_and(|owner| self.left.contains(&owner.group_kind))
    }

    /// Whether nothing is decided about the namespace now.
    pub(crate) fn leaves_out(&self, namespace: &str) -> bool {
        self.left_out.contains_key(namespace)
    }

    /// With these pods, but those that fetch images: companions are set apart.
    #[must_use]
    pub fn with_pods(self, pods: Vec<Arc<PodView>>) -> Self {
        let (companions, mut pods): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| companion::is_companion(pod));
        pods.extend(companions.iter().filter(|pod| companion::has_served(pod)).cloned());
        Self { pods, companions, ..self }
    }

    /// Which of its nodes have a Ready agent, see [`agents`]. `known` is the answer of last time.
    #[must_use]
    pub fn agent_states(&self, known: &BTreeMap<String, AgentState>, now: Timestamp) -> BTreeMap<String, AgentState> {
        let set = self.objects.iter().find(|object| is_agents(object)).and_then(|object| object.daemon_set());
        let excludes = |node: &str| {
            let labels = self.nodes.get(node).map(|node| &node.labels);
            set.zip(labels).is_some_and(|(set, labels)| set.body.placement.excludes(node, labels))
        };
        let nodes = self.nodes.keys().map(String::as_str);
        agents(nodes, self.pods.iter().map(|pod| &**pod), excludes, known, now)
    }
}
