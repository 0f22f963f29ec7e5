//! The ledger: what a server adds to each request for its credits.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark times itself"
)]

use std::hint::black_box;

use afflux_core::credits::ledger::{Ledger, Seat};
use afflux_core::rng::Rng;
use afflux_core::units::{Span, Time};
use criterion::{Criterion, criterion_group, criterion_main};

/// A ledger under load, and the seats of its clients, each of which has requests there.
fn contended(clients: usize, options: &str) -> (Ledger, Vec<Seat>, Time) {
    let mut ledger = Ledger::new(&options.parse().expect("good options"), 16);
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut seats = vec![Seat::NONE; clients];
    for _ in 0..2 {
        for seat in &mut seats {
            now += Span::from_micros(1);
            *seat = ledger.arrival(*seat, 1, now);
        }
    }
    (ledger, seats, now)
}

/// One reply and the arrival that follows it: half of it is a reply's.
fn hot(criterion: &mut Criterion) {
    for (what, options) in [
        ("as in the paper", "L_max=60s"),
        ("shares and a percentile", "L_max=60s,shares=3:1,bound=p99"),
    ] {
        let (mut ledger, mut seats, mut now) = contended(1_024, options);
        let mut next = 0;
        let name = format!("credits/reply and arrival, {what}, hot (target 2 x 30 ns)");
        criterion.bench_function(&name, |bencher| {
            bencher.iter(|| {
                next = (next + 1) & 1_023;
                now += Span::from_micros(10);
                let arrived = now - Span::from_millis(20);
                black_box(ledger.reply(seats[next], 32, arrived, now));
                seats[next] = ledger.arrival(seats[next], 1, now);
            });
        });
    }
    let (mut ledger, seats, mut now) = contended(1_024, "L_max=60s");
    for _ in 0..2_000_000 / 1_024 {
        for seat in &seats {
            ledger.arrival(*seat, 1, now);
        }
    }
    let mut next = 0;
    let name = "credits/reply alone, hot (target 30 ns)";
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut took = std::time::Duration::ZERO;
            let mut left = iterations;
            while left > 0 {
                let batch = left.min(1_000_000);
                let start = std::time::Instant::now();
                for _ in 0..batch {
                    next = (next + 1) & 1_023;
                    now += Span::from_micros(10);
                    let arrived = now - Span::from_millis(20);
                    black_box(ledger.reply(seats[next], 32, arrived, now));
                }
                took += start.elapsed();
                for at in 0..batch {
                    ledger.arrival(seats[at as usize & 1_023], 1, now);
                }
                left -= batch;
            }
            took
        });
    });
}

/// A million clients on one ledger, answered in random order: each is in no cache.
fn million(criterion: &mut Criterion) {
    let (mut ledger, mut seats, mut now) = contended(1 << 20, "L_max=60s");
    let mut order: Vec<u32> = (0..1 << 20).collect();
    Rng::new(3).shuffle(&mut order);
    let mut next = 0;
    let name = "credits/reply and arrival, a million clients, cold";
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            next = (next + 1) & ((1 << 20) - 1);
            let client = order[next] as usize;
            now += Span::from_micros(10);
            black_box(ledger.reply(seats[client], 32, now - Span::from_millis(20), now));
            seats[client] = ledger.arrival(seats[client], 1, now);
        });
    });
}

criterion_group!(benches, hot, million);
criterion_main!(benches);
