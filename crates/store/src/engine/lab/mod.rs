//! The `lab` engine: the client of a lab's servers.
//!
//! One value is one client, with one connection to each server. A server that goes away is ridden
//! out: requests wait, and are sent again when it is back, until their deadlines pass. All of them
//! may be repeated; the catalog recognizes a repeated create or unlink by the client's number and
//! the request's.

mod link;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use afflux_core::units::Span;
use afflux_node::clock;

use self::link::{Ask, Link, Sink};
use super::{
    Capabilities, CompletionSender, Engine, EngineError, Operation, Place, Request,
    ServerStatistics,
};
use crate::lab::cluster::state::LabState;
use crate::lab::server::ServerReport;
use crate::lab::wire::{Hello, Kind, MAX_CONTROL_BYTES, MAX_DATA_BYTES};

/// How long a request waits for its answer when it does not say.
pub const DEFAULT_DEADLINE: Span = Span::from_secs(30);
const STATISTICS_DEADLINE: Span = Span::from_secs(5);

/// Where the servers of a lab are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabAddresses {
    /// The lab's name, which its servers must confirm; `None` takes any.
    pub lab: Option<String>,
    /// The storage servers, by index; at least one.
    pub storage: Vec<SocketAddr>,
    /// The metadata server.
    pub metadata: SocketAddr,
}

/// A client of a lab.
#[derive(Debug)]
pub struct LabEngine {
    durable: bool,
    storage: Vec<Arc<Link>>,
    metadata: Arc<Link>,
}

impl LabEngine {
    /// Connects to the lab in `dir`. The servers' addresses are looked up there again when a
    /// connection is lost, so that a lab may come back on other ports.
    pub fn connect(dir: &Path) -> Result<Self, ConnectError> {
        let state = LabState::load_running(dir).map_err(ConnectError::State)?;
        let addresses = state.addresses();
        let durable = state.device().is_ok_and(|device| device.keeps());
        Self::start(&addresses, Some(dir), durable)
    }

    /// Connects to servers at known addresses. `durable` says whether they keep their objects.
    pub fn connect_to(addresses: &LabAddresses, durable: bool) -> Result<Self, ConnectError> {
        Self::start(addresses, None, durable)
    }

    fn start(
        addresses: &LabAddresses,
        dir: Option<&Path>,
        durable: bool,
    ) -> Result<Self, ConnectError> {
        let client = random_number();
        let link = |server: String, address: SocketAddr| {
            let hello = Hello { client, lab: addresses.lab.clone(), server: Some(server) };
            Link::start(hello, address, dir.map(Path::to_owned))
                .map_err(|source| ConnectError::Thread { source })
        };
        let mut storage = Vec::new();
        for (index, &address) in addresses.storage.iter().enumerate() {
            storage.push(link(format!("storage {index}"), address)?);
        }
        let metadata = link("metadata".to_owned(), addresses.metadata)?;
        let engine = Self { durable, storage, metadata };
        for link in engine.links() {
            link.wait_for_first_try()?;
        }
        Ok(engine)
    }

    fn links(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.storage.iter().chain(std::iter::once(&self.metadata))
    }

    /// What the servers report, storage servers first.
    pub fn reports(&self) -> Result<Vec<ServerReport>, EngineError> {
        let (sender, receiver) = mpsc::channel();
        for (index, link) in self.links().enumerate() {
            let sink = Sink::Text { index, done: sender.clone() };
            let ask = Ask { deadline: STATISTICS_DEADLINE, ..Ask::new(Kind::Statistics, sink) };
            link.submit(ask);
        }
        drop(sender);
        let mut reports = vec![ServerReport::default(); self.storage.len() + 1];
        for (index, outcome) in receiver {
            let text = outcome?;
            let report = serde_json::from_slice(&text).map_err(|error| EngineError::Protocol {
                server: "a server".to_owned(),
                why: format!("its report cannot be read: {error}"),
            })?;
            if let Some(place) = reports.get_mut(index) {
                *place = report;
            }
        }
        Ok(reports)
    }

    /// Turns a request into what goes over the wire, and finds the link that it goes over.
    fn ask(
        &self,
        request: Request,
        done: &CompletionSender,
    ) -> Result<(&Arc<Link>, Ask), EngineError> {
        let link = match request.place {
            Place::Metadata => &self.metadata,
            Place::Storage(index) => self.storage.get(index as usize).ok_or_else(|| {
                let servers = self.storage.len();
                EngineError::Invalid(format!("server {index} of {servers}, counted from zero"))
            })?,
        };
        let is_catalog = matches!(request.operation, Operation::Catalog(_));
        if is_catalog != (request.place == Place::Metadata) {
            let why = "catalog operations, and no others, go to the metadata server";
            return Err(EngineError::Invalid(why.to_owned()));
        }
        let sink = Sink::Caller { tag: request.tag, place: request.place, done: done.clone() };
        let mut ask = Ask::new(Kind::Catalog, sink);
        ask.header.job = request.job;
        ask.header.credit_wanted = request.credit_wanted;
        ask.deadline = request.deadline.unwrap_or(DEFAULT_DEADLINE);
        ask.fill(request.operation)?;
        Ok((link, ask))
    }
}

impl Ask {
    fn fill(&mut self, operation: Operation) -> Result<(), EngineError> {
        let header = &mut self.header;
        let too_long = |length: usize| {
            let why = format!("{length} bytes in one request, at most {MAX_DATA_BYTES} are sent");
            Err(EngineError::Invalid(why))
        };
        let (kind, object) = match operation {
            Operation::Read { object, offset_bytes, length_bytes, buffer } => {
                if length_bytes > MAX_DATA_BYTES {
                    return too_long(length_bytes as usize);
                }
                (header.second, header.fourth) = (offset_bytes, length_bytes);
                self.buffer = buffer;
                (Kind::Read, object)
            }
            Operation::Write { object, offset_bytes, data } => {
                if data.len() > MAX_DATA_BYTES as usize {
                    return too_long(data.len());
                }
                header.second = offset_bytes;
                self.data = data;
                (Kind::Write, object)
            }
            Operation::Remove { object } => (Kind::Remove, object),
            Operation::Catalog(operation) => {
                let text = serde_json::to_vec(&operation)
                    .map_err(|error| EngineError::Invalid(error.to_string()))?;
                if text.len() > MAX_CONTROL_BYTES as usize {
                    return Err(EngineError::Invalid("the name is too long".to_owned()));
                }
                self.data = text.into();
                return Ok(());
            }
        };
        header.kind = kind;
        (header.first, header.third) = (object.file, object.stripe);
        Ok(())
    }
}

impl Engine for LabEngine {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { durable: self.durable, keeps_data: true, server_times: true, cancels: true }
    }

    fn servers(&self) -> u32 {
        self.storage.len() as u32
    }

    fn submit(&self, request: Request, done: &CompletionSender) {
        let (tag, place) = (request.tag, request.place);
        match self.ask(request, done) {
            Ok((link, ask)) => link.submit(ask),
            Err(error) => {
                let sink = Sink::Caller { tag, place, done: done.clone() };
                sink.fail(error, clock::now());
            }
        }
    }

    fn greeting(&self, place: Place) -> (u64, u16) {
        match place {
            Place::Metadata => self.metadata.greeting(),
            Place::Storage(index) => {
                self.storage.get(index as usize).map_or((0, 0), |link| link.greeting())
            }
        }
    }

    fn cancel(&self, tag: u64) {
        let _found = self.links().any(|link| link.cancel(tag));
    }

    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError> {
        Ok(self.reports()?.into_iter().map(|report| report.statistics).collect())
    }
}

impl Drop for LabEngine {
    fn drop(&mut self) {
        for link in self.links() {
            link.close();
        }
        for link in self.links() {
            link.join();
        }
    }
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no lab there, or it is not running.
    #[error(transparent)]
    State(crate::lab::cluster::state::StateError),
    /// A server is not there, or another one than was expected.
    #[error(transparent)]
    Server(#[from] EngineError),
    /// A thread could not be started.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
}

/// A number that no other client has. The standard library seeds its hashers from the system.
fn random_number() -> u64 {
    loop {
        let number = RandomState::new().build_hasher().finish();
        if number != 0 {
            return number;
        }
    }
}
