//! Bugs of pauses.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[Bug {
    what: "a pause keeps no operation from beginning",
    changes: &[(
        "crates/rollout/src/round/candidates.rs",
        "Some(WaitReason::Paused(self.wishes.world.object(&owner.uid)?.pause()?))",
        "Some(WaitReason::Paused(self.wishes.world.object(&owner.uid)?.pause().filter(|_| !MUTANT)?))",
    )],
}];
