//! What could not be read, and what that means. Words for what rounds look at are in its row ([`hitless_store::inputs::rows`]).

use std::collections::{BTreeMap, BTreeSet};

use hitless_store::inputs::part::{VIEW, VIEW_EVERYWHERE, VIEW_SYSTEM};
use hitless_store::inputs::rows::Ledgers;
use hitless_store::inputs::{Input as _, Part, Question};

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
        return Some(format!("{first} not read: {message}; {}", first.consequence));
    }
    let names: Vec<String> = refused.iter().map(|(part, _)| part.to_string()).collect();
    let unknown: BTreeSet<&str> = refused.iter().map(|(part, _)| part.unknown()).collect();
    let roles: BTreeSet<&str> = refused.iter().map(|(part, _)| part.role).collect();
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
    let names: BTreeSet<&str> = absent.iter().map(|part| part.kind).collect();
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

/// Kinds of workloads that not everybody may read.
pub(crate) const WORKLOADS: Part = Part::new(
    0,
    "some kinds of workloads",
    VIEW,
    Question::Workloads,
    "what these workloads wish for their pods is not known",
);

/// Whose pods a budget of the whole cluster counts.
pub(crate) const ELSEWHERE: Part = Part {
    kind: Ledgers::NAME,
    ..Part::new(
        110,
        "pods and TransitionLedgers of other namespaces",
        VIEW_EVERYWHERE,
        Question::Rules,
        "budgets of the whole cluster count the pods of this namespace only",
    )
};

pub(crate) const AGENTS: Part = Part::new(
    130,
    "agents (hitless's own pods)",
    VIEW_SYSTEM,
    Question::Agents,
    "whether the nodes have an agent is not known",
);

pub(crate) const EVENTS: Part =
    Part::new(140, "Events", VIEW, Question::Events, "what the controller said last is not known");

pub(crate) const CONTROLLER: Part = Part::new(
    150,
    "Deployment hitless-controller",
    VIEW_SYSTEM,
    Question::Controller,
    "whether a controller runs is not known, and its settings are assumed to be the defaults",
);

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_store::inputs::rows::{Budgets, Nodes, Rules};

    fn said(unread: &[(Part, Unread)]) -> Vec<String> {
        notes(&unread.iter().cloned().collect()).collect()
    }

    #[test]
    fn a_kind_that_is_not_there_is_no_missing_right() {
        assert_eq!(
            said(&[(Budgets::PART.unwrap(), Unread::NotInstalled)]),
            [
                "TransitionBudgets: the kind is not installed in this cluster; install it: kubectl apply -k manifests/crds, kubectl \
              apply -k manifests; see: kubectl hitless doctor"
            ]
        );
        let no = || Unread::Refused("is forbidden".to_owned());
        let both = said(&[
            (Budgets::PART.unwrap(), Unread::NotInstalled),
            (Budgets::SYSTEM.unwrap().part, Unread::NotInstalled),
            (Rules::PART.unwrap(), Unread::NotInstalled),
            (Nodes::PART.unwrap(), no()),
            (CONTROLLER, no()),
            (AGENTS, no()),
        ]);
        assert_eq!(both.len(), 2);
        assert!(both[0].starts_with(
            "3 kinds may not be read (nodes, agents (hitless's own pods), Deployment hitless-controller)"
        ));
        assert!(
            both[0].contains(
                "whether a controller runs, whether nodes have an agent; ask for ClusterRole hitless-view-cluster, Role \
                 hitless-view-system of hitless's namespace. The first answer: is forbidden"
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
