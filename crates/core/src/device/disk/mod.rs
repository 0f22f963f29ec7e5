//! One rotating disk behind a block layer: request queue, elevator, drive queue, mechanics.
//!
//! Requests pass three places. At most `nr_requests` are with the block layer and the drive
//! together, as in Linux where a request keeps its tag until it is complete; what is beyond waits
//! in order of arrival. The elevator orders what is with the block layer and hands on whenever the
//! drive holds fewer than `drive_depth`, the one it works on included. The drive takes from its own
//! queue by its own policy. So sorting by the elevator only counts beyond `drive_depth` requests.
//!
//! A drive that anticipates does not go elsewhere at once when a stream of reads that it has just
//! served has nothing more to ask: it waits, for as long as the option says, for the next request
//! of the stream, but no more than `batch` times in a row (Iyer and Druschel, SOSP 2001, with the
//! one rule that what read on before is likely to read on).
//!
//! Left out on purpose: merging of neighbours in the block layer, the lower limit of tags for
//! writes, a write-back cache in the drive, more than one read-ahead segment, head switches inside
//! a cylinder.

mod mechanics;
mod options;

use std::collections::VecDeque;

pub use mechanics::{Aim, DiskParameters, Mechanism, Z7K500};
pub use options::DiskOptions;
pub(crate) use options::ENTRY;

use super::elevator::{Elevator, Queued};
use super::{Device, DeviceDone, DeviceRequest};
use crate::units::{Span, Time};

/// Streams of reads that a drive which anticipates tells apart.
const STREAMS: usize = 16;

/// A disk as [`Device`].
pub struct Disk {
    mechanism: Mechanism,
    /// What has no tag yet.
    waiting: VecDeque<Queued>,
    elevator: Box<dyn Elevator>,
    drive: Box<dyn Elevator>,
    serving: Option<DeviceDone>,
    /// What is served at this time unless the stream goes on before.
    held: Option<(Queued, Time)>,
    anticipate: Span,
    /// How often in a row a stream may go on before what is held is served all the same.
    batch: u32,
    gone_on: u32,
    /// Where the latest reads ended, and the one of these that the next takes the place of.
    ends: [u64; STREAMS],
    next_end: usize,
    /// Whether the last transfer began where one of them had ended.
    streaming: bool,
    done: VecDeque<DeviceDone>,
    nr_requests: usize,
    drive_depth: usize,
}

impl Disk {
    /// An idle disk whose platters stand `phase` turns (0 to 1) ahead.
    pub fn new(parameters: DiskParameters, options: &DiskOptions, phase: f64) -> Self {
        Self {
            mechanism: Mechanism::new(parameters, phase),
            waiting: VecDeque::new(),
            elevator: (options.elevator.build)(options),
            drive: (options.drive_policy.build)(options),
            serving: None,
            held: None,
            anticipate: options.anticipate,
            batch: options.batch,
            gone_on: 0,
            ends: [u64::MAX; STREAMS],
            next_end: 0,
            streaming: false,
            done: VecDeque::new(),
            nr_requests: options.nr_requests as usize,
            drive_depth: options.drive_depth as usize,
        }
    }

    /// Requests that the drive holds, the one it works on included.
    fn in_drive(&self) -> usize {
        let at_hand = usize::from(self.serving.is_some()) + usize::from(self.held.is_some());
        self.drive.len() + at_hand
    }

    /// Finishes what is finished by `now`, and starts what follows at the very moment that the
    /// drive became free: the driver's delay never reaches the disk.
    fn advance(&mut self, now: Time) {
        loop {
            if let Some(finished) = self.serving.take_if(|serving| serving.at <= now) {
                self.done.push_back(finished);
                self.refill(finished.at);
                self.start(finished.at);
            } else if let Some((held, until)) = self.held.take_if(|(_, until)| *until <= now) {
                self.serve(until, &held);
                self.gone_on = 0;
            } else {
                return;
            }
        }
    }

    fn refill(&mut self, at: Time) {
        while self.elevator.len() + self.in_drive() < self.nr_requests
            && let Some(mut queued) = self.waiting.pop_front()
        {
            queued.since = at;
            self.elevator.insert(queued);
        }
        while self.in_drive() < self.drive_depth && !self.elevator.is_empty() {
            let Some(mut queued) = self.elevator.next(&self.mechanism.aim(at), at) else { break };
            queued.since = at;
            self.drive.insert(queued);
        }
    }

    fn start(&mut self, at: Time) {
        if self.serving.is_some() || self.held.is_some() {
            return;
        }
        let aim = self.mechanism.aim(at);
        let Some(next) = self.drive.next(&aim, at) else { return };
        let goes_away = self.streaming && aim.positioning(&next) > 0.0;
        if goes_away && self.gone_on < self.batch {
            self.held = Some((next, at + self.anticipate));
        } else {
            self.serve(at, &next);
            self.gone_on = 0;
        }
    }

    fn serve(&mut self, at: Time, next: &Queued) {
        let reads = self.anticipate > Span::ZERO && !next.request.write;
        self.streaming = reads && self.follow(&next.request);
        let access = self.mechanism.serve(at, next);
        self.serving = Some(DeviceDone { id: next.request.id, at: at + access, access });
    }

    /// Whether a read began where one of the latest had ended, whose place it takes then.
    fn follow(&mut self, request: &DeviceRequest) -> bool {
        let before = self.ends.iter().position(|end| *end == request.offset_bytes);
        let place = before.unwrap_or(self.next_end);
        self.ends[place] = request.offset_bytes.saturating_add(request.length_bytes);
        if before.is_none() {
            self.next_end = (self.next_end + 1) % STREAMS;
        }
        before.is_some()
    }

    /// Ends the waiting for a stream if `queued` is what was waited for, and serves it.
    fn goes_on(&mut self, now: Time, queued: &Queued) -> bool {
        let continues = self.mechanism.aim(now).positioning(queued) == 0.0;
        let Some((held, _)) = self.held.take_if(|_| continues) else { return false };
        self.drive.insert(held);
        self.serve(now, queued);
        self.gone_on += 1;
        true
    }
}

impl Device for Disk {
    fn submit(&mut self, now: Time, request: DeviceRequest) {
        self.advance(now);
        let angle = self.mechanism.parameters().angle(request.offset_bytes);
        let queued = Queued { request, since: now, angle };
        if self.goes_on(now, &queued) {
            return;
        }
        self.waiting.push_back(queued);
        self.refill(now);
        self.start(now);
    }

    fn poll(&mut self, now: Time) -> Option<DeviceDone> {
        self.advance(now);
        self.done.pop_front()
    }

    fn next_done(&mut self) -> Option<Time> {
        let at_hand = self.done.front().or(self.serving.as_ref()).map(|done| done.at);
        at_hand.or_else(|| {
            // What will be if the stream does not go on.
            let (held, until) = self.held.as_ref()?;
            Some(*until + self.mechanism.clone().serve(*until, held))
        })
    }

    fn pending(&self) -> usize {
        self.waiting.len() + self.elevator.len() + self.in_drive() + self.done.len()
    }
}

#[cfg(test)]
mod tests;
