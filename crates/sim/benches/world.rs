//! How many requests and events a second worlds of many sizes do on one core, and what memory they
//! take. The lines that begin with "result:" are for the table of `make bench`.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures the machine, not the world")]
#![allow(clippy::disallowed_macros, reason = "a benchmark prints its results")]
#![allow(clippy::disallowed_types, reason = "a benchmark measures the machine, not the world")]

use afflux_core::setting::Setting;
use afflux_core::target::Unwatched;
use afflux_sim::{Outcome, Scenario, Simulation};

/// What one run cost, in time of the processor: others on the machine do not count.
struct Cost {
    outcome: Outcome,
    build_secs: f64,
    run_secs: f64,
    /// Bytes by which the process grew.
    bytes: u64,
}

impl Cost {
    fn requests_s(&self) -> f64 {
        self.outcome.totals.replies as f64 / self.run_secs
    }

    fn nanos_a_request(&self) -> f64 {
        1e9 / self.requests_s()
    }
}

/// Bytes of the process that are in memory.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Seconds that this process had a processor.
fn processor_secs() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.unwrap_or(0.0) / 1e9
}

fn cost(scenario: &str, overrides: &[String], control: &str) -> Cost {
    let text = format!("afflux-scenario = 1\nname = \"bench\"\n{scenario}");
    let scenario = Scenario::parse(&text).and_then(|scenario| scenario.with(overrides));
    let scenario = scenario.expect("the scenarios below are right");
    let setting = Setting::parse(control, &|name| Err(name.to_owned())).expect("a known setting");
    let before = resident_bytes();
    let start = processor_secs();
    let simulation = Simulation::new(&scenario, &setting, 1).expect("the files fit");
    let build_secs = processor_secs() - start;
    let start = processor_secs();
    let outcome = simulation.run(&Unwatched).expect("nobody cancels it");
    let run_secs = processor_secs() - start;
    // The most that the process ever had, in kilobytes.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let bytes = (peak.unwrap_or(0) * 1024).saturating_sub(before);
    Cost { outcome, build_secs, run_secs, bytes }
}

/// Random writes of 1 MiB over four stripes a client, AIMD on every path.
const MANY: &str = r#"
[servers]
device = "hdd"
threads = 64
bulk = true
placement = "even"
[run]
settle = "1s"
[workload]
clients = 100
files = { each = 1, size = "64 MiB", stripe_count = 4 }
[[workload.stream]]
threads = THREADS
steps = [{ do = "write", access = "random", size = "1 MiB" }]
"#;

fn many(clients: u32, servers: u32, threads: u32, secs: u32) -> Cost {
    let overrides = [
        format!("clients.count={clients}"),
        format!("servers.count={servers}"),
        format!("run.length={secs}s"),
    ];
    cost(&MANY.replace("THREADS", &threads.to_string()), &overrides, "aimd")
}

/// IOR of the credits paper: 512 GiB by 1,024 clients, a file each, one server.
const CREDITS: &str = r#"
[network]
client_rate = "10Gbit/s"
server_rate = "10Gbit/s"
[servers]
count = 1
spindles = 8
bulk = true
[run]
settle = "0s"
length = "10h"
[[application]]
bytes = "512MiB"
[application.workload]
clients = 1024
files = { each = 1, size = "512 MiB" }
[[application.workload.stream]]
threads = 8
steps = [{ do = "write", size = "1 MiB" }]
"#;

/// The worlds of the curve: clients, servers, counted seconds. Each runs in a process of its own,
/// so that its memory is told from that of others.
const CURVE: [(u32, u32, u32); 5] = [
    (100, 1, 4_000),
    (1_000, 10, 800),
    (10_000, 100, 80),
    (100_000, 1_000, 8),
    (1_000_000, 10_000, 2),
];

fn main() {
    let asked = std::env::args().nth(1).and_then(|clients| clients.parse::<u32>().ok());
    if let Some(point) = CURVE.iter().find(|(clients, ..)| Some(*clients) == asked) {
        return curve(*point);
    }
    let small = many(1_024, 32, 4, 400);
    tell("1,024 clients of 4 threads, 32 disks, aimd (target 400,000 requests/s)", &small);
    let large = many(65_536, 1_024, 4, 15);
    tell("65,536 clients of 4 threads, 1,024 disks, aimd (target 100,000 requests/s)", &large);
    let credits = cost(CREDITS, &[], "fixed:8");
    tell("credits, 1,024 clients, 512 GiB (target 3 s)", &credits);
    for (clients, ..) in CURVE {
        let program = std::env::current_exe().expect("this program runs");
        let status = std::process::Command::new(program).arg(clients.to_string()).status();
        assert!(status.expect("it runs once more").success());
    }
}

fn curve((clients, servers, secs): (u32, u32, u32)) {
    let one = many(clients, servers, 1, secs);
    println!(
        "result: sim/curve {clients} clients, {servers} servers | {:.0} requests/s, {:.2} M \
         events/s, {:.0} ns/request, {:.0} B/client, built in {:.2} s",
        one.requests_s(),
        one.outcome.totals.events as f64 / one.run_secs / 1e6,
        one.nanos_a_request(),
        one.bytes as f64 / f64::from(clients),
        one.build_secs,
    );
}

fn tell(name: &str, cost: &Cost) {
    println!(
        "result: sim/{name} | {:.0} requests/s, {:.2} M events/s ({} requests in {:.2} s)",
        cost.requests_s(),
        cost.outcome.totals.events as f64 / cost.run_secs / 1e6,
        cost.outcome.totals.replies,
        cost.run_secs,
    );
}
