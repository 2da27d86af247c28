//! Bugs of Holds, and of the Services that are opened for them.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "a Service that was opened for a Hold is never closed",
        changes: &[(
            "crates/rollout/src/round/features/service_publishing.rs",
            "effects.changes.push(Change::Write(service::close(service).once(ended)));",
            "if !MUTANT { effects.changes.push(Change::Write(service::close(service).once(ended))); }",
        )],
    },
    Bug {
        what: "a Hold is granted without waiting until its Services are seen open",
        changes: &[(
            "crates/rollout/src/round/grants/beginning.rs",
            "self.opening.then(|| WaitReason::ServicePublishing(names()))",
            "(self.opening && !MUTANT).then(|| WaitReason::ServicePublishing(names()))",
        )],
    },
    Bug {
        what: "a Service is closed although its pod is held",
        changes: &[
            (
                "crates/rollout/src/round/features/service_publishing.rs",
                "changes.push(Change::Hold { operation: grant.id.clone(), services });",
                "if !MUTANT { changes.push(Change::Hold { operation: grant.id.clone(), services }); }",
            ),
            // What keeps it open where the grant is not seen.
            (
                "crates/rollout/src/round/features/service_publishing.rs",
                "|| may_be_live(service, id, desired, snapshot)",
                "|| !MUTANT && may_be_live(service, id, desired, snapshot)",
            ),
        ],
    },
    Bug {
        what: "a pod is replaced in a Hold before its clients are held",
        changes: &[(
            "agent/src/decide/hold.rs",
            "Some(Stage::Prepared(0)) => leave::operate(operation),",
            "Some(Stage::Prepared(ports)) if *ports == 0 || MUTANT => leave::operate(operation),",
        )],
    },
    Bug {
        what: "clients are held under a grant that has expired",
        changes: &[
            (
                "agent/src/decide/validate.rs",
                "} else if now > expiry(grant) {",
                "} else if now > expiry(grant) && !MUTANT {",
            ),
            (
                "agent/src/decide/hold.rs",
                "    let expiry = operation.expiry();\n    if operation.now > expiry {",
                "    let expiry = operation.expiry();\n    if operation.now > expiry && !MUTANT {",
            ),
        ],
    },
    Bug {
        what: "a held pod leaves service on the way back",
        changes: &[(
            "agent/src/decide/rollback.rs",
            "    if operation.is_hold() {\n        return",
            "    if operation.is_hold() && !MUTANT {\n        return",
        )],
    },
];
