//! How many requests and events a second worlds of many sizes do on one core, and what memory they
//! take. The lines that begin with "result:" are for the table of `make bench`. With the number
//! 1024 behind it, only the small world is run.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures the machine, not the world")]
#![allow(clippy::disallowed_macros, reason = "a benchmark prints its results")]
#![allow(clippy::disallowed_types, reason = "a benchmark measures the machine, not the world")]

mod curve;

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

    fn events_s(&self) -> f64 {
        self.outcome.totals.events as f64 / self.run_secs
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

/// What is run alone when its number of clients is asked for, besides the points of the curve.
const SMALL: u32 = 1_024;

fn main() {
    let asked = std::env::args().nth(1).and_then(|clients| clients.parse::<u32>().ok());
    match asked {
        Some(SMALL) => return small(),
        Some(clients) => return curve::point(clients),
        None => small(),
    }
    let large = many(65_536, 1_024, 4, 15);
    tell("65,536 clients of 4 threads, 1,024 disks, aimd (target 100,000 requests/s)", &large);
    let credits = cost(CREDITS, &[], "fixed:8");
    tell("credits, 1,024 clients, 512 GiB (target 3 s)", &credits);
    curve::draw();
}

fn small() {
    let small = many(SMALL, 32, 4, 400);
    tell("1,024 clients of 4 threads, 32 disks, aimd (target 400,000 requests/s)", &small);
}

fn tell(name: &str, cost: &Cost) {
    println!(
        "result: sim/{name} | {:.0} requests/s, {:.2} M events/s ({} requests in {:.2} s)",
        cost.requests_s(),
        cost.events_s() / 1e6,
        cost.outcome.totals.replies,
        cost.run_secs,
    );
}
