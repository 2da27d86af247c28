//! Counts and percentages of a CloneSet as numbers, rounded as upstream does (facts: OpenKruise's `pkg/util` and its tests).

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A text that is no percentage, or a number below 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a count of 0 or more nor a percentage such as 20%")]
pub(in crate::kinds) struct Invalid(String);

#[derive(Clone, Copy)]
enum Rounded {
    Up,
    Down,
}

/// How many pods keep their version. A percentage rounds up, but one of less than 100% updates at least one of several pods.
///
/// # Errors
/// If it is neither a count nor a percentage.
pub(in crate::kinds) fn partition(replicas: usize, value: Option<&IntOrString>) -> Result<usize, Invalid> {
    let kept = match value {
        None => 0,
        Some(value) => scaled(value, replicas, Rounded::Up)?,
    };
    let is_whole = matches!(value, Some(IntOrString::Int(_)))
        || matches!(value, Some(IntOrString::String(text)) if text == "100%");
    let kept = if !is_whole && replicas > 1 && kept == replicas { replicas - 1 } else { kept };
    Ok(kept.min(replicas))
}

/// How many pods beyond the wanted ones an update may make.
///
/// # Errors
/// If it is neither a count nor a percentage.
pub(super) fn max_surge(replicas: usize, value: Option<&IntOrString>, is_paused: bool) -> Result<usize, Invalid> {
    let surge = value.map_or(Ok(0), |value| scaled(value, replicas, Rounded::Up))?;
    Ok(if is_paused { 0 } else { surge })
}

/// How many pods may be unavailable. A percentage rounds up where no pod may be made beyond the wanted ones: something has to go on.
///
/// # Errors
/// If it is neither a count nor a percentage.
pub(in crate::kinds) fn max_unavailable(
    replicas: usize,
    value: Option<&IntOrString>,
    surge: usize,
) -> Result<usize, Invalid> {
    let fifth = IntOrString::String("20%".to_owned());
    scaled(value.unwrap_or(&fifth), replicas, if surge == 0 { Rounded::Up } else { Rounded::Down })
}

/// While so many pods are unavailable, none is made; `None`: no limit.
///
/// # Errors
/// If it is neither a count nor a percentage.
pub(super) fn scale_max_unavailable(replicas: usize, value: Option<&IntOrString>) -> Result<Option<usize>, Invalid> {
    value.map(|value| scaled(value, replicas, Rounded::Up)).transpose()
}

fn scaled(value: &IntOrString, replicas: usize, rounded: Rounded) -> Result<usize, Invalid> {
    match value {
        IntOrString::Int(count) => usize::try_from(*count).map_err(|_| Invalid(count.to_string())),
        IntOrString::String(text) => percent(text, replicas, rounded).ok_or_else(|| Invalid(text.clone())),
    }
}

/// In whole numbers: fractions of a percent would not be exact otherwise.
fn percent(text: &str, replicas: usize, rounded: Rounded) -> Option<usize> {
    let number = text.strip_suffix('%')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || number.len() > 12 || number.ends_with('.') {
        return None;
    }
    let parts = format!("{whole}{fraction}").parse::<u128>().ok()?;
    let of = 100 * 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let product = parts * u128::try_from(replicas).ok()?;
    let count = match rounded {
        Rounded::Up => product.div_ceil(of),
        Rounded::Down => product / of,
    };
    usize::try_from(count).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> IntOrString {
        IntOrString::String(value.to_owned())
    }

    #[test]
    fn partitions_round_as_upstreams_tests_say() {
        let vectors: &[(usize, Option<IntOrString>, usize)] = &[
            (0, Some(text("99%")), 0),
            (10, None, 0),
            (9, Some(text("99%")), 8),
            (10, Some(text("90%")), 9),
            (10, Some(text("1%")), 1),
            (99, Some(text("99%")), 98),
            (99, Some(text("100%")), 99),
            (99, Some(text("0%")), 0),
            // No replicas in the spec count as one.
            (1, Some(text("100%")), 1),
            (1, Some(text("1%")), 1),
            (10, Some(IntOrString::Int(5)), 5),
            (9, Some(text("0.01%")), 1),
            (999, Some(text("99.99%")), 998),
            (5, Some(IntOrString::Int(7)), 5),
        ];
        for (replicas, value, kept) in vectors {
            assert_eq!(partition(*replicas, value.as_ref()), Ok(*kept), "{replicas} {value:?}");
        }
        for wrong in ["99", "%", "1.%", "-1%", "a%", "1e3%"] {
            assert!(partition(9, Some(&text(wrong))).is_err(), "{wrong}");
        }
        assert!(partition(9, Some(&IntOrString::Int(-1))).is_err());
    }

    #[test]
    fn the_table_of_partitions() {
        let percents = ["1%", "10%", "20%", "50%", "80%", "90%", "99%", "100%"];
        let table: &[(usize, [usize; 8])] = &[
            (0, [0; 8]),
            (1, [1; 8]),
            (2, [1, 1, 1, 1, 1, 1, 1, 2]),
            (3, [1, 1, 1, 2, 2, 2, 2, 3]),
            (5, [1, 1, 1, 3, 4, 4, 4, 5]),
            (9, [1, 1, 2, 5, 8, 8, 8, 9]),
            (10, [1, 1, 2, 5, 8, 9, 9, 10]),
            (99, [1, 10, 20, 50, 80, 90, 98, 99]),
            (100, [1, 10, 20, 50, 80, 90, 99, 100]),
            (1000, [10, 100, 200, 500, 800, 900, 990, 1000]),
        ];
        for (replicas, row) in table {
            let kept = percents.map(|percent| partition(*replicas, Some(&text(percent))).unwrap());
            assert_eq!(kept, *row, "{replicas} replicas");
        }
    }

    /// Surge; unavailable without and with surge.
    type Row = (usize, [usize; 5], [usize; 5], [usize; 5]);

    #[test]
    fn the_table_of_surge_and_of_unavailable_pods() {
        let percents = ["10%", "20%", "25%", "30%", "50%"];
        let table: &[Row] = &[
            (1, [1; 5], [1; 5], [0; 5]),
            (2, [1; 5], [1; 5], [0, 0, 0, 0, 1]),
            (3, [1, 1, 1, 1, 2], [1, 1, 1, 1, 2], [0, 0, 0, 0, 1]),
            (4, [1, 1, 1, 2, 2], [1, 1, 1, 2, 2], [0, 0, 1, 1, 2]),
            (5, [1, 1, 2, 2, 3], [1, 1, 2, 2, 3], [0, 1, 1, 1, 2]),
            (7, [1, 2, 2, 3, 4], [1, 2, 2, 3, 4], [0, 1, 1, 2, 3]),
            (9, [1, 2, 3, 3, 5], [1, 2, 3, 3, 5], [0, 1, 2, 2, 4]),
            (10, [1, 2, 3, 3, 5], [1, 2, 3, 3, 5], [1, 2, 2, 3, 5]),
            (11, [2, 3, 3, 4, 6], [2, 3, 3, 4, 6], [1, 2, 2, 3, 5]),
            (99, [10, 20, 25, 30, 50], [10, 20, 25, 30, 50], [9, 19, 24, 29, 49]),
            (100, [10, 20, 25, 30, 50], [10, 20, 25, 30, 50], [10, 20, 25, 30, 50]),
        ];
        for (replicas, surge, alone, beside) in table {
            let row = |number: &dyn Fn(&IntOrString) -> usize| percents.map(|percent| number(&text(percent)));
            assert_eq!(row(&|value| max_surge(*replicas, Some(value), false).unwrap()), *surge, "{replicas}: surge");
            assert_eq!(
                row(&|value| max_unavailable(*replicas, Some(value), 0).unwrap()),
                *alone,
                "{replicas}: no surge"
            );
            assert_eq!(
                row(&|value| max_unavailable(*replicas, Some(value), 1).unwrap()),
                *beside,
                "{replicas}: beside surge"
            );
        }
        assert_eq!(max_surge(10, Some(&text("50%")), true), Ok(0), "while it is paused");
        assert_eq!((max_unavailable(5, None, 0), max_unavailable(3, None, 1)), (Ok(1), Ok(0)), "a fifth if absent");
        assert_eq!(scale_max_unavailable(5, Some(&text("30%"))), Ok(Some(2)));
        assert_eq!(scale_max_unavailable(5, None), Ok(None));
    }
}
