//! Draws rule sets and neighbours of rule sets, for the methods that leave it to chance.

use super::sharp::{ADD, Axes, Axis, GAP, GapAxis, MULTIPLY};
use super::{Outcome, Setup};
use crate::indicator::{COUNT, INDICATORS, Signals};
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rng::Rng;
use crate::rules::{Action, Gap, Hits, Rule, RuleSet, UNBOUNDED};
use crate::units::Span;

/// How finely the space is cut.
pub(super) const CUTS: Parameter =
    Parameter { name: "cuts", default: "3", about: "most cuts of the space, 0 to 30" };

/// The largest window of the sets that are drawn.
pub(super) const WINDOW: Parameter = Parameter {
    name: "window",
    default: "30",
    about: "largest window that rules may set, 1 to 256",
};

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
        let all = Hits::together(&outcome.hits);
        if all.count > 0 {
            self.means = all.means;
        }
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
