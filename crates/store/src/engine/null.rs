//! The `null` engine: answers without doing anything. What is measured with it is everything else.
//!
//! It is also the file to copy for a new engine: the interface, the conformance suite in
//! [`super::conformance`] and a line in [`super::registry::ENGINES`] are all there is to one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use afflux_core::units::{Span, Time};
use afflux_node::clock;

use super::{
    Answer, Capabilities, Completion, CompletionSender, Engine, EngineError, Operation, Place,
    Request, ServerStatistics,
};
use crate::catalog::{Catalog, Origin};
use crate::sync::{lock, wait, wait_for};

/// Answers at once, or after a set delay. Writes vanish, reads give zeros; names are kept for as
/// long as the value lives.
#[derive(Debug)]
pub struct NullEngine {
    servers: u32,
    delay: Span,
    shared: Arc<Shared>,
    timer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    catalog: Catalog,
    statistics: Vec<ServerStatistics>,
    // What is answered when; the number keeps those apart that fall on the same nanosecond.
    due: BTreeMap<(Time, u64), (Completion, CompletionSender)>,
    submitted: u64,
    closing: bool,
}

impl NullEngine {
    /// An engine of so many servers that answers at once.
    pub fn new(servers: u32) -> Self {
        let servers = servers.max(1);
        let named = |server: String| ServerStatistics { server, ..ServerStatistics::default() };
        let storage = (0..servers).map(|index| named(format!("storage {index}")));
        let state = State {
            catalog: Catalog::new(servers),
            statistics: storage.chain(std::iter::once(named("metadata".to_owned()))).collect(),
            due: BTreeMap::new(),
            submitted: 0,
            closing: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        Self { servers, delay: Span::ZERO, shared, timer: None }
    }

    /// An engine that answers after `delay`.
    pub fn delayed(servers: u32, delay: Span) -> std::io::Result<Self> {
        let mut engine = Self::new(servers);
        engine.delay = delay;
        if delay > Span::ZERO {
            let shared = Arc::clone(&engine.shared);
            let builder = thread::Builder::new().name("null".into());
            engine.timer = Some(builder.spawn(move || shared.deliver_all())?);
        }
        Ok(engine)
    }
}

impl State {
    fn answer(&mut self, request: Request) -> Result<Answer, EngineError> {
        let index = match (request.place, &request.operation) {
            (Place::Metadata, Operation::Catalog(_)) => self.statistics.len() - 1,
            (Place::Storage(server), Operation::Catalog(_)) => {
                return Err(EngineError::Invalid(format!("server {server} keeps no names")));
            }
            (Place::Metadata, _) => {
                return Err(EngineError::Invalid("the catalog keeps no objects".to_owned()));
            }
            (Place::Storage(server), _) if server as usize >= self.statistics.len() - 1 => {
                let servers = self.statistics.len() - 1;
                let why = format!("server {server} of {servers}, counted from zero");
                return Err(EngineError::Invalid(why));
            }
            (Place::Storage(server), _) => server as usize,
        };
        let statistics = &mut self.statistics[index];
        statistics.requests += 1;
        match request.operation {
            Operation::Read { length_bytes, mut buffer, .. } => {
                statistics.read_bytes += u64::from(length_bytes);
                buffer.clear();
                buffer.resize(length_bytes as usize, 0);
                Ok(Answer::Read(buffer))
            }
            Operation::Write { data, .. } => {
                statistics.written_bytes += data.len() as u64;
                Ok(Answer::Done)
            }
            Operation::Remove { .. } => Ok(Answer::Done),
            Operation::Catalog(operation) => {
                let (answer, change) = self.catalog.decide(&operation, Origin::default())?;
                if let Some(change) = change {
                    self.catalog.apply(&change);
                }
                Ok(answer)
            }
        }
    }
}

impl Shared {
    fn deliver_all(&self) {
        let mut state = lock(&self.state);
        while !state.closing {
            let now = clock::now();
            state = match state.due.first_entry() {
                None => wait(&self.changed, state),
                Some(first) if first.key().0 <= now => {
                    let (mut completion, done) = first.remove();
                    completion.arrived = now;
                    done.send(completion);
                    state
                }
                Some(first) => {
                    let left = first.key().0.since(now);
                    wait_for(&self.changed, state, clock::std_duration(left))
                }
            };
        }
    }
}

impl Engine for NullEngine {
    fn name(&self) -> &'static str {
        "null"
    }

    fn capabilities(&self) -> Capabilities {
        let cancels = self.timer.is_some();
        Capabilities { durable: false, keeps_data: false, server_times: false, cancels }
    }

    fn servers(&self) -> u32 {
        self.servers
    }

    fn submit(&self, request: Request, done: &CompletionSender) {
        let (tag, place) = (request.tag, request.place);
        let arrived = clock::now();
        let mut state = lock(&self.shared.state);
        let outcome = state.answer(request);
        let (access, queued, credit) = (Span::ZERO, Span::ZERO, 0);
        let completion = Completion { tag, place, outcome, arrived, access, queued, credit };
        if self.timer.is_none() {
            drop(state);
            done.send(completion);
            return;
        }
        state.submitted += 1;
        let key = (arrived + self.delay, state.submitted);
        state.due.insert(key, (completion, done.clone()));
        drop(state);
        self.shared.changed.notify_one();
    }

    fn cancel(&self, tag: u64) {
        let mut state = lock(&self.shared.state);
        let found = state.due.iter().find(|(_, (completion, _))| completion.tag == tag);
        let Some(key) = found.map(|(key, _)| *key) else { return };
        if let Some((mut completion, done)) = state.due.remove(&key) {
            drop(state);
            completion.outcome = Err(EngineError::Cancelled);
            completion.arrived = clock::now();
            done.send(completion);
        }
    }

    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError> {
        Ok(lock(&self.shared.state).statistics.clone())
    }
}

impl Drop for NullEngine {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.closing = true;
        let due = std::mem::take(&mut state.due);
        drop(state);
        self.shared.changed.notify_one();
        for (mut completion, done) in due.into_values() {
            completion.outcome = Err(EngineError::Cancelled);
            done.send(completion);
        }
        if let Some(timer) = self.timer.take() {
            let _ = timer.join();
        }
    }
}
