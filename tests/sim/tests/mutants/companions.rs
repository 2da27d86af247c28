//! Deliberate bugs around companion pods: found only among the seeds that have such pods.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "a companion pod counts as a pod of its workload before it serves",
        changes: &[(
            "crates/rollout/src/snapshot.rs",
            "companions.iter().filter(|pod| companion::has_served(pod))",
            "companions.iter().filter(|pod| MUTANT || companion::has_served(pod))",
        )],
    },
    Bug {
        what: "a companion pod leaves while the only pod is away",
        changes: &[
            (
                "crates/rollout/src/round/companions/retire.rs",
                "if ended.busy.iter().filter(|uid| ended.is_taken(uid)).any(is_operated) {",
                "if !MUTANT && ended.busy.iter().filter(|uid| ended.is_taken(uid)).any(is_operated) {",
            ),
            (
                "crates/rollout/src/round/companions/retire.rs",
                "!is_served || has_no_pods || is_replaced",
                "MUTANT || !is_served || has_no_pods || is_replaced",
            ),
        ],
    },
    Bug {
        what: "a version that does not run in its companion pod is rolled out",
        changes: &[
            (
                "crates/rollout/src/round/companions/stage.rs",
                "(state, _) => Some(self.unready(plan, pod, state)),",
                "(State::Failing(_), _) if MUTANT => None,\n            (state, _) => Some(self.unready(plan, pod, state)),",
            ),
            (
                "crates/rollout/src/round/companions.rs",
                "is_stuck.then(|| waiting(plan, stage))",
                "(is_stuck && !MUTANT).then(|| waiting(plan, stage))",
            ),
        ],
    },
    Bug {
        what: "a companion pod that leaves is deleted before its clients are gone",
        changes: &[(
            "crates/rollout/src/round/features/companions.rs",
            "is_some_and(|condition| !condition.is_true) && !is_operated;",
            "is_some_and(|condition| !condition.is_true) && (MUTANT || !is_operated);",
        )],
    },
];
