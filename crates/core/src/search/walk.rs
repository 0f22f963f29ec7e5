//! The walk of the methods that try one rule set after another: random, climbing, annealing.
//!
//! Each set that is tried challenges the best so far (see [`Duel`]); when it is done with, the
//! method's [`Steps`] say which comes next. All else is the same for all of them, and stands here.

use super::desk::{Desk, Duel, Judged, Standing};
use super::dice::Dice;
use super::{Asked, Best, Candidate, End, NotAwaited, Progress, Setup, Strategy, Told};
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rules::RuleSet;

/// Runs that a new best needs.
pub(super) const REPEATS: Parameter =
    Parameter { name: "repeats", default: "3", about: "runs before a new best counts, 1 to 100" };

/// Where a method goes.
pub(super) trait Steps: Send {
    /// The set to try next. `tried` is the one that is done with; it is the best now if it `won`.
    fn next(&mut self, dice: &mut Dice, duel: &mut Duel, tried: &Standing, won: bool) -> RuleSet;

    /// The best that it knows.
    fn best(&self, duel: &Duel) -> Option<Best> {
        duel.best()
    }

    /// How far it has come: what only the method itself can say.
    fn progress(&self) -> Progress;
}

/// A method that goes by such steps.
pub(super) struct Walk<S> {
    steps: S,
    dice: Dice,
    desk: Desk<()>,
    /// Judges what is the best.
    duel: Duel,
    /// Rules of the set that is tried.
    rules: u64,
    end: Option<End>,
}

impl<S: Steps> Walk<S> {
    /// A walk that begins with the rules that the search starts from, or else with some by chance.
    pub(super) fn new(
        parameters: &Parameters,
        setup: &Setup,
        steps: S,
    ) -> Result<Self, ParameterError> {
        let mut walk = Self {
            steps,
            dice: Dice::new(parameters, setup)?,
            desk: Desk::open(parameters, setup)?,
            duel: Duel::new(parameters.count(REPEATS.name, 1, 100)? as u32),
            rules: 0,
            end: None,
        };
        let first = setup.start.clone().unwrap_or_else(|| walk.dice.set());
        walk.send(first);
        Ok(walk)
    }

    fn send(&mut self, set: RuleSet) {
        self.rules = set.rules.len() as u64;
        let candidate = Candidate::rules(set);
        self.desk.post(&candidate, 0, 1.0, ());
        self.duel.challenge(candidate);
    }
}

impl<S: Steps> Strategy for Walk<S> {
    fn ask(&mut self) -> Asked {
        self.desk.answer(self.end.as_ref())
    }

    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited> {
        let run = self.desk.take(trial, told)?;
        if let Ok(outcome) = &run.shown {
            self.dice.observe(outcome);
        }
        match self.duel.take(run.number, &run.shown) {
            Some(Judged::Again(number)) => {
                self.desk.post(&run.candidate, number, 1.0, ());
            }
            Some(Judged::Done { tried, won }) => {
                let next = self.steps.next(&mut self.dice, &mut self.duel, &tried, won);
                self.send(next);
            }
            None => {}
        }
        self.end = self.end.take().or_else(|| self.desk.worn_out());
        Ok(())
    }

    fn best(&self) -> Option<Best> {
        self.steps.best(&self.duel)
    }

    fn progress(&self) -> Progress {
        Progress { rules: self.rules, told: self.desk.told(), ..self.steps.progress() }
    }
}
