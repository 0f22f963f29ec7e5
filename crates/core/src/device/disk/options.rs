//! How a disk queues: what an administrator can set, and what users write after `hdd:`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Disk, Z7K500};
use crate::device::elevator::{ELEVATORS, ElevatorEntry, elevator};
use crate::device::spec::{DeviceModel, DeviceSpecError, OptionAbout, pairs, value};
use crate::device::{Device, DeviceEntry};
use crate::rng::Rng;
use crate::units::Span;

/// The registry's line for this model.
pub(crate) const ENTRY: DeviceEntry = DeviceEntry {
    name: "hdd",
    about: "a 2.5-inch 7200 rpm disk of 500 GB: seek, rotation, zones, elevator, drive queue",
    options: OPTIONS,
    read: |text| Ok(Arc::new(text.parse::<DiskOptions>()?)),
};

const OPTIONS: &[OptionAbout] = &[
    OptionAbout { name: "elevator", about: "order of the block layer [deadline]" },
    OptionAbout { name: "batch", about: "requests in a batch of one direction [16]" },
    OptionAbout { name: "read_expire", about: "age at which a read goes first [500ms]" },
    OptionAbout { name: "write_expire", about: "age at which a write goes first [5s]" },
    OptionAbout { name: "writes_starved", about: "read batches before one of writes [2]" },
    OptionAbout { name: "depth", about: "requests that the drive holds [32]" },
    OptionAbout { name: "drive", about: "order of the drive's own queue [sptf]" },
    OptionAbout { name: "passes", about: "picks after which the oldest is taken [128]" },
    OptionAbout { name: "anticipate", about: "wait for a stream of reads to go on [0ms]" },
    OptionAbout { name: "nr_requests", about: "requests in block layer and drive together [64]" },
];

/// Most requests that may be sorted: beyond it, the scans over the queue would cost too much.
const MOST_REQUESTS: u32 = 4096;

/// Queueing of a disk. The defaults are those of Linux for a SATA disk with a queue of 32.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskOptions {
    /// Order in the block layer.
    pub elevator: &'static ElevatorEntry,
    /// `fifo_batch`: how many requests of one direction are taken in a row.
    pub batch: u32,
    /// Age at which a read has expired.
    pub read_expire: Span,
    /// Age at which a write has expired: 5 s, and 500 ms under the strict elevators, which then
    /// know one expiry for all.
    pub write_expire: Span,
    /// How many batches of reads may go before waiting writes.
    pub writes_starved: u32,
    /// Requests that the drive sees at once (NCQ), the one in service included.
    pub drive_depth: u32,
    /// Order in the drive.
    pub drive_policy: &'static ElevatorEntry,
    /// Picks after which `clook` and `sptf` take the oldest request, in block layer and drive.
    ///
    /// Four times the drive's queue, the least multiple of it that costs random 4 KiB reads at full
    /// depth under one percent of what pure greed reaches (three times costs two, twice ten) while
    /// it more than halves the longest wait.
    pub passes: u32,
    /// How long the drive waits for a stream of reads to go on before it serves another; zero does
    /// not wait.
    pub anticipate: Span,
    /// Requests with block layer and drive together; what is beyond waits in order of arrival.
    pub nr_requests: u32,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self::for_elevator(&ELEVATORS[0])
    }
}

impl DiskOptions {
    /// The defaults under an elevator.
    pub fn for_elevator(elevator: &'static ElevatorEntry) -> Self {
        let strict = elevator.name.ends_with("-strict");
        Self {
            elevator,
            batch: 16,
            read_expire: Span::from_millis(500),
            write_expire: if strict { Span::from_millis(500) } else { Span::from_secs(5) },
            writes_starved: 2,
            drive_depth: 32,
            drive_policy: &ELEVATORS[ELEVATORS.len() - 1],
            passes: 128,
            anticipate: Span::ZERO,
            nr_requests: 64,
        }
    }
}

fn order(
    option: &str,
    name: &str,
    in_drive: bool,
) -> Result<&'static ElevatorEntry, DeviceSpecError> {
    elevator(name).filter(|entry| entry.in_drive || !in_drive).ok_or_else(|| {
        let known = ELEVATORS.iter().filter(|entry| entry.in_drive || !in_drive);
        let names: Vec<_> = known.map(|entry| entry.name).collect();
        DeviceSpecError::Value {
            option: option.to_owned(),
            value: name.to_owned(),
            expected: format!("one of {}", names.join(", ")),
        }
    })
}

fn count(option: &str, text: &str, most: u32) -> Result<u32, DeviceSpecError> {
    value(option, text, &format!("a whole number from 1 to {most}"), |number: &u32| {
        (1..=most).contains(number)
    })
}

fn age(option: &str, text: &str) -> Result<Span, DeviceSpecError> {
    value(option, text, "a time above zero with its unit, as in 500ms or 5s", |age: &Span| {
        *age > Span::ZERO
    })
}

impl FromStr for DiskOptions {
    type Err = DeviceSpecError;

    /// Reads `elevator=fifo,depth=1`; what is not named has its default.
    fn from_str(text: &str) -> Result<Self, DeviceSpecError> {
        let pairs = pairs(ENTRY.name, OPTIONS, text)?;
        let mut options = Self::default();
        // The elevator goes first, since defaults depend on it.
        if let Some((name, value)) = pairs.iter().find(|(name, _)| *name == "elevator") {
            options = Self::for_elevator(order(name, value, false)?);
        }
        for (name, text) in pairs {
            match name {
                "batch" => options.batch = count(name, text, MOST_REQUESTS)?,
                "read_expire" => options.read_expire = age(name, text)?,
                "write_expire" => options.write_expire = age(name, text)?,
                "writes_starved" => options.writes_starved = count(name, text, MOST_REQUESTS)?,
                "depth" => options.drive_depth = count(name, text, MOST_REQUESTS)?,
                "drive" => options.drive_policy = order(name, text, true)?,
                "passes" => options.passes = count(name, text, 1_000_000)?,
                "anticipate" => {
                    options.anticipate =
                        value(name, text, "a time with its unit, as in 6ms", |_| true)?;
                }
                "nr_requests" => options.nr_requests = count(name, text, MOST_REQUESTS)?,
                _ => {}
            }
        }
        Ok(options)
    }
}

impl fmt::Display for DiskOptions {
    /// What differs from the defaults, so that it reads back; empty for the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::for_elevator(self.elevator);
        let mut differing = Vec::new();
        let mut note = |name: &str, value: &dyn fmt::Display, differs: bool| {
            if differs {
                differing.push(format!("{name}={value}"));
            }
        };
        note("elevator", &self.elevator.name, *self.elevator != ELEVATORS[0]);
        note("batch", &self.batch, self.batch != usual.batch);
        note("read_expire", &self.read_expire, self.read_expire != usual.read_expire);
        note("write_expire", &self.write_expire, self.write_expire != usual.write_expire);
        note("writes_starved", &self.writes_starved, self.writes_starved != usual.writes_starved);
        note("depth", &self.drive_depth, self.drive_depth != usual.drive_depth);
        note("drive", &self.drive_policy.name, self.drive_policy != usual.drive_policy);
        note("passes", &self.passes, self.passes != usual.passes);
        note("anticipate", &self.anticipate, self.anticipate != usual.anticipate);
        note("nr_requests", &self.nr_requests, self.nr_requests != usual.nr_requests);
        f.write_str(&differing.join(","))
    }
}

impl DeviceModel for DiskOptions {
    fn build(&self, seed: u64) -> Box<dyn Device> {
        // Where the platters stand: disks of one system must not turn in step.
        let steps = 1_u64 << 32;
        let phase = Rng::new(seed).fork("platters").below(steps) as f64 / steps as f64;
        Box::new(Disk::new(Z7K500, self, phase))
    }

    fn capacity_bytes(&self) -> u64 {
        Z7K500.capacity_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_linux() {
        let options: DiskOptions = "".parse().unwrap();
        assert_eq!(options, DiskOptions::default());
        assert_eq!((options.elevator.name, options.drive_policy.name), ("deadline", "sptf"));
        assert_eq!((options.batch, options.writes_starved), (16, 2));
        assert_eq!((options.drive_depth, options.nr_requests), (32, 64));
        assert_eq!(options.to_string(), "");
    }

    #[test]
    fn strict_has_one_expiry_wherever_the_elevator_is_named() {
        let strict: DiskOptions = "depth=8,elevator=deadline-strict".parse().unwrap();
        assert_eq!(strict.write_expire, Span::from_millis(500));
        assert_eq!(strict.to_string(), "elevator=deadline-strict,depth=8");
        let explicit: DiskOptions = "write_expire=2s,elevator=deadline-strict".parse().unwrap();
        assert_eq!(explicit.write_expire, Span::from_secs(2));
    }

    #[test]
    fn every_option_reads_back() {
        let text = "elevator=clook,batch=4,read_expire=1s,write_expire=2s,writes_starved=3,depth=5,\
                    drive=fifo,passes=7,anticipate=6ms,nr_requests=9";
        let options: DiskOptions = text.parse().unwrap();
        assert_eq!(options.to_string(), text);
        assert_eq!(text.split(',').count(), OPTIONS.len());
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        for (text, wrong, right) in [
            ("elevator=cfq", "cfq", "deadline, deadline-strict, fifo"),
            ("drive=deadline", "deadline", "fifo, clook, sptf"),
            ("depth=0", "depth", "from 1 to"),
            ("depth=9999", "9999", "from 1 to"),
            ("batch=x", "batch", "whole number"),
            ("read_expire=500", "500", "500ms"),
            ("write_expire=0s", "write_expire", "above zero"),
        ] {
            let error = text.parse::<DiskOptions>().unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains(right), "{text}: {error}");
        }
    }
}
