//! `afflux bench`, as its users run it.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn afflux(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
    command.args(args);
    command
}

/// Runs to exit 0 and gives stdout as JSON.
fn json(args: &[&str]) -> Value {
    let output = afflux(args).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {talk}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs to exit 1 with an empty stdout and gives stderr.
fn refused(args: &[&str]) -> String {
    let output = afflux(args).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {talk}");
    assert!(output.stdout.is_empty(), "{args:?} wrote data");
    talk
}

const QUICK: [&str; 6] = ["--on", "null:10ms", "--length", "1s", "--settle", "50ms"];

#[test]
fn lists_its_presets() {
    let presets = json(&["bench", "--json"]);
    let names: Vec<_> = presets.as_array().unwrap().iter().map(|one| &one["name"]).collect();
    for name in [
        "seq-write",
        "seq-read",
        "random-write",
        "random-read",
        "random-rw-shared",
        "mix-10-1",
        "fileserver",
        "checkpoint",
    ] {
        assert!(names.contains(&&Value::from(name)), "{name}");
    }
}

#[test]
fn one_run_reports_every_client_and_second() {
    let found = json(&[&["bench", "random-rw-shared", "--json"][..], &QUICK].concat());
    assert_eq!(found["afflux_bench"], 1);
    let clients = found["measurement"]["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 8);
    let moved = |client: &Value, way: usize| client["seconds"][0][way].as_f64().unwrap();
    for client in clients {
        let ratio = moved(client, 0) / moved(client, 1);
        assert!((0.9..1.1).contains(&ratio), "one read to one write: {ratio}");
    }
    let total: f64 = clients.iter().map(|client| moved(client, 0) + moved(client, 1)).sum();
    let reported = found["summary"]["total_mb_s"].as_f64().unwrap();
    assert!((reported - total / 1e6).abs() < 1e-6);
}

#[test]
fn a_run_is_scored_by_the_objective_that_is_given() {
    let scored = |objective: &str| {
        let args = ["bench", "random-read", "--objective", objective, "--json"];
        json(&[&args[..], &QUICK].concat())
    };
    let steady = scored("steady");
    assert_eq!(steady["objective"], "tp - 1 * var");
    let number = |found: &Value, name: &str| found["summary"][name].as_f64().unwrap();
    let expected = number(&steady, "tp_mb_s") - number(&steady, "var_mb_s");
    assert!((steady["score"].as_f64().unwrap() - expected).abs() < 1e-9);
    let undefined = scored("-1 / faults");
    assert_eq!(
        (&undefined["objective"], &undefined["score"]),
        (&"-1 / faults".into(), &Value::Null)
    );
    let talk = refused(&["bench", "random-read", "--objective", "tp - spred"]);
    assert!(talk.contains("did you mean `spread`?") && talk.contains("^^^^^"), "{talk}");
}

#[test]
fn wrappers_go_around_engines_and_nothing_else() {
    let throttled = ["--on", "throttle:20MB/s@null", "--length", "2s", "--settle", "1s"];
    let found =
        json(&[&["bench", "seq-write", "--clients", "2", "--json"][..], &throttled].concat());
    let total = found["summary"]["total_mb_s"].as_f64().unwrap();
    // Two clients with 20 MB/s at each of four servers; without the throttle it is thousands.
    assert!((80.0..170.0).contains(&total), "{total} MB/s of 160");
    let talk = refused(&["bench", "seq-read", "--on", "limit:4@sim:contended"]);
    assert!(talk.contains("`sim:contended` is none: write limit:N@ENGINE"), "{talk}");
    let talk = refused(&["bench", "seq-read", "--on", "limt:4@null"]);
    assert!(talk.contains("did you mean `limit`?") && talk.contains("sim:SCENARIO"), "{talk}");
    for command in ["bench", "search", "calibrate", "quickstart"] {
        let help = afflux(&[command, "--help"]).output().unwrap().stdout;
        let help = String::from_utf8(help).unwrap();
        for grammar in ["limit:N@ENGINE", "trace:FILE@ENGINE", "dirs:DIR,DIR", "sim:SCENARIO"] {
            assert!(help.contains(grammar), "{command} --help lacks {grammar}: {help}");
        }
    }
}

#[test]
fn a_trace_that_is_cut_short_is_told_beside_the_result() {
    let traced = ["--on", "trace:/dev/full@null:10ms", "--length", "1s", "--settle", "50ms"];
    let output = afflux(&[&["bench", "random-read"][..], &traced].concat()).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    assert_eq!(talk.matches("the trace /dev/full ends early").count(), 1, "{talk}");
}

#[test]
fn a_setting_does_what_it_says() {
    // With 10 ms an answer, a window of 1 moves at most 100 requests a second on each of 4 paths.
    let slow =
        json(&[&["bench", "random-read", "--policy", "fixed:1", "--json"][..], &QUICK].concat());
    let free = json(&[&["bench", "random-read", "--json"][..], &QUICK].concat());
    let total = |found: &Value| found["summary"]["operations_s"].as_f64().unwrap();
    assert!(total(&slow) <= 8.0 * 4.0 * 100.0 * 1.05, "{}", total(&slow));
    assert!(total(&free) > total(&slow), "{} > {}", total(&free), total(&slow));
    assert!(slow["summary"]["held_secs"][0].as_f64().unwrap() > 1.0);
}

#[test]
fn rules_count_their_hits() {
    let args = ["bench", "random-read", "--rules", "shipped:two-step", "--json"];
    let found = json(&[&args[..], &QUICK].concat());
    let hits = &found["measurement"]["clients"][0]["rule_hits"][0];
    let total: u64 =
        hits.as_array().unwrap().iter().map(|hit| hit["count"].as_u64().unwrap()).sum();
    assert_eq!(total, found["measurement"]["clients"][0]["process_time"][0]["count"]);
}

#[test]
fn comparisons_come_in_pairs_with_intervals() {
    let args = ["bench", "seq-read", "--compare", "fixed:1", "--pairs", "2", "--json"];
    let found = json(&[&args[..], &QUICK].concat());
    let comparison = &found[0];
    assert_eq!(comparison["setting"], "fixed:1");
    assert_eq!(comparison["pairs"].as_array().unwrap().len(), 2);
    let change = &comparison["metrics"][0]["change_percent"];
    let [low, mean, high] = ["low", "mean", "high"].map(|end| change[end].as_f64().unwrap());
    assert!(low <= mean && mean <= high && mean < 0.0, "{change}");
}

#[test]
fn directories_are_servers_too_and_stay_clean() {
    let root = tempfile::tempdir().unwrap();
    let dirs = ["a", "b"].map(|name| root.path().join(name));
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let on = format!("dirs:{},{}", dirs[0].display(), dirs[1].display());
    let workload = small(root.path());
    let args = ["bench", &workload, "--on", &on, "--length", "1s", "--settle", "10ms", "--json"];
    let found = json(&args);
    assert_eq!(found["summary"]["faults"], 0);
    assert!(found["summary"]["total_mb_s"].as_f64().unwrap() > 0.0);
}

fn small(dir: &Path) -> String {
    let path = dir.join("small.toml");
    let text = include_str!("small.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn what_is_wrong_is_said_with_place_and_remedy() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("wrong.toml");
    let right = include_str!("small.toml");
    for (good, bad, says) in [
        ("threads = 2", "thread = 2", "line 11"),
        ("\"1 MiB\"", "\"1 Mb\"", "a unit of size"),
        ("clients = 2", "clients = 0", "not from 1"),
    ] {
        assert!(right.contains(good));
        std::fs::write(&path, right.replace(good, bad)).unwrap();
        let talk = refused(&["bench", path.to_str().unwrap(), "--on", "null"]);
        assert!(talk.contains(says) && talk.contains("wrong.toml"), "{bad}: {talk}");
    }
    for (args, says) in [
        (&["bench", "seq-wrote"][..], "the presets are"),
        (&["bench", "seq-read", "--policy", "fixed"], "needs `window`"),
        (&["bench", "seq-read", "--policy", "fixed:4,gap=3"], "33ms"),
        (&["bench", "seq-read", "--rules", "shipped:none-such"], "calm-2"),
        (&["bench", "seq-read", "--compare", "fan-in=0"], "whole number from 1"),
        (&["bench", "seq-read", "--on", "dirs:/no/such/place"], "/no/such/place"),
        (&["bench", "seq-read", "--on", "lab:/no/such/lab"], "/no/such/lab"),
        (&["bench", "seq-read", "--on", "disk"], "dirs:DIR"),
        (&["bench", "seq-read", "--length", "1500ms"], "counted by the second"),
    ] {
        let talk = refused(args);
        assert!(talk.contains(says), "{args:?}: {talk}");
    }
}

/// Ends the lab in a directory when the test does, however it does.
struct Lab(String);

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = afflux(&["lab", "down", "--wipe", "--dir", &self.0]).output();
    }
}

#[test]
fn a_lab_that_is_too_small_is_left_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("lab").display().to_string();
    let up = ["lab", "up", "--servers", "2", "--device", "file", "--capacity", "700KiB", "--dir"];
    afflux(&[&up[..], &[&dir]].concat()).assert().success();
    let lab = Lab(dir.clone());
    let on = format!("lab:{dir}");
    let output = afflux(&["bench", &small(root.path()), "--on", &on]).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk.contains("no space left") && talk.contains("--capacity"), "{talk}");
    let status = json(&["lab", "status", "--json", "--dir", &lab.0]);
    for server in status["servers"].as_array().unwrap().iter().take(2) {
        assert_eq!(server["report"]["stored_bytes"], 0, "{status}");
    }
}
