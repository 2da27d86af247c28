//! Values of several runs.

use std::fmt;

use serde::{Serialize, Serializer};

/// Values of several runs, and how they are spread.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    values: Vec<f64>,
    /// The largest.
    pub(super) most: f64,
}

impl Spread {
    pub(super) fn add(&mut self, value: f64) {
        self.most = if self.values.is_empty() { value } else { self.most.max(value) };
        self.values.push(value);
        self.values.sort_by(f64::total_cmp);
    }

    /// The middle one, or the mean of the middle two; nothing of no values.
    pub(super) fn median(&self) -> f64 {
        let middle = self.values.len() / 2;
        match self.values.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => self.values[middle],
            _ => f64::midpoint(self.values[middle - 1], self.values[middle]),
        }
    }

    /// The smallest that at least 95 of 100 do not exceed (nearest rank).
    pub(super) fn p95(&self) -> f64 {
        let rank = (self.values.len() * 95).div_ceil(100);
        self.values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

impl FromIterator<f64> for Spread {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut spread = Self::default();
        values.into_iter().for_each(|value| spread.add(value));
        spread
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}, {:.1}, {:.1}", self.median(), self.p95(), self.most)
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Three {
            median: f64,
            p95: f64,
            most: f64,
        }
        Three { median: self.median(), p95: self.p95(), most: self.most }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    fn of(values: &[f64]) -> Spread {
        values.iter().copied().collect()
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert!((of(&[3.0, 1.0, 2.0]).median() - 2.0).abs() < f64::EPSILON);
        assert!((of(&[4.0, 1.0, 2.0, 3.0]).median() - 2.5).abs() < f64::EPSILON);
        assert!(of(&[]).median().is_nan());
    }

    #[test]
    fn most_values_are_within_the_95th_percentile() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert!((of(&hundred).p95() - 95.0).abs() < f64::EPSILON);
        assert!((of(&[1.0, 7.0]).p95() - 7.0).abs() < f64::EPSILON);
        assert!((of(&[-3.0, -1.0]).most + 1.0).abs() < f64::EPSILON, "the largest may be negative");
    }
}
