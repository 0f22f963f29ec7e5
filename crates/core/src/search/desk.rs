//! What all methods keep in the same way: trials that are awaited, what candidates have scored so
//! far, and how many trials failed.

use std::collections::BTreeMap;

use super::{Asked, Best, Candidate, End, NotAwaited, Outcome, Setup, Source, Told, Trial};
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rules::RuleSet;

/// How many failed trials a search bears; the original gives up at the eleventh.
pub(super) const FAULTS: Parameter =
    Parameter { name: "faults", default: "10", about: "failed trials that the search bears" };

/// Whether every run of a candidate is one of a pair.
pub(super) const PAIRED: Parameter = Parameter {
    name: "paired",
    default: "off",
    about: "run the baseline beside each candidate and score the difference, on or off",
};

/// Trials that a strategy waits for, each with what the strategy wants to remember about it.
///
/// A desk may be set to run every candidate beside the baseline. Then a run is a pair of trials,
/// and its score is what the candidate has over the baseline of its own pair, added to the score
/// of the search's first baseline: drift of the target goes out, and scores keep their size.
#[derive(Debug)]
pub(super) struct Desk<T> {
    seed: u64,
    source: Source,
    baseline: Option<Candidate>,
    /// The score of the first baseline.
    reference: Option<f64>,
    next: u64,
    next_pair: u64,
    awaited: BTreeMap<u64, (Trial, Role<T>)>,
    /// The trials that were told of pairs whose other trial is still awaited.
    halves: BTreeMap<u64, Half<T>>,
    told: u64,
    faults: Faults,
}

/// What a trial is for.
#[derive(Debug)]
enum Role<T> {
    Candidate(T),
    Baseline,
}

/// A trial that was told.
#[derive(Debug)]
struct Half<T> {
    trial: Trial,
    role: Role<T>,
    shown: Result<Outcome, String>,
}

impl<T> Half<T> {
    /// The run that it is by itself; none for a baseline.
    fn alone(self) -> Option<Run<T>> {
        let Trial { number, candidate, .. } = self.trial;
        match self.role {
            Role::Candidate(tag) => Some(Run { number, candidate, tag, shown: self.shown }),
            Role::Baseline => None,
        }
    }
}

/// A run that was told, or both trials of a pair.
#[derive(Debug)]
pub(super) struct Run<T> {
    /// The candidate's trial.
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
    /// A desk as the parameters [`FAULTS`] and [`PAIRED`] want it.
    pub(super) fn open(parameters: &Parameters, setup: &Setup) -> Result<Self, ParameterError> {
        let faults = parameters.count(FAULTS.name, 0, 1_000_000)?;
        Ok(Self::new(setup, faults, parameters.switch(PAIRED.name)?))
    }

    /// A desk with nothing on it, which bears `most_faults` failed trials.
    pub(super) fn new(setup: &Setup, most_faults: u64, paired: bool) -> Self {
        Self {
            seed: setup.seed,
            source: setup.source,
            baseline: paired.then(|| setup.baseline.clone()),
            reference: None,
            next: 0,
            next_pair: 0,
            awaited: BTreeMap::new(),
            halves: BTreeMap::new(),
            told: 0,
            faults: Faults { failed: 0, most: most_faults, last: String::new() },
        }
    }

    /// Goes on from another desk, all of whose trials were told: its numbers, its pairs, its faults
    /// and the baseline that its scores refer to.
    pub(super) fn follow<U>(&mut self, other: &Desk<U>) {
        (self.next, self.next_pair, self.told) = (other.next, other.next_pair, other.told);
        (self.reference, self.faults) = (other.reference, other.faults.clone());
    }

    /// The next trial has this number, or a greater one if it is taken.
    pub(super) fn number_from(&mut self, number: u64) {
        self.next = self.next.max(number);
    }

    /// Asks for one run of `candidate`.
    ///
    /// `run` counts the runs of one candidate. All candidates' runs of the same number share their
    /// seed, so that a difference between them is not one between workloads.
    pub(super) fn post(&mut self, candidate: &Candidate, run: u32, fidelity: f64, tag: T) {
        let trial = Trial {
            number: self.next,
            candidate: candidate.clone(),
            fidelity,
            source: self.source,
            pair: None,
            seed: self.seed.wrapping_add(u64::from(run)),
            written: None,
        };
        let Some(baseline) = self.baseline.clone() else {
            return self.put(trial, Role::Candidate(tag));
        };
        let pair = self.next_pair;
        self.next_pair += 1;
        let candidate = Trial { pair: Some(pair), ..trial };
        let baseline = Trial { candidate: baseline, ..candidate.clone() };
        // Who goes first changes from pair to pair, so that it gives no advantage.
        let mut both = [(baseline, Role::Baseline), (candidate, Role::Candidate(tag))];
        if pair % 2 == 1 {
            both.swap(0, 1);
        }
        both.into_iter().for_each(|(trial, role)| self.put(trial, role));
    }

    fn put(&mut self, mut trial: Trial, role: Role<T>) {
        trial.number = self.next;
        self.awaited.insert(self.next, (trial, role));
        self.next += 1;
    }

    /// Takes a trial that was told off the desk. The run that it belongs to is done, unless it is
    /// one of a pair whose other trial is still awaited.
    pub(super) fn take(&mut self, number: u64, told: Told) -> Result<Option<Run<T>>, NotAwaited> {
        let (trial, role) = self.awaited.remove(&number).ok_or(NotAwaited { number })?;
        self.told += 1;
        let shown = told.outcome();
        if let Err(why) = &shown {
            self.faults.failed += 1;
            self.faults.last.clone_from(why);
        }
        let pair = trial.pair;
        let told = Half { trial, role, shown };
        let Some(pair) = pair else {
            return Ok(told.alone());
        };
        let Some(other) = self.halves.remove(&pair) else {
            self.halves.insert(pair, told);
            return Ok(None);
        };
        Ok(self.judge(told, other))
    }

    /// The run that two trials of a pair make.
    fn judge(&mut self, one: Half<T>, other: Half<T>) -> Option<Run<T>> {
        let (candidate, baseline) = match one.role {
            Role::Candidate(_) => (one, other),
            Role::Baseline => (other, one),
        };
        let mut run = candidate.alone()?;
        let baseline = match baseline.shown {
            Ok(outcome) => outcome.score,
            Err(why) => {
                run.shown = Err(format!("its baseline failed: {why}"));
                return Some(run);
            }
        };
        let reference = *self.reference.get_or_insert(baseline);
        if let Ok(outcome) = &mut run.shown {
            outcome.score += reference - baseline;
        }
        Some(run)
    }

    /// How many trials were told.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// What is to be remembered about an awaited trial; nothing about a baseline.
    pub(super) fn tag(&self, number: u64) -> Option<&T> {
        match &self.awaited.get(&number)?.1 {
            Role::Candidate(tag) => Some(tag),
            Role::Baseline => None,
        }
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

impl Duel {
    /// No champion yet; one needs `repeats` runs.
    pub(super) fn new(repeats: u32) -> Self {
        Self { champion: None, challenger: None, repeats }
    }

    /// Sends a challenger; the last one must be done with.
    pub(super) fn challenge(&mut self, candidate: Candidate) {
        self.challenger = Some(Standing::new(candidate));
    }

    /// Takes what a run of the challenger showed. The run of it that is due next, if one is: its
    /// number among the challenger's runs.
    pub(super) fn take(&mut self, run: u64, shown: &Result<Outcome, String>) -> Option<u32> {
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
            return Some(challenger.runs);
        }
        if let Some(done) = self.challenger.take()
            && !lost
        {
            self.champion = Some(done);
        }
        None
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
