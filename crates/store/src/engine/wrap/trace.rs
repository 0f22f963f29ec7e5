//! `trace:FILE@ENGINE`: one JSON line for the end of each request, as `docs/engines.md` says.
//!
//! Lines are buffered. An error of the file fails no request: it is reported once, as a warning of
//! the engine, and nothing is written after it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use afflux_core::parameters::{Named, Parameter, ParameterError, Parameters};
use afflux_core::units::Time;
use afflux_node::clock;

use super::{WrapError, Wrapper, WrapperEntry};
use crate::engine::{
    Answer, Capabilities, CatalogOperation, Completion, CompletionSender, Engine, EngineError,
    ObjectId, Operation, Place, Receive, Request, ServerStatistics,
};
use crate::sync::lock;
use crate::trace::{DONE, Header, Line};

pub(super) const ENTRY: WrapperEntry = WrapperEntry {
    name: "trace",
    about: "writes a JSON line for the end of each request into FILE, which is replaced",
    grammar: "trace:FILE@ENGINE",
    read: |options| Ok(Arc::new(Trace::parse(options)?)),
};

const NAMED: Named = Named {
    kind: "wrapper",
    name: "trace",
    parameters: &[Parameter { name: "file", default: "", about: "the file, without `@` or `,`" }],
};

/// A trace that all clients write.
#[derive(Debug)]
struct Trace {
    file: PathBuf,
    log: Mutex<Option<Arc<Log>>>,
}

impl Trace {
    fn parse(options: &str) -> Result<Self, ParameterError> {
        let file = Parameters::parse(NAMED, options)?.text("file").into();
        Ok(Self { file, log: Mutex::default() })
    }

    /// The log, which the first client begins.
    fn log(&self) -> io::Result<Arc<Log>> {
        let mut log = lock(&self.log);
        if let Some(log) = log.as_ref() {
            return Ok(Arc::clone(log));
        }
        let mut out = BufWriter::new(File::create(&self.file)?);
        serde_json::to_writer(&mut out, &Header::CURRENT)?;
        out.write_all(b"\n")?;
        let name = self.file.display().to_string();
        let state = Mutex::new(LogState { out, trouble: None });
        let begun = Arc::new(Log { name, state, clients: AtomicU32::new(0) });
        Ok(Arc::clone(log.insert(begun)))
    }
}

impl Wrapper for Trace {
    fn around(&self, inner: Arc<dyn Engine>) -> Result<Arc<dyn Engine>, WrapError> {
        let file = || self.file.clone();
        let log = self.log().map_err(|source| WrapError::Trace { file: file(), source })?;
        Ok(Arc::new(Traced { inner, log, client: OnceLock::new() }))
    }
}

/// The file as it is written.
#[derive(Debug)]
struct Log {
    name: String,
    state: Mutex<LogState>,
    clients: AtomicU32,
}

#[derive(Debug)]
struct LogState {
    out: BufWriter<File>,
    // Why nothing is written any more, until somebody has asked; then an empty text.
    trouble: Option<String>,
}

impl Log {
    fn write(&self, line: &Line) {
        self.attempt(|out| {
            serde_json::to_writer(&mut *out, line)?;
            out.write_all(b"\n")
        });
    }

    fn attempt(&self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let mut state = lock(&self.state);
        if state.trouble.is_some() {
            return;
        }
        if let Err(error) = write(&mut state.out) {
            state.trouble =
                Some(format!("the trace {} ends early, by an error: {error}", self.name));
        }
    }

    /// What went wrong, once.
    fn trouble(&self) -> Option<String> {
        self.attempt(Write::flush);
        let mut state = lock(&self.state);
        state.trouble.as_mut().map(std::mem::take).filter(|trouble| !trouble.is_empty())
    }
}

impl Line {
    fn begin(client: u32, submitted: Time, request: &Request) -> Self {
        let (operation, object, name, offset_bytes) = match &request.operation {
            Operation::Read { object, offset_bytes, .. } => {
                ("read", Some(text(object)), None, *offset_bytes)
            }
            Operation::Write { object, offset_bytes, .. } => {
                ("write", Some(text(object)), None, *offset_bytes)
            }
            Operation::Remove { object } => ("remove", Some(text(object)), None, 0),
            Operation::Catalog(operation) => {
                let (word, object, name) = catalog(operation);
                (word, object, name, 0)
            }
        };
        let (to, taken) = match &request.operation {
            Operation::Catalog(CatalogOperation::Rename { to, taken, .. }) => {
                (Some(to.clone()), Some(taken.clone()))
            }
            _ => (None, None),
        };
        Self {
            submitted_ns: submitted.as_nanos(),
            completed_ns: 0,
            client,
            place: request.place.to_string(),
            class: request.operation.class(),
            operation: operation.into(),
            object,
            name,
            to,
            taken,
            offset_bytes,
            length_bytes: request.operation.data_bytes(),
            outcome: "".into(),
            moved_bytes: 0,
            access_ns: 0,
            queued_ns: 0,
        }
    }

    fn end(mut self, completion: &Completion) -> Self {
        self.completed_ns = completion.arrived.as_nanos();
        self.access_ns = completion.access.as_nanos();
        self.queued_ns = completion.queued.as_nanos();
        self.outcome = completion.outcome.as_ref().map_or_else(word, |_| DONE).into();
        self.moved_bytes = match &completion.outcome {
            Ok(Answer::Read(data)) => data.len() as u64,
            Ok(_) => self.length_bytes,
            Err(_) => 0,
        };
        self
    }
}

fn text(object: &ObjectId) -> String {
    format!("{}.{}", object.file, object.stripe)
}

/// The word for an operation of the catalog, the file that it is about, by number or by name.
fn catalog(operation: &CatalogOperation) -> (&'static str, Option<String>, Option<String>) {
    let (word, name) = match operation {
        CatalogOperation::Extend { file, .. } => return ("extend", Some(file.to_string()), None),
        CatalogOperation::Create { name, .. } => ("create", name),
        CatalogOperation::Open { name } => ("open", name),
        CatalogOperation::Unlink { name } => ("unlink", name),
        CatalogOperation::Rename { from, .. } => ("rename", from),
        CatalogOperation::List { prefix, .. } => ("list", prefix),
    };
    (word, None, Some(name.clone()))
}

const fn word(error: &EngineError) -> &'static str {
    match error {
        EngineError::Unreachable { .. } => "unreachable",
        EngineError::TimedOut { .. } => "timed out",
        EngineError::Cancelled => "cancelled",
        EngineError::NoSpace { .. } => "no space",
        EngineError::NotFound(_) => "not found",
        EngineError::Exists(_) => "exists",
        EngineError::Invalid(_) => "invalid",
        EngineError::Unsupported { .. } => "unsupported",
        EngineError::Io { .. } => "i/o error",
        EngineError::Protocol { .. } => "protocol error",
    }
}

/// An engine whose requests are written down.
struct Traced {
    inner: Arc<dyn Engine>,
    log: Arc<Log>,
    // Numbered with the first request, so that who only connects takes no number.
    client: OnceLock<u32>,
}

/// A request whose end will be written.
#[derive(Debug)]
struct Begun {
    line: Line,
    log: Arc<Log>,
    done: CompletionSender,
}

impl Receive for Begun {
    fn receive(&self, completion: Completion) {
        self.log.write(&self.line.clone().end(&completion));
        self.done.send(completion);
    }
}

impl Engine for Traced {
    fn name(&self) -> &'static str {
        NAMED.name
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn servers(&self) -> u32 {
        self.inner.servers()
    }

    fn submit(&self, request: Request, done: &CompletionSender) {
        let next = || self.log.clients.fetch_add(1, Ordering::Relaxed);
        let client = *self.client.get_or_init(next);
        let line = Line::begin(client, clock::now(), &request);
        let begun = Begun { line, log: Arc::clone(&self.log), done: done.clone() };
        self.inner.submit(request, &CompletionSender::to(Arc::new(begun)));
    }

    fn cancel(&self, tag: u64) {
        self.inner.cancel(tag);
    }

    fn greeting(&self, place: Place) -> (u64, u16) {
        self.inner.greeting(place)
    }

    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError> {
        self.inner.statistics()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.inner.warnings();
        warnings.extend(self.log.trouble());
        warnings
    }
}

impl Drop for Traced {
    /// What a client did is in the file when it has gone.
    fn drop(&mut self) {
        self.log.attempt(Write::flush);
    }
}
