//! Runs the baseline beside each trial of another strategy, so that drift goes out of its scores.
//!
//! Not from the papers: their runs stand alone. A candidate is scored against the baseline of its
//! own pair, and that against the search's first baseline ([`referred`]): drift of the target
//! cancels, and scores keep their size. Which of the two goes first changes from pair to pair, so
//! that it gives no advantage. It costs a second run for each, and the noise of that run.

use std::collections::BTreeMap;

use super::{
    Asked, Best, Candidate, NotAwaited, Outcome, Pair, Progress, Setup, Strategy, Told, Trial,
};

/// A strategy each of whose trials is one of a pair.
///
/// Trial `n` of the strategy within has the numbers `2 n` and `2 n + 1` here, so that a number
/// alone says which pair it belongs to, and whether it is the baseline.
pub(super) struct Paired {
    within: Box<dyn Strategy>,
    baseline: Candidate,
    /// The score of the first baseline.
    reference: Option<f64>,
    /// What was told of pairs whose other trial is still awaited.
    halves: BTreeMap<u64, Told>,
    told: u64,
}

/// What a candidate that scored `score` beside a baseline of `baseline` would have scored when the
/// baseline was at `reference`.
///
/// A target that is slower by a tenth is so for both, so it is their ratio that carries over. Where
/// a baseline is not above zero, as objectives that subtract can have it, it is the difference.
///
/// ```
/// use afflux_core::search::referred;
/// assert_eq!(referred(60.0, 50.0, 100.0), 120.0);
/// assert_eq!(referred(-20.0, -30.0, -10.0), 0.0);
/// ```
pub fn referred(score: f64, baseline: f64, reference: f64) -> f64 {
    match baseline > 0.0 && reference > 0.0 {
        true => score * (reference / baseline),
        false => score + (reference - baseline),
    }
}

/// The numbers of the candidate and of the baseline of a pair.
const fn numbers(pair: u64) -> (u64, u64) {
    match pair % 2 {
        0 => (2 * pair + 1, 2 * pair),
        _ => (2 * pair, 2 * pair + 1),
    }
}

impl Paired {
    pub(super) fn new(within: Box<dyn Strategy>, setup: &Setup) -> Self {
        let (baseline, reference) = (setup.baseline.clone(), setup.reference);
        Self { within, baseline, reference, halves: BTreeMap::new(), told: 0 }
    }

    /// Whether the strategy within waits for that pair, and this half of it was not told.
    fn awaits(&mut self, number: u64) -> bool {
        let pair = number / 2;
        let open = !self.halves.contains_key(&number);
        open && matches!(self.within.ask(), Asked::Trials(t) if t.iter().any(|t| t.number == pair))
    }

    /// What the strategy within is told of a pair.
    fn judged(&mut self, candidate: Told, baseline: Told) -> Told {
        let baseline = match baseline.outcome() {
            Ok(outcome) => outcome.score,
            Err(why) => return Told::Fault(format!("its baseline failed: {why}")),
        };
        let reference = *self.reference.get_or_insert(baseline);
        match candidate.outcome() {
            Ok(outcome) => {
                let score = referred(outcome.score, baseline, reference);
                Told::Outcome(Outcome { score, ..outcome })
            }
            Err(why) => Told::Fault(why),
        }
    }
}

impl Strategy for Paired {
    fn ask(&mut self) -> Asked {
        let trials = match self.within.ask() {
            Asked::Trials(trials) => trials,
            finished @ Asked::Finished(_) => return finished,
        };
        let both = |trial: Trial| {
            let (candidate, baseline) = numbers(trial.number);
            let pair = |is_baseline| Some(Pair { number: trial.number, is_baseline });
            let beside = Trial {
                number: baseline,
                candidate: self.baseline.clone(),
                pair: pair(true),
                medians: false,
                ..trial.clone()
            };
            let mut both = [beside, Trial { number: candidate, pair: pair(false), ..trial }];
            both.sort_by_key(|trial| trial.number);
            both
        };
        let open = |trial: &Trial| !self.halves.contains_key(&trial.number);
        Asked::Trials(trials.into_iter().flat_map(both).filter(open).collect())
    }

    fn tell(&mut self, number: u64, told: Told) -> Result<(), NotAwaited> {
        if !self.awaits(number) {
            return Err(NotAwaited { number });
        }
        self.told += 1;
        let Some(other) = self.halves.remove(&(number ^ 1)) else {
            self.halves.insert(number, told);
            return Ok(());
        };
        let pair = number / 2;
        let (candidate, baseline) =
            if numbers(pair).0 == number { (told, other) } else { (other, told) };
        let judged = self.judged(candidate, baseline);
        self.within.tell(pair, judged)
    }

    fn best(&self) -> Option<Best> {
        let best = self.within.best()?;
        Some(Best { trial: numbers(best.trial).0, ..best })
    }

    fn progress(&self) -> Progress {
        Progress { told: self.told, ..self.within.progress() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::build;
    use crate::search::testing::{Oracle, drive, own_methods, replays};

    fn setup(seed: u64) -> Setup {
        Setup { paired: true, ..Setup::new(seed) }
    }

    #[test]
    fn only_candidates_are_asked_for_medians() {
        let course = drive("remy", &setup(1), &Oracle::new(1), 600);
        let (candidates, baselines): (Vec<_>, Vec<_>) =
            course.trials.iter().partition(|trial| numbers(trial.number / 2).0 == trial.number);
        assert!(candidates.iter().any(|trial| trial.medians));
        assert!(baselines.len() > 200 && baselines.iter().all(|trial| !trial.medians));
    }

    fn scored(score: f64) -> Told {
        Told::Outcome(Outcome { score, speed_mb_s: score, ..Outcome::default() })
    }

    #[test]
    fn pairs_take_the_drift_out() {
        let mut strategy = build("sharp:m=off", &setup(1)).unwrap();
        for pair in 0..4_u64 {
            let Asked::Trials(trials) = strategy.ask() else { panic!() };
            assert_eq!(trials.len(), 2);
            assert_eq!(trials[0].seed, trials[1].seed);
            let of_baseline = usize::from(pair % 2 == 1);
            assert_eq!(trials[of_baseline].candidate.label(), "none");
            for (at, trial) in trials.iter().enumerate() {
                let is_baseline = at == of_baseline;
                assert_eq!(trial.pair, Some(Pair { number: pair, is_baseline }));
            }
            // The target halves its speed with every pair; the candidate has an eighth more.
            let baseline = 320.0 / (1 << pair) as f64;
            let (one, other) = if pair == 2 { (1, 0) } else { (0, 1) };
            for at in [one, other] {
                let score = if at == of_baseline { baseline } else { baseline * 1.125 };
                strategy.tell(trials[at].number, scored(score)).unwrap();
            }
            assert_eq!(strategy.best().unwrap().score, 360.0);
        }
        assert_eq!(strategy.best().unwrap().trial, 1);
        // A fault of either is one of the run.
        let Asked::Trials(trials) = strategy.ask() else { panic!() };
        strategy.tell(trials[0].number, Told::Fault("gone".to_owned())).unwrap();
        assert!(matches!(strategy.ask(), Asked::Trials(left) if left[..] == trials[1..]));
        strategy.tell(trials[1].number, scored(300.0)).unwrap();
        let Asked::Trials(again) = strategy.ask() else { panic!() };
        assert_eq!(again[0].candidate, trials[1].candidate);
        assert_eq!([&trials[1], &again[0]].map(|trial| trial.pair.unwrap().number), [4, 5]);
    }

    #[test]
    fn scores_may_refer_to_an_earlier_baseline() {
        let earlier = Setup { reference: Some(500.0), ..setup(1) };
        let mut strategy = build("grid", &earlier).unwrap();
        let Asked::Trials(trials) = strategy.ask() else { panic!() };
        strategy.tell(trials[0].number, scored(100.0)).unwrap();
        strategy.tell(trials[1].number, scored(110.0)).unwrap();
        assert_eq!(strategy.best().unwrap().score, 550.0);
    }

    #[test]
    fn every_method_runs_in_pairs_and_resumes() {
        let fails = |number| number % 31 == 7;
        for entry in own_methods() {
            let oracle = Oracle { noise_percent: 9.0, fails, drift: 9.0, ..Oracle::new(4) };
            let method = format!("{}:faults=1000", entry.name);
            let course = drive(&method, &setup(4), &oracle, 200);
            for (pair, both) in course.trials.chunks(2).enumerate() {
                assert!(both.iter().all(|trial| trial.pair.unwrap().number == pair as u64));
                let baselines = both.iter().filter(|trial| trial.candidate.label() == "none");
                assert_eq!(baselines.count(), 1, "{method}");
            }
            let ends = course.tells.len();
            for kept in [0, 1, 2, ends / 3, ends / 2 + 1, ends] {
                replays(&method, &setup(4), &course, kept);
            }
        }
    }
}
