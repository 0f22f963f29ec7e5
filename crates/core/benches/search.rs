//! What a search adds to each trial. Target: at most 1 ms for an ask and a tell, with 29 rules and
//! 5,000 trials behind it, and no more when it is rebuilt from its journal.

use std::hint::black_box;

use afflux_core::rng::Rng;
use afflux_core::rules::{Action, Gap, Hits, RuleSet, split};
use afflux_core::search::{Asked, Outcome, Setup, Strategy, Told, build};
use afflux_core::units::Span;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

const EARLIER_TRIALS: u64 = 5_000;

/// A search that starts from the 29 rules that four epochs leave.
fn setup() -> Setup {
    let mut rng = Rng::new(29);
    let gap = Gap::Time(Span::from_millis(20));
    let mut start = RuleSet::uniform(Action { multiply: Some(1.0), add: 0.0, gap });
    while start.rules.len() < 29 {
        let index = rng.below(start.rules.len() as u64) as usize;
        start.rules[index].hits.means = [rng.below(80_000_000), rng.below(80_000_000), 2_500];
        start = split(&start, index).expect("means in this range leave room to split");
    }
    Setup { start: Some(start), ..Setup::new(7) }
}

/// One ask and one tell; every score is better than the last, so that rounds go on for ever.
fn step(strategy: &mut dyn Strategy) {
    let Asked::Trials(trials) = strategy.ask() else { panic!("it ended") };
    let trial = &trials[0];
    let score = 100.0 + trial.number as f64;
    let rules = trial.candidate.rule_set().map_or(0, |set| set.rules.len());
    let hits = (0..rules as u64).map(|rule| Hits { count: 1_000 - rule, means: [30_000_000; 3] });
    let outcome = Outcome { score, speed_mb_s: score, hits: hits.collect(), ..Outcome::default() };
    strategy.tell(trial.number, Told::Outcome(outcome)).expect("it was asked for");
}

fn steps(c: &mut Criterion) {
    for method in ["sharp", "sharp:batch=64", "remy", "climb", "anneal", "random"] {
        let mut strategy = build(method, &setup()).expect("the method exists");
        (0..EARLIER_TRIALS).for_each(|_| step(&mut *strategy));
        let name = format!("search/ask and tell, {method} (target 1 ms)");
        c.bench_function(&name, |b| b.iter(|| step(black_box(&mut *strategy))));
    }
}

/// The longest step: the tell that opens a round, with all its candidates.
fn openings(c: &mut Criterion) {
    for method in ["sharp", "sharp:batch=1000", "remy"] {
        let name = format!("search/tell that opens a round, {method} (target 5 ms)");
        let fresh = || build(method, &setup()).expect("the method exists");
        c.bench_function(&name, |b| {
            b.iter_batched_ref(fresh, |strategy| step(&mut **strategy), BatchSize::SmallInput);
        });
    }
}

fn replays(c: &mut Criterion) {
    let mut group = c.benchmark_group("search");
    group.sample_size(10);
    group.bench_function("rebuilt from 5,000 tells, sharp (target 5 s)", |b| {
        b.iter(|| {
            let mut strategy = build("sharp", &setup()).expect("the method exists");
            (0..EARLIER_TRIALS).for_each(|_| step(&mut *strategy));
            strategy.progress()
        });
    });
    group.finish();
}

criterion_group!(benches, steps, openings, replays);
criterion_main!(benches);
