//! `afflux lab`, and what happens to its data and processes when they are killed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afflux_core::layout::Layout;
use afflux_core::rng::Rng;
use afflux_core::units::Span;
use afflux_node::clock;
use afflux_store::engine::lab::LabEngine;
use afflux_store::engine::{
    Answer, CatalogOperation, CompletionQueue, Engine, ObjectId, Operation, Place, Request, Taken,
};
use afflux_store::lab::cluster::serve::{ServeOrder, ServeWord};
use afflux_store::lab::cluster::state::LabState;
use afflux_store::lab::cluster::status::LabStatus;
use afflux_store::lab::cluster::{Cluster, ClusterOptions};

const AFFLUX: &str = env!("CARGO_BIN_EXE_afflux");

fn lab(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(AFFLUX);
    command.arg("lab").args(arguments).arg("--dir").arg(dir);
    command.output().expect("afflux runs")
}

/// A directory whose lab is ended and removed when a test ends, in whatever way.
struct LabDir {
    root: tempfile::TempDir,
}

impl LabDir {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("lab")
    }
}

impl Drop for LabDir {
    fn drop(&mut self) {
        // Most tests have ended theirs; then this says that there is none, to nobody.
        lab(&self.path(), &["down", "--wipe"]);
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn talk(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn options(dir: &Path, device: &str, servers: u32) -> ClusterOptions {
    ClusterOptions {
        servers,
        device: device.parse().unwrap(),
        threads: 8,
        executable: AFFLUX.into(),
        ..ClusterOptions::new(dir).unwrap()
    }
}

/// Processes that have `word` in their command line.
fn processes_with(word: &str) -> Vec<String> {
    let command = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        words.contains(word).then_some(words)
    };
    std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(command).collect()
}

fn ask(engine: &LabEngine, place: Place, operation: Operation) -> Answer {
    let queue = CompletionQueue::new();
    engine.submit(Request::new(1, place, operation), &queue.sender());
    let completion = queue.wait(Some(clock::now() + Span::from_secs(60))).expect("a completion");
    completion.outcome.expect("an answer")
}

#[test]
fn up_status_down_and_up_again_with_its_data() {
    let root = LabDir::new();
    let dir = root.path();
    let up = ["up", "--servers", "2", "--device", "file", "--threads", "4", "--json"];
    let started = lab(&dir, &up);
    assert_eq!(code(&started), 0, "{}", talk(&started));
    let state: LabState = serde_json::from_slice(&started.stdout).unwrap();
    assert_eq!((state.servers.len(), state.is_running()), (3, true));

    let second = lab(&dir, &up);
    assert_eq!(code(&second), 1);
    assert!(talk(&second).contains("running already"), "{}", talk(&second));
    assert!(talk(&second).contains("lab down"), "{}", talk(&second));

    let object = ObjectId { file: 1, stripe: 0 };
    let data = bytes::Bytes::from(vec![9; 10_000]);
    let write = Operation::Write { object, offset_bytes: 0, data: data.clone() };
    let read = || Operation::Read { object, offset_bytes: 0, length_bytes: 20_000, buffer: vec![] };
    ask(&LabEngine::connect(&dir).unwrap(), Place::Storage(1), write);
    let status = lab(&dir, &["status"]);
    let table = String::from_utf8(status.stdout.clone()).unwrap();
    assert!(code(&status) == 0 && table.contains("alive") && table.contains("10000 B"), "{table}");
    let json: LabStatus = serde_json::from_slice(&lab(&dir, &["status", "--json"]).stdout).unwrap();
    let report = json.servers[1].report.as_ref().unwrap();
    assert_eq!(report.statistics.written_bytes, 10_000);
    assert!(report.device.starts_with("file ("), "{}", report.device);

    assert_eq!(code(&lab(&dir, &["down"])), 0);
    assert!(processes_with(dir.to_str().unwrap()).is_empty());
    assert_eq!(code(&lab(&dir, &["status"])), 1);
    let other = lab(&dir, &["up", "--servers", "3"]);
    assert!(code(&other) == 1 && talk(&other).contains("--wipe"), "{}", talk(&other));
    assert_eq!(code(&lab(&dir, &up)), 0);
    let engine = LabEngine::connect(&dir).unwrap();
    assert_eq!(ask(&engine, Place::Storage(1), read()), Answer::Read(data.to_vec()));
    drop(engine);

    std::fs::write(dir.join("mine"), "not the lab's").unwrap();
    assert_eq!(code(&lab(&dir, &["down", "--wipe"])), 0);
    let left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
    assert_eq!(code(&lab(&dir, &["down"])), 1, "there is none");
}

#[test]
fn down_cleans_up_after_a_lab_whose_servers_died() {
    let root = LabDir::new();
    let dir = root.path();
    assert_eq!(code(&lab(&dir, &["up", "--servers", "1", "--device", "mem"])), 0);
    let state = LabState::load(&dir).unwrap();
    state.servers[0].process.as_ref().unwrap().kill();
    assert!(state.servers[0].process.as_ref().unwrap().wait(Duration::from_secs(5)));
    let status = lab(&dir, &["status"]);
    let table = String::from_utf8(status.stdout.clone()).unwrap();
    assert!(code(&status) == 1 && table.contains("down") && table.contains("alive"), "{table}");
    state.servers[1].process.as_ref().unwrap().kill();
    assert!(state.servers[1].process.as_ref().unwrap().wait(Duration::from_secs(5)));
    let down = lab(&dir, &["down", "--wipe"]);
    assert!(code(&down) == 0 && talk(&down).contains("was not running"), "{}", talk(&down));
    assert!(!dir.exists());
}

#[test]
fn what_cannot_be_started_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dir = root.path().join("port");
    // The second server's port is taken, so the first one has started when that is noticed.
    let first = (port - 1).to_string();
    let failed = lab(&dir, &["up", "--servers", "2", "--device", "mem", "--port", &first]);
    assert_eq!(code(&failed), 1);
    assert!(talk(&failed).contains("--port"), "{}", talk(&failed));
    assert!(!dir.exists() && processes_with(dir.to_str().unwrap()).is_empty());

    let full = root.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("mine"), "x").unwrap();
    let failed = lab(&full, &["up"]);
    assert!(code(&failed) == 1 && talk(&failed).contains("not empty"), "{}", talk(&failed));
    assert_eq!(std::fs::read_dir(&full).unwrap().count(), 1);

    let failed = lab(&full.join("mine"), &["up"]);
    assert!(code(&failed) == 1 && talk(&failed).contains("another --dir"), "{}", talk(&failed));
    for wrong in [["--servers", "0"], ["--threads", "0"], ["--capacity", "0B"]] {
        let dir = root.path().join("wrong");
        let failed = lab(&dir, &["up", wrong[0], wrong[1]]);
        assert!(code(&failed) == 1 && !dir.exists(), "{}", talk(&failed));
    }
    std::fs::write(full.join("lab.json"), "{\"version\": 7}").unwrap();
    let failed = lab(&full, &["up"]);
    assert!(talk(&failed).contains("version 7"), "{}", talk(&failed));
}

#[test]
fn a_server_that_dies_at_its_start_is_reported_with_its_log() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("lab");
    let script = root.path().join("server");
    std::fs::write(&script, "#!/bin/sh\necho the roof is on fire >&2\nexit 3\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let options = ClusterOptions { executable: script, ..options(&dir, "mem", 1) };
    let error = Cluster::start(&options).unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.contains("roof is on fire"), "{error}");
    assert!(!dir.exists());
    let missing = ClusterOptions { executable: root.path().join("missing"), ..options };
    let error = Cluster::start(&missing).unwrap_err().to_string();
    assert!(error.contains("missing") && !dir.exists(), "{error}");
}

/// The test runs itself once more as the parent that it kills.
#[test]
fn a_killed_parent_leaves_no_process() {
    if let Some(dir) = std::env::var_os("AFFLUX_TEST_CLUSTER") {
        // The thread that starts the lab ends, which must not end the lab.
        let start = move || Cluster::start(&options(Path::new(&dir), "mem", 2));
        let _cluster = std::thread::spawn(start).join().unwrap().unwrap();
        clock::sleep(Span::from_secs(60));
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("lab");
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lab::a_killed_parent_leaves_no_process"])
        .env("AFFLUX_TEST_CLUSTER", &dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let patience = clock::now() + Span::from_secs(30);
    let running =
        || LabState::load(&dir).ok().filter(|state| state.servers.iter().all(|s| s.is_running()));
    let state = loop {
        if let Some(state) = running() {
            break state;
        }
        assert!(clock::now() < patience, "the helper started no lab");
        clock::sleep(Span::from_millis(20));
    };
    clock::sleep(Span::from_millis(300));
    assert!(state.is_running(), "the end of the thread that started it ended the lab");
    parent.kill().unwrap();
    parent.wait().unwrap();
    for server in &state.servers {
        let gone = server.process.as_ref().unwrap().wait(Duration::from_secs(10));
        assert!(gone, "{} outlived its parent", server.name);
    }
    // The directory is in order for whoever comes next.
    let cluster = Cluster::start(&options(&dir, "mem", 2)).unwrap();
    drop(cluster.wiped_on_drop());
    assert!(!dir.exists());
}

/// A server's process, killed and started again on the same port and directory.
struct Restartable {
    order: ServeOrder,
    child: Child,
}

impl Restartable {
    fn start(mut order: ServeOrder) -> Self {
        let text = serde_json::to_string(&order).unwrap();
        let mut command = Command::new(AFFLUX);
        command.args(["lab", "serve", &text]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        match serde_json::from_str(&line).unwrap() {
            ServeWord::Ready(port) => order.port = port,
            ServeWord::Taken(why) | ServeWord::Failed(why) => panic!("{why}"),
        }
        Self { order, child }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        *self = Self::start(self.order.clone());
    }
}

impl Drop for Restartable {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn order(dir: PathBuf, storage: Option<u32>) -> ServeOrder {
    ServeOrder {
        lab: "kill".to_owned(),
        storage,
        servers: 1,
        dir,
        device: "file".to_owned(),
        capacity_bytes: None,
        threads: 16,
        credits: None,
        port: 0,
        detached: false,
    }
}

fn connect(storage: &Restartable, names: &Restartable) -> LabEngine {
    let at = |server: &Restartable| ([127, 0, 0, 1], server.order.port).into();
    let addresses = afflux_store::engine::lab::LabAddresses {
        lab: Some("kill".to_owned()),
        storage: vec![at(storage)],
        metadata: at(names),
    };
    LabEngine::connect_to(&addresses, true).unwrap()
}

const SLOT_BYTES: usize = 24 << 10;
const SLOTS: u64 = 50;

/// The bytes of a version of a slot: not all of them alike, and long enough to be torn.
fn contents(slot: u64, version: u64) -> Vec<u8> {
    let word = (slot << 32 | version).to_le_bytes();
    word.iter().copied().cycle().take(SLOT_BYTES).collect()
}

/// Writes slots over and over until told to stop; returns the last version acknowledged of each.
/// With one request in flight for each slot, versions of a slot are written in order.
fn write_slots(engine: &LabEngine, file: u64, stop: &AtomicBool, seed: u64) -> BTreeMap<u64, u64> {
    let mut rng = Rng::new(seed).fork(&format!("writer {file}"));
    let object = ObjectId { file, stripe: 0 };
    let queue = CompletionQueue::new();
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
    let mut in_flight = BTreeMap::new();
    loop {
        while in_flight.len() < 8 && !stop.load(Ordering::Relaxed) {
            let slot = rng.below(SLOTS);
            if in_flight.contains_key(&slot) {
                continue;
            }
            let version = sent.get(&slot).copied().unwrap_or(0) + 1;
            sent.insert(slot, version);
            in_flight.insert(slot, version);
            let offset_bytes = slot * SLOT_BYTES as u64;
            let data = contents(slot, version).into();
            let write = Operation::Write { object, offset_bytes, data };
            engine.submit(Request::new(slot, Place::Storage(0), write), &queue.sender());
        }
        if in_flight.is_empty() {
            return acknowledged;
        }
        let completion = queue.wait(None).expect("a completion");
        let version = in_flight.remove(&completion.tag).expect("one completion for a tag");
        if completion.outcome == Ok(Answer::Done) {
            acknowledged.insert(completion.tag, version);
        }
    }
}

#[test]
fn every_acknowledged_write_survives_kills_of_the_server() {
    let seed = clock::now().as_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let root = tempfile::tempdir().unwrap();
    let names = Restartable::start(order(root.path().join("names"), None));
    let mut server = Restartable::start(order(root.path().join("objects"), Some(0)));
    let writers: Vec<_> = (1..=3).map(|file| (file, connect(&server, &names))).collect();
    let stop = AtomicBool::new(false);
    let kills = 20;
    let acknowledged: BTreeMap<u64, _> = std::thread::scope(|scope| {
        let stop = &stop;
        let threads: Vec<_> = writers
            .iter()
            .map(|(file, engine)| {
                (*file, scope.spawn(move || write_slots(engine, *file, stop, seed)))
            })
            .collect();
        for _ in 0..kills {
            clock::sleep(Span::from_micros(rng.below(60_000)));
            server.kill();
            clock::sleep(Span::from_micros(rng.below(20_000)));
            server.restart();
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|(file, thread)| (file, thread.join().unwrap())).collect()
    });
    // Once more, so that nothing is read from where it was only on its way.
    server.kill();
    server.restart();
    let engine = connect(&server, &names);
    let mut checked = 0;
    for (file, slots) in acknowledged {
        for (slot, version) in slots {
            let object = ObjectId { file, stripe: 0 };
            let (offset_bytes, length_bytes) = (slot * SLOT_BYTES as u64, SLOT_BYTES as u32);
            let read = Operation::Read { object, offset_bytes, length_bytes, buffer: vec![] };
            let Answer::Read(data) = ask(&engine, Place::Storage(0), read) else { panic!() };
            assert!(
                data == contents(slot, version),
                "seed {seed}: file {file}, slot {slot} is not version {version}"
            );
            checked += version;
        }
    }
    println!("{checked} writes acknowledged over {kills} kills");
    assert!(checked > 200, "{checked} writes in all");
}

/// Renames a file; the number of the one that this replaced.
fn replace(engine: &LabEngine, from: String, to: &str) -> Option<u64> {
    let rename = CatalogOperation::Rename { from, to: to.to_owned(), taken: Taken::Replaced };
    match ask(engine, Place::Metadata, Operation::Catalog(rename)) {
        Answer::File(replaced) => Some(replaced.file),
        _ => None,
    }
}

#[test]
fn every_acknowledged_name_survives_kills_of_the_metadata_server() {
    let seed = clock::now().as_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let root = tempfile::tempdir().unwrap();
    let mut names = Restartable::start(order(root.path().join("names"), None));
    let server = Restartable::start(order(root.path().join("objects"), Some(0)));
    let engine = connect(&server, &names);
    let stop = AtomicBool::new(false);
    let layout = Layout { unit_bytes: 4096, first_server: 0, count: 1 };
    let mut kept = BTreeMap::new();
    std::thread::scope(|scope| {
        let (stop, engine) = (&stop, &engine);
        let created = scope.spawn(move || {
            let mut kept = BTreeMap::new();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return kept;
                }
                let name = format!("file {number}");
                let create = CatalogOperation::Create { name: name.clone(), layout };
                let answer = ask(engine, Place::Metadata, Operation::Catalog(create));
                let Answer::File(record) = answer else { panic!("{answer:?}") };
                match number % 4 {
                    0 => {
                        let unlink = Operation::Catalog(CatalogOperation::Unlink { name });
                        ask(engine, Place::Metadata, unlink);
                    }
                    1 => {
                        let to = format!("renamed {number}");
                        assert_eq!(replace(engine, name, &to), None);
                        kept.insert(to, record.file);
                    }
                    2 => {
                        // An answer that got lost is given again, so each is replaced once.
                        let before = kept.insert("last".to_owned(), record.file);
                        assert_eq!(replace(engine, name, "last"), before);
                    }
                    _ => drop(kept.insert(name, record.file)),
                }
            }
            kept
        });
        for _ in 0..15 {
            clock::sleep(Span::from_micros(rng.below(40_000)));
            names.kill();
            names.restart();
        }
        stop.store(true, Ordering::Relaxed);
        kept = created.join().unwrap();
    });
    let mut listed = BTreeMap::new();
    let mut after = String::new();
    loop {
        let list = CatalogOperation::List { prefix: String::new(), after, limit: 100 };
        let answer = ask(&engine, Place::Metadata, Operation::Catalog(list));
        let Answer::Files(page) = answer else { panic!("{answer:?}") };
        let Some(last) = page.last() else { break };
        after = last.name.clone();
        listed.extend(page.into_iter().map(|record| (record.name, record.file)));
    }
    assert_eq!(listed, kept, "seed {seed}");
    println!("{} names kept", kept.len());
    assert!(kept.len() > 20);
}
