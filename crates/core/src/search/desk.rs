//! What all methods keep in the same way: trials that are awaited, what candidates have scored so
//! far, and how many trials failed.

use std::collections::BTreeMap;

use super::{Asked, Best, Candidate, End, NotAwaited, Outcome, Setup, Source, Told, Trial};
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rules::RuleSet;

/// How many failed trials a search bears; the original gives up at the eleventh.
pub(super) const FAULTS: Parameter =
    Parameter { name: "faults", default: "10", about: "failed trials that the search bears" };

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

/// A run that was told.
#[derive(Debug)]
pub(super) struct Run<T> {
    /// Its trial.
    pub(super) number: u64,
    /// The candidate.
    pub(super) candidate: Candidate,
    /// What was to be remembered.
    pub(super) tag: T,
    /// What it showed, or why it failed.
    pub(super) shown: Result<Outcome, String>,
}

/// Failed trials of a whole search.
#[derive(Clone, Debug)]
struct Faults {
    failed: u64,
    most: u64,
    last: String,
}

impl<T> Desk<T> {
    /// A desk as the parameter [`FAULTS`] wants it.
    pub(super) fn open(parameters: &Parameters, setup: &Setup) -> Result<Self, ParameterError> {
        let faults = parameters.count(FAULTS.name, 0, 1_000_000)?;
        Ok(Self::new(setup, faults))
    }

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

    /// The next trial has this number, or a greater one if it is taken.
    pub(super) fn number_from(&mut self, number: u64) {
        self.next = self.next.max(number);
    }

    /// Asks for one run of `candidate`.
    ///
    /// `run` counts the runs of one candidate. All candidates' runs of the same number share their
    /// seed, so that a difference between them is not one between workloads. What is asked for is
    /// returned, for methods that want something special of it.
    pub(super) fn post(
        &mut self,
        candidate: &Candidate,
        run: u32,
        fidelity: f64,
        tag: T,
    ) -> &mut Trial {
        let number = self.next;
        self.next += 1;
        let trial = Trial {
            number,
            candidate: candidate.clone(),
            fidelity,
            source: self.source,
            pair: None,
            seed: self.seed.wrapping_add(u64::from(run)),
            written: None,
            medians: false,
        };
        &mut self.awaited.entry(number).or_insert((trial, tag)).0
    }

    /// Takes a trial that was told off the desk.
    pub(super) fn take(&mut self, number: u64, told: Told) -> Result<Run<T>, NotAwaited> {
        let (trial, tag) = self.awaited.remove(&number).ok_or(NotAwaited { number })?;
        self.told += 1;
        let shown = told.outcome();
        if let Err(why) = &shown {
            self.faults.failed += 1;
            self.faults.last.clone_from(why);
        }
        Ok(Run { number, candidate: trial.candidate, tag, shown })
    }

    /// How many trials were told.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// What is to be remembered about an awaited trial.
    pub(super) fn tag(&self, number: u64) -> Option<&T> {
        Some(&self.awaited.get(&number)?.1)
    }

    /// How many trials are awaited.
    pub(super) fn waiting(&self) -> u64 {
        self.awaited.len() as u64
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

/// The best so far against one challenger at a time, for methods that try one thing after another.
///
/// The first run of a challenger is compared with the champion's mean. While its own mean is
/// better, it runs again; with all its runs, and still better, it is the champion. So what wins by
/// one lucky run does not stay, and what loses costs no more than one run.
#[derive(Debug)]
pub(super) struct Duel {
    champion: Option<Standing>,
    challenger: Option<Standing>,
    repeats: u32,
}

/// What a run means for the challenger.
#[derive(Debug)]
pub(super) enum Judged {
    /// It runs again; the number of that run among its runs.
    Again(u32),
    /// It is done with.
    Done {
        /// The challenger, with all its runs.
        tried: Standing,
        /// Whether it is the champion now.
        won: bool,
    },
}

impl Duel {
    /// No champion yet; one needs `repeats` runs.
    pub(super) fn new(repeats: u32) -> Self {
        Self { champion: None, challenger: None, repeats }
    }

    /// Runs that a champion needs.
    pub(super) fn repeats(&self) -> u32 {
        self.repeats
    }

    /// Sends a challenger; the last one must be done with.
    pub(super) fn challenge(&mut self, candidate: Candidate) {
        self.challenger = Some(Standing::new(candidate));
    }

    /// Takes what a run of the challenger showed; none if there is no challenger.
    pub(super) fn take(&mut self, run: u64, shown: &Result<Outcome, String>) -> Option<Judged> {
        let challenger = self.challenger.as_mut()?;
        match shown {
            Ok(outcome) => challenger.take(run, outcome.score),
            Err(_) => challenger.failed += 1,
        }
        let mean = challenger.mean();
        let best = self.champion.as_ref().and_then(Standing::mean);
        let ahead = mean.is_some_and(|mean| best.is_none_or(|best| mean > best));
        // A second chance after a fault, since it may have been the target's.
        let lost = challenger.failed > 1 || (mean.is_some() && !ahead);
        if !lost && challenger.runs < self.repeats {
            return Some(Judged::Again(challenger.runs));
        }
        let tried = self.challenger.take()?;
        if !lost {
            self.champion = Some(tried.clone());
        }
        Some(Judged::Done { tried, won: !lost })
    }

    /// The champion's rules, if it has any.
    pub(super) fn champion(&self) -> Option<&RuleSet> {
        self.champion.as_ref()?.candidate.rule_set()
    }

    /// The champion; before there is one, the challenger.
    pub(super) fn best(&self) -> Option<Best> {
        self.champion.as_ref().or(self.challenger.as_ref())?.best()
    }
}
