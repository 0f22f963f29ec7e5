//! `afflux sim`, and simulated scenarios as targets, as their users run them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

fn afflux(args: &[&str]) -> std::process::Output {
    Command::new(assert_cmd::cargo::cargo_bin!("afflux")).args(args).output().unwrap()
}

/// Runs to exit 0 and gives stdout and stderr.
fn done(args: &[&str]) -> (String, String) {
    let output = afflux(args);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {talk}");
    (String::from_utf8(output.stdout).unwrap(), talk)
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&done(args).0).unwrap()
}

/// Runs to exit 1 with an empty stdout and gives stderr.
fn refused(args: &[&str]) -> String {
    let output = afflux(args);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {talk}");
    assert!(output.stdout.is_empty(), "{args:?} wrote data");
    talk
}

/// Small enough for a test.
const SMALL: [&str; 6] =
    ["--length", "2s", "--set", "run.settle=200ms", "--set", "servers.count=2"];

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    let run = |more: &[&str]| done(&[&["sim", "contended"][..], &SMALL, more].concat()).0;
    for flags in [&["--json"][..], &[], &["--sweep", "clients.count=2,3", "--seeds", "2"]] {
        let with = |seed: &str| run(&[flags, &["--seed", seed]].concat());
        let first = with("7");
        assert!(first == with("7"), "{flags:?}");
        assert!(first != with("8"), "{flags:?}");
    }
}

#[test]
fn it_lists_what_comes_along_and_tells_every_key() {
    let all = json(&["sim", "--json"]);
    for one in all.as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        assert!(done(&["sim"]).0.contains(name) && !one["about"].as_str().unwrap().is_empty());
    }
    let manual = done(&["sim", "--manual"]).0;
    for part in ["| `fan_in` |", "[[published]]", "| `total_mb_s` |", "| `APPLICATION.io_secs` |"] {
        assert!(manual.contains(part), "{part}: {manual}");
    }
}

/// A folder that holds a file for each scenario is the registry's other half.
#[test]
fn every_file_in_the_folder_is_shipped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let listed = done(&["sim"]).0;
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(listed.lines().any(|line| line.contains(&format!(" {name} "))), "{name}");
    }
}

#[test]
fn a_run_tells_people_and_programs_what_happened() {
    let (people, talk) = done(&[&["sim", "contended"][..], &SMALL].concat());
    for word in ["throughput", "99.9%", "held by", "requests sent", "8 clients on 2 servers"] {
        assert!(people.contains(word), "{word}: {people}");
    }
    assert!(talk.contains("requests/s") && talk.contains("events/s"), "{talk}");
    let found =
        json(&[&["sim", "contended", "--json", "--policy", "fixed:2"][..], &SMALL].concat());
    assert_eq!((&found["afflux_sim"], &found["setting"]), (&1.into(), &"fixed:2".into()));
    assert_eq!(found["outcome"]["measurement"]["clients"].as_array().unwrap().len(), 8);
    assert!(found["summary"]["total_mb_s"].as_f64().unwrap() > 1.0, "{}", found["summary"]);
    assert!(found["outcome"]["totals"]["deepest"].as_u64().unwrap() <= 16);
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wrong.toml");
    std::fs::write(
        &file,
        "afflux-scenario = 1\nname = \"w\"\nworkload = \"seq-read\"\n[servers]\ncount = 0\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    for (args, says) in [
        (&["sim", "contented"][..], "did you mean `contended`?"),
        (&["sim", file], "line 5, column 9"),
        (&["sim", "contended", "--set", "servers.count"], "write section.key=value"),
        (&["sim", "contended", "--set", "network.client_rate=0Gbit/s"], "rate of 0"),
        (&["sim", "contended", "--policy", "fixd:4"], "policy.setting = \"fixd:4\": `fixd` is no"),
        (
            &["sim", "contended", "--seed", "-1"],
            "write a whole number from 0 to 18446744073709551615",
        ),
        (&["sim", "contended", "--seed", "18446744073709551616"], "as in 7"),
        (&["sim", "contended", "--set", "run.length=1500ms"], "in whole seconds"),
        (&["sim", "contended", "--set", "run.series=1ns"], "more than a million steps"),
        (&["sim", "contended", "--set", "application9.bytes=1MiB"], "there are 1, from 1"),
        (&["sim", "contended", "--sweep", "servers.count=servers.count"], "not a whole number"),
        (&["sim", "contended", "--length", "100ms"], "counted by the second"),
        (&["sim", "contended", "--sweep", "servers.count=1,1"], "twice"),
        (
            &["sim", "contended", "--sweep", "servers.count=1", "--sweep", "servers.count=2"],
            "twice",
        ),
        (&["sim", "contended", "--sweep", "servers.count=1,x"], "servers.count=x"),
        (
            &["sim", "contended", "--sweep", "clients.count=1,2", "--seeds", "90000"],
            "100000 worlds",
        ),
        (&["sim", "contended", "--seeds", "2", "--show", "p99"], "p99_ms"),
        (&["bench", "seq-read", "--on", "sim"], "sim:contended"),
        (&["bench", "seq-read", "--on", "null", "--clients", "1025"], "--on sim:SCENARIO"),
        (&["bench", "seq-read", "--on", "sim:nowhere"], "shipped are"),
        (&["bench", "seq-read", "--on", "sim:contended,servers.count=0"], "servers.count=0"),
        (&["bench", "seq-read", "--on", "disk"], "sim:SCENARIO"),
    ] {
        let said = refused(args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn a_scenario_is_a_target_like_any_other() {
    let on = ["--on", "sim:contended,servers.device=hdd:elevator=fifo,depth=1,servers.count=2"];
    let quick = ["--length", "2s", "--settle", "100ms", "--json"];
    let found = json(&[&["bench", "seq-read"][..], &on, &quick].concat());
    assert_eq!((&found["workload"], &found["target"]), (&"seq-read".into(), &on[1].into()));
    assert!(found["summary"]["by_class_ms"][0][1].as_f64().unwrap() > 0.0, "it reads");
    let pairs = ["--compare", "fixed:2", "--pairs", "2"];
    let found = json(&[&["bench", "random-write"][..], &on, &quick, &pairs].concat());
    assert_eq!(found[0]["pairs"].as_array().unwrap().len(), 2);
    let more = ["--from", "1s", "--max", "2s", "--runs", "3", "--cv", "5", "--json"];
    let found = json(&[&["calibrate", "seq-read"][..], &on, &more].concat());
    assert_eq!(found["chosen"], "1s");
}

#[test]
fn a_page_shows_the_course_and_a_sweep_and_can_be_made_again() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("mine.toml");
    let figures = "
[[fit]]
name = 'of two servers'
metric = 'total_mb_s'
set = ['servers.count=2', 'run.length=2s']
value = 100
unit = 'MB/s'
source = 'nobody, table 0'
[[published]]
name = 'losses'
metric = 'rto'
value = 0
";
    let contended = include_str!("../../../../scenarios/contended.toml");
    std::fs::write(&file, format!("{contended}{figures}")).unwrap();
    let file = file.to_str().unwrap();
    let dir = root.path().join("one");
    let out = ["--out", dir.to_str().unwrap()];
    let people = done(&[&["sim", file], &SMALL[..4], &out].concat()).0;
    for word in ["of two servers", "served to fit", "prediction", "nobody, table 0"] {
        assert!(people.contains(word), "{word}: {people}");
    }
    let page = std::fs::read_to_string(dir.join("report.html")).unwrap();
    for part in ["The course of the world", "Distributions", "Published and simulated", "nobody"] {
        assert!(page.contains(part), "{part}");
    }
    for name in ["queues", "process-times", "client-throughput", "published"] {
        assert!(dir.join(format!("plots/{name}.svg")).exists(), "{name}");
    }
    let series = std::fs::read_to_string(dir.join("data/series.csv")).unwrap();
    assert!(series.starts_with("at_secs,") && series.lines().count() > 190, "{series:.80}");
    let distribution = std::fs::read_to_string(dir.join("data/process-times-cumulative.csv"));
    let distribution = distribution.unwrap();
    let rows: Vec<Vec<&str>> = distribution.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(rows[0], ["class", "at_most_ms", "replies", "part"]);
    let least_first = |pair: &[Vec<&str>]| {
        let [left, right] = [0, 1].map(|at| pair[at][1].parse::<f64>().unwrap());
        pair[0][0] != pair[1][0] || left < right
    };
    assert!(rows[1..].windows(2).all(least_first) && rows.len() > 100, "{}", rows.len());
    assert_eq!(rows.last().unwrap()[3], "1");
    let clients = std::fs::read_to_string(dir.join("data/client-throughput.csv")).unwrap();
    assert_eq!(clients.lines().count(), 9, "{clients}");
    done(&["report", out[1]]);
    assert!(page == std::fs::read_to_string(dir.join("report.html")).unwrap());
    // The sweep goes into the same directory, and finds the published figure at its point.
    let sweep = ["--sweep", "servers.count=1,2", "--seeds", "2"];
    done(&[&["sim", file], &SMALL[..4], &sweep, &out].concat());
    let result = std::fs::read_to_string(dir.join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["sweep"]["rows"].as_array().unwrap().len(), 4);
    assert_eq!(result["sweep"]["published"][0]["name"], "of two servers");
    assert!(dir.join("plots/sweep-total_mb_s.svg").exists() && dir.join("data/sweep.csv").exists());
    assert!(!dir.join("data/series.csv").exists(), "nothing of the earlier result stays");
}

#[test]
fn a_sweep_that_is_interrupted_shows_what_was_done() {
    // Two quick points, and one that takes longer than anybody waits.
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
    command.args(["sim", "contended", "--set", "run.settle=10ms", "--no-figures"]);
    command.args(["--sweep", "run.length=1s,2s,1000000s"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Once it says how far it is, the quick ones are over: it is silent for two seconds.
    let mut talk = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("2 of 3 worlds done") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut talk, &mut line).unwrap() > 0, "it ended");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut talk, &mut said).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("2 of 3 worlds were run"), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains(": 2 worlds") && table.contains(" 2s "), "{table}");
}

/// A search on a simulated target, whose journal goes to `dir`.
fn search(dir: &Path) -> Command {
    let workload = dir.join("small.toml");
    std::fs::write(&workload, include_str!("small.toml")).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
    command.arg("search").arg(workload).arg("--out").arg(dir.join("out"));
    command.args(["--on", "sim:contended,servers.count=2,servers.device=hdd:elevator=fifo"]);
    command.args(["--settle", "100ms", "--length", "1s", "--pairs", "3", "--budget", "3000runs"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The journal without what the runs took here, which no two searches share.
fn decisions(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("out/search.jsonl")).unwrap();
    let line = |line: &str| -> Value {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("secs");
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn a_search_killed_again_and_again_decides_what_an_undisturbed_one_decides() {
    let [quiet, killed] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    assert!(search(quiet.path()).status().unwrap().success());
    let whole = std::fs::metadata(quiet.path().join("out/search.jsonl")).unwrap().len();
    let seed: u64 = std::process::id().into();
    let mut rng = afflux_core::rng::Rng::new(seed);
    let mut places: Vec<u64> = (0..12).map(|_| rng.below(whole * 9 / 10)).collect();
    places.sort_unstable();
    println!("seed {seed}: killed when the journal of {whole} B had {places:?} B");
    let journal = killed.path().join("out/search.jsonl");
    for place in places {
        let mut child = search(killed.path()).spawn().unwrap();
        // Where the place is passed already it dies while it reads its journal, or soon after.
        std::thread::sleep(Duration::from_micros(rng.below(20_000)));
        while std::fs::metadata(&journal).map_or(0, |found| found.len()) < place {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
            std::thread::sleep(Duration::from_micros(100 + rng.below(900)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(search(killed.path()).status().unwrap().success());
    let (expected, found) = (decisions(quiet.path()), decisions(killed.path()));
    let differs = expected.iter().zip(&found).position(|(left, right)| left != right);
    assert_eq!(differs, None, "seed {seed}, the first line that differs, from 0");
    assert!(expected.len() == found.len() && found.len() > 1_000, "{}", found.len());
    let rules = |dir: &Path| std::fs::read(dir.join("out/found.rules")).unwrap();
    assert!(rules(quiet.path()) == rules(killed.path()));
}

#[test]
fn a_search_is_not_gone_on_with_in_another_world() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let contended = include_str!("../../../../scenarios/contended.toml");
    std::fs::write(&file, contended).unwrap();
    let on = format!("sim:{}", file.display());
    let out = dir.path().join("out");
    let quick = ["--length", "1s", "--settle", "10ms", "--pairs", "2", "--budget", "16runs"];
    let args = ["search", "seq-read", "--method", "grid", "--on", &on, "--out"];
    let args = [&args[..], &[out.to_str().unwrap()], &quick].concat();
    done(&args);
    std::fs::write(&file, contended.replace("count = 4", "count = 3")).unwrap();
    let said = refused(&args);
    assert!(said.contains("another search") && said.contains("scenario file"), "{said}");
}
