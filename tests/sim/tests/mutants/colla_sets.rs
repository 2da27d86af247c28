//! Deliberate bugs around CollaSets: found only among the seeds that have some.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "a pod of a CollaSet is deleted while it serves",
        changes: &[(
            "crates/workloads/src/kinds/colla_set/plan.rs",
            "if serves && !self.world.left.contains(uid) {",
            "if serves && !MUTANT && !self.world.left.contains(uid) {",
        )],
    },
    Bug {
        what: "a pod that is operated counts as one that does not serve",
        changes: &[(
            "crates/workloads/src/kinds/colla_set/plan.rs",
            "pod.available() || self.world.operating.contains(uid)",
            "pod.available() || !MUTANT && self.world.operating.contains(uid)",
        )],
    },
    Bug {
        what: "pods of a CollaSet are made whatever its ResourceContext says",
        changes: &[(
            "crates/workloads/src/kinds/colla_set/plan.rs",
            "Write { needs: needs.clone(), ..write }",
            "Write { needs: if MUTANT { Vec::new() } else { needs.clone() }, ..write }",
        )],
    },
    Bug {
        what: "an id that is taken is given to another pod",
        changes: &[(
            "crates/workloads/src/kinds/colla_set/roster.rs",
            "(0..i32::MAX).find(|id| !is_taken(id))",
            "(0..i32::MAX).find(|id| MUTANT || !is_taken(id))",
        )],
    },
    Bug {
        what: "one pod more than the partition says keeps its version",
        changes: &[(
            "crates/workloads/src/kinds/colla_set/update.rs",
            "self.set.body.replicas.saturating_sub(kept)",
            "self.set.body.replicas.saturating_sub(if MUTANT { kept + 1 } else { kept })",
        )],
    },
];
