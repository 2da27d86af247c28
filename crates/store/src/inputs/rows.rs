//! The table. A row says what is read and where it goes in the [`Snapshot`]; docs/seams/watched-resource.md says what else a new one needs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hitless_api::drain_policy::DEFAULT;
use hitless_api::large::{outline_of_pod, outlined};
use hitless_api::names::{AGENT, OTHER_PODS, PREFETCH_PODS};
use hitless_api::pod::PodView;
use hitless_api::{
    DrainPolicy, Lenient, NodeTransition, PodTransitionRule, TrafficProvider, TransitionBudget, TransitionLedger,
};
use hitless_gate::{Budget, DisruptionBudget};
use hitless_rollout::mode::{PolicyView, ServiceView};
use hitless_rollout::pools::ProviderView;
use hitless_rollout::prefetch::{NamePool, PrefetchView};
use hitless_rollout::snapshot::{BindingView, LedgerView, NodeTransitionView, NodeView, RuleView, Snapshot};
use hitless_runtime::watch::Outline;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::core::DeserializeGuard;
use kube::{Api, Client};

use super::part::{VIEW, VIEW_CLUSTER, VIEW_EVERYWHERE, VIEW_SYSTEM};
use super::{Holder, Input, Make, Part, Question, Reach, Select, System, Turn, Visit, clusterwide, namespaced};

/// A row is `field: Row = object => view { … }`: first what every row says, then the constants of [`Input`] that are not as usual.
macro_rules! inputs {
    ($(
        $(#[$doc:meta])*
        $field:ident: $row:ident = $object:ty => $view:ty {
            kind: $kind:literal, plural: $plural:literal, name: $name:literal, api: $api:ident,
            view: $make:expr,
            put: $put:expr,
            $($constant:ident: $type:ty = $value:expr,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $row;

            impl Input for $row {
                type Object = $object;
                type View = $view;
                const KIND: &'static str = $kind;
                const PLURAL: &'static str = $plural;
                const NAME: &'static str = $name;
                $(const $constant: $type = $value;)*

                fn api(client: &Client, namespace: Option<&str>) -> Api<DeserializeGuard<Self::Object>> {
                    $api(client, namespace)
                }

                fn view() -> impl Fn(Self::Object) -> Option<Self::View> + Send + Sync + 'static {
                    $make
                }

                fn put(snapshot: &mut Snapshot, views: Vec<Arc<Self::View>>) {
                    let put: fn(&mut Snapshot, Vec<Arc<Self::View>>) = $put;
                    put(snapshot, views);
                }

                fn of<H: Holder>(inputs: &Inputs<H>) -> &H::Of<Self> {
                    &inputs.$field
                }

                fn of_mut<H: Holder>(inputs: &mut Inputs<H>) -> &mut H::Of<Self> {
                    &mut inputs.$field
                }
            }
        )*

        /// What somebody keeps for each row.
        pub struct Inputs<H: Holder> {
            $($(#[$doc])* pub $field: H::Of<$row>,)*
        }

        impl<H: Holder> Inputs<H> {
            /// Made anew for each row.
            pub fn new(maker: &mut impl Make<H>) -> Self {
                Self { $($field: maker.make::<$row>(),)* }
            }
        }

        /// Visits the rows in their order.
        pub fn each(visitor: &mut impl Visit) {
            $(visitor.visit::<$row>();)*
        }
    };
}

inputs! {
    /// All pods but those that fetch images.
    pods: Pods = Pod => PodView {
        kind: "Pod", plural: "pods", name: "pods", api: namespaced,
        view: |pod| Some(PodView::from(&outlined(pod))),
        put: |snapshot, views| *snapshot = std::mem::take(snapshot).with_pods(views),
        SELECT: Select = Select::Labels(OTHER_PODS),
        OUTLINE: Option<Outline> = Some(outline_of_pod),
        REACH: Reach = Reach::Counted,
        TURN: Turn = Turn::First,
    }

    /// Nodes. The command line reads less of many.
    nodes: Nodes = Node => NodeView {
        kind: "Node", plural: "nodes", name: "nodes", api: clusterwide,
        view: {
            let names = Mutex::new(NamePool::default());
            // A panic while it was locked leaves a pool that is as good as any.
            move |node| Some(NodeView::of(&node, &mut names.lock().unwrap_or_else(PoisonError::into_inner)))
        },
        put: |snapshot, views| snapshot.nodes = by(views, |node| &node.name),
        REACH: Reach = Reach::Apart,
        PART: Option<Part> = Some(Part::new(120, "nodes", VIEW_CLUSTER, Question::Agents, "zones are not known")),
    }

    /// NodeTransitions. Where there is no such kind, hitless is not installed.
    node_transitions: NodeTransitions = NodeTransition => NodeTransitionView {
        kind: "NodeTransition", plural: "nodetransitions", name: "NodeTransitions", api: clusterwide,
        view: |each| Some(NodeTransitionView::from(each)),
        put: |snapshot, views| snapshot.node_transitions = by(views, |each| &each.node),
        // What agents can do is in them.
        PART: Option<Part> = Some(Part { tells_modes: true, ..Part::new(
            10, Self::NAME, VIEW_EVERYWHERE, Question::Operations,
            "which operations run, which have failed, and which mode pods would get, is not known",
        ) }),
        TURN: Turn = Turn::Second,
    }

    /// The ledgers of namespaces, and that of the cluster.
    ledgers: Ledgers = TransitionLedger => LedgerView {
        kind: "TransitionLedger", plural: "transitionledgers", name: "TransitionLedgers", api: namespaced,
        view: LedgerView::of,
        put: |snapshot, views| snapshot.ledgers = by(views, |ledger| &ledger.namespace),
        REACH: Reach = Reach::Counted,
        PART: Option<Part> = Some(Part::new(
            20, Self::NAME, VIEW, Question::Operations, "pods with a place in a budget count as free",
        )),
    }

    /// RoleBindings by which agents may operate.
    bindings: Bindings = RoleBinding => BindingView {
        kind: "RoleBinding", plural: "rolebindings", name: "RoleBindings", api: namespaced,
        view: |binding| BindingView::of(&binding),
        put: |snapshot, views| snapshot.bindings = by(views, |binding| &binding.namespace),
        SELECT: Select = Select::Named(AGENT),
        REACH: Reach = Reach::Apart,
    }

    /// PodTransitionRules.
    rules: Rules = Lenient<PodTransitionRule> => RuleView {
        kind: "PodTransitionRule", plural: "podtransitionrules", name: "PodTransitionRules", api: namespaced,
        view: |rule| Some(RuleView::from(rule)),
        put: |snapshot, views| snapshot.rules = views,
        PART: Option<Part> = Some(Part::new(30, Self::NAME, VIEW, Question::Rules, "they are left out of the answer")),
    }

    /// TransitionBudgets. Those of the system namespace may count the pods of all others.
    budgets: Budgets = Lenient<TransitionBudget> => Budget {
        kind: "TransitionBudget", plural: "transitionbudgets", name: "TransitionBudgets", api: namespaced,
        view: |budget| Some(Budget::from(budget)),
        put: |snapshot, views| snapshot.budgets = views,
        PART: Option<Part> = Some(Part::new(40, Self::NAME, VIEW, Question::Rules, ALL_THE_SAME)),
        SYSTEM: Option<System<Budget>> = Some(System {
            part: Part { kind: Self::NAME, ..Part::new(
                50, "TransitionBudgets of hitless's namespace", VIEW_SYSTEM, Question::Rules, ALL_THE_SAME,
            ) },
            what: "list TransitionBudgets in hitless's namespace",
            select: Select::All,
            counts: Budget::is_cluster_wide,
        }),
    }

    /// PodDisruptionBudgets.
    disruption_budgets: DisruptionBudgets = PodDisruptionBudget => DisruptionBudget {
        kind: "PodDisruptionBudget", plural: "poddisruptionbudgets", name: "PodDisruptionBudgets", api: namespaced,
        view: |budget| Some(DisruptionBudget::from(budget)),
        put: |snapshot, views| snapshot.disruption_budgets = views,
        PART: Option<Part> = Some(Part::new(60, Self::NAME, VIEW, Question::Rules, ALL_THE_SAME)),
    }

    /// Services.
    services: Services = Service => ServiceView {
        kind: "Service", plural: "services", name: "Services", api: namespaced,
        view: |service| Some(ServiceView::from(&service)),
        put: |snapshot, views| snapshot.services = views,
        PART: Option<Part> = Some(Part::new(70, Self::NAME, VIEW, Question::Modes, NO_MODE)),
    }

    /// TrafficProviders.
    providers: Providers = TrafficProvider => ProviderView {
        kind: "TrafficProvider", plural: "trafficproviders", name: "TrafficProviders", api: clusterwide,
        view: |provider| Some(ProviderView::from(provider)),
        put: |snapshot, views| snapshot.providers = views,
        PART: Option<Part> = Some(Part::new(
            100, Self::NAME, VIEW_EVERYWHERE, Question::LoadBalancers,
            "load balancers outside of the cluster may be in the way all the same",
        )),
    }

    /// DrainPolicies. The default of all namespaces is in the system namespace.
    drain_policies: DrainPolicies = Lenient<DrainPolicy> => PolicyView {
        kind: "DrainPolicy", plural: "drainpolicies", name: "DrainPolicies", api: namespaced,
        view: |policy| Some(PolicyView::from(policy)),
        put: |snapshot, views| snapshot.drain_policies = views,
        PART: Option<Part> = Some(Part::new(80, Self::NAME, VIEW, Question::Modes, NO_MODE)),
        SYSTEM: Option<System<PolicyView>> = Some(System {
            part: Part { kind: Self::NAME, ..Part::new(
                90, "DrainPolicy default of hitless's namespace", VIEW_SYSTEM, Question::Modes, NO_MODE,
            ) },
            what: "get DrainPolicy default in hitless's namespace",
            // By name, so that a role that names it is enough.
            select: Select::Named(DEFAULT),
            counts: |_| true,
        }),
    }

    /// The pods that fetch images.
    prefetches: Prefetches = Pod => PrefetchView {
        kind: "prefetch Pod", plural: "prefetch pods", name: "pods that fetch images", api: namespaced,
        view: |pod| PrefetchView::of(&pod),
        put: |snapshot, views| snapshot.prefetches = views,
        SELECT: Select = Select::Labels(PREFETCH_PODS),
        OUTLINE: Option<Outline> = Some(outline_of_pod),
        REACH: Reach = Reach::Counted,
        TURN: Turn = Turn::First,
    }
}

/// What may be wrong without budgets.
const ALL_THE_SAME: &str = "they may be in the way all the same";
/// What is not known without what decides about Leave or Hold.
const NO_MODE: &str = "which mode pods would get is not known";

/// By a name of theirs.
fn by<T>(views: Vec<Arc<T>>, key: impl Fn(&T) -> &String) -> BTreeMap<String, Arc<T>> {
    views.into_iter().map(|view| (key(&view).clone(), view)).collect()
}
