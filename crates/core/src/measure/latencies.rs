//! Distributions of times, small enough that a million clients can each have some.

use hdrhistogram::Histogram;
use serde::Serialize;
use serde::ser::SerializeStruct;

use crate::units::Span;

/// A distribution of times, to three significant digits, from a microsecond to ten minutes.
///
/// What is kept is the list of the times that occurred, rounded as the histogram rounds them, each
/// with its number: a few hundred bytes for most clients, where a histogram's table takes 170 KiB.
/// The latest times wait unsorted until there are as many as the list is long. All numbers come
/// from a histogram that is made of the list when somebody asks.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Microseconds, and how often; in order, none twice.
    sorted: Vec<(u32, u32)>,
    recent: Vec<u32>,
    count: u64,
}

/// Times that wait unsorted at least.
const RECENT: usize = 32;

/// The longest time that is told from longer ones.
const MAX_MICROS: u64 = 600_000_000;

impl Latencies {
    /// Adds one time.
    pub fn record(&mut self, span: Span) {
        let micros = (span.as_nanos() / 1_000).min(MAX_MICROS) as u32;
        self.recent.push(rounded(micros));
        self.count += 1;
        if self.recent.len() >= RECENT.max(self.sorted.len()) {
            self.sort();
        }
    }

    /// Adds the same time `count` times, at most 2^32 - 1 of them.
    pub fn record_all(&mut self, span: Span, count: u64) {
        if count > 0 {
            let micros = (span.as_nanos() / 1_000).min(MAX_MICROS) as u32;
            let times = u32::try_from(count).unwrap_or(u32::MAX);
            let sorted = vec![(rounded(micros), times)];
            self.add(&Self { sorted, recent: Vec::new(), count: u64::from(times) });
        }
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.sort();
        self.sorted = merged(&self.sorted, other.sorted.iter().copied());
        self.recent.extend_from_slice(&other.recent);
        self.sort();
        self.count += other.count;
    }

    /// How many times there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean; zero without any.
    pub fn mean(&self) -> Span {
        Span::from_secs_f64(self.histogram().mean() / 1e6)
    }

    /// The time that a part `quantile` of all do not exceed; zero without any.
    pub fn quantile(&self, quantile: f64) -> Span {
        Span::from_micros(self.histogram().value_at_quantile(quantile))
    }

    /// Every time that occurred, to three digits, and how many took at most so long; in order.
    pub fn cumulative(&self) -> Vec<(Span, u64)> {
        let mut count = 0;
        let steps = self.histogram();
        let steps = steps.iter_recorded().map(|step| {
            count += step.count_since_last_iteration();
            (Span::from_micros(step.value_iterated_to()), count)
        });
        steps.collect()
    }

    fn sort(&mut self) {
        self.recent.sort_unstable();
        let runs = self.recent.chunk_by(|left, right| left == right);
        self.sorted = merged(&self.sorted, runs.map(|run| (run[0], run.len() as u32)));
        self.recent.clear();
    }

    fn histogram(&self) -> Histogram<u64> {
        let histogram = Histogram::new_with_bounds(1, MAX_MICROS, 3);
        let mut histogram = histogram.expect("the bounds are in order");
        for &(micros, count) in &self.sorted {
            histogram.saturating_record_n(u64::from(micros), u64::from(count));
        }
        for &micros in &self.recent {
            histogram.saturating_record(u64::from(micros));
        }
        histogram
    }
}

/// The least value that a histogram of three digits does not tell from `micros`: eleven bits count.
const fn rounded(micros: u32) -> u32 {
    let beyond = (u32::BITS - micros.leading_zeros()).saturating_sub(11);
    micros >> beyond << beyond
}

/// Two lists in order as one, in which no time stands twice.
fn merged(left: &[(u32, u32)], right: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut all = Vec::with_capacity(left.len() + right.size_hint().0);
    let mut rest = left;
    for (micros, count) in right {
        let before = rest.partition_point(|(other, _)| *other < micros);
        all.extend_from_slice(&rest[..before]);
        rest = &rest[before..];
        match rest.split_first() {
            Some(((same, others), after)) if *same == micros => {
                all.push((micros, others + count));
                rest = after;
            }
            _ => all.push((micros, count)),
        }
    }
    all.extend_from_slice(rest);
    all
}

impl Serialize for Latencies {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let histogram = self.histogram();
        let mut fields = serializer.serialize_struct("Latencies", 5)?;
        fields.serialize_field("count", &self.count())?;
        let mean = Span::from_secs_f64(histogram.mean() / 1e6);
        fields.serialize_field("mean_ms", &mean.as_millis_f64())?;
        for (name, quantile) in [("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)] {
            let span = Span::from_micros(histogram.value_at_quantile(quantile));
            fields.serialize_field(name, &span.as_millis_f64())?;
        }
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is recorded and added, all numbers are those of a histogram of the same times.
        #[test]
        fn numbers_are_those_of_a_histogram(
            times in prop::collection::vec((0_u64..40, 0_u64..1_000), 0..400),
            others in prop::collection::vec(0_u64..2_000_000_000_000, 0..100),
        ) {
            let mut plain = Histogram::<u64>::new_with_bounds(1, MAX_MICROS, 3).unwrap();
            let (mut left, mut right) = (Latencies::default(), Latencies::default());
            for (shift, times) in times {
                let nanos = times << shift;
                left.record(Span::from_nanos(nanos));
                plain.saturating_record((nanos / 1_000).min(MAX_MICROS));
            }
            for nanos in others {
                right.record(Span::from_nanos(nanos));
                plain.saturating_record((nanos / 1_000).min(MAX_MICROS));
            }
            left.add(&right);
            prop_assert_eq!(left.count(), plain.len());
            for quantile in [0.0, 0.1, 0.5, 0.9, 0.99, 1.0] {
                let expected = Span::from_micros(plain.value_at_quantile(quantile));
                prop_assert_eq!(left.quantile(quantile), expected);
            }
            prop_assert_eq!(left.mean(), Span::from_secs_f64(plain.mean() / 1e6));
        }
    }

    #[test]
    fn the_cumulative_distribution_has_every_quantile() {
        let mut times = Latencies::default();
        assert_eq!(times.cumulative(), []);
        (1..=1_000).for_each(|n: u64| times.record(Span::from_micros(n * n)));
        let steps = times.cumulative();
        assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
        for part in [0.001, 0.25, 0.5, 0.99, 1.0] {
            let reached = steps.iter().find(|(_, count)| *count as f64 >= part * 1_000.0);
            assert_eq!(reached.unwrap().0, times.quantile(part), "{part}");
        }
        assert_eq!(steps.last().unwrap().1, times.count());
    }

    #[test]
    fn few_times_take_little_room() {
        let mut times = Latencies::default();
        (0..10_000).for_each(|n| times.record(Span::from_micros(9_000 + n % 100)));
        assert!(times.sorted.len() <= 100 && times.recent.capacity() <= 128);
        assert_eq!(times.count(), 10_000);
    }
}
