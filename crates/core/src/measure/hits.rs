//! What each rule of a set saw: how often it decided, and where the indicators were then.

use serde::{Serialize, Serializer};

use super::bins::Bins;
use crate::indicator::{COUNT, Signals};
use crate::rules::Hits;

/// Counts the hits of the rules of one set, over any number of paths; those of several add up.
///
/// In JSON it is the list of the rules' [`Hits`].
#[derive(Clone, Debug, Default)]
pub struct HitCounters {
    rules: Vec<Counter>,
}

/// What one rule saw.
#[derive(Clone, Debug, Default)]
struct Counter {
    count: u64,
    sums: Signals,
    bins: [Bins; COUNT],
}

impl HitCounters {
    /// Counts a reply for which `rule` decided.
    pub fn count(&mut self, rule: u32, signals: &Signals) {
        let rule = rule as usize;
        if self.rules.len() <= rule {
            self.rules.resize(rule + 1, Counter::default());
        }
        let counter = &mut self.rules[rule];
        counter.count += 1;
        for (axis, &signal) in signals.iter().enumerate() {
            counter.sums[axis] = counter.sums[axis].saturating_add(signal);
            counter.bins[axis].add(signal);
        }
    }

    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        if self.rules.len() < other.rules.len() {
            self.rules.resize(other.rules.len(), Counter::default());
        }
        for (counter, more) in self.rules.iter_mut().zip(&other.rules) {
            counter.count += more.count;
            for axis in 0..COUNT {
                counter.sums[axis] = counter.sums[axis].saturating_add(more.sums[axis]);
                counter.bins[axis].merge(&more.bins[axis]);
            }
        }
    }

    /// Count and means of each rule, up to the last one that decided.
    pub fn hits(&self) -> Vec<Hits> {
        let hits = |counter: &Counter| {
            let mean = |sum: u64| sum.checked_div(counter.count).unwrap_or(0);
            Hits { count: counter.count, means: counter.sums.map(mean) }
        };
        self.rules.iter().map(hits).collect()
    }

    /// The median of each indicator for each rule, within a 64th; none for one that never decided.
    pub fn medians(&self) -> Vec<Option<Signals>> {
        let medians = |counter: &Counter| {
            let mut medians = Signals::default();
            for (median, bins) in medians.iter_mut().zip(&counter.bins) {
                *median = bins.median()?;
            }
            Some(medians)
        };
        self.rules.iter().map(medians).collect()
    }
}

impl Serialize for HitCounters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.hits().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_counted_adds_up() {
        let mut one = HitCounters::default();
        one.count(1, &[10, 20, 3_000]);
        one.count(1, &[20, 40, 5_000]);
        let mut other = HitCounters::default();
        other.count(2, &[7, 7, 1_000]);
        other.count(1, &[16, 60, 3_100]);
        one.merge(&other);
        let hits = one.hits();
        assert_eq!(hits[0], Hits::default());
        // 46 / 3, 120 / 3 and 11,100 / 3, rounded down.
        assert_eq!(hits[1], Hits { count: 3, means: [15, 40, 3_700] });
        assert_eq!(hits[2], Hits { count: 1, means: [7, 7, 1_000] });
        let medians = one.medians();
        assert_eq!((medians[0], medians[2]), (None, Some([7, 7, 1_000])));
        let [ack, send, ratio] = medians[1].unwrap();
        assert_eq!((ack, send), (16, 40));
        assert!(ratio.abs_diff(3_100) <= 3_100 / 64, "{ratio}");
        assert_eq!(serde_json::to_value(&one).unwrap()[1]["means"][2], 3_700);
    }
}
