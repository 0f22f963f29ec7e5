//! One client of a replay, on a thread of its own.

use afflux_core::layout::Layout;
use afflux_core::measure::{ClientMeasurement, Latencies, Recorder};
use afflux_core::target::Progress;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use bytes::Bytes;

use super::recorded::{Asks, Call, MAX_REQUEST_BYTES, Object};
use super::{Pace, ReplayTarget};
use crate::client::{Client, Finished, Operation};
use crate::engine::{CatalogOperation, ObjectId, Operation as Request, Place, Taken};

/// Seconds of a replay that are counted at most: a day.
const LONGEST: Span = Span::from_secs(24 * 3_600);

/// A listing asks for so many names; how many the trace asked for, it does not tell.
const LISTED: u32 = 1_000;

/// A client's requests while they are made.
pub(super) struct ReplayThread<'a> {
    client: Client,
    calls: &'a [Call],
    objects: &'a [Object],
    files: &'a [u64],
    prefix: &'a str,
    servers: u32,
    pace: Pace,
    start: Time,
    /// The next request, and which of those before it have ended.
    next: usize,
    has_ended: Vec<bool>,
    under_way: u32,
    data: Bytes,
    recorder: Recorder,
    behind: Latencies,
    ended: Time,
    progress: &'a dyn Progress,
}

/// What came of a client's requests.
pub(super) struct Replayed {
    pub(super) measured: ClientMeasurement,
    /// How long after their recorded times they were sent.
    pub(super) behind: Latencies,
    /// When the last of them ended.
    pub(super) ended: Time,
}

/// The name of a file of the trace, under the replay's.
pub(super) fn name(prefix: &str, recorded: &str) -> String {
    format!("{prefix}names/{recorded}")
}

impl<'a> ReplayThread<'a> {
    pub(super) fn new(
        target: &'a ReplayTarget,
        client: Client,
        index: u32,
        start: Time,
        progress: &'a dyn Progress,
    ) -> Self {
        let calls = &target.recorded.clients[index as usize];
        Self {
            client,
            calls,
            objects: &target.recorded.objects,
            files: &target.files,
            prefix: &target.prefix,
            servers: target.servers(),
            pace: target.pace,
            start,
            next: 0,
            has_ended: vec![false; calls.len()],
            under_way: 0,
            data: vec![0xaf; MAX_REQUEST_BYTES as usize].into(),
            recorder: Recorder::new(start, LONGEST),
            behind: Latencies::default(),
            ended: start,
            progress,
        }
    }

    pub(super) fn go(mut self) -> Replayed {
        // A cancelled run must be noticed although no reply comes.
        const LOOK: Span = Span::from_millis(100);
        while !self.progress.is_cancelled() {
            let mut wake = clock::now() + LOOK;
            while let Some(call) = self.calls.get(self.next).filter(|call| self.is_free(call)) {
                let due = self.due(call);
                if clock::now() < due {
                    wake = wake.min(due);
                    break;
                }
                self.make(call);
            }
            if self.next == self.calls.len() && self.under_way == 0 {
                break;
            }
            for done in self.client.wait(wake, Some(&mut self.recorder)) {
                self.end(&done);
            }
        }
        self.recorder.client.holds = self.client.holds();
        // Nothing is left but where the user has ended the run, and who did will not wait.
        self.client.drain(clock::now(), &mut self.recorder);
        self.recorder.client.data_paths = self.client.data_paths();
        let measured = self.recorder.finish(self.ended);
        Replayed { measured, behind: self.behind, ended: self.ended }
    }

    /// Whether nothing before it keeps a request from being made.
    fn is_free(&self, call: &Call) -> bool {
        let is_in_turn = call.after.iter().all(|before| self.has_ended[*before]);
        is_in_turn && (self.pace == Pace::Recorded || self.under_way <= call.depth)
    }

    fn due(&self, call: &Call) -> Time {
        match self.pace {
            Pace::Recorded => self.start + call.at,
            Pace::Closed => self.start,
        }
    }

    fn make(&mut self, call: &Call) {
        let now = clock::now();
        let operation = self.operation(&call.asks);
        self.recorder.operation_started(now);
        self.client.submit(now, self.next as u64, operation);
        self.next += 1;
        self.under_way += 1;
    }

    fn end(&mut self, done: &Finished) {
        let index = done.id as usize;
        self.has_ended[index] = true;
        self.under_way -= 1;
        self.ended = self.ended.max(done.ended);
        self.recorder.operation_ended(done.ended, done.started);
        if self.pace == Pace::Recorded {
            self.behind.record(done.sent.since(self.start + self.calls[index].at));
        }
        if let Ok(outcome) = &done.outcome {
            self.progress.moved(outcome.bytes);
        }
        self.progress.reached(self.next as f64 / self.calls.len() as f64);
    }

    /// The request for the replay's own objects and names.
    fn operation(&self, asks: &Asks) -> Operation {
        match *asks {
            Asks::Read { object, offset_bytes, length_bytes } => self.to(object, |object| {
                Request::Read { object, offset_bytes, length_bytes, buffer: Vec::new() }
            }),
            Asks::Write { object, offset_bytes, length_bytes } => self.to(object, |object| {
                let data = self.data.slice(..length_bytes as usize);
                Request::Write { object, offset_bytes, data }
            }),
            Asks::Remove { object } => self.to(object, |object| Request::Remove { object }),
            Asks::Extend { object, size_bytes } => {
                Self::ask(CatalogOperation::Extend { file: self.files[object], size_bytes })
            }
            Asks::Create(ref name) => {
                let layout = Layout { unit_bytes: MAX_REQUEST_BYTES, first_server: 0, count: 1 };
                Self::ask(CatalogOperation::Create { name: self.name(name), layout })
            }
            Asks::Open(ref name) => Self::ask(CatalogOperation::Open { name: self.name(name) }),
            Asks::Unlink(ref name) => Self::ask(CatalogOperation::Unlink { name: self.name(name) }),
            Asks::Rename { ref from, ref to, ref taken } => {
                let (from, to) = (self.name(from), self.name(to));
                let taken = match taken {
                    Taken::Moved(aside) => Taken::Moved(self.name(aside)),
                    other => other.clone(),
                };
                Self::ask(CatalogOperation::Rename { from, to, taken })
            }
            Asks::List(ref prefix) => {
                let (prefix, after) = (self.name(prefix), String::new());
                Self::ask(CatalogOperation::List { prefix, after, limit: LISTED })
            }
        }
    }

    fn to(&self, object: usize, request: impl FnOnce(ObjectId) -> Request) -> Operation {
        let server = self.objects[object].server % self.servers;
        let request = request(ObjectId { file: self.files[object], stripe: 0 });
        Operation::single(Place::Storage(server), request)
    }

    fn ask(operation: CatalogOperation) -> Operation {
        Operation::single(Place::Metadata, Request::Catalog(operation))
    }

    fn name(&self, recorded: &str) -> String {
        name(self.prefix, recorded)
    }
}
