//! Servers that die, stall, are slow or full; pools that are deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use afflux_core::units::Span;
use afflux_node::clock;
use afflux_store::engine::rados::RadosEngine;
use afflux_store::engine::{
    Answer, CatalogOperation, CompletionQueue, Engine, EngineError, ObjectId, Operation, Place,
    Request,
};
use bytes::Bytes;

use crate::cluster::Cluster;
use crate::{LAYOUT, MINUTE, ask, names, read, write};

/// A write that takes longer waits for something.
const SLOW: Duration = Duration::from_millis(500);

/// Writes to all servers but one, over and over, and counts how many of these writes took longer
/// than [`SLOW`]; ends when `stop` says so.
fn others(engine: &RadosEngine, besides: u32, stop: &AtomicBool) -> (u32, u32) {
    let (mut all, mut slow) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        for server in (0..engine.servers()).filter(|&server| server != besides) {
            let started = Instant::now();
            let object = ObjectId { file: 900, stripe: server };
            write(engine, server, object, u64::from(all) % 100 * 4096, &[7; 4096]);
            all += 1;
            slow += u32::from(started.elapsed() > SLOW);
        }
    }
    (all, slow)
}

/// While `trouble` is going on at server 1, the others' paths are as fast as ever.
fn unaffected(cluster: &Cluster, trouble: impl FnOnce(&RadosEngine)) {
    let (engine, other) = (cluster.connect(), cluster.connect());
    let stop = AtomicBool::new(false);
    let (all, slow) = std::thread::scope(|scope| {
        let running = scope.spawn(|| others(&other, 1, &stop));
        trouble(&engine);
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert!(all > 100, "{all} writes to the other servers");
    // Other things run on this machine as well.
    assert!(slow <= all / 50, "{slow} of {all} writes to the other servers took over 500 ms");
}

#[test]
fn a_server_that_is_killed_loses_nothing_that_was_acknowledged() {
    let Some(cluster) = Cluster::start(&["--osds", "3", "--store", "bluestore"]) else { return };
    let engine = Arc::new(cluster.connect());
    let object = ObjectId { file: 8, stripe: 1 };
    let queue = CompletionQueue::new();
    let block = |number: u64| vec![number as u8 + 1; 64 << 10];
    let submit = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let (offset_bytes, data) = (number * (64 << 10), Bytes::from(block(number)));
            let write = Operation::Write { object, offset_bytes, data };
            let request = Request {
                deadline: Some(MINUTE),
                ..Request::new(number, Place::Storage(1), write)
            };
            engine.submit(request, &queue.sender());
        }
    };
    submit(0..40);
    let mut acknowledged = 0;
    let mut take = |until: u64| {
        while acknowledged < until {
            let completion = queue.wait(Some(clock::now() + MINUTE)).expect("an end");
            assert_eq!(completion.outcome, Ok(Answer::Done));
            acknowledged += 1;
        }
    };
    take(10);
    unaffected(&cluster, |_| {
        cluster.signal("KILL", "ceph-osd .*--id 1 ");
        // Some of these come when nobody is there.
        submit(40..80);
        std::thread::sleep(Duration::from_secs(2));
        cluster.start_again("ceph-osd", "1");
        take(80);
    });
    let other = cluster.connect();
    for number in 0..80 {
        let found = read(&other, 1, object, number * (64 << 10), 64 << 10);
        assert!(found == block(number), "block {number} differs");
    }
}

#[test]
fn a_server_that_stalls_makes_its_own_requests_wait_and_no_others() {
    let Some(cluster) = Cluster::start(&["--osds", "3"]) else { return };
    unaffected(&cluster, |engine| {
        let object = ObjectId { file: 9, stripe: 1 };
        write(engine, 1, object, 0, b"before");
        cluster.signal("STOP", "ceph-osd .*--id 1 ");
        let write_again = || Operation::Write { object, offset_bytes: 0, data: "later".into() };
        let started = Instant::now();
        let patience = Span::from_secs(1);
        let outcome = ask(engine, Place::Storage(1), write_again(), patience);
        let timed_out = EngineError::TimedOut { server: "pool srv1".into(), after: patience };
        assert_eq!(outcome, Err(timed_out));
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        // One that has more patience is answered when the server is back.
        let queue = CompletionQueue::new();
        let request = Request::new(1, Place::Storage(1), write_again());
        engine.submit(request, &queue.sender());
        assert!(queue.wait(Some(clock::now() + Span::from_millis(300))).is_none());
        cluster.signal("CONT", "ceph-osd .*--id 1 ");
        let completion = queue.wait(Some(clock::now() + MINUTE)).expect("an end");
        assert_eq!(completion.outcome, Ok(Answer::Done));
        assert_eq!(read(engine, 1, object, 0, 100), b"latere");
    });
    // One that is slow: 50 ms more for each request.
    let set = |delay: &str, how_often: u8| {
        for (option, value) in
            [("duration", delay), ("probability", if how_often == 1 { "1" } else { "0" })]
        {
            let option = format!("osd_debug_inject_dispatch_delay_{option}");
            cluster.run(&format!("ceph tell osd.1 config set {option} {value}"));
        }
    };
    set("0.05", 1);
    unaffected(&cluster, |engine| {
        let object = ObjectId { file: 10, stripe: 1 };
        let started = Instant::now();
        (0..20).for_each(|number| write(engine, 1, object, number * 4096, &[1; 4096]));
        assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    });
    set("0.05", 0);
}

#[test]
fn a_monitor_may_go_and_come_back() {
    let Some(cluster) = Cluster::start(&["--osds", "2"]) else { return };
    let engine = cluster.connect();
    let object = ObjectId { file: 11, stripe: 0 };
    cluster.signal("KILL", "ceph-mon ");
    // Data does not pass through it.
    write(&engine, 0, object, 0, b"without");
    let create = CatalogOperation::Create { name: "without".into(), layout: LAYOUT };
    assert!(names(&engine, create).is_ok(), "nor do names");
    cluster.start_again("ceph-mon", "a");
    let late = cluster.connect();
    assert_eq!(read(&late, 0, object, 0, 100), b"without");
    let (engine, place) = (&engine, Place::Storage(0));
    assert_eq!(ask(engine, place, Operation::Remove { object }, MINUTE), Ok(Answer::Done));
    assert!(engine.statistics().is_ok(), "the old client has found it again");
}

#[test]
fn a_full_server_says_so_and_lets_files_go() {
    let Some(cluster) = Cluster::start(&["--osds", "2"]) else { return };
    let engine = cluster.connect();
    let object = ObjectId { file: 12, stripe: 1 };
    write(&engine, 1, object, 0, b"fits");
    cluster.run("ceph tell osd.1 injectfull full");
    cluster.run("until ceph osd dump | grep -q 'srv1.*full'; do sleep 0.1; done");
    // Only what needs room is refused.
    write(&engine, 1, object, 0, b"FITS");
    let put = || Operation::Write { object, offset_bytes: 4, data: "more".into() };
    let outcome = ask(&engine, Place::Storage(1), put(), MINUTE);
    assert_eq!(outcome, Err(EngineError::NoSpace { server: "pool srv1".into() }));
    write(&engine, 0, object, 0, b"the other one has room");
    assert_eq!(read(&engine, 1, object, 0, 100), b"FITS");
    let remove = Operation::Remove { object };
    assert_eq!(ask(&engine, Place::Storage(1), remove, MINUTE), Ok(Answer::Done));
}

#[test]
fn a_pool_that_is_deleted_is_missed() {
    let Some(cluster) = Cluster::start(&["--osds", "2"]) else { return };
    let engine = cluster.connect();
    let object = ObjectId { file: 13, stripe: 1 };
    write(&engine, 1, object, 0, b"gone soon");
    cluster.run("ceph tell mon.a config set mon_allow_pool_delete true");
    cluster.run("ceph osd pool delete srv1 srv1 --yes-i-really-really-mean-it");
    let at = Place::Storage(1);
    let read_it = Operation::Read { object, offset_bytes: 0, length_bytes: 9, buffer: Vec::new() };
    let write_it = Operation::Write { object, offset_bytes: 0, data: "new".into() };
    // Not the empty object that one would read where nothing was ever written.
    for operation in [read_it, write_it, Operation::Remove { object }] {
        let outcome = ask(&engine, at, operation, MINUTE);
        let is_said = matches!(&outcome, Err(EngineError::Io { server, what })
            if server == "pool srv1" && what.contains("deleted"));
        assert!(is_said, "{outcome:?}");
    }
    write(&engine, 0, object, 0, b"the other one is there");
    // One of the same name is not the same.
    cluster.run("ceph osd pool create srv1 4 4 && ceph osd pool application enable srv1 afflux");
    let error = RadosEngine::connect(&cluster.store()).unwrap_err().to_string();
    assert!(error.contains("made again is another one"), "{error}");
}
