//! Traces: how one path of one client fared from reply to reply.
//!
//! A run of any length leaves at most [`MAX_POINTS`] points a path: when there is no more room,
//! every other point goes, and from then on only every second reply of those taken before is taken.
//! So the points stay evenly spread over the replies of the whole run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::class::Class;
use crate::indicator::Signals;
use crate::path::{PathKey, PathState};
use crate::units::Span;

/// Points that a trace keeps at most.
pub const MAX_POINTS: usize = 2_048;

/// Paths of a client that are followed at most when none was named; the first to answer are.
const MAX_PATHS: usize = 64;

/// Time in which a trace adds up bytes, at least: a window may change twice a second.
const SLOT: Span = Span::from_millis(500);

/// Slots that a trace keeps at most.
const MAX_SLOTS: u64 = 1_200;

/// What is to be traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRequest {
    /// The client.
    pub client: u32,
    /// The path; its busiest path for data when none is named.
    pub path: Option<PathKey>,
}

/// How one path fared in the counted time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathTrace {
    /// The client.
    pub client: u32,
    /// The path.
    pub path: PathKey,
    /// Replies that came in.
    pub replies: u64,
    /// What was seen at some of them, evenly spread; all of them when there were few.
    pub points: Vec<TracePoint>,
    /// Length of the slots below, in seconds.
    pub slot_secs: f64,
    /// Bytes that the path moved in each slot, by the arrival of the replies. The last slot may
    /// reach beyond the counted time.
    pub slot_bytes: Vec<u64>,
}

/// What a path looked like just after a reply was taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TracePoint {
    /// Time since counting began, in nanoseconds.
    pub at_nanos: u64,
    /// The indicators, each in its own unit.
    pub signals: Signals,
    /// The window, as the policy left it.
    pub window: f64,
    /// The gap for a full-size request, in nanoseconds.
    pub gap_nanos: u64,
    /// Requests in flight.
    pub in_flight: u32,
}

/// Follows the paths of one client.
#[derive(Debug)]
pub(super) struct Tracer {
    request: TraceRequest,
    slot: Span,
    slots: usize,
    paths: BTreeMap<PathKey, Followed>,
}

/// One path as it is being followed.
#[derive(Debug)]
struct Followed {
    replies: u64,
    bytes: u64,
    /// Every so many replies one is kept.
    stride: u64,
    points: Vec<TracePoint>,
    /// When the last reply was taken.
    last_nanos: u64,
    slot_bytes: Vec<u64>,
}

impl Tracer {
    pub(super) fn new(request: TraceRequest, length: Span) -> Self {
        let mut slot = SLOT.as_nanos();
        while length.as_nanos().div_ceil(slot) > MAX_SLOTS {
            slot *= 2;
        }
        let slots = length.as_nanos().div_ceil(slot) as usize;
        Self { request, slot: Span::from_nanos(slot), slots, paths: BTreeMap::new() }
    }

    /// A reply on `path` was taken, `since_start` after counting began.
    pub(super) fn reply(
        &mut self,
        path: PathKey,
        state: &PathState,
        since_start: Span,
        bytes: u64,
    ) {
        match self.request.path {
            Some(named) if named != path => return,
            None if path.class == Class::Metadata => return,
            _ => {}
        }
        if !self.paths.contains_key(&path) && self.paths.len() == MAX_PATHS {
            return;
        }
        let slots = self.slots;
        let followed = self.paths.entry(path).or_insert_with(|| Followed::new(slots));
        let at_nanos = since_start.as_nanos();
        let slot = (at_nanos / self.slot.as_nanos()) as usize;
        if let Some(sum) = followed.slot_bytes.get_mut(slot) {
            *sum += bytes;
        }
        followed.bytes += bytes;
        // Two replies that come at once may be taken in the other order. The state is that after
        // both, so the second is not drawn before the first.
        let at_nanos = at_nanos.max(followed.last_nanos);
        followed.last_nanos = at_nanos;
        followed.take(|| TracePoint {
            at_nanos,
            signals: state.signals(),
            window: state.window(),
            gap_nanos: state.gap().as_nanos(),
            in_flight: state.in_flight(),
        });
    }

    /// The trace of the path that was asked for, or that moved most; the first of equals. None when
    /// no reply came on it.
    pub(super) fn finish(self) -> Option<PathTrace> {
        let busier = |best: &(PathKey, Followed), next: &(PathKey, Followed)| {
            (next.1.bytes, next.1.replies) > (best.1.bytes, best.1.replies)
        };
        let (path, followed) = self
            .paths
            .into_iter()
            .reduce(|best, next| if busier(&best, &next) { next } else { best })?;
        Some(PathTrace {
            client: self.request.client,
            path,
            replies: followed.replies,
            points: followed.points,
            slot_secs: self.slot.as_secs_f64(),
            slot_bytes: followed.slot_bytes,
        })
    }
}

impl Followed {
    fn new(slots: usize) -> Self {
        let (points, slot_bytes) = (Vec::new(), vec![0; slots]);
        Self { replies: 0, bytes: 0, stride: 1, points, last_nanos: 0, slot_bytes }
    }

    fn take(&mut self, point: impl FnOnce() -> TracePoint) {
        let wanted = self.replies.is_multiple_of(self.stride);
        self.replies += 1;
        if !wanted {
            return;
        }
        if self.points.len() == MAX_POINTS {
            let mut number = 0_u32;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
            // The reply at hand is an even one of those before, so that it stays wanted.
        }
        self.points.push(point());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Controller, Options};
    use crate::policy;

    fn key(server: u32, class: Class) -> PathKey {
        PathKey { server, class, tenant: 0 }
    }

    fn state() -> PathState {
        Controller::new(Options::default(), policy::none()).start()
    }

    #[test]
    fn a_long_trace_is_thinned_evenly_and_keeps_its_start() {
        let mut tracer = Tracer::new(TraceRequest::default(), Span::from_secs(100));
        for reply in 0..10_000 {
            tracer.reply(key(0, Class::Read), &state(), Span::from_millis(10 * reply), 1);
        }
        let trace = tracer.finish().unwrap();
        assert_eq!((trace.replies, trace.slot_bytes.len()), (10_000, 200));
        assert!(trace.slot_bytes.iter().all(|&bytes| bytes == 50));
        assert!(trace.points.len() <= MAX_POINTS && trace.points.len() > MAX_POINTS / 2);
        let times: Vec<u64> = trace.points.iter().map(|point| point.at_nanos).collect();
        assert_eq!(times[0], 0);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 80_000_000), "{times:?}");
    }

    #[test]
    fn replies_that_overtake_each_other_are_drawn_in_the_order_in_which_they_were_taken() {
        let mut tracer = Tracer::new(TraceRequest::default(), Span::from_secs(1));
        for millis in [10, 30, 29, 31] {
            tracer.reply(key(0, Class::Read), &state(), Span::from_millis(millis), 1);
        }
        let trace = tracer.finish().unwrap();
        let millis: Vec<u64> =
            trace.points.iter().map(|point| point.at_nanos / 1_000_000).collect();
        assert_eq!(millis, [10, 30, 30, 31]);
    }

    #[test]
    fn the_busiest_data_path_is_told_unless_one_is_named() {
        let named = key(1, Class::Metadata);
        for (path, found) in [(None, key(2, Class::Write)), (Some(named), named)] {
            let mut tracer = Tracer::new(TraceRequest { client: 3, path }, Span::from_secs(1));
            for (path, bytes) in
                [(key(1, Class::Metadata), 9_000), (key(0, Class::Read), 5), (found, 7)]
            {
                tracer.reply(path, &state(), Span::ZERO, bytes);
            }
            let trace = tracer.finish().unwrap();
            assert_eq!((trace.client, trace.path), (3, found));
        }
        let request = TraceRequest { client: 0, path: Some(named) };
        assert_eq!(Tracer::new(request, Span::from_secs(1)).finish(), None);
    }

    #[test]
    fn a_trace_of_an_hour_has_no_more_slots_than_fit() {
        let tracer = Tracer::new(TraceRequest::default(), Span::from_secs(3_600));
        assert_eq!((tracer.slot, tracer.slots), (Span::from_secs(4), 900));
    }
}
