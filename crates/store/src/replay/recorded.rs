//! A trace, read back: the requests of each client in their order, and what they find.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use afflux_core::units::Span;

use crate::catalog::MAX_NAME_BYTES;
use crate::engine::Taken;
use crate::trace::{DONE, Header, Line};

/// The most bytes of one request, as engines take them.
pub(super) const MAX_REQUEST_BYTES: u32 = 1 << 20;

/// The outcome of a request for a name that was taken.
const EXISTS: &str = "exists";

/// What a replay puts before recorded names has at most so many bytes.
pub(super) const MAX_PREFIX_BYTES: usize = 55;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read the trace {file}: {source}; name a file that trace:FILE@ENGINE wrote")]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its first line is not that of a trace.
    #[error(
        "{file} is no trace: its first line is not {{\"afflux_trace\":{}}}; record one with --on \
         trace:FILE@ENGINE", Header::CURRENT.afflux_trace
    )]
    NoTrace {
        /// Which file.
        file: PathBuf,
    },
    /// It is of another version.
    #[error(
        "{file} is a trace of version {found}, and only those up to {} are read here: replay it \
         with the afflux that wrote it, or record it again", Header::CURRENT.afflux_trace
    )]
    Version {
        /// Which file.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A line is not as the format says.
    #[error(
        "{file}, line {line}: {why}; where the recording was cut short, take the broken line out"
    )]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// No request was recorded.
    #[error("the trace {file} has no request: record one with --on trace:FILE@ENGINE")]
    Empty {
        /// Which file.
        file: PathBuf,
    },
}

/// The requests of a trace.
#[derive(Debug)]
pub struct Recorded {
    /// Those of each client, in the order in which they were submitted.
    pub(super) clients: Vec<Vec<Call>>,
    /// What they name by numbers.
    pub(super) objects: Vec<Object>,
    /// The files that they name, and whether each is there before the first request.
    pub(super) names: BTreeMap<String, bool>,
    servers: u32,
    span: Span,
}

/// One request.
#[derive(Debug)]
pub(super) struct Call {
    /// When it was submitted, from the first of the trace on.
    pub(super) at: Span,
    /// How many of its client's requests were under way then.
    pub(super) depth: u32,
    /// The latest of its client's requests for the same object, or each same name, that had ended
    /// by then.
    pub(super) after: Vec<usize>,
    pub(super) asks: Asks,
}

/// What a request asks; objects by their index in [`Recorded::objects`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    Read { object: usize, offset_bytes: u64, length_bytes: u32 },
    Write { object: usize, offset_bytes: u64, length_bytes: u32 },
    Remove { object: usize },
    Extend { object: usize, size_bytes: u64 },
    Create(String),
    Open(String),
    Unlink(String),
    Rename { from: String, to: String, taken: Taken },
    List(String),
}

/// An object of the trace, or a file that it knows by its number.
#[derive(Debug)]
pub(super) struct Object {
    /// As it is written in the trace.
    pub(super) name: String,
    /// The storage server that kept it.
    pub(super) server: u32,
    /// How long it is before the first request.
    pub(super) length_bytes: u64,
    /// Whether the trace changes it.
    pub(super) changes: bool,
    /// Up to where the trace wrote it so far.
    written_bytes: u64,
    /// How often the catalog was told of its size so far.
    extended: u64,
}

impl Recorded {
    /// Reads a trace.
    ///
    /// # Errors
    /// When the file cannot be read, is no trace of this version, is damaged, or has no request.
    pub fn read(file: &Path) -> Result<Self, TraceError> {
        let unreadable = |source| TraceError::Unreadable { file: file.to_owned(), source };
        let mut lines = BufReader::new(File::open(file).map_err(unreadable)?).lines();
        let header = lines.next().transpose().map_err(unreadable)?.unwrap_or_default();
        let header: Header = serde_json::from_str(&header)
            .map_err(|_| TraceError::NoTrace { file: file.to_owned() })?;
        if !header.is_known() {
            let found = header.afflux_trace;
            return Err(TraceError::Version { file: file.to_owned(), found });
        }
        let damaged = |line, why| TraceError::Damaged { file: file.to_owned(), line, why };
        let mut read: Vec<(usize, Line)> = Vec::new();
        for (number, text) in (2..).zip(lines) {
            let text = text.map_err(unreadable)?;
            let line = serde_json::from_str(&text);
            read.push((number, line.map_err(|error| damaged(number, error.to_string()))?));
        }
        // Lines are in the order in which requests ended.
        read.sort_by_key(|(number, line)| (line.submitted_ns, *number));
        let Some((_, first)) = read.first() else {
            return Err(TraceError::Empty { file: file.to_owned() });
        };
        let mut reading = Reading { start_ns: first.submitted_ns, ..Reading::default() };
        for (number, line) in &read {
            reading.take(line).map_err(|why| damaged(*number, why))?;
        }
        Ok(reading.recorded())
    }

    /// How many clients it has.
    pub const fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many requests it has.
    pub fn requests(&self) -> usize {
        self.clients.iter().map(Vec::len).sum()
    }

    /// How many storage servers it knows of.
    pub const fn servers(&self) -> u32 {
        self.servers
    }

    /// The time from its first request to its last end.
    pub const fn span(&self) -> Span {
        self.span
    }
}

/// A trace as far as it was read.
#[derive(Default)]
struct Reading {
    start_ns: u64,
    end_ns: u64,
    servers: u32,
    clients: BTreeMap<u32, ReadClient>,
    objects: Vec<Object>,
    numbers: BTreeMap<String, usize>,
    names: BTreeMap<String, bool>,
}

#[derive(Default)]
struct ReadClient {
    calls: Vec<Call>,
    /// When those end that are under way, the next first.
    ends: BinaryHeap<Reverse<u64>>,
    /// The requests for each object or name, and when they ended.
    same: BTreeMap<Subject, Vec<(usize, u64)>>,
}

/// What a request is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Object(usize),
    Name(String),
}

impl Reading {
    fn take(&mut self, line: &Line) -> Result<(), String> {
        let asks = self.asks(line)?;
        self.end_ns = self.end_ns.max(line.completed_ns);
        self.note(&asks, line);
        let client = self.clients.entry(line.client).or_default();
        client.take(line, self.start_ns, asks);
        Ok(())
    }

    fn asks(&mut self, line: &Line) -> Result<Asks, String> {
        let server = match line.place.strip_prefix("storage ").map(str::parse::<u32>) {
            Some(Ok(server)) if server < u32::MAX => Some(server),
            None if line.place == "metadata" => None,
            _ => return Err(format!("`{}` is no place: storage 0, or metadata", line.place)),
        };
        let operation = line.operation.as_ref();
        let Some(server) = server else { return self.asks_catalog(line) };
        self.servers = self.servers.max(server + 1);
        let object = self.object(line, server)?;
        let offset_bytes = line.offset_bytes;
        let length_bytes = u32::try_from(line.length_bytes).unwrap_or(u32::MAX);
        if length_bytes > MAX_REQUEST_BYTES {
            return Err(format!("a request of {} bytes: at most 1 MiB", line.length_bytes));
        }
        match operation {
            "read" => Ok(Asks::Read { object, offset_bytes, length_bytes }),
            "write" => Ok(Asks::Write { object, offset_bytes, length_bytes }),
            "remove" => Ok(Asks::Remove { object }),
            _ => Err(format!("no storage server knows `{operation}`: read, write or remove")),
        }
    }

    fn asks_catalog(&mut self, line: &Line) -> Result<Asks, String> {
        let operation = line.operation.as_ref();
        if operation == "extend" {
            let object = self.object(line, 0)?;
            self.objects[object].extended += 1;
            // The trace does not tell sizes; each is larger than the last, so that it is kept.
            return Ok(Asks::Extend { object, size_bytes: self.objects[object].extended });
        }
        let short = |name: &Option<String>, what: &str| {
            let name = name.clone().ok_or_else(|| format!("`{operation}` without {what}"))?;
            let most = MAX_NAME_BYTES - MAX_PREFIX_BYTES;
            if name.len() > most {
                return Err(format!("a name of {} bytes: at most {most} are replayed", name.len()));
            }
            Ok(name)
        };
        let name = short(&line.name, "a name")?;
        if operation == "rename" {
            let to = short(&line.to, "a name to rename to")?;
            let taken = line.taken.clone().ok_or("`rename` without what becomes of another")?;
            if let Taken::Moved(aside) = &taken {
                short(&Some(aside.clone()), "a name")?;
            }
            return Ok(Asks::Rename { from: name, to, taken });
        }
        let of: fn(String) -> Asks = match operation {
            "create" => Asks::Create,
            "open" => Asks::Open,
            "unlink" => Asks::Unlink,
            "list" => Asks::List,
            _ => return Err(format!("the catalog knows no `{operation}`")),
        };
        Ok(of(name))
    }

    /// The index of a line's object.
    fn object(&mut self, line: &Line, server: u32) -> Result<usize, String> {
        let operation = line.operation.as_ref();
        let name = line.object.clone().ok_or_else(|| format!("`{operation}` without an object"))?;
        let is_number = |part: &str| part.parse::<u64>().is_ok();
        if name.split('.').count() > 2 || !name.split('.').all(is_number) {
            return Err(format!("`{name}` is no object: a file's number and a stripe, as in 7.0"));
        }
        let next = self.objects.len();
        let index = *self.numbers.entry(name.clone()).or_insert(next);
        if index == next {
            let (length_bytes, changes, written_bytes, extended) = (0, false, 0, 0);
            let object = Object { name, server, length_bytes, changes, written_bytes, extended };
            self.objects.push(object);
        }
        Ok(index)
    }

    /// What a request and its outcome tell of the state before the trace.
    fn note(&mut self, asks: &Asks, line: &Line) {
        match asks {
            Asks::Read { object, offset_bytes, .. } => {
                let object = &mut self.objects[*object];
                let end = offset_bytes + line.moved_bytes;
                if line.moved_bytes > 0 && end > object.written_bytes {
                    object.length_bytes = object.length_bytes.max(end);
                }
            }
            Asks::Write { object, offset_bytes, length_bytes } => {
                let object = &mut self.objects[*object];
                object.changes = true;
                let end = offset_bytes + u64::from(*length_bytes);
                object.written_bytes = object.written_bytes.max(end);
            }
            Asks::Remove { object } | Asks::Extend { object, .. } => {
                self.objects[*object].changes = true;
            }
            Asks::Create(name) => self.note_name(name, line, EXISTS),
            Asks::Open(name) | Asks::Unlink(name) => self.note_name(name, line, DONE),
            Asks::Rename { from, to, taken } => {
                // Where it was refused for the new name, the old one was there as well.
                let is_there = [DONE, EXISTS].contains(&line.outcome.as_ref());
                self.names.entry(from.clone()).or_insert(is_there);
                self.note_name(to, line, EXISTS);
                if let Taken::Moved(aside) = taken {
                    self.names.entry(aside.clone()).or_insert(false);
                }
            }
            Asks::List(_) => {}
        }
    }

    /// The first request for a name tells whether it was there: the outcome `there` says so.
    fn note_name(&mut self, name: &str, line: &Line, there: &str) {
        self.names.entry(name.to_owned()).or_insert(line.outcome == there);
    }

    fn recorded(self) -> Recorded {
        Recorded {
            clients: self.clients.into_values().map(|client| client.calls).collect(),
            objects: self.objects,
            names: self.names,
            servers: self.servers,
            span: Span::from_nanos(self.end_ns.saturating_sub(self.start_ns)),
        }
    }
}

impl ReadClient {
    fn take(&mut self, line: &Line, start_ns: u64, asks: Asks) {
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= line.submitted_ns) {
            self.ends.pop();
        }
        let depth = self.ends.len() as u32;
        self.ends.push(Reverse(line.completed_ns));
        let mut after = Vec::new();
        for subject in asks.subjects() {
            let same = self.same.entry(subject).or_default();
            let ended = same.iter().rev().find(|(_, end)| *end <= line.submitted_ns);
            after.extend(ended.map(|(index, _)| *index));
            same.push((self.calls.len(), line.completed_ns));
        }
        let at = Span::from_nanos(line.submitted_ns - start_ns);
        self.calls.push(Call { at, depth, after, asks });
    }
}

impl Asks {
    /// What it is about; a listing is about nothing in particular.
    fn subjects(&self) -> Vec<Subject> {
        let subject = match self {
            Self::Read { object, .. }
            | Self::Write { object, .. }
            | Self::Remove { object }
            | Self::Extend { object, .. } => Subject::Object(*object),
            Self::Create(name) | Self::Open(name) | Self::Unlink(name) => {
                Subject::Name(name.clone())
            }
            Self::Rename { from, to, taken } => {
                let aside = if let Taken::Moved(aside) = taken { Some(aside) } else { None };
                let names = [Some(from), Some(to).filter(|to| *to != from), aside];
                return names.into_iter().flatten().cloned().map(Subject::Name).collect();
            }
            Self::List(_) => return Vec::new(),
        };
        vec![subject]
    }
}
