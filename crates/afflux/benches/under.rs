//! What the library costs a program, beside what the same calls cost without it, in one run.
//!
//! Files lie in memory, so that the difference is the library and not a disk.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run has failed, as it should")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

#[path = "../tests/under/built.rs"]
mod built;

/// Calls, the mode that they are measured in, and what they may cost more than alone.
const TARGETS: &[(&str, &str, f64)] = &[
    ("fwrite", "observe", 40.0),
    ("fread", "observe", 40.0),
    ("fprintf", "observe", 40.0),
    ("pwrite", "observe", 100.0),
    ("pread", "observe", 100.0),
    ("read", "observe", 100.0),
    ("read-zero", "observe", 100.0),
    ("fwrite", "gate", 40.0),
    ("fread", "gate", 40.0),
    ("pwrite", "gate", 100.0),
    ("pread", "gate", 100.0),
    ("read", "gate", 100.0),
    ("pwrite-dsync", "gate", 250.0),
];

/// Rounds over all modes, so that what else the machine does hits all alike.
const ROUNDS: usize = 5;

/// Starts of a program that are compared.
const STARTS: usize = 100;

fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let program = built::compile(dir.path(), "calls", include_str!("calls.c"));
    let mut least: BTreeMap<(String, String), f64> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for mode in ["alone", "disabled", "observe", "gate"] {
            for (call, nanos) in measure(&program, dir.path(), mode) {
                let known = least.entry((mode.to_owned(), call)).or_insert(f64::INFINITY);
                *known = known.min(nanos);
            }
        }
    }
    let cost = |mode: &str, call: &str| {
        let of = |mode: &str| least[&(mode.to_owned(), call.to_owned())];
        (of(mode) - of("alone"), of("alone"))
    };
    for (call, mode, target) in TARGETS {
        let (more, alone) = cost(mode, call);
        println!(
            "result: under, {mode}: {call} (target {target} ns more) | {more:.0} ns more than {alone:.0}"
        );
    }
    let worst = ["fwrite", "fread", "pwrite", "read"].map(|call| cost("disabled", call).0);
    let worst = worst.into_iter().fold(0.0, f64::max);
    println!(
        "result: under, disabled: worst of four calls (target: no clock) | {worst:.0} ns more"
    );
    starts();
}

/// Nanoseconds of each call in a mode.
fn measure(program: &Path, dir: &Path, mode: &str) -> Vec<(String, f64)> {
    let mut command = match mode {
        "alone" => Command::new(program),
        _ => {
            let mode_of_run = if mode == "disabled" { "gate" } else { mode };
            let mut command = built::afflux_run(&["--quiet", "--mode", mode_of_run, "--root"]);
            command.arg(dir).arg("--").arg(program);
            if mode == "disabled" {
                command.env("AFFLUX_DISABLE", "1");
            }
            command
        }
    };
    let output = command.arg(dir).stdout(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stderr).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(call, nanos)| (call.to_owned(), nanos.parse().unwrap())).collect()
}

/// What the library adds to the start and end of a process: a shell starts many, alone and under
/// it.
fn starts() {
    let script = format!("for i in $(seq {STARTS}); do /bin/true; done");
    let time = |mut command: Command| {
        let start = Instant::now();
        assert!(command.args(["sh", "-c", &script]).status().unwrap().success());
        start.elapsed().as_secs_f64() * 1e3 / STARTS as f64
    };
    let alone = || Command::new("env");
    let under = || built::afflux_run(&["--quiet", "--"]);
    let least = |one: &dyn Fn() -> f64| (0..ROUNDS).map(|_| one()).fold(f64::INFINITY, f64::min);
    let (alone, under) = (least(&|| time(alone())), least(&|| time(under())));
    println!(
        "result: under, gate: start of a process (target 2 ms more) \
         | {:.2} ms more than {alone:.2}",
        under - alone
    );
}
