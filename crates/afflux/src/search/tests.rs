//! The driver on a target that is made up, so that its numbers repeat to the last digit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use afflux_core::class::Class;
use afflux_core::measure::ClientMeasurement;
use afflux_core::rng::Rng;

use super::*;

/// A made-up target: throughput is best at a window of 5, with noise from the seed; some runs fail.
struct MadeUp {
    window: f64,
    runs: Arc<AtomicU64>,
    fails_each: u64,
    cancels_at: u64,
}

impl Target for MadeUp {
    fn name(&self) -> String {
        "made up".to_owned()
    }

    fn prepare(&mut self, _: &Workload) -> Result<(), TargetError> {
        Ok(())
    }

    fn deploy(&mut self, setting: &Setting) -> Result<(), TargetError> {
        self.window = setting.controller(Class::Write).start().window();
        Ok(())
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Measurement, TargetError> {
        if self.runs.load(Ordering::Relaxed) >= self.cancels_at {
            return Err(TargetError::Cancelled);
        }
        self.runs.fetch_add(1, Ordering::Relaxed);
        let mut rng = Rng::new(run.seed ^ self.window.to_bits());
        if self.fails_each > 0 && rng.below(self.fails_each) == 0 {
            let (target, doing) = (self.name(), "running".to_owned());
            return Err(TargetError::Failed { target, doing, why: "no luck".to_owned() });
        }
        let best = 100e6 - (self.window - 5.0) * (self.window - 5.0) * 1e6;
        let mut second = || [0, (best.max(1e6) + rng.below(1_000_000) as f64) as u64];
        let seconds = (0..run.length.as_secs_f64() as u64).map(|_| second()).collect();
        let client = ClientMeasurement { seconds, ..Default::default() };
        Ok(Measurement { counted_secs: run.length.as_secs_f64(), clients: vec![client] })
    }
}

fn head() -> Head {
    Head {
        afflux_search: journal::VERSION,
        program: "test".to_owned(),
        workload: "seq-write".to_owned(),
        workload_text: "seq-write".to_owned(),
        clients: 1,
        target: "made up".to_owned(),
        method: "grid".to_owned(),
        objective: "tp".to_owned(),
        seed: 3,
        settle: Span::ZERO,
        length: Span::from_secs(3),
        pairs: 3,
    }
}

/// Runs until `cancels_at` runs were made in this go; gives the journal's labels and the outcome.
fn go(
    dir: &std::path::Path,
    cancels_at: u64,
    fails_each: u64,
) -> (Vec<String>, Result<Found, Failure>) {
    let head = head();
    let journal = Journal::open(dir, &head).unwrap();
    let workload = afflux_core::workload::preset("seq-write").unwrap().workload();
    let runs = Arc::new(AtomicU64::new(0));
    let mut target = MadeUp { window: 0.0, runs, fails_each, cancels_at };
    let live = Live::new().unwrap();
    let driver = Driver {
        head: &head,
        journal,
        target: &mut target,
        workload: &workload,
        objective: head.objective.parse().unwrap(),
        budget: Budget::Runs(70),
        live: &live,
    };
    let found = driver.run();
    let entries = Journal::open(dir, &head).unwrap().entries;
    let line = |entry: &Entry| format!("{:?} {} {}", entry.stage, entry.trial, entry.label);
    (entries.iter().map(line).collect(), found)
}

#[test]
fn what_is_found_is_the_best_and_is_compared_three_ways() {
    let dir = tempfile::tempdir().unwrap();
    let found = go(dir.path(), u64::MAX, 0).1.unwrap();
    assert_eq!(found.fixed.candidate.label(), "fixed:4");
    let sides: Vec<_> = found
        .comparisons
        .iter()
        .map(|comparison| (comparison.baseline.as_str(), comparison.pairs.len()))
        .collect();
    assert_eq!(sides, [("none", 3), ("fixed:4", 3), ("none", 3)]);
    // A window of 8 makes 91 and one of 4 makes 99, but for noise of up to 1.
    let change = found.comparisons[0].metrics[0].change_percent;
    assert!(change.low > 6.0 && change.high < 11.0, "{change:?}");
}

#[test]
fn an_interrupted_search_decides_as_one_that_was_not() {
    for fails_each in [0, 9] {
        let whole = tempfile::tempdir().unwrap();
        let (expected, found) = go(whole.path(), u64::MAX, fails_each);
        let expected_best = found.map(|found| found.best.candidate.label()).map_err(drop);
        for seed in 0..12 {
            let dir = tempfile::tempdir().unwrap();
            let mut rng = Rng::new(seed);
            let mut goes = 0;
            let (labels, best) = loop {
                let (labels, found) = go(dir.path(), 1 + rng.below(25), fails_each);
                goes += 1;
                match found {
                    Err(Failure::Broken(why)) if why.contains("interrupted") => assert!(goes < 90),
                    found => {
                        break (
                            labels,
                            found.map(|found| found.best.candidate.label()).map_err(drop),
                        );
                    }
                }
            };
            assert!(goes > 1, "it was not interrupted at all");
            assert_eq!(labels, expected, "seed {seed}");
            assert_eq!(best, expected_best);
        }
    }
}

#[test]
fn a_budget_below_one_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let head = head();
    let journal = Journal::open(dir.path(), &head).unwrap();
    let workload = afflux_core::workload::preset("seq-write").unwrap().workload();
    let runs = Arc::new(AtomicU64::new(0));
    let mut target = MadeUp { window: 0.0, runs, fails_each: 0, cancels_at: u64::MAX };
    let (live, budget) = (Live::new().unwrap(), Budget::Secs(28.0));
    let objective = "tp".parse().unwrap();
    let (head, workload, target) = (&head, &workload, &mut target);
    let driver = Driver { head, journal, target, workload, objective, budget, live: &live };
    let Err(Failure::Input(why)) = driver.run().map(drop) else { panic!("it was accepted") };
    assert!(why.contains("9 confirming runs of 3 s"), "{why}");
}
