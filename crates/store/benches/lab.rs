//! The lab with `mem` against a plain TCP stream on loopback with the same sizes: one client, one
//! server, requests of 1 MiB, eight in flight. Target: at least 60 % of the plain stream.
//!
//! The lab's object has 16 MiB, so that it fits into a third-level cache as the plain stream's one
//! buffer does; with a larger one, memory is measured too. The plain stream keeps one processor
//! busy and the lab, with its checksums, two: what else runs on a machine of two counts against it.
//!
//! Rounds of the two alternate, so that both see the same machine; the last lines print the medians
//! and their ratio.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use afflux_node::clock;
use afflux_store::engine::lab::{LabAddresses, LabEngine};
use afflux_store::engine::{Answer, CompletionQueue, Engine, ObjectId, Operation, Place, Request};
use afflux_store::lab::server::{LabServer, Log, Role, ServerOptions};
use bytes::Bytes;
use criterion::{Criterion, Throughput};

const REQUEST_BYTES: usize = 1 << 20;
const IN_FLIGHT: u64 = 8;
const OBJECT_REQUESTS: u64 = 16;
const TARGET: f64 = 0.6;

/// A client, and what it has under way.
struct Client {
    engine: LabEngine,
    queue: CompletionQueue,
    data: Bytes,
    buffers: Vec<Vec<u8>>,
    next: u64,
}

impl Client {
    fn submit(&mut self, write: bool) {
        let object = ObjectId { file: 1, stripe: 0 };
        let offset_bytes = self.next % OBJECT_REQUESTS * REQUEST_BYTES as u64;
        let operation = if write {
            Operation::Write { object, offset_bytes, data: self.data.clone() }
        } else {
            let buffer = self.buffers.pop().unwrap_or_default();
            let length_bytes = REQUEST_BYTES as u32;
            Operation::Read { object, offset_bytes, length_bytes, buffer }
        };
        let request = Request::new(self.next, Place::Storage(0), operation);
        self.next += 1;
        self.engine.submit(request, &self.queue.sender());
    }

    /// Moves `count` requests, with as many in flight as there may be.
    fn run(&mut self, write: bool, count: u64) {
        let mut submitted = 0;
        for ended in 0..count {
            while submitted < count && submitted - ended < IN_FLIGHT {
                self.submit(write);
                submitted += 1;
            }
            let completion = self.queue.wait(None).expect("a completion");
            match completion.outcome.expect("an answer") {
                Answer::Read(buffer) => {
                    assert_eq!(buffer.len(), REQUEST_BYTES);
                    self.buffers.push(buffer);
                }
                answer => assert_eq!(answer, Answer::Done),
            }
        }
    }
}

/// A stream that carries requests of the same size, each acknowledged by one byte at the end of a
/// round only.
struct Plain {
    stream: TcpStream,
    data: Vec<u8>,
}

impl Plain {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut buffer = vec![0; REQUEST_BYTES];
            let mut count = [0; 8];
            while stream.read_exact(&mut count).is_ok() {
                for _ in 0..u64::from_le_bytes(count) {
                    stream.read_exact(&mut buffer).expect("data");
                }
                stream.write_all(&[1]).expect("a reader");
            }
        });
        let stream = TcpStream::connect(address).expect("a listener");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, data: vec![7; REQUEST_BYTES] }
    }

    fn run(&mut self, count: u64) {
        self.stream.write_all(&count.to_le_bytes()).expect("a reader");
        for _ in 0..count {
            self.stream.write_all(&self.data).expect("a reader");
        }
        self.stream.read_exact(&mut [0]).expect("an acknowledgement");
    }
}

fn client() -> (LabServer, LabServer, Client) {
    let dir = std::env::temp_dir().join(format!("afflux-bench-{}", std::process::id()));
    let spawn = |role: Role| {
        let mut options = ServerOptions::new(role, &dir);
        options.log = Log::Silent;
        LabServer::spawn(options).expect("a server")
    };
    let device = "mem".parse().expect("a device");
    let storage = spawn(Role::Storage { index: 0, device, capacity_bytes: None });
    let metadata = spawn(Role::Metadata { servers: 1 });
    let at: SocketAddr = metadata.address();
    let addresses = LabAddresses { lab: None, storage: vec![storage.address()], metadata: at };
    let engine = LabEngine::connect_to(&addresses, false).expect("a connection");
    let data = Bytes::from(vec![7; REQUEST_BYTES]);
    let (queue, buffers, next) = (CompletionQueue::new(), Vec::new(), 0);
    // The metadata server is not used again; its few files need not outlive this.
    std::fs::remove_dir_all(&dir).expect("the directory of the bench");
    (storage, metadata, Client { engine, queue, data, buffers, next })
}

fn main() {
    let (storage, metadata, mut client) = client();
    let mut plain = Plain::start();
    let count = 64;
    client.run(true, OBJECT_REQUESTS);

    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20)
        .configure_from_args();
    let mut group = criterion.benchmark_group("lab, 1 MiB, 8 in flight");
    group.throughput(Throughput::Bytes(count * REQUEST_BYTES as u64));
    group.bench_function("plain stream", |bench| bench.iter(|| plain.run(count)));
    group.bench_function("write", |bench| bench.iter(|| client.run(true, count)));
    group.bench_function("read", |bench| bench.iter(|| client.run(false, count)));
    group.finish();

    // A profile should show one of them alone.
    if !std::env::args().any(|argument| argument == "--profile-time") {
        compare(&mut plain, &mut client);
    }
    drop(client);
    storage.stop();
    metadata.stop();
}

/// Alternating rounds and their medians.
fn compare(plain: &mut Plain, client: &mut Client) {
    let (rounds, count) = (31, 128);
    let rate = |run: &mut dyn FnMut()| {
        let before = clock::now();
        run();
        count as f64 * REQUEST_BYTES as f64 / clock::now().since(before).as_secs_f64() / 1e6
    };
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        rates[0].push(rate(&mut || plain.run(count)));
        rates[1].push(rate(&mut || client.run(true, count)));
        rates[2].push(rate(&mut || client.run(false, count)));
    }
    let [plain, write, read] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!("result: lab/plain TCP stream | {plain:.0} MB/s");
    for (name, rate) in [("write", write), ("read", read)] {
        let share = rate / plain;
        let met = if share >= TARGET { "met" } else { "NOT met" };
        let name = format!("lab/mem, {name} of 1 MiB (target {:.0} % of it)", TARGET * 100.0);
        println!("result: {name} | {rate:.0} MB/s, {:.0} %: {met}", share * 100.0);
    }
}
