//! What a run showed.

use afflux_core::measure::Measurement;
use serde::Serialize;

use crate::series::Series;

/// What one run of a scenario showed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// Client by client, or group by group (see [`Outcome::merged`]), as on any other target;
    /// clients of the first application first.
    pub measurement: Measurement,
    /// How many clients each entry of the measurement stands for.
    pub merged: u32,
    /// One entry for each application.
    pub applications: Vec<ApplicationOutcome>,
    /// Counts over the whole run.
    pub totals: Totals,
    /// The course of the run; without steps unless the scenario asked for it.
    pub series: Series,
    /// The decisions of one client, when they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<String>,
    /// When the run ended, in seconds of the world.
    pub ended_secs: f64,
}

/// What became of one application.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ApplicationOutcome {
    /// Its name.
    pub name: String,
    /// The number of its first client.
    pub first_client: u32,
    /// How many clients it had.
    pub clients: u32,
    /// When its first operation started, in seconds of the world.
    pub started_secs: Option<f64>,
    /// When its last operation ended, where all of its clients came to their end.
    pub ended_secs: Option<f64>,
    /// Bytes that its operations moved.
    pub bytes: u64,
}

impl ApplicationOutcome {
    /// From its first operation to its last, think time included: the I/O time of the
    /// burst-buffer paper.
    pub fn io_secs(&self) -> Option<f64> {
        Some(self.ended_secs? - self.started_secs?)
    }
}

/// Counts over the whole run, the time that is not counted included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Events that happened.
    pub events: u64,
    /// Operations of the applications that ended.
    pub operations: u64,
    /// Requests sent, repetitions included.
    pub sent: u64,
    /// Replies taken.
    pub replies: u64,
    /// Requests sent again after a time-out.
    pub resent: u64,
    /// Requests given up.
    pub failed: u64,
    /// Requests that a server carried out though their sender had given up on them.
    pub wasted: u64,
    /// Requests lost in a server that died, and those whose data died with their client before a
    /// server could fetch them.
    pub lost: u64,
    /// Operations that ended with their client.
    pub died: u64,
    /// Bytes of operations that failed or died, so that their application knows.
    pub failed_bytes: u64,
    /// Bytes that an application believed written, as its client's cache had them, and that came to
    /// no server.
    pub lost_bytes: u64,
    /// Segments for which a port had no room.
    pub dropped: u64,
    /// Losses that only a retransmission time-out noticed.
    pub rto: u64,
    /// Locks handed from one client to another.
    pub handovers: u64,
    /// Most requests that waited and were in service at one server.
    pub deepest: u64,
}
