//! Remy's search: all rules in turn, candidates first on short runs, splits after several passes.
//!
//! Source: the paper that ASCAR compares itself with (its section III-F and figure 5), the
//! behaviour of Remy's public code, and that of the `remy` mode of ASCAR's.
//!
//! - A *cycle* begins with a measured set. A *pass* takes the rules one after the other, the most
//!   used first (the last of several), and leaves out those that were never used. A *round* tries
//!   all actions around one rule's, the unchanged value of each variable included; while its best
//!   is better than the unchanged action, the same rule goes on from there.
//! - A round has two stages: all candidates at a tenth of the length; those below the greater of
//!   the median and the best less five percent fall out, the unchanged action never; the rest run
//!   at full length. All runs of a round share their seed, and the next round has another, so that
//!   a difference is one between actions.
//! - After `passes` passes, or one while there is a single rule, the set is compared with that of
//!   the cycle's start; on regression the older one is kept. Then the most used rule is split, or
//!   the next one that can be, and a new cycle begins. A rule is cut at the *median* of each
//!   indicator over what it saw; in the middle of its box where the median is the lower bound; not
//!   at all in an indicator in which its box holds a single value.
//!
//! Departures: rules are tried within the ranges of ASCAR's table II with its first steps and one
//! ratio of 4; the comparison at ten times the length is one of `checks` runs at full length; the
//! indicators are ASCAR's three, so that a rule is cut into eight, not sixteen; medians are counted
//! in bins from every seventh hit, so that a cut is within a 64th of their exact one, and a cut
//! that falls out of a narrow box so goes to its middle. An outcome without medians, as from a
//! driver that does not count them, has its rules cut at their means: with a long tail, those leave
//! the lower half more than half of the replies.

use super::desk::{Desk, FAULTS};
use super::sharp::{ADD, Axes, Axis, GAP, GapAxis, Growth, MULTIPLY};
use super::{
    Asked, Best, Candidate, End, MethodEntry, NotAwaited, Outcome, Progress, Setup, Strategy, Told,
};
use crate::indicator::Signals;
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rules::{Action, Gap, Hits, RuleSet, SplitError, split_at};
use crate::units::Span;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "remy",
    about: "all rules in turn, on short runs first, split after several passes",
    parameters: &[
        Parameter {
            name: "short",
            default: "10",
            about: "first stage's length, percent, 1 to 100",
        },
        Parameter { name: "passes", default: "4", about: "passes before a split, 1 to 100" },
        Parameter { name: "repeats", default: "1", about: "runs at full length, 1 to 100" },
        Parameter { name: "checks", default: "3", about: "runs before a split, 1 to 100" },
        Parameter { name: "window", default: "30", about: "largest window of rules, 1 to 256" },
        FAULTS,
    ],
    build: |parameters, setup| Ok(Box::new(Remy::new(parameters, setup)?)),
};

/// The ratio of one step to the one before.
const RATIO: f64 = 4.0;

/// Candidates this far below the best of the short runs fall out.
const BEHIND: f64 = 0.05;

/// The gap of the first rule, as in ASCAR's algorithm 1.
const FIRST_GAP: Span = Span::from_millis(20);

struct Options {
    short: f64,
    passes: u32,
    repeats: u32,
    checks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The set at the beginning of a cycle, by itself.
    Alone,
    /// All candidates of a round, on short runs.
    Short,
    /// Those that are left, at full length.
    Full,
    /// The set of the cycle's start against the present one.
    Compare,
}

/// One of those that run in a stage.
struct Entrant {
    set: RuleSet,
    /// Scores of this stage.
    sum: f64,
    runs: u32,
    /// The first measured trial of this stage.
    trial: u64,
    hits: Vec<Hits>,
    medians: Vec<Option<Signals>>,
    /// Failures since its last success.
    failures: u32,
}

impl Entrant {
    fn new(set: RuleSet) -> Self {
        Self {
            set,
            sum: 0.0,
            runs: 0,
            trial: 0,
            hits: Vec::new(),
            medians: Vec::new(),
            failures: 0,
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.sum / f64::from(self.runs))
    }

    fn take(&mut self, trial: u64, outcome: Outcome) {
        if self.runs == 0 {
            (self.trial, self.hits, self.medians) = (trial, outcome.hits, outcome.medians);
        }
        self.sum += outcome.score;
        self.runs += 1;
        self.failures = 0;
    }
}

/// The place of an entrant, and the number of its run, from which the seed comes.
type Tag = (usize, u32);

struct Remy {
    options: Options,
    axes: Axes,
    desk: Desk<Tag>,
    stage: Stage,
    entrants: Vec<Entrant>,
    /// The present set, with what its rules saw.
    set: RuleSet,
    /// The medians of what its rules saw, where they were told.
    medians: Vec<Option<Signals>>,
    best: Option<Best>,
    /// The set at the beginning of the cycle.
    old: RuleSet,
    /// The rule that is being improved.
    rule: usize,
    /// Which rules this pass is done with.
    done: Vec<bool>,
    passes: u32,
    cycles: u32,
    rounds: u32,
    /// Counted over the whole search, for the seeds.
    stages: u32,
    end: Option<End>,
}

impl Remy {
    fn new(parameters: &Parameters, setup: &Setup) -> Result<Self, ParameterError> {
        let mut set =
            RuleSet::uniform(Action { multiply: Some(1.0), add: 0.0, gap: Gap::Time(FIRST_GAP) });
        set.window_max = parameters.number("window", 1.0, 256.0)?;
        let set = setup.start.clone().unwrap_or(set);
        let count = |name| parameters.count(name, 1, 100).map(|count| count as u32);
        let options = Options {
            short: parameters.number("short", 1.0, 100.0)? / 100.0,
            passes: count("passes")?,
            repeats: count("repeats")?,
            checks: count("checks")?,
        };
        let steps = |axis: Axis| Axis { growth: Growth::Ratio(RATIO), ..axis };
        let axes = Axes {
            multiply: steps(MULTIPLY),
            add: steps(ADD),
            gap: Some(GapAxis::Time(steps(GAP))),
            keep: true,
        };
        let mut remy = Self {
            options,
            axes,
            desk: Desk::open(parameters, setup)?,
            stage: Stage::Alone,
            entrants: Vec::new(),
            old: set.clone(),
            best: None,
            rule: 0,
            done: Vec::new(),
            passes: 0,
            cycles: 0,
            rounds: 0,
            stages: 0,
            end: None,
            set,
            medians: Vec::new(),
        };
        remy.open(Stage::Alone, vec![remy.set.clone()]);
        Ok(remy)
    }

    /// Begins a stage with new entrants.
    fn open(&mut self, stage: Stage, sets: Vec<RuleSet>) {
        let unseen = |mut set: RuleSet| {
            set.rules.iter_mut().for_each(|rule| rule.hits = Hits::default());
            Entrant::new(set)
        };
        self.entrants = sets.into_iter().map(unseen).collect();
        self.post_all(stage);
    }

    /// Asks for all runs of a stage.
    fn post_all(&mut self, stage: Stage) {
        self.stage = stage;
        let runs = match stage {
            Stage::Alone | Stage::Short => 1,
            Stage::Full => self.options.repeats,
            Stage::Compare => self.options.checks,
        };
        // Both stages of a round share their first seed; every other stage has new ones.
        if stage != Stage::Full {
            self.stages += 1;
        }
        for run in 0..runs {
            (0..self.entrants.len()).for_each(|index| self.post((index, run)));
        }
    }

    fn post(&mut self, tag: Tag) {
        let candidate = Candidate::rules(self.entrants[tag.0].set.clone());
        let fidelity = if self.stage == Stage::Short { self.options.short } else { 1.0 };
        // Enough room for the runs of one stage between the seeds of two.
        let run = self.stages.wrapping_mul(128).wrapping_add(tag.1);
        // Only what runs in these stages is ever split before it has run again.
        let medians = matches!(self.stage, Stage::Full | Stage::Compare);
        self.desk.post(&candidate, run, fidelity, tag).medians = medians;
    }

    /// Goes on when a stage is complete.
    fn advance(&mut self) {
        while self.desk.is_empty() && self.end.is_none() {
            let next = match self.stage {
                Stage::Alone => {
                    self.adopt(0);
                    self.done = vec![false; self.set.rules.len()];
                    self.next_rule()
                }
                Stage::Short => {
                    self.drop_the_worse();
                    Ok(())
                }
                Stage::Full => self.end_round(),
                Stage::Compare => {
                    let regressed = self.entrants[1].mean() < self.entrants[0].mean();
                    self.adopt(usize::from(!regressed));
                    self.split()
                }
            };
            self.end = next.err();
        }
    }

    /// The entrant with the greatest mean, the first of several.
    fn leader(&self) -> Option<usize> {
        let mut leader: Option<(usize, f64)> = None;
        for (index, entrant) in self.entrants.iter().enumerate() {
            if let Some(mean) = entrant.mean()
                && leader.is_none_or(|(_, best)| mean > best)
            {
                leader = Some((index, mean));
            }
        }
        leader.map(|(index, _)| index)
    }

    /// Makes an entrant the present set, with what its rules saw.
    fn adopt(&mut self, index: usize) {
        let entrant = &self.entrants[index];
        self.set = entrant.set.clone();
        for (rule, hits) in self.set.rules.iter_mut().zip(&entrant.hits) {
            rule.hits = *hits;
        }
        self.medians.clone_from(&entrant.medians);
        self.best = entrant.mean().map(|score| Best {
            candidate: Candidate::rules(self.set.clone()),
            score,
            runs: entrant.runs,
            trial: entrant.trial,
        });
    }

    /// Keeps what is near the best of the short runs, and the unchanged action, which is the first.
    fn drop_the_worse(&mut self) {
        let mut scores: Vec<f64> = self.entrants.iter().filter_map(Entrant::mean).collect();
        scores.sort_by(f64::total_cmp);
        let best = scores.last().copied().unwrap_or(0.0);
        let median = scores.get(scores.len() / 2).copied().unwrap_or(0.0);
        let least = median.max(best - best.abs() * BEHIND);
        let mut first = true;
        self.entrants.retain(|entrant| {
            std::mem::take(&mut first) || entrant.mean().is_some_and(|mean| mean >= least)
        });
        for entrant in &mut self.entrants {
            *entrant = Entrant::new(std::mem::replace(
                &mut entrant.set,
                RuleSet { rules: Vec::new(), ..self.set },
            ));
        }
        self.post_all(Stage::Full);
    }

    /// Goes on from the best action, or leaves the rule when the unchanged one is the best.
    fn end_round(&mut self) -> Result<(), End> {
        self.rounds += 1;
        let leader = self.leader().unwrap_or(0);
        self.adopt(leader);
        if leader != 0 {
            self.open_round();
            return Ok(());
        }
        self.done[self.rule] = true;
        self.next_rule()
    }

    fn open_round(&mut self) {
        let around = self.axes.around(&self.set.rules[self.rule].action);
        let sets = around.into_iter().map(|action| {
            let mut set = self.set.clone();
            set.rules[self.rule].action = action;
            set
        });
        let sets = sets.collect();
        self.open(Stage::Short, sets);
    }

    /// The most used rule that this pass is not done with, or the end of the pass.
    fn next_rule(&mut self) -> Result<(), End> {
        loop {
            let rules = self.set.rules.iter().map(|rule| rule.hits.count).enumerate();
            if rules.clone().all(|(_, count)| count == 0) {
                return Err(End::Unused);
            }
            let open = rules.filter(|(index, count)| *count > 0 && !self.done[*index]);
            if let Some((rule, _)) = open.max_by_key(|(_, count)| *count) {
                self.rule = rule;
                self.open_round();
                return Ok(());
            }
            self.passes += 1;
            if self.passes >= self.options.passes || self.set.rules.len() == 1 {
                break;
            }
            self.done.fill(false);
        }
        let actions = |set: &RuleSet| set.rules.iter().map(|rule| rule.action).collect::<Vec<_>>();
        if actions(&self.set) == actions(&self.old) {
            return self.split();
        }
        self.open(Stage::Compare, vec![self.old.clone(), self.set.clone()]);
        Ok(())
    }

    /// Splits the most used rule that can be split; the result begins a cycle.
    fn split(&mut self) -> Result<(), End> {
        let mut used: Vec<usize> =
            (0..self.set.rules.len()).filter(|&rule| self.set.rules[rule].hits.count > 0).collect();
        used.sort_by_key(|&rule| std::cmp::Reverse((self.set.rules[rule].hits.count, rule)));
        let mut refused: Option<SplitError> = None;
        for rule in used {
            let means = self.set.rules[rule].hits.means;
            let at = self.medians.get(rule).copied().flatten().unwrap_or(means);
            match split_at(&self.set, rule, &at) {
                Ok(set) => {
                    self.old = set.clone();
                    (self.cycles, self.passes, self.rounds) = (self.cycles + 1, 0, 0);
                    self.open(Stage::Alone, vec![set]);
                    return Ok(());
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.map_or(End::Unused, End::Narrow))
    }
}

impl Strategy for Remy {
    fn ask(&mut self) -> Asked {
        self.desk.answer(self.end.as_ref())
    }

    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited> {
        let run = self.desk.take(trial, told)?;
        let entrant = &mut self.entrants[run.tag.0];
        match run.shown {
            Ok(outcome) => entrant.take(run.number, outcome),
            Err(_) => {
                entrant.failures += 1;
                // Once more, in case the fault was the target's. What stands for the present set
                // must be measured, however often it fails.
                let needed = run.tag.0 == 0 || self.stage == Stage::Compare;
                if needed || entrant.failures == 1 {
                    self.post(run.tag);
                }
            }
        }
        self.end = self.end.take().or_else(|| self.desk.worn_out());
        self.advance();
        Ok(())
    }

    fn best(&self) -> Option<Best> {
        self.best.clone()
    }

    fn progress(&self) -> Progress {
        let tried = self.entrants.iter().filter(|entrant| entrant.runs + entrant.failures > 0);
        let candidates = self.entrants.len() as u64;
        Progress {
            stage: match self.stage {
                Stage::Alone => "the set as it is",
                Stage::Short => "short runs of all candidates",
                Stage::Full => "the better ones at full length",
                Stage::Compare => "the set of the cycle's start against the present one",
            },
            epoch: self.cycles,
            round: self.rounds,
            candidates,
            candidates_left: candidates - tried.count() as u64,
            rules: self.entrants.first().map_or(0, |entrant| entrant.set.rules.len()) as u64,
            told: self.desk.told(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Trial;
    use crate::search::testing::{Oracle, drive, replays};
    use proptest::prelude::*;

    #[test]
    fn candidates_run_short_first_and_the_better_ones_in_full() {
        let course = drive("remy", &Setup::new(5), &Oracle::new(5), 500);
        let trials = &course.trials;
        // From <1, 0, 20 ms>: 6 x 5 x 8 values, the unchanged ones included.
        assert_eq!((trials[0].fidelity, trials[1].fidelity), (1.0, 0.1));
        let short = trials[1..].iter().take_while(|trial| trial.fidelity == 0.1).count();
        assert_eq!(short, 6 * 5 * 8);
        assert_eq!(trials[1].candidate, trials[0].candidate);
        let full = trials[1 + short..].iter().take_while(|trial| trial.fidelity == 1.0).count();
        // At most half of them are above the median.
        assert!((2..=1 + short / 2).contains(&full), "{full}");
        assert_eq!(trials[1 + short].candidate, trials[0].candidate);
        let seeds: std::collections::BTreeSet<u64> =
            trials[1..=short + full].iter().map(|trial| trial.seed).collect();
        assert_eq!(seeds.len(), 1);
        assert!(!seeds.contains(&trials[1 + short + full].seed));
    }

    #[test]
    fn all_rules_get_better_in_turn_and_then_one_is_split() {
        // A seed whose first cycle is short enough to leave trials for the eight rules.
        let oracle = Oracle { noise_percent: 0.5, ..Oracle::new(7) };
        let setup = Setup::new(7);
        let course = drive("remy:passes=1,checks=2", &setup, &oracle, 9_000);
        let rules: Vec<u64> = course.epochs.iter().map(|(rules, _)| *rules).collect();
        assert_eq!(rules[..2], [1, 8], "{rules:?}");
        let best = course.strategy.best().unwrap();
        let clean = |candidate: &Candidate| oracle.of_rules(candidate.rule_set().unwrap()).0;
        let (before, after) = (clean(&course.trials[0].candidate), clean(&best.candidate));
        assert!(after > before + 60.0, "{before} -> {after}");
        // More than one rule was changed.
        let found = best.candidate.rule_set().unwrap();
        let mut actions: Vec<String> =
            found.rules.iter().map(|rule| rule.action.to_string()).collect();
        actions.dedup();
        assert!(actions.len() > 2, "{found:?}");
    }

    #[test]
    fn rules_are_cut_at_medians_which_short_runs_do_not_tell() {
        let oracle = Oracle { noise_percent: 0.5, ..Oracle::new(6) };
        let course = drive("remy:passes=1,checks=2", &Setup::new(6), &oracle, 1_000);
        assert!(course.trials.iter().all(|trial| !(trial.medians && trial.fidelity < 1.0)));
        let rules = |trial: &Trial| trial.candidate.rule_set().unwrap().rules.clone();
        let split = course.trials.iter().position(|trial| rules(trial).len() == 8).unwrap();
        assert!(course.trials[split - 1].medians && !course.trials[split].medians);
        let medians = oracle.medians_of(&course.trials[split - 1])[0].unwrap();
        assert_eq!(rules(&course.trials[split])[0].region.high, medians);
        let means = oracle.of_rules(course.trials[0].candidate.rule_set().unwrap()).1[0].means;
        assert!((0..3).all(|axis| means[axis] != medians[axis]));
    }

    #[test]
    fn on_regression_the_older_set_is_kept() {
        let mut strategy = crate::search::build("remy:checks=1", &Setup::new(1)).unwrap();
        let outcome = |score| {
            let hits = vec![Hits { count: 9, means: [30_000_000, 30_000_000, 2_000] }];
            Told::Outcome(Outcome { score, speed_mb_s: score, hits, ..Outcome::default() })
        };
        let mut first = None;
        while strategy.progress().epoch == 0 {
            assert!(strategy.progress().told < 5_000);
            let Asked::Trials(trials) = strategy.ask() else { panic!() };
            let first = first.get_or_insert(trials[0].candidate.clone());
            let compares = strategy.progress().stage.starts_with("the set of");
            for trial in trials {
                // Whatever is new seems better, until it is compared with the first set.
                let score = if compares == (trial.candidate == *first) { 200.0 } else { 100.0 };
                strategy.tell(trial.number, outcome(score)).unwrap();
            }
        }
        let Asked::Trials(trials) = strategy.ask() else { panic!() };
        let split = trials[0].candidate.rule_set().unwrap();
        assert_eq!(split.rules.len(), 8);
        assert_eq!(split.rules[0].action, first.unwrap().rule_set().unwrap().rules[0].action);
    }

    #[test]
    fn without_any_reply_it_ends_with_a_clear_word() {
        let mut strategy = crate::search::build("remy", &Setup::new(1)).unwrap();
        strategy.tell(0, Told::Outcome(Outcome { score: 5.0, ..Outcome::default() })).unwrap();
        assert_eq!(strategy.ask(), Asked::Finished(End::Unused));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn any_prefix_of_a_journal_leads_to_the_same_asks(seed in 0_u64..99, kept in 0_usize..700) {
            let fails = |number| number % 97 == 5;
            let oracle =
                Oracle { noise_percent: 9.0, fails, outlier_every: 3, ..Oracle::new(seed) };
            let method =
                if seed % 2 == 0 { "remy:passes=1,checks=1" } else { "remy:repeats=2" };
            let course = drive(method, &Setup::new(seed), &oracle, 720);
            replays(method, &Setup::new(seed), &course, kept);
        }
    }
}
