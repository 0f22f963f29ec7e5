//! The driver of a search: it runs what a strategy asks for, scores it, and keeps the journal.
//!
//! A search has three stages. The grid of fixed settings comes first, as the honest competitor;
//! then the method; then fresh runs of the baseline, the best fixed setting and what was found, in
//! rotating order and with seeds of their own, which alone say what was gained.

pub(crate) mod budget;
pub(crate) mod journal;
pub(crate) mod live;
pub(crate) mod record;
#[cfg(test)]
mod tests;

use std::time::Instant;

use afflux_core::measure::{Measurement, TraceRequest};
use afflux_core::objective::Objective;
use afflux_core::search::{
    self, Asked, Best, Candidate, End, Outcome, Setup, Strategy, Told, Trial,
};
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::{Run, Target, TargetError};
use afflux_core::units::Span;
use afflux_core::workload::Workload;

use crate::experiment::{Compared, Comparison, metrics};
use crate::failure::Failure;
use budget::Budget;
use journal::{Entry, Head, Journal, JournalError, Stage};
use live::Live;

/// The seeds of the confirmation lie apart from those that the search itself used.
const FRESH_SEEDS: u64 = 1 << 32;

/// A search under way.
pub(crate) struct Driver<'a> {
    pub(crate) head: &'a Head,
    pub(crate) journal: Journal,
    pub(crate) target: &'a mut dyn Target,
    pub(crate) workload: &'a Workload,
    pub(crate) objective: Objective,
    pub(crate) budget: Budget,
    pub(crate) live: &'a Live,
}

/// What a search found.
pub(crate) struct Found {
    /// The best of the grid.
    pub(crate) fixed: Best,
    /// The best of the method; the grid's best when the method found nothing better to try.
    pub(crate) best: Best,
    /// How the method ended.
    pub(crate) ended: String,
    /// What was found against the baseline and against the best fixed setting, and that one against
    /// the baseline.
    pub(crate) comparisons: Vec<Comparison>,
    /// All trials.
    pub(crate) entries: Vec<Entry>,
    /// The confirming runs of this process; a resumed search has only those that were left.
    pub(crate) fresh: Vec<Fresh>,
}

/// A confirming run.
pub(crate) struct Fresh {
    /// 0 the baseline, 1 the best fixed setting, 2 what was found.
    pub(crate) which: usize,
    /// Its round, from 0.
    pub(crate) round: u32,
    /// Its seed.
    pub(crate) seed: u64,
    /// What was deployed.
    pub(crate) setting: Setting,
    /// What it showed.
    pub(crate) measurement: Measurement,
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        if error.is_input() { Self::input(error) } else { Self::broken(error) }
    }
}

impl Driver<'_> {
    /// Runs the search to its end, or from where it was killed.
    pub(crate) fn run(mut self) -> Result<Found, Failure> {
        let run_secs = (self.head.settle + self.head.length).as_secs_f64();
        let reserve_runs = u64::from(self.head.pairs) * 3;
        let search_budget = self.budget.less(reserve_runs, run_secs);
        if !search_budget.holds_more(0, 0.0, run_secs) {
            return Err(Failure::input(format!(
                "a budget of {} is used up by {reserve_runs} confirming runs of {run_secs} s: \
                 give more, or fewer --pairs",
                self.budget
            )));
        }
        let setup = Setup::new(self.head.seed);
        let build =
            |method: &str, setup: &Setup| search::build(method, setup).map_err(Failure::input);
        let mut grid = build("grid", &setup)?;
        // Half of the budget at most, so that the method has its own.
        self.stage(Stage::Grid, grid.as_mut(), &search_budget.half())?;
        let fixed = grid.best().ok_or_else(|| {
            Failure::broken("no run of the grid succeeded; the journal has what each of them said")
        })?;
        self.live.best(&format!("best fixed {}", fixed.candidate.label()), fixed.score);
        let mut method = build(&self.head.method, &setup)?;
        let ended = self.stage(Stage::Search, method.as_mut(), &search_budget)?;
        let best = method.best().unwrap_or_else(|| fixed.clone());
        let mut fresh = Vec::new();
        let comparisons = self.confirm(&fixed, &best, &mut fresh)?;
        Ok(Found { fixed, best, ended, comparisons, entries: self.journal.entries, fresh })
    }

    /// Replays a stage from the journal and runs what is left of it. Says how it ended.
    fn stage(
        &mut self,
        stage: Stage,
        strategy: &mut dyn Strategy,
        budget: &Budget,
    ) -> Result<String, Failure> {
        for entry in self.journal.of(stage) {
            strategy.tell(entry.trial, entry.told.clone()).map_err(Failure::input)?;
        }
        let full_secs = (self.head.settle + self.head.length).as_secs_f64();
        // A later stage's entries mean that this one had ended; its budget is not asked again.
        if self.journal.entries.last().is_some_and(|last| last.stage as u8 > stage as u8) {
            return Ok("it had ended before".to_owned());
        }
        loop {
            let trials = match strategy.ask() {
                Asked::Finished(end @ End::Coarse { .. }) => {
                    return Err(Failure::input(format!("{end}; and another --out")));
                }
                Asked::Finished(end) => return Ok(end.to_string()),
                Asked::Trials(trials) => trials,
            };
            for trial in trials {
                let (runs, spent) = (self.journal.entries.len() as u64, self.journal.spent_secs());
                if !budget.holds_more(runs, spent, full_secs) {
                    return Ok(format!("its budget of {budget} was used up"));
                }
                let best = strategy.best();
                self.live.stage(
                    stage,
                    &strategy.progress(),
                    best.as_ref(),
                    &self.budget,
                    spent,
                    runs,
                );
                let told = self.try_out(stage, &trial)?;
                strategy.tell(trial.number, told).map_err(Failure::broken)?;
            }
        }
    }

    /// Runs a trial and journals it; gives what the journal will say, to the last digit.
    fn try_out(&mut self, stage: Stage, trial: &Trial) -> Result<Told, Failure> {
        let setting = trial.candidate.deployable().map_err(Failure::broken)?;
        let length_secs = (self.head.length.as_secs_f64() * trial.fidelity).ceil().max(1.0);
        let length = Span::from_secs(length_secs as u64);
        let began = Instant::now();
        let told = match self.measure(&setting, length, trial.seed, None)? {
            Ok(measurement) => {
                let score = self.score(&Summary::of(&measurement));
                Told::Outcome(trial.outcome(score, &measurement))
            }
            Err(why) => Told::Fault(why),
        };
        let secs = began.elapsed().as_secs_f64();
        let label = trial.candidate.label();
        let entry = Entry { stage, trial: trial.number, label, secs, told, summary: None };
        let entry: Entry = serde_json::from_str(&serde_json::to_string(&entry)?)?;
        let told = entry.told.clone();
        self.journal.add(entry)?;
        Ok(told)
    }

    fn score(&self, summary: &Summary) -> f64 {
        self.objective.score_runs(std::slice::from_ref(summary), self.workload.is_bursty())
    }

    /// One run. What the target meets in it is the trial's; what makes all runs pointless is ours.
    fn measure(
        &mut self,
        setting: &Setting,
        length: Span,
        seed: u64,
        trace: Option<TraceRequest>,
    ) -> Result<Result<Measurement, String>, Failure> {
        let mut run = || {
            self.target.prepare(self.workload)?;
            self.target.deploy(setting)?;
            let settle = self.head.settle;
            self.target.run(&Run { seed, settle, length, progress: self.live, trace })
        };
        match run() {
            Ok(measurement) => Ok(Ok(measurement)),
            Err(TargetError::Cancelled) => {
                Err(Failure::Broken("interrupted; the same command goes on from here".to_owned()))
            }
            Err(error @ TargetError::Unsuitable { .. }) => Err(Failure::input(error)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// Fresh runs of all three, round by round, each round beginning with another one.
    fn confirm(
        &mut self,
        fixed: &Best,
        best: &Best,
        fresh: &mut Vec<Fresh>,
    ) -> Result<Vec<Comparison>, Failure> {
        let baseline = Candidate::setting("none");
        let three = [&baseline, &fixed.candidate, &best.candidate];
        let rounds = u64::from(self.head.pairs);
        for round in 0..rounds {
            for turn in 0..3 {
                let which = ((round + turn) % 3) as usize;
                let trial = round * 3 + which as u64;
                if self.journal.of(Stage::Confirm).any(|entry| entry.trial == trial) {
                    continue;
                }
                let (runs, spent) = (self.journal.entries.len() as u64, self.journal.spent_secs());
                let done = self.journal.of(Stage::Confirm).count() as u64;
                self.live.confirming(done, rounds * 3, &self.budget, spent, runs);
                fresh.push(self.confirm_one(round, which, three[which])?);
            }
        }
        let summaries = |which: u64| -> Vec<Summary> {
            let entry =
                |round| self.journal.of(Stage::Confirm).find(|e| e.trial == round * 3 + which);
            (0..rounds).filter_map(|round| entry(round)?.summary.clone()).collect()
        };
        let (none, fixed_runs, found) = (summaries(0), summaries(1), summaries(2));
        let labels = three.map(Candidate::label);
        Ok(vec![
            self.compared(&labels[0], &labels[2], &none, &found),
            self.compared(&labels[1], &labels[2], &fixed_runs, &found),
            self.compared(&labels[0], &labels[1], &none, &fixed_runs),
        ])
    }

    fn confirm_one(
        &mut self,
        round: u64,
        which: usize,
        candidate: &Candidate,
    ) -> Result<Fresh, Failure> {
        let setting = candidate.deployable().map_err(Failure::broken)?;
        let seed = self.head.seed + FRESH_SEEDS + round;
        let began = Instant::now();
        let trace = Some(TraceRequest::default());
        let measurement = self.measure(&setting, self.head.length, seed, trace)?;
        let measurement = measurement.map_err(|why| {
            Failure::broken(format!("a confirming run failed: {why}; the same command tries again"))
        })?;
        let summary = Summary::of(&measurement);
        let told = Told::Outcome(Outcome::of(self.score(&summary), &measurement));
        let entry = Entry {
            stage: Stage::Confirm,
            trial: round * 3 + which as u64,
            label: candidate.label(),
            secs: began.elapsed().as_secs_f64(),
            told,
            summary: Some(summary),
        };
        self.journal.add(entry)?;
        Ok(Fresh { which, round: round as u32, seed, setting, measurement })
    }

    fn compared(
        &self,
        baseline: &str,
        setting: &str,
        left: &[Summary],
        right: &[Summary],
    ) -> Comparison {
        let pairs: Vec<_> = left.iter().cloned().zip(right.iter().cloned()).collect();
        let metrics = metrics(self.workload);
        Comparison {
            setting: setting.to_owned(),
            baseline: baseline.to_owned(),
            metrics: metrics.iter().map(|metric| Compared::of(metric, &pairs)).collect(),
            pairs,
        }
    }
}
