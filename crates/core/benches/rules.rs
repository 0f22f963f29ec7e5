//! How long a lookup takes, since one runs on every reply.

use std::hint::black_box;

use afflux_core::indicator::Signals;
use afflux_core::rng::Rng;
use afflux_core::rules::{Action, Compiled, RuleSet, lint, split};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// A set such as four epochs of a search leave: 29 rules.
fn searched(splits: usize, rng: &mut Rng) -> RuleSet {
    let mut set = RuleSet::uniform(Action::NONE);
    for _ in 0..splits {
        let index = rng.below(set.rules.len() as u64) as usize;
        set.rules[index].hits.means = state(rng);
        set = split(&set, index).expect("means in this range leave room to split");
    }
    set
}

fn state(rng: &mut Rng) -> Signals {
    [rng.below(100_000_000), rng.below(100_000_000), 1_000 + rng.below(9_000)]
}

fn lookups(c: &mut Criterion) {
    let mut rng = Rng::new(29);
    let set = searched(4, &mut rng);
    assert_eq!(set.rules.len(), 29);
    let compiled = Compiled::new(&set).expect("splits leave a partition");
    let states: Vec<Signals> = (0..1_024).map(|_| state(&mut rng)).collect();
    let mut group = c.benchmark_group("lookup among 29 rules");
    let here = states[7];
    group.bench_function("the same state", |b| b.iter(|| compiled.lookup(black_box(&here))));
    group.throughput(Throughput::Elements(states.len() as u64));
    group.bench_function("1,024 random states", |b| {
        b.iter(|| states.iter().map(|state| compiled.lookup(black_box(state))).sum::<usize>());
    });
    group.bench_function("1,024 random states, by scan", |b| {
        let scan = |state: &Signals| set.rules.iter().position(|r| r.region.contains(state));
        b.iter(|| states.iter().filter_map(|state| scan(black_box(state))).sum::<usize>());
    });
    group.finish();
}

fn checks(c: &mut Criterion) {
    let set = searched(143, &mut Rng::new(7));
    assert_eq!(set.rules.len(), 1_002);
    c.bench_function("lint 1,002 rules", |b| b.iter(|| lint::set(black_box(&set)).len()));
    c.bench_function("compile 1,002 rules", |b| b.iter(|| Compiled::new(black_box(&set)).is_ok()));
}

criterion_group!(benches, lookups, checks);
criterion_main!(benches);
