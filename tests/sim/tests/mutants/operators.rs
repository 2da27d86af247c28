//! Deliberate bugs around operators that know PodOpsLifecycle: found only among the seeds that have such operators.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "an operator is allowed to operate before the pod has left",
        changes: &[(
            "crates/workloads/src/lifecycle.rs",
            "self.known.is_drained(self.pod) && is_out",
            "(MUTANT || self.known.is_drained(self.pod)) && is_out",
        )],
    },
    Bug {
        what: "a pod is put back while somebody works on it",
        changes: &[
            (
                "agent/src/decide/foreign.rs",
                "if !operators.is_empty() {\n            return operated",
                "if !MUTANT && !operators.is_empty() {\n            return operated",
            ),
            (
                "agent/src/decide/foreign.rs",
                "return if foreign.has_permission(pod) {",
                "return if !MUTANT && foreign.has_permission(pod) {",
            ),
        ],
    },
    Bug {
        what: "the place of a pod that others operate is given back",
        changes: &[(
            "crates/rollout/src/round/facts/endings.rs",
            "    ended.busy.insert(&grant.pod.uid);\n    let Some(pod) = desired.pods",
            "    if MUTANT && grant.op == GrantOp::Foreign {\n        changes.push(granted.release());\n    }\n    \
             ended.busy.insert(&grant.pod.uid);\n    let Some(pod) = desired.pods",
        )],
    },
];
