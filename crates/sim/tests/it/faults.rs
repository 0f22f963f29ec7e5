//! What goes wrong: runs end, and nothing is lost, or they say what.

use afflux_sim::Outcome;

use crate::common::run;

const TWO: &str = r#"
[servers]
count = 2
device = "mem"
[clients]
timeout = "500ms"
retries = 100
[run]
settle = "0s"
length = "10s"
series = "500ms"
[workload]
clients = 2
files = { each = 2, size = "256 MiB", stripe_count = 1 }
[[workload.stream]]
threads = 4
steps = [{ do = "write", access = "random", size = "1 MiB" }]
"#;

fn faulty(fault: &str) -> Outcome {
    run::<&str>(&format!("{TWO}\n[[fault]]\nat = \"3s\"\nfor = \"4s\"\n{fault}"), &[], "none", 1)
}

/// MB/s within a stretch of the series.
fn between(outcome: &Outcome, from: usize, to: usize) -> f64 {
    let bytes: u64 = outcome.series.bytes[0][from * 2..to * 2].iter().map(|[r, w]| r + w).sum();
    bytes as f64 / 1e6 / (to - from) as f64
}

#[test]
fn servers_that_die_or_stall_come_back_and_nothing_is_lost() {
    let well = run::<&str>(TWO, &[], "none", 1);
    for fault in ["what = \"die\"", "what = \"stall\""] {
        let outcome = faulty(fault);
        assert!(between(&outcome, 4, 7) < 1.0, "{fault}: {}", between(&outcome, 4, 7));
        let (after, before) = (between(&outcome, 8, 10), between(&outcome, 0, 3));
        assert!(after > 0.9 * before, "{fault}: {after} {before}");
        assert!(outcome.totals.resent > 0 && outcome.totals.failed == 0, "{:?}", outcome.totals);
        assert!(outcome.totals.replies < well.totals.replies);
    }
    assert!(faulty("what = \"die\"").totals.lost > 0);
}

#[test]
fn a_link_that_is_slower_is_slower_by_its_factor() {
    let slow = faulty("what = \"slow-link\"\nfactor = 4");
    let (during, before) = (between(&slow, 4, 7), between(&slow, 0, 3));
    assert!((before / during / 4.0 - 1.0).abs() < 0.1, "{before} {during}");
}

#[test]
fn a_disk_that_is_slower_is_slower_by_its_factor() {
    let scenario = r#"
[servers]
count = 1
placement = "even"
[run]
settle = "0s"
length = "60s"
series = "500ms"
[workload]
clients = 1
files = { each = 1, size = "64 MiB" }
[[workload.stream]]
threads = 4
steps = [{ do = "read", access = "random", size = "64 KiB" }]
[[fault]]
what = "slow-disk"
at = "20s"
for = "20s"
factor = 3
"#;
    let slow = run::<&str>(scenario, &[], "none", 1);
    let (during, before) = (between(&slow, 21, 39), between(&slow, 0, 19));
    assert!((before / during / 3.0 - 1.0).abs() < 0.1, "{before} {during}");
    let after = between(&slow, 41, 60);
    assert!((after / before - 1.0).abs() < 0.1, "{before} {after}");
}

/// Three clients that write 40 MiB each through caches, and end.
const THREE: &str = r#"
[servers]
count = 2
device = "mem"
bulk = true
[clients]
timeout = "500ms"
retries = 3
[run]
settle = "0s"
length = "1000s"
series = "100ms"
[[application]]
name = "a"
bytes = "40MiB"
[application.workload]
clients = 3
max_request = "1 MiB"
files = { each = 2, size = "20 MiB", stripe_count = 1 }
stream = [{ threads = 2, steps = [{ do = "write", size = "1 MiB", think = "50ms" }] }]
"#;

const WHOLE: u64 = (3 * 40) << 20;

fn three(overrides: &[&str], faults: &str) -> Outcome {
    run(&format!("{THREE}{faults}"), overrides, "none", 1)
}

#[test]
fn a_client_that_dies_and_comes_back_moves_all_of_its_bytes() {
    // 84 ms for a MiB, and two threads: there is always something under way.
    let slow = ["network.client_rate=100Mbit/s"];
    let well = three(&slow, "");
    let fault = "[[fault]]\nwhat = \"client-die\"\nwhich = 1\nat = \"300ms\"\nfor = \"5s\"";
    let outcome = three(&slow, fault);
    let [of_well, one] = [&well, &outcome].map(|one| &one.applications[0]);
    assert_eq!((of_well.bytes, one.bytes), (WHOLE, WHOLE), "{:?}", outcome.totals);
    assert!((1..=2).contains(&outcome.totals.died), "{:?}", outcome.totals);
    assert_eq!(outcome.totals.failed_bytes, outcome.totals.died << 20);
    assert_eq!((outcome.totals.lost_bytes, outcome.totals.failed), (0, 0));
    let late = one.ended_secs.unwrap() - of_well.ended_secs.unwrap();
    assert!((4.8..5.4).contains(&late), "{late}");
    // While it is dead, the others go on, and nothing comes from it once they have ended.
    let seconds = &outcome.measurement.clients[1].seconds;
    assert!(seconds[2..5].iter().all(|bytes| *bytes == [0, 0]), "{seconds:?}");
    assert!(outcome.measurement.clients[0].seconds[0][1] > 0);
}

#[test]
fn what_a_cache_held_is_lost_and_said() {
    let fault = "[[fault]]\nwhat = \"client-die\"\nwhich = 1\nat = \"300ms\"\nfor = \"1s\"";
    let slow = ["clients.dirty=32MiB", "network.client_rate=100Mbit/s", "clients.timeout=10s"];
    let outcome = three(&slow, fault);
    let (lost, moved) = (outcome.totals.lost_bytes, outcome.applications[0].bytes);
    assert!(lost >= 4 << 20, "{:?}", outcome.totals);
    assert_eq!(lost + moved, WHOLE, "{:?}", outcome.totals);
    assert!(outcome.applications[0].ended_secs.is_some());
    // Servers asked for data that were no more.
    assert!(outcome.totals.lost > 0, "{:?}", outcome.totals);
}

#[test]
fn a_client_that_never_comes_back_holds_nobody_up() {
    let fault = "[[fault]]\nwhat = \"client-die\"\nwhich = 1\nat = \"300ms\"\nfor = \"ever\"";
    let outcome = three(&["run.length=30s"], fault);
    let one = &outcome.applications[0];
    assert_eq!((one.ended_secs, outcome.ended_secs), (None, 30.0));
    let seconds = |client: usize| {
        outcome.measurement.clients[client].seconds.iter().map(|bytes| bytes[1]).sum::<u64>()
    };
    assert_eq!((seconds(0), seconds(2)), (40 << 20, 40 << 20));
    assert!(seconds(1) > 0 && seconds(1) < 20 << 20, "{}", seconds(1));
}

#[test]
fn a_server_that_never_comes_back_ends_the_run_and_what_was_lost_is_said() {
    let fault = "[[fault]]\nwhat = \"die\"\nwhich = 0\nat = \"300ms\"\nfor = \"ever\"";
    for (dirty, believed) in [("clients.dirty=0B", false), ("clients.dirty=8MiB", true)] {
        let outcome = three(&[dirty], fault);
        let (one, totals) = (&outcome.applications[0], &outcome.totals);
        assert!(one.ended_secs.is_some() && outcome.ended_secs < 200.0, "{}", outcome.ended_secs);
        assert!(totals.failed > 0 && totals.lost > 0, "{totals:?}");
        assert_eq!(one.bytes + totals.failed_bytes + totals.lost_bytes, WHOLE, "{totals:?}");
        assert_eq!(totals.lost_bytes > 0, believed, "{totals:?}");
    }
}

/// Clients that create, append to, read and delete files: each step asks the server of names.
fn names(fault: &str) -> Outcome {
    let scenario = r#"
workload = "fileserver"
[servers]
count = 2
device = "mem"
[clients]
timeout = "300ms"
retries = 100
[run]
settle = "0s"
length = "10s"
series = "500ms"
"#;
    run::<&str>(&format!("{scenario}\n[[fault]]\nat = \"3s\"\n{fault}"), &[], "none", 1)
}

#[test]
fn the_server_of_names_stalls_dies_and_comes_back() {
    let well = names("what = \"slow-link\"\nfactor = 1");
    for (what, loses) in [("names-stall", false), ("names-die", true)] {
        let outcome = names(&format!("what = \"{what}\"\nfor = \"4s\""));
        let speeds = [(0, 3), (4, 7), (8, 10)].map(|(from, to)| between(&outcome, from, to));
        assert!(speeds[0] > 50.0 && speeds[1] < 0.1 * speeds[0], "{what}: {speeds:?}");
        assert!(speeds[2] > 0.8 * speeds[0], "{what}: {speeds:?}");
        assert_eq!(outcome.totals.lost > 0, loses, "{what}: {:?}", outcome.totals);
        assert!(outcome.totals.resent > 0 && outcome.totals.failed == 0, "{:?}", outcome.totals);
        assert!(outcome.totals.operations < well.totals.operations);
        assert_eq!((outcome.totals.failed_bytes, outcome.totals.lost_bytes), (0, 0));
    }
    let never = names("what = \"names-die\"\nfor = \"ever\"");
    assert!(between(&never, 4, 10) < 1.0 && never.ended_secs == 10.0);
}
