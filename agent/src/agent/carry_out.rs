//! The requests of a round: several at a time, and no longer than the loop may be away.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hitless_runtime::liveness::Heartbeat;
use tokio::time::Instant;

/// Requests about pods at a time.
const AT_ONCE: usize = 16;
/// Nothing more is begun in a round after so long: while the API server is slow, the next round sees who needs it most by then. What
/// is under way is finished, and each request has a time limit.
const ROUND: Duration = Duration::from_secs(2);

/// Carries these out in their order, from `begun` on, and shows by the heartbeat that they end. Says whether all were begun.
pub(super) async fn carry_out(mut waiting: VecDeque<BoxFuture<'_, ()>>, begun: Instant, heartbeat: &Heartbeat) -> bool {
    let mut under_way = FuturesUnordered::new();
    loop {
        while under_way.len() < AT_ONCE && begun.elapsed() < ROUND {
            let Some(action) = waiting.pop_front() else { break };
            under_way.push(action);
        }
        if under_way.next().await.is_none() {
            return waiting.is_empty();
        }
        heartbeat.beat(Instant::now());
    }
}
