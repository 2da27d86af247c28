//! Who may write (CONTRACT 11).

use hitless_gate::{refuse_if_deposed, take_over};

use super::write::{LedgerWrite, Step, Write};
use crate::snapshot::Snapshot;

pub(super) enum Fence {
    /// A leader of a later epoch has written.
    Deposed,
    /// Ledgers of an earlier leader: our epoch is written into them before anything else is decided, so that writes that it
    /// prepared fail.
    TakeOver(Vec<Step>),
    /// All ledgers are ours.
    Held,
}

pub(super) fn check(snapshot: &Snapshot) -> Fence {
    let later_ledger = snapshot.ledgers.values().any(|ledger| refuse_if_deposed(&ledger.spec, snapshot.epoch).is_err());
    let later_node = snapshot.node_transitions.values().any(|node| node.spec.epoch > snapshot.epoch);
    if later_ledger || later_node {
        return Fence::Deposed;
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
