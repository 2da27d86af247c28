//! In front of every route but the kubelet's probes: who asks, how often, and without a body.

use axum::Extension;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::desk::Desk;
use super::identity::Peer;
use super::refusal::Refusal;

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The other end.
    pub peer: Peer,
    /// Beyond what its source may have: for probes only.
    pub is_reserve: bool,
}

/// Lets a request in, or refuses it; tells the routes who asks.
pub(super) async fn guard(
    State(desk): State<Desk>,
    Extension(link): Extension<Link>,
    mut request: Request,
    next: Next,
) -> Response {
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let refused = |reason, refusal: Refusal| {
        desk.refusals.count(reason);
        refusal.into_response()
    };
    if link.is_reserve {
        return refused("connections", Refusal::too_many("too many connections are open already; close some", 1));
    }
    let caller = desk.caller(&link.peer);
    if let Err(wait) = desk.limits.requests.ask(&caller.source(), Instant::now()) {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        return refused("rate", Refusal::too_many("too many requests; ask less often, or wait for news", seconds));
    }
    if !request.body().is_end_stream() {
        let refusal = Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "no request here has a body; send none");
        let mut response = refused("body", refusal);
        // Nobody reads what is still to come.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}
