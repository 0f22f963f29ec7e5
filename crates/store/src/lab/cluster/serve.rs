//! What a server's own process does: the hidden command that `lab up` starts once for each server.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::lab::server::{self, Role, ServerError, ServerOptions};

/// What a server's process is told, as JSON in its one argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServeOrder {
    /// The lab's name.
    pub lab: String,
    /// The storage server's index; `None` makes it the metadata server.
    pub storage: Option<u32>,
    /// How many storage servers there are.
    pub servers: u32,
    /// Its directory.
    pub dir: PathBuf,
    /// The device of a storage server.
    pub device: String,
    /// Most bytes on it.
    pub capacity_bytes: Option<u64>,
    /// Service threads.
    pub threads: usize,
    /// The credits of a storage server, as they were written.
    #[serde(default)]
    pub credits: Option<String>,
    /// The port on the loopback interface; 0 takes a free one.
    pub port: u16,
    /// Live on without the process that started it, in a session of its own; otherwise end when
    /// standard input does, which it does when that process ends in whatever way.
    pub detached: bool,
}

/// The one line that a server's process says on standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServeWord {
    /// It listens on this port.
    Ready(u16),
    /// It cannot listen where it should, for this reason.
    Taken(String),
    /// It cannot start, for this reason.
    Failed(String),
}

/// Why a server's process ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The order makes no sense.
    #[error("the order for a server cannot be read: {0}; it is written by `afflux lab up`")]
    Order(String),
    /// The server did not start.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Runs a server as `order` says until the process is ended; says on `out` when it is ready.
pub fn serve(order: &str, out: &mut dyn Write) -> Result<(), ServeError> {
    let ended = read_order(order).and_then(|(order, options)| {
        become_a_server(&order);
        // Who started us reads one line and may be gone when it is said.
        server::run(options, |address| say(out, &ServeWord::Ready(address.port())))?;
        Ok(())
    });
    if let Err(error) = &ended {
        let why = error.to_string();
        let word = match error {
            ServeError::Server(ServerError::Listen { .. }) => ServeWord::Taken(why),
            _ => ServeWord::Failed(why),
        };
        say(out, &word);
    }
    ended
}

fn read_order(text: &str) -> Result<(ServeOrder, ServerOptions), ServeError> {
    let order: ServeOrder =
        serde_json::from_str(text).map_err(|error| ServeError::Order(error.to_string()))?;
    let device = order.device.parse();
    let role = match order.storage {
        Some(index) => Role::Storage {
            index,
            device: device.map_err(|error| ServeError::Order(format!("{error}")))?,
            capacity_bytes: order.capacity_bytes,
        },
        None => Role::Metadata { servers: order.servers },
    };
    let mut options = ServerOptions::new(role, &order.dir);
    options.lab.clone_from(&order.lab);
    options.listen = SocketAddr::from(([127, 0, 0, 1], order.port));
    options.threads = order.threads;
    let credits = order.credits.as_deref().map(str::parse).transpose();
    options.credits = credits.map_err(|error| ServeError::Order(format!("{error}")))?;
    Ok((order, options))
}

fn become_a_server(order: &ServeOrder) {
    if order.detached {
        // Fails only for the leader of a group, which has what is wanted already.
        let _ = rustix::process::setsid();
    } else {
        // A pipe tells the end of its other side's process, whichever thread had started us; the
        // kernel's parent death signal would tell the end of that thread.
        let watch = std::thread::Builder::new().name("parent".into()).stack_size(64 << 10);
        let watching = watch.spawn(|| {
            let mut input = std::io::stdin();
            let mut bytes = [0; 64];
            while input.read(&mut bytes).is_ok_and(|read| read > 0) {}
            std::process::exit(0);
        });
        if watching.is_err() {
            std::process::exit(2);
        }
    }
    // Objects and connections each take descriptors; the hard limit is ours to use.
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = setrlimit(Resource::Nofile, raised);
}

fn say(out: &mut dyn Write, word: &ServeWord) {
    let line = serde_json::to_string(word).unwrap_or_default();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
