//! What `bench/ceph/plain.c` does, through the `rados` engine: so many requests under way at each
//! pool, the next one begun by the end of the one before. No client, no controllers.
//!
//! usage: rados_loop POOLS write|read BYTES DEPTH SECONDS [SETTLE]
//!
//! Completions come to a queue, and one thread takes them from there, as all clients of engines do.
//! Each pool has 64 MiB, whose objects are made once, by writes of the requests' size. Prints
//! megabytes a second.

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use afflux_core::rng::Rng;
use afflux_store::engine::rados::{RadosEngine, RadosStore};
use afflux_store::engine::{Answer, CompletionQueue, Engine, ObjectId, Operation, Place, Request};
use bytes::Bytes;

/// A file that no catalog knows.
const FILE: u64 = u64::MAX;
const EACH_BYTES: u64 = 64 << 20;

struct Loop {
    engine: RadosEngine,
    queue: CompletionQueue,
    is_write: bool,
    data: Bytes,
    buffers: Vec<Vec<u8>>,
    places: Rng,
    next_tag: u64,
}

impl Loop {
    fn submit(&mut self, server: u32, offset_bytes: u64, is_write: bool) {
        let object = ObjectId { file: FILE, stripe: server };
        let operation = if is_write {
            Operation::Write { object, offset_bytes, data: self.data.clone() }
        } else {
            let buffer = self.buffers.pop().unwrap_or_default();
            let length_bytes = self.data.len() as u32;
            Operation::Read { object, offset_bytes, length_bytes, buffer }
        };
        self.next_tag += 1;
        let request = Request::new(self.next_tag, Place::Storage(server), operation);
        self.engine.submit(request, &self.queue.sender());
    }

    /// Begins a request at a random place.
    fn begin(&mut self, server: u32) {
        let bytes = self.data.len() as u64;
        let offset_bytes = self.places.below(EACH_BYTES / bytes) * bytes;
        self.submit(server, offset_bytes, self.is_write);
    }

    /// The server of the next answer.
    fn end(&mut self) -> Result<u32, Box<dyn Error>> {
        let completion = self.queue.wait(None).ok_or("the queue has ended")?;
        if let Answer::Read(buffer) = completion.outcome? {
            if buffer.len() != self.data.len() {
                return Err("a read came back shorter".into());
            }
            self.buffers.push(buffer);
        }
        match completion.place {
            Place::Storage(server) => Ok(server),
            Place::Metadata => Err("an answer of the catalog".into()),
        }
    }

    fn make_objects(&mut self, pools: u32) -> Result<(), Box<dyn Error>> {
        let bytes = self.data.len() as u64;
        for server in 0..pools {
            let object = ObjectId { file: FILE, stripe: server };
            let (offset_bytes, buffer) = (EACH_BYTES - bytes, Vec::new());
            let last = Operation::Read { object, offset_bytes, length_bytes: bytes as u32, buffer };
            self.engine.submit(Request::new(0, Place::Storage(server), last), &self.queue.sender());
            let found = self.queue.wait(None).ok_or("the queue has ended")?.outcome?;
            if matches!(found, Answer::Read(found) if found.len() as u64 == bytes) {
                continue;
            }
            for offset_bytes in (0..EACH_BYTES).step_by(bytes as usize) {
                self.submit(server, offset_bytes, true);
                self.end()?;
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(configuration), [pools, kind, bytes, depth, seconds, rest @ ..]) =
        (std::env::var_os("CEPH_CONF"), &words[..])
    else {
        return Err(
            "usage: CEPH_CONF=F rados_loop POOLS write|read BYTES DEPTH SECONDS [SETTLE]".into()
        );
    };
    let (pools, depth): (u32, u32) = (pools.parse()?, depth.parse()?);
    let (length, settle) = (seconds.parse()?, rest.first().map_or(Ok(1.0), |text| text.parse())?);
    let configuration = Some(PathBuf::from(configuration));
    let engine = RadosEngine::connect(&RadosStore { configuration, ..RadosStore::default() })?;
    if engine.servers() < pools {
        return Err(format!("there are {} pools", engine.servers()).into());
    }
    let mut all = Loop {
        engine,
        queue: CompletionQueue::new(),
        is_write: kind == "write",
        data: vec![0; bytes.parse()?].into(),
        buffers: Vec::new(),
        places: Rng::new(1),
        next_tag: 0,
    };
    all.make_objects(pools)?;
    for _ in 0..depth {
        (0..pools).for_each(|server| all.begin(server));
    }
    let begun = Instant::now() + Duration::from_secs_f64(settle);
    let (mut now, mut moved_bytes) = (Instant::now(), 0);
    while now < begun + Duration::from_secs_f64(length) {
        let server = all.end()?;
        all.begin(server);
        now = Instant::now();
        if now > begun {
            moved_bytes += all.data.len() as u64;
        }
    }
    println!("{:.2}", moved_bytes as f64 / now.duration_since(begun).as_secs_f64() / 1e6);
    Ok(())
}
