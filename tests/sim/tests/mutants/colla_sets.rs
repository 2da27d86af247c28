//! Deliberate bugs around CollaSets: found only among the seeds that have some.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "a pod of a CollaSet is deleted while it serves",
        changes: &[(
            "crates/workloads/src/removal.rs",
            "    pod.available() || is_returning(pod) ||",
            "    !MUTANT && pod.available() || is_returning(pod) ||",
        )],
    },
    Bug {
        // Either of them alone is caught by the other: no removal of a pod that is operated is reserved.
        what: "a pod that is operated counts as one that does not serve, and is deleted though no removal is reserved",
        changes: &[
            (
                "crates/workloads/src/removal.rs",
                "is_returning(pod) || is_leaving(pod) || is_operated()",
                "is_returning(pod) || !MUTANT && (is_leaving(pod) || is_operated())",
            ),
            (
                "crates/workloads/src/removal.rs",
                "(is_reserved && !serves(pod, world) && !pod.is_protected())",
                "((MUTANT || is_reserved) && !serves(pod, world) && !pod.is_protected())",
            ),
        ],
    },
    Bug {
        what: "pods of a CollaSet are made whatever its ResourceContext says",
        changes: &[(
            "crates/workloads/src/pod_set/writes.rs",
            "let needed: Vec<String> = first.iter().map(Write::key).collect();",
            "let needed: Vec<String> = first.iter().filter(|_| !MUTANT).map(Write::key).collect();",
        )],
    },
    Bug {
        what: "an operation is taken back because other pods of its CollaSet can't follow",
        changes: &[(
            "crates/workloads/src/kinds/colla_set/plan.rs",
            "Some(because) if desired.is_empty() && !is_operating => {",
            "Some(because) if desired.is_empty() && (MUTANT || !is_operating) => {",
        )],
    },
    Bug {
        what: "an id that is taken is given to another pod",
        changes: &[(
            "crates/workloads/src/pod_set/instances.rs",
            "(self.lowest..i32::MAX).find(|id| !is_taken(id))",
            "(self.lowest..i32::MAX).find(|id| MUTANT || !is_taken(id))",
        )],
    },
    Bug {
        what: "one pod more than the partition says keeps its version",
        changes: &[(
            "crates/workloads/src/pod_set/facts.rs",
            "self.spec.replicas.saturating_sub(kept)",
            "self.spec.replicas.saturating_sub(if MUTANT { kept + 1 } else { kept })",
        )],
    },
];
