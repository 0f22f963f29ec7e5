//! The controllers that processes share: a request alone, and of sixteen processes on one path.

use std::ffi::CString;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use afflux_core::class::Class;
use afflux_core::path::{HoldTotals, PathKey};
use afflux_core::rules::{RuleFile, shipped};
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use afflux_node::shared::{PathId, Shared};
use criterion::{Criterion, criterion_group};

const KEY: PathKey = PathKey { server: 3, class: Class::Write, tenant: 9 };
const PROCESSES: usize = 16;
const LENGTH: Span = Span::from_secs(2);

fn segment(folder: &Path) -> (&'static Shared, PathId) {
    let file = CString::new(folder.join("segment").to_str().expect("UTF-8")).expect("no zero");
    let shared = Shared::attach(&file).expect("memory");
    let shared: &'static Shared = Box::leak(Box::new(shared));
    (shared, shared.path(KEY).expect("room"))
}

fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder")
}

fn fixed(text: &str) -> Setting {
    Setting::parse(text, &|_| Err("no files".to_owned())).expect("a setting")
}

/// Admission and reply of a request that nobody else meets, as the library makes them. The clock is
/// read elsewhere.
fn alone(criterion: &mut Criterion) {
    let rules = RuleFile::checked(shipped("deep").expect("shipped")).expect("rules");
    let rules = Setting::rules("deep", &rules).expect("rules");
    let cases = [
        ("node/admit and reply, rules, alone (target 80 ns)", rules),
        ("node/admit and reply, fixed window, alone (target 80 ns)", fixed("fixed:8")),
    ];
    for (name, setting) in cases {
        let folder = folder();
        let (shared, path) = segment(folder.path());
        shared.set(KEY.tenant, &setting, name, false).expect("room");
        let mut now = Time::from_nanos(1_000_000_000);
        let mut holds = HoldTotals::default();
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                now += Span::from_millis(100);
                shared.take(path, now, 1 << 20, Time::NEVER, &mut holds).expect("room");
                black_box(shared.answer(now + Span::from_millis(5)))
            });
        });
        assert_eq!(holds, HoldTotals::default(), "something was held");
    }
}

/// What no two steps can do without, for comparison: each writes a state of 128 bytes to memory
/// that others see, and publishes it by one compare-and-swap.
fn least(criterion: &mut Criterion) {
    let blocks: [[AtomicU64; 16]; 2] =
        std::array::from_fn(|_| std::array::from_fn(|word| AtomicU64::new(word as u64)));
    let head = AtomicU64::new(0);
    let mut state: [u64; 16] = std::array::from_fn(|word| word as u64);
    criterion.bench_function("node/two states published, for comparison", |bencher| {
        bencher.iter(|| {
            for _ in 0..2 {
                let version = head.load(Ordering::Acquire);
                state = black_box(state);
                let block = &blocks[(version % 2) as usize];
                for (place, word) in block.iter().zip(state) {
                    place.store(word, Ordering::Relaxed);
                }
                let (done, failed) = (Ordering::AcqRel, Ordering::Relaxed);
                let next = head.compare_exchange(version, version + 1, done, failed);
                black_box(next.expect("nobody else is here"));
            }
        });
    });
}

/// What the same calls of core alone take, for comparison.
fn core_alone(criterion: &mut Criterion) {
    let rules = RuleFile::checked(shipped("deep").expect("shipped")).expect("rules");
    let setting = Setting::rules("deep", &rules).expect("rules");
    let controller = setting.controller(KEY.class);
    let (mut state, mut now) = (controller.start(), Time::from_nanos(1_000_000_000));
    criterion.bench_function("node/core's admit and reply alone, for comparison", |bencher| {
        bencher.iter(|| {
            now += Span::from_millis(100);
            let limits = afflux_core::limits::Limits::default();
            controller.admit(&mut state, now, 1 << 20, &limits).expect("room");
            let (sent, arrived) = (now, now + Span::from_millis(5));
            let size_bytes = 1 << 20;
            let reply = afflux_core::path::Reply { built: sent, sent, arrived, size_bytes };
            black_box(controller.reply(&mut state, &reply))
        });
    });
}

/// Sixteen processes, each with one request after the other.
fn crowd(_: &mut Criterion) {
    for (setting, target) in [("fixed:64", "2,000,000"), ("fixed:1", "100,000")] {
        let folder = folder();
        let (shared, _) = segment(folder.path());
        shared.set(KEY.tenant, &fixed(setting), setting, false).expect("room");
        let start = clock::now() + Span::from_millis(1_500);
        let program = std::env::current_exe().expect("this program");
        let workers: Vec<_> = (0..PROCESSES)
            .map(|_| {
                let mut worker = Command::new(&program);
                worker.env("AFFLUX_BENCH_FOLDER", folder.path());
                worker.env("AFFLUX_BENCH_START", start.as_nanos().to_string());
                worker.stdout(Stdio::null()).spawn().expect("a process")
            })
            .collect();
        for mut worker in workers {
            assert!(worker.wait().expect("a worker").success());
        }
        let counted = &shared.paths()[0].counted;
        let rate = counted.replies as f64 / LENGTH.as_secs_f64();
        let waited: u64 = counted.holds.holds.iter().sum();
        let part = 100.0 * waited as f64 / counted.replies as f64;
        println!(
            "result: node/16 processes, {setting}, {part:.0}% waited (target {target}/s) | {:.0}/s",
            rate
        );
    }
}

/// What a worker does.
fn work(folder: &Path, start: Time) {
    let (shared, path) = segment(folder);
    let mut holds = HoldTotals::default();
    clock::sleep_until(start);
    let end = start + LENGTH;
    let mut now = clock::now();
    while now < end {
        shared.take(path, now, 1 << 20, Time::NEVER, &mut holds).expect("a lane");
        now = clock::now();
        shared.answer(now);
    }
}

criterion_group!(benches, alone, core_alone, least, crowd);

fn main() {
    if let Ok(folder) = std::env::var("AFFLUX_BENCH_FOLDER") {
        let start = std::env::var("AFFLUX_BENCH_START").expect("a start");
        return work(Path::new(&folder), Time::from_nanos(start.parse().expect("a time")));
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
