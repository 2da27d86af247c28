//! Bugs around starts, stops and what waits: found among servers that are late and slow, nodes that are lost or have no agent, and helper
//! pods that are refused.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        what: "the time that an old container takes to stop is charged to the next version",
        changes: &[(
            "agent/src/decide/clock.rs",
            "        let deed = self.deed();\n        let is_starting",
            "        if MUTANT {\n            return self.operated_at();\n        }\n        let deed = self.deed();\n        let is_starting",
        )],
    },
    Bug {
        what: "a container that ends before another one comes up condemns its version",
        changes: &[(
            "agent/src/decide/verify.rs",
            "Some(trouble) if trouble.repeats && !operation.grant.verify.alone && !is_late",
            "Some(trouble) if !MUTANT && trouble.repeats && !operation.grant.verify.alone && !is_late",
        )],
    },
    Bug {
        what: "what the startup probe allows is ignored",
        changes: &[(
            "crates/rollout/src/mode/start.rs",
            "VerifySpec::default().progress_seconds.max(probes)",
            "if MUTANT { VerifySpec::default().progress_seconds / 2 } else { VerifySpec::default().progress_seconds.max(probes) }",
        )],
    },
    Bug {
        what: "a node without an agent is said to pass by itself",
        changes: &[
            (
                "crates/rollout/src/round/lasting.rs",
                "            | Self::AgentNotReady { .. }\n            | Self::OwnerUnreadable(_)",
                "            | Self::OwnerUnreadable(_)",
            ),
            (
                "crates/rollout/src/round/lasting.rs",
                "            Self::ImageNotFetched { why, .. } => of_image(why),",
                "            Self::AgentNotReady { .. } => if MUTANT { Lasting::ByItself } else { Lasting::BySomebody },\n            Self::ImageNotFetched { why, .. } => of_image(why),",
            ),
            (
                "crates/rollout/src/round/wait_reason/texts.rs",
                "            Self::AgentNotReady { node, .. } => Some(",
                "            Self::AgentNotReady { node, .. } if !MUTANT => Some(",
            ),
        ],
    },
    Bug {
        what: "a pod on a node without an agent says nothing",
        changes: &[(
            "crates/rollout/src/round/wait_reason.rs",
            "    pub const fn is_brief(&self) -> bool {\n        match self {",
            "    pub fn is_brief(&self) -> bool {\n        match self {\n            Self::AgentNotReady { .. } if MUTANT => true,",
        )],
    },
    Bug {
        what: "a quota that refuses the pod that would fetch an image keeps a pod from going",
        changes: &[(
            "crates/rollout/src/round/images.rs",
            "let refusal = self.refusal(pull, key).filter(|refusal| refusal.is_about_room());",
            "let refusal = self.refusal(pull, key).filter(|refusal| !MUTANT && refusal.is_about_room());",
        )],
    },
    Bug {
        what: "a worker without the port stands in for the pod that has it",
        changes: &[(
            "crates/rollout/src/mode/service.rs",
            "Target::Number(_) => declares(other) || !declares(pod),",
            "Target::Number(_) => MUTANT || declares(other) || !declares(pod),",
        )],
    },
];
