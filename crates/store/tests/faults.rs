//! Clients and servers that misbehave, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use afflux_core::layout::Layout;
use afflux_core::rng::Rng;
use afflux_core::units::Span;
use afflux_node::clock;
use afflux_store::engine::lab::{LabAddresses, LabEngine};
use afflux_store::engine::{
    Answer, CatalogOperation, Completion, CompletionQueue, Engine, EngineError, ObjectId,
    Operation, Place, Request,
};
use afflux_store::lab::server::{LabServer, Log, Role, ServerOptions};
use afflux_store::lab::wire::{
    HEADER_BYTES, Header, Hello, Kind, Status, decode_frame, encode_frame,
};
use bytes::Bytes;

const OBJECT: ObjectId = ObjectId { file: 7, stripe: 0 };

fn options(role: Role, dir: &Path) -> ServerOptions {
    let mut options = ServerOptions::new(role.clone(), dir.join(role.name()));
    options.lab = "faults".to_owned();
    options.threads = 4;
    options.log = Log::Silent;
    options
}

fn storage(dir: &Path, device: &str) -> ServerOptions {
    let device = device.parse().unwrap();
    options(Role::Storage { index: 0, device, capacity_bytes: None }, dir)
}

fn metadata(dir: &Path) -> ServerOptions {
    options(Role::Metadata { servers: 1 }, dir)
}

fn addresses(storage: SocketAddr, metadata: SocketAddr) -> LabAddresses {
    LabAddresses { lab: Some("faults".to_owned()), storage: vec![storage], metadata }
}

fn write(tag: u64, offset_bytes: u64, data: Vec<u8>) -> Request {
    let data = Bytes::from(data);
    let write = Operation::Write { object: OBJECT, offset_bytes, data };
    Request::new(tag, Place::Storage(0), write)
}

fn read(tag: u64, offset_bytes: u64, length_bytes: u32) -> Request {
    let buffer = Vec::new();
    let read = Operation::Read { object: OBJECT, offset_bytes, length_bytes, buffer };
    Request::new(tag, Place::Storage(0), read)
}

fn create(tag: u64, name: &str) -> Request {
    let layout = Layout { unit_bytes: 4096, first_server: 0, count: 1 };
    let create = CatalogOperation::Create { name: name.to_owned(), layout };
    Request::new(tag, Place::Metadata, Operation::Catalog(create))
}

fn ask(engine: &LabEngine, request: Request) -> Completion {
    let queue = CompletionQueue::new();
    engine.submit(request, &queue.sender());
    queue.wait(Some(clock::now() + Span::from_secs(60))).expect("a completion")
}

/// A client made by hand, for frames that no client of ours would send.
struct Raw {
    stream: TcpStream,
}

impl Raw {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        Self { stream }
    }

    fn greeted(address: SocketAddr, client: u64) -> Self {
        let mut raw = Self::connect(address);
        raw.send(&hello(client));
        assert_eq!(raw.reply().unwrap().0.status, Status::Done);
        raw
    }

    /// Sends; the server may close the connection in the middle of it.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn reply(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut bytes = vec![0; HEADER_BYTES];
        self.stream.read_exact(&mut bytes).ok()?;
        let header = Header::decode(&bytes).unwrap();
        bytes.resize(HEADER_BYTES + header.payload_bytes as usize, 0);
        self.stream.read_exact(&mut bytes[HEADER_BYTES..]).ok()?;
        let (header, payload, _) = decode_frame(&bytes).unwrap();
        Some((header, payload.to_vec()))
    }

    /// What the server says before it closes the connection.
    fn last_words(mut self) -> String {
        let mut words = String::new();
        while let Some((header, payload)) = self.reply() {
            if header.status == Status::Refused {
                words = String::from_utf8(payload).unwrap();
            }
        }
        words
    }
}

fn hello(client: u64) -> Vec<u8> {
    let hello = Hello { client, lab: Some("faults".to_owned()), server: None };
    encode_frame(Header::request(Kind::Hello, 1), &serde_json::to_vec(&hello).unwrap())
}

fn write_frame(id: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let header = Header { first: 99, second: offset, ..Header::request(Kind::Write, id) };
    encode_frame(header, data)
}

/// A header whose checksum is right, whatever it says.
fn sealed(mut bytes: [u8; HEADER_BYTES]) -> Vec<u8> {
    // Another implementation than the server's, so that both must mean the same CRC.
    let crc = crc32c::crc32c(&bytes[..68]);
    bytes[68..].copy_from_slice(&crc.to_le_bytes());
    bytes.to_vec()
}

#[test]
fn bad_frames_are_counted_and_end_only_their_own_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = LabServer::spawn(storage(dir.path(), "mem")).unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let at = server.address();
    let good = LabEngine::connect_to(&addresses(at, names.address()), false).unwrap();
    assert_eq!(ask(&good, write(1, 0, vec![5; 100_000])).outcome, Ok(Answer::Done));

    let header = Header::request(Kind::Write, 3);
    let mut version = header.encode();
    version[4] = 9;
    let mut kind = header.encode();
    kind[6] = 77;
    let mut status = header.encode();
    status[7] = 200;
    let mut header_crc = write_frame(3, 0, b"data");
    header_crc[30] ^= 1;
    let mut payload_crc = write_frame(3, 0, b"data");
    payload_crc[73] ^= 1;
    let huge = Header { payload_bytes: u32::MAX, ..header }.encode().to_vec();
    let huge_hello = Header { payload_bytes: 1 << 20, ..Header::request(Kind::Hello, 1) };
    let reply = header.answer(Status::Done).encode().to_vec();
    let short = write_frame(3, 0, &[1; 1000]);
    // What is sent, whether a hello precedes it, and a word of what the server says to it.
    let cases: Vec<(Vec<u8>, bool, &str)> = vec![
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), false, "AFXL"),
        (b"x".repeat(100_000), false, "AFXL"),
        (vec![0; 72], false, "AFXL"),
        (sealed(version), false, "version 9"),
        (sealed(version), true, "version 9"),
        (sealed(kind), true, "kind 77"),
        (sealed(status), true, "status 200"),
        (header_crc, true, "header's checksum"),
        (payload_crc, true, "payload's checksum"),
        (huge, true, "at most"),
        (huge_hello.encode().to_vec(), false, "at most"),
        (reply, true, "reply"),
        (hello(5), true, "second hello"),
        (write_frame(3, 0, b"no hello"), false, "hello"),
        (encode_frame(Header::request(Kind::Hello, 1), b"not json"), false, "hello"),
        (short[..500].to_vec(), true, "ends after"),
        (short[..40].to_vec(), true, "ends after"),
        (short[..2].to_vec(), true, "ends after"),
    ];
    let count = cases.len() as u64;
    for (bytes, greeted, word) in cases {
        let mut raw = if greeted { Raw::greeted(at, 44) } else { Raw::connect(at) };
        raw.send(&bytes);
        // Some of these are only wrong when nothing follows.
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        let words = raw.last_words();
        assert!(words.contains(word), "`{words}` has no `{word}`");
        let Ok(Answer::Read(data)) = ask(&good, read(2, 0, 100_000)).outcome else { panic!() };
        assert!(data == vec![5; 100_000]);
    }
    assert_eq!(server.report().statistics.bad_frames, count);
    assert_eq!(good.statistics().unwrap()[0].bad_frames, count);
}

#[test]
fn random_damage_never_stops_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = LabServer::spawn(storage(dir.path(), "mem")).unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let seed = clock::now().as_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    for round in 0..150 {
        let address = if rng.below(4) == 0 { names.address() } else { server.address() };
        let mut bytes = hello(1000 + round % 3);
        for id in 0..rng.below(4) {
            let kinds = [Kind::Read, Kind::Write, Kind::Remove, Kind::Catalog, Kind::Statistics];
            let header = Header {
                first: rng.below(3),
                second: if rng.below(3) == 0 { rng.bits() } else { rng.below(1 << 20) },
                third: rng.below(3) as u32,
                fourth: if rng.below(3) == 0 { rng.bits() as u32 } else { 5000 },
                ..Header::request(kinds[rng.below(5) as usize], id)
            };
            let payload: Vec<u8> = (0..rng.below(3000)).map(|_| rng.bits() as u8).collect();
            bytes.extend(encode_frame(header, &payload));
        }
        for _ in 0..rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        let mut raw = Raw::connect(address);
        raw.send(&bytes);
        if rng.below(2) == 0 {
            let _ = raw.stream.shutdown(std::net::Shutdown::Write);
            raw.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let _ = raw.stream.read(&mut [0; 1000]);
        }
    }
    let engine = LabEngine::connect_to(&addresses(server.address(), names.address()), false);
    let engine = engine.unwrap();
    assert_eq!(ask(&engine, write(1, 0, vec![1; 10])).outcome, Ok(Answer::Done));
    assert!(matches!(ask(&engine, create(2, "a")).outcome, Ok(Answer::File(_))));
}

#[test]
fn a_client_that_stops_reading_is_disconnected_and_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut storage = storage(dir.path(), "mem");
    storage.stall = Duration::from_millis(400);
    let server = LabServer::spawn(storage).unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let good = LabEngine::connect_to(&addresses(server.address(), names.address()), false).unwrap();
    assert_eq!(ask(&good, write(1, 0, vec![5; 1 << 20])).outcome, Ok(Answer::Done));
    let mut raw = Raw::greeted(server.address(), 3);
    // Far more answers than the sockets' buffers and the server's queue of replies take.
    for id in 0..2000 {
        let file = OBJECT.file;
        let request = Header::request(Kind::Read, id);
        raw.send(&encode_frame(Header { first: file, fourth: 1 << 20, ..request }, b""));
    }
    let before = clock::now();
    while server.report().slow_clients == 0 {
        let asked = clock::now();
        assert!(ask(&good, read(2, 0, 1 << 20)).outcome.is_ok());
        let took = clock::now().since(asked);
        assert!(took < Span::from_millis(300), "another client waited {took}");
        assert!(clock::now().since(before) < Span::from_secs(20), "it was never disconnected");
    }
    let mut rest = Vec::new();
    // The socket ends, after what was under way.
    let _ = raw.stream.read_to_end(&mut rest);
    assert!(rest.len() < 1000 << 20);
    assert_eq!(server.report().connections, 1);
}

#[test]
fn a_server_that_comes_back_is_ridden_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Some(LabServer::spawn(storage(dir.path(), "file")).unwrap());
    let mut names = Some(LabServer::spawn(metadata(dir.path())).unwrap());
    let at = server.as_ref().unwrap().address();
    let names_at = names.as_ref().unwrap().address();
    let engine = LabEngine::connect_to(&addresses(at, names_at), true).unwrap();
    let queue = CompletionQueue::new();
    let total = 300;
    let mut ended = 0;
    for tag in 0..total {
        engine.submit(write(tag, tag * 5000, vec![tag as u8; 5000]), &queue.sender());
        if tag % 100 == 50 {
            drop(server.take());
            drop(names.take());
            engine.submit(create(10_000 + tag, &format!("file {tag}")), &queue.sender());
            clock::sleep(Span::from_millis(30));
            let again = ServerOptions { listen: at, ..storage(dir.path(), "file") };
            server = Some(LabServer::spawn(again).unwrap());
            let again = ServerOptions { listen: names_at, ..metadata(dir.path()) };
            names = Some(LabServer::spawn(again).unwrap());
        }
        while let Some(completion) = queue.poll() {
            assert!(completion.outcome.is_ok(), "{completion:?}");
            ended += 1;
        }
    }
    while ended < total + 3 {
        let wake = Some(clock::now() + Span::from_secs(30));
        let completion = queue.wait(wake).expect("a completion");
        assert!(completion.outcome.is_ok(), "{completion:?}");
        ended += 1;
    }
    let Ok(Answer::Read(data)) = ask(&engine, read(1, 0, 1_500_000)).outcome else { panic!() };
    assert!(data.chunks(5000).enumerate().all(|(tag, chunk)| chunk == [tag as u8; 5000]));
    assert_eq!(data.len(), 1_500_000);
}

#[test]
fn a_server_that_stays_away_is_reported_when_the_deadline_passes() {
    let dir = tempfile::tempdir().unwrap();
    let server = LabServer::spawn(storage(dir.path(), "mem")).unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let engine =
        LabEngine::connect_to(&addresses(server.address(), names.address()), false).unwrap();
    server.stop();
    let before = clock::now();
    let deadline = Some(Span::from_millis(300));
    let completion = ask(&engine, Request { deadline, ..write(1, 0, vec![1]) });
    assert!(matches!(completion.outcome, Err(EngineError::Unreachable { .. })), "{completion:?}");
    let took = clock::now().since(before);
    assert!(took >= Span::from_millis(300) && took < Span::from_millis(900), "{took}");
}

#[test]
fn deadlines_end_requests_once_and_late_answers_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let server = LabServer::spawn(storage(dir.path(), "hdd")).unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let engine =
        LabEngine::connect_to(&addresses(server.address(), names.address()), true).unwrap();
    let queue = CompletionQueue::new();
    for tag in 0..40 {
        let deadline = Some(Span::from_millis(20));
        // Far apart, so that the disk seeks for each.
        let offset = (tag * 7919 % 40) << 28;
        let late = Request { deadline, ..write(tag, offset, vec![1; 4096]) };
        engine.submit(late, &queue.sender());
    }
    let wake = Some(clock::now() + Span::from_secs(10));
    let ended: Vec<_> = std::iter::from_fn(|| queue.wait(wake)).take(40).collect();
    let late =
        |completion: &&Completion| matches!(completion.outcome, Err(EngineError::TimedOut { .. }));
    assert!(ended.iter().filter(late).count() > 10, "a disk cannot be that fast");
    let done = ask(&engine, write(99, 0, vec![2; 10]));
    assert_eq!(done.outcome, Ok(Answer::Done));
    assert!(done.access > Span::ZERO);
    clock::sleep(Span::from_millis(300));
    assert!(queue.poll().is_none(), "a second completion");
    // Given-up writes fence: the connection is made anew, and those that had not begun are dropped.
    let begun = server.report().statistics.requests;
    assert!(begun < 41, "those that waited in vain were not begun: {begun}");
    let read = ask(&engine, read(98, 0, 10));
    assert_eq!(read.outcome, Ok(Answer::Read(vec![2; 10])), "a late write overtook a newer one");
}

#[test]
fn a_full_queue_stops_the_reading_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut storage = storage(dir.path(), "ssd");
    (storage.queue_requests, storage.queue_bytes, storage.threads) = (4, 100_000, 1);
    let server = LabServer::spawn(storage).unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let engine =
        LabEngine::connect_to(&addresses(server.address(), names.address()), true).unwrap();
    let queue = CompletionQueue::new();
    for tag in 0..100 {
        engine.submit(write(tag, tag * 90_000, vec![1; 90_000]), &queue.sender());
    }
    let wake = Some(clock::now() + Span::from_secs(30));
    let ended = std::iter::from_fn(|| queue.wait(wake)).take(100);
    assert_eq!(ended.filter(|completion| completion.outcome.is_ok()).count(), 100);
    let deepest = server.report().statistics.queue_depth_max;
    assert!(deepest <= 6, "one in service, four waiting, one being put: {deepest}");
}

#[test]
fn capacity_is_kept_and_removal_gives_it_back() {
    for device in ["mem", "file", "ssd"] {
        let dir = tempfile::tempdir().unwrap();
        let capacity_bytes = Some(1 << 20);
        let device = device.parse().unwrap();
        let role = Role::Storage { index: 0, device, capacity_bytes };
        let server = LabServer::spawn(options(role, dir.path())).unwrap();
        let names = LabServer::spawn(metadata(dir.path())).unwrap();
        let engine =
            LabEngine::connect_to(&addresses(server.address(), names.address()), true).unwrap();
        assert_eq!(ask(&engine, write(1, 0, vec![1; 1 << 20])).outcome, Ok(Answer::Done));
        let full = ask(&engine, write(2, 1 << 20, vec![1])).outcome;
        assert_eq!(full, Err(EngineError::NoSpace { server: "storage 0".to_owned() }));
        assert_eq!(server.report().statistics.stored_bytes, Some(1 << 20));
        let remove = Operation::Remove { object: OBJECT };
        let removed = ask(&engine, Request::new(3, Place::Storage(0), remove));
        assert_eq!(removed.outcome, Ok(Answer::Done));
        assert_eq!(ask(&engine, write(4, 1 << 19, vec![1])).outcome, Ok(Answer::Done));
    }
}

#[test]
fn another_server_lab_or_version_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = LabServer::spawn(storage(dir.path(), "mem")).unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let right = addresses(server.address(), names.address());
    let swapped = addresses(names.address(), server.address());
    let other = LabAddresses { lab: Some("another".to_owned()), ..right.clone() };
    for (wrong, word) in [(swapped, "this is metadata"), (other, "of lab faults")] {
        let error = LabEngine::connect_to(&wrong, false).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    for (words, hint) in [
        (
            sealed({
                let mut bytes = Header::request(Kind::Hello, 0).answer(Status::Done).encode();
                bytes[4] = 1;
                bytes
            }),
            "version 1",
        ),
        (
            b"220 mail.example.org ESMTP ready, how are you today, please do say something\n"
                .to_vec(),
            "another program's",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let fake = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; 100];
            let _ = stream.read(&mut bytes);
            stream.write_all(&words).unwrap();
            let _ = stream.read(&mut bytes);
        });
        let wrong = addresses(at, names.address());
        let error = LabEngine::connect_to(&wrong, false).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
        fake.join().unwrap();
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = LabEngine::connect_to(&addresses(nobody, nobody), false).unwrap_err().to_string();
    assert!(error.contains("unreachable") && error.contains("lab status"), "{error}");
}

#[test]
fn a_second_connection_of_a_client_fences_off_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut storage = storage(dir.path(), "hdd");
    storage.threads = 1;
    let server = LabServer::spawn(storage).unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let mut first = Raw::greeted(server.address(), 8);
    for id in 0..50 {
        first.send(&write_frame(id, (id * 7919 % 50) << 28, b"old"));
    }
    clock::sleep(Span::from_millis(30));
    let _second = Raw::greeted(server.address(), 8);
    let done = server.report().statistics.requests;
    assert!(done < 50, "the disk is too fast for this test");
    clock::sleep(Span::from_millis(200));
    assert_eq!(server.report().statistics.requests, done, "an old request was carried out later");
    drop(names);
}

#[test]
fn a_catalog_request_that_is_sent_twice_is_carried_out_once() {
    let dir = tempfile::tempdir().unwrap();
    let names = LabServer::spawn(metadata(dir.path())).unwrap();
    let layout = Layout { unit_bytes: 4096, first_server: 0, count: 1 };
    let create = CatalogOperation::Create { name: "twice".to_owned(), layout };
    let frame = |id| {
        let text = serde_json::to_vec(&create).unwrap();
        encode_frame(Header::request(Kind::Catalog, id), &text)
    };
    let mut answers = Vec::new();
    for (client, id) in [(6, 10), (6, 10), (6, 11), (7, 10)] {
        let mut raw = Raw::greeted(names.address(), client);
        raw.send(&frame(id));
        answers.push(raw.reply().unwrap());
    }
    let status: Vec<_> = answers.iter().map(|(header, _)| header.status).collect();
    assert_eq!(status, [Status::Done, Status::Done, Status::Exists, Status::Exists]);
    assert_eq!(answers[0].1, answers[1].1);
}
