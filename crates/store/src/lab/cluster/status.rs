//! What the servers of a lab say about themselves.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::state::{LabState, ServerState, StateError};
use crate::lab::server::ServerReport;
use crate::lab::stream::{self, FrameReader, Payload, ReadError};
use crate::lab::wire::{Header, Hello, Kind, Status};

const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A lab and how its servers are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabStatus {
    /// The lab's state.
    pub state: LabState,
    /// The servers, in the order of the state's.
    pub servers: Vec<ServerStatus>,
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Whether its process is there.
    pub alive: bool,
    /// What it says.
    pub report: Option<ServerReport>,
    /// Why it says nothing, if its process is there.
    pub trouble: Option<String>,
}

impl LabStatus {
    /// Looks at the lab in `dir`; a server that does not answer is waited for two seconds.
    pub fn of(dir: &Path) -> Result<Self, StateError> {
        let state = LabState::load(dir)?;
        let servers = state.servers.iter().map(|server| ask(&state, server)).collect();
        Ok(Self { state, servers })
    }

    /// Whether all servers run and answer.
    pub fn is_well(&self) -> bool {
        self.servers.iter().all(|server| server.report.is_some())
    }

    /// Whether none runs.
    pub fn is_down(&self) -> bool {
        self.servers.iter().all(|server| !server.alive)
    }
}

fn ask(state: &LabState, server: &ServerState) -> ServerStatus {
    let alive = server.is_running();
    let answer = if alive { report(state, server).map(Some) } else { Ok(None) };
    let (report, trouble) = match answer {
        Ok(report) => (report, None),
        Err(error) => (None, Some(error.to_string())),
    };
    ServerStatus { name: server.name.clone(), alive, report, trouble }
}

fn report(state: &LabState, server: &ServerState) -> Result<ServerReport, ReadError> {
    let socket = TcpStream::connect_timeout(&server.address(), ANSWER_WITHIN)?;
    stream::prepare(&socket)?;
    socket.set_read_timeout(Some(ANSWER_WITHIN))?;
    socket.set_write_timeout(Some(ANSWER_WITHIN))?;
    // Number zero is no client's, so it takes nobody's place.
    let (lab, server) = (Some(state.id.clone()), Some(server.name.clone()));
    let hello = serde_json::to_vec(&Hello { client: 0, lab, server }).map_err(io::Error::from)?;
    let late = || Err(ErrorKind::TimedOut.into());
    let send =
        |kind, payload| stream::write_frame(&socket, Header::request(kind, 1), &payload, late);
    send(Kind::Hello, Payload::text(hello))?;
    send(Kind::Statistics, Payload::Empty)?;
    let mut frames = FrameReader::new(&socket);
    let mut last = Vec::new();
    for _ in 0..2 {
        let header = frames.header()?;
        last = vec![0; header.payload_bytes as usize];
        frames.payload(&header, &mut last)?;
        if header.status != Status::Done {
            let why = String::from_utf8_lossy(&last).into_owned();
            return Err(io::Error::other(why).into());
        }
    }
    Ok(serde_json::from_slice(&last).map_err(io::Error::from)?)
}
