//! A made-up target for tests of methods: what it answers is known, and so is the best there is.

use super::{Asked, METHODS, MethodEntry, Outcome, Setup, Strategy, Told, Trial, build};
use crate::indicator::Signals;
use crate::policy;
use crate::rng::Rng;
use crate::rules::{Action, Compiled, Gap, Hits, Rule, RuleSet};

const MS: u64 = 1_000_000;

/// Methods that decide by themselves.
pub(super) fn own_methods() -> impl Iterator<Item = &'static MethodEntry> {
    METHODS.iter().filter(|entry| entry.name != "external")
}

/// A target on which every state of the congested half wants another action than the calm half.
#[derive(Clone)]
pub(super) struct Oracle {
    pub(super) states: Vec<Signals>,
    pub(super) noise: Rng,
    /// Greatest relative error of a score.
    pub(super) noise_percent: f64,
    /// Every so many trials one is an outlier: a third of its score, with a great deviation.
    pub(super) outlier_every: u64,
    /// Trials that fail, by a pattern.
    pub(super) fails: fn(u64) -> bool,
    /// Scores are rounded down to a multiple of this, so that there are ties.
    pub(super) coarseness: f64,
    /// What every second trial gains, whatever it tries.
    pub(super) drift: f64,
}

impl Oracle {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let state = |rng: &mut Rng| {
            [MS * (1 + rng.below(80)), MS * (1 + rng.below(80)), 1_000 + rng.below(5_000)]
        };
        let states = (0..400).map(|_| state(&mut rng)).collect();
        Self {
            states,
            noise: rng,
            noise_percent: 0.0,
            outlier_every: 0,
            fails: |_| false,
            coarseness: 0.0,
            drift: 0.0,
        }
    }

    /// What a perfect rule set would score.
    pub(super) const PERFECT: f64 = 400.0;

    /// What the trial shows; the same for the same trial.
    pub(super) fn run(&self, trial: &Trial) -> Told {
        if (self.fails)(trial.number) {
            return Told::Fault(format!("trial {} was to fail", trial.number));
        }
        let (clean, hits) = match trial.candidate.rule_set() {
            Some(rules) => self.of_rules(rules),
            None => (Self::of_setting(&trial.candidate.label()), Vec::new()),
        };
        let mut rng = self.noise.fork(&format!("{}", trial.number));
        let noise = (rng.below(20_001) as f64 / 1e4 - 1.0) * self.noise_percent / 100.0;
        let mut score = clean * (1.0 + noise);
        let mut deviation = score * 0.05;
        if self.outlier_every > 0 && trial.number % self.outlier_every == self.outlier_every - 1 {
            score /= 3.0;
            deviation = score * 0.4;
        }
        if self.coarseness > 0.0 {
            score = (score / self.coarseness).floor() * self.coarseness;
        }
        if trial.number / 2 % 2 == 1 {
            score += self.drift;
        }
        Told::Outcome(Outcome {
            score,
            speed_mb_s: score.abs(),
            speed_deviation_mb_s: deviation,
            hits,
            medians: self.medians_of(trial),
            fair_gap_ns: Some(47 * MS),
        })
    }

    /// The score without noise, and what each rule saw.
    pub(super) fn of_rules(&self, rules: &RuleSet) -> (f64, Vec<Hits>) {
        let lookup = Compiled::new(rules).unwrap();
        let mut sums = vec![(0_u64, [0_u64; 3]); rules.rules.len()];
        let mut score = 0.0;
        for state in &self.states {
            let rule = lookup.lookup(state);
            sums[rule].0 += 1;
            sums[rule].1.iter_mut().zip(state).for_each(|(sum, value)| *sum += value);
            score += merit(&rules.rules[rule].action, state[2] > 3_500);
        }
        let hits = sums
            .into_iter()
            .map(|(count, sums)| Hits { count, means: sums.map(|sum| sum / count.max(1)) });
        (Self::PERFECT * score / self.states.len() as f64, hits.collect())
    }

    /// The exact medians of what each rule saw, lower ones of two, if the trial wants them.
    pub(super) fn medians_of(&self, trial: &Trial) -> Vec<Option<Signals>> {
        let Some(rules) = trial.candidate.rule_set().filter(|_| trial.medians) else {
            return Vec::new();
        };
        let of_rule = |rule: &Rule| {
            let mut seen: [Vec<u64>; 3] = Default::default();
            for state in self.states.iter().filter(|state| rule.region.contains(state)) {
                seen.iter_mut().zip(state).for_each(|(seen, value)| seen.push(*value));
            }
            seen.iter_mut().for_each(|seen| seen.sort_unstable());
            let middle = seen[0].len().checked_sub(1)? / 2;
            Some(seen.map(|seen| seen[middle]))
        };
        rules.rules.iter().map(of_rule).collect()
    }

    /// Windows are best at 4, and a gap of 0.9 `ack_ewma` helps a little.
    fn of_setting(text: &str) -> f64 {
        let Ok(policy) = policy::parse(text) else { return 100.0 };
        let start = policy.start();
        let distance = (libm::log2(start.window.unwrap_or(8.0)) - 2.0).abs();
        let bonus = if start.gap == Some(Gap::OfAck(0.9)) { 5.0 } else { 0.0 };
        200.0 - 20.0 * distance + bonus
    }
}

/// How good an action is where it is calm or congested, from 0 to 1.
fn merit(action: &Action, congested: bool) -> f64 {
    let (factor, add, gap_ms) = if congested { (0.7, 0.6, 45.0) } else { (1.05, 1.2, 5.0) };
    let gap = match action.gap {
        Gap::Time(span) => span.as_millis_f64(),
        Gap::OfAck(part) => part * 40.0,
    };
    let parts = [
        (action.multiply.unwrap_or(1.0) - factor) / 1.7,
        (action.add - add) / 4.6,
        (gap - gap_ms) / 70.0,
    ];
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    1.0 / (1.0 + 4.0 * squares)
}

fn read(line: &str) -> Told {
    serde_json::from_str(line).unwrap()
}

/// A search that was driven: the journal of what was told, and what was asked before each tell and
/// at the end.
pub(super) struct Course {
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) tells: Vec<(u64, String)>,
    pub(super) asked: Vec<Asked>,
    /// The number of rules and the epoch, each time that one of them changed.
    pub(super) epochs: Vec<(u64, u32)>,
    pub(super) trials: Vec<Trial>,
}

/// Drives `method` until it ends or `budget` trials were told.
pub(super) fn drive(method: &str, setup: &Setup, oracle: &Oracle, budget: usize) -> Course {
    let strategy = build(method, setup).unwrap();
    let (tells, asked, epochs, trials) = Default::default();
    let mut course = Course { strategy, tells, asked, epochs, trials };
    loop {
        let asked = course.strategy.ask();
        assert_eq!(asked, course.strategy.ask(), "asking twice changes the answer");
        let progress = course.strategy.progress();
        assert!(progress.candidates_left <= progress.candidates);
        assert_eq!(progress.told, course.tells.len() as u64);
        if course.epochs.last() != Some(&(progress.rules, progress.epoch)) {
            course.epochs.push((progress.rules, progress.epoch));
        }
        course.asked.push(asked.clone());
        let Asked::Trials(trials) = asked else { break };
        let trial = &trials[0];
        assert!(trial.candidate.deployable().is_ok(), "{:?}", trial.candidate);
        if course.tells.len() == budget {
            break;
        }
        // A float may lose its last digit on the way to a file, so what is told is what was read.
        let line = serde_json::to_string(&oracle.run(trial)).unwrap();
        let told = read(&line);
        course.strategy.tell(trial.number, told.clone()).unwrap();
        assert!(course.strategy.tell(trial.number, told).is_err(), "told twice");
        course.tells.push((trial.number, line));
        course.trials.push(trial.clone());
    }
    course
}

/// Checks that the first `kept` tells, read back from a journal, lead to the same asks.
pub(super) fn replays(method: &str, setup: &Setup, course: &Course, kept: usize) {
    let mut strategy = build(method, setup).unwrap();
    for (number, line) in &course.tells[..kept] {
        strategy.tell(*number, read(line)).unwrap();
    }
    assert_eq!(strategy.ask(), course.asked[kept], "{method} after {kept} tells");
    for ((number, line), asked) in course.tells.iter().zip(&course.asked[1..]).skip(kept).take(40) {
        strategy.tell(*number, read(line)).unwrap();
        assert_eq!(&strategy.ask(), asked, "{method}, rebuilt after {kept}, trial {number}");
    }
}
