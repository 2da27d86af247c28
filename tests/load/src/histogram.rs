//! Latencies in logarithmic buckets with 128 linear steps each: fixed memory, under 1 % error.

use std::time::Duration;

use crate::Latency;

const STEP_BITS: u32 = 7;
const STEPS: usize = 1 << STEP_BITS;
/// Covers 2^32 µs (71 minutes), more than the longest run; what lies above goes to the last bucket.
const BUCKETS: usize = (32 - STEP_BITS as usize) * STEPS + STEPS;

/// Counts durations at microsecond resolution.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: Duration,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max: Duration::ZERO }
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket_of(micros)) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(latency);
    }

    pub(crate) fn latency(&self) -> Latency {
        Latency {
            p50_ms: self.percentile_ms(500),
            p99_ms: self.percentile_ms(990),
            p999_ms: self.percentile_ms(999),
            max_ms: self.max.as_secs_f64() * 1_000.0,
        }
    }

    /// Upper edge of the bucket in which the given share of values (in thousandths) is reached, but no more than the
    /// largest value; 0 when there is none.
    fn percentile_ms(&self, thousandths: u64) -> f64 {
        let wanted = (self.total * thousandths).div_ceil(1_000);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper_edge(index).min(self.max).as_secs_f64() * 1_000.0;
            }
        }
        0.0
    }
}

fn bucket_of(micros: u64) -> usize {
    let shift = micros.checked_ilog2().unwrap_or(0).saturating_sub(STEP_BITS);
    let step = usize::try_from(micros >> shift).unwrap_or(STEPS);
    (shift as usize * STEPS + step).min(BUCKETS - 1)
}

fn upper_edge(bucket: usize) -> Duration {
    let shift = (bucket / STEPS).saturating_sub(1);
    let step = bucket - shift * STEPS;
    Duration::from_micros((step as u64 + 1) << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_one_per_cent() {
        let mut histogram = Histogram::new();
        for micros in 1..=1_000_000_u64 {
            histogram.record(Duration::from_micros(micros));
        }
        let latency = histogram.latency();
        for (got, wanted) in [(latency.p50_ms, 500.0), (latency.p99_ms, 990.0), (latency.p999_ms, 999.0)] {
            assert!((got - wanted).abs() <= wanted * 0.01, "{got} instead of {wanted}");
        }
        assert!((latency.max_ms - 1_000.0).abs() < 1e-9);
    }

    #[test]
    fn every_value_lies_below_the_edge_of_its_bucket() {
        for micros in (0..40).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]) {
            let bucket = bucket_of(micros);
            assert!(bucket < BUCKETS);
            assert!(bucket == BUCKETS - 1 || upper_edge(bucket) > Duration::from_micros(micros), "{micros}");
            assert!(bucket == 0 || upper_edge(bucket - 1) <= Duration::from_micros(micros), "{micros}");
        }
    }

    #[test]
    fn nothing_recorded_is_zero() {
        assert_eq!(Histogram::new().latency(), Latency::default());
    }
}
