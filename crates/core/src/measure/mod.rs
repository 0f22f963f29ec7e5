//! Measurements: what a trial showed, client by client and second by second.
//!
//! ```
//! use afflux_core::{class::Class, measure::Recorder, units::{Span, Time}};
//!
//! // Counting starts at 10 s and goes on for 2 s; what lies outside is left out.
//! let at = |millis| Time::ZERO + Span::from_millis(millis);
//! let mut recorder = Recorder::new(at(10_000), Span::from_secs(2));
//! recorder.transfer(at(9_999), Class::Write, 7);
//! recorder.transfer(at(10_500), Class::Write, 100);
//! recorder.transfer(at(11_500), Class::Read, 300);
//! let client = recorder.finish(at(12_000));
//! assert_eq!(client.seconds, [[0, 100], [300, 0]]);
//! ```

mod bins;
mod hits;
mod latencies;
mod trace;

use serde::Serialize;

use crate::class::Class;
use crate::limits::HoldReason;
use crate::path::{HoldTotals, PathKey, PathState, Ruling};
use crate::units::{Span, Time};

pub use hits::HitCounters;
pub use latencies::Latencies;
pub use trace::{MAX_POINTS, PathTrace, TracePoint, TraceRequest};

use trace::Tracer;

/// What one trial showed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measurement {
    /// The counted time, in seconds.
    pub counted_secs: f64,
    /// One entry for each client.
    pub clients: Vec<ClientMeasurement>,
}

impl Measurement {
    /// The mean time between two replies on a path for reads or writes: the fair share of a path at
    /// this speed. `None` when nothing was answered.
    pub fn fair_gap(&self) -> Option<Span> {
        let paths: u64 = self.clients.iter().map(|client| u64::from(client.data_paths)).sum();
        let secs = self.counted_secs * paths as f64 / self.data_replies() as f64;
        (paths > 0 && self.data_replies() > 0).then(|| Span::from_secs_f64(secs))
    }

    /// Which rules decided, by class and over all clients.
    pub fn rule_hits(&self) -> [HitCounters; Class::ALL.len()] {
        let mut all = <[HitCounters; Class::ALL.len()]>::default();
        for client in &self.clients {
            all.iter_mut().zip(&client.rule_hits).for_each(|(all, hits)| all.merge(hits));
        }
        all
    }

    /// Replies to reads and writes.
    pub fn data_replies(&self) -> u64 {
        let classes = self.clients.iter().flat_map(|client| {
            [Class::Read, Class::Write].map(|class| client.process_time[class.index()].count())
        });
        classes.sum()
    }
}

/// What one client did in the counted time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientMeasurement {
    /// Bytes read and written in each second, by the arrival of the replies.
    pub seconds: Vec<[u64; 2]>,
    /// Time in which at least one operation of the application was under way, in seconds.
    pub active_secs: f64,
    /// Operations of the application that ended.
    pub operations: u64,
    /// How long operations of the application took.
    pub operation_time: Latencies,
    /// Process times of requests, by class.
    pub process_time: [Latencies; Class::ALL.len()],
    /// Time that devices worked on this client's requests, as far as servers tell.
    pub access_time: Latencies,
    /// Time that requests waited at servers, as far as servers tell.
    pub queue_time: Latencies,
    /// Paths to storage servers on which a reply came.
    pub data_paths: u32,
    /// What held requests back, by class.
    pub holds: [HoldTotals; Class::ALL.len()],
    /// Which rules decided, by class and over all paths; empty without rules.
    pub rule_hits: [HitCounters; Class::ALL.len()],
    /// Requests that ended without an answer, in the whole run.
    pub faults: u64,
    /// The first of them.
    pub first_fault: Option<String>,
    /// Nanoseconds that paths were held in each second, by reason and summed over the paths; empty
    /// unless the run was traced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hold_seconds: Vec<[u64; HoldReason::ALL.len()]>,
    /// One of its paths from reply to reply, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathTrace>,
}

/// Counts what one client does, within a given stretch of time.
#[derive(Debug)]
pub struct Recorder {
    start: Time,
    end: Time,
    under_way: u32,
    active_since: Time,
    active: Span,
    tracer: Option<Tracer>,
    holds: Option<HoldClock>,
    /// Public to its driver for what needs no time.
    pub client: ClientMeasurement,
}

impl Recorder {
    /// Counts from `start` for `length`, in whole seconds.
    pub fn new(start: Time, length: Span) -> Self {
        let seconds = (length.as_nanos() / 1_000_000_000) as usize;
        let client = ClientMeasurement { seconds: vec![[0; 2]; seconds], ..Default::default() };
        let end = start + Span::from_secs(seconds as u64);
        Self {
            start,
            end,
            under_way: 0,
            active_since: start,
            active: Span::ZERO,
            tracer: None,
            holds: None,
            client,
        }
    }

    /// Also traces: holds by second of every client, and paths of the client that `request` names,
    /// if `index` is its number.
    #[must_use]
    pub fn tracing(mut self, index: u32, request: Option<TraceRequest>) -> Self {
        let length = self.end.since(self.start);
        self.holds = request.map(|_| HoldClock { next: self.start, before: None });
        self.tracer = request
            .filter(|request| request.client == index)
            .map(|request| Tracer::new(request, length));
        self
    }

    /// Whether `now` is counted.
    pub fn counts(&self, now: Time) -> bool {
        now >= self.start && now < self.end
    }

    /// `bytes` were moved by a reply that arrived at `now`.
    pub fn transfer(&mut self, now: Time, class: Class, bytes: u64) {
        if !self.counts(now) || class == Class::Metadata {
            return;
        }
        let second = (now.since(self.start).as_nanos() / 1_000_000_000) as usize;
        self.client.seconds[second][class.index()] += bytes;
    }

    /// A request ended that was sent at `sent`.
    pub fn request(&mut self, now: Time, class: Class, sent: Time, access: Span, queued: Span) {
        if !self.counts(now) {
            return;
        }
        self.client.process_time[class.index()].record(now.since(sent));
        if access > Span::ZERO {
            self.client.access_time.record(access);
            self.client.queue_time.record(queued);
        }
    }

    /// A reply that arrived at `now` led to `ruling`.
    pub fn ruling(&mut self, now: Time, class: Class, ruling: &Ruling) {
        if let Some(rule) = ruling.rule.filter(|_| self.counts(now)) {
            self.client.rule_hits[class.index()].count(rule, &ruling.signals);
        }
    }

    /// Whether replies are traced, so that [`Recorder::trace`] wants to be told of them.
    pub fn traces(&self) -> bool {
        self.tracer.is_some()
    }

    /// A reply that moved `bytes` was taken at `now`, which left its path in `state`.
    pub fn trace(&mut self, now: Time, path: PathKey, state: &PathState, bytes: u64) {
        let counts = self.counts(now);
        if let Some(tracer) = self.tracer.as_mut().filter(|_| counts) {
            tracer.reply(path, state, now.since(self.start), bytes);
        }
    }

    /// When the totals of all holds are wanted next; never, unless traces are made.
    pub fn holds_due(&self) -> Time {
        self.holds.as_ref().map_or(Time::NEVER, |holds| holds.next)
    }

    /// Takes the totals of all holds since the client began, as of `now`. What came since they were
    /// last taken goes to the second that has ended; a driver that comes late by whole seconds
    /// leaves zeros, and what was held in them goes to the last.
    pub fn take_holds(&mut self, now: Time, totals: &HoldTotals) {
        let Some(holds) = self.holds.as_mut().filter(|holds| now >= holds.next) else { return };
        let nanos = now.since(self.start).as_nanos().min(self.end.since(self.start).as_nanos());
        let ended = (nanos / 1_000_000_000) as usize;
        if let Some(before) = holds.before {
            self.client.hold_seconds.resize(ended, Default::default());
            if let Some(last) = self.client.hold_seconds.last_mut() {
                *last = std::array::from_fn(|reason| {
                    totals.held_nanos[reason] - before.held_nanos[reason]
                });
            }
        }
        holds.before = Some(*totals);
        holds.next = self.start + Span::from_secs(ended as u64 + 1);
        if holds.next > self.end {
            holds.next = Time::NEVER;
        }
    }

    /// An operation of the application started.
    pub fn operation_started(&mut self, now: Time) {
        if self.under_way == 0 {
            self.active_since = now;
        }
        self.under_way += 1;
    }

    /// An operation of the application ended that had started at `started`.
    pub fn operation_ended(&mut self, now: Time, started: Time) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.settle_active(now);
        }
        if self.counts(now) {
            self.client.operations += 1;
            self.client.operation_time.record(now.since(started));
        }
    }

    /// A request ended without an answer.
    pub fn fault(&mut self, what: impl std::fmt::Display) {
        self.client.faults += 1;
        self.client.first_fault.get_or_insert_with(|| what.to_string());
    }

    /// The client's measurement, at the end of its run.
    pub fn finish(mut self, now: Time) -> ClientMeasurement {
        if self.under_way > 0 {
            self.settle_active(now);
        }
        self.client.active_secs = self.active.as_secs_f64();
        self.client.trace = self.tracer.and_then(Tracer::finish);
        self.client
    }

    fn settle_active(&mut self, now: Time) {
        self.active += now.min(self.end).since(self.active_since.max(self.start));
    }
}

/// When holds were taken last, and are to be taken next.
#[derive(Debug)]
struct HoldClock {
    next: Time,
    before: Option<HoldTotals>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn active_time_is_the_union_of_operations_within_the_counted_time() {
        let mut recorder = Recorder::new(at(1_000), Span::from_secs(4));
        recorder.operation_started(at(500));
        recorder.operation_started(at(1_500));
        recorder.operation_ended(at(1_800), at(500));
        recorder.operation_ended(at(2_000), at(1_500));
        recorder.operation_started(at(4_500));
        let client = recorder.finish(at(6_000));
        assert_eq!(client.operations, 2);
        assert!((client.active_secs - 1.5).abs() < 1e-9, "{}", client.active_secs);
    }

    #[test]
    fn rules_hit_outside_the_counted_time_do_not_count() {
        let mut recorder = Recorder::new(at(1_000), Span::from_secs(1));
        let ruling = |rule| Ruling { signals: [7, 8, 1_000], rule, window_changed: false };
        for (millis, rule) in
            [(999, Some(0)), (1_000, Some(1)), (1_500, None), (1_999, Some(1)), (2_000, Some(0))]
        {
            recorder.ruling(at(millis), Class::Write, &ruling(rule));
        }
        let clients = vec![recorder.client.clone(), recorder.finish(at(2_000))];
        let [read, write, _] = Measurement { counted_secs: 1.0, clients }.rule_hits();
        assert!(read.hits().is_empty());
        assert_eq!(write.hits().iter().map(|hits| hits.count).collect::<Vec<_>>(), [0, 4]);
        assert_eq!(write.medians(), [None, Some([7, 8, 1_000])]);
    }

    #[test]
    fn holds_go_to_the_seconds_in_which_they_were() {
        let totals = |secs: u64| {
            let mut totals = HoldTotals::default();
            totals.held_nanos[1] = secs * 1_000_000_000;
            totals
        };
        let request = Some(TraceRequest::default());
        let mut recorder = Recorder::new(at(1_000), Span::from_secs(4)).tracing(5, request);
        assert!(!recorder.traces());
        for (millis, held) in
            [(900, 1), (1_001, 2), (1_500, 3), (2_000, 5), (4_100, 9), (5_000, 10)]
        {
            recorder.take_holds(at(millis), &totals(held));
        }
        assert_eq!(recorder.holds_due(), Time::NEVER);
        let gaps: Vec<u64> = recorder.client.hold_seconds.iter().map(|held| held[1]).collect();
        assert_eq!(gaps, [3, 0, 4, 1].map(|secs: u64| secs * 1_000_000_000));
        let untraced = Recorder::new(at(0), Span::from_secs(4)).tracing(0, None);
        assert_eq!((untraced.traces(), untraced.holds_due()), (false, Time::NEVER));
    }
}
