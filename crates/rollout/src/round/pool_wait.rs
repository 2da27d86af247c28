//! Why a pod does not leave a pool of a load balancer, in words.

use crate::pools::BackendState;

/// Why a pod does not leave a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolWait {
    /// What the load balancer has is not known.
    Unreadable(String),
    /// No other server would serve.
    Last,
    /// Others have registered its server.
    NotOurs,
    /// Another pod is to serve first.
    Other {
        /// Its name.
        pod: String,
        /// How it is.
        state: BackendState,
    },
    /// Its Service wants a pool and does not get it.
    Invalid(String),
    /// The agent on this node does not know waits.
    Agent(String),
}

impl PoolWait {
    /// The reason in CamelCase.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "TrafficUnreadable",
            Self::Last => "TrafficLast",
            Self::NotOurs => "TrafficNotOurs",
            Self::Other { .. } => "TrafficPending",
            Self::Invalid(_) => "TrafficInvalid",
            Self::Agent(_) => "WaitsUnsupported",
        }
    }

    pub(crate) fn text(&self, name: &str) -> String {
        match self {
            Self::Unreadable(why) => format!("pool {name} can't be relied on: {why}"),
            Self::Last => format!("pool {name} has no other server that serves"),
            Self::NotOurs => {
                format!("others have registered its server in pool {name}, so it can't be taken out there")
            }
            Self::Other { pod, state } => {
                format!("pod {pod} is to serve in pool {name} first, and there {}", state.text())
            }
            Self::Invalid(why) => format!("its Service {name}: {why}"),
            Self::Agent(node) => {
                format!("it is in pool {name}, and the agent on its node {node} does not know waits")
            }
        }
    }

    pub(crate) const fn unblock(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable(_) => {
                Some("what is registered stays, and it goes on by itself when the load balancer answers")
            }
            Self::Last => Some("add a pod, or let it be held instead of leaving (hitless.dev/mode: Auto)"),
            Self::NotOurs => {
                Some("remove that server from the load balancer's configuration; the pod is registered then")
            }
            Self::Other { .. } => None,
            Self::Invalid(_) => Some("correct the annotation hitless.dev/traffic, or remove it"),
            Self::Agent(_) => Some("update the DaemonSet hitless-agent"),
        }
    }

    pub(crate) const fn is_brief(&self) -> bool {
        match self {
            Self::Other { state, .. } => match state {
                BackendState::Changing
                | BackendState::NotRegistered
                | BackendState::Draining { .. }
                | BackendState::Out => true,
                BackendState::Serving | BackendState::Standby | BackendState::Unhealthy => false,
            },
            Self::Unreadable(_) | Self::Last | Self::NotOurs | Self::Invalid(_) | Self::Agent(_) => false,
        }
    }
}
