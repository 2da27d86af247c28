//! Deliberate bugs around what is deleted: CollaSets in the foreground, and pods that serve nobody.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "claims that are to outlive their CollaSet have an owner",
        changes: &[(
            "crates/workloads/src/pod_set/claims.rs",
            "        self.spec.keeps_claims.when_deleted\n    }",
            "        !MUTANT && self.spec.keeps_claims.when_deleted\n    }",
        )],
    },
    Bug {
        what: "claims of an id that is given up go though they are kept",
        changes: &[(
            "crates/workloads/src/pod_set/departures.rs",
            "if facts.spec.keeps_claims.when_scaled {",
            "if !MUTANT && facts.spec.keeps_claims.when_scaled {",
        )],
    },
    Bug {
        what: "a pod that serves nobody is deleted without asking the rules",
        changes: &[(
            "crates/workloads/src/removal.rs",
            "let is_reserved = world.removable.contains(&pod.id.uid);",
            "let is_reserved = MUTANT || world.removable.contains(&pod.id.uid);",
        )],
    },
];
