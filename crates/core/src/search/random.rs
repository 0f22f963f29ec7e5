//! Random rule sets: what any cleverer method has to beat with the same budget.
//!
//! Each candidate is drawn afresh. Its space is cut at random up to `cuts` times: each cut takes a
//! rule, an indicator and a place, all by chance, the place evenly on a logarithmic scale from an
//! eighth to eight times the mean that was last observed, so that cuts fall where states are
//! whatever the target's speed. Each rule gets an action drawn evenly from the ranges of the
//! paper's table II, in whole hundredths and microseconds. Not from the papers, but for the ranges.

use super::desk::{Desk, Duel, FAULTS};
use super::sharp::{ADD, Axes, Axis, GAP, GapAxis, MULTIPLY};
use super::{
    Asked, Best, Candidate, End, MethodEntry, NotAwaited, Outcome, Progress, Setup, Strategy, Told,
};
use crate::indicator::{COUNT, INDICATORS, Signals};
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rng::Rng;
use crate::rules::{Action, Gap, Hits, Rule, RuleSet, UNBOUNDED};
use crate::units::Span;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "random",
    about: "random actions over random small partitions of the indicator space",
    parameters: &[CUTS, WINDOW, REPEATS, FAULTS],
    build: |parameters, setup| Ok(Box::new(Random::new(parameters, setup)?)),
};

/// How finely the space is cut.
pub(super) const CUTS: Parameter =
    Parameter { name: "cuts", default: "3", about: "most cuts of the space, 0 to 30" };

/// The largest window of the sets that are drawn.
pub(super) const WINDOW: Parameter = Parameter {
    name: "window",
    default: "30",
    about: "largest window that rules may set, 1 to 256",
};

/// Runs that a new best needs.
pub(super) const REPEATS: Parameter =
    Parameter { name: "repeats", default: "3", about: "runs before a new best counts, 1 to 100" };

/// What is taken for the mean state while none was observed: 40 ms between replies and between
/// sends, and twice the least process time.
const MEANS_UNSEEN: Signals = [40_000_000, 40_000_000, 2_000];

/// Draws rule sets.
#[derive(Clone, Debug)]
pub(super) struct Dice {
    rng: Rng,
    cuts: u64,
    window_max: f64,
    means: Signals,
}

impl Dice {
    /// Dice as the parameters [`CUTS`] and [`WINDOW`] want them.
    pub(super) fn new(parameters: &Parameters, setup: &Setup) -> Result<Self, ParameterError> {
        Ok(Self {
            rng: Rng::new(setup.seed).fork("rule sets"),
            cuts: parameters.count(CUTS.name, 0, 30)?,
            window_max: parameters.number(WINDOW.name, 1.0, 256.0)?,
            means: MEANS_UNSEEN,
        })
    }

    /// A number from 0 up to 1, all equally likely.
    pub(super) fn part(&mut self) -> f64 {
        self.rng.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    /// Takes note of where states are.
    pub(super) fn observe(&mut self, outcome: &Outcome) {
        let replies: u128 = outcome.hits.iter().map(|hits| u128::from(hits.count)).sum();
        if replies == 0 {
            return;
        }
        self.means = std::array::from_fn(|axis| {
            let weight =
                |hits: &crate::rules::Hits| u128::from(hits.count) * u128::from(hits.means[axis]);
            (outcome.hits.iter().map(weight).sum::<u128>() / replies) as u64
        });
    }

    /// A rule set.
    pub(super) fn set(&mut self) -> RuleSet {
        let mut set = RuleSet::uniform(Action::NONE);
        set.window_max = self.window_max;
        for _ in 0..self.rng.below(self.cuts + 1) {
            self.cut(&mut set.rules);
        }
        for rule in &mut set.rules {
            rule.action = self.action();
        }
        set
    }

    /// Cuts one rule in two, where the place that was drawn lies within it.
    fn cut(&mut self, rules: &mut Vec<Rule>) {
        let index = self.rng.below(rules.len() as u64) as usize;
        let axis = self.rng.below(COUNT as u64) as usize;
        let eighths_to_eight = libm::exp2(self.rng.below(6_001) as f64 / 1_000.0 - 3.0);
        let at = (self.means[axis] as f64 * eighths_to_eight) as u64;
        let at = at.clamp(INDICATORS[axis].floor + 1, UNBOUNDED - 1);
        let region = rules[index].region;
        if region.low[axis] < at && at < region.high[axis] {
            let mut upper = rules[index];
            upper.region.low[axis] = at;
            rules[index].region.high[axis] = at;
            rules.insert(index + 1, upper);
        }
    }

    /// `set` with one variable of one rule changed: the rule, the variable and its new value drawn
    /// evenly, the value from the steps that SHARP would try. A variable out of range stays.
    pub(super) fn neighbour(&mut self, set: &RuleSet) -> RuleSet {
        let mut set = set.clone();
        set.rules.iter_mut().for_each(|rule| rule.hits = Hits::default());
        let rule = self.rng.below(set.rules.len() as u64) as usize;
        let Some(Rule { action, .. }) = set.rules.get_mut(rule) else { return set };
        let axes =
            Axes { multiply: MULTIPLY, add: ADD, gap: Some(GapAxis::Time(GAP)), keep: false };
        let kinds = axes.each(action);
        let near = &kinds[self.rng.below(kinds.len() as u64) as usize];
        *action = near[self.rng.below(near.len() as u64) as usize];
        set
    }

    /// An action, evenly from the ranges.
    pub(super) fn action(&mut self) -> Action {
        let mut draw =
            |axis: Axis| axis.low + self.rng.below((axis.high - axis.low) as u64 + 1) as i64;
        let (multiply, add, gap) = (draw(MULTIPLY), draw(ADD), draw(GAP));
        Action {
            multiply: Some(multiply as f64 / 100.0),
            add: add as f64 / 100.0,
            gap: Gap::Time(Span::from_micros(gap as u64)),
        }
    }
}

struct Random {
    dice: Dice,
    desk: Desk<()>,
    duel: Duel,
    rules: u64,
    end: Option<End>,
}

impl Random {
    fn new(parameters: &Parameters, setup: &Setup) -> Result<Self, ParameterError> {
        let mut random = Self {
            dice: Dice::new(parameters, setup)?,
            desk: Desk::open(parameters, setup)?,
            duel: Duel::new(parameters.count(REPEATS.name, 1, 100)? as u32),
            rules: 0,
            end: None,
        };
        let first = setup.start.clone().unwrap_or_else(|| random.dice.set());
        random.send(first);
        Ok(random)
    }

    fn send(&mut self, set: RuleSet) {
        self.rules = set.rules.len() as u64;
        let candidate = Candidate::rules(set);
        self.desk.post(&candidate, 0, 1.0, ());
        self.duel.challenge(candidate);
    }
}

impl Strategy for Random {
    fn ask(&mut self) -> Asked {
        self.desk.answer(self.end.as_ref())
    }

    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited> {
        let run = self.desk.take(trial, told)?;
        if let Ok(outcome) = &run.shown {
            self.dice.observe(outcome);
        }
        let candidate = run.candidate;
        match self.duel.take(run.number, &run.shown) {
            Some(number) => self.desk.post(&candidate, number, 1.0, ()),
            None => {
                let set = self.dice.set();
                self.send(set);
            }
        }
        self.end = self.end.take().or_else(|| self.desk.worn_out());
        Ok(())
    }

    fn best(&self) -> Option<Best> {
        self.duel.best()
    }

    fn progress(&self) -> Progress {
        Progress {
            stage: "random rule sets",
            candidates: 1,
            candidates_left: 1,
            rules: self.rules,
            told: self.desk.told(),
            ..Progress::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Severity, lint};
    use crate::search::testing::{Oracle, drive, replays};
    use proptest::prelude::*;

    #[test]
    fn every_set_is_a_partition_and_its_actions_are_within_the_limits() {
        let course = drive("random:cuts=12", &Setup::new(3), &Oracle::new(3), 300);
        let mut sizes = std::collections::BTreeSet::new();
        for trial in &course.trials {
            let set = trial.candidate.rule_set().unwrap();
            sizes.insert(set.rules.len());
            assert!(lint::set(set).iter().all(|finding| finding.severity != Severity::Error));
            for rule in &set.rules {
                let Action { multiply: Some(multiply), add, gap: Gap::Time(gap) } = rule.action
                else {
                    panic!("{rule}")
                };
                assert!((0.3..=2.0).contains(&multiply) && (-2.34..=2.34).contains(&add));
                assert!(gap <= Span::from_millis(70));
            }
        }
        assert!(sizes.len() > 5, "{sizes:?}");
    }

    #[test]
    fn the_best_ran_three_times_and_is_better_than_the_first() {
        let oracle = Oracle { noise_percent: 5.0, outlier_every: 3, ..Oracle::new(8) };
        let course = drive("random", &Setup::new(8), &oracle, 300);
        let best = course.strategy.best().unwrap();
        let clean = |candidate: &Candidate| oracle.of_rules(candidate.rule_set().unwrap()).0;
        assert_eq!(best.runs, 3);
        assert!(clean(&best.candidate) > clean(&course.trials[0].candidate) + 20.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_prefix_of_a_journal_leads_to_the_same_asks(seed in 0_u64..99, kept in 0_usize..200) {
            let fails = |number| number % 37 == 5;
            let oracle = Oracle { noise_percent: 9.0, fails, ..Oracle::new(seed) };
            let method = if seed % 2 == 0 { "random" } else { "random:cuts=9" };
            let course = drive(method, &Setup::new(seed), &oracle, 220);
            replays(method, &Setup::new(seed), &course, kept);
        }
    }
}
