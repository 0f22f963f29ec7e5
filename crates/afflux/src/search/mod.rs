//! The driver of a search: it runs what a strategy asks for, scores it, and keeps the journal.
//!
//! A search has three stages. The grid of fixed settings comes first, as the honest competitor;
//! then the method; then fresh runs of the baseline, the best fixed setting and what was found, in
//! rotating order and with seeds of their own, which alone say what was gained.
//!
//! Unless it is told otherwise, the baseline runs beside each candidate, and what scores is the
//! difference, so that drift of the target goes out. A trial that is doubted is made again.

pub(crate) mod budget;
pub(crate) mod external;
pub(crate) mod journal;
pub(crate) mod live;
mod record;
mod session;
pub(crate) mod standing;
#[cfg(test)]
mod tests;
mod trying;

pub(crate) use session::Session;

use std::time::Instant;

use afflux_core::measure::{Measurement, TraceRequest};
use afflux_core::objective::Objective;
use afflux_core::search::{
    self, Asked, Best, BestFixed, Candidate, End, Outcome, Outliers, Setup, Strategy, Told,
};
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::Target;
use afflux_core::units::Span;
use afflux_core::workload::Workload;

use crate::experiment::{Compared, Comparison, follow_on, metrics};
use crate::failure::Failure;
use budget::Budget;
use journal::{Entry, Head, Journal, JournalError, Stage, Start};
use live::Live;
use standing::Standings;

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

/// What a search has learnt so far.
#[derive(Default)]
pub(crate) struct Course {
    /// How candidates stand.
    pub(crate) standings: Standings,
    /// What runs are usual.
    outliers: Outliers,
    /// Seconds that pass here for each second of a run.
    pace: f64,
    /// The best of the grid, once that is over.
    pub(crate) best_fixed: Option<Best>,
}

/// What a search found.
pub(crate) struct Found {
    /// The best of the grid.
    pub(crate) fixed: Best,
    /// The best of the method; the grid's best when the method found nothing better to try.
    pub(crate) best: Best,
    /// How the method ended.
    pub(crate) ended: String,
    /// What was found against the baseline; then, unless it is the best fixed setting itself,
    /// against that one, and that one against the baseline.
    pub(crate) comparisons: Vec<Comparison>,
    /// All trials.
    pub(crate) entries: Vec<Entry>,
    /// The confirming runs of this process; a resumed search has only those that were left.
    pub(crate) fresh: Vec<Fresh>,
}

/// A confirming run.
pub(crate) struct Fresh {
    /// 0 the baseline, 1 what was found, 2 the best fixed setting where that is another.
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
        let pace = self.pace()?;
        let run_secs = pace * (self.head.settle + self.head.length).as_secs_f64();
        let confirm_secs = pace * (self.head.settle + self.head.confirm_length).as_secs_f64();
        let reserve_runs = u64::from(self.head.pairs) * 3;
        let search_budget = self.budget.less(reserve_runs, confirm_secs);
        if !search_budget.holds_more(0, 0.0, run_secs) {
            return Err(Failure::input(format!(
                "a budget of {} is used up by {reserve_runs} confirming runs of {confirm_secs} s: \
                 give more, or fewer --pairs",
                self.budget
            )));
        }
        let mut course = Course { pace, ..Course::default() };
        let setup = Setup { paired: !self.head.unpaired, ..Setup::new(self.head.seed) };
        let build =
            |method: &str, setup: &Setup| search::build(method, setup).map_err(Failure::input);
        // The grid may be all that is wanted. Else it has half of the budget at most, so that the
        // method has its own.
        let is_grid = self.head.method.split(':').next() == Some("grid");
        let (method, budget) = match is_grid {
            true => (self.head.method.as_str(), search_budget),
            false => ("grid", search_budget.half()),
        };
        let mut grid = build(method, &setup)?;
        let ended = self.stage(Stage::Grid, grid.as_mut(), &budget, &mut course)?;
        let fixed = grid.best().ok_or_else(|| {
            Failure::broken("no run of the grid succeeded; the journal has what each of them said")
        })?;
        let (best, ended) = if is_grid {
            (fixed.clone(), ended)
        } else {
            let label = fixed.candidate.label();
            let setup = Setup {
                reference: course.standings.reference,
                start: match self.head.start {
                    Start::Method => None,
                    Start::Fixed => BestFixed::of(&label, self.fair_gap(&label)).map(|f| f.rules()),
                },
                ..setup
            };
            course.best_fixed = Some(fixed.clone());
            let (name, talk) = (&self.head.method, self.live.talk());
            let mut method = external::strategy(name, &setup, &self.journal, talk)?;
            let ended = self.stage(Stage::Search, method.as_mut(), &search_budget, &mut course)?;
            // A program that decided is ended here: it must not disturb the confirming runs.
            (method.best().unwrap_or_else(|| fixed.clone()), ended)
        };
        let mut fresh = Vec::new();
        let comparisons = self.confirm(&fixed, &best, &mut fresh)?;
        Ok(Found { fixed, best, ended, comparisons, entries: self.journal.entries, fresh })
    }

    /// Seconds that pass here for each second of a run: budgets of time count those. Where runs do
    /// not take their length, one that nobody keeps tells.
    fn pace(&mut self) -> Result<f64, Failure> {
        if self.target.is_in_real_time() || matches!(self.budget, Budget::Runs(_)) {
            return Ok(1.0);
        }
        let (length, began) = (self.head.length, Instant::now());
        let measured = self.measure(&Setting::none(), length, self.head.seed, None)?;
        measured.map_err(Failure::broken)?;
        Ok(began.elapsed().as_secs_f64() / (self.head.settle + length).as_secs_f64())
    }

    /// Runs and seconds so far, those of earlier lives of the search included.
    fn spent(&self) -> (u64, f64) {
        (self.journal.runs(self.head.runs), self.journal.spent_secs())
    }

    /// The fair gap of a path that a trial of the grid showed.
    fn fair_gap(&self, label: &str) -> Option<Span> {
        let mut trials = self.journal.of(Stage::Grid).filter(|entry| entry.label == label);
        trials.find_map(|entry| match &entry.told {
            Told::Outcome(outcome) => outcome.fair_gap_ns.map(Span::from_nanos),
            _ => None,
        })
    }

    /// Replays a stage from the journal and runs what is left of it. Says how it ended.
    fn stage(
        &mut self,
        stage: Stage,
        strategy: &mut dyn Strategy,
        budget: &Budget,
        course: &mut Course,
    ) -> Result<String, Failure> {
        for entry in self.journal.of(stage) {
            let trial = match strategy.ask() {
                Asked::Trials(trials) => trials.into_iter().find(|t| t.number == entry.trial),
                Asked::Finished(_) => None,
            };
            strategy.tell(entry.trial, entry.told.clone()).map_err(Failure::input)?;
            course.standings.take(entry);
            if let (Some(trial), Told::Outcome(outcome)) = (trial, &entry.told) {
                course.outliers.take(&trial, outcome);
            }
        }
        let full_secs = course.pace * (self.head.settle + self.head.length).as_secs_f64();
        // A later stage's entries mean that this one had ended; its budget is not asked again.
        if self.journal.entries.last().is_some_and(|last| last.stage as u8 > stage as u8) {
            return Ok("it had ended before".to_owned());
        }
        loop {
            let trials = match strategy.ask() {
                Asked::Finished(end @ End::Coarse { .. }) => {
                    return Err(Failure::input(format!("{end}; and another --out")));
                }
                Asked::Finished(End::Program(error)) => return Err(external::failure(&error)),
                Asked::Finished(end) => return Ok(end.to_string()),
                Asked::Trials(trials) => trials,
            };
            // What is told may change what is wanted, so each trial is asked for anew.
            let Some(trial) = trials.into_iter().next() else {
                return Err(Failure::broken("the method asks for nothing and has not finished"));
            };
            let (runs, spent) = self.spent();
            if !budget.holds_more(runs, spent, full_secs * f64::from(self.head.runs)) {
                return Ok(format!("its budget of {budget} was used up"));
            }
            let (come, part) = (strategy.progress(), self.budget.spent_part(runs, spent));
            self.live.stage(stage, &come, strategy.best().as_ref(), course, part);
            let round = (stage == Stage::Search).then_some((come.epoch, come.round));
            let told = self.try_out(stage, &trial, round, &mut course.outliers)?;
            strategy.tell(trial.number, told).map_err(Failure::broken)?;
            if let Some(entry) = self.journal.entries.last() {
                course.standings.take(entry);
            }
        }
    }

    /// Fresh runs of the baseline, of what was found and of the best fixed setting, round by round,
    /// each round beginning with another one.
    fn confirm(
        &mut self,
        fixed: &Best,
        best: &Best,
        fresh: &mut Vec<Fresh>,
    ) -> Result<Vec<Comparison>, Failure> {
        let baseline = Candidate::setting("none");
        let mut sides = vec![&baseline, &best.candidate];
        if fixed.candidate != best.candidate {
            sides.push(&fixed.candidate);
        }
        let mut trace = Some(TraceRequest::default());
        let rounds = u64::from(self.head.pairs);
        let total = rounds * sides.len() as u64;
        for round in 0..rounds {
            for turn in 0..sides.len() {
                let which = (round as usize + turn) % sides.len();
                if self.confirmed(round, which).is_some() {
                    continue;
                }
                let (runs, spent) = self.spent();
                let part = self.budget.spent_part(runs, spent);
                let done = self.journal.of(Stage::Confirm).count() as u64;
                self.live.confirming(done, total, part);
                fresh.push(self.confirm_one(round, which, sides[which], &mut trace)?);
            }
        }
        let summaries = |which: usize| -> Vec<Summary> {
            (0..rounds).filter_map(|round| self.confirmed(round, which)?.summary.clone()).collect()
        };
        let compared = |left: usize, right: usize| {
            let labels = [sides[left].label(), sides[right].label()];
            self.compared(&labels[0], &labels[1], &summaries(left), &summaries(right))
        };
        Ok(match sides.len() {
            2 => vec![compared(0, 1)],
            _ => vec![compared(0, 1), compared(2, 1), compared(0, 2)],
        })
    }

    /// The entry of a confirming run that was made.
    fn confirmed(&self, round: u64, which: usize) -> Option<&Entry> {
        let trial = round * 3 + which as u64;
        self.journal.of(Stage::Confirm).find(|entry| entry.trial == trial)
    }

    fn confirm_one(
        &mut self,
        round: u64,
        which: usize,
        candidate: &Candidate,
        trace: &mut Option<TraceRequest>,
    ) -> Result<Fresh, Failure> {
        let setting = candidate.deployable().map_err(Failure::broken)?;
        let seed = self.head.seed.wrapping_add(FRESH_SEEDS + round);
        let began = Instant::now();
        let measurement = self.measure(&setting, self.head.confirm_length, seed, *trace)?;
        let measurement = measurement.map_err(|why| {
            Failure::broken(format!("a confirming run failed: {why}; the same command tries again"))
        })?;
        follow_on(trace, &measurement);
        let entry = Entry {
            stage: Stage::Confirm,
            trial: round * 3 + which as u64,
            label: candidate.label(),
            seed,
            pair: None,
            round: None,
            fidelity: 1.0,
            secs: began.elapsed().as_secs_f64(),
            told: Told::Outcome(self.outcome(std::slice::from_ref(&measurement), Outcome::of)),
            again: None,
            summary: Some(Summary::of(&measurement)),
            written: None,
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
