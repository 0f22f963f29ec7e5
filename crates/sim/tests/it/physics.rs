//! What the world does against what can be worked out by hand.

use afflux_core::target::Unwatched;
use afflux_sim::Simulation;

use crate::common::{self, run, speed};
use afflux_core::class::Class;

const ONE_STREAM: &str = r#"
[servers]
count = 1
[run]
settle = "2s"
length = "10s"
[workload]
clients = 1
files = { each = 1, size = "4 GiB" }
[[workload.stream]]
threads = 8
steps = [{ do = "read", size = "1 MiB" }]
"#;

#[test]
fn one_sequential_stream_runs_at_the_rate_of_the_disk() {
    // The disk reads 113 MB/s at the edge and 57 within: a file lies somewhere between.
    let outcome = run(
        ONE_STREAM,
        &["network.client_rate=10Gbit/s", "network.server_rate=10Gbit/s"],
        "none",
        1,
    );
    let disk = speed(&outcome);
    assert!((57.0..113.0).contains(&disk), "{disk}");
}

#[test]
fn a_fast_device_leaves_the_rate_of_the_link() {
    for (rate, expected) in [("1Gbit/s", 125.0), ("500Mbit/s", 62.5), ("100Mbit/s", 12.5)] {
        let rate = format!("network.client_rate={rate}");
        let outcome = run(ONE_STREAM, &["servers.device=mem", &rate], "none", 1);
        let speed = speed(&outcome);
        assert!((speed / expected - 1.0).abs() < 0.01, "{rate}: {speed}");
    }
}

#[test]
fn process_time_at_window_one_is_transfer_plus_service() {
    let outcome = run(ONE_STREAM, &["servers.device=mem", "servers.overhead=1ms"], "fixed:1", 1);
    // 256 B over two links in 4.1 us and 50 us on the way, 1 ms of the thread, 1 MiB + 256 B back
    // in 8.391 ms and 50 us: one request at a time.
    let expected_us = 4.1 + 50.0 + 1_000.0 + 50.0 + 8_390.7;
    let times = &outcome.measurement.clients[0].process_time[Class::Read.index()];
    let mean = times.mean().as_nanos() as f64 / 1e3;
    assert!((mean / expected_us - 1.0).abs() < 0.005, "{mean} {expected_us}");
    let rate = speed(&outcome);
    assert!((rate / (1_048_576.0 / expected_us) - 1.0).abs() < 0.01, "{rate}");
}

#[test]
fn service_threads_bound_what_is_served_at_once() {
    let outcome = run(
        ONE_STREAM,
        &["servers.device=mem", "servers.overhead=100ms", "servers.threads=2"],
        "fixed:8",
        1,
    );
    // Two threads of 100 ms give 20 requests a second.
    let rate = speed(&outcome) * 1e6 / 1_048_576.0;
    assert!((rate / 20.0 - 1.0).abs() < 0.02, "{rate}");
}

#[test]
fn four_disks_give_four_times_as_much_as_one() {
    let of = |servers: u32| {
        let servers = format!("servers.count={servers}");
        let outcome = run(
            "workload = \"random-read\"",
            &[&servers, "run.length=20s", "network.client_rate=10Gbit/s"],
            "none",
            3,
        );
        speed(&outcome)
    };
    let (one, four) = (of(1), of(4));
    assert!((four / one / 4.0 - 1.0).abs() < 0.10, "{one} {four}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let text = |seed| {
        let outcome = run("workload = \"fileserver\"", &["run.series=1s"], "aimd", seed);
        serde_json::to_string(&outcome).unwrap()
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn every_preset_runs() {
    for preset in afflux_core::workload::PRESETS {
        let outcome =
            run(&format!("workload = \"{}\"", preset.name), &["run.length=5s"], "none", 1);
        assert!(speed(&outcome) > 1.0, "{}: {}", preset.name, speed(&outcome));
        assert_eq!(outcome.totals.failed, 0);
    }
}

#[test]
fn decisions_replay_to_the_same_bytes() {
    for control in ["none", "aimd", "gradient", "fixed:3,gap=2ms+fan-in=5", "fixed:4+turn=20ms"] {
        let overrides = ["clients.timeout=120ms", "run.length=3s", "run.settle=0s"];
        let scenario = common::scenario("workload = \"fileserver\"", &overrides);
        let setting = common::setting(control);
        let world = Simulation::new(&scenario, &setting, 4).unwrap().deciding(2);
        let log = world.run(&Unwatched).unwrap().decisions.unwrap();
        assert!(log.contains(" ask ") && log.contains(" reply ") && log.contains(" fault "));
        assert_eq!(afflux_sim::replay(&setting, &log).unwrap(), log, "{control}");
    }
}
