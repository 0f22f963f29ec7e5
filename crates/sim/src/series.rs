//! The course of a run, step by step, for plots.

use afflux_core::class::Class;
use afflux_core::units::{Span, Time};
use serde::Serialize;

use crate::events::Event;
use crate::scenario::Scenario;
use crate::world::World;

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
    /// What the ledgers knew at the end of each step; none where no credits are granted.
    #[serde(skip_serializing_if = "CreditSeries::is_empty")]
    pub credits: CreditSeries,
}

/// What the ledgers knew, as means over the servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CreditSeries {
    /// Active clients of a server (C).
    pub active: Vec<f64>,
    /// Requests done in a second of busy time (IOPS).
    pub iops: Vec<f64>,
    /// Credits of a client while the server is not under light load (RCC).
    pub granted: Vec<f64>,
}

impl CreditSeries {
    /// Whether there are no ledgers, or no steps.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }
}

/// Adds up the course of a run as it goes.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) series: Series,
    /// Process time of the replies of this step: sum and most, in nanoseconds, and their number.
    process: (u64, u64, u64),
    /// Bytes of this step by application.
    bytes: Vec<[u64; 2]>,
    wanted: bool,
}

impl Course {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let step = scenario.run.series;
        let applications = scenario.applications.len();
        let series = Series {
            step_secs: step.unwrap_or(Span::ZERO).as_secs_f64(),
            bytes: vec![Vec::new(); applications],
            ..Series::default()
        };
        let bytes = vec![[0; 2]; applications];
        Self { series, process: (0, 0, 0), bytes, wanted: step.is_some() }
    }

    /// A data request was answered.
    pub(crate) fn reply(&mut self, took: Span, class: Class, bytes: u64, application: u16) {
        if self.wanted {
            self.bytes[application as usize][class.index()] += bytes;
            let nanos = took.as_nanos();
            self.process = (self.process.0 + nanos, self.process.1.max(nanos), self.process.2 + 1);
        }
    }
}

impl World {
    /// A step of the series ends.
    pub(crate) fn step(&mut self, now: Time) {
        let Some(step) = self.scenario.run.series.filter(|_| !self.draining) else { return };
        self.events.push(now + step, Event::Step);
        let depths = (0..self.scenario.servers.count).map(|server| self.servers.depth(server));
        let (queued, most) = depths.fold((0, 0), |(sum, most), n| (sum + n, u64::max(most, n)));
        let lanes = self.clients.lanes.iter().zip(&self.clients.states);
        let data = lanes.filter(|(lane, _)| lane.class != Class::Metadata);
        let (windows, paths) =
            data.fold((0.0, 0_u64), |(sum, n), (_, state)| (sum + state.window(), n + 1));
        let in_flight = self.clients.each.iter().map(|client| u64::from(client.in_flight)).sum();
        let course = &mut self.course;
        let series = &mut course.series;
        if let Some(book) = &self.credits {
            book.describe(&mut series.credits);
        }
        for (list, bytes) in series.bytes.iter_mut().zip(&mut course.bytes) {
            list.push(std::mem::take(bytes));
        }
        let (sum, longest, count) = std::mem::take(&mut course.process);
        series.process_ms.push(if count == 0 { 0.0 } else { sum as f64 / count as f64 / 1e6 });
        series.process_most_ms.push(longest as f64 / 1e6);
        series.queued.push(queued);
        series.queued_most.push(most);
        series.window.push(if paths == 0 { 0.0 } else { windows / paths as f64 });
        series.in_flight.push(in_flight);
    }
}
