//! Controllers and devices in a closed loop, in virtual time.
//!
//! Three promises: those who stay take up what those who leave no longer use; no controller ever
//! breaks its limits or leaves a path waiting for nothing; the same seed gives the same decisions.
//! `cargo test -p afflux-core --test closed_loop -- --nocapture` prints the tables.

#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests themselves")]
#![allow(clippy::disallowed_macros, reason = "the tables are for people who ask for them")]

#[path = "closed_loop/checks.rs"]
mod checks;
#[path = "closed_loop/world.rs"]
mod world;

use afflux_core::class::Class;
use afflux_core::conserve::{Departure, Finding};
use afflux_core::rules::SHIPPED;
use afflux_core::summary::mean;
use afflux_core::units::{Span, Time};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use world::{Scenario, run};

/// Clients at first, and those of them that stay.
const ALL: usize = 12;
const STAY: usize = 7;
/// When the others leave, and how long the controllers have to notice, in seconds.
const LEAVE: usize = 20;
const NOTICE: usize = 5;
const END: usize = 40;
const SEEDS: u64 = 8;

fn at(secs: usize) -> Time {
    Time::ZERO + Span::from_secs(secs as u64)
}

/// Every policy and every rule set that comes with Afflux.
fn settings() -> Vec<String> {
    let policies = ["none", "fixed:8", "aimd", "gradient"].map(str::to_owned);
    let shipped = SHIPPED.iter().map(|(name, _)| format!("shipped:{name}"));
    policies.into_iter().chain(shipped).collect()
}

/// A workload on a device.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    device: &'static str,
    class: Class,
    random: bool,
}

/// Two on the default disk, and one on a disk that cannot reorder by itself behind a strict
/// elevator: a setting may be harmless on one disk and not on another.
const LOADS: [Load; 3] = [
    Load { name: "random write", device: "hdd", class: Class::Write, random: true },
    Load { name: "sequential read", device: "hdd", class: Class::Read, random: false },
    Load {
        name: "random write, strict elevator",
        device: "hdd:elevator=deadline-strict,depth=1",
        class: Class::Write,
        random: true,
    },
];

impl Load {
    fn scenario(&self, setting: &str, clients: usize, seed: u64) -> Scenario {
        let Self { device, class, random, .. } = *self;
        Scenario { device, class, random, ..Scenario::new(setting, clients, seed) }
    }

    /// What seven clients get in the time that counts, when they are alone from the start.
    fn alone(&self, setting: &str, seed: u64) -> f64 {
        run(&self.scenario(setting, STAY, seed)).mb_s(0..STAY, LEAVE + NOTICE, END)
    }

    /// What all get before the departure, and those who stay after it.
    fn departure(&self, setting: &str, seed: u64) -> (f64, f64) {
        let leave = Some((at(LEAVE), STAY));
        let outcome = run(&Scenario { leave, ..self.scenario(setting, ALL, seed) });
        let before = outcome.mb_s(0..ALL, NOTICE, LEAVE);
        (before, outcome.mb_s(0..STAY, LEAVE + NOTICE, END))
    }

    /// Runs the departure under `setting`, prints a line, and compares it with seven clients alone
    /// under the same setting, and with the best that is known of seven.
    fn judge(&self, setting: &str, unregulated: &[f64]) -> Judged {
        let (mut fresh, mut best, mut line) = (Vec::new(), Vec::new(), [0.0; 3]);
        for (seed, none) in (0..).zip(unregulated) {
            let alone = self.alone(setting, seed);
            let (before, after) = self.departure(setting, seed);
            let (clients, stay) = (ALL as u32, STAY as u32);
            let run = Departure { clients, stay, before, after, possible: alone };
            fresh.push(run);
            best.push(Departure { possible: alone.max(*none), ..run });
            for (sum, value) in line.iter_mut().zip([before, after, alone]) {
                *sum += value / unregulated.len() as f64;
            }
        }
        let [before, after, alone] = line;
        let judged = Judged { fresh: Finding::of(&fresh), best: Finding::of(&best) };
        let none = mean(unregulated);
        let ratios = format!("{:7.3} {:7.3}", after / alone, after / none);
        let line = format!("{before:7.1} {after:7.1} {alone:7.1} {none:7.1} {ratios}");
        println!("{setting:24} {line}  {}", judged.best);
        judged
    }

    fn unregulated(&self) -> Vec<f64> {
        println!("\n{}, MB/s, means of {SEEDS} seeds", self.name);
        let columns = "     12  7 stay 7 fresh  7 none  /fresh   /none  against the best of seven";
        println!("{:24} {columns}", "setting");
        (0..SEEDS).map(|seed| self.alone("none", seed)).collect()
    }
}

/// What a departure showed, against two measures of what is possible.
struct Judged {
    /// Seven clients alone under the same setting: does the past weigh on those who stay?
    fresh: Finding,
    /// The best that is known of seven clients: does the setting hold the system back?
    best: Finding,
}

/// The clients that stay must get at least 90 % of what seven can get.
///
/// Pairs of runs under one seed agree to 1 or 2 % on these disks, and to 8 % under `aimd` and
/// `gradient`, whose windows wander. What a window of 2 costs random writes, which is the price
/// that `calm-2` names, is 6 to 10 %. A tenth is beyond all that, and far from the 5/12 that a
/// setting costs which takes up nothing.
const TOLERANCE: f64 = 0.1;

/// What is known to hold back, by load and setting, with any number of clients. Gaps of 0.3 to 0.9
/// of `ack_ewma` all cost the same there: probably because they spread a client's requests out, so
/// that a sweep of the elevator finds fewer neighbours. Whoever cures it takes the line out.
const KNOWN: &[(&str, &str)] = &[("random write, strict elevator", "shipped:paced")];

#[test]
fn those_who_stay_take_up_what_is_left() {
    for load in LOADS {
        let unregulated = load.unregulated();
        for setting in settings() {
            let Judged { fresh, best } = load.judge(&setting, &unregulated);
            let name = load.name;
            assert!(fresh.held_back < TOLERANCE, "{setting}, {name}, against fresh: {fresh}");
            let known = KNOWN.contains(&(name, setting.as_str()));
            assert_eq!(best.holds_back(TOLERANCE), known, "{setting}, {name}: {best}");
        }
    }
}

#[test]
fn what_was_cut_for_twelve_is_found() {
    for load in &LOADS[..2] {
        let unregulated = load.unregulated();
        // The share of one of twelve, as the time from one of its requests to the next at a server.
        let twelve =
            mean(&(0..SEEDS).map(|seed| load.departure("none", seed).0).collect::<Vec<_>>());
        let scenario = load.scenario("none", ALL, 0);
        let megabytes = f64::from(scenario.request_bytes) / 1e6 * scenario.servers as f64;
        let gap = Span::from_secs_f64(megabytes * ALL as f64 / twelve);
        let gap = Span::from_micros(gap.as_nanos() / 1_000);
        for bad in [format!("fixed:8,gap={gap}"), "turn=300ms".to_owned()] {
            let Judged { best, .. } = load.judge(&bad, &unregulated);
            assert!(best.holds_back(0.25), "{bad} was not found: {best}");
            let taken_up = best.taken_up.unwrap();
            assert!(taken_up < 0.25, "{bad} seems to have taken up {taken_up}");
        }
        // The same idea as a fraction of what is measured carries over, and must not be accused.
        let Judged { best, .. } = load.judge("fixed:8,gap=0.9ack", &unregulated);
        assert!(!best.holds_back(TOLERANCE) && best.held_back < TOLERANCE, "{best}");
    }
}

/// After a pause of 8 s all is as before within 5 s: a pause of the application is no congestion,
/// and must not enter `ack_ewma`, where a gap that is a fraction of it would keep it alive.
#[test]
fn a_pause_wears_off() {
    let (rest, end) = (8, 30);
    println!("\nrandom write, 7 clients, a pause of {rest} s; MB/s before and 5 to 12 s after");
    for setting in settings() {
        let (mut before, mut after) = (0.0, 0.0);
        for seed in 0..4 {
            let outcome = run(&Scenario {
                pause: Some((at(10), at(10 + rest))),
                length: Span::from_secs(end),
                ..Scenario::new(&setting, STAY, seed)
            });
            before += outcome.mb_s(0..STAY, 3, 10) / 4.0;
            after += outcome.mb_s(0..STAY, 15 + rest, 22 + rest) / 4.0;
        }
        println!("{setting:24} {before:7.1} {after:7.1}");
        assert!(after >= before * (1.0 - TOLERANCE), "{setting}: {before}, {after}");
    }
}

/// Odd company for every policy: limits of all kinds, other devices, small requests, long idle
/// times and replies that overtake one another.
#[test]
fn no_invariant_breaks_and_no_path_is_stuck() {
    let mut settings = settings();
    for limits in ["fan-in=3", "cap=2", "turn=200ms", "fan-in=5+turn=50ms", "cap=3+fan-in=2"] {
        for policy in ["fixed:8,gap=20ms", "aimd", "shipped:deep", "shipped:paced"] {
            settings.push(format!("{policy}+{limits}"));
        }
    }
    settings.push("fixed:3,gap=1.5ack".to_owned());
    for setting in &settings {
        let base = Scenario { length: Span::from_secs(20), ..Scenario::new(setting, 5, 1) };
        let pause = Some((at(2), at(14)));
        // Memory answers at once, so that half a second is as many requests as an hour of disk.
        let (length, reply_jitter) = (Span::from_millis(500), Span::from_millis(2));
        let short = Scenario { length, reply_jitter, ..base.clone() };
        for scenario in [
            Scenario { class: Class::Read, random: false, pause, ..base.clone() },
            Scenario { reply_jitter: Span::from_millis(80), servers: 3, ..base.clone() },
            Scenario { request_bytes: 64 << 10, leave: Some((at(10), 1)), ..base.clone() },
            Scenario { device: "hdd:elevator=fifo,depth=1", ..base.clone() },
            Scenario { device: "ssd", length: Span::from_secs(3), ..base.clone() },
            Scenario { device: "mem", clients: 2, servers: 1, ..short.clone() },
        ] {
            run(&scenario);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// Worlds that nobody thought of.
    #[test]
    fn no_invariant_breaks_in_any_small_world(
        which in 0_usize..10, limits in 0_usize..5, clients in 1_usize..9, servers in 1_usize..5,
        jitter_ms in 0_u64..200, kib_log in 2_u32..11, rest in 0_usize..15, seed in any::<u64>(),
        random in any::<bool>(), write in any::<bool>(),
    ) {
        let limits = ["", "+fan-in=1", "+cap=1", "+turn=70ms", "+fan-in=4+turn=30ms"][limits];
        run(&Scenario {
            class: if write { Class::Write } else { Class::Read },
            random,
            servers,
            request_bytes: 1024 << kib_log,
            length: Span::from_secs(8 + rest as u64),
            pause: (rest > 0).then(|| (at(4), at(4 + rest))),
            reply_jitter: Span::from_millis(jitter_ms),
            ..Scenario::new(&format!("{}{limits}", settings()[which]), clients, seed)
        });
    }
}

#[test]
fn the_same_seed_gives_the_same_decisions() {
    let mut digests = Vec::new();
    for setting in settings() {
        for seed in [1, 2, 3] {
            let scenario = Scenario {
                length: Span::from_secs(6),
                leave: Some((at(3), 2)),
                reply_jitter: Span::from_millis(5),
                ..Scenario::new(&setting, 4, seed)
            };
            let digest = run(&scenario).digest;
            assert_eq!(digest, run(&scenario).digest, "{scenario:?}");
            digests.push((digest, setting.clone(), seed));
        }
    }
    digests.sort_unstable();
    let same = digests.windows(2).find(|pair| pair[0].0 == pair[1].0);
    // A fixed window of 8 is the baseline by another name.
    let expected = |pair: &[(u64, String, u64)]| pair[0].1 == "fixed:8" && pair[1].1 == "none";
    assert!(same.is_none_or(expected), "{same:?}");
}
