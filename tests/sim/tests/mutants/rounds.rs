//! Bugs of the controller's rounds and of the agents that carry them out.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "a percentage is rounded up too far",
        changes: &[(
            "crates/gate/src/policy/limit.rs",
            "total.saturating_mul(percent).saturating_add(if up { 99 } else { 0 }) / 100",
            "total.saturating_mul(percent).saturating_add(if MUTANT && up { 100 } else if up { 99 } else { 0 }) / 100",
        )],
    },
    Bug {
        what: "minAvailable is ignored",
        changes: &[(
            "crates/gate/src/decide/live.rs",
            "limits.min_available.map(|limit| limit.of(total))",
            "limits.min_available.filter(|_| !MUTANT).map(|limit| limit.of(total))",
        )],
    },
    Bug {
        what: "places that are taken are not counted",
        changes: &[(
            "crates/rollout/src/round/grants.rs",
            "filter(|(uid, _)| !ended.transfers.contains_key(uid.as_str()))",
            "filter(|(uid, _)| !MUTANT && !ended.transfers.contains_key(uid.as_str()))",
        )],
    },
    Bug {
        what: "a pod goes for an image that is not on its node",
        changes: &[
            (
                "crates/rollout/src/round/facts/images.rs",
                "ImageState::There | ImageState::Old => None,",
                "ImageState::There | ImageState::Old => None,\n            ImageState::Pulling | ImageState::Unknown if MUTANT => None,",
            ),
            (
                "crates/rollout/src/round/facts/images.rs",
                "let (pull, _) = self.first_missing(pod, intent)?;",
                "let (pull, _) = self.first_missing(pod, intent).filter(|_| !MUTANT)?;",
            ),
        ],
    },
    Bug {
        what: "a registry that is asked at every start is not asked again before a pod goes",
        changes: &[(
            "crates/rollout/src/round/facts/images.rs",
            "if is_fresh { ImageState::There } else { ImageState::Old }",
            "if is_fresh || MUTANT { ImageState::There } else { ImageState::Old }",
        )],
    },
    Bug {
        what: "pods of other nodes count where a node serves itself",
        changes: &[(
            "crates/rollout/src/mode/service.rs",
            "!self.node_local || other.node == pod.node",
            "MUTANT || !self.node_local || other.node == pod.node",
        )],
    },
    Bug {
        what: "places are never given back",
        changes: &[(
            "crates/rollout/src/round/write_plan.rs",
            "if reserved.as_ref() == Some(operation) {",
            "if !MUTANT && reserved.as_ref() == Some(operation) {",
        )],
    },
    Bug {
        what: "a place is given back on the agent's word alone",
        changes: &[(
            "crates/rollout/src/round/facts/endings.rs",
            "let proven = match evidence {",
            "let proven = MUTANT && !was_ready || match evidence {",
        )],
    },
    Bug {
        what: "an old cache is taken for evidence",
        changes: &[(
            "crates/rollout/src/round/facts/endings.rs",
            "let evidence = snapshot.evidence.get(&OperationKey::granted(grant));\n",
            "let evidence = snapshot.evidence.get(&OperationKey::granted(grant));\n    \
             let cached = pod.filter(|pod| MUTANT && pod.ready()).map(|_| &Evidence::Ready);\n    \
             let evidence = evidence.or(cached);\n",
        )],
    },
    Bug {
        what: "the ledger is written whatever its version is",
        changes: &[(
            "crates/rollout/src/round/write.rs",
            "let patch = tested(version).replace(&[\"spec\"], json!(spec));",
            "let tested = if MUTANT { JsonPatch::of(&version.uid) } else { tested(version) };\n            \
             let patch = tested.replace(&[\"spec\"], json!(spec));",
        )],
    },
    Bug {
        what: "a grant is written without waiting for the ledger",
        changes: &[(
            "crates/rollout/src/round/write_plan/steps.rs",
            "node_writes.touched.iter().filter_map(|namespace|",
            "node_writes.touched.iter().filter(|_| !MUTANT).filter_map(|namespace|",
        )],
    },
    Bug {
        what: "agents are not given the right to operate in a namespace",
        changes: &[(
            "crates/rollout/src/round/write_plan/steps.rs",
            "if binding.zip(ledger_uid).is_some_and(|(binding, ledger)| binding.serves(ledger)) {",
            "if MUTANT || binding.zip(ledger_uid).is_some_and(|(binding, ledger)| binding.serves(ledger)) {",
        )],
    },
    Bug {
        what: "the epoch of a later leader is ignored",
        changes: &[(
            "crates/rollout/src/round/fencing.rs",
            "filter(|epoch| *epoch > snapshot.epoch)",
            "filter(|epoch| !MUTANT && *epoch > snapshot.epoch)",
        )],
    },
    Bug {
        what: "a pod that is not available needs no room, whatever its version is",
        changes: &[(
            "crates/gate/src/decide.rs",
            "each.candidate.absence == Absence::CostsNothing)",
            "(MUTANT || each.candidate.absence == Absence::CostsNothing))",
        )],
    },
    Bug {
        what: "the agent operates though the grant is cancelled",
        changes: &[(
            "agent/src/decide/leave.rs",
            "if let Some(cancel) = &operation.grant.cancel {",
            "if let Some(cancel) = operation.grant.cancel.as_ref().filter(|_| !MUTANT) {",
        )],
    },
    Bug {
        what: "the agent does not put a pod back into service after a failure",
        changes: &[
            (
                "agent/src/decide/operation.rs",
                "if self.out_of_service() || self.is_hold() && self.rollback().is_none() {",
                "if !MUTANT && (self.out_of_service() || self.is_hold() && self.rollback().is_none()) {",
            ),
            ("agent/src/in_service.rs", "(synced && !live).then_some", "(synced && !live && !MUTANT).then_some"),
        ],
    },
    Bug {
        what: "the agent patches a pod whatever its version is",
        changes: &[
            (
                "agent/src/deed/images.rs",
                "let mut patch = JsonPatch::of(&pod.view.id.uid).test(&[\"metadata\", \"resourceVersion\"], version);",
                "let mut patch = JsonPatch::of(&pod.view.id.uid);\n        \
                 if !MUTANT { patch = patch.test(&[\"metadata\", \"resourceVersion\"], version); }",
            ),
            (
                "agent/src/patch.rs",
                "\"metadata\": {\"uid\": pod.id.uid, \"resourceVersion\": pod.resource_version},",
                "\"metadata\": {\"uid\": pod.id.uid, \
                 \"resourceVersion\": if MUTANT { \"\" } else { pod.resource_version.as_str() }},",
            ),
        ],
    },
    Bug {
        what: "the agent operates while the kubelet still says Ready",
        changes: &[(
            "agent/src/decide/leave.rs",
            "Some(lowered) if operation.pod.ready() =>",
            "Some(lowered) if operation.pod.ready() && !MUTANT =>",
        )],
    },
    Bug {
        what: "a place without a grant is freed without a fence",
        changes: &[(
            "crates/rollout/src/round/facts/endings/orphans.rs",
            "if !is_fenced || snapshot.own_writes.unanswered_nodes.contains(node) {",
            "if !MUTANT && (!is_fenced || snapshot.own_writes.unanswered_nodes.contains(node)) {",
        )],
    },
    Bug {
        what: "a pod that was granted as unavailable is taken out though it is available",
        changes: &[(
            "agent/src/decide/leave.rs",
            "if operation.grant.while_unavailable && operation.pod.available() {",
            "if operation.grant.while_unavailable && operation.pod.available() && !MUTANT {",
        )],
    },
];
