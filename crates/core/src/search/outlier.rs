//! Outliers: runs that are not taken at their word, but made again.
//!
//! Not from the papers, whose search repeats noisy runs only. Something else on the machine may
//! slow a run down, or a cache may speed it up; a search that believes it goes astray, and one that
//! drops it hides what happened. So a driver that doubts a run makes it again, as
//! [`Outliers::next`] says, and keeps the scores of all. Of a candidate that has seldom run, as
//! most of them, the middle one of three counts. Of one whose usual score is known well, as the
//! baseline's, it is the first run that is usual again, since the trouble may outlast two runs;
//! and after [`MOST`] the middle one, since what stays different is the target's new state.
//!
//! A run is doubted when the same candidate has scored very differently before, by more than
//! [`DEVIATIONS`] times the usual noise and by [`LEAST`] at least; when it is a candidate's first
//! and scores as far off what other candidates scored when they were new, and by [`LEAST_OF_NEW`];
//! or when its seconds are far more uneven than those of the search's runs so far.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use super::{Outcome, Trial};
use crate::summary::median;

/// How many runs of a kind are remembered; older ones may be of another time.
const REMEMBERED: usize = 15;

/// So many runs say what is usual.
const ENOUGH: usize = 5;

/// So many other candidates say what a new one may score; a doubt too many costs but two runs.
const ENOUGH_OTHERS: usize = 3;

/// A candidate that has seldom run is made so often in all.
const OF_SELDOM: usize = 3;

/// No trial is made more often.
const MOST: usize = 5;

/// Times the usual deviation, by the median of absolute deviations, which few outliers do not move.
const DEVIATIONS: f64 = 6.0;

/// The least difference that is doubted, as a part of the usual score.
const LEAST: f64 = 0.1;

/// The least difference of a new candidate to others that is doubted.
const LEAST_OF_NEW: f64 = 0.3;

/// A run is uneven when its seconds vary by so many times the usual, and by [`UNEVEN`] at least.
const TIMES_AS_UNEVEN: f64 = 3.0;

/// The least variation of seconds that is doubted.
const UNEVEN: f64 = 0.3;

/// From the median of absolute deviations to the standard deviation of a normal distribution.
const OF_NORMAL: f64 = 1.4826;

/// Why a run is made again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The same candidate has scored otherwise before.
    Unlike {
        /// Its score now.
        score: f64,
        /// The median of its earlier scores.
        usual: f64,
    },
    /// It is a candidate's first, and others have scored otherwise.
    Odd {
        /// Its score.
        score: f64,
        /// The median of the first scores of other candidates.
        usual: f64,
    },
    /// Its seconds are more uneven than usual.
    Uneven {
        /// Their deviation, as a part of their mean.
        variation: f64,
        /// The median of that over earlier runs.
        usual: f64,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlike { score, usual } => {
                write!(f, "it scored {score:.4} where {usual:.4} was usual")
            }
            Self::Odd { score, usual } => {
                write!(f, "it scored {score:.4} where others scored about {usual:.4}")
            }
            Self::Uneven { variation, usual } => {
                write!(f, "its seconds varied by {variation:.2} where {usual:.2} was usual")
            }
        }
    }
}

/// What comes after a trial was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is made again.
    Again,
    /// This of the times that it was made is told.
    Tell(usize),
}

/// What runs have shown so far. A function of the runs that it took, in their order.
///
/// ```
/// use afflux_core::search::{Asked, Next, Outcome, Outliers, Setup, build};
///
/// let Asked::Trials(trials) = build("grid", &Setup::new(1)).unwrap().ask() else { panic!() };
/// let outcome = |score| Outcome { score, ..Outcome::default() };
/// let mut outliers = Outliers::default();
/// for score in [100.0, 101.0, 99.0, 100.0, 100.5] {
///     assert_eq!(outliers.doubt(&trials[0], &outcome(score)), None);
///     outliers.take(&trials[0], &outcome(score));
/// }
/// let doubt = outliers.doubt(&trials[0], &outcome(33.0)).unwrap();
/// assert_eq!(doubt.to_string(), "it scored 33.0000 where 100.0000 was usual");
/// assert_eq!(outliers.doubt(&trials[1], &outcome(33.0)), None);
/// assert_eq!(outliers.next(&trials[0], &[Some(outcome(33.0))]), Next::Again);
/// let made = [Some(outcome(33.0)), Some(outcome(99.5))];
/// assert_eq!(outliers.next(&trials[0], &made), Next::Tell(1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Outliers {
    /// Scores by candidate and length.
    scores: BTreeMap<Kind, VecDeque<f64>>,
    /// First scores of candidates, by length.
    firsts: BTreeMap<u64, VecDeque<f64>>,
    variations: VecDeque<f64>,
}

/// The candidate's digest, and the bits of its part of the full length.
type Kind = (u64, u64);

fn kind(trial: &Trial) -> Kind {
    (trial.candidate.digest().0, trial.fidelity.to_bits())
}

impl Outliers {
    /// Why the run should be made again, if it should.
    pub fn doubt(&self, trial: &Trial, outcome: &Outcome) -> Option<Doubt> {
        let doubt = match self.scores.get(&kind(trial)) {
            Some(earlier) => self.unlike(kind(trial), outcome.score, earlier),
            None => self.odd(trial, outcome.score),
        };
        doubt.or_else(|| self.uneven(outcome))
    }

    /// What comes after a trial was made at least once; a time that failed has no outcome.
    pub fn next(&self, trial: &Trial, made: &[Option<Outcome>]) -> Next {
        let last = made.len().saturating_sub(1);
        let doubted = match made.get(last) {
            Some(Some(outcome)) => self.doubt(trial, outcome).is_some(),
            // A first failure is told; one of several may be of the same trouble.
            _ => last > 0,
        };
        let is_known = self.scores.get(&kind(trial)).is_some_and(|seen| seen.len() >= ENOUGH);
        match (last + 1, doubted) {
            (1, false) => Next::Tell(0),
            (1, true) => Next::Again,
            (_, false) if is_known => Next::Tell(last),
            (times, _) if times < if is_known { MOST } else { OF_SELDOM } => Next::Again,
            _ => Next::Tell(Self::middle(made)),
        }
    }

    /// Takes a run that is told to the strategy.
    pub fn take(&mut self, trial: &Trial, outcome: &Outcome) {
        if outcome.score.is_finite() {
            let scores = self.scores.entry(kind(trial)).or_default();
            if scores.is_empty() {
                let firsts = self.firsts.entry(trial.fidelity.to_bits()).or_default();
                remember(firsts, outcome.score);
            }
            remember(scores, outcome.score);
        }
        if let Some(variation) = variation(outcome) {
            remember(&mut self.variations, variation);
        }
    }

    /// Which one has the score in the middle; of an even number, the better of the two. What failed
    /// is worse than anything.
    fn middle(made: &[Option<Outcome>]) -> usize {
        let rank = |at: usize| made[at].as_ref().map_or(f64::NEG_INFINITY, |outcome| outcome.score);
        let mut order: Vec<usize> = (0..made.len()).collect();
        order.sort_by(|&a, &b| rank(a).total_cmp(&rank(b)));
        order.get(made.len() / 2).copied().unwrap_or(0)
    }

    fn unlike(&self, kind: Kind, score: f64, earlier: &VecDeque<f64>) -> Option<Doubt> {
        let usual = median(earlier.iter().copied());
        // The noise of the length, as the candidate that ran most often at it showed it.
        let alike = self.scores.iter().filter(|(other, _)| other.1 == kind.1);
        let most = alike.max_by_key(|(_, scores)| scores.len()).map(|(_, scores)| scores);
        let noise = most.filter(|scores| scores.len() >= ENOUGH).map_or(0.0, noise);
        let bound = (DEVIATIONS * noise).max(LEAST) * usual.abs();
        let is_off = !score.is_finite() || (score - usual).abs() > bound;
        (is_off && bound > 0.0).then_some(Doubt::Unlike { score, usual })
    }

    fn odd(&self, trial: &Trial, score: f64) -> Option<Doubt> {
        let others = self.firsts.get(&trial.fidelity.to_bits())?;
        let usual = median(others.iter().copied());
        let bound = (DEVIATIONS * noise(others)).max(LEAST_OF_NEW) * usual.abs();
        let is_off = !score.is_finite() || (score - usual).abs() > bound;
        (others.len() >= ENOUGH_OTHERS && is_off && bound > 0.0)
            .then_some(Doubt::Odd { score, usual })
    }

    fn uneven(&self, outcome: &Outcome) -> Option<Doubt> {
        let variation = variation(outcome)?;
        let usual = median(self.variations.iter().copied());
        let is_off = variation > UNEVEN && variation > TIMES_AS_UNEVEN * usual;
        (is_off && self.variations.len() >= ENOUGH).then_some(Doubt::Uneven { variation, usual })
    }
}

/// The deviation of the scores as a part of their median; zero when that is zero.
fn noise(scores: &VecDeque<f64>) -> f64 {
    let usual = median(scores.iter().copied());
    let off = median(scores.iter().map(|score| (score - usual).abs()));
    if usual == 0.0 { 0.0 } else { OF_NORMAL * off / usual.abs() }
}

fn variation(outcome: &Outcome) -> Option<f64> {
    (outcome.speed_mb_s > 0.0).then(|| outcome.speed_deviation_mb_s / outcome.speed_mb_s)
}

fn remember(values: &mut VecDeque<f64>, value: f64) {
    if values.len() == REMEMBERED {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Candidate, Source};

    fn trial(window: u32) -> Trial {
        let candidate = Candidate::setting(&format!("fixed:{window}"));
        Trial {
            number: 0,
            candidate,
            fidelity: 1.0,
            source: Source::Target,
            pair: None,
            seed: 0,
            written: None,
            medians: false,
        }
    }

    fn outcome(score: f64, variation: f64) -> Outcome {
        let (speed_mb_s, speed_deviation_mb_s) = (score.abs(), score.abs() * variation);
        Outcome { score, speed_mb_s, speed_deviation_mb_s, ..Outcome::default() }
    }

    #[test]
    fn noise_is_borne_and_what_exceeds_it_is_not() {
        let mut outliers = Outliers::default();
        for score in [100.0, 110.0, 90.0, 105.0, 95.0, 100.0, 108.0, 93.0] {
            outliers.take(&trial(8), &outcome(score, 0.05));
        }
        // The median of the deviations is 5.5 or 7; six times 1.48 of that is 49 at least.
        assert_eq!(outliers.doubt(&trial(8), &outcome(70.0, 0.05)), None);
        assert!(outliers.doubt(&trial(8), &outcome(30.0, 0.05)).is_some());
        assert!(outliers.doubt(&trial(8), &outcome(f64::NEG_INFINITY, 0.0)).is_some());
        // Another candidate has its own level, and the noise that was seen.
        assert_eq!(outliers.doubt(&trial(4), &outcome(30.0, 0.05)), None);
        outliers.take(&trial(4), &outcome(30.0, 0.05));
        assert_eq!(outliers.doubt(&trial(4), &outcome(20.0, 0.05)), None);
        assert!(outliers.doubt(&trial(4), &outcome(50.0, 0.05)).is_some());
        // So has another length.
        let short = Trial { fidelity: 0.1, ..trial(8) };
        assert_eq!(outliers.doubt(&short, &outcome(30.0, 0.05)), None);
    }

    #[test]
    fn a_new_candidate_is_odd_by_what_others_score() {
        let mut outliers = Outliers::default();
        for (window, score) in (1..).zip([100.0, 95.0, 110.0, 105.0, 98.0, 102.0]) {
            assert_eq!(outliers.doubt(&trial(window), &outcome(score, 0.05)), None);
            outliers.take(&trial(window), &outcome(score, 0.05));
        }
        assert_eq!(outliers.doubt(&trial(9), &outcome(80.0, 0.05)), None);
        let doubt = outliers.doubt(&trial(9), &outcome(33.0, 0.05)).unwrap();
        assert!(doubt.to_string().contains("others scored about 102"), "{doubt}");
        // Where candidates differ much, bad ones are nothing odd.
        let mut wide = Outliers::default();
        for (window, score) in (1..).zip([100.0, 5.0, 60.0, 30.0, 80.0, 10.0, 50.0]) {
            wide.take(&trial(window), &outcome(score, 0.05));
        }
        assert_eq!(wide.doubt(&trial(9), &outcome(1.0, 0.05)), None);
    }

    #[test]
    fn it_follows_a_target_that_drifts() {
        let mut outliers = Outliers::default();
        for run in 0..100 {
            let drifting = outcome(100.0 + f64::from(run), 0.05);
            assert_eq!(outliers.doubt(&trial(8), &drifting), None, "{run}");
            outliers.take(&trial(8), &drifting);
        }
    }

    #[test]
    fn seconds_are_uneven_by_what_is_usual() {
        let mut outliers = Outliers::default();
        for window in 1..=6 {
            let calm = outcome(100.0, 0.04);
            assert_eq!(outliers.doubt(&trial(window), &calm), None);
            outliers.take(&trial(window), &calm);
        }
        assert_eq!(outliers.doubt(&trial(9), &outcome(100.0, 0.2)), None);
        let doubt = outliers.doubt(&trial(9), &outcome(100.0, 0.5)).unwrap();
        assert!(doubt.to_string().contains("varied by 0.50 where 0.04 was usual"), "{doubt}");
        // Where all seconds are uneven, none of them is an outlier.
        let mut uneven = Outliers::default();
        (1..=9).for_each(|window| uneven.take(&trial(window), &outcome(100.0, 0.9)));
        assert_eq!(uneven.doubt(&trial(10), &outcome(100.0, 0.95)), None);
    }

    #[test]
    fn what_is_known_is_made_until_it_is_usual_and_what_is_not_three_times() {
        let some = |scores: &[f64]| -> Vec<Option<Outcome>> {
            scores.iter().map(|&score| Some(outcome(score, 0.05))).collect()
        };
        let mut outliers = Outliers::default();
        for window in 1..=6 {
            outliers.take(&trial(window), &outcome(100.0, 0.05));
        }
        (0..6).for_each(|_| outliers.take(&trial(8), &outcome(100.0, 0.05)));
        let next = |window, scores: &[f64]| outliers.next(&trial(window), &some(scores));
        assert_eq!(next(8, &[99.0]), Next::Tell(0));
        assert_eq!(next(8, &[50.0]), Next::Again);
        assert_eq!(next(8, &[50.0, 52.0]), Next::Again);
        assert_eq!(next(8, &[50.0, 52.0, 48.0, 101.0]), Next::Tell(3));
        // The target stays slow: that is how it is now.
        assert_eq!(next(8, &[50.0, 52.0, 48.0, 51.0, 49.0]), Next::Tell(0));
        // One that ran once before, and one that never did.
        assert_eq!([next(1, &[50.0]), next(9, &[20.0])], [Next::Again; 2]);
        assert_eq!(next(1, &[50.0, 100.0]), Next::Again);
        assert_eq!(next(9, &[20.0, 100.0, 90.0]), Next::Tell(2));
        // A first failure is the strategy's affair; later ones count as worse than anything.
        assert_eq!(outliers.next(&trial(8), &[None]), Next::Tell(0));
        let failed = [Some(outcome(50.0, 0.05)), None, None];
        assert_eq!(outliers.next(&trial(1), &failed), Next::Tell(2));
    }
}
