//! Bugs of workloads: StatefulSets, versions that were judged bad, restarts, and how many pods go at a time.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
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
            "crates/rollout/src/round/features/halts.rs",
            "if !is_rolling || !plan.writes.is_empty()",
            "if MUTANT || !is_rolling || !plan.writes.is_empty()",
        )],
    },
    Bug {
        what: "a halted Deployment goes on making pods of the bad version",
        changes: &[(
            "crates/workloads/src/kinds/deployment/plan.rs",
            "let write = good.filter(|set| !is_there(set)).map(|set| {",
            "let write = good.filter(|set| !MUTANT && !is_there(set)).map(|set| {",
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
            "crates/workloads/src/kinds/deployment/marks.rs",
            "if !body.template.is_mixed() {",
            "if MUTANT || !body.template.is_mixed() {",
        )],
    },
    Bug {
        what: "what the workload says of its unavailable pods is ignored",
        changes: &[
            (
                "crates/gate/src/decide.rs",
                "..Limits::at_most(u64::from(most)) };",
                "..Limits::at_most(u64::from(if MUTANT { 99 } else { most })) };",
            ),
            (
                "crates/workloads/src/kinds/stateful_set.rs",
                "at_a_time: Some(set.at_a_time()),",
                "at_a_time: Some(if MUTANT { 99 } else { set.at_a_time() }),",
            ),
        ],
    },
];
