//! Who is next: the orders in which a block layer, or the drive itself, takes waiting requests.
//!
//! Each order is a file here and a line in [`ELEVATORS`]. None may starve a request. Orders that
//! prefer near requests to old ones bound how often a request is passed over: once `passes` picks
//! (an option of the disk, four times the drive's queue unless set) went by since a request was
//! inserted, it is taken before everything newer. A request that finds `n` others waiting is
//! therefore picked after at most `passes + n` picks. The bound counts picks and not time, because
//! a queue of large transfers is slower than one of small ones without being less fair.

mod clook;
mod deadline;
mod fifo;
mod sptf;
mod strict;

use std::fmt;

use super::DeviceRequest;
use super::disk::{Aim, DiskOptions};
use crate::units::Time;

/// A request that waits, and what was worked out once when it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queued {
    /// The request itself.
    pub request: DeviceRequest,
    /// When it entered this queue.
    pub since: Time,
    /// The angle at which its first byte lies, in turns from 0 to 1.
    pub angle: f64,
}

/// An order of service.
pub trait Elevator: Send {
    /// Takes one more request.
    fn insert(&mut self, queued: Queued);

    /// Removes and returns the request to serve next, with the heads as `aim` tells; `None` only
    /// when no request waits.
    fn next(&mut self, aim: &Aim<'_>, now: Time) -> Option<Queued>;

    /// How many requests wait.
    fn len(&self) -> usize;

    /// Whether no request waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One known order of service.
pub struct ElevatorEntry {
    /// What options call it.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Whether a drive may use it for its own queue as well.
    pub in_drive: bool,
    /// Makes an empty one.
    pub build: fn(&DiskOptions) -> Box<dyn Elevator>,
}

/// The orders of service, the default of the block layer first.
pub static ELEVATORS: &[ElevatorEntry] = &[
    ElevatorEntry {
        name: "deadline",
        about: "one-way scans per direction in batches; expired requests start a batch (Linux)",
        in_drive: false,
        build: |options| Box::new(deadline::Deadline::new(options, false)),
    },
    ElevatorEntry {
        name: "deadline-strict",
        about: "as deadline, but an expired request goes first at once, batch or not",
        in_drive: false,
        build: |options| Box::new(deadline::Deadline::new(options, true)),
    },
    ElevatorEntry {
        name: "fifo",
        about: "in order of arrival",
        in_drive: true,
        build: |_| Box::new(fifo::Fifo::default()),
    },
    ElevatorEntry {
        name: "clook",
        about: "one-way scan by position, reads and writes together",
        in_drive: true,
        build: |options| Box::new(clook::CLook::new(options.passes)),
    },
    ElevatorEntry {
        name: "clook-strict",
        about: "one-way scan by position, but an expired request goes first at once",
        in_drive: false,
        build: |options| Box::new(strict::Strict::new(options, strict::Else::Scan)),
    },
    ElevatorEntry {
        name: "sptf-strict",
        about: "least seek and rotation, but an expired request goes first at once",
        in_drive: false,
        build: |options| Box::new(strict::Strict::new(options, strict::Else::Reach)),
    },
    ElevatorEntry {
        name: "sptf",
        about: "least seek and rotation from where the heads are",
        in_drive: true,
        build: |options| Box::new(sptf::Sptf::new(options.passes)),
    },
];

/// The entry called `name`.
pub fn elevator(name: &str) -> Option<&'static ElevatorEntry> {
    ELEVATORS.iter().find(|entry| entry.name == name)
}

impl fmt::Debug for ElevatorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ElevatorEntry").field(&self.name).finish()
    }
}

impl PartialEq for ElevatorEntry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Waiting requests in order of arrival, which knows when the oldest has been passed over enough.
///
/// A vector that is scanned: the block layer bounds what waits to some dozens, where a scan is
/// faster than any tree.
#[derive(Debug)]
struct Line {
    waiting: Vec<(u64, Queued)>,
    picks: u64,
    passes: u64,
}

impl Line {
    const fn new(passes: u32) -> Self {
        Self { waiting: Vec::new(), picks: 0, passes: passes as u64 }
    }

    fn insert(&mut self, queued: Queued) {
        self.waiting.push((self.picks, queued));
    }

    /// Whether the oldest request must be next.
    fn is_overdue(&self) -> bool {
        self.waiting.first().is_some_and(|(since, _)| self.picks - since >= self.passes)
    }

    fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.waiting.iter().map(|(_, queued)| queued)
    }

    fn take(&mut self, index: usize) -> Queued {
        self.picks += 1;
        self.waiting.remove(index).1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::disk::{Mechanism, Z7K500};

    pub(super) fn queued(id: u64, offset_bytes: u64, write: bool, since: Time) -> Queued {
        let request = DeviceRequest { id, write, offset_bytes, length_bytes: 1 << 16 };
        Queued { request, since, angle: Z7K500.angle(offset_bytes) }
    }

    /// The ids in the order in which `name` takes requests that are all there from the start.
    pub(super) fn order(name: &str, requests: &[Queued], at: Time) -> Vec<u64> {
        let options = DiskOptions::for_elevator(elevator(name).unwrap());
        let mut elevator = (options.elevator.build)(&options);
        let mut disk = Mechanism::new(Z7K500, 0.0);
        requests.iter().for_each(|request| elevator.insert(*request));
        let mut now = at;
        let mut ids = Vec::new();
        while let Some(next) = elevator.next(&disk.aim(now), now) {
            now += disk.serve(now, &next);
            ids.push(next.request.id);
        }
        ids
    }

    proptest! {
        /// A closed loop that always offers a request just ahead of the heads: the trap for greedy
        /// orders. One request lies far away; it must be picked within a bound.
        #[test]
        fn a_far_request_is_picked_in_bounded_time(
            which in 0..ELEVATORS.len(),
            others in 1_usize..40,
            far in 1_u64..500_000,
            write in any::<bool>(),
            others_write in any::<bool>(),
        ) {
            let options = DiskOptions::for_elevator(&ELEVATORS[which]);
            let mut elevator = (options.elevator.build)(&options);
            let mut disk = Mechanism::new(Z7K500, 0.0);
            let mut now = Time::ZERO;
            for id in 1..=others as u64 {
                elevator.insert(queued(id, id << 16, others_write, now));
            }
            elevator.insert(queued(0, far * 1_000_000, write, now));
            let age = if write { options.write_expire } else { options.read_expire };
            let expiry = Time::ZERO + age;
            let (mut picks, mut late_picks) = (0_u32, 0_u32);
            loop {
                let next = elevator.next(&disk.aim(now), now).unwrap();
                now += disk.serve(now, &next);
                picks += 1;
                late_picks += u32::from(now > expiry);
                if next.request.id == 0 {
                    break;
                }
                let ahead = next.request.offset_bytes + ((others as u64) << 16);
                elevator.insert(queued(next.request.id, ahead, others_write, now));
                prop_assert!(picks < 10_000, "never picked");
            }
            let name = options.elevator.name;
            if name.starts_with("deadline") || name.ends_with("strict") {
                let batches = (others as u32 + 2) * (options.writes_starved + 1);
                prop_assert!(late_picks <= batches * options.batch, "{late_picks}");
            } else {
                prop_assert!(picks <= options.passes + others as u32 + 1, "{picks}");
            }
        }

        #[test]
        fn every_order_gives_each_request_once(
            which in 0..ELEVATORS.len(),
            places in prop::collection::vec((0_u64..500_000, any::<bool>()), 0..80),
        ) {
            let requests: Vec<_> = places.iter().enumerate().map(|(id, &(mega, write))| {
                queued(id as u64, mega * 1_000_000, write, Time::ZERO)
            }).collect();
            let mut ids = order(ELEVATORS[which].name, &requests, Time::ZERO);
            ids.sort_unstable();
            prop_assert_eq!(ids, (0..places.len() as u64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn names_are_unique() {
        for entry in ELEVATORS {
            assert!(std::ptr::eq(elevator(entry.name).unwrap(), entry), "{}", entry.name);
        }
        assert!(elevator("cfq").is_none());
    }
}
