//! `afflux replay`: the requests of a trace, made again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn afflux(args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
    command.args(args).output().unwrap()
}

/// Runs to exit 0 and gives what it said.
fn done(args: &[&str]) -> Output {
    let output = afflux(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(args: &[&str]) -> Value {
    serde_json::from_slice(&done(args).stdout).unwrap()
}

/// Directories that are servers, with a trace recorded elsewhere beside them.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A `dirs` engine of so many servers, under this name.
    fn dirs(&self, name: &str, servers: u32) -> String {
        let dirs: Vec<_> = (0..servers).map(|dir| self.path(&format!("{name}{dir}"))).collect();
        dirs.iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        let dirs: Vec<_> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        format!("dirs:{}", dirs.join(","))
    }

    /// The trace of a second of two writers each of two clients, whose files lie on so many of four
    /// servers that answer after 5 ms.
    fn record(&self, stripes: u32) -> String {
        let size = format!("\"4 MiB\"\nstripe_unit = \"64 KiB\"\nstripe_count = {stripes}");
        let workload = include_str!("small.toml").replace("\"1 MiB\"", &size);
        std::fs::write(self.path("small.toml"), workload).unwrap();
        let trace = self.text("recorded.jsonl");
        let on = format!("trace:{trace}@null:5ms");
        let length = ["--length", "1s", "--settle", "50ms"];
        done(&[&["bench", &self.text("small.toml"), "--on", &on][..], &length].concat());
        trace
    }
}

/// What a request was, apart from whose object it was about, and when.
type Made = (String, String, u64, u64);

/// The requests of each client in the order of submission, with their times in nanoseconds from the
/// first of those kept; `keep` tells which clients.
fn requests(trace: &Path, keep: impl Fn(u64) -> bool) -> BTreeMap<u64, Vec<(u64, Made)>> {
    let text = std::fs::read_to_string(trace).unwrap();
    let lines = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut lines: Vec<_> = lines.filter(|line| keep(line["client"].as_u64().unwrap())).collect();
    lines.sort_by_key(|line| line["submitted_ns"].as_u64().unwrap());
    let start = lines[0]["submitted_ns"].as_u64().unwrap();
    let mut clients: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for line in lines {
        let word = |name: &str| line[name].as_str().unwrap().to_owned();
        let number = |name: &str| line[name].as_u64().unwrap();
        let made =
            (word("place"), word("operation"), number("offset_bytes"), number("length_bytes"));
        let client = clients.entry(number("client")).or_default();
        client.push((number("submitted_ns") - start, made));
    }
    clients
}

/// The names that a store of directories knows.
fn names_left(dirs: &str) -> Vec<String> {
    use afflux_store::engine::{
        Answer, CatalogOperation, CompletionQueue, Operation, Place, Request, registry::EngineSpec,
    };
    let engine = dirs.parse::<EngineSpec>().unwrap().connect().unwrap();
    let queue = CompletionQueue::new();
    let (prefix, after, limit) = (String::new(), String::new(), 1_000);
    let list = Operation::Catalog(CatalogOperation::List { prefix, after, limit });
    engine.submit(Request::new(1, Place::Metadata, list), &queue.sender());
    match queue.wait(None).unwrap().outcome.unwrap() {
        Answer::Files(records) => records.into_iter().map(|record| record.name).collect(),
        other => panic!("{other:?}"),
    }
}

/// The files of objects below a place.
fn objects_left(root: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => left.extend(objects_left(&path)),
            false => left.push(path),
        }
    }
    left.retain(|path| path.components().any(|part| part.as_os_str() == "objects"));
    left
}

#[test]
fn the_same_requests_go_to_the_same_servers_at_the_same_times() {
    let place = Place::new();
    let trace = place.record(4);
    let dirs = place.dirs("server", 4);
    let again = place.text("again.jsonl");
    let found = json(&["replay", &trace, "--on", &format!("trace:{again}@{dirs}"), "--json"]);
    let (recorded, replayed) = (
        requests(Path::new(&trace), |_| true),
        // Client 0 made the files and removed them.
        requests(Path::new(&again), |client| client > 0),
    );
    let count = recorded.values().map(Vec::len).sum::<usize>();
    assert!(count > 200, "{count} requests are no load");
    assert_eq!(found["requests"], count);
    assert_eq!((recorded.len(), replayed.len()), (2, 2));
    let mut late = Vec::new();
    // Clients are numbered by their first requests, which come in the recorded order.
    for (recorded, replayed) in recorded.values().zip(replayed.values()) {
        let sorted = |made: &[(u64, Made)]| {
            let mut made: Vec<Made> = made.iter().map(|(_, made)| made.clone()).collect();
            made.sort();
            made
        };
        assert_eq!(sorted(recorded), sorted(replayed));
        let times = recorded.iter().zip(replayed);
        late.extend(times.map(|((then, _), (now, _))| now.abs_diff(*then)));
    }
    late.sort_unstable();
    let median_ms = late[late.len() / 2] as f64 / 1e6;
    println!("{count} requests, off by {median_ms} ms in the median");
    assert!(median_ms < 5.0, "off by {median_ms} ms in the median");
    let said_ms = found["behind"]["p50_ms"].as_f64().unwrap();
    assert!(said_ms < 5.0, "{said_ms} ms behind");
    assert_eq!(names_left(&dirs), Vec::<String>::new());
    assert_eq!(objects_left(place.root.path()), Vec::<PathBuf>::new());
}

#[test]
fn what_was_read_is_there_at_its_length() {
    let place = Place::new();
    let line = |at: u64, rest: &str| {
        let end = at + 1_000_000;
        format!(
            "{{\"submitted_ns\":{at},\"completed_ns\":{end},\"client\":3,{rest},\"outcome\":\
             \"done\",\"access_ns\":0,\"queued_ns\":0}}\n"
        )
    };
    let data = |operation: &str, object: &str, offset: u64, length: u64, moved: u64| {
        let class = if operation == "remove" { "metadata" } else { operation };
        format!(
            "\"place\":\"storage 1\",\"class\":\"{class}\",\"operation\":\"{operation}\",\"object\":\
             \"{object}\",\"offset_bytes\":{offset},\"length_bytes\":{length},\"moved_bytes\":{moved}"
        )
    };
    let name = |operation: &str, name: &str| {
        format!(
            "\"place\":\"metadata\",\"class\":\"metadata\",\"operation\":\"{operation}\",\"name\":\
             \"{name}\",\"offset_bytes\":0,\"length_bytes\":0,\"moved_bytes\":0"
        )
    };
    let trace = [
        "{\"afflux_trace\":1}\n".to_owned(),
        line(0, &data("read", "7.1", 4096, 8192, 1000)),
        line(2_000_000, &data("write", "8.1", 0, 5000, 5000)),
        line(4_000_000, &data("read", "8.1", 0, 9000, 5000)),
        line(6_000_000, &name("open", "there/before")),
        line(8_000_000, &name("create", "new")),
        line(10_000_000, &name("unlink", "new")),
        line(12_000_000, &name("unlink", "there/before")),
        line(14_000_000, &data("remove", "8.1", 0, 0, 0)),
    ];
    std::fs::write(place.path("hand.jsonl"), trace.concat()).unwrap();
    let (dirs, again) = (place.dirs("server", 2), place.text("again.jsonl"));
    for pace in ["recorded", "closed"] {
        let on = format!("trace:{again}@{dirs}");
        let found =
            json(&["replay", &place.text("hand.jsonl"), "--on", &on, "--pace", pace, "--json"]);
        assert_eq!((&found["requests"], &found["summary"]["faults"]), (&8.into(), &0.into()));
        assert_eq!(found["behind"].is_null(), pace == "closed");
        let text = std::fs::read_to_string(&again).unwrap();
        let lines = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines: Vec<_> = lines.filter(|line| line["client"] == 1).collect();
        // What has nothing to do with each other may change places on a busy machine.
        let mut moved: Vec<_> = lines
            .iter()
            .map(|line| {
                (line["operation"].as_str().unwrap(), line["moved_bytes"].as_u64().unwrap())
            })
            .collect();
        moved.sort_unstable();
        let names = [("create", 0), ("open", 0)].into_iter();
        let objects = [("read", 1000), ("read", 5000), ("remove", 0), ("unlink", 0), ("unlink", 0)];
        let expected: Vec<_> = names.chain(objects).chain([("write", 5000)]).collect();
        assert_eq!(moved, expected, "{pace}");
        assert!(lines.iter().all(|line| line["outcome"] == "done"), "{pace}: {text}");
        assert_eq!(names_left(&dirs), Vec::<String>::new(), "{pace}");
    }
}

#[test]
fn renames_find_the_names_that_they_found() {
    let place = Place::new();
    let mut trace = "{\"afflux_trace\":2}\n".to_owned();
    let moved = "{\"moved\":\"aside\"}";
    let lines = [
        ("rename", "a", Some(("b", "\"replaced\"")), "done"),
        ("open", "b", None, "done"),
        ("open", "a", None, "not found"),
        ("create", "a", None, "done"),
        ("rename", "a", Some(("b", moved)), "done"),
        ("unlink", "aside", None, "done"),
        ("rename", "x", Some(("y", "\"refused\"")), "exists"),
        ("rename", "none", Some(("y", "\"replaced\"")), "not found"),
        ("unlink", "b", None, "done"),
    ];
    for (at, (operation, name, to, outcome)) in (0_u64..).zip(&lines) {
        let (from, end) = (at * 3_000_000, at * 3_000_000 + 1_000_000);
        let to =
            to.map_or(String::new(), |(to, taken)| format!("\"to\":\"{to}\",\"taken\":{taken},"));
        trace += &format!(
            "{{\"submitted_ns\":{from},\"completed_ns\":{end},\"client\":0,\"place\":\"metadata\",\
             \"class\":\"metadata\",\"operation\":\"{operation}\",\"name\":\"{name}\",{to}\
             \"offset_bytes\":0,\"length_bytes\":0,\"moved_bytes\":0,\"outcome\":\"{outcome}\",\
             \"access_ns\":0,\"queued_ns\":0}}\n"
        );
    }
    std::fs::write(place.path("names.jsonl"), trace).unwrap();
    let (dirs, again) = (place.dirs("server", 2), place.text("again.jsonl"));
    for pace in ["recorded", "closed"] {
        let on = format!("trace:{again}@{dirs}");
        done(&["replay", &place.text("names.jsonl"), "--on", &on, "--pace", pace]);
        let text = std::fs::read_to_string(&again).unwrap();
        let made = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut made: Vec<_> = made.filter(|line| line["client"] == 1).collect();
        made.sort_by_key(|line| line["submitted_ns"].as_u64());
        let made: Vec<_> = made
            .iter()
            .map(|line| {
                let name = line["name"].as_str().unwrap().rsplit('/').next().unwrap();
                (line["operation"].as_str().unwrap(), name, line["outcome"].as_str().unwrap())
            })
            .collect();
        let recorded =
            lines.iter().map(|&(operation, name, _, outcome)| (operation, name, outcome));
        // What has nothing to do with each other may change places at the closed pace.
        let (mut made, mut recorded) = (made, recorded.collect::<Vec<_>>());
        made.sort_unstable();
        recorded.sort_unstable();
        assert_eq!(made, recorded, "{pace}");
        assert_eq!(names_left(&dirs), Vec::<String>::new(), "{pace}");
    }
}

#[test]
fn a_window_that_is_too_small_falls_behind_and_says_so() {
    let place = Place::new();
    let trace = place.record(1);
    let behind = |policy: &str| {
        let on = ["--on", "null:4ms", "--policy", policy, "--json"];
        json(&[&["replay", &trace][..], &on].concat())["behind"]["p99_ms"].as_f64().unwrap()
    };
    let (free, held) = (behind("none"), behind("fixed:1"));
    println!("p99 behind: {free} ms free, {held} ms held");
    assert!(held > 200.0, "{held} ms behind with a window of 1, {free} ms without");
    assert!(free < held / 2.0, "{held} ms behind with a window of 1, {free} ms without");
    let text = done(&["replay", &trace, "--on", "null:4ms", "--policy", "fixed:1"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("behind the recorded times: "), "{text}");
}

#[test]
fn settings_are_compared_at_the_closed_pace() {
    let place = Place::new();
    let trace = place.record(4);
    let closed = ["--pace", "closed", "--compare", "fixed:1", "--pairs", "2", "--json"];
    let found = json(&[&["replay", &trace, "--on", "null:10ms"][..], &closed].concat());
    assert_eq!(found[0]["pairs"].as_array().unwrap().len(), 2);
    let change = found[0]["metrics"][0]["change_percent"]["mean"].as_f64().unwrap();
    assert!(change < 0.0, "{change}% with a window of 1");
}

#[test]
fn fewer_servers_are_told() {
    let place = Place::new();
    let trace = place.record(4);
    let dirs = place.dirs("server", 2);
    let talk = done(&["replay", &trace, "--on", &dirs]).stderr;
    let talk = String::from_utf8(talk).unwrap();
    assert!(talk.contains("has 4 storage servers") && talk.contains("N modulo 2"), "{talk}");
    assert_eq!(names_left(&dirs), Vec::<String>::new());
    assert_eq!(objects_left(place.root.path()), Vec::<PathBuf>::new());
}

#[test]
fn what_is_wrong_with_a_trace_is_said_with_place_and_remedy() {
    let place = Place::new();
    let trace = place.record(4);
    let right = std::fs::read_to_string(&trace).unwrap();
    let torn = &right[..right.len() - 20];
    let lines = right.lines().count();
    for (text, says) in [
        ("", "is no trace"),
        ("afflux\n", "is no trace"),
        ("{\"afflux_trace\":3}\n", "of version 3"),
        ("{\"afflux_trace\":1}\n", "has no request"),
        (torn, &format!("line {lines}: ")),
        (&right.replacen("storage 1", "storage x", 1), "`storage x` is no place"),
        (&right.replacen("\"write\",\"object\"", "\"wrote\",\"object\"", 1), "`wrote`"),
    ] {
        let path = place.text("wrong.jsonl");
        std::fs::write(&path, text).unwrap();
        let output = afflux(&["replay", &path, "--on", "null"]);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{says}: {talk}");
        assert!(output.stdout.is_empty() && talk.contains(says), "{says}: {talk}");
    }
    for (args, says) in [
        (&["replay", "/no/such/trace", "--on", "null"][..], "/no/such/trace"),
        (&["replay", &trace, "--on", "sim:contended"], "there is no engine `sim`"),
        (&["replay", &trace, "--on", "null", "--pace", "slow"], "closed"),
    ] {
        let output = afflux(args);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {talk}");
        assert!(talk.contains(says), "{args:?}: {talk}");
    }
}
