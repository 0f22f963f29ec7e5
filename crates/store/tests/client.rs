//! The client on real directories, and on an engine that keeps an eye on it.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use afflux_core::class::Class;
use afflux_core::layout::Layout;
use afflux_core::measure::{MAX_POINTS, Measurement, TraceRequest};
use afflux_core::setting::Setting;
use afflux_core::target::{Run, Target, Unwatched};
use afflux_core::units::{Span, Time};
use afflux_core::workload::Workload;
use afflux_node::clock;
use afflux_store::client::{Client, Identity, Operation, Payload};
use afflux_store::engine::registry::EngineSpec;
use afflux_store::engine::{
    Answer, Capabilities, Completion, CompletionSender, Engine, EngineError, Place, Request,
    ServerStatistics,
};
use afflux_store::load::EngineTarget;
use proptest::prelude::*;
use tempfile::TempDir;

fn directories(count: usize) -> (TempDir, EngineSpec) {
    let root = tempfile::tempdir().unwrap();
    let dirs = (0..count).map(|number| root.path().join(number.to_string()));
    let dirs: Vec<_> = dirs.inspect(|dir| std::fs::create_dir(dir).unwrap()).collect();
    (root, EngineSpec::Dirs { dirs })
}

fn setting(text: &str) -> Setting {
    Setting::parse(text, &|name| Err(format!("no rules here: {name}"))).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is written where, a read gives what a flat array of bytes would.
    #[test]
    fn a_striped_file_reads_as_it_was_written(
        (unit_kib, first_server, count) in (1_u32..64, 0_u32..3, 1_u32..4),
        steps in prop::collection::vec((0_u64..300_000, 1_usize..200_000, any::<u8>()), 1..8),
    ) {
        let (_root, spec) = directories(3);
        let mut client = Client::new(spec.connect().unwrap(), &Setting::none(), Identity::ALONE)
            .with_max_request(70_000);
        let layout = Layout { unit_bytes: unit_kib << 10, first_server, count };
        let create = Operation::create("file", layout, 0, &Payload::pattern(1));
        let file = client.finish(create).unwrap().record.unwrap().file;
        let (mut flat, mut end) = (vec![0_u8; 500_000], 0);
        for (offset, length, seed) in steps {
            let bytes: Vec<u8> =
                (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect();
            flat[offset as usize..offset as usize + length].copy_from_slice(&bytes);
            let payload = Payload::bytes(bytes.into());
            let write = Operation::extend(file, layout, offset, length as u64, &payload);
            prop_assert_eq!(client.finish(write).unwrap().bytes, length as u64);
            end = end.max(offset + length as u64);
        }
        let read = Operation::read_all(file, layout, 0, flat.len() as u64);
        prop_assert!(client.finish(read).unwrap().data == flat);
        let record = client.finish(Operation::open("file")).unwrap().record.unwrap();
        prop_assert_eq!(record.size_bytes, end);
        client.finish(Operation::remove("file")).unwrap();
        let gone = client.finish(Operation::open("file")).unwrap_err();
        prop_assert_eq!(gone, EngineError::NotFound("file".to_owned()));
    }
}

/// Answers each request after a while and remembers how many were under way at once.
#[derive(Default)]
struct Watching {
    state: Mutex<State>,
    fails: Option<EngineError>,
}

#[derive(Default)]
struct State {
    held: Vec<(Request, CompletionSender)>,
    most_by_path: BTreeMap<(u32, Class), usize>,
    most: usize,
    seen: usize,
}

impl Watching {
    /// Answers the oldest request that is held.
    fn answer_one(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        if state.held.is_empty() {
            return false;
        }
        let (request, done) = state.held.remove(0);
        let outcome = self.fails.clone().map_or(Ok(Answer::Done), Err);
        done.send(Completion {
            tag: request.tag,
            place: request.place,
            outcome,
            arrived: clock::now(),
            access: Span::ZERO,
            queued: Span::ZERO,
            credit: 0,
        });
        true
    }
}

impl Engine for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { durable: false, keeps_data: false, server_times: false, cancels: false }
    }

    fn servers(&self) -> u32 {
        4
    }

    fn submit(&self, request: Request, done: &CompletionSender) {
        let mut state = self.state.lock().unwrap();
        state.held.push((request, done.clone()));
        state.seen += 1;
        state.most = state.most.max(state.held.len());
        let mut by_path: BTreeMap<(u32, Class), usize> = BTreeMap::new();
        for (request, _) in &state.held {
            let Place::Storage(server) = request.place else { continue };
            *by_path.entry((server, request.operation.class())).or_default() += 1;
        }
        for (path, count) in by_path {
            let most = state.most_by_path.entry(path).or_default();
            *most = (*most).max(count);
        }
    }

    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError> {
        Ok(Vec::new())
    }
}

const WHOLE: Layout = Layout { unit_bytes: 1 << 20, first_server: 0, count: 4 };

/// Writes 256 requests under a setting, answering one at a time.
fn write_256(text: &str) -> (usize, BTreeMap<(u32, Class), usize>, Client) {
    let engine = Arc::new(Watching::default());
    let mut client = Client::new(engine.clone(), &setting(text), Identity { index: 1, of: 2 });
    let payload = Payload::pattern(1 << 20);
    client.submit(clock::now(), 9, Operation::write(1, WHOLE, 0, 256 << 20, &payload));
    loop {
        let done = client.wait(clock::now() + Span::from_millis(1), None);
        if let Some(done) = done.first() {
            assert_eq!((done.id, done.outcome.as_ref().unwrap().bytes), (9, 256 << 20));
            break;
        }
        engine.answer_one();
    }
    let state = engine.state.lock().unwrap();
    assert_eq!(state.seen, 256);
    (state.most, state.most_by_path.clone(), client)
}

#[test]
fn a_window_is_filled_and_never_exceeded_on_any_path() {
    for window in [1, 3, 8] {
        let (most, by_path, mut client) = write_256(&format!("fixed:{window}"));
        assert_eq!(most, 4 * window);
        assert_eq!(by_path.len(), 4);
        assert!(by_path.values().all(|&most| most == window), "{by_path:?}");
        let holds = client.holds()[Class::Write.index()];
        assert!(holds.holds[0] > 0 && holds.held_nanos[0] > 0, "{holds:?}");
    }
}

#[test]
fn fan_in_bounds_all_paths_together_and_cap_each() {
    let (most, by_path, mut client) = write_256("fixed:8+fan-in=6");
    assert_eq!(most, 6);
    assert_eq!(by_path.len(), 4, "a scarce fan-in goes round");
    assert!(client.holds()[Class::Write.index()].holds[4] > 0);
    let (most, by_path, _) = write_256("fixed:8+cap=2");
    assert_eq!(most, 8);
    assert!(by_path.values().all(|&most| most == 2));
}

#[test]
fn an_operation_ends_with_the_first_error_and_others_go_on() {
    let fails = Some(EngineError::NoSpace { server: "storage 3".to_owned() });
    let engine = Arc::new(Watching { fails: fails.clone(), ..Watching::default() });
    let mut client = Client::new(engine.clone(), &Setting::none(), Identity::ALONE);
    let payload = Payload::pattern(1 << 20);
    for id in 0..2 {
        client.submit(clock::now(), id, Operation::write(id, WHOLE, 0, 4 << 20, &payload));
    }
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.extend(client.wait(clock::now() + Span::from_millis(1), None));
        engine.answer_one();
    }
    assert!(ended.iter().all(|done| done.outcome.as_ref().err() == fails.as_ref()));
}

const SMALL: &str = r#"
afflux-workload = 1
name = "small"
clients = 3
[files]
each = 6
size = "64 KiB"
stripe_unit = "16 KiB"
present_percent = 50
[[stream]]
threads = 2
steps = [
  { do = "create" }, { do = "append", size = "16 KiB" }, { do = "read" },
  { do = "stat", think = "1ms" }, { do = "delete" },
]
"#;

#[test]
fn a_target_measures_and_every_run_starts_from_the_same_files() {
    let (_root, spec) = directories(2);
    let observer = spec.connect().unwrap();
    let mut observer = Client::new(observer, &Setting::none(), Identity::ALONE);
    let mut target = EngineTarget::new("two directories", Box::new(move || spec.connect()));
    let workload = Workload::parse(SMALL).unwrap();
    let mut listings = Vec::new();
    for text in ["none", "fixed:2+fan-in=3", "none"] {
        target.prepare(&workload).unwrap();
        let listing = observer.finish(Operation::list("small/", "", 100)).unwrap().listing;
        let listing: Vec<_> =
            listing.into_iter().map(|file| (file.name, file.size_bytes)).collect();
        listings.push(listing);
        target.deploy(&setting(text)).unwrap();
        let (settle, length) = (Span::from_millis(50), Span::from_secs(1));
        let trace = (text != "none").then(TraceRequest::default);
        let run = Run { seed: 3, settle, length, trace, progress: &Unwatched };
        let measurement = target.run(&run).unwrap();
        check_trace(&measurement, trace.is_some());
        assert_eq!(measurement.clients.len(), 3);
        for client in &measurement.clients {
            assert_eq!((client.faults, &client.first_fault), (0, &None));
            assert!(client.operations > 10, "{}", client.operations);
            assert!(client.seconds[0].iter().all(|&bytes| bytes > 0));
            assert!(Class::ALL.iter().all(|class| client.process_time[class.index()].count() > 0));
        }
    }
    target.clear(&workload).unwrap();
    assert_eq!(observer.finish(Operation::list("", "", 100)).unwrap().listing, []);
    assert_eq!(listings[0].len(), 9);
    assert!(listings[0].iter().all(|(_, size)| *size == 64 << 10));
    assert!(listings.iter().all(|listing| *listing == listings[0]));
}

/// A trace is there when it was asked for, of client 0 only, and tells of the whole run.
fn check_trace(measurement: &Measurement, wanted: bool) {
    for (index, client) in measurement.clients.iter().enumerate() {
        assert_eq!(client.trace.is_some(), wanted && index == 0);
        assert_eq!(client.hold_seconds.len(), usize::from(wanted));
    }
    let Some(trace) = &measurement.clients[0].trace else { return };
    assert!(trace.path.class != Class::Metadata && trace.points.len() <= MAX_POINTS);
    assert!(trace.replies > 10 && trace.points.len() > 10, "{}", trace.replies);
    assert!(trace.points.windows(2).all(|pair| pair[0].at_nanos <= pair[1].at_nanos));
    assert!(trace.points.iter().all(|point| point.window == 2.0 && point.in_flight < 2));
    let moved: u64 = trace.slot_bytes.iter().sum();
    let all: u64 = measurement.clients[0].seconds.iter().flatten().sum();
    assert!(moved > 0 && moved <= all, "{moved} of {all}");
}

#[test]
fn a_client_that_has_nothing_to_do_waits_as_long_as_it_is_told() {
    let mut client = Client::new(Arc::new(Watching::default()), &Setting::none(), Identity::ALONE);
    let before = clock::now();
    assert!(client.wait(before + Span::from_millis(20), None).is_empty());
    assert!(clock::now() >= before + Span::from_millis(20));
    assert_eq!(client.pump(), Time::NEVER);
}
