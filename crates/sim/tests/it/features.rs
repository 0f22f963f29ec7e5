//! Locks, caches and ends, each against what must come of it.

use afflux_core::setting::Setting;
use afflux_sim::Simulation;

use crate::common::{self, run, speed};
use afflux_core::summary::Summary;

const SHARED: &str = r#"
[servers]
count = 4
device = "mem"
[run]
settle = "1s"
length = "5s"
[workload]
clients = 4
[workload.files]
placing = "shared"
each = 1
size = "256 MiB"
[[workload.stream]]
threads = 1
steps = [{ do = "write", access = "random", size = "1 MiB" }]
"#;

#[test]
fn a_lock_on_the_file_lets_one_client_work_at_a_time() {
    let free = speed(&run::<&str>(SHARED, &[], "none", 1));
    let locked = run(SHARED, &["locks.scope=file", "locks.handover=10ms"], "none", 1);
    // Each operation takes the lock along: 10 ms, and 8.5 ms for 1 MiB over the client's link.
    let expected = 1.048_576 / (0.010 + 0.0085);
    assert!(free > 300.0, "{free}");
    assert!((speed(&locked) / expected - 1.0).abs() < 0.05, "{} {expected}", speed(&locked));
    assert!(locked.totals.handovers > 200);
    let batched =
        run(SHARED, &["locks.scope=file", "locks.handover=10ms", "locks.batch=16"], "none", 1);
    assert!(speed(&batched) > 1.5 * speed(&locked), "{}", speed(&batched));
    let objects = run(SHARED, &["locks.scope=object", "locks.handover=10ms"], "none", 1);
    assert!(speed(&objects) > 1.5 * speed(&locked), "{}", speed(&objects));
}

#[test]
fn readers_may_share_a_lock() {
    let reads = SHARED.replace("\"write\"", "\"read\"");
    let locks = ["locks.scope=file", "locks.handover=10ms"];
    let alone = speed(&run(&reads, &locks, "none", 1));
    let shared = speed(&run(&reads, &[locks[0], locks[1], "locks.shared_reads=true"], "none", 1));
    assert!(shared > 2.0 * alone, "{shared} {alone}");
}

/// One client and one disk, one MiB at a time in a file of 64 MiB.
const ONE_AT_A_TIME: &str = r#"
[servers]
count = 1
overhead = "1ms"
[run]
settle = "5s"
length = "5s"
[workload]
clients = 1
files = { each = 1, size = "64 MiB" }
[[workload.stream]]
threads = 1
steps = [{ do = "read", size = "1 MiB" }]
"#;

/// Microseconds of one MiB without its device at 1 Gbit/s: header up and down, the way there and
/// back, the thread, the data.
const WITHOUT_DEVICE_US: f64 = 4.1 + 50.0 + 1_000.0 + 50.0 + 8_390.7;

#[test]
fn what_a_server_remembers_needs_no_device() {
    // After the first pass, which takes a second or two, all of the file is in memory.
    let cached = speed(&run(ONE_AT_A_TIME, &["servers.cache=64MiB"], "none", 1));
    let expected = 1_048_576.0 / WITHOUT_DEVICE_US;
    assert!((cached / expected - 1.0).abs() < 0.01, "{cached} {expected}");
    // Half of it, in order: what comes next has always just been given up.
    let none = speed(&run::<&str>(ONE_AT_A_TIME, &[], "none", 1));
    let half = speed(&run(ONE_AT_A_TIME, &["servers.cache=32MiB"], "none", 1));
    assert!((half / none - 1.0).abs() < 0.001 && none < 0.9 * cached, "{half} {none}");
    // Reads find what was written, and writes go to the disk all the same.
    let both = ONE_AT_A_TIME.replace(
        "{ do = \"read\", size = \"1 MiB\" }",
        "{ do = \"write\", size = \"1 MiB\" }, { do = \"read\", size = \"1 MiB\" }",
    );
    let outcome = run(&both, &["servers.cache=64MiB"], "none", 1);
    let times = &outcome.measurement.clients[0].process_time;
    let [reads, writes] = [0, 1].map(|class| times[class].mean().as_nanos() as f64 / 1e3);
    assert!((reads / WITHOUT_DEVICE_US - 1.0).abs() < 0.01, "{reads}");
    assert!(writes > WITHOUT_DEVICE_US + 5_000.0, "{writes}");
}

#[test]
fn what_a_client_remembers_of_its_own_files_asks_no_server() {
    // A core copies 5 GB/s; after the first pass nothing is sent any more.
    let cached = run(ONE_AT_A_TIME, &["clients.cache=64MiB"], "none", 1);
    assert!((speed(&cached) / 5_000.0 - 1.0).abs() < 0.01, "{}", speed(&cached));
    assert_eq!(cached.totals.replies, 64);
    // Of a file that others have too it cannot know.
    let shared = ONE_AT_A_TIME.replace("each = 1", "placing = \"shared\", each = 1");
    let asked = speed(&run(&shared, &["clients.cache=64MiB"], "none", 1));
    assert!(asked < 118.0, "{asked}");
}

#[test]
fn a_write_that_is_answered_ahead_takes_no_time_of_the_device_until_memory_is_full() {
    let writes = ONE_AT_A_TIME.replace("\"read\"", "\"write\", access = \"random\"");
    let through = speed(&run::<&str>(&writes, &[], "none", 1));
    // 5 s at 110 MB/s fit into a GiB.
    let ahead = ["servers.write_back=1GiB", "run.settle=0s"];
    let ahead = speed(&run(&writes, &ahead, "none", 1));
    let expected = 1_048_576.0 / WITHOUT_DEVICE_US;
    assert!((ahead / expected - 1.0).abs() < 0.01, "{ahead} {expected}");
    // With room for few the disk sets the pace: as fast as with as many under way.
    let fifo = "servers.device=hdd:elevator=fifo,depth=1";
    let few = speed(&run(&writes, &[fifo, "servers.write_back=4MiB"], "none", 1));
    let threads = speed(&run(&writes, &[fifo, "clients.threads=4"], "none", 1));
    assert!((few / threads - 1.0).abs() < 0.03 && few > 1.2 * through, "{few} {threads}");
}

/// Two clients take turns at the lock of a file. What is answered from memory goes on to the disk
/// while the other has the lock.
#[test]
fn a_lock_is_handed_on_while_a_server_still_writes() {
    let shared = ONE_AT_A_TIME
        .replace("\"read\"", "\"write\", access = \"random\"")
        .replace("clients = 1", "clients = 2")
        .replace("each = 1", "placing = \"shared\", each = 1");
    let locks = ["locks.scope=file", "locks.handover=2ms", "run.settle=0s"];
    let through = run(&shared, &locks, "none", 1);
    let overlapped = [&locks[..], &["servers.write_back=1GiB"]].concat();
    let overlapped = speed(&run(&shared, &overlapped, "none", 1));
    let expected = 1_048_576.0 / (WITHOUT_DEVICE_US + 2_000.0);
    assert!((overlapped / expected - 1.0).abs() < 0.01, "{overlapped} {expected}");
    let disk_us = Summary::of(&through.measurement).access_ms * 1e3;
    let expected = 1_048_576.0 / (WITHOUT_DEVICE_US + 2_000.0 + disk_us);
    assert!((speed(&through) / expected - 1.0).abs() < 0.01, "{} {expected}", speed(&through));
}

/// One thread that writes, or reads, one MiB after the other from one disk that is 50 ms away.
const FAR: &str = r#"
[network]
latency = "25ms"
[servers]
count = 1
device = "mem"
[run]
settle = "1s"
length = "10s"
[workload]
clients = 1
files = { each = 1, size = "256 MiB" }
[[workload.stream]]
threads = 1
steps = [{ do = "write", size = "1 MiB" }]
"#;

#[test]
fn caches_keep_the_wire_full_for_one_thread() {
    for (scenario, key) in [
        (FAR.to_owned(), "clients.dirty"),
        (FAR.replace("\"write\"", "\"read\""), "clients.read_ahead"),
    ] {
        let one_at_a_time = run::<&str>(&scenario, &[], "none", 1);
        // 50 ms on the way, 8.4 ms on the wire.
        let expected = 1.048_576 / 0.0585;
        let straight = speed(&one_at_a_time);
        assert!((straight / expected - 1.0).abs() < 0.03, "{key}: {straight} {expected}");
        for (bytes, ahead) in [("3MiB", 4.0), ("16MiB", 8.0)] {
            let cached = run(&scenario, &[format!("{key}={bytes}")], "fixed:8", 1);
            // As many as the cache covers and the one that waits, or the window; at most the wire.
            let expected = (expected * ahead).min(125.0);
            let rate = speed(&cached);
            assert!((rate / expected - 1.0).abs() < 0.05, "{key}={bytes}: {rate} {expected}");
        }
    }
}

#[test]
fn applications_start_when_they_should_and_end_with_their_bytes() {
    let scenario = r#"
[servers]
count = 2
device = "mem"
[run]
settle = "0s"
length = "60s"
[[application]]
name = "first"
bytes = "32MiB"
servers = 1
[application.workload]
clients = 3
files = { each = 1, size = "32 MiB" }
stream = [{ threads = 1, steps = [{ do = "write", size = "1 MiB" }] }]
[[application]]
name = "second"
start = "5s"
bytes = "32MiB"
first_server = 1
[application.workload]
preset = "seq-write"
clients = 2
"#;
    let outcome = run::<&str>(scenario, &[], "none", 1);
    let [first, second] = outcome.applications.as_slice() else { panic!() };
    assert_eq!((first.bytes, second.bytes), (96 << 20, 64 << 20));
    assert!((5.0..5.02).contains(&second.started_secs.unwrap()), "{second:?}");
    // 96 MiB over one server's link of 125 MB/s.
    assert!((first.io_secs().unwrap() / 0.805 - 1.0).abs() < 0.05, "{first:?}");
    assert!((second.io_secs().unwrap() / 0.537 - 1.0).abs() < 0.05, "{second:?}");
    assert_eq!(outcome.ended_secs, second.ended_secs.unwrap());
    assert_eq!(outcome.measurement.clients.len(), 5);
}

#[test]
fn merged_clients_add_up() {
    let scenario = "workload = \"random-read\"";
    let apart = run(scenario, &["run.merge=1"], "none", 1);
    let merged = run(scenario, &["run.merge=4"], "none", 1);
    assert_eq!((apart.measurement.clients.len(), merged.measurement.clients.len()), (8, 2));
    assert_eq!(merged.merged, 4);
    assert_eq!(speed(&apart), speed(&merged));
    let [apart, merged] = [&apart, &merged].map(|one| Summary::of(&one.measurement));
    assert_eq!((apart.p99_ms, apart.held_secs), (merged.p99_ms, merged.held_secs));
}

#[test]
fn what_does_not_fit_into_a_machine_is_refused() {
    for (overrides, says) in [
        (["clients.count=1000000", "servers.count=10000"], "files.stripe_count"),
        (["network.buffer=64KiB", "servers.count=1000000"], "flows are needed"),
        (["application.bytes=1MiB", "servers.region=1MiB"], "do not fit on the servers"),
    ] {
        let scenario = common::scenario("workload = \"seq-write\"", &overrides);
        let error = Simulation::new(&scenario, &Setting::none(), 1).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// The digest of a small run with much in it: a change of anything shows here. When a change is
/// meant, the new digest is in the failure.
#[test]
fn a_known_run_gives_known_bytes() {
    let scenario = r#"
workload = "fileserver"
[servers]
count = 3
spindles = 2
bulk = true
[clients]
timeout = "2s"
[run]
settle = "1s"
length = "5s"
series = "1s"
"#;
    let outcome = run::<&str>(scenario, &[], "read=fixed:2+write=aimd", 5);
    let text = serde_json::to_string(&outcome).unwrap();
    let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!(format!("{digest:016x}"), "9ab55c056a038d25", "{:?}", outcome.totals);
}
