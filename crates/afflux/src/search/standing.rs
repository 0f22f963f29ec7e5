//! How candidates stand against the baseline and against each other, by the trials so far.
//!
//! While a search runs, this is what people are told; what counts in the end is its confirmation,
//! since the best of many trials owes a part of its lead to luck.

use std::collections::BTreeMap;

use afflux_core::search::{Pair, referred};

use super::journal::{Entry, Stage};
use super::trying::score_of;
use crate::interval::Interval;

/// A full-length trial of a candidate beside the baseline.
#[derive(Clone, Copy, Debug)]
struct Judged {
    /// Its seed; the trials of two candidates with one seed are alike.
    seed: u64,
    baseline: f64,
    score: f64,
}

/// All trials so far, by the labels of candidates.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    judged: BTreeMap<String, Vec<Judged>>,
    /// The first trials of pairs whose second is still to come.
    halves: BTreeMap<(Stage, u64), (Entry, f64)>,
    /// The score of the first baseline, to which those of pairs refer.
    pub(crate) reference: Option<f64>,
}

impl Standings {
    /// Takes the next trial of the journal. Gives the score of a candidate as the search judges it,
    /// once that is known.
    pub(crate) fn take(&mut self, entry: &Entry) -> Option<f64> {
        let score = score_of(&entry.told)?;
        let Some(Pair { number, is_baseline }) = entry.pair else { return Some(score) };
        let key = (entry.stage, number);
        let Some(other) = self.halves.remove(&key) else {
            self.halves.insert(key, (entry.clone(), score));
            return None;
        };
        let this = (entry.clone(), score);
        let (candidate, baseline) = if is_baseline { (other, this) } else { (this, other) };
        let ((candidate, score), (_, baseline)) = (candidate, baseline);
        if candidate.fidelity == 1.0 {
            let judged = Judged { seed: candidate.seed, baseline, score };
            self.judged.entry(candidate.label).or_default().push(judged);
        }
        Some(referred(score, baseline, *self.reference.get_or_insert(baseline)))
    }

    /// The change from the baseline to the candidate in percent; none before it has two pairs.
    pub(crate) fn against_baseline(&self, label: &str) -> Option<Interval> {
        let pairs: Vec<_> =
            self.of(label).iter().map(|judged| (judged.baseline, judged.score)).collect();
        (pairs.len() > 1).then(|| Interval::of_changes(&pairs))
    }

    /// The change from one candidate to another in percent, both counted against the baselines of
    /// their own pairs; none before they have two seeds in common.
    pub(crate) fn against(&self, other: &str, label: &str) -> Option<Interval> {
        let mut others = self.of(other).to_vec();
        let mut pairs = Vec::new();
        for judged in self.of(label) {
            let Some(at) = others.iter().position(|other| other.seed == judged.seed) else {
                continue;
            };
            let other = others.swap_remove(at);
            pairs.push((self.referred(&other), self.referred(judged)));
        }
        (pairs.len() > 1).then(|| Interval::of_changes(&pairs))
    }

    fn of(&self, label: &str) -> &[Judged] {
        self.judged.get(label).map_or(&[], Vec::as_slice)
    }

    fn referred(&self, judged: &Judged) -> f64 {
        referred(judged.score, judged.baseline, self.reference.unwrap_or(judged.baseline))
    }
}

#[cfg(test)]
mod tests {
    use afflux_core::search::{Outcome, Told};

    use super::*;

    fn entry(pair: u64, is_baseline: bool, label: &str, seed: u64, score: f64) -> Entry {
        Entry {
            stage: Stage::Search,
            trial: 0,
            label: label.to_owned(),
            seed,
            pair: Some(Pair { number: pair, is_baseline }),
            round: None,
            fidelity: 1.0,
            secs: 1.0,
            told: Told::Outcome(Outcome { score, ..Outcome::default() }),
            again: None,
            summary: None,
            written: None,
        }
    }

    #[test]
    fn candidates_stand_by_their_pairs_and_seeds() {
        let mut standings = Standings::default();
        let mut pair = |number, label: &str, seed, baseline, score| {
            let two = [
                entry(number, true, "none", seed, baseline),
                entry(number, false, label, seed, score),
            ];
            let first = usize::from(number % 2 == 1);
            assert_eq!(standings.take(&two[first]), None);
            standings.take(&two[1 - first]).unwrap()
        };
        assert_eq!(pair(0, "a", 1, 100.0, 110.0), 110.0);
        // The target got slower by half; the candidate is still ahead by a tenth.
        assert_eq!(pair(1, "a", 2, 50.0, 55.0), 110.0);
        assert_eq!(pair(2, "b", 2, 50.0, 60.0), 120.0);
        assert_eq!(pair(3, "b", 1, 100.0, 120.0), 120.0);
        pair(4, "c", 9, 100.0, 100.0);
        let against = standings.against_baseline("a").unwrap();
        assert!((against.mean - 10.0).abs() < 1e-9, "{against:?}");
        let change = standings.against("a", "b").unwrap();
        assert!((change.mean - 100.0 / 11.0).abs() < 1e-9 && change.excludes_zero(), "{change:?}");
        assert_eq!(standings.against("a", "c"), None);
        assert_eq!(standings.against_baseline("c"), None);
        // One that stands alone is judged by itself; what failed is not.
        let alone = Entry { pair: None, ..entry(0, false, "d", 1, 7.0) };
        assert_eq!(standings.take(&alone), Some(7.0));
        let failed = Entry { told: Told::Fault("gone".to_owned()), ..alone };
        assert_eq!(standings.take(&failed), None);
    }
}
