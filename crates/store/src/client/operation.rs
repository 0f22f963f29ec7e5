//! Operations on files, and the phases in which their requests go out.

use std::collections::VecDeque;

use afflux_core::layout::Layout;
use bytes::Bytes;

use crate::engine::{
    Answer, CatalogOperation, FileRecord, ObjectId, Operation as Request, Place, Taken,
};

/// One operation on a file. All requests of a phase go out together; the next phase waits for them.
#[derive(Clone, Debug)]
pub struct Operation {
    phases: VecDeque<Phase>,
    collect: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    Catalog(CatalogOperation),
    Read {
        file: u64,
        layout: Layout,
        offset_bytes: u64,
        length_bytes: u64,
    },
    Write {
        file: u64,
        layout: Layout,
        offset_bytes: u64,
        length_bytes: u64,
        payload: Payload,
    },
    /// Writes the file that the catalog has just made, and records its size.
    WriteNew {
        length_bytes: u64,
        payload: Payload,
    },
    /// Removes the objects of a file; without one, of that which the catalog has just forgotten.
    RemoveObjects(Option<FileRecord>),
    /// One request as it is.
    Single(Place, Request),
}

/// What is written.
#[derive(Clone, Debug)]
pub struct Payload {
    block: Bytes,
    /// The block stands for the operation's bytes themselves, not for a pattern to repeat.
    exact: bool,
}

/// What came of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes read or written.
    pub bytes: u64,
    /// The file's record, when the catalog was asked for one.
    pub record: Option<FileRecord>,
    /// The records of a listing.
    pub listing: Vec<FileRecord>,
    /// The bytes read, when they were to be collected.
    pub data: Vec<u8>,
}

/// Requests of a phase: where each goes, and where in the file its bytes lie.
pub(super) type Requests = Vec<(Place, u64, Request)>;

/// An operation under way.
#[derive(Debug)]
pub(super) struct Progress {
    operation: Operation,
    outcome: Outcome,
    /// First byte of a read that is collected.
    base_bytes: u64,
}

/// What a client cuts operations by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) servers: u32,
    pub(super) max_request_bytes: u32,
}

impl Payload {
    /// Any number of bytes of a fixed pattern, in requests of at most `block_bytes`.
    pub fn pattern(block_bytes: u32) -> Self {
        let block: Vec<u8> = (0..block_bytes.max(1)).map(|at| (at % 251) as u8).collect();
        Self { block: block.into(), exact: false }
    }

    /// These bytes, of which the operation's length must not exceed the number.
    pub fn bytes(bytes: Bytes) -> Self {
        Self { block: bytes, exact: true }
    }

    fn max_piece_bytes(&self, shape: Shape) -> u32 {
        let block_bytes = if self.exact { u32::MAX } else { self.block.len() as u32 };
        shape.max_request_bytes.min(block_bytes)
    }

    fn slice(&self, from_start_bytes: u64, length_bytes: u32) -> Bytes {
        let start = if self.exact { from_start_bytes as usize } else { 0 };
        self.block.slice(start..start + length_bytes as usize)
    }
}

impl Operation {
    /// Reads and throws the bytes away; what a load generator does.
    pub fn read(file: u64, layout: Layout, offset_bytes: u64, length_bytes: u64) -> Self {
        Self::of(Phase::Read { file, layout, offset_bytes, length_bytes })
    }

    /// Reads into [`Outcome::data`]; holes and what lies past the end read as zeros.
    pub fn read_all(file: u64, layout: Layout, offset_bytes: u64, length_bytes: u64) -> Self {
        Self { collect: true, ..Self::read(file, layout, offset_bytes, length_bytes) }
    }

    /// Writes within the size that the catalog has recorded.
    pub fn write(
        file: u64,
        layout: Layout,
        offset_bytes: u64,
        length_bytes: u64,
        payload: &Payload,
    ) -> Self {
        let payload = payload.clone();
        Self::of(Phase::Write { file, layout, offset_bytes, length_bytes, payload })
    }

    /// Writes, and records the new size after the bytes are there.
    pub fn extend(
        file: u64,
        layout: Layout,
        offset_bytes: u64,
        length_bytes: u64,
        payload: &Payload,
    ) -> Self {
        let mut operation = Self::write(file, layout, offset_bytes, length_bytes, payload);
        let size_bytes = offset_bytes + length_bytes;
        let record = Phase::Catalog(CatalogOperation::Extend { file, size_bytes });
        operation.phases.push_back(record);
        operation
    }

    /// Makes a file, writes `length_bytes` and records its size.
    pub fn create(name: &str, layout: Layout, length_bytes: u64, payload: &Payload) -> Self {
        let name = name.to_owned();
        let mut operation = Self::of(Phase::Catalog(CatalogOperation::Create { name, layout }));
        if length_bytes > 0 {
            operation.phases.push_back(Phase::WriteNew { length_bytes, payload: payload.clone() });
        }
        operation
    }

    /// Asks for a file's record.
    pub fn open(name: &str) -> Self {
        Self::of(Phase::Catalog(CatalogOperation::Open { name: name.to_owned() }))
    }

    /// Removes a name and then its objects.
    pub fn remove(name: &str) -> Self {
        let unlink = CatalogOperation::Unlink { name: name.to_owned() };
        let phases = [Phase::Catalog(unlink), Phase::RemoveObjects(None)];
        Self { phases: phases.into(), collect: false }
    }

    /// Removes a name; the file's record is in the outcome, and its objects are left.
    pub fn unlink(name: &str) -> Self {
        Self::of(Phase::Catalog(CatalogOperation::Unlink { name: name.to_owned() }))
    }

    /// Removes the objects of a file that has no name any more.
    pub fn remove_objects(record: &FileRecord) -> Self {
        Self::of(Phase::RemoveObjects(Some(record.clone())))
    }

    /// Gives a file another name. The record of the outcome is that of the file which had the new
    /// name, if there was one; its objects are left.
    pub fn rename(from: &str, to: &str, taken: Taken) -> Self {
        let (from, to) = (from.to_owned(), to.to_owned());
        Self::of(Phase::Catalog(CatalogOperation::Rename { from, to, taken }))
    }

    /// Lists names that start with `prefix`, after `after`.
    pub fn list(prefix: &str, after: &str, limit: u32) -> Self {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        Self::of(Phase::Catalog(CatalogOperation::List { prefix, after, limit }))
    }

    /// One request as it is, uncut: what a replay makes again. Bytes that it reads are thrown away.
    pub fn single(place: Place, request: Request) -> Self {
        Self::of(Phase::Single(place, request))
    }

    fn of(phase: Phase) -> Self {
        Self { phases: [phase].into(), collect: false }
    }

    pub(super) fn begin(self) -> Progress {
        Progress { operation: self, outcome: Outcome::default(), base_bytes: 0 }
    }
}

impl Progress {
    /// The requests of the next phase that has any; `None` when the operation is done.
    pub(super) fn next_phase(&mut self, shape: Shape) -> Option<Requests> {
        while let Some(phase) = self.operation.phases.pop_front() {
            let requests = self.requests(phase, shape);
            if !requests.is_empty() {
                return Some(requests);
            }
        }
        None
    }

    /// Takes an answer; gives a read's buffer back when it is not needed any more.
    pub(super) fn take(&mut self, file_offset_bytes: u64, answer: Answer) -> Option<Vec<u8>> {
        match answer {
            Answer::Read(bytes) => {
                self.outcome.bytes += bytes.len() as u64;
                if self.operation.collect {
                    let start = (file_offset_bytes - self.base_bytes) as usize;
                    if let Some(to) = self.outcome.data.get_mut(start..start + bytes.len()) {
                        to.copy_from_slice(&bytes);
                    }
                }
                return Some(bytes);
            }
            Answer::File(record) => self.outcome.record = Some(record),
            Answer::Files(records) => self.outcome.listing = records,
            Answer::Done => {}
        }
        None
    }

    pub(super) fn into_outcome(self) -> Outcome {
        self.outcome
    }

    fn requests(&mut self, phase: Phase, shape: Shape) -> Requests {
        match phase {
            Phase::Catalog(operation) => {
                vec![(Place::Metadata, 0, Request::Catalog(operation))]
            }
            Phase::Read { file, layout, offset_bytes, length_bytes } => {
                if self.operation.collect {
                    self.base_bytes = offset_bytes;
                    self.outcome.data = vec![0; length_bytes as usize];
                }
                let pieces = layout.pieces(offset_bytes, length_bytes, shape.max_request_bytes);
                pieces
                    .map(|piece| {
                        let request = Request::Read {
                            object: ObjectId { file, stripe: piece.stripe },
                            offset_bytes: piece.object_offset_bytes,
                            length_bytes: piece.length_bytes,
                            buffer: Vec::new(),
                        };
                        let server = layout.server(piece.stripe, shape.servers);
                        (Place::Storage(server), piece.file_offset_bytes, request)
                    })
                    .collect()
            }
            Phase::Write { file, layout, offset_bytes, length_bytes, payload } => {
                self.outcome.bytes += length_bytes;
                let pieces =
                    layout.pieces(offset_bytes, length_bytes, payload.max_piece_bytes(shape));
                pieces
                    .map(|piece| {
                        let from_start = piece.file_offset_bytes - offset_bytes;
                        let request = Request::Write {
                            object: ObjectId { file, stripe: piece.stripe },
                            offset_bytes: piece.object_offset_bytes,
                            data: payload.slice(from_start, piece.length_bytes),
                        };
                        let server = layout.server(piece.stripe, shape.servers);
                        (Place::Storage(server), piece.file_offset_bytes, request)
                    })
                    .collect()
            }
            Phase::WriteNew { length_bytes, payload } => {
                let Some(record) = &self.outcome.record else { return Vec::new() };
                let (file, layout) = (record.file, record.layout);
                let extend = CatalogOperation::Extend { file, size_bytes: length_bytes };
                self.operation.phases.push_front(Phase::Catalog(extend));
                let write = Phase::Write { file, layout, offset_bytes: 0, length_bytes, payload };
                self.requests(write, shape)
            }
            Phase::RemoveObjects(record) => {
                let Some(record) = record.as_ref().or(self.outcome.record.as_ref()) else {
                    return Vec::new();
                };
                let stripes = 0..record.layout.count;
                let remove = |stripe| {
                    let object = ObjectId { file: record.file, stripe };
                    let server = record.layout.server(stripe, shape.servers);
                    (Place::Storage(server), 0, Request::Remove { object })
                };
                stripes.map(remove).collect()
            }
            Phase::Single(place, request) => {
                if let Request::Write { data, .. } = &request {
                    self.outcome.bytes += data.len() as u64;
                }
                vec![(place, 0, request)]
            }
        }
    }
}
