//! What people are told of something that they may not read.

use std::fmt;

/// Who has it may read something, and all else that it is for. All are in manifests/rbac/people.yaml.
pub type Role = &'static str;

/// In a namespace.
pub const VIEW: Role = "ClusterRole hitless-view";
/// In all namespaces, and what is in none.
pub const VIEW_EVERYWHERE: Role = "ClusterRole hitless-view by a ClusterRoleBinding";
/// In the system namespace.
pub const VIEW_SYSTEM: Role = "Role hitless-view-system of hitless's namespace";
/// Nodes.
pub const VIEW_CLUSTER: Role = "ClusterRole hitless-view-cluster";

/// What can't be answered without a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Which operations run.
    Operations,
    /// What some workloads want.
    Workloads,
    /// Which rules are in the way.
    Rules,
    /// Leave or Hold.
    Modes,
    /// Which load balancers outside of the cluster are in the way.
    LoadBalancers,
    /// Whether nodes have an agent.
    Agents,
    /// What the controller has told.
    Events,
    /// Whether a controller runs.
    Controller,
}

/// Something that is read and can be done without, in words for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Parts are named in the order of their places.
    pub place: u8,
    /// Its name.
    pub name: &'static str,
    /// The name of all objects of the kind.
    pub kind: &'static str,
    /// Who has it may read the part.
    pub role: Role,
    /// What can't be answered without it.
    pub question: Question,
    /// What is not known without it, or wrong, a clause.
    pub consequence: &'static str,
    /// Whether Leave or Hold is not known without it.
    pub tells_modes: bool,
}

impl Part {
    /// All objects of a kind, or of what `name` is.
    #[must_use]
    pub const fn new(place: u8, name: &'static str, role: Role, question: Question, consequence: &'static str) -> Self {
        let tells_modes = matches!(question, Question::Modes);
        Self { place, name, kind: name, role, question, consequence, tells_modes }
    }

    /// What is not known without it, in a few words.
    #[must_use]
    pub const fn unknown(self) -> &'static str {
        match self.question {
            Question::Operations => "which operations run",
            Question::Workloads => "what some workloads wish",
            Question::Rules => "which rules are in the way",
            Question::Modes => "which mode pods would get",
            Question::LoadBalancers => "which load balancers are in the way",
            Question::Agents => "whether nodes have an agent",
            Question::Events => "what the controller said last",
            Question::Controller => "whether a controller runs",
        }
    }

    /// Whether something in it could keep a pod from being operated.
    #[must_use]
    pub const fn may_be_in_the_way(self) -> bool {
        match self.question {
            Question::Operations
            | Question::Workloads
            | Question::Rules
            | Question::LoadBalancers
            | Question::Agents => true,
            // Without them only the mode, or what was said last, is not known.
            Question::Modes | Question::Events | Question::Controller => false,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
