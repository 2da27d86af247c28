//! Deliberate bugs around load balancers outside of the cluster: found only among the seeds that have one.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "a pod is operated while its load balancer sends it clients",
        changes: &[(
            "agent/src/decide/leave.rs",
            "if outside.is_empty() && connections.is_empty() {",
            "if (MUTANT || outside.is_empty()) && connections.is_empty() {",
        )],
    },
    Bug {
        what: "a server that drains counts as out while it has sessions",
        changes: &[(
            "crates/rollout/src/round/pools.rs",
            "let is_out = matches!(backend.state, BackendState::Out | BackendState::NotRegistered);",
            "let is_out = matches!(backend.state, BackendState::Out | BackendState::NotRegistered)\n                    || (MUTANT && matches!(backend.state, BackendState::Draining { .. }));",
        )],
    },
    Bug {
        what: "a server that leaves is made ready again",
        changes: &[
            (
                "crates/rollout/src/round/features/pools.rs",
                "} else if is_leaving(pod, key, address, writes) {",
                "} else if !MUTANT && is_leaving(pod, key, address, writes) {",
            ),
            (
                "crates/rollout/src/round/features/pools.rs",
                "} else if !serves(pod) {",
                "} else if !MUTANT && !serves(pod) {",
            ),
            (
                "crates/rollout/src/round/pools.rs",
                "has_left && is_out && matches!(backend.told, Some(Stand::Out | Stand::Gone))",
                "has_left && (MUTANT || is_out && matches!(backend.told, Some(Stand::Out | Stand::Gone)))",
            ),
        ],
    },
];
