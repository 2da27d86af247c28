//! Who may write (CONTRACT 11).

use hitless_gate::take_over;

use super::write::{LedgerWrite, Step, Write};
use crate::snapshot::Snapshot;

pub(super) enum Fence {
    /// A leader of this later epoch has written.
    Deposed(i64),
    /// Ledgers of an earlier leader: our epoch is written into them before anything else is decided, so that writes that it
    /// prepared fail.
    TakeOver(Vec<Step>),
    /// All ledgers are ours.
    Held,
}

pub(super) fn check(snapshot: &Snapshot) -> Fence {
    let ledgers = snapshot.ledgers.values().map(|ledger| ledger.spec.leader.epoch);
    let nodes = snapshot.node_transitions.values().map(|node| node.spec.epoch);
    if let Some(later) = ledgers.chain(nodes).max().filter(|epoch| *epoch > snapshot.epoch) {
        return Fence::Deposed(later);
    }
    let steps: Vec<Step> = snapshot
        .ledgers
        .values()
        .filter_map(|ledger| {
            let spec = take_over(&ledger.spec, snapshot.epoch, &snapshot.holder)?;
            let (namespace, version) = (ledger.namespace.clone(), Some(ledger.version.clone()));
            Some(Step::alone(Write::Ledger(LedgerWrite { namespace, version, spec })))
        })
        .collect();
    if steps.is_empty() { Fence::Held } else { Fence::TakeOver(steps) }
}
