//! `afflux search`, as its users run it, and kill it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

fn search(dir: &Path, more: &[&str]) -> Command {
    let workload = dir.join("small.toml");
    std::fs::write(&workload, include_str!("small.toml")).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
    command.arg("search").arg(workload).arg("--out").arg(dir.join("out"));
    command.args(["--on", "null:2ms", "--settle", "10ms", "--pairs", "2", "--json"]).args(more);
    command
}

const GRID: [&str; 6] = ["--method", "grid", "--budget", "16runs", "--length", "1s"];

fn lines(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("out/search.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn it_goes_on_after_being_killed_and_runs_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    // At random moments, most of them in the midst of a run; now and then no run gets done.
    let mut rng = afflux_core::rng::Rng::new(std::process::id().into());
    let waits: Vec<u64> = (0..6).map(|_| 100 + rng.below(2_500)).collect();
    println!("killed after {waits:?} ms");
    for (kill, wait) in waits.into_iter().enumerate() {
        let mut child =
            search(dir.path(), &GRID).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // A second search on the same directory is told so, while the first one lives.
        if kill == 0 {
            std::thread::sleep(Duration::from_millis(700));
            let second = search(dir.path(), &GRID).output().unwrap();
            let talk = String::from_utf8_lossy(&second.stderr);
            assert!(second.status.code() == Some(1) && talk.contains("at work"), "{talk}");
        }
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let done = lines(dir.path()).len() - 1;
    println!("{done} runs were kept");
    let output = search(dir.path(), &GRID).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    assert!(done == 0 || talk.contains("going on with the search"), "{talk}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["comparisons"].as_array().unwrap().len(), 1);
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("grid") && page.contains("small"), "the page shows the search");
    let lines = lines(dir.path());
    let mut trials: Vec<_> =
        lines[1..].iter().map(|line| format!("{} {}", line["stage"], line["trial"])).collect();
    // Ten of the budget are for the grid, as six are kept for three sides in two rounds; the grid
    // alone makes but two sides.
    assert_eq!(trials.len(), 14);
    trials.sort();
    trials.dedup();
    assert_eq!(trials.len(), 14, "a trial was run twice");
}

/// A limit on the size of files stands for a disk that is full: the system's word differs, the way
/// through the code is the same.
#[test]
fn a_full_disk_stops_it_with_its_journal_intact() {
    let dir = tempfile::tempdir().unwrap();
    let mut inner = search(dir.path(), &GRID);
    let mut limited = Command::new("sh");
    // In blocks of 512 or 1,024 bytes, by the shell; the journal's head takes half a block.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"]);
    limited.arg(inner.get_program()).args(inner.get_args());
    let output = limited.output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{talk}");
    assert!(talk.contains("cannot write") && talk.contains("search.jsonl"), "{talk}");
    assert!(talk.contains("what was written so far is kept"), "{talk}");
    let kept = lines(dir.path()).len();
    assert!((2..14).contains(&kept), "{kept} whole lines");
    let output = inner.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines(dir.path()).len(), 15);
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    for (more, says) in [
        (&["--method", "gird"][..], "grid"),
        (&["--objective", "tp -"], "--objective: column 5"),
        (&["--objective", "throughput"], "tp"),
        (&["--budget", "3s"], "confirming runs"),
        (&["--budget", "soon"], "runs"),
        (&["--length", "100ms"], "counted by the second"),
        (&["--method", "external:cat", "--start", "fixed"], "starts where it likes"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = search(dir.path(), more).output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{more:?}: {talk}");
        assert!(talk.contains(says), "{more:?}: {talk}");
    }
}
