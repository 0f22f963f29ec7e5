//! What each rule of a set saw: how often it decided, and where the indicators were then.

use serde::{Serialize, Serializer};

use super::bins::Bins;
use crate::indicator::{COUNT, Signals};
use crate::rules::Hits;

/// Each rule's first hit and every so many after it go to the bins for its medians, since all of
/// them would make a reply 5 ns dearer. Most indicators are averages over about eight replies, so
/// that little is lost; a prime that is no likely number of servers or requests in flight, so that
/// what repeats itself is not met at the same point each time.
const BINNED: u64 = 7;

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
        for (sum, &signal) in counter.sums.iter_mut().zip(signals) {
            *sum = sum.saturating_add(signal);
        }
        if counter.count % BINNED == 1 {
            counter.bins.iter_mut().zip(signals).for_each(|(bins, &signal)| bins.add(signal));
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

    /// The median of each indicator for each rule, within a 64th, of those hits that went to bins:
    /// the first and every seventh after it. None for a rule that never decided.
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

    /// Bursts of eight replies that get slower, over five clients that differ by a half.
    #[test]
    fn what_goes_to_the_bins_stands_for_all() {
        let (mut all, mut merged) = (Vec::new(), HitCounters::default());
        for client in 0..5 {
            let mut counters = HitCounters::default();
            for reply in 0..4_000 {
                let value = (1_000_000 + 500_000 * (reply % 8)) * (10 + client) / 10;
                counters.count(0, &[value; COUNT]);
                all.push(value);
            }
            merged.merge(&counters);
        }
        all.sort_unstable();
        let median = merged.medians()[0].unwrap()[0];
        let rank = |part: f64| all[(all.len() as f64 * part) as usize];
        let near = rank(0.47) / 64 * 63..=rank(0.53) / 64 * 65;
        assert!(near.contains(&median), "{median} {near:?}");
    }

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
        // Of the first hits of both: 10 and 16, 20 and 60, 3,000 and 3,100.
        assert_eq!((ack, send), (10, 20));
        assert!(ratio.abs_diff(3_000) <= 3_000 / 64, "{ratio}");
        assert_eq!(serde_json::to_value(&one).unwrap()[1]["means"][2], 3_700);
    }
}
