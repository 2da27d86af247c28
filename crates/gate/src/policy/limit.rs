//! A number of pods, absolute or as a function of a base that is known only when it is asked for.

use hitless_api::pod_transition_rule::{AvailableRule, UnavailablePolicy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::power::Power;

/// Which way a share of pods rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Count(u64),
    Percent(u64),
    Power(Power),
}

/// A limit as it stands in a rule, and how it rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    value: Value,
    rounding: Rounding,
}

impl Bound {
    /// A number of pods.
    pub(crate) fn count(count: u64) -> Self {
        Self { value: Value::Count(count), rounding: Rounding::Down }
    }

    /// Reads what the CRD lets pass; anything else, e.g. from before the CRD had checks, is an error in words.
    pub(crate) fn parse(field: &str, value: &IntOrString, rounding: Rounding) -> Result<Self, String> {
        let parsed = match value {
            IntOrString::Int(count) => u64::try_from(*count).ok().map(Value::Count),
            IntOrString::String(text) => percent(text).map(Value::Percent),
        };
        let value = parsed.ok_or_else(|| {
            let shown = match value {
                IntOrString::Int(count) => count.to_string(),
                IntOrString::String(text) => format!("{:?}", text.chars().take(32).collect::<String>()),
            };
            format!("{field} is {shown}; it must be a count of 0 or more, or a percentage from 0% to 100%")
        })?;
        Ok(Self { value, rounding })
    }

    /// The number for `total` pods (or nodes).
    pub(crate) fn of(self, total: u64) -> u64 {
        let up = self.rounding == Rounding::Up;
        match self.value {
            Value::Count(count) => count,
            Value::Percent(percent) => total.saturating_mul(percent).saturating_add(if up { 99 } else { 0 }) / 100,
            Value::Power(power) => power.of(total, up),
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

/// Both limits of an availability rule; one that is absent does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    pub(crate) max_unavailable: Option<Bound>,
    pub(crate) min_available: Option<Bound>,
    /// Pods beyond those that their owners desire make room, as the disruption controller has it: for it as many must be available
    /// as are desired less the maximum.
    pub(crate) counts_extra_pods: bool,
}

impl Limits {
    /// At most so many may be unavailable.
    pub(crate) fn at_most(count: u64) -> Self {
        Self { max_unavailable: Some(Bound::count(count)), ..Self::default() }
    }

    /// Reads upstream's policy: a maximum rounds up and a minimum down (facts/kuperator.md §1.8). A value wins over a function
    /// on the same side; a function is evaluated, where upstream ignores it.
    pub(crate) fn of_rule(rule: &AvailableRule) -> Result<Self, String> {
        let side = |name: &str, value: &Option<IntOrString>, policy: &Option<UnavailablePolicy>, rounding| {
            let power = |policy: &UnavailablePolicy| {
                let value = Value::Power(Power::parse(&format!("{name}Policy"), policy)?);
                Ok(Bound { value, rounding })
            };
            match (value, policy) {
                (Some(value), _) => Bound::parse(&format!("{name}Value"), value, rounding).map(Some),
                (None, Some(policy)) => power(policy).map(Some),
                (None, None) => Ok(None),
            }
        };
        let limits = Self {
            max_unavailable: side(
                "maxUnavailable",
                &rule.max_unavailable_value,
                &rule.max_unavailable_policy,
                Rounding::Up,
            )?,
            min_available: side("minAvailable", &rule.min_available_value, &rule.min_available_policy, Rounding::Down)?,
            counts_extra_pods: false,
        };
        if limits == Self::default() {
            return Err("availablePolicy limits nothing; set maxUnavailableValue or minAvailableValue".to_owned());
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: impl Into<serde_json::Value>, rounding: Rounding) -> Result<Bound, String> {
        Bound::parse("maxUnavailableValue", &serde_json::from_value(value.into()).unwrap(), rounding)
    }

    #[test]
    fn a_share_rounds_the_way_it_is_told() {
        for (percent, total, up, down) in [
            ("50%", 3, 2, 1),
            ("50%", 4, 2, 2),
            ("10%", 3, 1, 0),
            ("1%", 100, 1, 1),
            ("0%", 7, 0, 0),
            ("100%", 7, 7, 7),
        ] {
            let rounded = |rounding| parse(percent, rounding).unwrap().of(total);
            assert_eq!((rounded(Rounding::Up), rounded(Rounding::Down)), (up, down), "{percent} of {total}");
        }
        assert_eq!(parse(5, Rounding::Up).unwrap().of(3), 5);
        assert_eq!(parse("100%", Rounding::Up).unwrap().of(u64::MAX), u64::MAX / 100);
    }

    #[test]
    fn what_is_neither_a_count_nor_a_percentage_is_named() {
        for weird in ["", "%", "50", "-5%", "+5%", "5 %", "5%%", "101%", "99999999999999999999%", "½%", "５%"] {
            let fault = parse(weird, Rounding::Up).unwrap_err();
            assert!(fault.starts_with("maxUnavailableValue is ") && fault.contains("0% to 100%"), "{fault}");
        }
        assert!(parse(-1, Rounding::Up).unwrap_err().contains("is -1;"));
        assert_eq!(parse(i32::MAX, Rounding::Up).unwrap().of(1), 2_147_483_647);
    }
}
