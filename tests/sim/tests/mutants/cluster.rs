//! Deliberate bugs that have nothing to do with companion pods: found among the first seeds.

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
                "crates/rollout/src/round/images.rs",
                "Known::There | Known::Old => None,",
                "Known::There | Known::Old => None,\n            Known::Pulling | Known::Unknown if MUTANT => None,",
            ),
            (
                "crates/rollout/src/round/images.rs",
                "let (pull, _) = self.first_missing(pod, intent)?;",
                "let (pull, _) = self.first_missing(pod, intent).filter(|_| !MUTANT)?;",
            ),
        ],
    },
    Bug {
        what: "a registry that is asked at every start is not asked again before a pod goes",
        changes: &[(
            "crates/rollout/src/round/images.rs",
            "if is_fresh { Known::There } else { Known::Old }",
            "if is_fresh || MUTANT { Known::There } else { Known::Old }",
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
            "crates/rollout/src/round/draft.rs",
            "if reserved.as_ref() == Some(operation) {",
            "if !MUTANT && reserved.as_ref() == Some(operation) {",
        )],
    },
    Bug {
        what: "a place is given back on the agent's word alone",
        changes: &[(
            "crates/rollout/src/round/endings.rs",
            "(_, Some(Evidence::NotReady) | None) => false,",
            "(_, Some(Evidence::NotReady) | None) => MUTANT,",
        )],
    },
    Bug {
        what: "an old cache is taken for evidence",
        changes: &[(
            "crates/rollout/src/round/endings.rs",
            "let evidence = snapshot.evidence.get(&OperationKey::granted(grant));\n",
            "let evidence = snapshot.evidence.get(&OperationKey::granted(grant));\n    \
             let cached = pod.filter(|pod| MUTANT && pod.ready()).map(|_| &Evidence::Ready);\n    \
             let evidence = evidence.or(cached);\n",
        )],
    },
    Bug {
        what: "the ledger is written whatever its version is",
        changes: &[(
            "crates/rollout/src/round/draft/steps.rs",
            "let write = Write::Ledger(LedgerWrite { namespace: namespace.to_owned(), version, spec });",
            "let version = version.map(|mut version: crate::snapshot::Version| { \
             if MUTANT { version.resource_version.clear(); } version });\n            \
             let write = Write::Ledger(LedgerWrite { namespace: namespace.to_owned(), version, spec });",
        )],
    },
    Bug {
        what: "a grant is written without waiting for the ledger",
        changes: &[(
            "crates/rollout/src/round/draft/steps.rs",
            "draft.touched.iter().filter_map(|namespace|",
            "draft.touched.iter().filter(|_| !MUTANT).filter_map(|namespace|",
        )],
    },
    Bug {
        what: "agents are not given the right to operate in a namespace",
        changes: &[(
            "crates/rollout/src/round/draft/steps.rs",
            "if binding.zip(ledger_uid.as_ref()).is_some_and(|(binding, ledger)| binding.serves(ledger)) {",
            "if MUTANT || binding.zip(ledger_uid.as_ref()).is_some_and(|(binding, ledger)| binding.serves(ledger)) {",
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
            "crates/rollout/src/round/endings/orphans.rs",
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
    Bug {
        what: "a Service that was opened for a Hold is never closed",
        changes: &[(
            "crates/rollout/src/round/service_publishing.rs",
            "changes.push(Change::CloseService { service, ended });",
            "if !MUTANT { changes.push(Change::CloseService { service, ended }); }",
        )],
    },
    Bug {
        what: "a Hold is granted without waiting until its Services are seen open",
        changes: &[(
            "crates/rollout/src/round/grants.rs",
            "self.opening.then(|| WaitReason::ServicePublishing(names()))",
            "(self.opening && !MUTANT).then(|| WaitReason::ServicePublishing(names()))",
        )],
    },
    Bug {
        what: "a Service is closed although its pod is held",
        changes: &[
            (
                "crates/rollout/src/round/service_publishing.rs",
                "changes.push(Change::Hold { operation: grant.id.clone(), services });",
                "if !MUTANT { changes.push(Change::Hold { operation: grant.id.clone(), services }); }",
            ),
            // What keeps it open where the grant is not seen.
            (
                "crates/rollout/src/round/service_publishing.rs",
                "|| may_be_live(service, id, wishes, snapshot)",
                "|| !MUTANT && may_be_live(service, id, wishes, snapshot)",
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
    Bug {
        what: "a StatefulSet's first ordinal goes first",
        changes: &[(
            "crates/workloads/src/kinds/stateful_set.rs",
            "in_order.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));",
            "in_order.sort_by_key(|(ordinal, _)| if MUTANT { *ordinal } else { -*ordinal });",
        )],
    },
    Bug {
        what: "a StatefulSet's partition is ignored",
        changes: &[(
            "crates/workloads/src/kinds/stateful_set.rs",
            "*ordinal >= start.saturating_add(set.partition())",
            "MUTANT || *ordinal >= start.saturating_add(set.partition())",
        )],
    },
    Bug {
        what: "the owner's update strategy is not put back",
        changes: &[(
            "crates/workloads/src/kinds/on_delete.rs",
            "let write = settled.then(|| {",
            "let write = (settled && !MUTANT).then(|| {",
        )],
    },
    Bug {
        what: "pods are made from a version that was judged bad",
        changes: &[(
            "crates/rollout/src/round/halts.rs",
            "if !is_rolling || !plan.writes.is_empty()",
            "if MUTANT || !is_rolling || !plan.writes.is_empty()",
        )],
    },
    Bug {
        what: "a changed restart annotation restarts nobody",
        changes: &[(
            "crates/workloads/src/need.rs",
            "annotations.is_some_and(|digest| digest != target.shape().annotations.digest())",
            "!MUTANT && annotations.is_some_and(|digest| digest != target.shape().annotations.digest())",
        )],
    },
    Bug {
        what: "what a rollout has left is forgotten when another one overtakes it",
        changes: &[(
            "crates/workloads/src/kinds/deployment/body.rs",
            "if !body.template.is_mixed() {",
            "if MUTANT || !body.template.is_mixed() {",
        )],
    },
    Bug {
        what: "what the workload says of its unavailable pods is ignored",
        changes: &[
            (
                "crates/gate/src/decide.rs",
                "|_| Limits::at_most(u64::from(most))",
                "|_| Limits::at_most(u64::from(if MUTANT { 99 } else { most }))",
            ),
            (
                "crates/workloads/src/kinds/stateful_set.rs",
                "at_a_time: Some(set.at_a_time()),",
                "at_a_time: Some(if MUTANT { 99 } else { set.at_a_time() }),",
            ),
        ],
    },
];
