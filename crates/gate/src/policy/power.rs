//! The function of upstream's `expFunc`: f(x) = coeff·x^pow. Upstream declares it and ignores it.

use hitless_api::pod_transition_rule::UnavailablePolicy;

/// Largest coefficient; beyond it the result is beyond every number of pods.
const MAX_COEFF: f64 = 1e6;
/// Largest exponent in both directions.
const MAX_POW: f64 = 8.0;

/// A budget that grows with the number of pods, as it stands in a rule; both numbers are finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Power {
    coeff: f64,
    pow: f64,
}

impl Power {
    /// Reads the function; a number that is absent is 1.
    pub(crate) fn parse(field: &str, policy: &UnavailablePolicy) -> Result<Self, String> {
        let Some(function) = &policy.exp_func else {
            return Err(format!("{field} has no function; set expFunc with coeff and pow, or a value"));
        };
        let number = |name: &str, text: &Option<String>, least: f64, most: f64| {
            let Some(text) = text else { return Ok(1.0) };
            let shown: String = text.chars().take(32).collect();
            let parsed = text.trim().parse::<f64>().ok().filter(|number| (least..=most).contains(number));
            parsed.ok_or_else(|| {
                format!("{field}.expFunc.{name} is {shown:?}; it must be a decimal number from {least} to {most}")
            })
        };
        Ok(Self {
            coeff: number("coeff", &function.coeff, 0.0, MAX_COEFF)?,
            pow: number("pow", &function.pow, -MAX_POW, MAX_POW)?,
        })
    }

    /// The number for `total` pods, between 0 and `total`; rounds up or down.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to 0..=total, and numbers of pods are far below 2^52"
    )]
    pub(crate) fn of(self, total: u64, up: bool) -> u64 {
        if total == 0 {
            return 0;
        }
        let exact = (self.coeff * (total as f64).powf(self.pow)).clamp(0.0, total as f64);
        // 100^0.5 may come out a hair above or below 10.
        let near = exact.round();
        let rounded = match (exact - near).abs() < 1e-9 * near.max(1.0) {
            true => near,
            false if up => exact.ceil(),
            false => exact.floor(),
        };
        rounded as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(coeff: Option<&str>, pow: Option<&str>) -> Result<Power, String> {
        let policy = serde_json::from_value(serde_json::json!({"expFunc": {"coeff": coeff, "pow": pow}})).unwrap();
        Power::parse("maxUnavailablePolicy", &policy)
    }

    #[test]
    fn grows_with_the_number_of_pods_and_never_beyond_it() {
        for (coeff, pow, total, down, up) in [
            (Some("1"), Some("0.5"), 100, 10, 10),
            (Some("1"), Some("0.5"), 10, 3, 4),
            (Some("0.1"), None, 25, 2, 3),
            (Some("2"), Some("0"), 50, 2, 2),
            (Some("3"), Some("1"), 5, 5, 5),
            (None, Some("-1"), 4, 0, 1),
            (Some("1000000"), Some("8"), 1_000_000, 1_000_000, 1_000_000),
            (Some("1"), Some("1"), 0, 0, 0),
        ] {
            let power = power(coeff, pow).unwrap();
            assert_eq!((power.of(total, false), power.of(total, true)), (down, up), "{coeff:?} {pow:?} of {total}");
        }
    }

    #[test]
    fn what_is_no_number_or_out_of_bounds_is_named() {
        for (coeff, pow, named) in [
            (Some("many"), None, "coeff is \"many\""),
            (Some("-1"), None, "from 0 to 1000000"),
            (Some("NaN"), None, "coeff"),
            (Some("inf"), None, "coeff"),
            (None, Some("9"), "pow is \"9\"; it must be a decimal number from -8 to 8"),
            (None, Some(""), "pow is \"\""),
        ] {
            let fault = power(coeff, pow).unwrap_err();
            assert!(fault.starts_with("maxUnavailablePolicy.expFunc.") && fault.contains(named), "{fault}");
        }
        assert!(Power::parse("x", &UnavailablePolicy::default()).unwrap_err().contains("no function"));
    }
}
