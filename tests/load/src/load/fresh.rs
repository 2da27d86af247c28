//! Requests on connections of their own: every one starts when it is due, however many still wait.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::{CLOSE_WAIT, Plan};
use crate::connection::Connection;
use crate::recorder::{Answerer, ConnectionEvent, FirstFailure, Outcome};
use crate::{ConnectionClass, FailureKind};

const CLASS: ConnectionClass = ConnectionClass::Fresh;

pub(super) async fn run(plan: Arc<Plan>) {
    let mut schedule = plan.schedule(plan.config.fresh_per_second);
    let mut requests = JoinSet::new();
    let mut index = 0;
    while let Some(due) = schedule.next().await {
        plan.recorder.due(CLASS);
        requests.spawn(request(Arc::clone(&plan), index, due));
        index += 1;
        while requests.try_join_next().is_some() {}
    }
    while requests.join_next().await.is_some() {}
}

/// One connection, one request, no retry: HTTP/1.1 clients do not repeat what failed on a connection that never
/// worked.
async fn request(plan: Arc<Plan>, index: usize, due: Instant) {
    let mut connection = None;
    let attempt = timeout_at(plan.deadline(due), attempt(&plan, index, &mut connection)).await;
    let result = attempt.unwrap_or(Err(FailureKind::Timeout));
    let first_failure = result.as_ref().err().map(|kind| FirstFailure { kind: *kind, seen: Instant::now(), pod: None });
    let answered = result.is_ok();
    plan.recorder.ended(Outcome { class: CLASS, due, first_failure, result });
    // The request said `Connection: close`, so the server closes first and TIME_WAIT is its: the client does not run
    // out of ports. A server that does not close is left after a moment.
    if let Some(connection) = connection.filter(|_| answered) {
        let _closed_or_given_up = timeout(CLOSE_WAIT, connection.idle_end()).await;
    }
}

async fn attempt(plan: &Plan, index: usize, slot: &mut Option<Connection>) -> Result<Answerer, FailureKind> {
    let target = plan.target(index).ok_or(FailureKind::Local)?;
    let connection = Connection::open(target.address).await.map_err(|error| FailureKind::from(&error))?;
    plan.recorder.connection(CLASS, ConnectionEvent::Opened);
    let answer = slot.insert(connection).exchange(&target.fresh_request).await.map_err(|failed| failed.kind)?;
    Ok(answer.answerer)
}
