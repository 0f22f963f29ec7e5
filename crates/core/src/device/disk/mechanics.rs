//! The moving parts of one disk: where the heads are, how the platters stand, what a transfer
//! takes.
//!
//! Positions are bytes from the first block. Inside, times are `f64` seconds; they are rounded to
//! nanoseconds once per transfer, so that the sum over a run does not depend on the order of sums.

use super::super::elevator::Queued;
use crate::units::{Span, Time};

/// What a disk is made of. The formulas that use each number stand with [`DiskParameters::seek`],
/// [`DiskParameters::rate`] and [`Mechanism::serve`].
#[derive(Clone, Debug, PartialEq)]
pub struct DiskParameters {
    /// Bytes from the first block to the last.
    pub capacity_bytes: u64,
    /// Revolutions a minute.
    pub rpm: u32,
    /// Cylinders; a move inside one costs no seek.
    pub cylinders: u32,
    /// Bytes a second read at the outer edge, where the first block lies.
    pub outer_rate: f64,
    /// Bytes a second read at the inner edge, where the last block lies.
    pub inner_rate: f64,
    /// Write rate over read rate.
    pub write_rate_ratio: f64,
    /// Seconds of the shortest seek.
    pub seek_base: f64,
    /// Seconds per square root of the fraction of the stroke, up to the knee.
    pub seek_root: f64,
    /// Where the arm stops accelerating, as a fraction of the stroke.
    pub seek_knee: f64,
    /// Seconds at which the straight part beyond the knee would meet distance zero.
    pub seek_far_base: f64,
    /// Seconds per whole stroke beyond the knee.
    pub seek_far_slope: f64,
    /// Seconds that the heads need to settle more for a write than for a read.
    pub write_settle: f64,
    /// Seconds of controller work for a transfer that does not continue the one before.
    pub overhead: f64,
    /// Bytes a second between the drive's buffer and the host.
    pub interface_rate: f64,
    /// Bytes that pass under the heads before a continued transfer is no longer found in the
    /// buffer.
    pub read_ahead_bytes: f64,
}

/// A 2.5-inch 7200 rpm disk of the class of the HGST Travelstar Z7K500.
///
/// Capacity and rotation are the drive's; rates are those measured in the papers' test bed at the
/// outer edge (113 MB/s read, 106 write) and half of it at the inner one, as its family has it; the
/// seek curve is solved for 1 ms track to track, 12 ms mean and 20 ms full stroke, the figures of
/// the family's specification.
pub const Z7K500: DiskParameters = DiskParameters {
    capacity_bytes: 500_107_862_016,
    rpm: 7200,
    cylinders: 240_000,
    outer_rate: 113e6,
    inner_rate: 57e6,
    write_rate_ratio: 106.0 / 113.0,
    seek_base: 1.0e-3,
    seek_root: 27.89e-3,
    seek_knee: 0.10,
    seek_far_base: 8.69e-3,
    seek_far_slope: 11.31e-3,
    write_settle: 0.1e-3,
    overhead: 0.15e-3,
    interface_rate: 300e6,
    read_ahead_bytes: 8e6,
};

impl DiskParameters {
    /// Seconds of a seek over the fraction `stroke` of the disk, 0 to 1.
    ///
    /// Square root up to the knee, straight beyond: the shape that Ruemmler and Wilkes found (IEEE
    /// Computer, March 1994).
    pub fn seek(&self, stroke: f64) -> f64 {
        if stroke * f64::from(self.cylinders) < 1.0 {
            0.0
        } else if stroke <= self.seek_knee {
            self.seek_base + self.seek_root * stroke.sqrt()
        } else {
            self.seek_far_base + self.seek_far_slope * stroke
        }
    }

    /// Bytes a second at `offset_bytes`, falling linearly from the outer edge to the inner one.
    pub fn rate(&self, offset_bytes: u64, write: bool) -> f64 {
        let inward = (offset_bytes as f64 / self.capacity_bytes as f64).min(1.0);
        let read = self.outer_rate + (self.inner_rate - self.outer_rate) * inward;
        if write { read * self.write_rate_ratio } else { read }
    }

    /// Seconds of one revolution.
    pub fn revolution(&self) -> f64 {
        60.0 / f64::from(self.rpm)
    }

    /// The angle at which `offset_bytes` starts, in turns from 0 to 1.
    ///
    /// The integral of 1 / (rate * revolution) over the bytes before, so that a transfer at the
    /// read rate ends exactly at the angle where the next byte starts.
    pub fn angle(&self, offset_bytes: u64) -> f64 {
        let slope = (self.outer_rate - self.inner_rate) / self.capacity_bytes as f64;
        let offset = offset_bytes.min(self.capacity_bytes) as f64;
        let seconds = if slope == 0.0 {
            offset / self.outer_rate
        } else {
            -libm::log1p(-slope * offset / self.outer_rate) / slope
        };
        fraction(seconds / self.revolution())
    }
}

/// The state of the moving parts between two transfers.
#[derive(Clone, Debug)]
pub struct Mechanism {
    parameters: DiskParameters,
    /// Reciprocals, since a decision weighs every request in the queue.
    per_capacity: f64,
    per_revolution: f64,
    /// Turns by which the platters stood at the clock's origin.
    phase: f64,
    /// End of the last transfer.
    position: u64,
    last_write: Option<bool>,
    free_at: Time,
}

/// The heads as they stand at one moment, ready to say what reaching a request would take.
#[derive(Debug)]
pub struct Aim<'a> {
    mechanism: &'a Mechanism,
    turns: f64,
    idle: f64,
}

impl Mechanism {
    /// A disk at rest over its first block, its platters `phase` turns (0 to 1) ahead.
    pub fn new(parameters: DiskParameters, phase: f64) -> Self {
        Self {
            per_capacity: 1.0 / parameters.capacity_bytes as f64,
            per_revolution: 1.0 / parameters.revolution(),
            parameters,
            phase,
            position: 0,
            last_write: None,
            free_at: Time::ZERO,
        }
    }

    /// What the disk is made of.
    pub const fn parameters(&self) -> &DiskParameters {
        &self.parameters
    }

    /// The heads at `now`, which is not before the end of the last transfer.
    pub fn aim(&self, now: Time) -> Aim<'_> {
        // A whole number of revolutions fits into a minute, so that the remainder is exact however
        // long the run.
        const MINUTE: u64 = 60_000_000_000;
        let in_minute = (now.as_nanos() % MINUTE) as f64;
        Aim {
            mechanism: self,
            turns: in_minute * (f64::from(self.parameters.rpm) / MINUTE as f64) + self.phase,
            idle: now.since(self.free_at).as_secs_f64(),
        }
    }

    /// Carries out one transfer that starts at `now`, and says what it took.
    ///
    /// A transfer that continues the last one in the same direction finds its bytes (or its room)
    /// in the drive's buffer, unless the heads have gone on for more than the buffer holds: it
    /// takes the larger of length / interface rate and length / rate - idle time. Any other takes
    /// overhead + seek (+ settle) + rotation + length / rate.
    pub fn serve(&mut self, now: Time, queued: &Queued) -> Span {
        let request = &queued.request;
        let left = self.parameters.capacity_bytes.saturating_sub(request.offset_bytes);
        let length = request.length_bytes.min(left);
        let rate = self.parameters.rate(request.offset_bytes, request.write);
        let aim = self.aim(now);
        let seconds = if aim.continues(queued) {
            let wire = length as f64 / self.parameters.interface_rate;
            wire.max(length as f64 / rate - aim.idle)
        } else {
            aim.reach(queued) + length as f64 / rate
        };
        let access = Span::from_secs_f64(seconds);
        self.position = request.offset_bytes.saturating_add(length);
        self.last_write = Some(request.write);
        self.free_at = now + access;
        access
    }
}

impl Aim<'_> {
    /// End of the last transfer, in bytes.
    pub const fn position(&self) -> u64 {
        self.mechanism.position
    }

    /// Seconds until the first byte of a request is under the heads (overhead, seek, settling and
    /// rotation); zero when it continues the last transfer.
    pub fn positioning(&self, queued: &Queued) -> f64 {
        if self.continues(queued) { 0.0 } else { self.reach(queued) }
    }

    fn continues(&self, queued: &Queued) -> bool {
        let (disk, request) = (self.mechanism, &queued.request);
        request.offset_bytes == disk.position
            && disk.last_write == Some(request.write)
            && self.idle * disk.parameters.rate(request.offset_bytes, request.write)
                < disk.parameters.read_ahead_bytes
    }

    fn reach(&self, queued: &Queued) -> f64 {
        let (disk, request) = (self.mechanism, &queued.request);
        let stroke = disk.position.abs_diff(request.offset_bytes) as f64 * disk.per_capacity;
        let settle = if request.write { disk.parameters.write_settle } else { 0.0 };
        let travel = disk.parameters.overhead + disk.parameters.seek(stroke.min(1.0)) + settle;
        let missed = queued.angle - (self.turns + travel * disk.per_revolution);
        travel + fraction(missed) * disk.parameters.revolution()
    }
}

/// The part of `turns` above the whole number below it. A cast, since `f64::floor` is a call into a
/// library on processors that the compiler may not assume more of.
fn fraction(turns: f64) -> f64 {
    let part = turns - turns as i64 as f64;
    if part < 0.0 { part + 1.0 } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceRequest;

    fn queued(offset_bytes: u64, length_bytes: u64, write: bool) -> Queued {
        let request = DeviceRequest { id: 0, write, offset_bytes, length_bytes };
        Queued { request, since: Time::ZERO, angle: Z7K500.angle(offset_bytes) }
    }

    #[test]
    fn seek_curve_has_the_mean_and_the_full_stroke_of_the_specification() {
        let steps = 100_000;
        let mean = (0..steps)
            .map(|step| (f64::from(step) + 0.5) / f64::from(steps))
            .map(|stroke| 2.0 * (1.0 - stroke) * Z7K500.seek(stroke) / f64::from(steps))
            .sum::<f64>();
        assert!((mean - 12.0e-3).abs() < 0.01e-3, "{mean}");
        assert!((Z7K500.seek(1.0) - 20.0e-3).abs() < 1e-9);
        let track = Z7K500.seek(1.0 / f64::from(Z7K500.cylinders));
        assert!((1.0e-3..1.1e-3).contains(&track), "{track}");
        assert_eq!(Z7K500.seek(0.0), 0.0);
    }

    #[test]
    fn seek_grows_with_distance() {
        let curve = (0..=1000).map(|step| Z7K500.seek(f64::from(step) / 1000.0));
        assert!(curve.collect::<Vec<_>>().is_sorted());
    }

    #[test]
    fn the_disk_turns_under_a_transfer_to_where_the_next_byte_starts() {
        for offset in [0_u64, 100_000_000_000, 400_000_000_000] {
            let length = 10_000_u64;
            let turned = length as f64 / Z7K500.rate(offset, false) / Z7K500.revolution();
            let moved = fraction(Z7K500.angle(offset + length) - Z7K500.angle(offset));
            assert!((moved - turned).abs() < 1e-5, "{offset}: {moved} {turned}");
        }
    }

    #[test]
    fn rotation_is_found_again_after_hours() {
        let disk = Mechanism::new(Z7K500, 0.25);
        let target = queued(10_000_000_000, 4096, false);
        let start = disk.aim(Time::from_nanos(1_234_567)).reach(&target);
        // 7200 revolutions fit into a minute exactly.
        let later = Time::from_nanos(1_234_567 + 600 * 60_000_000_000);
        assert!((disk.aim(later).reach(&target) - start).abs() < 1e-9);
    }

    #[test]
    fn sequential_transfers_run_at_the_rate_and_idle_time_beyond_the_buffer_costs_a_turn() {
        let mut disk = Mechanism::new(Z7K500, 0.0);
        let first = disk.serve(Time::ZERO, &queued(0, 1 << 20, false));
        let at_rate = (1 << 20) as f64 / Z7K500.rate(1 << 20, false);
        let mut now = Time::ZERO + first;
        let next = disk.serve(now, &queued(1 << 20, 1 << 20, false));
        assert!((next.as_secs_f64() - at_rate).abs() < 1e-8, "{next}");
        now += next + Span::from_millis(5);
        let buffered = disk.serve(now, &queued(2 << 20, 1 << 20, false));
        assert!((buffered.as_secs_f64() - (at_rate - 5e-3)).abs() < 1e-6, "{buffered}");
        now += buffered + Span::from_millis(200);
        let late = disk.serve(now, &queued(3 << 20, 1 << 20, false));
        assert!(late.as_secs_f64() > at_rate, "{late}");
    }

    #[test]
    fn changing_direction_or_place_is_no_continuation() {
        let mut disk = Mechanism::new(Z7K500, 0.0);
        let first = disk.serve(Time::ZERO, &queued(0, 1 << 20, false));
        let now = Time::ZERO + first;
        assert_eq!(disk.aim(now).positioning(&queued(1 << 20, 1 << 20, false)), 0.0);
        assert!(disk.aim(now).positioning(&queued(1 << 20, 1 << 20, true)) > 0.0);
        assert!(disk.aim(now).positioning(&queued(2 << 20, 1 << 20, false)) > 0.0);
    }

    #[test]
    fn requests_beyond_the_end_take_finite_time() {
        let mut disk = Mechanism::new(Z7K500, 0.0);
        for (offset, length) in [(u64::MAX, u64::MAX), (Z7K500.capacity_bytes, 1), (0, u64::MAX)] {
            let access = disk.serve(Time::from_nanos(7), &queued(offset, length, true));
            assert!(access < Span::from_secs(3 * 3600), "{access}");
        }
    }
}
