//! Replay: the calls of a recorded decision log, made by the simulator's clients.

use afflux_core::path::{Call, DecisionError, DecisionLog, Reply, Said};
use afflux_core::setting::Setting;

use crate::client::Clients;
use crate::request::NONE;
use crate::scenario::Scenario;

/// Why a log was not replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It is no log.
    #[error(transparent)]
    Log(#[from] DecisionError),
    /// It names a server that no world has.
    #[error("server {0} is beyond the {MOST_SERVERS} that a replay takes: check the log")]
    Server(u32),
}

/// Servers of a replay at most.
const MOST_SERVERS: u32 = 100_000;

/// Makes the calls of `log` under `setting`, and writes down what comes of them. If the driver that
/// wrote the log means the same by every word as the simulator, the result is the same bytes.
///
/// # Errors
/// A line that is none of a log, or a server number beyond all reason.
///
/// ```
/// use afflux_core::setting::Setting;
/// let log = "5000 0/read ask size=4096 -> go window=8 gap=0 flight=1\n";
/// assert_eq!(afflux_sim::replay(&Setting::none(), log).unwrap(), log);
/// ```
pub fn replay(setting: &Setting, log: &str) -> Result<String, ReplayError> {
    let calls = Call::parse(log)?;
    let most = calls.iter().filter_map(|call| call.path.0).max().unwrap_or(0);
    if most >= MOST_SERVERS {
        return Err(ReplayError::Server(most));
    }
    // A client of this preset has a path of every class to every server, and one to the catalog.
    let servers = format!("servers.count={}", most + 1);
    let overrides = ["workload=fileserver", "clients.count=1", servers.as_str()];
    let scenario = Scenario::default().with(&overrides);
    let mut scenario = scenario.expect("a preset, and a number from 1");
    scenario.applications[0].workload.files.stripe_count = 0;
    let mut clients = Clients::new(&scenario, setting, 0).expect("so few paths fit");
    clients.decisions = Some((0, DecisionLog::default()));
    for Call { now, path: (server, class), said } in calls {
        let path = clients.casts[0].slot(0, server.unwrap_or(NONE), class);
        match said {
            // What came out is in the log.
            Said::Ask { size_bytes, limits } => {
                let _ = clients.ask(now, 0, path, size_bytes, &limits);
            }
            Said::Reply { built, sent, size_bytes } => {
                clients.hear(0, path, &Reply { built, sent, arrived: now, size_bytes });
            }
            Said::Fault => clients.fault(now, 0, path),
        }
    }
    let log = clients.decisions.map(|(_, log)| log.as_str().to_owned());
    Ok(log.unwrap_or_default())
}
