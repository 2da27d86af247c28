//! Rules' answers for people. Upstream's own texts, which its clients look for, stay in the status of the rule.

use hitless_gate::verdict::{IMPLICIT, WORKLOAD};
use hitless_gate::{Reason, RuleVerdict};

/// Why the rule says so, in words and numbers.
#[must_use]
pub fn words(rule: &RuleVerdict) -> String {
    match &rule.because {
        Reason::MaxUnavailable { quota, unavailable, missing, total } => {
            let whose = match &*rule.rule {
                IMPLICIT => " (no rule selects them, so that is the default)",
                WORKLOAD => " (maxUnavailable of the workload's own strategy)",
                _ => "",
            };
            let are = if *unavailable == 1 { "is" } else { "are" };
            let missing = if *missing > 0 { format!(" ({missing} not created yet)") } else { String::new() };
            let text =
                format!("at most {quota} of {total} pods may be unavailable{whose}, and {unavailable} {are}{missing}");
            if *quota == 0 { format!("{text}; so no available pod ever goes") } else { text }
        }
        Reason::MinAvailable { quota, available, total } => {
            let text = format!("at least {quota} of {total} pods have to be available, and {available} are");
            if quota >= total { format!("{text}; so no available pod ever goes") } else { text }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_gate::Decision;

    #[test]
    fn a_budget_is_a_sentence() {
        let said = |rule: &str, because| {
            let (rule, verdict) = (rule.into(), Decision::Denied);
            words(&RuleVerdict { rule, verdict, because, since: None, holders: [].into() })
        };
        let max = |quota, missing| Reason::MaxUnavailable { quota, unavailable: 1, missing, total: 3 };
        assert_eq!(
            said("implicit", max(1, 0)),
            "at most 1 of 3 pods may be unavailable (no rule selects them, so that is the default), and 1 is"
        );
        assert_eq!(
            said("r/b", max(0, 1)),
            "at most 0 of 3 pods may be unavailable, and 1 is (1 not created yet); so no available pod ever goes"
        );
        let min = Reason::MinAvailable { quota: 2, available: 2, total: 3 };
        assert_eq!(said("r/b", min), "at least 2 of 3 pods have to be available, and 2 are");
    }
}
