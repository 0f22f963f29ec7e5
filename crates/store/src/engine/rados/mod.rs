//! The `rados` engine: objects in a Ceph cluster, by its client library.
//!
//! Each pool is taken as one server, so that a pool that is bound to one OSD, or to a group of
//! them, gives one regulated path to just these. One value is one client with connections of its
//! own. Servers that go away are ridden out by the library: requests wait until they are back, or
//! until their deadlines pass. Replication and recovery are Ceph's.

mod catalog;
mod objects;
mod osds;
mod under_way;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use afflux_core::units::{Span, Time};
use afflux_librados::{Account, Cluster, Errno, Failed, Pool};
use afflux_node::clock;

use self::catalog::{Catalog, Problem};
use self::objects::{Known, Work};
use self::osds::Osds;
use self::under_way::{Ticket, UnderWay};
use super::{
    Capabilities, CatalogOperation, Completion, CompletionSender, Engine, EngineError, Operation,
    Place, Request, ServerStatistics,
};
use crate::sync::{lock, wait};

/// What pools are tagged with that belong to a striped store, unless they are named.
pub const APPLICATION: &str = "afflux";
/// How long a request waits for its answer when it does not say.
pub const DEFAULT_DEADLINE: Span = Span::from_secs(30);
/// How long a client waits for the cluster's monitors.
const CONNECT: Span = Span::from_secs(10);
/// How long the last answers may take when a client ends.
const LAST_ANSWERS: Span = Span::from_secs(10);
/// Objects of ours are kept apart from others in the same pool.
const NAMESPACE: &std::ffi::CStr = c"afflux";
/// Operations of the catalog that one client has under way at once.
const CATALOG_THREADS: usize = 4;

/// Which cluster, in whose name, and which pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RadosStore {
    /// The user, without `client.`; `None` is `admin`.
    pub user: Option<String>,
    /// The cluster's `ceph.conf`; `None` is where Ceph's own programs look.
    pub configuration: Option<PathBuf>,
    /// The pools, in the order in which layouts count them; when none is named, those that are
    /// tagged as [`APPLICATION`], by their names and the numbers at their ends.
    pub pools: Vec<String>,
}

/// Why a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RadosError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] afflux_librados::ConnectError),
    /// Something about its pools cannot be had.
    #[error(transparent)]
    Pool(#[from] Failed),
    /// No pool is ours.
    #[error(
        "no pool is tagged `{APPLICATION}`: tag those that are to be the servers by `ceph osd pool \
         application enable POOL {APPLICATION}`, or name them as in rados:CONF:POOL,POOL"
    )]
    NoPool,
    /// One pool stands for two servers.
    #[error("pool `{0}` is named twice: each pool is one server")]
    Twice(String),
    /// A pool belongs to a store of other servers.
    #[error(
        "pool `{pool}` belongs to a store whose servers are {kept}, not {ours}: name the same \
         pools in the same order; one that was deleted and made again is another one"
    )]
    OtherPools {
        /// The pool.
        pool: String,
        /// Names and numbers of the pools that it knows.
        kept: String,
        /// Those that were named or found.
        ours: String,
    },
    /// The catalog cannot be read or written.
    #[error("{0}")]
    Catalog(String),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A client of pools in a cluster.
#[derive(Debug)]
pub struct RadosEngine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of a client share.
#[derive(Debug)]
struct Shared {
    cluster: Arc<Cluster>,
    pools: Vec<Arc<Pool>>,
    /// What the servers are called in messages: the pools, and last the catalog.
    servers: Vec<Arc<str>>,
    catalog: Catalog,
    osds: Osds,
    under_way: UnderWay,
    known: Known,
    names: Mutex<Names>,
    asked: Condvar,
}

/// Operations of the catalog that wait for a thread.
#[derive(Debug, Default)]
struct Names {
    waiting: VecDeque<(Arc<Ticket>, CatalogOperation)>,
    closed: bool,
}

impl RadosEngine {
    /// Connects one client.
    pub fn connect(store: &RadosStore) -> Result<Self, RadosError> {
        let account =
            Account { user: store.user.clone(), configuration: store.configuration.clone() };
        let cluster = Cluster::connect(&account, clock::std_duration(CONNECT))?;
        let pools = open_pools(&cluster, &store.pools)?;
        let names = pools.iter().map(|pool| format!("pool {}", pool.name()).into());
        let shared = Arc::new(Shared {
            servers: names.chain(["the catalog".into()]).collect(),
            catalog: Catalog::open(&pools)?,
            cluster,
            pools,
            osds: Osds::default(),
            under_way: UnderWay::default(),
            known: Known::default(),
            names: Mutex::default(),
            asked: Condvar::new(),
        });
        let mut engine = Self { shared, threads: Vec::new() };
        engine.start(|shared| shared.under_way.watch())?;
        for _ in 0..CATALOG_THREADS {
            engine.start(|shared| shared.serve_names())?;
        }
        Ok(engine)
    }

    fn start(&mut self, work: fn(&Shared)) -> Result<(), RadosError> {
        let shared = Arc::clone(&self.shared);
        let builder = thread::Builder::new().name("rados".into()).stack_size(256 << 10);
        let thread = builder.spawn(move || work(&shared)).map_err(RadosError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }

    /// The pool that a request goes to, the first for the catalog's, and what its server is called.
    fn route(&self, request: &Request) -> Result<(&Arc<Pool>, &Arc<str>), EngineError> {
        let (pools, servers) = (&self.shared.pools, &self.shared.servers);
        let index = match (request.place, &request.operation) {
            (Place::Metadata, Operation::Catalog(_)) => {
                return Ok((&pools[0], &servers[pools.len()]));
            }
            (Place::Metadata, _) | (_, Operation::Catalog(_)) => {
                let why = "catalog operations, and no others, go to the catalog";
                return Err(EngineError::Invalid(why.to_owned()));
            }
            (Place::Storage(index), Operation::Read { offset_bytes, length_bytes, .. }) => {
                objects::check(*offset_bytes, *length_bytes as usize)?;
                index as usize
            }
            (Place::Storage(index), Operation::Write { offset_bytes, data, .. }) => {
                objects::check(*offset_bytes, data.len())?;
                index as usize
            }
            (Place::Storage(index), Operation::Remove { .. }) => index as usize,
        };
        pools.get(index).zip(servers.get(index)).ok_or_else(|| {
            let servers = pools.len();
            EngineError::Invalid(format!("server {index} of {servers}, counted from zero"))
        })
    }
}

impl Shared {
    fn serve_names(&self) {
        while let Some((ticket, operation)) = self.next_name() {
            if ticket.has_ended() {
                continue;
            }
            let outcome = self.catalog.serve(&ticket, operation).map_err(|problem| match problem {
                Problem::Answer(error) => error,
                Problem::Cluster(errno) => {
                    self.error(&self.pools[0], &ticket.server, "serve the catalog", errno)
                }
            });
            self.under_way.end(&ticket, outcome);
        }
    }

    fn next_name(&self) -> Option<(Arc<Ticket>, CatalogOperation)> {
        let mut names = lock(&self.names);
        loop {
            if names.closed {
                return None;
            }
            if let Some(next) = names.waiting.pop_front() {
                return Some(next);
            }
            names = wait(&self.asked, names);
        }
    }

    /// What an error of the library's means to a caller.
    fn error(&self, pool: &Pool, server: &str, doing: &str, errno: Errno) -> EngineError {
        let server = server.to_owned();
        match errno {
            Errno::NOSPC | Errno::DQUOT => EngineError::NoSpace { server },
            Errno::CANCELED => EngineError::Cancelled,
            // What a client is told that the cluster has shut out, and one that was shut down.
            Errno::SHUTDOWN | Errno::NOTCONN => {
                let why = format!("this client was shut out of the cluster ({errno})");
                EngineError::Unreachable { server, why }
            }
            _ if !pool.exists() => {
                let what = format!("cannot {doing}: the pool was deleted, and all that was in it");
                EngineError::Io { server, what }
            }
            _ => EngineError::Io { server, what: format!("cannot {doing}: {errno}") },
        }
    }
}

impl Engine for RadosEngine {
    fn name(&self) -> &'static str {
        "rados"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { durable: true, keeps_data: true, server_times: false, cancels: true }
    }

    fn servers(&self) -> u32 {
        self.shared.pools.len() as u32
    }

    fn submit(&self, request: Request, done: &CompletionSender) {
        let (tag, place) = (request.tag, request.place);
        let (pool, server) = match self.route(&request) {
            Ok(route) => route,
            Err(error) => {
                done.send(Completion::failed(tag, place, error));
                return;
            }
        };
        let patience = request.deadline.unwrap_or(DEFAULT_DEADLINE);
        let ticket = self.shared.under_way.begin((tag, place), server, patience, done);
        let work = |object| Work {
            shared: Arc::clone(&self.shared),
            pool: Arc::clone(pool),
            ticket: Arc::clone(&ticket),
            object,
        };
        match request.operation {
            Operation::Read { object, offset_bytes, length_bytes, buffer } => {
                work(object).read(offset_bytes, length_bytes as usize, buffer);
            }
            Operation::Write { object, offset_bytes, data } => {
                work(object).write(offset_bytes, data);
            }
            Operation::Remove { object } => work(object).remove(),
            Operation::Catalog(operation) => {
                lock(&self.shared.names).waiting.push_back((Arc::clone(&ticket), operation));
                self.shared.asked.notify_one();
            }
        }
    }

    fn cancel(&self, tag: u64) {
        if let Some(ticket) = self.shared.under_way.find(tag) {
            self.shared.under_way.end(&ticket, Err(EngineError::Cancelled));
        }
    }

    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError> {
        let shared = &self.shared;
        let pools: Vec<_> = shared.pools.iter().map(|pool| (pool.name(), pool.id())).collect();
        let failed = |error: Failed| {
            let (server, what) = ("the cluster".to_owned(), error.to_string());
            EngineError::Io { server, what }
        };
        let mut all = shared.osds.statistics(&shared.cluster, &pools).map_err(failed)?;
        // The catalog is in the first pool, and so has its numbers.
        all.extend(all.first().cloned());
        Ok(all)
    }
}

impl Drop for RadosEngine {
    fn drop(&mut self) {
        lock(&self.shared.names).closed = true;
        self.shared.asked.notify_all();
        self.shared.under_way.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked is through as well.
            let _ = thread.join();
        }
        // Requests that were given up still end, each by a closure that holds the client; none
        // may be under way when the library is shut down, or it would never end.
        let patience: Time = clock::now() + LAST_ANSWERS;
        while Arc::strong_count(&self.shared) > 1 && clock::now() < patience {
            clock::sleep(Span::from_millis(1));
        }
    }
}

/// Opens the pools that are named, or those that are tagged.
fn open_pools(cluster: &Arc<Cluster>, named: &[String]) -> Result<Vec<Arc<Pool>>, RadosError> {
    let open = |name: &String| cluster.pool(name, NAMESPACE);
    if named.is_empty() {
        let mut names = cluster.pools()?;
        names.sort_by_key(|name| in_order(name));
        let mut pools = Vec::new();
        for name in &names {
            let pool = open(name)?;
            if cluster.applications(&pool)?.iter().any(|tag| tag == APPLICATION) {
                pools.push(pool);
            }
        }
        return if pools.is_empty() { Err(RadosError::NoPool) } else { Ok(pools) };
    }
    let mut pools: Vec<Arc<Pool>> = Vec::new();
    for name in named {
        let pool = open(name)?;
        if pools.iter().any(|other| other.id() == pool.id()) {
            return Err(RadosError::Twice(name.clone()));
        }
        pools.push(pool);
    }
    Ok(pools)
}

/// What names are ordered by: `srv9` comes before `srv10`.
fn in_order(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let number = name[stem.len()..].parse().unwrap_or_default();
    (stem.to_owned(), number, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_ordered_by_the_numbers_at_their_ends() {
        let mut names = ["srv10", "b", "srv9", "srv1", "a2", "srv", "srv01"].map(str::to_owned);
        names.sort_by_key(|name| in_order(name));
        assert_eq!(names, ["a2", "b", "srv", "srv01", "srv1", "srv9", "srv10"]);
    }
}
