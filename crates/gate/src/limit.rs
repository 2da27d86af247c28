//! A number of pods, absolute or as a share of a base that is known only when it is asked for.

use hitless_api::pod_transition_rule::AvailableRule;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A limit as it stands in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Count(u64),
    Percent(u64),
}

impl Limit {
    /// Reads what the CRD lets pass; anything else, e.g. from before the CRD had checks, is an error in words.
    pub(crate) fn parse(field: &str, value: &IntOrString) -> Result<Self, String> {
        match value {
            IntOrString::Int(count) => u64::try_from(*count).ok().map(Self::Count),
            IntOrString::String(text) => percent(text).map(Self::Percent),
        }
        .ok_or_else(|| {
            let shown = match value {
                IntOrString::Int(count) => count.to_string(),
                IntOrString::String(text) => format!("{:?}", text.chars().take(32).collect::<String>()),
            };
            format!("{field} is {shown}; it must be a count of 0 or more, or a percentage from 0% to 100%")
        })
    }

    /// The number for `total` pods; a share rounds up (maxUnavailable, as upstream).
    pub(crate) fn rounded_up(self, total: u64) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => share(total, percent, 99),
        }
    }

    /// The number for `total` pods; a share rounds down (minAvailable, as upstream).
    pub(crate) fn rounded_down(self, total: u64) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => share(total, percent, 0),
        }
    }
}

fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|percent| *percent <= 100)
}

fn share(total: u64, percent: u64, round: u64) -> u64 {
    total.saturating_mul(percent).saturating_add(round) / 100
}

/// Both limits of an availability rule; one that is absent does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_unavailable: Option<Limit>,
    pub(crate) min_available: Option<Limit>,
}

/// Why a rule has no usable limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LimitFault {
    /// Of a kind that this build can't evaluate.
    NotEvaluated(&'static str),
    /// Not to be understood, in words.
    Misconfigured(String),
}

impl Limits {
    pub(crate) fn parse(rule: &AvailableRule) -> Result<Self, LimitFault> {
        // A value wins over a function, as upstream. A side that has only a function is not ignored as upstream does: whoever
        // wrote it meant to protect something.
        let max_function_only = rule.max_unavailable_value.is_none() && rule.max_unavailable_policy.is_some();
        let min_function_only = rule.min_available_value.is_none() && rule.min_available_policy.is_some();
        let parse = |field, value: &Option<IntOrString>| {
            value.as_ref().map(|value| Limit::parse(field, value)).transpose().map_err(LimitFault::Misconfigured)
        };
        let limits = Self {
            max_unavailable: parse("maxUnavailableValue", &rule.max_unavailable_value)?,
            min_available: parse("minAvailableValue", &rule.min_available_value)?,
        };
        match limits {
            _ if max_function_only => Err(LimitFault::NotEvaluated("maxUnavailablePolicy")),
            _ if min_function_only => Err(LimitFault::NotEvaluated("minAvailablePolicy")),
            Self { max_unavailable: None, min_available: None } => Err(LimitFault::Misconfigured(
                "availablePolicy limits nothing; set maxUnavailableValue or minAvailableValue".to_owned(),
            )),
            limits => Ok(limits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: impl Into<serde_json::Value>) -> Result<Limit, String> {
        Limit::parse("maxUnavailableValue", &serde_json::from_value(value.into()).unwrap())
    }

    #[test]
    fn a_maximum_rounds_up_and_a_minimum_down() {
        for (percent, total, up, down) in [
            ("50%", 3, 2, 1),
            ("50%", 4, 2, 2),
            ("10%", 3, 1, 0),
            ("1%", 100, 1, 1),
            ("0%", 7, 0, 0),
            ("100%", 7, 7, 7),
        ] {
            let limit = parse(percent).unwrap();
            assert_eq!((limit.rounded_up(total), limit.rounded_down(total)), (up, down), "{percent} of {total}");
        }
        assert_eq!(parse(5).unwrap().rounded_up(3), 5);
        assert_eq!(parse("100%").unwrap().rounded_up(u64::MAX), u64::MAX / 100);
    }

    #[test]
    fn what_is_neither_a_count_nor_a_percentage_is_named() {
        for weird in ["", "%", "50", "-5%", "+5%", "5 %", "5%%", "101%", "99999999999999999999%", "½%", "５%"] {
            let fault = parse(weird).unwrap_err();
            assert!(fault.starts_with("maxUnavailableValue is ") && fault.contains("0% to 100%"), "{fault}");
        }
        assert!(parse(-1).unwrap_err().contains("is -1;"));
        assert_eq!(parse(i32::MAX), Ok(Limit::Count(2_147_483_647)));
    }
}
