//! `afflux quickstart`, shortened, and what is left when it is interrupted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn quickstart(temporary: &Path) -> Command {
    let workload = temporary.join("small.toml");
    std::fs::write(&workload, include_str!("small.toml")).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
    // The lab lives below this directory, so that its processes can be told by their arguments.
    command.env("TMPDIR", temporary).args(["quickstart", "--workload"]).arg(workload);
    command.args([
        "--settle",
        "20ms",
        "--try-for",
        "1s",
        "--length",
        "1s",
        "--pairs",
        "2",
        "--runs",
        "4",
    ]);
    command
}

/// Processes that name `dir` in their arguments.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|arguments| String::from_utf8_lossy(&arguments).replace('\0', " "))
        .filter(|arguments| arguments.contains(dir))
        .collect()
}

fn labs_in(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name() != "small.toml").count()
}

#[test]
fn it_tries_confirms_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let output = quickstart(temporary.path()).arg("--json").output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    assert!(talk.contains("left"), "a forecast: {talk}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tried = found["tried"].as_array().unwrap();
    let stages = |stage: &str| tried.iter().filter(|entry| entry["stage"] == stage).count();
    assert_eq!((stages("grid"), stages("search")), (2, 2));
    let comparisons = found["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 3);
    for comparison in comparisons {
        for pair in comparison["pairs"].as_array().unwrap() {
            let total = |side: usize| pair[side]["total_mb_s"].as_f64().unwrap();
            assert!(total(0) > 0.0 && total(1) > 0.0);
        }
    }
    assert!(found["best_fixed"].as_str().unwrap().starts_with("fixed:"), "{found}");
    assert_eq!(processes_of(temporary.path()), Vec::<String>::new());
    assert_eq!(labs_in(temporary.path()), 0);
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file() {
    let temporary = tempfile::tempdir().unwrap();
    for wait in [200, 1_500, 4_000] {
        let mut child = quickstart(temporary.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let asked = Instant::now();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(2), "after {wait} ms");
        assert!(asked.elapsed() < Duration::from_secs(20));
        assert_eq!(processes_of(temporary.path()), Vec::<String>::new(), "after {wait} ms");
        assert_eq!(labs_in(temporary.path()), 0, "after {wait} ms");
    }
}
