//! One round: candidates are run in their order, doubtful ones again, and the top ones until the
//! first is sure.
//!
//! Source: the behaviour of the public code; ASCAR, section III-F says of it that noisy candidates
//! run more often and the top ones at least three times. What is compared are integers, and means
//! are kept as running means that are rounded down at every step.

use crate::rules::{Action, Hits};
use crate::search::Outcome;

/// How runs are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judging {
    /// Runs that a doubtful candidate and the top one get at most.
    pub(super) runs: u32,
    /// A candidate is doubtful while its deviation is more than so many percent of its speed.
    pub(super) noise_percent: i64,
    /// Scores count in whole multiples of this; until it is known, in ones.
    pub(super) grain: Option<f64>,
    /// The length of a first look, in parts of the full length; 1 for none.
    pub(super) short: f64,
    /// What falls this far behind the best, in percent of it, is dropped; none keeps all.
    pub(super) racing_percent: Option<f64>,
}

impl Judging {
    /// In what scores are compared.
    pub(super) fn grain(&self) -> f64 {
        self.grain.unwrap_or(1.0)
    }
}

/// A candidate of a round.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    /// The action that it gives the hottest rule; none when it is the base set itself.
    pub(super) action: Option<Action>,
    /// Its runs at full length that were measured.
    pub(super) runs: u32,
    /// Its mean score, in grains.
    pub(super) score: i64,
    /// The number of its first trial at full length.
    pub(super) trial: u64,
    /// What its rules saw in its first run at full length.
    pub(super) hits: Vec<Hits>,
    /// Means of speed and deviation, in thousandths of MB/s.
    speed: i64,
    deviation: i64,
    /// Failures since its last success.
    failures: u32,
    looked_at: bool,
    dropped: bool,
}

/// Why a contender runs; remembered with its trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heat {
    /// Its place among the contenders.
    pub(super) index: usize,
    /// Whether this is the short first look.
    pub(super) short: bool,
}

/// A round under way.
#[derive(Debug)]
pub(super) struct Round {
    judging: Judging,
    contenders: Vec<Contender>,
    /// Places of the contenders, in the order in which they run.
    order: Vec<usize>,
    /// How many of `order` have started.
    started: usize,
    /// Runs that are awaited.
    awaited: usize,
    /// How many had no run and no failure yet.
    fresh: usize,
    best_look: f64,
    best_mean: i64,
}

impl Contender {
    fn new(action: Option<Action>) -> Self {
        Self {
            action,
            runs: 0,
            score: 0,
            trial: 0,
            hits: Vec::new(),
            speed: 0,
            deviation: 0,
            failures: 0,
            looked_at: false,
            dropped: false,
        }
    }

    /// Takes a run at full length into the running means.
    fn take(&mut self, trial: u64, outcome: Outcome, grain: f64) {
        let before = self.runs;
        let mean = |old: i64, new: f64| {
            // A cast saturates and sends what is not a number to zero.
            let sum = i128::from(old) * i128::from(before) + i128::from(libm::floor(new) as i64);
            sum.div_euclid(i128::from(before) + 1) as i64
        };
        self.score = mean(self.score, outcome.score / grain);
        self.speed = mean(self.speed, outcome.speed_mb_s * 1e3);
        self.deviation = mean(self.deviation, outcome.speed_deviation_mb_s * 1e3);
        if before == 0 {
            (self.trial, self.hits) = (trial, outcome.hits);
        }
        self.runs += 1;
        self.failures = 0;
    }

    /// Whether its seconds differ so much that one more run is due. Whole percents are compared.
    fn is_noisy(&self, judging: &Judging) -> bool {
        let percent = i128::from(self.deviation) * 100 / i128::from(self.speed.max(1));
        self.speed > 0 && percent > i128::from(judging.noise_percent)
    }
}

impl Round {
    /// A round over `actions`, or over the base set alone when there are none.
    ///
    /// Candidates are numbered from 1 and run in the order of their numbers *as text* (1, 10, 100,
    /// 101, ...), which is how the original's shell lists them. The order matters where the time
    /// ends before the round, and for drift.
    pub(super) fn new(judging: Judging, actions: Vec<Action>) -> Self {
        let contenders: Vec<Contender> = match actions.is_empty() {
            true => vec![Contender::new(None)],
            false => actions.into_iter().map(|action| Contender::new(Some(action))).collect(),
        };
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        order.sort_by_key(|index| (index + 1).to_string());
        let (fresh, best_look, best_mean) = (contenders.len(), f64::NEG_INFINITY, i64::MIN);
        Self { judging, contenders, order, started: 0, awaited: 0, fresh, best_look, best_mean }
    }

    /// Judges otherwise from now on.
    pub(super) fn judge_by(&mut self, judging: Judging) {
        self.judging = judging;
    }

    /// The contender at `index`.
    pub(super) fn contender(&self, index: usize) -> &Contender {
        &self.contenders[index]
    }

    /// What its contenders do with the hottest rule; none when the base set is the only one.
    pub(super) fn actions(&self) -> Vec<Action> {
        self.contenders.iter().filter_map(|contender| contender.action).collect()
    }

    /// How many contenders there are, and how many of them have shown nothing yet.
    pub(super) fn left(&self) -> (u64, u64) {
        (self.contenders.len() as u64, self.fresh as u64)
    }

    /// How many runs are awaited.
    pub(super) fn awaited(&self) -> usize {
        self.awaited
    }

    /// The next contender's first run, if one has not started.
    pub(super) fn start(&mut self) -> Option<Heat> {
        let index = *self.order.get(self.started)?;
        self.started += 1;
        Some(self.run(index))
    }

    fn run(&mut self, index: usize) -> Heat {
        self.awaited += 1;
        let looks = self.judging.short < 1.0 && self.contenders.len() > 1;
        Heat { index, short: looks && !self.contenders[index].looked_at }
    }

    /// Takes what a run showed; the same contender's next run, if it is due at once.
    pub(super) fn take(
        &mut self,
        heat: Heat,
        trial: u64,
        shown: Result<Outcome, String>,
    ) -> Option<Heat> {
        self.awaited -= 1;
        let (judging, alone) = (self.judging, self.contenders.len() == 1);
        let contender = &mut self.contenders[heat.index];
        if contender.runs == 0 && contender.failures == 0 && !contender.looked_at {
            self.fresh -= 1;
        }
        let again = match shown {
            Err(_) => {
                contender.failures += 1;
                // Once more, in case the fault was the target's. The only one there is stays until
                // the search is worn out, since there is nothing to go on with.
                contender.dropped = contender.failures > 1 && !alone;
                !contender.dropped
            }
            Ok(outcome) if heat.short => {
                (contender.looked_at, contender.failures) = (true, 0);
                self.best_look = self.best_look.max(outcome.score);
                contender.dropped = is_behind(judging, outcome.score, self.best_look);
                !contender.dropped
            }
            Ok(outcome) => {
                contender.take(trial, outcome, judging.grain());
                self.best_mean = self.best_mean.max(contender.score);
                let behind = is_behind(judging, contender.score as f64, self.best_mean as f64);
                contender.runs < judging.runs && contender.is_noisy(&judging) && !behind
            }
        };
        again.then(|| self.run(heat.index))
    }

    /// The contender with the top score. Of equal ones it is the one that ran last: the original's
    /// own script for this is lost, and that of its successor has it so.
    pub(super) fn top(&self) -> Option<usize> {
        let ran =
            |&&index: &&usize| self.contenders[index].runs > 0 && !self.contenders[index].dropped;
        self.order.iter().filter(ran).max_by_key(|index| self.contenders[**index].score).copied()
    }

    /// When nothing is awaited and all have started: the run of the top one that is still due.
    pub(super) fn confirm(&mut self) -> Option<Heat> {
        let index = self.top()?;
        let due = self.contenders.len() > 1 && self.contenders[index].runs < self.judging.runs;
        due.then(|| self.run(index))
    }
}

/// Whether `score` is so far behind `best` that it cannot win any more.
fn is_behind(judging: Judging, score: f64, best: f64) -> bool {
    judging.racing_percent.is_some_and(|percent| score < best - best.abs() * percent / 100.0)
}
