//! Deliberate bugs around servers that start late and stop slowly, and around helper pods that are refused.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "a start has half a minute, whatever its owner and its probes allow",
        changes: &[(
            "crates/rollout/src/mode/start.rs",
            "    match progress_deadline {",
            "    if MUTANT {\n        return 30;\n    }\n    match progress_deadline {",
        )],
    },
    Bug {
        what: "the first crash of a start is held against the version",
        changes: &[(
            "agent/src/decide/verify.rs",
            "Some(trouble) if trouble.repeats && !is_late",
            "Some(trouble) if !MUTANT && trouble.repeats && !is_late",
        )],
    },
    Bug {
        what: "a pod whose helper pods are turned away waits for ever",
        changes: &[("crates/rollout/src/round/facts/images/unfetched.rs", "if !is_own {", "if MUTANT || !is_own {")],
    },
];
