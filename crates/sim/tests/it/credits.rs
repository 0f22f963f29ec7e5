//! Credits: the latency bound, collapse and its cure, shares, greedy clients, servers that die.

use afflux_core::target::Unwatched;
use afflux_sim::scenario::shipped;
use afflux_sim::{Outcome, Simulation, numbers};

use crate::common::{run, setting};

/// 64 clients that always have 32 writes for one disk that does them in their order, some 40 a
/// second. One that sorts them lets single requests wait for up to 5 s more, bound or not.
const CROWD: &str = r#"
[servers]
count = 1
threads = 16
device = "hdd:elevator=fifo,depth=1"
[run]
settle = "30s"
length = "90s"
[workload]
clients = 64
files = { each = 1, size = "64MiB", stripe_count = 1 }
stream = [{ threads = 32, steps = [{ do = "write", size = "1 MiB", access = "random" }] }]
"#;

fn number(outcome: &Outcome, name: &str) -> f64 {
    let summary = afflux_core::summary::Summary::of(&outcome.measurement);
    numbers::value(name, outcome, &summary).unwrap()
}

fn of_shipped(name: &str, overrides: &[&str]) -> Outcome {
    let scenario = shipped(name).unwrap().scenario().with(overrides).unwrap();
    let setting = setting(&scenario.policy.setting);
    Simulation::new(&scenario, &setting, 1).unwrap().run(&Unwatched).unwrap()
}

#[test]
fn the_bound_holds_and_no_static_window_that_keeps_it_does_more() {
    let credits = run(CROWD, &["servers.credits=L_max=3s,fractions=on"], "fixed:64", 1);
    let (mean, longest) = (number(&credits, "mean_ms"), number(&credits, "longest_ms"));
    let iops = credits.ledgers[0].iops;
    println!("credits: {mean} ms, longest {longest}, {iops} a second");
    assert!(mean <= 3_000.0, "{mean}");
    // Equation (5), and 2% since the rate is a measured one.
    assert!(longest <= (3_000.0 + 64.0 / iops * 1_000.0) * 1.02, "{longest} at {iops}");
    let best = (1..=12)
        .map(|window| run(CROWD, &["servers.count=1"], &format!("fixed:{window}"), 1))
        .filter(|fixed| number(fixed, "mean_ms") <= 3_000.0)
        .map(|fixed| number(&fixed, "total_mb_s"))
        .fold(0.0, f64::max);
    let speed = number(&credits, "total_mb_s");
    println!("best static {best}, credits {speed}");
    assert!(speed >= best * 0.98, "{speed} against {best}");
}

#[test]
fn static_windows_with_time_outs_collapse_and_credits_do_not() {
    let collapsed = of_shipped("credits-collapse", &[]);
    let cured =
        of_shipped("credits-collapse", &["servers.credits=L_max=2s", "policy.setting=fixed:64"]);
    let of = |name| (number(&collapsed, name), number(&cured, name));
    let (slow, fast) = of("total_mb_s");
    println!("{slow} MB/s and {fast} MB/s, resent {:?}, wasted {:?}", of("resent"), of("wasted"));
    assert!(slow < fast / 4.0, "{slow} {fast}");
    assert!(of("resent").0 > 1_000.0);
    assert_eq!((of("resent").1, of("wasted").1), (0.0, 0.0));
}

#[test]
fn shares_hold_under_contention_and_limit_nobody_who_is_alone() {
    let both = of_shipped("credits-shares", &[]);
    let ratio = number(&both, "first.counted_mb_s") / number(&both, "second.counted_mb_s");
    let whole = number(&both, "total_mb_s");
    println!("ratio {ratio}, {whole} MB/s together");
    assert!((2.7..=3.3).contains(&ratio), "{ratio}");
    for (override_, who) in
        [("application1.start=1000s", "second"), ("application2.start=1000s", "first")]
    {
        let alone = of_shipped("credits-shares", &[override_]);
        let got = number(&alone, &format!("{who}.counted_mb_s"));
        println!("{who} alone {got}");
        assert!(got > 0.95 * whole, "{who}: {got} of {whole}");
    }
    let capped = of_shipped("credits-shares", &["servers.credits=L_max=2s,caps=none:10MB/s"]);
    let got = number(&capped, "second.counted_mb_s");
    assert!((9.0..=10.6).contains(&got), "{got} MB/s under a cap of 10");
}

#[test]
fn a_greedy_client_is_contained_and_named() {
    let free = of_shipped("credits-greedy", &["servers.credits=L_max=2s"]);
    let contained = of_shipped("credits-greedy", &[]);
    let of = |name| (number(&free, name), number(&contained, name));
    println!("modest {:?}, greedy {:?}", of("modest.counted_mb_s"), of("greedy.counted_mb_s"));
    // Fifteen of sixteen equal shares, within a tenth.
    let (before, after) = of("modest.counted_mb_s");
    assert!(after > 0.9 * 15.0 / 16.0 * number(&contained, "total_mb_s"), "{after}");
    assert!(after > 1.2 * before, "{before} {after}");
    for outcome in [&free, &contained] {
        assert_eq!(outcome.ledgers[0].ignoring, [15], "the sixteenth client");
    }
}

/// A server that dies forgets its ledger; the clients come back with the least credits.
#[test]
fn a_server_that_comes_back_meets_no_storm() {
    let fault = "[clients]\ntimeout = \"8s\"\n\
                 [[fault]]\nat = \"40s\"\nwhat = \"die\"\nwhich = 0\nfor = \"10s\"\n";
    let overrides = ["servers.credits=L_max=3s", "run.length=60s"];
    let outcome = run(&format!("{CROWD}{fault}"), &overrides, "fixed:64", 1);
    let iops = outcome.ledgers[0].iops;
    let deepest = number(&outcome, "deepest");
    println!("deepest {deepest}, at {iops} a second; active {}", outcome.ledgers[0].active);
    // At the start 64 clients have one each, and D_max is 3 s of work.
    assert!(deepest <= 3.3 * iops, "{deepest}");
    assert!(outcome.totals.lost > 0 && outcome.totals.failed == 0, "{:?}", outcome.totals);
    assert_eq!(outcome.ledgers[0].active, 64);
    assert!(number(&outcome, "total_mb_s") > 0.6 * iops, "{iops}");
}

#[test]
fn what_credits_hold_back_is_told() {
    let outcome = run(CROWD, &["servers.credits=L_max=3s", "run.length=30s"], "fixed:64", 1);
    assert!(number(&outcome, "held_credits_secs") > 100.0);
    let error = crate::common::scenario(CROWD, &["servers.count=1"])
        .with(&["servers.credits=L_max=3s,shares=1:0"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("leave it out for weight 1"), "{error}");
}
