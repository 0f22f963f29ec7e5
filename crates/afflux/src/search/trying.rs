//! One trial of a search: its runs, and those made again because they were doubted.

use std::time::Instant;

use afflux_core::measure::{Measurement, TraceRequest};
use afflux_core::search::{Next, Outcome, Outliers, Told, Trial};
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::{Run, TargetError};
use afflux_core::units::Span;

use super::Driver;
use super::journal::{Again, Entry, Stage};
use crate::failure::Failure;

/// The runs of one trial have seeds this far apart, so that none is another trial's.
const SEEDS_APART: u64 = 1 << 24;

impl Driver<'_> {
    /// Runs a trial and journals it; gives what the journal will say, to the last digit.
    pub(super) fn try_out(
        &mut self,
        stage: Stage,
        trial: &Trial,
        round: Option<(u32, u32)>,
        outliers: &mut Outliers,
    ) -> Result<Told, Failure> {
        let began = Instant::now();
        let (told, again) = self.settled(trial, outliers)?;
        let entry = Entry {
            stage,
            trial: trial.number,
            label: trial.candidate.label(),
            seed: trial.seed,
            pair: trial.pair,
            round,
            fidelity: trial.fidelity,
            secs: began.elapsed().as_secs_f64(),
            told,
            again,
            summary: None,
            written: trial.written.clone(),
        };
        let entry: Entry = serde_json::from_str(&serde_json::to_string(&entry)?)?;
        let told = entry.told.clone();
        self.journal.add(entry)?;
        if let Told::Outcome(outcome) = &told {
            outliers.take(trial, outcome);
        }
        Ok(told)
    }

    /// Makes a trial, and makes it again while it is doubted. Gives what is told, and how it came
    /// to that if it was made more than once.
    fn settled(
        &mut self,
        trial: &Trial,
        outliers: &Outliers,
    ) -> Result<(Told, Option<Again>), Failure> {
        let mut told = vec![self.made(trial)?];
        let mut outcomes = vec![outcome_of(&told[0])];
        let doubt = outcomes[0].as_ref().and_then(|outcome| outliers.doubt(trial, outcome));
        let why = doubt.map(|doubt| doubt.to_string()).unwrap_or_default();
        let chosen = loop {
            if let Next::Tell(chosen) = outliers.next(trial, &outcomes) {
                break chosen;
            }
            if told.len() == 1 {
                let label = trial.candidate.label();
                self.live.note(&format!("trial of {label} made again: {why}"));
            }
            told.push(self.made(trial)?);
            outcomes.extend(told.last().map(outcome_of));
        };
        let scores: Vec<Option<f64>> = told.iter().map(score_of).collect();
        let again = (scores.len() > 1).then_some(Again { why, scores });
        Ok((told.swap_remove(chosen), again))
    }

    /// Makes a trial once: all its runs.
    fn made(&mut self, trial: &Trial) -> Result<Told, Failure> {
        let setting = trial.candidate.deployable().map_err(Failure::broken)?;
        let length_secs = (self.head.length.as_secs_f64() * trial.fidelity).ceil().max(1.0);
        let length = Span::from_secs(length_secs as u64);
        let mut measured = Vec::new();
        for run in 0..u64::from(self.head.runs) {
            let seed = trial.seed.wrapping_add(run * SEEDS_APART);
            match self.measure(&setting, length, seed, None)? {
                Ok(measurement) => measured.push(measurement),
                Err(why) => return Ok(Told::Fault(why)),
            }
        }
        let outcome = self.outcome(&measured, |score, first| trial.outcome(score, first));
        Ok(match outcome.score.is_finite() {
            true => Told::Outcome(outcome),
            false => Told::Fault(format!(
                "the objective {} has no finite value for what was measured",
                self.objective
            )),
        })
    }

    /// What a set of runs under one setting came to; `of` makes it of the score and the first run.
    pub(super) fn outcome(
        &self,
        runs: &[Measurement],
        of: impl Fn(f64, &Measurement) -> Outcome,
    ) -> Outcome {
        let summaries: Vec<Summary> = runs.iter().map(Summary::of).collect();
        let bursty = self.workload.is_bursty();
        let score = self.objective.score_runs(&summaries, bursty);
        let Some(first) = runs.first() else { return Outcome { score, ..Outcome::default() } };
        let outcome = of(score, first);
        // In bursts the seconds differ by nature, and say nothing about noise.
        let speed_deviation_mb_s = if bursty { 0.0 } else { outcome.speed_deviation_mb_s };
        Outcome { speed_deviation_mb_s, ..outcome }
    }

    /// The measurement, unless requests got no answer: then it says more about the target's trouble
    /// than about the setting. An objective may score them instead.
    fn answered(&self, measurement: Measurement) -> Result<Measurement, String> {
        let unanswered = Summary::of(&measurement).faults;
        match unanswered == 0 || self.objective.names("faults") {
            true => Ok(measurement),
            false => Err(format!(
                "{unanswered} requests got no answer: see to the target, or score them with \
                 `faults` in the objective"
            )),
        }
    }

    /// One run. What the target meets in it is the trial's; what makes all runs pointless is ours.
    pub(super) fn measure(
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
            Ok(measurement) => Ok(self.answered(measurement)),
            Err(TargetError::Cancelled) => {
                Err(Failure::Broken("interrupted; the same command goes on from here".to_owned()))
            }
            Err(error @ TargetError::Unsuitable { .. }) => Err(Failure::input(error)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }
}

fn outcome_of(told: &Told) -> Option<Outcome> {
    match told {
        Told::Outcome(outcome) => Some(outcome.clone()),
        Told::Cost(_) | Told::Fault(_) => None,
    }
}

/// The score of what was told, if it has one.
pub(super) fn score_of(told: &Told) -> Option<f64> {
    match told {
        Told::Outcome(outcome) => Some(outcome.score),
        Told::Cost(cost) => Some(-cost),
        Told::Fault(_) => None,
    }
}
