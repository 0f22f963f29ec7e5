//! What is particular to the `rados` engine, and what happens to it when a cluster has troubles.
//! All on a real cluster.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cluster;
mod faults;

use std::sync::Arc;
use std::time::{Duration, Instant};

use afflux_core::layout::Layout;
use afflux_core::units::Span;
use afflux_node::clock;
use afflux_store::engine::conformance::run_all;
use afflux_store::engine::rados::{RadosEngine, RadosStore};
use afflux_store::engine::registry::EngineSpec;
use afflux_store::engine::{
    Answer, CatalogOperation, CompletionQueue, Engine, EngineError, ObjectId, Operation, Place,
    Request,
};
use bytes::Bytes;
use cluster::Cluster;

/// Length of the engine's chunks: where one object of the cluster ends and the next begins.
const CHUNK: u64 = 16 << 20;

fn ask(
    engine: &RadosEngine,
    place: Place,
    operation: Operation,
    patience: Span,
) -> Result<Answer, EngineError> {
    let queue = CompletionQueue::new();
    let request =
        Request { deadline: Some(patience), ..Request::new(u64::MAX - 7, place, operation) };
    engine.submit(request, &queue.sender());
    let most = clock::now() + patience + Span::from_secs(10);
    queue.wait(Some(most)).expect("an end soon after the deadline").outcome
}

const MINUTE: Span = Span::from_secs(60);

fn write(engine: &RadosEngine, server: u32, object: ObjectId, at: u64, data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    let write = Operation::Write { object, offset_bytes: at, data };
    assert_eq!(ask(engine, Place::Storage(server), write, MINUTE), Ok(Answer::Done));
}

fn read(engine: &RadosEngine, server: u32, object: ObjectId, at: u64, length: u32) -> Vec<u8> {
    let read =
        Operation::Read { object, offset_bytes: at, length_bytes: length, buffer: Vec::new() };
    match ask(engine, Place::Storage(server), read, MINUTE) {
        Ok(Answer::Read(data)) => data,
        other => panic!("a read ended with {other:?}"),
    }
}

fn names(engine: &RadosEngine, operation: CatalogOperation) -> Result<Answer, EngineError> {
    ask(engine, Place::Metadata, Operation::Catalog(operation), MINUTE)
}

const LAYOUT: Layout = Layout { unit_bytes: 1 << 20, first_server: 0, count: 1 };

#[test]
fn it_is_an_engine_like_the_others() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    run_all(&|| Arc::new(cluster.connect()));
}

#[test]
fn it_is_one_as_users_name_it_and_in_a_wrapper() {
    let Some(cluster) = Cluster::start(&["--osds", "2"]) else { return };
    let spec = format!("limit:8@rados:{}", cluster.configuration().display());
    let spec: EngineSpec = spec.parse().unwrap();
    run_all(&|| spec.connect().unwrap());
}

#[test]
fn objects_are_longer_than_those_of_the_cluster() {
    let Some(cluster) = Cluster::start(&["--osds", "2"]) else { return };
    let engine = cluster.connect();
    let object = ObjectId { file: 77, stripe: 0 };
    // Over an edge, then far behind it: what lies between is a hole.
    write(&engine, 1, object, CHUNK - 2, b"edge");
    write(&engine, 1, object, 5 * CHUNK + 3, b"far");
    assert_eq!(read(&engine, 1, object, CHUNK - 3, 5), b"\0edge");
    let over = read(&engine, 1, object, CHUNK, (CHUNK + 10) as u32);
    assert_eq!((over.len() as u64, &over[..2]), (CHUNK + 10, &b"ge"[..]));
    assert!(over[2..].iter().all(|&byte| byte == 0));
    assert_eq!(read(&engine, 1, object, 5 * CHUNK, 100), b"\0\0\0far");
    assert_eq!(read(&engine, 1, object, 5 * CHUNK - 4, 100), b"\0\0\0\0\0\0\0far");
    assert_eq!(read(&engine, 1, object, 6 * CHUNK, 100), b"");
    // Another client, which has never heard of the edge, sees the same.
    let other = cluster.connect();
    assert_eq!(read(&other, 1, object, 3 * CHUNK, 5), b"\0\0\0\0\0");
    let kept = cluster.run("rados --pool srv1 --namespace afflux ls | sort | tr '\\n' ' '");
    assert_eq!(kept, "4d.0.0 4d.0.1 4d.0.5 catalog");
    let remove = || Operation::Remove { object };
    assert_eq!(ask(&engine, Place::Storage(1), remove(), MINUTE), Ok(Answer::Done));
    let kept = cluster.run("rados --pool srv1 --namespace afflux ls");
    assert_eq!(kept, "catalog", "nothing of it is left");
    assert_eq!(read(&engine, 1, object, 5 * CHUNK, 100), b"");
    write(&engine, 1, object, CHUNK + 1, b"new");
    assert_eq!(read(&engine, 1, object, CHUNK - 1, 10), b"\0\0new");
}

#[test]
fn servers_are_pools_in_the_order_of_their_catalog() {
    let Some(cluster) = Cluster::start(&["--osds", "3"]) else { return };
    let engine = cluster.connect();
    assert_eq!(engine.servers(), 3);
    let object = ObjectId { file: 5, stripe: 2 };
    write(&engine, 2, object, 0, b"here");
    assert_eq!(cluster.run("rados --pool srv2 --namespace afflux get 5.2.0 -"), "here");
    let create = CatalogOperation::Create { name: "kept".into(), layout: LAYOUT };
    assert!(names(&engine, create).is_ok());
    let with = |pools: &[&str]| {
        let pools = pools.iter().map(|&name| name.to_owned()).collect();
        RadosEngine::connect(&RadosStore { pools, ..cluster.store() })
    };
    // The same catalog, under other servers, would find other objects.
    for pools in [&["srv0", "srv2", "srv1"][..], &["srv1", "srv2", "srv0"], &["srv2"]] {
        let error = with(pools).unwrap_err().to_string();
        assert!(error.contains("the same pools in the same order"), "{error}");
    }
    assert!(with(&["srv0", "srv1", "srv2"]).is_ok());
    let error = with(&["srv1", "srv1"]).unwrap_err().to_string();
    assert!(error.contains("named twice"), "{error}");
    let error = with(&["srv1", "nowhere"]).unwrap_err().to_string();
    assert!(error.contains("`nowhere`"), "{error}");
    let statistics = engine.statistics().unwrap();
    let servers: Vec<_> = statistics.iter().map(|one| &one.server[..]).collect();
    assert_eq!(servers, ["srv0", "srv1", "srv2", "srv0"]);
    // The test of the pool when it was made, and our four bytes.
    assert!(statistics[2].written_bytes >= 4 && statistics[2].answered_secs > 0.0);
    cluster.run(
        "for i in 0 1 2; do ceph osd pool application disable srv$i afflux \
        --yes-i-really-mean-it; done",
    );
    let error = RadosEngine::connect(&cluster.store()).unwrap_err().to_string();
    assert!(error.contains("ceph osd pool application enable"), "{error}");
}

#[test]
fn many_clients_share_one_catalog() {
    let Some(cluster) = Cluster::start(&["--osds", "1"]) else { return };
    let first = cluster.connect();
    let create = |name: String| CatalogOperation::Create { name, layout: LAYOUT };
    let Ok(Answer::File(common)) = names(&first, create("common".into())) else { panic!() };
    let numbers: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4_u64)
            .map(|client| {
                let (cluster, create) = (&cluster, &create);
                scope.spawn(move || {
                    let engine = cluster.connect();
                    let mut mine = Vec::new();
                    for round in 0..100 {
                        // All want this name; one gets it.
                        let won = names(&engine, create(format!("wanted {round}")));
                        match won {
                            Ok(Answer::File(record)) => mine.push(record.file),
                            other => {
                                let taken = EngineError::Exists(format!("wanted {round}"));
                                assert_eq!(other, Err(taken));
                            }
                        }
                        let size_bytes = round * 4 + client;
                        let extend = CatalogOperation::Extend { file: common.file, size_bytes };
                        assert_eq!(names(&engine, extend), Ok(Answer::Done));
                    }
                    mine
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let different: std::collections::BTreeSet<_> = numbers.iter().collect();
    assert_eq!((numbers.len(), different.len()), (100, 100), "each name once, each number once");
    let open = CatalogOperation::Open { name: "common".into() };
    let Ok(Answer::File(record)) = names(&first, open) else { panic!() };
    assert_eq!(record.size_bytes, 399, "the largest of all sizes");
}

#[test]
fn a_cluster_that_cannot_be_reached_is_named() {
    if let Err(error) = afflux_librados_is_there() {
        println!("SKIPPED: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let connect = |text: Option<&str>| {
        let path = dir.path().join("ceph.conf");
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let started = Instant::now();
        let store = RadosStore { configuration: Some(path), ..RadosStore::default() };
        let error = RadosEngine::connect(&store).unwrap_err().to_string();
        assert!(error.contains(dir.path().to_str().unwrap()), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        error
    };
    assert!(connect(None).contains("cannot read"), "no such file");
    let nobody = "[global]\nmon host = v2:127.0.0.1:9\nauth client required = none\n";
    let error = connect(Some(nobody));
    assert!(error.contains("are its monitors running"), "{error}");
}

/// Whether Ceph's library can be loaded.
fn afflux_librados_is_there() -> Result<(), String> {
    let nowhere = RadosStore { configuration: Some("/nowhere".into()), ..RadosStore::default() };
    match RadosEngine::connect(&nowhere).unwrap_err().to_string() {
        error if error.contains("apt-get install") => Err(error),
        _ => Ok(()),
    }
}
