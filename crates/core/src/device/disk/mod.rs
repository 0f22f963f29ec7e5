//! One rotating disk behind a block layer: request queue, elevator, drive queue, mechanics.
//!
//! Requests pass three places. At most `nr_requests` are with the block layer and the drive
//! together, as in Linux where a request keeps its tag until it is complete; what is beyond waits
//! in order of arrival. The elevator orders what is with the block layer and hands on whenever the
//! drive holds fewer than `drive_depth`, the one it works on included. The drive takes from its own
//! queue by its own policy. So sorting by the elevator only counts beyond `drive_depth` requests.
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
use crate::units::Time;

/// A disk as [`Device`].
pub struct Disk {
    mechanism: Mechanism,
    /// What has no tag yet.
    waiting: VecDeque<Queued>,
    elevator: Box<dyn Elevator>,
    drive: Box<dyn Elevator>,
    serving: Option<DeviceDone>,
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
            done: VecDeque::new(),
            nr_requests: options.nr_requests as usize,
            drive_depth: options.drive_depth as usize,
        }
    }

    /// Requests that the drive holds, the one it works on included.
    fn in_drive(&self) -> usize {
        self.drive.len() + usize::from(self.serving.is_some())
    }

    /// Finishes what is finished by `now`, and starts what follows at the very moment that the
    /// drive became free: the driver's delay never reaches the disk.
    fn advance(&mut self, now: Time) {
        while let Some(finished) = self.serving.take_if(|serving| serving.at <= now) {
            self.done.push_back(finished);
            self.refill(finished.at);
            self.start(finished.at);
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
        if self.serving.is_some() {
            return;
        }
        let Some(next) = self.drive.next(&self.mechanism.aim(at), at) else { return };
        let access = self.mechanism.serve(at, &next);
        self.serving = Some(DeviceDone { id: next.request.id, at: at + access, access });
        debug_assert!(self.in_drive() <= self.drive_depth);
    }
}

impl Device for Disk {
    fn submit(&mut self, now: Time, request: DeviceRequest) {
        self.advance(now);
        let angle = self.mechanism.parameters().angle(request.offset_bytes);
        self.waiting.push_back(Queued { request, since: now, angle });
        self.refill(now);
        self.start(now);
    }

    fn poll(&mut self, now: Time) -> Option<DeviceDone> {
        self.advance(now);
        self.done.pop_front()
    }

    fn next_done(&mut self) -> Option<Time> {
        self.done.front().or(self.serving.as_ref()).map(|done| done.at)
    }

    fn pending(&self) -> usize {
        self.waiting.len() + self.elevator.len() + self.in_drive() + self.done.len()
    }
}

#[cfg(test)]
mod tests;
