//! A flash drive: pages spread over channels that work at once, and the price of random writes.
//!
//! A transfer is cut into pages; page `p` lies on channel `p mod channels`, and each channel does
//! one page after the other. Behind the channels one host link carries the bytes of all. Writes
//! wear room away: after every `pages_per_block * (1 - u)` pages written, a channel erases one
//! block and first moves the `pages_per_block * u` pages in it that are still valid. `u` follows
//! from the write amplification, WA = 1 / (1 - u), which lies between 1 for sequential writes and
//! the value of a steady random load, by how random the latest writes were.
//!
//! The division of work is that of the SSD extension to DiskSim (Agrawal et al., USENIX ATC 2008).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::spec::{DeviceModel, DeviceSpecError, OptionAbout, pairs, value};
use super::{Device, DeviceDone, DeviceEntry, DeviceRequest};
use crate::units::{Span, Time};

/// The registry's line for this model.
pub(crate) const ENTRY: DeviceEntry = DeviceEntry {
    name: "ssd",
    about: "a SATA flash drive of 480 GB: channels, host link, cleaning after random writes",
    options: OPTIONS,
    read: |text| Ok(Arc::new(text.parse::<SsdOptions>()?)),
};

const OPTIONS: &[OptionAbout] = &[
    OptionAbout { name: "channels", about: "channels that work at once [16]" },
    OptionAbout { name: "random_wa", about: "write amplification of steady random writes [3.88]" },
];

/// What a flash drive is made of.
///
/// The defaults read 550 MB/s through the host link and write 250 to 280 MB/s in sequence: a SATA
/// drive of the middle class. Page times are those of the DiskSim extension; its bus of 25 ns a
/// byte is from 2008, ours moves 400 MB/s a channel.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdOptions {
    /// Channels; each does one page at a time.
    pub channels: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages in a block that is erased as one.
    pub pages_per_block: u32,
    /// Reading one page from the cells.
    pub read: Span,
    /// Writing one page into the cells.
    pub program: Span,
    /// Erasing one block.
    pub erase: Span,
    /// One page over the bus of its channel.
    pub bus: Span,
    /// Controller work for one request.
    pub overhead: Span,
    /// Bytes a second of the host link.
    pub link_rate: f64,
    /// Write amplification when all recent writes were random: 3.88 is what greedy cleaning gives
    /// with 15 % of spare room.
    pub random_wa: f64,
}

impl Default for SsdOptions {
    fn default() -> Self {
        Self {
            channels: 16,
            page_bytes: 4096,
            pages_per_block: 64,
            read: Span::from_micros(25),
            program: Span::from_micros(200),
            erase: Span::from_micros(1_500),
            bus: Span::from_micros(10),
            overhead: Span::from_micros(20),
            link_rate: 550e6,
            random_wa: 3.88,
        }
    }
}

impl FromStr for SsdOptions {
    type Err = DeviceSpecError;

    fn from_str(text: &str) -> Result<Self, DeviceSpecError> {
        let mut options = Self::default();
        for (name, text) in pairs(ENTRY.name, OPTIONS, text)? {
            match name {
                "channels" => {
                    let range = "a whole number from 1 to 1024";
                    options.channels = value(name, text, range, |n| (1..=1024).contains(n))?;
                }
                "random_wa" => {
                    let range = "a number from 1 to 20";
                    options.random_wa = value(name, text, range, |wa| (1.0..=20.0).contains(wa))?;
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

impl fmt::Display for SsdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        let mut differing = Vec::new();
        if self.channels != usual.channels {
            differing.push(format!("channels={}", self.channels));
        }
        if self.random_wa != usual.random_wa {
            differing.push(format!("random_wa={}", self.random_wa));
        }
        f.write_str(&differing.join(","))
    }
}

impl DeviceModel for SsdOptions {
    fn build(&self, _seed: u64) -> Box<dyn Device> {
        Box::new(Ssd::new(self.clone()))
    }

    fn capacity_bytes(&self) -> u64 {
        480_103_981_056
    }
}

/// How many streams of writes are recognised as sequential at once.
const STREAMS: usize = 16;

/// A flash drive as [`Device`].
#[derive(Debug)]
pub struct Ssd {
    options: SsdOptions,
    channels: Vec<Channel>,
    link_free: Time,
    /// Ends of the latest writes, the oldest to be replaced first.
    streams: [u64; STREAMS],
    oldest_stream: usize,
    /// How random the latest writes were, 0 to 1.
    randomness: f64,
    submitted: u64,
    /// By time, then by order of submission.
    done: BinaryHeap<Reverse<(Time, u64, u64, Span)>>,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    free: Time,
    /// Pages written since the last cleaning.
    written: f64,
}

impl Ssd {
    /// An idle drive that saw sequential writes only.
    pub fn new(options: SsdOptions) -> Self {
        Self {
            channels: vec![Channel::default(); options.channels.max(1) as usize],
            options,
            link_free: Time::ZERO,
            streams: [0; STREAMS],
            oldest_stream: 0,
            randomness: 0.0,
            submitted: 0,
            done: BinaryHeap::new(),
        }
    }

    /// Write amplification that the latest writes cause, 1 or more.
    pub fn write_amplification(&self) -> f64 {
        1.0 + self.randomness * (self.options.random_wa - 1.0)
    }

    /// A moving average by bytes over about 64 MiB, from whether a write continues a recent one.
    fn note_write(&mut self, request: &DeviceRequest) {
        const MEMORY_BYTES: f64 = 67_108_864.0;
        let known = self.streams.iter().position(|end| *end == request.offset_bytes);
        let slot = known.unwrap_or_else(|| {
            self.oldest_stream = (self.oldest_stream + 1) % STREAMS;
            self.oldest_stream
        });
        self.streams[slot] = request.offset_bytes.saturating_add(request.length_bytes);
        // A write that fills whole blocks leaves nothing to move, wherever it lies.
        let block = self.options.page_bytes * u64::from(self.options.pages_per_block);
        let across = (block * u64::from(self.options.channels)) as f64;
        let random = if known.is_some() {
            0.0
        } else {
            1.0 - (request.length_bytes as f64 / across).min(1.0)
        };
        let weight = (request.length_bytes as f64 / MEMORY_BYTES).min(1.0);
        self.randomness += (random - self.randomness) * weight;
    }

    /// Puts one page on its channel; returns when it is done, the cells left out of the time for
    /// cleaning that follows.
    fn page(&mut self, start: Time, page: u64, write: bool, amplification: f64) -> Time {
        let options = &self.options;
        let index = (page % self.channels.len() as u64) as usize;
        let channel = &mut self.channels[index];
        let cells = if write { options.program } else { options.read };
        let end = channel.free.max(start) + options.bus + cells;
        channel.free = end;
        if write {
            let valid = 1.0 - 1.0 / amplification;
            let block = f64::from(options.pages_per_block);
            channel.written += 1.0;
            let freed = (block * (1.0 - valid)).max(1.0);
            if channel.written >= freed {
                channel.written -= freed;
                let moves = (options.read + options.program).mul_f64(block * valid);
                channel.free = end + options.erase + moves;
            }
        }
        end
    }
}

impl Device for Ssd {
    fn submit(&mut self, now: Time, request: DeviceRequest) {
        if request.write {
            self.note_write(&request);
        }
        let amplification = self.write_amplification();
        let start = now + self.options.overhead;
        let link = Span::from_secs_f64(request.length_bytes as f64 / self.options.link_rate);
        let first = request.offset_bytes / self.options.page_bytes;
        let last = request.offset_bytes.saturating_add(request.length_bytes.max(1) - 1);
        let mut end = start;
        for page in first..=last / self.options.page_bytes {
            end = end.max(self.page(start, page, request.write, amplification));
        }
        // The link carries the bytes of a transfer while its pages are worked on: the later of the
        // two ends it. Transfers share the link in order of arrival.
        self.link_free = self.link_free.max(start) + link;
        let at = end.max(self.link_free);
        self.submitted += 1;
        self.done.push(Reverse((at, self.submitted, request.id, at.since(now))));
    }

    fn poll(&mut self, now: Time) -> Option<DeviceDone> {
        let Reverse((at, ..)) = self.done.peek()?;
        if *at > now {
            return None;
        }
        self.done.pop().map(|Reverse((at, _, id, access))| DeviceDone { id, at, access })
    }

    fn next_done(&mut self) -> Option<Time> {
        self.done.peek().map(|Reverse((at, ..))| *at)
    }

    fn pending(&self) -> usize {
        self.done.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// MB/s of a closed loop with `depth` requests outstanding.
    fn speed(write: bool, random: bool, length: u64, depth: u64, count: u64) -> f64 {
        let mut ssd = Ssd::new(SsdOptions::default());
        let mut rng = Rng::new(1);
        let mut now = Time::ZERO;
        for id in 0..count {
            if id >= depth {
                now = ssd.next_done().unwrap();
                ssd.poll(now).unwrap();
            }
            let place = if random { rng.below(100_000_000) } else { id * length / 4096 };
            let request =
                DeviceRequest { id, write, offset_bytes: place * 4096, length_bytes: length };
            ssd.submit(now, request);
        }
        (count * length) as f64 / now.as_nanos() as f64 * 1e3
    }

    #[test]
    fn speeds_are_those_of_a_sata_drive() {
        let read = speed(false, false, 1 << 20, 8, 2_000);
        assert!((530.0..556.0).contains(&read), "{read}");
        let write = speed(true, false, 1 << 20, 8, 4_000);
        assert!((240.0..320.0).contains(&write), "{write}");
        let random_write = speed(true, true, 4096, 32, 200_000);
        assert!((30.0..110.0).contains(&random_write), "{random_write}");
        let one_read = speed(false, true, 4096, 1, 5_000) * 1e6 / 4096.0;
        assert!((10_000.0..20_000.0).contains(&one_read), "{one_read} IOPS");
        let many_reads = speed(false, true, 4096, 32, 50_000) * 1e6 / 4096.0;
        assert!((80_000.0..135_000.0).contains(&many_reads), "{many_reads} IOPS");
    }

    #[test]
    fn amplification_follows_what_was_written_lately() {
        let mut ssd = Ssd::new(SsdOptions::default());
        let mut rng = Rng::new(2);
        let write = |ssd: &mut Ssd, offset_bytes, length_bytes| {
            let request = DeviceRequest { id: 0, write: true, offset_bytes, length_bytes };
            ssd.submit(Time::ZERO, request);
        };
        for step in 0..400 {
            write(&mut ssd, step << 20, 1 << 20);
        }
        assert!(ssd.write_amplification() < 1.05);
        for _ in 0..100_000 {
            write(&mut ssd, rng.below(100_000_000) * 4096, 4096);
        }
        assert!(ssd.write_amplification() > 3.8);
        for step in 0..400 {
            write(&mut ssd, step << 20, 1 << 20);
        }
        assert!(ssd.write_amplification() < 1.05);
    }
}
