//! A distribution of integers in bins that two can be added of, for its median.
//!
//! Bins are as wide as their values are great: [`PER_DOUBLING`] to each doubling, those below twice
//! that number one wide. It is the layout of HdrHistogram, whose crate keeps more than a median
//! needs and costs a reply 8 ns more (`benches/path.rs` on one machine), of the 40 that all of it
//! may take. Unlike estimates that keep a few markers, bins forget nothing when the stream drifts,
//! and the bins of two streams add up to exactly those of both.

/// How many bins each doubling of the value has.
const PER_DOUBLING: usize = 1 << BITS;
const BITS: u32 = 5;

/// Values, counted by bin. It holds as many bins as lie between the least and the greatest value so
/// far: 4 bytes each, usually a few hundred, and 8 kB at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bins {
    /// The bin that the first of `counts` counts; a multiple of [`PER_DOUBLING`].
    first: usize,
    counts: Vec<u32>,
}

/// The bin of a value; bins are in the order of their values.
fn bin_of(value: u64) -> usize {
    let drop = u64::BITS - 1 - BITS - (value | PER_DOUBLING as u64).leading_zeros();
    drop as usize * PER_DOUBLING + (value >> drop) as usize
}

/// The middle of a bin: no value in it is farther from it than a 64th of that value.
fn middle_of(bin: usize) -> u64 {
    let drop = (bin / PER_DOUBLING).saturating_sub(1);
    let kept = (bin - drop * PER_DOUBLING) as u64;
    (kept << drop) + ((1 << drop) >> 1)
}

impl Bins {
    /// Counts a value. Only one outside all values so far makes it grow.
    pub(super) fn add(&mut self, value: u64) {
        let bin = bin_of(value);
        match self.counts.get_mut(bin.wrapping_sub(self.first)) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                self.widen(bin, bin);
                self.counts[bin - self.first] = 1;
            }
        }
    }

    /// Counts all that `other` has counted.
    pub(super) fn merge(&mut self, other: &Self) {
        let Some(last) = other.counts.len().checked_sub(1) else { return };
        self.widen(other.first, other.first + last);
        let at = other.first - self.first;
        for (count, more) in self.counts[at..].iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// The median, of an even number the lower of the two in the middle, within a 64th of it; none
    /// without any value.
    pub(super) fn median(&self) -> Option<u64> {
        let total: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        let mut left = total.div_ceil(2);
        for (at, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            if left <= u64::from(count) {
                return Some(middle_of(self.first + at));
            }
            left -= u64::from(count);
        }
        None
    }

    /// Makes room for the bins from `low` to `high`, by whole doublings.
    #[cold]
    fn widen(&mut self, low: usize, high: usize) {
        let mut first = low / PER_DOUBLING * PER_DOUBLING;
        let mut end = (high / PER_DOUBLING + 1) * PER_DOUBLING;
        if !self.counts.is_empty() {
            first = first.min(self.first);
            end = end.max(self.first + self.counts.len());
        }
        let mut counts = vec![0; end - first];
        let at = self.first.saturating_sub(first);
        counts[at..at + self.counts.len()].copy_from_slice(&self.counts);
        (self.first, self.counts) = (first, counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn bins(values: &[u64]) -> Bins {
        let mut bins = Bins::default();
        values.iter().for_each(|&value| bins.add(value));
        bins
    }

    fn exact(values: &[u64]) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() - 1) / 2]
    }

    /// How far the median of the bins is from the exact one, in parts of it.
    fn error(values: &[u64]) -> f64 {
        let exact = exact(values);
        bins(values).median().unwrap().abs_diff(exact) as f64 / exact as f64
    }

    #[test]
    fn bins_are_in_order_without_gap_and_narrow() {
        let mut last = 0;
        for value in (0..100_000).chain((17..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit])) {
            let bin = bin_of(value);
            assert!(bin >= last && (value > 100_000 || bin - last <= 1), "{value}");
            assert!(middle_of(bin).abs_diff(value) <= value / 64, "{value}: {}", middle_of(bin));
            last = bin;
        }
        assert_eq!(bin_of(u64::MAX), 59 * PER_DOUBLING + PER_DOUBLING - 1);
        assert!(middle_of(bin_of(u64::MAX)) > u64::MAX / 64 * 63);
    }

    /// The streams that estimates with a few markers get wrong.
    #[test]
    fn skewed_bimodal_and_drifting_streams_keep_the_bound() {
        let mut rng = Rng::new(64);
        let mut part = || rng.below(1 << 30) as f64 / f64::from(1 << 30);
        let ms = |millis: f64| (millis * 1e6) as u64;
        // Exponential, and its fourth power: the mean is 24 / ln(2)^4 = 104 times the median.
        let skewed: Vec<u64> = (0..9_999).map(|_| ms(-40.0 * libm::log(1.0 - part()))).collect();
        let heavy: Vec<u64> =
            (0..9_999).map(|_| ms(libm::pow(libm::log(1.0 - part()), 4.0))).collect();
        let bimodal: Vec<u64> = (0..9_999)
            .map(|_| if part() < 0.51 { ms(5.0 + part()) } else { ms(70.0 + part()) })
            .collect();
        let drifting: Vec<u64> =
            (0..9_999).map(|at| ms(10.0 + 0.02 * f64::from(at) + part())).collect();
        for stream in [&skewed, &heavy, &bimodal, &drifting] {
            assert!(error(stream) <= 1.0 / 64.0, "{}", error(stream));
            let backwards: Vec<u64> = stream.iter().rev().copied().collect();
            assert_eq!(bins(stream), bins(&backwards));
        }
        let mean = heavy.iter().sum::<u64>() / heavy.len() as u64;
        assert!(mean > 50 * bins(&heavy).median().unwrap(), "the stream is not skewed");
    }

    #[test]
    fn no_value_no_median_and_counts_do_not_wrap() {
        assert_eq!(Bins::default().median(), None);
        let mut full = bins(&[40]);
        full.counts.iter_mut().for_each(|count| *count = u32::MAX);
        full.add(40);
        full.merge(&full.clone());
        assert!(full.median().is_some());
        assert_eq!(bins(&[u64::MAX, 0]).counts.len(), 60 * PER_DOUBLING);
    }

    proptest! {
        /// Of whatever values, split over however many clients.
        #[test]
        fn medians_of_merged_bins_are_those_of_all_values(
            clients in prop::collection::vec(
                prop::collection::vec(
                    (any::<u64>(), 0_u32..64).prop_map(|(value, drop)| value >> drop), 0..30),
                1..6),
        ) {
            let all = clients.concat();
            let mut merged = Bins::default();
            clients.iter().for_each(|values| merged.merge(&bins(values)));
            prop_assert_eq!(&merged, &bins(&all));
            match merged.median() {
                Some(median) => {
                    let exact = exact(&all);
                    prop_assert!(median.abs_diff(exact) <= exact / 64, "{} {}", median, exact);
                }
                None => prop_assert!(all.is_empty()),
            }
        }
    }
}
