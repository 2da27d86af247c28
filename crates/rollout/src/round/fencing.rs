//! Who may write (docs/contract.md#fencing).

use hitless_gate::take_over;

use crate::round::change::Change;
use crate::round::write;
use crate::snapshot::Snapshot;

pub(crate) enum Fence<'a> {
    /// A leader of this later epoch has written.
    Deposed(i64),
    /// Ledgers of an earlier leader: our epoch is written into them before anything else is decided, so that writes that it
    /// prepared fail.
    TakeOver(Vec<Change<'a>>),
    /// All ledgers are ours.
    Ours,
}

pub(crate) fn check(snapshot: &Snapshot) -> Fence<'_> {
    let ledgers = snapshot.ledgers.values().map(|ledger| ledger.spec.leader.epoch);
    let nodes = snapshot.node_transitions.values().map(|node| node.spec.epoch);
    if let Some(later) = ledgers.chain(nodes).max().filter(|epoch| *epoch > snapshot.epoch) {
        return Fence::Deposed(later);
    }
    let changes: Vec<Change<'_>> = snapshot
        .ledgers
        .values()
        .filter_map(|ledger| {
            let spec = take_over(&ledger.spec, snapshot.epoch, &snapshot.holder)?;
            Some(Change::TakeOver(write::ledger(&ledger.namespace, Some(&ledger.version), spec)))
        })
        .collect();
    if changes.is_empty() { Fence::Ours } else { Fence::TakeOver(changes) }
}
