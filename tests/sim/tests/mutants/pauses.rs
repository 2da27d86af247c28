//! Bugs of pauses.

use crate::Bug;

pub(crate) const BUGS: &[Bug] = &[Bug {
    what: "a pause keeps no operation from beginning",
    changes: &[(
        "crates/rollout/src/round/in_the_way.rs",
        "let pause = self.desired.world.object(&owner.uid)?.pause()?;",
        "let pause = self.desired.world.object(&owner.uid)?.pause().filter(|_| !MUTANT)?;",
    )],
}];
