//! The hot path: a reply (update, look up among 29 rules, apply) and an admission.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark times itself"
)]

use std::hint::black_box;

use afflux_core::limits::Limits;
use afflux_core::measure::HitCounters;
use afflux_core::path::{Controller, Options, PathState, Reply};
use afflux_core::policy::by_rules::ByRules;
use afflux_core::rng::Rng;
use afflux_core::rules::{Action, Gap, Hits, RuleSet, split};
use afflux_core::units::{Span, Time};
use criterion::{Criterion, criterion_group, criterion_main};

/// A set of 29 rules, as four splits of ASCAR's search make it.
fn rules() -> RuleSet {
    let action = Action { multiply: Some(0.9), add: 0.8, gap: Gap::OfAck(0.9) };
    let mut set = RuleSet::uniform(action);
    let mut rng = Rng::new(29);
    for _ in 0..4 {
        let hottest = rng.below(set.rules.len() as u64) as usize;
        let region = set.rules[hottest].region;
        let means = std::array::from_fn(|axis| {
            let scale = if axis == 2 { 4_000 } else { 20_000_000 };
            region.low[axis].max(1_000) + scale / 2 + rng.below(scale)
        });
        set.rules[hottest].hits = Hits { count: 1, means };
        set = split(&set, hottest).expect("the box is wide");
    }
    assert_eq!(set.rules.len(), 29);
    set
}

fn controller() -> Controller {
    let policy = ByRules::new("29", &rules()).expect("splits keep a partition");
    Controller::new(Options::default(), Box::new(policy))
}

/// Replies as a congested path sees them: one every few milliseconds, process times that vary.
fn replies() -> Vec<Reply> {
    let mut rng = Rng::new(1);
    let mut now = Time::ZERO + Span::from_secs(1);
    (0..4_096)
        .map(|_| {
            now += Span::from_micros(1_000 + rng.below(30_000));
            let sent = now - Span::from_micros(5_000 + rng.below(80_000));
            Reply { built: sent, sent, arrived: now, size_bytes: 1 << 20 }
        })
        .collect()
}

fn hot(criterion: &mut Criterion) {
    let (controller, replies) = (controller(), replies());
    let mut path = controller.start();
    let mut next = 0;
    criterion.bench_function("path/reply, 29 rules, hot (target 40 ns)", |bencher| {
        bencher.iter(|| {
            next = (next + 1) & 4_095;
            black_box(controller.reply(&mut path, &replies[next]))
        });
    });
    let mut path = controller.start();
    let mut counters = HitCounters::default();
    criterion.bench_function("path/reply, its hit counted, hot (target 40 ns)", |bencher| {
        bencher.iter(|| {
            next = (next + 1) & 4_095;
            let ruling = controller.reply(&mut path, &replies[next]);
            if let Some(rule) = ruling.rule {
                counters.count(rule, &ruling.signals);
            }
            black_box(ruling)
        });
    });
    black_box(&counters);
    let mut path = controller.start();
    let limits = Limits::default();
    let mut now = Time::ZERO;
    criterion.bench_function("path/admit, hot (target 20 ns)", |bencher| {
        bencher.iter(|| {
            now += Span::from_millis(100);
            let admitted = controller.admit(&mut path, now, 1 << 20, black_box(&limits));
            controller.withdraw(&mut path);
            black_box(admitted)
        });
    });
}

/// A million paths, visited in random order: neither the state nor the branch is in a cache.
fn cold(criterion: &mut Criterion) {
    let (controller, replies) = (controller(), replies());
    let mut paths: Vec<PathState> = vec![controller.start(); 1 << 20];
    let mut rng = Rng::new(2);
    let mut order: Vec<u32> = (0..1 << 20).collect();
    rng.shuffle(&mut order);
    let mut next = 0;
    criterion.bench_function("path/reply, 29 rules, cold (target 120 ns)", |bencher| {
        bencher.iter_custom(|iterations| {
            let start = std::time::Instant::now();
            for _ in 0..iterations {
                next = (next + 1) & ((1 << 20) - 1);
                let path = &mut paths[order[next] as usize];
                black_box(controller.reply(path, &replies[next & 4_095]));
            }
            start.elapsed()
        });
    });
}

/// What the machine itself takes to touch the two cache lines of a state that is in no cache, one
/// state after the other: the next one is known only when this one was read, so that the processor
/// cannot fetch several at once, as it cannot with a whole reply between them.
fn floor(criterion: &mut Criterion) {
    let mut lines: Vec<[u64; 16]> = vec![[1; 16]; 1 << 20];
    let mut order: Vec<u32> = (0..1 << 20).collect();
    Rng::new(2).shuffle(&mut order);
    let (mut next, mut after) = (0, 0);
    criterion.bench_function("path/two cold cache lines alone, for comparison", |bencher| {
        bencher.iter_custom(|iterations| {
            let start = std::time::Instant::now();
            for _ in 0..iterations {
                next = (next + 1) & ((1 << 20) - 1);
                // Always zero, but the processor does not know.
                let line = &mut lines[order[next] as usize ^ after];
                line[0] ^= 1;
                line[8] ^= line[0];
                after = (line[8] >> 63) as usize;
            }
            start.elapsed()
        });
    });
}

criterion_group!(benches, hot, cold, floor);
criterion_main!(benches);
