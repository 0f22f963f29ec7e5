//! The composition of a world, and the loop over its events.

use afflux_core::device::placement::PlacementError;
use afflux_core::measure::TraceRequest;
use afflux_core::setting::Setting;
use afflux_core::target::Progress;

use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The user ended it.
    #[error("ended before it was done")]
    Cancelled,
    /// The files do not fit on the servers.
    #[error("the files of the workload do not fit on server {server}: {source}")]
    Full {
        /// The server.
        server: u32,
        /// What is missing.
        source: PlacementError,
    },
    /// The scenario cannot carry this workload.
    #[error("{0}")]
    Unsuitable(String),
}

/// One world with its seed, ready to run once.
pub struct Simulation {}

impl Simulation {
    /// The world of `scenario` under `setting`.
    pub fn new(_scenario: &Scenario, _setting: &Setting, _seed: u64) -> Result<Self, SimError> {
        Err(SimError::Unsuitable("the kernel is not written yet".to_owned()))
    }

    /// Also traces: holds by second, and a path of the client that `request` names.
    #[must_use]
    pub fn tracing(self, _request: Option<TraceRequest>) -> Self {
        self
    }

    /// Runs it to its end.
    pub fn run(self, _progress: &dyn Progress) -> Result<Outcome, SimError> {
        Err(SimError::Cancelled)
    }
}
