//! One body, two arms: the same workload on a lab of modelled disks and in the simulator. The same
//! code decides and the same model serves, so that what differs is the work of the lab itself, and
//! its clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::{Run, Target, Unwatched};
use afflux_core::units::Span;
use afflux_core::workload::Workload;
use afflux_sim::{Scenario, SimTarget};
use afflux_store::engine::Engine;
use afflux_store::engine::lab::{LabAddresses, LabEngine};
use afflux_store::lab::server::{LabServer, Log, Role, ServerOptions};
use afflux_store::load::EngineTarget;

const SERVERS: u32 = 2;

/// What another program on the machine may cost the lab; each attempt is a run of its own.
const ATTEMPTS: usize = 4;

fn spawn(dir: &Path, role: Role) -> LabServer {
    let mut options = ServerOptions::new(role.clone(), dir.join(role.name()));
    options.threads = 32;
    options.log = Log::Silent;
    LabServer::spawn(options).unwrap()
}

/// A lab of disks in threads of this process, with its servers.
fn lab(dir: &Path) -> (Vec<LabServer>, EngineTarget) {
    let device: afflux_store::lab::device::LabDevice = "hdd".parse().unwrap();
    let role = |index| Role::Storage { index, device: device.clone(), capacity_bytes: None };
    let mut servers: Vec<_> = (0..SERVERS).map(|index| spawn(dir, role(index))).collect();
    let storage = servers.iter().map(LabServer::address).collect();
    servers.push(spawn(dir, Role::Metadata { servers: SERVERS }));
    let metadata = servers[SERVERS as usize].address();
    let addresses = LabAddresses { lab: None, storage, metadata };
    let connect = move || {
        let engine = LabEngine::connect_to(&addresses, false)?;
        Ok(Arc::new(engine) as Arc<dyn Engine>)
    };
    (servers, EngineTarget::new("lab", Box::new(connect)))
}

fn workload(kind: &str, access: &str, size: &str) -> Workload {
    Workload::parse(&format!(
        "afflux-workload = 1\nname = \"arms\"\nclients = 4\n[files]\neach = 1\nsize = \"24 MiB\"\n\
         [[stream]]\nthreads = 8\nsteps = [{{ do = \"{kind}\", access = \"{access}\", size = \
         \"{size}\" }}]"
    ))
    .unwrap()
}

fn measure(target: &mut dyn Target, workload: &Workload, setting: &Setting, seed: u64) -> Summary {
    target.prepare(workload).unwrap();
    target.deploy(setting).unwrap();
    let (settle, length) = (Span::from_secs(1), Span::from_secs(3));
    let run = Run { seed, settle, length, trace: None, progress: &Unwatched };
    Summary::of(&target.run(&run).unwrap())
}

#[test]
fn lab_and_simulator_agree_on_throughput_and_process_time() {
    let dir = tempfile::tempdir().unwrap();
    let (_servers, mut lab) = lab(dir.path());
    let overrides = [
        "servers.count=2",
        "servers.threads=32",
        "network.client_rate=10Gbit/s",
        "network.server_rate=10Gbit/s",
    ];
    let scenario = Scenario::default().with(&overrides).unwrap();
    let mut simulator = SimTarget::new("sim", scenario);
    for (kind, access, size, control) in [
        ("read", "random", "64 KiB", "none"),
        ("write", "random", "1 MiB", "fixed:2"),
        ("read", "sequential", "1 MiB", "fixed:4"),
    ] {
        let workload = workload(kind, access, size);
        let setting = Setting::parse(control, &|name| Err(name.to_owned())).unwrap();
        let mut seen = Vec::new();
        let agree = (0..ATTEMPTS as u64).any(|seed| {
            let real = measure(&mut lab, &workload, &setting, seed);
            let world = measure(&mut simulator, &workload, &setting, seed);
            let (speed, delay) = (real.total_mb_s / world.total_mb_s, real.p50_ms / world.p50_ms);
            seen.push((real.total_mb_s, world.total_mb_s, real.p50_ms, world.p50_ms));
            (speed - 1.0).abs() < 0.15 && (delay - 1.0).abs() < 0.3
        });
        assert!(agree, "{kind} {access} {size}: lab and simulator, MB/s and ms: {seen:?}");
        println!("{kind} {access} {size} {control}: {seen:?}");
    }
}
