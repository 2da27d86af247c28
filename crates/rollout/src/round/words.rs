//! Rules' answers for people. Upstream's own texts, which its clients look for, stay in the status of the rule.

use hitless_gate::verdict::{IMPLICIT, WORKLOAD};
use hitless_gate::{Denies, RuleVerdict};

use crate::round::companions::wants_all;

/// What to do about a rule that is in the way: the smallest change that would unblock. `beside_companion`: as in
/// [`super::PodVerdict`].
#[must_use]
pub fn unblock(rule: &RuleVerdict, beside_companion: bool) -> Option<String> {
    rule.unblock().filter(|_| !(beside_companion && wants_all(rule)))
}

/// Why the rule says so, in words and numbers. `beside_companion`: as in [`super::PodVerdict`].
#[must_use]
pub fn words(rule: &RuleVerdict, beside_companion: bool) -> String {
    let nobody = if beside_companion && wants_all(rule) {
        "so one goes at a time, while a companion pod serves for it"
    } else {
        "so no available pod can ever be updated"
    };
    match rule.denies() {
        Some(Denies::MaxUnavailable { quota, unavailable, missing, total }) => {
            let whose = match &*rule.rule {
                IMPLICIT => " (no rule selects them, so that is the default)",
                WORKLOAD => " (maxUnavailable of the workload's own strategy)",
                _ => "",
            };
            let are = if *unavailable == 1 { "is" } else { "are" };
            let missing = if *missing > 0 { format!(" ({missing} not created yet)") } else { String::new() };
            let text =
                format!("at most {quota} of {total} pods may be unavailable{whose}, and {unavailable} {are}{missing}");
            if *quota == 0 { format!("{text}; {nobody}") } else { text }
        }
        Some(Denies::MinAvailable { quota, available, total }) => {
            let text = format!("at least {quota} of {total} pods have to be available, and {available} are");
            if quota >= total { format!("{text}; {nobody}") } else { text }
        }
        None | Some(_) => rule.because.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_sentence() {
        let denied = |rule: &str, because: Denies| RuleVerdict {
            rule: rule.into(),
            because: because.into(),
            since: None,
            holders: [].into(),
        };
        let said = |rule: &str, because| words(&denied(rule, because), false);
        let max = |quota, missing| Denies::MaxUnavailable { quota, unavailable: 1, missing, total: 3 };
        assert_eq!(
            said("implicit", max(1, 0)),
            "at most 1 of 3 pods may be unavailable (no rule selects them, so that is the default), and 1 is"
        );
        assert_eq!(
            said("r/b", max(0, 1)),
            "at most 0 of 3 pods may be unavailable, and 1 is (1 not created yet); so no available pod can ever be updated"
        );
        let min = Denies::MinAvailable { quota: 2, available: 2, total: 3 };
        assert_eq!(said("r/b", min), "at least 2 of 3 pods have to be available, and 2 are");
        let all = denied("pdb:web", Denies::MinAvailable { quota: 3, available: 3, total: 3 });
        assert!(
            words(&all, false).ends_with("; so no available pod can ever be updated") && unblock(&all, false).is_some()
        );
        assert!(words(&all, true).ends_with("; so one goes at a time, while a companion pod serves for it"));
        assert_eq!(unblock(&all, true), None, "nothing is to be done");
    }
}
