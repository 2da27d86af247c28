//! Connections that have outstayed their time.

use hitless_kernel::{Connection, DestroyOutcome, KernelError, PodNetns};

/// So many of their clients are listed in the log.
const MOST_LISTED: usize = 16;

/// Resets these connections, and says how many were still there. Their clients are listed in the log.
pub(super) fn destroy(netns: &PodNetns, pod_uid: &str, connections: &[Connection]) -> Result<u32, KernelError> {
    if connections.is_empty() {
        return Ok(0);
    }
    let endings = netns.destroy(connections)?;
    let destroyed: Vec<&Connection> = connections
        .iter()
        .zip(endings)
        .filter(|(_, outcome)| *outcome == DestroyOutcome::Destroyed)
        .map(|(each, _)| each)
        .collect();
    let line = |connection: &&Connection| {
        let unused =
            connection.unused_for().map_or_else(String::new, |unused| format!(" (unused {} ms)", unused.as_millis()));
        format!("{} → {}{unused}", connection.peer, connection.local.port())
    };
    let clients: Vec<String> = destroyed.iter().take(MOST_LISTED).map(line).collect();
    tracing::warn!(pod_uid, number = destroyed.len(), clients = clients.join(", "), "connections were reset");
    Ok(u32::try_from(destroyed.len()).unwrap_or(u32::MAX))
}
