//! What the gate is told: pods, their owners, the rules and who holds a reservation.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// A pod, reduced to what rules look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// `metadata.uid`: the pod's identity here and in the ledger.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Node, once bound.
    pub node: Option<String>,
    /// The top workload (for a Deployment's pod the Deployment), else the direct owner, else nothing.
    pub owner: Option<OwnerKey>,
    /// Ready, not terminating, not finished.
    pub available: bool,
}

/// Identity of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct OwnerKey {
    /// Kind, e.g. `Deployment`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// What is known of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerFacts {
    /// How many pods it is meant to have.
    pub desired: u32,
}

/// One PodTransitionRule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    /// Name of the object.
    pub name: String,
    /// Its namespace; it governs pods of this namespace only.
    pub namespace: String,
    /// Its spec.
    pub spec: hitless_api::PodTransitionRuleSpec,
}

/// Budget of the pods of one owner that no PodTransitionRule selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImplicitBudget {
    /// Share of the owner's desired pods that may be unavailable; rounds down, but at least one pod may go.
    pub percent: u32,
}

impl Default for ImplicitBudget {
    fn default() -> Self {
        Self { percent: 25 }
    }
}

/// Everything that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct GateInput<'a> {
    /// All pods of every namespace that has a candidate, not only those that wish something. Pods that have finished for
    /// good (Succeeded, Failed) are best left out: as long as they are listed they count as unavailable.
    pub pods: &'a [PodFacts],
    /// Owners whose desired number of pods is known. An owner that is missing here counts with its listed pods.
    pub owners: &'a BTreeMap<OwnerKey, OwnerFacts>,
    /// All PodTransitionRules of those namespaces.
    pub rule_sets: &'a [RuleSet],
    /// uids of the pods with a live reservation in a ledger.
    pub reserved: &'a BTreeSet<String>,
    /// Budget where no rule set selects a pod; `None` lets such pods go freely.
    pub implicit: Option<ImplicitBudget>,
}

/// A pod that wants to be operated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// uid of the pod.
    pub pod_uid: String,
    /// Higher goes first.
    pub priority: i32,
}
