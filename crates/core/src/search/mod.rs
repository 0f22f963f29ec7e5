//! Search for rule sets and fixed settings: strategies decide what to try, drivers try it.
//!
//! Source: ASCAR, section III-F, for what is searched and how trials are judged; the interface is
//! ours. A [`Strategy`] is asked for [`Trial`]s and told what each of them showed. It starts no
//! trial, computes no score and keeps no file: that is the driver's part.
//!
//! **Resume by replay.** A strategy is a function of its configuration (the text that it was built
//! from and its [`Setup`]) and of the tells so far, in their order. A driver that keeps a journal
//! of tells rebuilds the strategy after any end of its process: it builds it anew and tells it
//! every entry again; [`Strategy::ask`] need not be called in between. Two things are the
//! driver's: to journal a tell before it tells it, and to tell just what a reader of the journal
//! will read. [`Told`] reads back from JSON to the last digit, if the reader is built to do so
//! (`float_roundtrip` of `serde_json`, which this workspace sets).
//!
//! [`METHODS`] is the registry: to add a method, write one file beside this one and add its entry.
//!
//! ```
//! use afflux_core::search::{self, Asked, Outcome, Setup, Told};
//!
//! let mut search = search::build("grid:repeats=1", &Setup::new(7)).unwrap();
//! while let Asked::Trials(trials) = search.ask() {
//!     for trial in trials {
//!         // A driver would deploy `trial.candidate` and run the workload with `trial.seed`.
//!         let score = if trial.candidate.label() == "fixed:4" { 120.0 } else { 100.0 };
//!         let outcome = Outcome { score, speed_mb_s: score, ..Outcome::default() };
//!         search.tell(trial.number, Told::Outcome(outcome)).unwrap();
//!     }
//! }
//! assert_eq!(search.best().unwrap().candidate.label(), "fixed:4");
//! ```

mod anneal;
mod best_fixed;
mod candidate;
mod climb;
mod desk;
mod dice;
pub mod external;
mod grid;
mod outlier;
mod paired;
mod random;
mod remy;
mod sharp;
#[cfg(test)]
mod testing;
mod told;
mod walk;

pub use best_fixed::BestFixed;
pub use candidate::{Candidate, Digest};
pub use outlier::{Doubt, Next, Outliers};
pub use paired::referred;
pub use told::{Outcome, Told};

use crate::parameters::{Named, Parameter, ParameterError, Parameters};
use crate::rules::{RuleSet, SplitError};
use crate::units::Span;

/// All methods that can be named.
pub static METHODS: &[MethodEntry] = &[
    sharp::ENTRY,
    grid::ENTRY,
    random::ENTRY,
    remy::ENTRY,
    climb::ENTRY,
    anneal::ENTRY,
    external::ENTRY,
];

/// How a method is named, explained and built.
#[derive(Debug)]
pub struct MethodEntry {
    /// Its name.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Its parameters, in the order in which they may be given without a name.
    pub parameters: &'static [Parameter],
    /// Builds it.
    pub build: Build,
}

/// Builds a strategy from its parameters.
pub type Build = fn(&Parameters, &Setup) -> Result<Box<dyn Strategy>, ParameterError>;

/// What a search starts from, whatever its method. Part of its identity: keep it with the journal.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of every choice of the strategy, and of the workload's runs.
    pub seed: u64,
    /// What trials run on, unless a method says otherwise.
    pub source: Source,
    /// What stands before the search.
    pub baseline: Candidate,
    /// Whether the baseline runs beside each candidate, whose score then counts against that
    /// of its own pair, see [`referred`].
    pub paired: bool,
    /// The baseline's score that scores of pairs refer to; the first one measured when absent.
    pub reference: Option<f64>,
    /// Rules to start from, such as those of an earlier search; a method's own start when absent.
    pub start: Option<RuleSet>,
    /// The gap at which every path has its fair share of what the target can do, where it is known
    /// beforehand; methods that need it otherwise measure it, see [`Outcome::fair_gap_ns`].
    pub fair_gap: Option<Span>,
}

impl Setup {
    /// A search on the target, against the unregulated baseline.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            source: Source::Target,
            baseline: Candidate::setting("none"),
            paired: false,
            reference: None,
            start: None,
            fair_gap: None,
        }
    }
}

/// Where a trial runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The simulated twin of the target.
    Twin,
    /// The target itself.
    Target,
}

/// One run that a strategy wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its number in this search, counted from 0; what it showed is told under this number.
    pub number: u64,
    /// What is deployed.
    pub candidate: Candidate,
    /// The part of the workload's full length that it runs, above 0 and at most 1.
    pub fidelity: f64,
    /// What it runs on.
    pub source: Source,
    /// The pair that it is one of; `None` for a trial that stands alone.
    pub pair: Option<Pair>,
    /// Seed of the workload's choices. Trials that are to be compared share it.
    pub seed: u64,
    /// The trial as the program wrote it that wants it, see [`external::External`]. A journal keeps
    /// it, since replay alone does not bring it back. `None` where the method is no program.
    pub written: Option<serde_json::Value>,
    /// Whether the medians of its hits are wanted, for which [`Trial::outcome`] sees. They make a
    /// journal's line half as long again, so only a trial whose rules may be split at them does.
    pub medians: bool,
}

/// The place of a trial in a pair of a candidate and the baseline.
///
/// Both belong side by side, so that drift meets them alike: the driver runs them one right after
/// the other, in the order of their numbers. Which of the two is first changes from pair to pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pair {
    /// The pair's number in this search, from 0.
    pub number: u64,
    /// Whether this trial is the baseline's.
    pub is_baseline: bool,
}

/// What a strategy answers when it is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// All trials that it waits for, in the order in which they should run; never empty. They are
    /// independent of each other but for their pairs: those of one batch may run at the same time
    /// where the source allows it.
    Trials(Vec<Trial>),
    /// The search has ended, and why.
    Finished(End),
}

/// Why a search ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// All that the method had to try was tried.
    #[error("all was tried")]
    Complete,
    /// Too many trials failed.
    #[error("{failed} trials failed, the last one so: {last}")]
    Faults {
        /// How many.
        failed: u64,
        /// What the last one said.
        last: String,
    },
    /// No rule of the best set was ever used, so that there is none to split.
    #[error("no reply met any rule of the best set: give the workload more to do, or more time")]
    Unused,
    /// The rule that is to be split holds a single value in some indicator.
    #[error("the busiest rule is as narrow as rules can be: {0}")]
    Narrow(#[from] SplitError),
    /// Scores differ by less than the method tells apart.
    #[error(
        "a score of {score} is too coarse in units of {grain}: give the method a smaller grain, \
         as in grain={proposed}"
    )]
    Coarse {
        /// The first score, as text.
        score: String,
        /// The unit in which scores are compared, as text.
        grain: String,
        /// A unit that would do, as text.
        proposed: String,
    },
    /// The program that decides has nothing more to try.
    #[error("the search program has finished: {why}")]
    Finished {
        /// As it says.
        why: String,
    },
    /// The program that decides is gone, or of no use. What was found until then stands, but the
    /// search did not end by itself.
    #[error(transparent)]
    Program(#[from] external::ProgramError),
}

/// The best candidate so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// What it is. A rule set has the hits of the run that was looked at for it.
    pub candidate: Candidate,
    /// Its score, the mean over its runs as the method counts it.
    pub score: f64,
    /// How many runs that score is made of.
    pub runs: u32,
    /// The number of its first trial.
    pub trial: u64,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Progress {
    /// What it does now, in a few words.
    pub stage: &'static str,
    /// Epochs that have ended: within one, the number of rules does not change.
    pub epoch: u32,
    /// Rounds of this epoch that have ended.
    pub round: u32,
    /// Candidates of this round.
    pub candidates: u64,
    /// Those of them that were not tried yet, re-runs left out.
    pub candidates_left: u64,
    /// Rules of the candidates of this round; zero when they are not rule sets.
    pub rules: u64,
    /// Trials that were told, faults included.
    pub told: u64,
}

/// A tell for a trial that was not asked for, or was told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "trial {number} is not awaited by this search: its journal belongs to another search, \
     or was written by another version"
)]
pub struct NotAwaited {
    /// The number that was told.
    pub number: u64,
}

/// Decides what to try next.
///
/// `ask` has no effect that a tell could see: asked twice, a strategy answers the same, and a
/// replay need not ask at all. Everything moves in `tell`. Both take at most a millisecond.
pub trait Strategy: Send {
    /// All trials that it waits for, or that it has finished.
    fn ask(&mut self) -> Asked;

    /// Takes what the trial of that number showed. Trials of a batch may be told in any order; the
    /// order is part of what decides, so a replay keeps it.
    ///
    /// # Errors
    /// The trial is not awaited; nothing has changed then.
    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited>;

    /// The best candidate so far, if any was measured.
    fn best(&self) -> Option<Best>;

    /// How far it has come.
    fn progress(&self) -> Progress;
}

/// Builds the strategy written as `text`, such as `sharp`, `sharp:m=off,granularity=2`, `grid`.
///
/// # Errors
/// No such method, or a parameter that it does not take. Also `external`, well written or not,
/// since it takes a driver to run a program: read [`external::Order`] first.
///
/// ```
/// use afflux_core::search::{Setup, build};
/// assert!(build("gird", &Setup::new(1)).err().unwrap().to_string().contains("grid"));
/// ```
pub fn build(text: &str, setup: &Setup) -> Result<Box<dyn Strategy>, ParameterError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let entry = METHODS.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<_> = METHODS.iter().map(|entry| entry.name).collect();
        let (name, known) = (name.to_owned(), known.join(", "));
        ParameterError::UnknownName { kind: "method", name, known }
    })?;
    let named = Named { kind: "method", name: entry.name, parameters: entry.parameters };
    // The command of a program is not cut at its commas.
    let rest = match external::Order::read(text).transpose()? {
        Some(_) => "",
        None => rest,
    };
    let strategy = (entry.build)(&Parameters::parse(named, rest)?, setup)?;
    Ok(beside_baseline(strategy, setup))
}

/// The strategy with the baseline beside each of its trials, if `setup` wants it so; as [`build`]
/// has done it already.
pub fn beside_baseline(strategy: Box<dyn Strategy>, setup: &Setup) -> Box<dyn Strategy> {
    if setup.paired { Box::new(paired::Paired::new(strategy, setup)) } else { strategy }
}

#[cfg(test)]
mod tests {
    use super::testing::{Oracle, drive, own_methods, replays};
    use super::*;

    #[test]
    fn every_method_is_built_from_its_defaults_and_explains_itself() {
        for entry in own_methods() {
            let mut strategy = build(entry.name, &Setup::new(1)).unwrap();
            assert!(matches!(strategy.ask(), Asked::Trials(trials) if !trials.is_empty()));
            assert_eq!(strategy.best(), None, "{}", entry.name);
            let error = strategy.tell(99, Told::Cost(1.0)).unwrap_err();
            assert!(error.to_string().contains("trial 99"));
            for parameter in entry.parameters {
                assert!(!parameter.about.is_empty() && !parameter.default.is_empty());
                let bad = build(&format!("{}:{}=?", entry.name, parameter.name), &Setup::new(1));
                let error = bad.err().map(|error| error.to_string()).unwrap_or_default();
                assert!(error.contains(parameter.name), "{}: {error}", parameter.name);
            }
        }
        let error = build("sharp:colour=red", &Setup::new(1)).err().unwrap().to_string();
        assert!(
            error.starts_with("method sharp has no parameter `colour`: it takes m,"),
            "{error}"
        );
    }

    /// Faults, outliers, ties and drift all at once, and resumed in the midst of it.
    #[test]
    fn every_method_gets_through_bad_weather_and_resumes() {
        for entry in own_methods() {
            let oracle = Oracle {
                noise_percent: 15.0,
                outlier_every: 3,
                coarseness: 10.0,
                drift: 20.0,
                fails: |number| number % 29 == 3,
                ..Oracle::new(11)
            };
            let method = format!("{}:faults=1000", entry.name);
            let course = drive(&method, &Setup::new(3), &oracle, 400);
            let best = course.strategy.best().unwrap();
            assert!(best.score > 0.0 && best.runs > 0, "{method}: {best:?}");
            assert!(course.trials.iter().any(|trial| trial.number == best.trial));
            let ends = course.tells.len();
            for kept in [0, 1, ends / 3, ends / 2, ends - 1, ends] {
                replays(&method, &Setup::new(3), &course, kept);
            }
        }
    }

    #[test]
    fn what_always_fails_ends_every_search() {
        for entry in own_methods() {
            let oracle = Oracle { fails: |_| true, ..Oracle::new(1) };
            let course = drive(entry.name, &Setup::new(1), &oracle, 400);
            let Some(Asked::Finished(End::Faults { failed: 11, last })) = course.asked.last()
            else {
                panic!("{}: {:?}", entry.name, course.asked.last())
            };
            assert_eq!(last, "trial 10 was to fail");
            assert_eq!(course.strategy.best(), None);
        }
    }

    #[test]
    fn a_search_may_start_from_rules_that_it_is_handed() {
        let start =
            RuleSet::uniform(crate::rules::Action { add: 0.7, ..crate::rules::Action::NONE });
        let setup = Setup { start: Some(start.clone()), ..Setup::new(1) };
        for entry in own_methods().filter(|entry| entry.name != "grid") {
            let course = drive(entry.name, &setup, &Oracle::new(1), 30);
            assert_eq!(course.trials[0].candidate, Candidate::rules(start.clone()));
        }
    }
}
