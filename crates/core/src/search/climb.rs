//! Hill climbing with random restarts.
//!
//! Source: ASCAR, section III-F names it as the obvious method. From a random rule set, one
//! variable of one rule changes at a time; what is better stays. After `patience` neighbours in a
//! row that were no better, it starts anew elsewhere.

use super::desk::{Desk, Duel, FAULTS};
use super::random::{CUTS, Dice, REPEATS, WINDOW};
use super::{
    Asked, Best, Candidate, End, MethodEntry, NotAwaited, Progress, Setup, Strategy, Told,
};
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rules::RuleSet;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "climb",
    about: "hill climbing with random restarts",
    parameters: &[
        Parameter {
            name: "patience",
            default: "30",
            about: "neighbours in a row that are no better before a restart, 1 to 10000",
        },
        CUTS,
        WINDOW,
        REPEATS,
        FAULTS,
    ],
    build: |parameters, setup| Ok(Box::new(Climb::new(parameters, setup)?)),
};

struct Climb {
    dice: Dice,
    desk: Desk<()>,
    /// The hill that is being climbed: its champion is where the climber stands.
    duel: Duel,
    repeats: u32,
    patience: u64,
    /// Neighbours in a row that were no better.
    in_vain: u64,
    restarts: u32,
    rules: u64,
    /// The best of the hills before.
    summit: Option<Best>,
    end: Option<End>,
}

impl Climb {
    fn new(parameters: &Parameters, setup: &Setup) -> Result<Self, ParameterError> {
        let repeats = parameters.count(REPEATS.name, 1, 100)? as u32;
        let mut climb = Self {
            dice: Dice::new(parameters, setup)?,
            desk: Desk::open(parameters, setup)?,
            duel: Duel::new(repeats),
            repeats,
            patience: parameters.count("patience", 1, 10_000)?,
            in_vain: 0,
            restarts: 0,
            rules: 0,
            summit: None,
            end: None,
        };
        let first = setup.start.clone().unwrap_or_else(|| climb.dice.set());
        climb.send(first);
        Ok(climb)
    }

    fn send(&mut self, set: RuleSet) {
        self.rules = set.rules.len() as u64;
        let candidate = Candidate::rules(set);
        self.desk.post(&candidate, 0, 1.0, ());
        self.duel.challenge(candidate);
    }

    /// The next neighbour, or the foot of the next hill.
    fn step(&mut self) {
        let next = match self.duel.champion() {
            Some(here) if self.in_vain < self.patience => self.dice.neighbour(here),
            _ => {
                self.summit = self.best();
                self.duel = Duel::new(self.repeats);
                self.restarts += 1;
                self.in_vain = 0;
                self.dice.set()
            }
        };
        self.send(next);
    }
}

impl Strategy for Climb {
    fn ask(&mut self) -> Asked {
        self.desk.answer(self.end.as_ref())
    }

    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited> {
        let run = self.desk.take(trial, told)?;
        if let Ok(outcome) = &run.shown {
            self.dice.observe(outcome);
        }
        let before = self.duel.best().map(|best| best.trial);
        match self.duel.take(run.number, &run.shown) {
            Some(number) => self.desk.post(&run.candidate, number, 1.0, ()),
            None => {
                let moved = self.duel.best().map(|best| best.trial) != before;
                self.in_vain = if moved { 0 } else { self.in_vain + 1 };
                self.step();
            }
        }
        self.end = self.end.take().or_else(|| self.desk.worn_out());
        Ok(())
    }

    fn best(&self) -> Option<Best> {
        match (self.summit.clone(), self.duel.best()) {
            // One lucky run at the foot of a hill is no summit.
            (Some(old), Some(new)) if new.runs < self.repeats || old.score >= new.score => {
                Some(old)
            }
            (old, new) => new.or(old),
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            stage: "one variable of one rule at a time",
            epoch: self.restarts,
            candidates: self.patience,
            candidates_left: self.patience - self.in_vain.min(self.patience),
            rules: self.rules,
            told: self.desk.told(),
            ..Progress::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::testing::{Oracle, drive, replays};

    #[test]
    fn it_climbs_and_starts_again() {
        let oracle = Oracle { noise_percent: 1.0, ..Oracle::new(2) };
        let course = drive("climb:patience=25", &Setup::new(2), &oracle, 800);
        let best = course.strategy.best().unwrap();
        let clean = |candidate: &Candidate| oracle.of_rules(candidate.rule_set().unwrap()).0;
        assert!(clean(&best.candidate) > clean(&course.trials[0].candidate) + 50.0, "{best:?}");
        assert!(course.strategy.progress().epoch >= 1);
        assert_eq!(best.runs, 3);
    }

    #[test]
    fn some_prefixes_of_a_journal_lead_to_the_same_asks() {
        let fails = |number| number % 41 == 5;
        let oracle = Oracle { noise_percent: 4.0, outlier_every: 3, fails, ..Oracle::new(4) };
        for method in ["climb:patience=9", "climb:patience=9,repeats=2"] {
            let course = drive(method, &Setup::new(4), &oracle, 200);
            let ends = course.tells.len();
            (0..ends).step_by(7).for_each(|kept| replays(method, &Setup::new(4), &course, kept));
        }
    }
}
