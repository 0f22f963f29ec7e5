//! The same code, seen to be: what the controllers of the store's client decided on a real engine,
//! the simulator's clients decide again, byte for byte.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::sync::Arc;

use afflux_core::layout::Layout;
use afflux_core::rules::{RuleFile, shipped};
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use afflux_store::client::{Client, Identity, Operation, Payload};
use afflux_store::engine::Engine;
use afflux_store::engine::null::NullEngine;
use afflux_store::engine::registry::EngineSpec;

const SETTINGS: &[&str] = &[
    "none",
    "fixed:2,gap=300us",
    "fixed:3,gap=0.5ack+cap=2",
    "aimd",
    "gradient",
    "fixed:8+fan-in=3",
    "fixed:4+turn=1ms",
    "shipped:two-step",
    "read=fixed:1+write=aimd+metadata=fixed:2",
];

fn setting(text: &str) -> Setting {
    let load = |name: &str| {
        let text = name.strip_prefix("shipped:").and_then(shipped).ok_or("not shipped")?;
        RuleFile::parse(text).map_err(|error| error.to_string())
    };
    Setting::parse(text, &load).unwrap()
}

/// Operations of all kinds, some at the same time, through one client.
fn log(engine: Arc<dyn Engine>, setting: &Setting) -> String {
    let identity = Identity { index: 1, of: 2 };
    let mut client = Client::new(engine, setting, identity).with_max_request(64 << 10).deciding();
    let payload = Payload::pattern(64 << 10);
    let layout = Layout { unit_bytes: 64 << 10, first_server: 1, count: 3 };
    let create = Operation::create("file", layout, 1 << 20, &payload);
    let record = client.finish(create).unwrap().record;
    let file = record.map_or(1, |record| record.file);
    for id in 0..24 {
        let (offset, length) = ((id % 4) << 18, 1 << 18);
        let operation = match id % 3 {
            0 => Operation::read(file, layout, offset, length),
            1 => Operation::write(file, layout, offset, length, &payload),
            _ => Operation::open("file"),
        };
        client.submit(clock::now(), id, operation);
    }
    let mut left = 24;
    while left > 0 {
        let patience: Time = clock::now() + Span::from_secs(20);
        let ended = client.wait(patience, None).len();
        assert!(ended > 0, "nothing ends");
        left -= ended;
    }
    // What is not there is answered, and what failed is a fault: both are decisions.
    let _ = client.finish(Operation::open("no such file"));
    let _ = client.finish(Operation::remove("file"));
    client.decisions().unwrap().to_owned()
}

#[test]
fn the_simulator_decides_what_the_store_decided() {
    for text in SETTINGS {
        let setting = setting(text);
        let root = tempfile::tempdir().unwrap();
        let dirs: Vec<_> = (0..3).map(|number| root.path().join(number.to_string())).collect();
        dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        let real = log(EngineSpec::Dirs { dirs }.connect().unwrap(), &setting);
        assert!(real.lines().count() > 100, "{text}: {real}");
        assert_eq!(afflux_sim::replay(&setting, &real).unwrap(), real, "{text}");
        let null = log(Arc::new(NullEngine::new(3)), &setting);
        assert_eq!(afflux_sim::replay(&setting, &null).unwrap(), null, "{text}");
    }
}

/// A replay is no copy: under another setting, other decisions come out.
#[test]
fn another_setting_decides_otherwise() {
    let real = log(Arc::new(NullEngine::new(3)), &setting("none"));
    assert_ne!(afflux_sim::replay(&setting("fixed:1"), &real).unwrap(), real);
}
