//! One client's connection: a thread that reads requests and one that writes replies.
//!
//! What a client has outstanding here is bounded, so the queue of replies is too: a client that
//! stops reading stops its own requests from being read, and no service thread ever waits for it.
//! When its socket takes nothing for a while, it is disconnected.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use afflux_core::credits::ledger::Seat;
use afflux_node::clock;
use bytes::Bytes;

use super::Core;
use super::credits::Desk;
use super::queue::Job;
use crate::lab::stream::{FrameReader, Payload, ReadError, write_frame};
use crate::lab::wire::{FrameError, Header, Hello, Kind, MAX_DATA_BYTES, Status};
use crate::sync::{lock, wait, wait_for};

// More than any window; past it, a client's further requests wait in its socket.
const MOST_OUTSTANDING: usize = 1024;
const MOST_OUTSTANDING_BYTES: u64 = 256 << 20;
// A stranger that says nothing must not keep its two threads for ever.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    number: u64,
    peer: String,
    stream: TcpStream,
    client: AtomicU64,
    flow: Mutex<Flow>,
    seat: Mutex<Seat>,
    // The reader waits for room, the writer for replies, a successor for the requests in service.
    room: Condvar,
    replies: Condvar,
    idle: Condvar,
}

#[derive(Debug)]
struct Flow {
    open: bool,
    outgoing: VecDeque<Outgoing>,
    outstanding: usize,
    outstanding_bytes: u64,
    in_service: usize,
}

#[derive(Debug)]
struct Outgoing {
    header: Header,
    payload: Payload,
    cost_bytes: u64,
    last: bool,
}

impl Connection {
    pub(super) fn new(number: u64, peer: String, stream: TcpStream) -> Self {
        let flow = Flow {
            open: true,
            outgoing: VecDeque::new(),
            outstanding: 0,
            outstanding_bytes: 0,
            in_service: 0,
        };
        Self {
            number,
            peer,
            stream,
            client: AtomicU64::new(0),
            flow: Mutex::new(flow),
            seat: Mutex::new(Seat::NONE),
            room: Condvar::new(),
            replies: Condvar::new(),
            idle: Condvar::new(),
        }
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// The client's number; zero before its hello.
    pub(super) fn client(&self) -> u64 {
        self.client.load(Ordering::Relaxed)
    }

    /// Where the ledger keeps this client.
    pub(super) const fn seat(&self) -> &Mutex<Seat> {
        &self.seat
    }

    /// Who is there, for the log.
    pub(super) fn describe(&self) -> String {
        format!("client {:016x} at {}", self.client(), self.peer)
    }

    /// Ends the connection: what is queued is dropped, what is in service goes on unanswered.
    pub(super) fn close(&self) {
        let mut flow = lock(&self.flow);
        flow.open = false;
        flow.outgoing.clear();
        drop(flow);
        self.room.notify_all();
        self.replies.notify_all();
        // A socket that the other side closed already cannot be shut down, and need not be.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Closes this connection and waits until none of its requests is in service any more, so that
    /// they cannot overtake what the client sends on its next one.
    pub(super) fn retire(&self) {
        self.close();
        let mut flow = lock(&self.flow);
        while flow.in_service > 0 {
            flow = wait(&self.idle, flow);
        }
    }

    /// Whether a request taken from the queue is still wanted; if so, [`Connection::end`] must
    /// follow.
    pub(super) fn begin(&self) -> bool {
        let mut flow = lock(&self.flow);
        if flow.open {
            flow.in_service += 1;
        }
        flow.open
    }

    /// Ends a request in service with its reply.
    pub(super) fn end(&self, request: &Header, header: Header, payload: Payload) {
        let mut flow = lock(&self.flow);
        flow.in_service -= 1;
        if flow.in_service == 0 && !flow.open {
            self.idle.notify_all();
        }
        self.put(&mut flow, Outgoing { header, payload, cost_bytes: cost(request), last: false });
    }

    /// A reply from the reading thread itself; after the last one the connection ends.
    fn reply(&self, request: &Header, header: Header, payload: Payload, last: bool) {
        let mut flow = lock(&self.flow);
        self.put(&mut flow, Outgoing { header, payload, cost_bytes: cost(request), last });
    }

    fn put(&self, flow: &mut Flow, outgoing: Outgoing) {
        if flow.open {
            flow.outgoing.push_back(outgoing);
            if flow.outgoing.len() == 1 {
                self.replies.notify_one();
            }
        }
    }

    /// Waits until one more request may be outstanding, and counts it; false when it all ended.
    fn admit(&self, request: &Header) -> bool {
        let cost = cost(request);
        let mut flow = lock(&self.flow);
        while flow.open
            && flow.outstanding > 0
            && (flow.outstanding >= MOST_OUTSTANDING
                || flow.outstanding_bytes + cost > MOST_OUTSTANDING_BYTES)
        {
            flow = wait(&self.room, flow);
        }
        flow.outstanding += 1;
        flow.outstanding_bytes += cost;
        flow.open
    }

    /// Writes replies until the connection ends.
    pub(super) fn write_replies(&self, core: &Core) {
        while let Some(next) = self.next_reply() {
            let mut waited = Duration::ZERO;
            let step = core.options.stall / 4;
            let stalled = || {
                waited += step;
                if waited < core.options.stall { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
            };
            let written = write_frame(&self.stream, next.header, &next.payload, stalled);
            if let Err(error) = written {
                if error.kind() == ErrorKind::TimedOut {
                    core.counters.slow_clients.fetch_add(1, Ordering::Relaxed);
                    core.say(&format!(
                        "{} takes no replies for {} s: disconnected",
                        self.describe(),
                        core.options.stall.as_secs_f64()
                    ));
                }
                break;
            }
            let mut flow = lock(&self.flow);
            flow.outstanding -= 1;
            flow.outstanding_bytes -= next.cost_bytes;
            drop(flow);
            self.room.notify_one();
            if next.last {
                break;
            }
        }
        self.close();
    }

    fn next_reply(&self) -> Option<Outgoing> {
        let mut flow = lock(&self.flow);
        loop {
            if !flow.open {
                return None;
            }
            if let Some(next) = flow.outgoing.pop_front() {
                return Some(next);
            }
            flow = wait(&self.replies, flow);
        }
    }

    /// Reads requests until the connection ends, and then waits for its last reply to be written.
    pub(super) fn read_requests(self: &Arc<Self>, core: &Core) {
        let ended = self.read_all(core);
        match ended {
            Ok(()) | Err(ReadError::Closed) => {}
            Err(ReadError::Io(error)) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(ReadError::Io(error)) => {
                if lock(&self.flow).open {
                    core.say(&format!("{}: {error}", self.describe()));
                }
            }
            Err(ReadError::Frame(error)) => {
                core.counters.bad_frames.fetch_add(1, Ordering::Relaxed);
                core.say(&format!("{}: bad frame: {error}: disconnected", self.describe()));
                self.refuse(&Header::request(Kind::Hello, 0), &error.to_string());
                return;
            }
        }
        self.close();
    }

    /// Says why, and has the writer end the connection after that.
    fn refuse(&self, request: &Header, why: &str) {
        lock(&self.flow).outstanding += 1;
        let header = request.answer(Status::Refused);
        let cost_free = Outgoing { header, payload: Payload::text(why), cost_bytes: 0, last: true };
        self.put(&mut lock(&self.flow), cost_free);
        // The other side may still be sending; reading it away lets it see the refusal, which a
        // reset would destroy.
        let _ = self.stream.set_read_timeout(Some(Duration::from_millis(200)));
        let mut sink = io::sink();
        let _ = io::copy(&mut io::Read::take(&self.stream, 64 << 20), &mut sink);
        let deadline = clock::now() + afflux_core::units::Span::from_secs(1);
        let mut flow = lock(&self.flow);
        while flow.open && clock::now() < deadline {
            flow = wait_for(&self.replies, flow, Duration::from_millis(50));
        }
        drop(flow);
        self.close();
    }

    fn read_all(self: &Arc<Self>, core: &Core) -> Result<(), ReadError> {
        let mut frames = FrameReader::new(&self.stream);
        self.stream.set_read_timeout(Some(HELLO_WITHIN))?;
        if !self.greet(core, &mut frames)? {
            return Ok(());
        }
        self.stream.set_read_timeout(None)?;
        loop {
            let header = frames.header()?;
            if header.reply || header.kind == Kind::Hello {
                let what = "a reply or a second hello came where a request belongs";
                return Err(FrameError::OutOfPlace(what).into());
            }
            if !self.admit(&header) {
                return Ok(());
            }
            let payload = if header.payload_bytes > 0 {
                let mut buffer = core.buffers.take(header.payload_bytes as usize);
                frames.payload(&header, &mut buffer)?;
                buffer.freeze()
            } else {
                header.check_payload(&[])?;
                Bytes::new()
            };
            if header.kind == Kind::Statistics {
                let report = core.report();
                // A report is plain data, which always has a JSON form.
                let text = serde_json::to_vec(&report).unwrap_or_default();
                self.reply(&header, header.answer(Status::Done), Payload::text(text), false);
                continue;
            }
            let arrived = clock::now();
            core.counters.enter();
            if let Some(desk) = &core.desk {
                desk.arrive(self, &header, arrived);
            }
            core.queue.push(Job { header, payload, arrived, connection: Arc::clone(self) });
        }
    }

    /// Reads the hello and answers it; false when the client means another server.
    fn greet(
        self: &Arc<Self>,
        core: &Core,
        frames: &mut FrameReader<'_>,
    ) -> Result<bool, ReadError> {
        let header = frames.header()?;
        if header.reply || header.kind != Kind::Hello {
            return Err(FrameError::OutOfPlace("the first frame is not a hello").into());
        }
        let mut payload = vec![0; header.payload_bytes as usize];
        frames.payload(&header, &mut payload)?;
        let Ok(hello) = serde_json::from_slice::<Hello>(&payload) else {
            return Err(FrameError::OutOfPlace("the hello cannot be read").into());
        };
        let ours = &core.identity;
        let meant = hello.lab.as_ref().is_none_or(|lab| *lab == ours.lab)
            && hello.server.as_ref().is_none_or(|server| *server == ours.server);
        if !meant {
            let why = format!("this is {} of lab {}", ours.server, ours.lab);
            core.say(&format!("{} means another server: refused", self.describe()));
            self.refuse(&header, &why);
            return Ok(false);
        }
        self.client.store(hello.client, Ordering::Relaxed);
        core.enrol(self);
        let text = serde_json::to_vec(ours).unwrap_or_default();
        if self.admit(&header) {
            let credit = core.desk.as_ref().map_or(0, Desk::welcome);
            let answer = Header { credit, ..header.answer(Status::Done) };
            self.reply(&header, answer, Payload::text(text), false);
        }
        Ok(true)
    }
}

/// What a request may cost this server in memory: its data, one way or the other.
fn cost(request: &Header) -> u64 {
    let answer = if request.kind == Kind::Read { request.fourth.min(MAX_DATA_BYTES) } else { 0 };
    u64::from(request.payload_bytes.max(answer)) + 256
}
