//! Every engine against the one conformance suite.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use afflux_core::units::Span;
use afflux_store::engine::Engine;
use afflux_store::engine::conformance::run_all;
use afflux_store::engine::dirs::DirsEngine;
use afflux_store::engine::lab::{LabAddresses, LabEngine};
use afflux_store::engine::null::NullEngine;

use afflux_store::engine::registry::{ENGINES, EngineSpec};
use afflux_store::lab::device::LabDevice;
use afflux_store::lab::server::{LabServer, Log, Role, ServerOptions};

#[test]
fn null() {
    let engine: Arc<dyn Engine> = Arc::new(NullEngine::new(2));
    run_all(&|| Arc::clone(&engine));
}

#[test]
fn null_with_a_delay() {
    let delayed = NullEngine::delayed(1, Span::from_micros(300)).unwrap();
    let engine: Arc<dyn Engine> = Arc::new(delayed);
    run_all(&|| Arc::clone(&engine));
}

#[test]
fn dirs() {
    let root = tempfile::tempdir().unwrap();
    let dirs: Vec<_> = ["a", "b", "c"].map(|name| root.path().join(name)).into();
    for dir in &dirs {
        std::fs::create_dir(dir).unwrap();
    }
    run_all(&|| Arc::new(DirsEngine::open(&dirs).unwrap()));
    let missing = root.path().join("missing");
    let error = DirsEngine::open(std::slice::from_ref(&missing)).unwrap_err().to_string();
    assert!(error.contains("missing") && !missing.exists(), "{error}");
    assert!(DirsEngine::open(&[dirs[0].clone(), root.path().join("b/../a")]).is_err());
}

struct Lab {
    addresses: LabAddresses,
    servers: Vec<LabServer>,
}

fn lab(dir: &Path, device: &str, servers: u32) -> Lab {
    let spawn = |role: Role| {
        let mut options = ServerOptions::new(role.clone(), dir.join(role.name()));
        options.lab = "conformance".to_owned();
        options.threads = 8;
        options.log = Log::Silent;
        LabServer::spawn(options).unwrap()
    };
    let capacity_bytes = Some(1 << 30);
    let device: LabDevice = device.parse().unwrap();
    let storage = |index| Role::Storage { index, device: device.clone(), capacity_bytes };
    let mut all: Vec<_> = (0..servers).map(|index| spawn(storage(index))).collect();
    let metadata = spawn(Role::Metadata { servers });
    let addresses = LabAddresses {
        lab: Some("conformance".to_owned()),
        storage: all.iter().map(LabServer::address).collect(),
        metadata: metadata.address(),
    };
    all.push(metadata);
    Lab { addresses, servers: all }
}

fn run_lab(device: &str) {
    let dir = tempfile::tempdir().unwrap();
    let lab = lab(dir.path(), device, 2);
    run_all(&|| Arc::new(LabEngine::connect_to(&lab.addresses, true).unwrap()));
    for server in &lab.servers {
        let report = server.report();
        assert_eq!((report.statistics.bad_frames, report.slow_clients), (0, 0), "{report:?}");
        assert_eq!(report.statistics.queue_depth, 0);
    }
}

#[test]
fn lab_in_memory() {
    run_lab("mem");
}

#[test]
fn lab_in_files() {
    run_lab("file");
}

#[test]
fn lab_on_flash() {
    run_lab("ssd");
}

#[test]
fn lab_on_a_disk() {
    run_lab("hdd");
}

#[test]
fn every_engine_of_the_registry_is_known_here() {
    // That of `rados` is in a file of its own, with its clusters.
    let tested = ["lab", "dirs", "rados", "null"];
    for entry in ENGINES {
        assert!(tested.contains(&entry.name), "{} has no conformance test", entry.name);
    }
    let engine = "null:1ms".parse::<EngineSpec>().unwrap().connect().unwrap();
    assert_eq!(engine.name(), "null");
}
