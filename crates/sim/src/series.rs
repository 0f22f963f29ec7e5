//! The course of a run, step by step, for plots.

use serde::Serialize;

/// Time series of a run. All lists have one entry for each step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Length of a step in seconds; zero when none were written down.
    pub step_secs: f64,
    /// Bytes read and written in each step, by the arrival of the replies, for each application.
    pub bytes: Vec<Vec<[u64; 2]>>,
    /// Requests that waited or were in service at all servers, at the end of each step.
    pub queued: Vec<u64>,
    /// Those of the server that had most.
    pub queued_most: Vec<u64>,
    /// Mean process time of the data requests answered in each step, in milliseconds; zero when
    /// none were.
    pub process_ms: Vec<f64>,
    /// The longest of them.
    pub process_most_ms: Vec<f64>,
    /// Mean window over all paths for data, at the end of each step.
    pub window: Vec<f64>,
    /// Requests in flight over all paths, at the end of each step.
    pub in_flight: Vec<u64>,
}
