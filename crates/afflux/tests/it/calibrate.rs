//! `afflux calibrate`, on an engine that does nothing and with short runs.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Two clients with four operations under way, each answered after 5 ms: nearly even, so much so
/// that now and then every run carries the same number of bytes.
const EVEN: &str = "null:5ms";

/// Answered as fast as the machine goes: no two runs carry the same number of bytes, of some 10^6
/// operations a second.
const UNEVEN: &str = "null";

fn calibrate(target: &str, dir: &Path, args: &[&str]) -> Command {
    let workload = dir.join("small.toml");
    std::fs::write(&workload, include_str!("small.toml")).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
    command.arg("calibrate").arg(workload).args(["--on", target, "--settle", "20ms"]);
    command.args(["--from", "1s", "--runs", "3"]).args(args);
    command
}

fn output(target: &str, args: &[&str]) -> Output {
    calibrate(target, tempfile::tempdir().unwrap().path(), args).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn it_takes_the_first_length_that_repeats() {
    let output = output(EVEN, &["--cv", "0.9", "--json"]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{talk}");
    assert!(talk.contains("run 1 of at most") && talk.contains("left"), "a forecast: {talk}");
    let found = json(&output);
    assert_eq!((&found["afflux_calibrate"], &found["chosen"]), (&1.into(), &"1s".into()));
    let curve = found["curve"].as_array().unwrap();
    assert_eq!((curve.len(), curve[0]["values"].as_array().unwrap().len()), (1, 3));
    assert_eq!((&curve[0]["verdict"], &curve[0]["length"]), (&"passes".into(), &"1s".into()));
    let cv = ["low", "mean", "high"].map(|end| curve[0]["cv"][end].as_f64().unwrap());
    assert!(cv.is_sorted() && cv[1] < 0.9, "{cv:?}");
    assert!(curve[0]["mean"].as_f64().unwrap() > 0.0);
}

/// No machine repeats to a billionth; two lengths are tried, and the answer is no.
#[test]
fn when_nothing_repeats_the_answer_is_no() {
    let output = output(UNEVEN, &["--cv", "0.000000001", "--max", "2s", "--stop-early"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("No length up to 2s is long enough"), "{said}");
    for word in ["95% interval", "1s", "came nearest", "left early"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn ctrl_c_ends_it_and_shows_what_was_seen() {
    let temporary = tempfile::tempdir().unwrap();
    for (wait, seen) in [(300, false), (4_000, true)] {
        let child = calibrate(UNEVEN, temporary.path(), &["--cv", "0.000000001"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let asked = Instant::now();
        let output = child.wait_with_output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{talk}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{talk}");
        assert!(output.stdout.is_empty() && talk.contains("ended before"), "{talk}");
        assert_eq!(talk.contains("95% interval"), seen, "{talk}");
    }
}

#[test]
fn what_is_wrong_is_said_with_a_remedy() {
    for (args, says) in [
        (&["--from", "1500ms"][..], "counted by the second"),
        (&["--from", "0s"], "counted by the second"),
        (&["--max", "1h30s"], "unit of time"),
        (&["--cv", "0"], "above 0"),
        (&["--cv", "nan"], "as in 0.1"),
        (&["--on", "disk"], "dirs:DIR"),
    ] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
        command.args(["calibrate", "seq-read"]).args(args);
        if !args.contains(&"--on") {
            command.args(["--on", "null"]);
        }
        refused(&mut command, says);
    }
    let temporary = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
        command.current_dir(temporary.path()).arg("calibrate").args(args);
        command
    };
    refused(&mut run(&[]), "WORKLOAD");
    refused(&mut run(&["seq-read", "--on", "null", "--runs", "2"]), "3..=1000");
    refused(&mut run(&["seq-read", "--on", "null", "--from", "20s", "--max", "10s"]), "20s");
    refused(&mut run(&["seq-wrote", "--on", "null"]), "the presets are");
}

/// Exit 1, nothing on stdout, and the reason on stderr.
fn refused(command: &mut Command, says: &str) {
    let output = command.output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{command:?}: {talk}");
    assert!(output.stdout.is_empty() && talk.contains(says), "{command:?}: {talk}");
}
