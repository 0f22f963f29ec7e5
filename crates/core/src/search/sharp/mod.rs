//! SHARP: the busiest rule is improved in rounds, and split when it gets no better.
//!
//! Source: ASCAR, section III-F and algorithm 1; where the paper is silent or differs, the
//! behaviour of the public code. An epoch begins with its set as the sole candidate. A round tries
//! all actions around the hottest rule's; when its best is strictly better than the epoch's best,
//! it is the next round's start. Else the hottest rule of the epoch's best set is split at the
//! means that were observed, and the next epoch begins, with nothing to beat. It never ends by
//! itself, but by a rule that cannot be split, by too many faults, or by its driver.
//!
//! Where it cannot be as the original:
//! - A score is computed for each run and then averaged; the original scores the mean of the runs.
//!   Both are the same for objectives that are linear.
//! - The first candidate of an epoch is accepted whatever its score; the original compares with
//!   zero, so that an objective that may give zero or less would only ever split.
//! - A candidate whose run fails runs once more, and is left out when it fails again.
//! - The original accepts the very line that it accepted before, to redo a step after a crash;
//!   replay makes that needless.
//! - Our windows and gaps are real numbers and nanoseconds; candidates keep to whole hundredths
//!   and microseconds.
//!
//! Departures that are options, off unless asked for:
//! - `keep` tries the unchanged value of each variable, as Remy does, so that one variable can
//!   change alone.
//! - `racing=P` stops looking at a candidate that is P percent behind the best of its round. With
//!   `short=L` every candidate first runs L percent of the full length, and only what survives the
//!   comparison with the best short run so far runs in full.
//! - `gap=ack` searches gaps as parts of the measured `ack_ewma`, which carry over to other numbers
//!   of clients as times do not.
//! - `batch` asks for several candidates at once, for a source that runs several.

mod actions;
mod options;
mod round;
#[cfg(test)]
mod tests;

pub(super) use self::actions::{ADD, Axes, Axis, GAP, GapAxis, Growth, MULTIPLY};

use self::options::Options;
use self::round::{Heat, Judging, Round};
use super::desk::Desk;
use super::{
    Asked, Best, Candidate, End, MethodEntry, NotAwaited, Outcome, Progress, Setup, Strategy, Told,
};
use crate::parameters::{ParameterError, Parameters};
use crate::rules::{Hits, RuleSet, hottest, split};

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "sharp",
    about: "the paper's search: the busiest rule in rounds, split when it gets no better",
    parameters: options::PARAMETERS,
    build: |parameters, setup| Ok(Box::new(Sharp::new(parameters, setup)?)),
};

struct Sharp {
    axes: Axes,
    judging: Judging,
    batch: usize,
    desk: Desk<Heat>,
    base: Base,
    round: Round,
    epoch: u32,
    rounds: u32,
    /// The best of this epoch; none before its first candidate was measured.
    epoch_best: Option<Champion>,
    best: Option<Champion>,
    end: Option<End>,
}

/// The set whose hottest rule this round varies.
struct Base {
    set: RuleSet,
    hottest: usize,
}

/// A set that won a round.
#[derive(Clone)]
struct Champion {
    /// With what its rules saw in its first run.
    set: RuleSet,
    /// In grains.
    score: i64,
    runs: u32,
    trial: u64,
    /// Whether hits were told at all; a bare cost comes without.
    counted: bool,
}

impl Sharp {
    fn new(parameters: &Parameters, setup: &Setup) -> Result<Self, ParameterError> {
        let options = Options::read(parameters)?;
        let mut sharp = Self {
            axes: options.axes,
            judging: options.judging,
            batch: options.batch,
            desk: Desk::open(parameters, setup)?,
            base: Base { set: setup.start.clone().unwrap_or(options.initial), hottest: 0 },
            round: Round::new(options.judging, Vec::new()),
            epoch: 0,
            rounds: 0,
            epoch_best: None,
            best: None,
            end: None,
        };
        sharp.advance();
        Ok(sharp)
    }

    /// The set that a contender stands for.
    fn set_of(&self, heat: Heat) -> RuleSet {
        let mut set = self.base.set.clone();
        if let Some(action) = self.round.contender(heat.index).action {
            set.rules[self.base.hottest].action = action;
        }
        set.rules.iter_mut().for_each(|rule| rule.hits = Hits::default());
        set
    }

    fn post(&mut self, heat: Heat) {
        let run = self.round.contender(heat.index).runs;
        let fidelity = if heat.short { self.judging.short } else { 1.0 };
        let candidate = Candidate::rules(self.set_of(heat));
        self.desk.post(&candidate, run, fidelity, heat);
    }

    /// Asks for runs until enough are awaited, or the search has ended.
    fn advance(&mut self) {
        self.end = self.end.take().or_else(|| self.desk.worn_out());
        while self.end.is_none() && self.round.awaited() < self.batch {
            let next = self.round.start().or_else(|| {
                // The top is only known when all have come in.
                let all_in = self.round.awaited() == 0;
                all_in.then(|| self.round.confirm()).flatten()
            });
            match next {
                Some(heat) => self.post(heat),
                None if self.round.awaited() > 0 => return,
                None => self.end_round(),
            }
        }
    }

    /// Accepts the best of the round, or splits the best of the epoch.
    fn end_round(&mut self) {
        let Some(index) = self.round.top() else {
            // All failed, and still not too often: the same again.
            let actions = self.round.actions();
            self.round = Round::new(self.judging, actions);
            return;
        };
        self.rounds += 1;
        let champion = self.champion(index);
        let better = self.epoch_best.as_ref().is_none_or(|best| champion.score > best.score);
        if better {
            if self.best.as_ref().is_none_or(|best| champion.score > best.score) {
                self.best = Some(champion.clone());
            }
            self.epoch_best = Some(champion);
        }
        let next = if better { self.next_round() } else { self.next_epoch() };
        self.end = next.err();
    }

    /// A contender as it would win.
    fn champion(&self, index: usize) -> Champion {
        let contender = self.round.contender(index);
        let mut set = self.set_of(Heat { index, short: false });
        for (rule, hits) in set.rules.iter_mut().zip(&contender.hits) {
            rule.hits = *hits;
        }
        let counted = !contender.hits.is_empty();
        let (score, runs, trial) = (contender.score, contender.runs, contender.trial);
        Champion { set, score, runs, trial, counted }
    }

    /// Goes on around the hottest rule of the best set. The only rule of a set is the hottest even
    /// where nobody counts.
    fn next_round(&mut self) -> Result<(), End> {
        let best = self.epoch_best.as_ref().ok_or(End::Unused)?;
        let only = || (best.set.rules.len() == 1 && !best.counted).then_some(0);
        let hottest = hottest(&best.set).or_else(only).ok_or(End::Unused)?;
        self.base = Base { set: best.set.clone(), hottest };
        let action = self.base.set.rules[self.base.hottest].action;
        self.round = Round::new(self.judging, self.axes.around(&action));
        Ok(())
    }

    /// Splits the hottest rule of the best set; the result is the sole candidate of a new epoch.
    fn next_epoch(&mut self) -> Result<(), End> {
        let best = self.epoch_best.as_ref().ok_or(End::Unused)?;
        let hottest = hottest(&best.set).ok_or(End::Unused)?;
        self.base = Base { set: split(&best.set, hottest)?, hottest: 0 };
        self.round = Round::new(self.judging, Vec::new());
        self.epoch_best = None;
        (self.epoch, self.rounds) = (self.epoch + 1, 0);
        Ok(())
    }

    /// Settles in what scores are compared, by the first of all: in the original, throughputs of
    /// some hundred MB/s are compared as whole numbers. A grain that was given may be too coarse.
    fn settle_grain(&mut self, outcome: &Outcome) {
        let score = outcome.score.abs();
        let is_first = self.epoch == 0 && self.rounds == 0 && self.round.contender(0).runs == 0;
        if !is_first || score == 0.0 {
            return;
        }
        // So that the score has three digits.
        let mut places = 0;
        while places < 300 && score * libm::pow(10.0, f64::from(places)) < 100.0 {
            places += 1;
        }
        match self.judging.grain {
            None => {
                self.judging.grain = Some(libm::pow(10.0, -f64::from(places)));
                self.round.judge_by(self.judging);
            }
            Some(grain) if score < 10.0 * grain => {
                self.end = Some(End::Coarse {
                    score: format!("{}", outcome.score),
                    grain: format!("{grain}"),
                    proposed: format!("1e-{places}"),
                });
            }
            Some(_) => {}
        }
    }
}

impl Strategy for Sharp {
    fn ask(&mut self) -> Asked {
        self.desk.answer(self.end.as_ref())
    }

    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited> {
        let run = self.desk.take(trial, told)?;
        if let Ok(outcome) = &run.shown
            && !run.tag.short
        {
            self.settle_grain(outcome);
        }
        if let Some(again) = self.round.take(run.tag, run.number, run.shown) {
            self.post(again);
        }
        self.advance();
        Ok(())
    }

    fn best(&self) -> Option<Best> {
        // The top of the round under way counts, too: a search may be ended before the round is.
        let top = self.round.top().map(|index| self.champion(index));
        let ahead = |top: &Champion| self.best.as_ref().is_none_or(|best| top.score > best.score);
        top.filter(ahead).or_else(|| self.best.clone()).map(|champion| Best {
            candidate: Candidate::rules(champion.set),
            score: champion.score as f64 * self.judging.grain(),
            runs: champion.runs,
            trial: champion.trial,
        })
    }

    fn progress(&self) -> Progress {
        let (candidates, candidates_left) = self.round.left();
        let stage = match (candidates, candidates_left) {
            (1, _) => "the set as it is",
            (_, 0) => "the top candidates again",
            _ => "actions of the busiest rule",
        };
        Progress {
            stage,
            epoch: self.epoch,
            round: self.rounds,
            candidates,
            candidates_left,
            rules: self.base.set.rules.len() as u64,
            told: self.desk.told(),
        }
    }
}
