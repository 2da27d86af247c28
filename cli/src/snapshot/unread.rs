//! What could not be read, and what that means.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Why something was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The API server says no, in its words.
    Refused(String),
    /// The API server does not know the kind.
    NotInstalled,
}

/// What the reader has to know of it: one note about rights and one about kinds that are not there, however much it is.
pub(super) fn notes(unread: &BTreeMap<Part, Unread>) -> impl Iterator<Item = String> {
    let refused = unread.iter().filter_map(|(part, why)| match why {
        Unread::Refused(message) => Some((*part, message.as_str())),
        Unread::NotInstalled => None,
    });
    let absent = unread.iter().filter(|(_, why)| **why == Unread::NotInstalled).map(|(part, _)| *part);
    refused_note(&refused.collect::<Vec<_>>()).into_iter().chain(absent_note(&absent.collect::<Vec<_>>()))
}

fn refused_note(refused: &[(Part, &str)]) -> Option<String> {
    let (first, message) = refused.first()?;
    if refused.len() == 1 {
        return Some(format!("{first} not read: {message}; {}", first.consequence()));
    }
    let names: Vec<String> = refused.iter().map(|(part, _)| part.to_string()).collect();
    let unknown: BTreeSet<&str> = refused.iter().map(|(part, _)| part.unknown()).collect();
    let roles: BTreeSet<&str> = refused.iter().map(|(part, _)| part.role()).collect();
    let list = |words: BTreeSet<&str>| words.into_iter().collect::<Vec<_>>().join(", ");
    Some(format!(
        "{} kinds may not be read ({}): what is not known is {}; ask for {}. The first answer: {message}",
        names.len(),
        names.join(", "),
        list(unknown),
        list(roles)
    ))
}

/// Nobody needs a right to what is not there.
fn absent_note(absent: &[Part]) -> Option<String> {
    let names: BTreeSet<String> = absent.iter().map(|part| part.kind().to_string()).collect();
    let (kinds, them) = match names.len() {
        0 => return None,
        1 => ("kind is", "it"),
        _ => ("kinds are", "them"),
    };
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    Some(format!(
        "{names}: the {kinds} not installed in this cluster; install {them}: kubectl apply -k manifests/crds, kubectl apply -k manifests; see: kubectl hitless doctor"
    ))
}

/// What can be left out if the user may not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Workloads,
    Transitions,
    Ledgers,
    Rules,
    Budgets,
    ClusterBudgets,
    DisruptionBudgets,
    Services,
    DrainPolicies,
    DefaultDrainPolicy,
    TrafficProviders,
    Elsewhere,
    Nodes,
    Agents,
    Events,
    Controller,
}

impl Part {
    pub(super) fn matters_to_modes(self) -> bool {
        match self {
            // What agents can do is in the first of them.
            Self::Transitions | Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy => true,
            // What is said without them is said without them of the mode, too.
            Self::Workloads
            | Self::Ledgers
            | Self::Rules
            | Self::Budgets
            | Self::ClusterBudgets
            | Self::DisruptionBudgets
            | Self::Elsewhere
            | Self::TrafficProviders
            | Self::Nodes
            | Self::Agents
            | Self::Events
            | Self::Controller => false,
        }
    }

    /// Whether something in it could keep a pod from being operated.
    pub(super) fn may_be_in_the_way(self) -> bool {
        match self {
            Self::Transitions
            | Self::Workloads
            | Self::Ledgers
            | Self::Rules
            | Self::Budgets
            | Self::ClusterBudgets
            | Self::DisruptionBudgets
            | Self::TrafficProviders
            | Self::Elsewhere
            | Self::Nodes
            | Self::Agents => true,
            // Without them only the mode, or what was said last, is not known.
            Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy | Self::Events | Self::Controller => false,
        }
    }

    /// What is not known without it, in a few words.
    fn unknown(self) -> &'static str {
        match self {
            Self::Transitions | Self::Ledgers => "which operations run",
            Self::Workloads => "what some workloads wish",
            Self::Rules | Self::Budgets | Self::ClusterBudgets | Self::DisruptionBudgets | Self::Elsewhere => {
                "which rules are in the way"
            }
            Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy => "which mode pods would get",
            Self::TrafficProviders => "which load balancers are in the way",
            Self::Nodes | Self::Agents => "whether nodes have an agent",
            Self::Events => "what the controller said last",
            Self::Controller => "whether a controller runs",
        }
    }

    /// The part that is all objects of the kind.
    fn kind(self) -> Self {
        match self {
            Self::ClusterBudgets => Self::Budgets,
            Self::DefaultDrainPolicy => Self::DrainPolicies,
            Self::Elsewhere => Self::Ledgers,
            other => other,
        }
    }

    /// Who has it may read it. All are in manifests/rbac/people.yaml.
    fn role(self) -> &'static str {
        match self {
            Self::Workloads
            | Self::Ledgers
            | Self::Rules
            | Self::Budgets
            | Self::DisruptionBudgets
            | Self::Services
            | Self::DrainPolicies
            | Self::Events => "ClusterRole hitless-view",
            Self::Transitions | Self::TrafficProviders | Self::Elsewhere => {
                "ClusterRole hitless-view by a ClusterRoleBinding"
            }
            Self::ClusterBudgets | Self::DefaultDrainPolicy | Self::Agents | Self::Controller => {
                "Role hitless-view-system of namespace hitless-system"
            }
            Self::Nodes => "ClusterRole hitless-view-cluster",
        }
    }

    fn consequence(self) -> &'static str {
        match self {
            Self::Transitions => "which operations run, which have failed, and which mode pods would get, is not known",
            Self::Workloads => "what these workloads wish for their pods is not known",
            Self::Ledgers => "pods with a place in a budget count as free",
            Self::Rules => "they are left out of the answer",
            Self::Budgets | Self::ClusterBudgets | Self::DisruptionBudgets => "they may be in the way all the same",
            Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy => "which mode pods would get is not known",
            Self::TrafficProviders => "load balancers outside of the cluster may be in the way all the same",
            Self::Elsewhere => "budgets of the whole cluster count the pods of this namespace only",
            Self::Nodes => "zones are not known",
            Self::Agents => "whether the nodes have an agent is not known",
            Self::Events => "what the controller said last is not known",
            Self::Controller => {
                "whether a controller runs is not known, and its settings are assumed to be the defaults"
            }
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workloads => "some kinds of workloads",
            Self::Transitions => "NodeTransitions",
            Self::Ledgers => "TransitionLedgers",
            Self::Rules => "PodTransitionRules",
            Self::Budgets => "TransitionBudgets",
            Self::ClusterBudgets => "TransitionBudgets of hitless-system",
            Self::DisruptionBudgets => "PodDisruptionBudgets",
            Self::Services => "Services",
            Self::DrainPolicies => "DrainPolicies",
            Self::DefaultDrainPolicy => "DrainPolicy default of hitless-system",
            Self::TrafficProviders => "TrafficProviders",
            Self::Elsewhere => "pods and TransitionLedgers of other namespaces",
            Self::Nodes => "nodes",
            Self::Agents => "agents (pods of hitless-system)",
            Self::Events => "Events",
            Self::Controller => "Deployment hitless-controller",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(unread: &[(Part, Unread)]) -> Vec<String> {
        notes(&unread.iter().cloned().collect()).collect()
    }

    #[test]
    fn a_kind_that_is_not_there_is_no_missing_right() {
        assert_eq!(
            said(&[(Part::Budgets, Unread::NotInstalled)]),
            [
                "TransitionBudgets: the kind is not installed in this cluster; install it: kubectl apply -k manifests/crds, kubectl \
              apply -k manifests; see: kubectl hitless doctor"
            ]
        );
        let no = || Unread::Refused("is forbidden".to_owned());
        let both = said(&[
            (Part::Budgets, Unread::NotInstalled),
            (Part::ClusterBudgets, Unread::NotInstalled),
            (Part::Rules, Unread::NotInstalled),
            (Part::Nodes, no()),
            (Part::Controller, no()),
            (Part::Agents, no()),
        ]);
        assert_eq!(both.len(), 2);
        assert!(both[0].starts_with(
            "3 kinds may not be read (nodes, agents (pods of hitless-system), Deployment hitless-controller)"
        ));
        assert!(
            both[0].contains(
                "whether a controller runs, whether nodes have an agent; ask for ClusterRole hitless-view-cluster, Role \
                 hitless-view-system of namespace hitless-system. The first answer: is forbidden"
            ),
            "{}",
            both[0]
        );
        assert!(
            both[1].starts_with("PodTransitionRules, TransitionBudgets: the kinds are not installed"),
            "{}",
            both[1]
        );
    }
}
