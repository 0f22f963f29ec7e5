//! What all methods keep in the same way: trials that are awaited, what candidates have scored so
//! far, and how many trials failed.

use std::collections::BTreeMap;

use super::{Asked, Best, Candidate, End, NotAwaited, Setup, Source, Told, Trial};
use crate::search::Outcome;

/// Failures that a search survives unless it is told otherwise; the original gives up at the next.
pub(super) const FAULTS: &str = "10";

/// Trials that a strategy waits for, each with what the strategy wants to remember about it.
#[derive(Debug)]
pub(super) struct Desk<T> {
    seed: u64,
    source: Source,
    next: u64,
    awaited: BTreeMap<u64, (Trial, T)>,
    told: u64,
    faults: Faults,
}

/// Failed trials of a whole search.
#[derive(Debug)]
struct Faults {
    failed: u64,
    most: u64,
    last: String,
}

impl<T> Desk<T> {
    /// A desk with nothing on it, which bears `most_faults` failed trials.
    pub(super) fn new(setup: &Setup, most_faults: u64) -> Self {
        Self {
            seed: setup.seed,
            source: setup.source,
            next: 0,
            awaited: BTreeMap::new(),
            told: 0,
            faults: Faults { failed: 0, most: most_faults, last: String::new() },
        }
    }

    /// Asks for one run of `candidate`.
    ///
    /// `run` counts the runs of one candidate. All candidates' runs of the same number share their
    /// seed, so that a difference between them is not one between workloads.
    pub(super) fn post(&mut self, candidate: &Candidate, run: u32, fidelity: f64, tag: T) {
        let (number, candidate, pair) = (self.next, candidate.clone(), None);
        self.next += 1;
        let (source, seed) = (self.source, self.seed.wrapping_add(u64::from(run)));
        self.awaited
            .insert(number, (Trial { number, candidate, fidelity, source, pair, seed }, tag));
    }

    /// Takes a trial that was told off the desk, and what it showed or why it failed.
    pub(super) fn take(
        &mut self,
        number: u64,
        told: Told,
    ) -> Result<(Trial, T, Result<Outcome, String>), NotAwaited> {
        let (trial, tag) = self.awaited.remove(&number).ok_or(NotAwaited { number })?;
        self.told += 1;
        let shown = told.outcome();
        if let Err(why) = &shown {
            self.faults.failed += 1;
            self.faults.last.clone_from(why);
        }
        Ok((trial, tag, shown))
    }

    /// How many trials were told.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Whether nothing is awaited.
    pub(super) fn is_empty(&self) -> bool {
        self.awaited.is_empty()
    }

    /// The end of a search that has failed too often.
    pub(super) fn worn_out(&self) -> Option<End> {
        let Faults { failed, most, ref last } = self.faults;
        (failed > most).then(|| End::Faults { failed, last: last.clone() })
    }

    /// What `ask` answers: the end, if there is one, else all that is awaited.
    pub(super) fn answer(&self, end: Option<&End>) -> Asked {
        match end {
            Some(end) => Asked::Finished(end.clone()),
            None => Asked::Trials(self.awaited.values().map(|(trial, _)| trial.clone()).collect()),
        }
    }
}

/// What the runs of one candidate came to.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// The candidate.
    pub(super) candidate: Candidate,
    /// Runs that were measured.
    pub(super) runs: u32,
    /// Runs that failed.
    pub(super) failed: u32,
    /// The number of its first measured trial.
    pub(super) trial: u64,
    sum: f64,
}

impl Standing {
    /// A candidate that was not tried yet.
    pub(super) fn new(candidate: Candidate) -> Self {
        Self { candidate, runs: 0, failed: 0, trial: 0, sum: 0.0 }
    }

    /// Takes one measured run.
    pub(super) fn take(&mut self, trial: u64, score: f64) {
        if self.runs == 0 {
            self.trial = trial;
        }
        self.runs += 1;
        self.sum += score;
    }

    /// Its mean score; none before its first run.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.sum / f64::from(self.runs))
    }

    /// As others see it.
    pub(super) fn best(&self) -> Option<Best> {
        let (candidate, trial, runs) = (self.candidate.clone(), self.trial, self.runs);
        self.mean().map(|score| Best { candidate, score, runs, trial })
    }
}

/// Indices of the candidates that were measured, the best first; equal ones in their order.
pub(super) fn ranking(standings: &[Standing]) -> Vec<usize> {
    let mut ranked: Vec<(usize, f64)> = standings
        .iter()
        .enumerate()
        .filter_map(|(index, standing)| Some((index, standing.mean()?)))
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked.into_iter().map(|(index, _)| index).collect()
}
