//! In front of every route but the kubelet's probes: who asks, how often, and without a body.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::{Duration, Instant, timeout};

use super::Route;
use super::identity::Peer;
use super::limits::{Client, Limits, Place, Source};
use super::refusal::Refusal;
use super::state::AppState;
use super::task::LONGEST_BODY;

/// A body comes in one piece, or its sender is slow on purpose.
const BODY: Duration = Duration::from_secs(5);

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub(super) struct ConnInfo {
    /// The other end.
    pub peer: Peer,
    /// Beyond what its source may have: for probes only.
    pub is_reserve: bool,
    /// What it takes: of the node's until it is known what it wants, then of that kind's.
    pub place: Arc<Mutex<Place>>,
}

impl ConnInfo {
    /// Takes a place of `source` instead; says whether there was one.
    fn is_moved(&self, source: &Source, limits: &Limits) -> bool {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.of() == source || !matches!(source, Source::Node(_)) {
            return true;
        }
        limits.connections.take(source).map(|moved| *place = moved).is_some()
    }
}

/// Lets a request in, or refuses it; tells the routes who asks.
pub(super) async fn guard(
    State(state): State<AppState>,
    Extension(info): Extension<ConnInfo>,
    mut request: Request,
    next: Next,
) -> Response {
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let refused = |reason, refusal: Refusal| {
        state.refusals.count(reason);
        refusal.into_response()
    };
    if info.is_reserve {
        return refused("connections", Refusal::too_many("too many connections are open already; close some", 1));
    }
    let caller = state.caller(&info.peer);
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let client = Client::of(agent);
    let source = caller.source(client);
    if !info.is_moved(&source, &state.limits) {
        let words = "too many connections of this kind are open already; close some";
        return refused("connections", Refusal::too_many(words, 1));
    }
    if let Err(wait) = state.limits.requests.ask(&source, Instant::now()) {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        return refused("rate", Refusal::too_many("too many requests; ask less often, or wait for news", seconds));
    }
    let has_body = !request.body().is_end_stream();
    if has_body && request.uri().path() == Route::OwnTask.path() {
        request = match whole(request).await {
            Ok(request) => request,
            Err(refusal) => return refused("body", refusal),
        };
    } else if has_body {
        let refusal = Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "this request has no body; send none");
        let mut response = refused("body", refusal);
        // Nobody reads what is still to come.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(client);
    next.run(request).await
}

/// The request with all of its body.
async fn whole(request: Request) -> Result<Request, Refusal> {
    let (head, body) = request.into_parts();
    let refusal = |error: String| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error);
    match timeout(BODY, to_bytes(body, LONGEST_BODY)).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, Body::from(body))),
        Ok(Err(error)) => Err(refusal(format!("a body has at most {LONGEST_BODY} bytes: {error}"))),
        Err(_) => Err(refusal(format!("the body did not come within {} s; send it with the request", BODY.as_secs()))),
    }
}
