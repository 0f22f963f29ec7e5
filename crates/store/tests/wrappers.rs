//! Wrappers: each passes the suite of the engines around several of them, and does what it says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use afflux_core::layout::Layout;
use afflux_core::rng::Rng;
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use afflux_store::client::{Client, Identity, Operation as FileOperation, Payload};
use afflux_store::engine::conformance::run_all;
use afflux_store::engine::dirs::DirsEngine;
use afflux_store::engine::null::NullEngine;
use afflux_store::engine::registry::EngineSpec;
use afflux_store::engine::wrap::{WRAPPERS, WrapperSpec, find};
use afflux_store::engine::{
    Answer, Capabilities, Completion, CompletionQueue, CompletionSender, Engine, EngineError,
    ObjectId, Operation, Place, Request, ServerStatistics,
};
use bytes::Bytes;
use tempfile::TempDir;

/// Those that must pass whatever engines must, innermost last.
const HARMLESS: &[&[&str]] = &[
    &["limit:3"],
    &["limit:1"],
    &["throttle:400MB/s"],
    &["fault:seed=7"],
    &["fault:delay=300us,delays=0.5"],
    &["trace:TRACE"],
    &["trace:TRACE", "limit:16"],
    &["limit:4", "fault:delay=100us,delays=0.3", "throttle:1GB/s", "trace:TRACE", "limit:2"],
];

fn wrapper(text: &str) -> WrapperSpec {
    let (name, options) = text.split_once(':').unwrap();
    WrapperSpec::parse(find(name).unwrap(), options).unwrap()
}

fn wrappers(texts: &[&str], dir: &TempDir) -> Vec<WrapperSpec> {
    let trace = dir.path().join("trace.jsonl").display().to_string();
    texts.iter().map(|text| wrapper(&text.replace("TRACE", &trace))).collect()
}

fn around(wrappers: &[WrapperSpec], inner: Arc<dyn Engine>) -> Arc<dyn Engine> {
    wrappers.iter().rev().fold(inner, |inner, wrapper| wrapper.around(inner).unwrap())
}

fn one(text: &str, inner: Arc<dyn Engine>) -> Arc<dyn Engine> {
    around(&[wrapper(text)], inner)
}

fn directories(root: &TempDir, count: usize) -> Vec<PathBuf> {
    let dirs: Vec<_> = (0..count).map(|at| root.path().join(at.to_string())).collect();
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    dirs
}

fn passes_around_one_value(inner: impl Fn() -> NullEngine) {
    for texts in HARMLESS {
        println!("{texts:?}");
        let dir = tempfile::tempdir().unwrap();
        let engine = around(&wrappers(texts, &dir), Arc::new(inner()));
        run_all(&|| Arc::clone(&engine));
    }
}

#[test]
fn conformance_around_null() {
    passes_around_one_value(|| NullEngine::new(2));
}

#[test]
fn conformance_around_null_with_a_delay() {
    passes_around_one_value(|| NullEngine::delayed(1, Span::from_micros(300)).unwrap());
}

#[test]
fn conformance_around_directories() {
    for texts in HARMLESS {
        println!("{texts:?}");
        let dir = tempfile::tempdir().unwrap();
        let (dirs, wrappers) = (directories(&dir, 3), wrappers(texts, &dir));
        run_all(&|| around(&wrappers, Arc::new(DirsEngine::open(&dirs).unwrap())));
    }
}

#[test]
fn every_wrapper_is_known_here() {
    for entry in WRAPPERS {
        let starts = |text: &str| text.split(':').next() == Some(entry.name);
        assert!(HARMLESS.iter().any(|texts| texts.iter().any(|text| starts(text))));
        assert!(entry.grammar.starts_with(entry.name), "{}", entry.name);
        assert!(entry.grammar.contains('@'), "{}", entry.grammar);
    }
}

/// An engine that answers when it is told to, in any order.
#[derive(Default)]
struct Patient {
    there: Mutex<Vec<(Request, CompletionSender)>>,
}

impl Patient {
    /// Tags of what is there, by what their writes contain; a relay has tags of its own.
    fn there(&self) -> Vec<u64> {
        let there = self.there.lock().unwrap();
        there.iter().map(|(request, _)| label(request)).collect()
    }

    fn deadline(&self, at: usize) -> Option<Span> {
        self.there.lock().unwrap()[at].0.deadline
    }

    fn answer(&self, at: usize) {
        let (request, done) = self.there.lock().unwrap().remove(at);
        let Request { tag, place, .. } = request;
        let (outcome, arrived) = (Ok(Answer::Done), clock::now());
        let (access, queued, credit) = (Span::ZERO, Span::ZERO, 0);
        done.send(Completion { tag, place, outcome, arrived, access, queued, credit });
    }

    fn wait_for(&self, count: usize) {
        let until = clock::now() + Span::from_secs(20);
        while self.there().len() != count {
            assert!(clock::now() < until, "{:?} there, not {count}", self.there());
            clock::sleep(Span::from_millis(1));
        }
    }
}

impl Engine for Patient {
    fn name(&self) -> &'static str {
        "patient"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { durable: false, keeps_data: false, server_times: false, cancels: false }
    }

    fn servers(&self) -> u32 {
        2
    }

    fn submit(&self, request: Request, done: &CompletionSender) {
        self.there.lock().unwrap().push((request, done.clone()));
    }

    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError> {
        Ok(Vec::new())
    }
}

fn label(request: &Request) -> u64 {
    match &request.operation {
        Operation::Write { offset_bytes, .. } => *offset_bytes,
        other => panic!("{other:?}"),
    }
}

fn write(tag: u64, server: u32, bytes: usize) -> Request {
    let object = ObjectId { file: 1, stripe: 0 };
    let write = Operation::Write { object, offset_bytes: tag, data: Bytes::from(vec![1; bytes]) };
    Request::new(tag, Place::Storage(server), write)
}

fn next(queue: &CompletionQueue) -> Completion {
    queue.wait(Some(clock::now() + Span::from_secs(60))).expect("a completion within a minute")
}

#[test]
fn a_limit_holds_for_each_server_and_lets_go_in_order() {
    let inner = Arc::new(Patient::default());
    let engine = one("limit:2", Arc::clone(&inner) as Arc<dyn Engine>);
    let queue = CompletionQueue::new();
    for tag in 0..6 {
        engine.submit(write(tag, 0, 1), &queue.sender());
    }
    engine.submit(write(100, 1, 1), &queue.sender());
    assert_eq!(inner.there(), [0, 1, 100], "the other server has room of its own");
    engine.cancel(3);
    let cancelled = next(&queue);
    assert_eq!((cancelled.tag, cancelled.outcome), (3, Err(EngineError::Cancelled)));
    inner.answer(1);
    assert_eq!(next(&queue).tag, 1);
    inner.wait_for(3);
    assert_eq!(inner.there(), [0, 100, 2]);
    inner.answer(0);
    inner.wait_for(3);
    assert_eq!(inner.there(), [100, 2, 4], "the one that was cancelled is passed over");
    assert_eq!(next(&queue).tag, 0);
    // What waits at the end is cancelled, what is at the server is the server's to end.
    drop(engine);
    let last = next(&queue);
    assert_eq!((last.tag, last.outcome), (5, Err(EngineError::Cancelled)));
    inner.answer(1);
    assert_eq!((next(&queue).tag, queue.poll().is_none()), (2, true));
}

#[test]
fn deadlines_count_from_submission() {
    let inner = Arc::new(Patient::default());
    let engine = one("limit:1", Arc::clone(&inner) as Arc<dyn Engine>);
    let queue = CompletionQueue::new();
    let within =
        |tag, millis| Request { deadline: Some(Span::from_millis(millis)), ..write(tag, 0, 1) };
    engine.submit(within(0, 5_000), &queue.sender());
    engine.submit(within(1, 40), &queue.sender());
    engine.submit(within(2, 9_000), &queue.sender());
    let before = clock::now();
    let ended = next(&queue);
    let waited = ended.arrived.since(before);
    assert_eq!(ended.tag, 1);
    let Err(EngineError::TimedOut { server, after }) = ended.outcome else { panic!("no time-out") };
    assert_eq!((&server[..], after), ("storage 0", Span::from_millis(40)));
    assert!((Span::from_millis(30)..Span::from_secs(4)).contains(&waited), "{waited}");
    assert!(inner.deadline(0).unwrap() > Span::from_millis(4_900));
    inner.answer(0);
    assert_eq!(next(&queue).tag, 0);
    inner.wait_for(1);
    let left = inner.deadline(0).unwrap();
    assert!(left < Span::from_millis(8_970), "the time in the line was taken off: {left}");
    inner.answer(0);
    let last = next(&queue);
    assert!(last.queued >= Span::from_millis(30), "{}", last.queued);
}

#[test]
fn a_throttle_passes_its_rate_at_each_server() {
    let engine = one("throttle:10MB/s", Arc::new(NullEngine::new(2)));
    let queue = CompletionQueue::new();
    let before = clock::now();
    // The bucket holds 1 MiB, so of 3 MiB two have to come in: 0.21 s.
    let (count, bytes) = (48_u64, 64 << 10);
    for tag in 0..count {
        engine.submit(write(tag, 0, bytes), &queue.sender());
        engine.submit(write(count + tag, 1, bytes), &queue.sender());
    }
    let mut last = [before; 2];
    let mut orders: [Vec<u64>; 2] = Default::default();
    for _ in 0..2 * count {
        let done = next(&queue);
        let server = usize::from(done.tag >= count);
        last[server] = done.arrived;
        orders[server].push(done.tag);
    }
    let least = Span::from_secs_f64((3 - 1) as f64 * (1 << 20) as f64 / 10e6);
    for (server, (last, order)) in last.into_iter().zip(orders).enumerate() {
        let took = last.since(before);
        assert!(took >= least, "server {server}: {took} for what takes {least}");
        // A busy machine is late, but not by seconds; one bucket for both would take 0.52 s.
        assert!(took < least + Span::from_millis(200), "server {server}: {took}, not {least}");
        assert!(order.is_sorted(), "{order:?}");
    }
}

/// Ends and labels of 400 writes, in the order of their tags.
fn fates(options: &str) -> Vec<String> {
    let engine = one(options, Arc::new(NullEngine::new(3)));
    let queue = CompletionQueue::new();
    for tag in 0..400 {
        let deadline = Some(Span::from_millis(100));
        let request = Request { deadline, ..write(tag, (tag % 3) as u32, 10) };
        engine.submit(request, &queue.sender());
    }
    let mut ends = BTreeMap::new();
    for _ in 0..400 {
        let done = next(&queue);
        let end = match done.outcome {
            Ok(_) => "done",
            Err(EngineError::Unreachable { .. }) => "unreachable",
            Err(EngineError::TimedOut { .. }) => "timed out",
            Err(other) => panic!("{other}"),
        };
        assert!(ends.insert(done.tag, end.to_owned()).is_none(), "tag {} twice", done.tag);
    }
    clock::sleep(Span::from_millis(150));
    assert!(queue.poll().is_none(), "more completions than requests");
    ends.into_values().collect()
}

#[test]
fn every_request_ends_once_and_as_the_seed_says() {
    let options = "fault:seed=5,delay=5ms,delays=0.2,lose=0.1,fail=0.1";
    let first = fates(options);
    assert_eq!(first, fates(options));
    assert_ne!(first, fates(&options.replace("=5,", "=6,")));
    for end in ["done", "unreachable", "timed out"] {
        assert!(first.iter().any(|one| one == end), "none is {end}");
    }
    let one_server = fates("fault:fail=1,server=1");
    let expected: Vec<_> =
        (0..400).map(|tag| if tag % 3 == 1 { "unreachable" } else { "done" }).collect();
    assert_eq!(one_server, expected);
}

#[test]
fn what_is_lost_was_done_and_what_failed_was_not() {
    let inner: Arc<dyn Engine> = Arc::new(NullEngine::new(1));
    let queue = CompletionQueue::new();
    let requests = || inner.statistics().unwrap()[0].requests;
    let lossy = one("fault:lose=1,patience=50ms", Arc::clone(&inner));
    let before = clock::now();
    lossy.submit(write(1, 0, 1), &queue.sender());
    assert_eq!(requests(), 1);
    let lost = next(&queue);
    assert!(matches!(lost.outcome, Err(EngineError::TimedOut { .. })), "{:?}", lost.outcome);
    assert!(lost.arrived.since(before) >= Span::from_millis(50));
    lossy.submit(write(2, 0, 1), &queue.sender());
    lossy.cancel(2);
    assert_eq!(next(&queue).outcome, Err(EngineError::Cancelled));
    lossy.submit(write(3, 0, 1), &queue.sender());
    drop(lossy);
    assert_eq!((next(&queue).tag, requests()), (3, 3), "the end of an engine ends what it holds");

    let failing = one("fault:fail=1", Arc::clone(&inner));
    failing.submit(write(4, 0, 1), &queue.sender());
    assert!(matches!(next(&queue).outcome, Err(EngineError::Unreachable { .. })));
    let late = one("fault:delays=1,delay=1h", Arc::clone(&inner));
    let hurried = Request { deadline: Some(Span::from_millis(20)), ..write(5, 0, 1) };
    late.submit(hurried, &queue.sender());
    assert!(matches!(next(&queue).outcome, Err(EngineError::TimedOut { .. })));
    late.submit(write(6, 0, 1), &queue.sender());
    late.cancel(6);
    assert_eq!(next(&queue).outcome, Err(EngineError::Cancelled));
    assert_eq!(requests(), 3);
    assert!(queue.poll().is_none());
}

const FAULTY: &str = "fault:seed=11,delay=2ms,delays=0.2,lose=0.05,fail=0.1,patience=30ms";

/// Asks until there is an answer.
fn retried(engine: &dyn Engine, operation: &Operation) -> Answer {
    let queue = CompletionQueue::new();
    for tag in 0..1_000 {
        engine.submit(Request::new(tag, Place::Storage(0), operation.clone()), &queue.sender());
        let done = next(&queue);
        assert_eq!(done.tag, tag);
        match done.outcome {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
    panic!("a thousand tries");
}

#[test]
fn retried_operations_give_right_data() {
    let root = tempfile::tempdir().unwrap();
    let dirs = directories(&root, 1);
    let engine = one(FAULTY, Arc::new(DirsEngine::open(&dirs).unwrap()));
    let object = ObjectId { file: 3, stripe: 0 };
    let (mut rng, mut model) = (Rng::new(2), vec![0_u8; 40_000]);
    for round in 0..200_u64 {
        let (offset, length) = (rng.below(30_000) as usize, rng.below(9_999) as usize + 1);
        let data = vec![round as u8 + 1; length];
        model[offset..offset + length].copy_from_slice(&data);
        let write = Operation::Write { object, offset_bytes: offset as u64, data: data.into() };
        assert_eq!(retried(engine.as_ref(), &write), Answer::Done);
        let length_bytes = length as u32;
        let read = Operation::Read {
            object,
            offset_bytes: offset as u64,
            length_bytes,
            buffer: Vec::new(),
        };
        let expected = model[offset..offset + length].to_vec();
        assert_eq!(retried(engine.as_ref(), &read), Answer::Read(expected), "round {round}");
    }
}

/// What the store's client was told is done is there, whatever befell the rest.
#[test]
fn what_was_acknowledged_is_there() {
    let root = tempfile::tempdir().unwrap();
    let spec = EngineSpec::Dirs { dirs: directories(&root, 3) };
    let layout = Layout { unit_bytes: 4 << 10, first_server: 1, count: 3 };
    let mut sound = Client::new(spec.connect().unwrap(), &Setting::none(), Identity::ALONE);
    let create = FileOperation::create("file", layout, 0, &Payload::pattern(1));
    let file = sound.finish(create).unwrap().record.unwrap().file;
    let faulty = one(FAULTY, spec.connect().unwrap());
    let mut client = Client::new(faulty, &Setting::none(), Identity::ALONE);
    let (block, count) = (10_000, 300_u64);
    let bytes = |id: u64| vec![(id % 251) as u8 + 1; block];
    for id in 0..count {
        let payload = Payload::bytes(bytes(id).into());
        let write = FileOperation::write(file, layout, id * block as u64, block as u64, &payload);
        client.submit(clock::now(), id, write);
    }
    let (mut acknowledged, mut failed) = (BTreeSet::new(), 0);
    while acknowledged.len() as u64 + failed < count {
        for done in client.wait(clock::now() + Span::from_secs(1), None) {
            match done.outcome {
                Ok(_) => assert!(acknowledged.insert(done.id), "{} ended twice", done.id),
                Err(_) => failed += 1,
            }
        }
    }
    assert!(failed > 10 && acknowledged.len() > 10, "{failed} of {count} failed");
    for &id in &acknowledged {
        let read = FileOperation::read_all(file, layout, id * block as u64, block as u64);
        assert!(sound.finish(read).unwrap().data == bytes(id), "block {id}");
    }
}

#[test]
fn a_trace_has_a_line_for_each_request() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("t.jsonl");
    let text = format!("trace:{}@fault:fail=1,server=1@null", file.display());
    let spec: EngineSpec = text.parse().unwrap();
    drop(spec.connect().unwrap());
    let engines = [spec.connect().unwrap(), spec.connect().unwrap()];
    let queue = CompletionQueue::new();
    let before = clock::now();
    for (tag, engine) in engines.iter().enumerate() {
        let tag = tag as u64;
        engine.submit(write(tag, tag as u32, 100), &queue.sender());
        next(&queue);
    }
    let after = clock::now();
    drop(engines);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({"afflux_trace": 2}));
    assert_eq!(lines.len(), 3);
    for (at, outcome, moved) in [(0, "done", 100), (1, "unreachable", 0)] {
        let line = &lines[at + 1];
        let time = |name: &str| Time::from_nanos(line[name].as_u64().unwrap());
        assert!(before <= time("submitted_ns") && time("submitted_ns") <= time("completed_ns"));
        assert!(time("completed_ns") <= after);
        let known = serde_json::json!({
            "client": at, "place": format!("storage {at}"), "class": "write", "operation": "write",
            "object": "1.0", "offset_bytes": at, "length_bytes": 100, "outcome": outcome,
            "moved_bytes": moved,
        });
        for (name, value) in known.as_object().unwrap() {
            assert_eq!(&line[name], value, "{name} of {line}");
        }
    }
}

#[test]
fn a_trace_that_cannot_be_written_fails_no_request_and_is_told_once() {
    let engine = "trace:/dev/full@null".parse::<EngineSpec>().unwrap().connect().unwrap();
    let queue = CompletionQueue::new();
    for tag in 0..200 {
        engine.submit(write(tag, 0, 10), &queue.sender());
        assert_eq!(next(&queue).outcome, Ok(Answer::Done));
    }
    let warnings = engine.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("the trace /dev/full ends early"), "{warnings:?}");
    assert_eq!(engine.warnings(), Vec::<String>::new());
    let missing = "trace:/no/such/dir/t@null".parse::<EngineSpec>().unwrap();
    let error = missing.connect().err().unwrap().to_string();
    assert!(error.contains("/no/such/dir/t"), "{error}");
}
