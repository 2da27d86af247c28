//! The node's endpoint: how the draining of its pods stands, over TCP and on a unix socket. `docs/endpoint.md` tells how it is
//! used, and who sees what.
//!
//! A request passes [`serve`] (connections), [`guard`] (who asks, how often) and one of the handlers: [`wait`],
//! [`selected`], [`events`], [`node`], [`lb`], [`openapi`]. They read what the agent's last round has [published](crate::published), and have the agent look at
//! pods that somebody waits for ([waiters](crate::waiters)). Nothing here writes anything anywhere; what a pod says of itself ([`task`]) is kept in memory.

pub mod answer;
pub mod count_guard;
mod events;
mod guard;
pub mod identity;
pub mod inside;
mod lb;
pub mod limits;
pub mod node;
pub mod openapi;
mod progress;
pub mod refusal;
pub mod selected;
pub mod serve;
pub mod socket;
mod state;
pub mod task;
pub mod untrusted;
mod wait;
pub mod wait_slots;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get};
use hitless_runtime::http::Health;

pub use state::{AppState, Parts, PodSource};

use refusal::Refusal;

/// The routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// This endpoint's description.
    OpenApi,
    /// The node at a glance.
    Node,
    /// How the draining of a pod stands.
    Drain,
    /// Of several pods.
    Selected,
    /// The same at each change.
    Events,
    /// Of the pod that asks.
    OwnDrain,
    /// Of the pod that asks, at each change.
    OwnEvents,
    /// What the pod that asks says of itself.
    OwnTask,
    /// For load balancers.
    Lb,
    /// For the kubelet.
    Healthz,
    /// For the kubelet.
    Readyz,
    /// For Prometheus.
    Metrics,
}

impl Route {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::OpenApi,
        Self::Node,
        Self::Drain,
        Self::Selected,
        Self::Events,
        Self::OwnDrain,
        Self::OwnEvents,
        Self::OwnTask,
        Self::Lb,
        Self::Healthz,
        Self::Readyz,
        Self::Metrics,
    ];

    /// Its path, with parameters in braces.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::OpenApi => "/v1/openapi.json",
            Self::Node => "/v1/node",
            Self::Drain => "/v1/pods/{namespace}/{name}/drain",
            Self::Selected => "/v1/pods/{namespace}/drain",
            Self::Events => "/v1/pods/{namespace}/{name}/drain/events",
            Self::OwnDrain => "/v1/self/drain",
            Self::OwnEvents => "/v1/self/drain/events",
            Self::OwnTask => "/v1/self/task",
            Self::Lb => "/lb/{namespace}/{name}",
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
            Self::Metrics => "/metrics",
        }
    }

    /// Who answers; `None` for what every program of ours has.
    fn handler(self) -> Option<MethodRouter<AppState>> {
        match self {
            Self::OpenApi => Some(get(openapi::openapi)),
            Self::Node => Some(get(node::node)),
            Self::Drain => Some(get(wait::drain)),
            Self::Selected => Some(get(selected::selected)),
            Self::Events => Some(get(events::events)),
            Self::OwnDrain => Some(get(wait::own_drain)),
            Self::OwnEvents => Some(get(events::own_events)),
            Self::OwnTask => Some(get(task::read).put(task::put).delete(task::delete)),
            Self::Lb => Some(get(lb::lb)),
            Self::Healthz | Self::Readyz | Self::Metrics => None,
        }
    }
}

/// All routes.
pub fn router(state: AppState, health: Health) -> Router {
    let routes = Route::ALL.into_iter().filter_map(|route| Some((route.path(), route.handler()?)));
    routes
        .fold(Router::new(), |router, (path, handler)| router.route(path, handler))
        .method_not_allowed_fallback(async || {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this is not answered to that method; see /v1/openapi.json")
        })
        .fallback(async || Refusal::not_found("there is nothing here; see /v1/openapi.json"))
        .with_state(state.clone())
        .merge(hitless_runtime::http::router(health))
        .layer(from_fn_with_state(state, guard::guard))
}
