use proptest::prelude::*;

use super::*;
use crate::rng::Rng;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn ledger(options: &str) -> Ledger {
    Ledger::new(&options.parse().unwrap(), 128)
}

/// Two clients with six requests each, one of which is done every 100 ms: 10 a second, so that
/// `D_max` is 10 under a bound of 1 s. Each line is worked out by hand from algorithms 1 and 2.
#[test]
fn algorithms_1_and_2_line_by_line() {
    let mut ledger = ledger("L_max=1s,D_low=2,RCC_max=8,window=800ms");
    let (mut a, mut b) = (Seat::NONE, Seat::NONE);
    for _ in 0..6 {
        // 12: D = D + 1. C is counted at the first request of each.
        a = ledger.arrival(a, 0, at(0));
        b = ledger.arrival(b, 0, at(0));
    }
    assert_eq!((ledger.depth(), ledger.active()), (12, 2));
    assert_eq!(ledger.bound(), Bound::Unknown);
    for (millis, depth, requested, credits, why) in [
        (100, 11, 9, 4, "5: 10 / 2; 7, 8: 11 > 10; 9: 5 - 1"),
        (200, 10, 9, 5, "8: 10 is not above 10"),
        (300, 9, 9, 5, "5"),
        (400, 8, 0, 5, "5, whatever is asked for"),
        (500, 7, 9, 5, "5"),
        (600, 6, 9, 5, "5"),
        (700, 5, 9, 5, "5"),
        (800, 4, 9, 5, "5"),
        (900, 3, 9, 5, "5"),
        (1_000, 2, 9, 5, "2: 2 is not below D_low; 8: T_s is not above L_max"),
        (1_100, 1, 9, 8, "3: what is asked for; 12: at most RCC_max"),
        (1_200, 0, 0, 1, "3: nothing is asked for; 12: at least RCC_min"),
    ] {
        let seat = if (millis / 100) % 2 == 1 { a } else { b };
        let granted = ledger.reply(seat, requested, at(0), at(millis));
        assert_eq!((ledger.depth(), granted), (depth, credits), "at {millis} ms, line {why}");
    }
    assert_eq!(ledger.bound(), Bound::Held { depth_max: 10 });
    assert_eq!(ledger.share(0), Some(5));
    let counts = *ledger.counts();
    assert_eq!((counts.arrivals, counts.replies, counts.late, counts.deepest), (12, 12, 2, 12));
}

/// The request itself was late though the queue is short: line 7 takes the longer of both.
#[test]
fn a_late_reply_grants_one_less() {
    let mut ledger = ledger("L_max=1s,D_low=0,RCC_max=64,window=800ms");
    let mut seat = Seat::NONE;
    for _ in 0..3 {
        seat = ledger.arrival(seat, 0, at(1_000));
    }
    assert_eq!(ledger.reply(seat, 0, at(1_000), at(1_100)), 10);
    assert_eq!(ledger.reply(seat, 0, at(199), at(1_200)), 9);
    assert_eq!(ledger.reply(seat, 0, at(300), at(1_300)), 10);
}

/// Section III-C: C grows at the first pending request, not when the queue runs empty, and falls at
/// the first ping after more than STL of silence.
#[test]
fn a_client_is_counted_until_a_ping_after_its_silence() {
    let mut ledger = ledger("L_max=1s,STL=60s,ping=25s");
    let seat = ledger.arrival(Seat::NONE, 0, at(0));
    let same = ledger.arrival(seat, 0, at(10));
    assert_eq!((seat, ledger.active()), (same, 1));
    ledger.reply(seat, 0, at(0), at(20));
    for secs in [25, 50] {
        assert!(ledger.ping(seat, at(secs * 1_000)), "pending is never silent");
    }
    ledger.reply(seat, 0, at(10), at(60_000));
    assert!(ledger.ping(seat, at(75_000)) && ledger.ping(seat, at(120_000)));
    assert_eq!(ledger.active(), 1);
    assert!(!ledger.ping(seat, at(120_001)));
    assert_eq!((ledger.active(), ledger.ping(seat, at(125_000))), (0, false));
    let back = ledger.arrival(seat, 0, at(126_000));
    assert!(back != seat && ledger.active() == 1);
}

#[test]
fn a_bound_that_the_least_credits_break_is_told() {
    let mut ledger = ledger("L_max=100ms,D_low=0,RCC_min=2,window=80ms");
    let seats: Vec<_> = (0..30).map(|_| ledger.arrival(Seat::NONE, 0, at(0))).collect();
    assert_eq!(ledger.reply(seats[0], 9, at(0), at(10)), 2);
    // 30 clients of 2 requests at 100 a second.
    assert_eq!(ledger.bound(), Bound::Broken { latency: Span::from_millis(600) });
    assert_eq!(ledger.timeout().unwrap().deviation, Span::from_millis(300));
    for seat in &seats[5..] {
        ledger.gone(*seat, at(10));
    }
    assert_eq!((ledger.active(), ledger.depth()), (5, 4));
    assert_eq!(ledger.bound(), Bound::Held { depth_max: 10 });
}

#[test]
fn a_client_that_ignores_its_credits_is_known_and_one_that_obeys_is_not() {
    let mut ledger = ledger("L_max=1s,D_low=0,RCC_max=4");
    let (mut greedy, mut lawful) = (Seat::NONE, Seat::NONE);
    for step in 0..200 {
        greedy = ledger.arrival(greedy, 0, at(step * 10));
        if step % 10 == 0 {
            lawful = ledger.arrival(lawful, 0, at(step * 10));
            ledger.reply(lawful, 1, at(step * 10), at(step * 10 + 9));
        }
    }
    assert!(ledger.ignores_credits(greedy) && !ledger.ignores_credits(lawful));
    assert_eq!((ledger.overdrawn(greedy), ledger.overdrawn(lawful)), (196, 0));
}

#[test]
fn a_million_clients_at_once_are_counted_served_and_forgotten() {
    const CLIENTS: u64 = 1_000_000;
    let mut ledger = ledger("L_max=1s,STL=60s,ping=25s");
    let seats: Vec<_> = (0..CLIENTS).map(|_| ledger.arrival(Seat::NONE, 0, at(5))).collect();
    assert_eq!((ledger.active(), ledger.depth()), (1_000_000, CLIENTS));
    let bytes = ledger.exports.capacity() * size_of::<Export>()
        + ledger.rounds.capacity() * size_of::<(Span, Seat)>();
    assert!(bytes <= 100 * CLIENTS as usize, "{} bytes a client", bytes / CLIENTS as usize);
    for (number, seat) in (0..).zip(&seats) {
        let now = at(5) + Span::from_micros(number);
        assert!((1..=32).contains(&ledger.reply(*seat, 40, at(5), now)));
    }
    // They vanish without a word; what comes later is served as if they had never been.
    for secs in 2..200 {
        ledger.tick(at(secs * 1_000));
    }
    assert_eq!((ledger.active(), ledger.depth(), ledger.rounds.len()), (0, 0, 0));
    let seat = ledger.arrival(seats[7], 0, at(200_000));
    assert_eq!(ledger.reply(seat, 9, at(200_000), at(200_001)), 9);
    assert_eq!(ledger.exports.len(), CLIENTS as usize, "seats are used again");
}

#[test]
fn clocks_that_jump_do_no_lasting_harm() {
    let mut ledger = ledger("L_max=1s,D_low=0,RCC_max=64,window=800ms");
    let mut seat = ledger.arrival(Seat::NONE, 0, at(1_000_000));
    seat = ledger.arrival(seat, 0, at(5));
    ledger.reply(seat, 0, at(1_000_000), at(1));
    assert_eq!(ledger.reply(seat, 0, at(5), at(1)), 1, "no time has passed: no rate");
    seat = ledger.arrival(seat, 0, Time::from_nanos(u64::MAX - 1));
    ledger.reply(seat, 0, at(0), Time::NEVER);
    for step in 0..400 {
        seat = ledger.arrival(seat, 0, at(step * 10));
        ledger.reply(seat, 0, at(step * 10), at(step * 10 + 10));
    }
    assert_eq!((ledger.share(0), ledger.active()), (Some(64), 1));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(usize),
    Reply(usize, u32),
    Withdraw(usize),
    Ping(usize),
    Gone(usize),
    Stale(u32, u32),
    Tick,
}

fn step() -> impl Strategy<Value = (Step, i64)> {
    let client = 0_usize..12;
    let step = prop_oneof![
        6 => client.clone().prop_map(Step::Arrive),
        6 => (client.clone(), any::<u32>()).prop_map(|(client, asked)| Step::Reply(client, asked)),
        1 => client.clone().prop_map(Step::Withdraw),
        1 => client.clone().prop_map(Step::Ping),
        1 => client.prop_map(Step::Gone),
        1 => (0_u32..40, 0_u32..4).prop_map(|(slot, generation)| Step::Stale(slot, generation)),
        1 => Just(Step::Tick),
    ];
    let time = prop_oneof![
        20 => 0_i64..50_000_000,
        1 => -100_000_000_000_i64..100_000_000_000,
        1 => Just(i64::MAX / 4),
    ];
    (step, time)
}

proptest! {
    /// Whatever comes, the counts are those of the exports, and grants are within their bounds.
    #[test]
    fn counts_never_go_wrong(
        steps in prop::collection::vec(step(), 1..400),
        options in prop::sample::select(vec![
            "L_max=1s", "L_max=1ms,D_low=0,RCC_min=3,RCC_max=5", "L_max=1h,shares=3:1,D_low=1",
            "L_max=10ms,bound=p99,D_low=2,window=1ms", "L_max=1s,fractions=on,STL=1ms,ping=1ms",
        ]),
    ) {
        let mut ledger = ledger(options);
        let (least, most) = (ledger.options.credits_min, ledger.options.credits_max);
        let mut seats = [Seat::NONE; 12];
        let mut now = Time::from_nanos(1 << 40);
        for (step, jump) in steps {
            now = Time::from_nanos(now.as_nanos().saturating_add_signed(jump));
            match step {
                Step::Arrive(client) => {
                    seats[client] = ledger.arrival(seats[client], client as u32 % 4, now);
                }
                Step::Reply(client, asked) => {
                    let arrived = now - Span::from_millis(3);
                    let credits = ledger.reply(seats[client], asked, arrived, now);
                    prop_assert!((least..=most).contains(&credits));
                }
                Step::Withdraw(client) => ledger.withdraw(seats[client], now),
                Step::Ping(client) => drop(ledger.ping(seats[client], now)),
                Step::Gone(client) => ledger.gone(seats[client], now),
                Step::Stale(slot, generation) => {
                    let before = (ledger.depth, ledger.active);
                    let seat = Seat { slot, generation };
                    if !seats.contains(&seat) {
                        prop_assert_eq!(ledger.reply(seat, 5, now, now), least);
                        prop_assert!(ledger.depth == before.0 && ledger.active <= before.1);
                    }
                }
                Step::Tick => ledger.tick(now),
            }
            let known = || seats.iter().filter(|seat| ledger.knows(**seat));
            let pending: u32 = known().map(|seat| ledger.exports[seat.slot as usize].pending).sum();
            prop_assert_eq!(u64::from(pending), ledger.depth);
            prop_assert_eq!(known().count(), ledger.active as usize);
            let of_groups: u32 = ledger.groups.iter().map(|group| group.active).sum();
            prop_assert_eq!(of_groups, ledger.active);
            prop_assert!(ledger.rounds.len() >= ledger.active as usize);
            ledger.bound();
            ledger.timeout();
        }
    }
}

/// Clients that always have more to send, in front of a server that does one thing at a time,
/// taking 2 to 18 ms, one in 50 `longer` by this factor: what every one of them got done, and the
/// latencies.
fn contend(
    ledger: &mut Ledger,
    tenants: &[u32],
    from: Time,
    requests: u32,
    longer: u64,
) -> (Vec<u32>, Vec<Span>) {
    let mut rng = Rng::new(5);
    let mut queue = VecDeque::new();
    let mut clients: Vec<_> = tenants.iter().map(|tenant| (Seat::NONE, 0, 0, *tenant)).collect();
    let (mut latencies, mut now) = (Vec::new(), from);
    for (client, one) in clients.iter_mut().enumerate() {
        queue.push_back((client, now));
        (one.0, one.1) = (ledger.arrival(one.0, one.3, now), 1);
    }
    for _ in 0..requests {
        let (client, arrived): (usize, Time) = queue.pop_front().unwrap();
        let long = if rng.below(50) == 0 { longer } else { 1 };
        now += Span::from_micros((2_000 + rng.below(16_000)) * long);
        let one = &mut clients[client];
        let granted = ledger.reply(one.0, 64, arrived, now);
        (one.1, one.2) = (one.1 - 1, one.2 + 1);
        latencies.push(now.since(arrived));
        while one.1 < granted {
            one.0 = ledger.arrival(one.0, one.3, now);
            one.1 += 1;
            queue.push_back((client, now));
        }
    }
    latencies.sort();
    (clients.iter().map(|client| client.2).collect(), latencies)
}

fn mean(latencies: &[Span]) -> Span {
    let sum: u64 = latencies.iter().map(|latency| latency.as_nanos()).sum();
    Span::from_nanos(sum / latencies.len() as u64)
}

#[test]
fn the_mean_stays_under_the_bound_and_the_most_near_it() {
    let mut ledger = ledger("L_max=1s,D_low=8");
    let (_, latencies) = contend(&mut ledger, &[0; 16], at(0), 20_000, 1);
    let (mean, most) = (mean(&latencies), *latencies.last().unwrap());
    assert!(mean <= Span::from_secs(1) && mean >= Span::from_millis(850), "{mean}");
    // Equation (5): C / IOPS = 160 ms beyond the bound, and what a hundred requests vary by.
    assert!(most <= Span::from_millis(1_300), "{most}");
}

#[test]
fn a_percentile_is_kept_where_the_mean_would_break_it() {
    let late = |options: &str| {
        let (_, latencies) = contend(&mut ledger(options), &[0; 16], at(0), 40_000, 10);
        latencies.iter().filter(|latency| **latency > Span::from_secs(1)).count() as f64 / 40_000.0
    };
    let (by_mean, by_percentile) =
        (late("L_max=1s,D_low=8,fractions=on"), late("L_max=1s,D_low=8,fractions=on,bound=p99"));
    assert!(by_mean > 0.03, "{by_mean}");
    assert!(by_percentile <= 0.012, "{by_percentile}");
}

/// A server with more threads than its bound allows requests: the paper's D_low would let whoever
/// is answered first take all.
#[test]
fn many_threads_and_a_low_bound_starve_nobody() {
    for options in ["L_max=300ms", "L_max=150ms", "L_max=300ms,fractions=on"] {
        let mut ledger = ledger(options);
        let (done, latencies) = contend(&mut ledger, &[0; 8], at(0), 20_000, 1);
        let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
        assert!(f64::from(*least) > 0.9 * f64::from(*most), "{options}: {done:?}");
        assert!(mean(&latencies) <= ledger.options.latency_max, "{options}");
    }
}

/// 3:1 between as many clients of each, and all of it for who is alone.
#[test]
fn tenants_get_their_shares_and_the_one_that_is_alone_gets_all() {
    let mut ledger = ledger("L_max=1s,D_low=8,shares=3:1,STL=1s,ping=1s");
    let tenants: Vec<u32> = (0..16).map(|client| 1 + client % 2).collect();
    let (done, latencies) = contend(&mut ledger, &tenants, at(0), 20_000, 1);
    let of = |tenant| (0..16).filter(|at| tenants[*at] == tenant).map(|at| done[at]).sum::<u32>();
    let ratio = f64::from(of(1)) / f64::from(of(2));
    assert!((2.7..=3.3).contains(&ratio), "{ratio}");
    assert!(mean(&latencies) <= Span::from_secs(1));
    // The first contenders are gone; one tenant is left.
    for slot in 0..16 {
        ledger.gone(Seat { slot, generation: 1 }, at(300_000));
    }
    let (_, latencies) = contend(&mut ledger, &[2; 4], at(300_000), 5_000, 1);
    let depth = mean(&latencies[..]).as_millis_f64() / 10.0;
    assert!(depth > 80.0, "{depth} of 100 requests that the bound allows");
}
