//! Commands under the library as something to measure on: `--on cmd:COMMAND LINE`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::built;
use crate::common::on_disk;

fn afflux(arguments: &[&str]) -> Command {
    let mut afflux = Command::new(env!("CARGO_BIN_EXE_afflux"));
    afflux.env("AFFLUX_LIBRARY", built::library()).args(arguments);
    afflux
}

fn ran(arguments: &[&str]) -> Output {
    let output = afflux(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&ran(arguments).stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = afflux(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bytes of one round of [`writes`].
const ROUND: u64 = 16 * 65_536;

/// A command that writes rounds for ever, as many at once as `at_once`, and notes those it did.
fn writes(dir: &Path, at_once: u32) -> String {
    let dir = dir.display();
    format!(
        "cd {dir} || exit 9; write() {{ while :; do \
         dd if=/dev/zero of=$AFFLUX_CLIENT.$1 bs=64k count=16 oflag=dsync conv=notrunc \
         status=none && echo >>done.$AFFLUX_CLIENT.$1; done; }}; \
         for one in $(seq {at_once}); do write $one & done; wait"
    )
}

/// Rounds that were noted.
fn rounds(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).unwrap().flatten();
    let notes = files.filter(|file| file.file_name().to_string_lossy().starts_with("done."));
    notes.map(|file| file.metadata().unwrap().len()).sum()
}

/// Whether any process was started with this in its arguments.
fn runs(what: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(what))
}

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !reached() {
        assert!(Instant::now() < until, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_command_moves_is_measured_second_by_second() {
    let dir = on_disk();
    let command = format!("cmd:{}", writes(dir.path(), 2));
    let whole = ["--settle", "0s", "--length", "2s"];
    let found =
        json(&[&["bench", "--on", &command, "--clients", "2", "--json"][..], &whole].concat());
    let clients = found["measurement"]["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 2);
    let second = |client: &Value, at: usize| client["seconds"][at][1].as_u64().unwrap();
    let moved: u64 = clients.iter().map(|client| second(client, 0) + second(client, 1)).sum();
    let noted = rounds(dir.path()) * ROUND;
    // Four writers, each in the middle of a round at the end; and the end itself takes a moment.
    assert!(moved <= noted + 4 * ROUND + 4096, "{moved} counted, {noted} done");
    assert!(moved as f64 >= 0.8 * noted as f64, "{moved} counted, {noted} done");
    assert!(clients.iter().all(|client| second(client, 1) > 0 && client["data_paths"] == 1));
    let requests: u64 =
        clients.iter().map(|one| one["process_time"][1]["count"].as_u64().unwrap()).sum();
    assert!(requests * 65_536 >= moved, "{requests} requests");
    assert!(!runs(&dir.path().display().to_string()), "the command is still there");
}

#[test]
fn what_a_command_does_before_counting_begins_is_left_out() {
    let dir = on_disk();
    let command = format!("cmd:{}", writes(dir.path(), 2));
    let found = json(&["bench", "--on", &command, "--settle", "2s", "--length", "1s", "--json"]);
    let client = &found["measurement"]["clients"][0];
    assert_eq!(client["seconds"].as_array().unwrap().len(), 1);
    let moved = client["seconds"][0][1].as_u64().unwrap();
    let timed = client["process_time"][1]["count"].as_u64().unwrap() * 65_536;
    // With those of the first two seconds it would be about three times as much.
    assert!((moved / 2..moved * 2).contains(&timed), "{timed} bytes timed, {moved} counted");
}

#[test]
fn the_setting_of_a_trial_is_in_force() {
    let dir = on_disk();
    let command = format!("run:{}", writes(dir.path(), 4));
    let held = |policy: &str| {
        let args = ["bench", "--on", &command, "--policy", policy, "--json"];
        let found = json(&[&args[..], &["--settle", "0s", "--length", "2s"]].concat());
        let held = found["summary"]["held_secs"].as_array().unwrap().iter();
        held.map(|secs| secs.as_f64().unwrap()).sum::<f64>()
    };
    // Four writers, a window of 1: three wait at any time. With the default window none does.
    let (one, eight) = (held("fixed:1"), held("none"));
    assert!(one > 2.0 && eight < 0.2, "held {one} s with a window of 1, {eight} s with 8");
}

#[test]
fn commands_can_be_compared_calibrated_and_searched_for() {
    let (dir, out) = (on_disk(), tempfile::tempdir().unwrap());
    let command = format!("cmd:{}", writes(dir.path(), 4));
    let short = ["--on", &command, "--settle", "0s"];
    let compare = ["bench", "--compare", "fixed:1", "--pairs", "2", "--length", "1s", "--json"];
    let compared = json(&[&compare[..], &short].concat());
    assert_eq!(compared[0]["pairs"].as_array().unwrap().len(), 2, "{compared}");
    let calibrate =
        ["calibrate", "--from", "1s", "--max", "1s", "--runs", "3", "--cv", "10", "--json"];
    let calibrated = json(&[&calibrate[..], &short].concat());
    assert_eq!(calibrated["curve"][0]["values"].as_array().unwrap().len(), 3, "{calibrated}");
    let into = out.path().join("search").display().to_string();
    let search = ["search", "--method", "random", "--budget", "40runs", "--pairs", "2", "--json"];
    let searched =
        json(&[&search[..], &short, &["--length", "1s", "--unpaired", "--out", &into]].concat());
    let trials = fs::read_to_string(out.path().join("search/search.jsonl")).unwrap();
    assert!(trials.lines().count() > 20, "{searched}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let on = |command: &str| {
        let command = format!("cmd:{command}");
        refused(&["bench", "--on", &command, "--settle", "0s", "--length", "5s"])
    };
    let said = on("echo this is wrong >&2; exit 3");
    assert!(said.contains("it ended with 3: this is wrong"), "{said}");
    let said = on("dd if=/dev/zero of=/dev/null count=1 status=none; sleep 1.2");
    assert!(said.contains("saw no byte"), "{said}");
    let dir = on_disk();
    let said = on(&format!("dd if=/dev/zero of={}/file count=9", dir.path().display()));
    assert!(said.contains("before a second was counted"), "{said}");
    assert!(on(" ").contains("there is no command"));
    assert!(refused(&["bench", "seq-read", "--on", "cmd:true"]).contains("leave `seq-read` out"));
    assert!(refused(&["quickstart", "--on", "cmd:true"]).contains("afflux search --on"));
    assert!(refused(&["calibrate"]).contains("there is no WORKLOAD"));
    assert!(refused(&["bench", "--on", "cmd:true", "--policy", "turn=300ms"]).contains("turn"));
}

#[test]
fn a_command_does_not_outlive_who_measures_it() {
    let dir = on_disk();
    let command = format!("cmd:{}", writes(dir.path(), 1));
    let mark = dir.path().display().to_string();
    let start = || -> Child {
        let child = afflux(&["bench", "--on", &command, "--length", "60s"]).spawn().unwrap();
        wait_until("the command writes", || rounds(dir.path()) > 0);
        child
    };
    let mut killed = start();
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("it is gone after a kill", || !runs(&mark));
    fs::remove_dir_all(dir.path()).unwrap();
    fs::create_dir(dir.path()).unwrap();
    let mut interrupted = start();
    Command::new("kill").args(["-INT", &interrupted.id().to_string()]).status().unwrap();
    assert!(!interrupted.wait().unwrap().success());
    wait_until("it is gone after Ctrl-C", || !runs(&mark));
}

#[test]
fn a_plain_mount_is_one_server() {
    let dir = on_disk();
    let file = dir.path().join("file");
    fs::write(&file, "12345").unwrap();
    let found = json(&["engine", "locate", "--json", &file.display().to_string(), "3", "1MiB"]);
    assert_eq!((&found["layout"], &found["size_bytes"]), (&Value::Null, &5.into()));
    let server = found["stretches"][0]["servers"][0].as_str().unwrap();
    let kind = found["mount"]["kind"].as_str().unwrap();
    assert!(server.starts_with(kind) && server.len() > kind.len() + 1, "{found}");
    let offsets = found["offsets"].as_array().unwrap();
    assert_eq!(offsets.len(), 2);
    assert!(offsets.iter().all(|at| at["server"] == server), "{found}");
    let folder = dir.path().display().to_string();
    assert!(refused(&["engine", "locate", &folder]).contains("is no file: name a file in it"));
    assert!(refused(&["engine", "locate", "/no/such"]).contains("cannot look at /no/such"));
    assert!(refused(&["engine", "locate", &folder, "x"]).contains("4096 or 64MiB"));
}
