//! The spindles of all servers, and the cutting of a server's bytes over its spindles.

use afflux_core::device::placement::Piece;
use afflux_core::device::{Device, DeviceRequest};
use afflux_core::rng::Rng;
use afflux_core::units::{Span, Time};

use crate::invariants;
use crate::scenario::Servers as ServerOptions;

/// All spindles, server by server.
pub(crate) struct Devices {
    spindles: Vec<Spindle>,
    per_server: u32,
    chunk_bytes: u64,
}

struct Spindle {
    device: Box<dyn Device>,
    clock: DeviceClock,
    /// When its next completion is due: in time of the world, for which an event is there, and in
    /// its own.
    due: Time,
    due_own: Time,
    watch: invariants::OneAtATime,
}

/// The time of a device, which passes slower than the world's while the device is slow.
#[derive(Clone, Copy, Debug)]
struct DeviceClock {
    world: Time,
    device: Time,
    slower: f64,
}

impl DeviceClock {
    fn own(&self, now: Time) -> Time {
        let passed = now.since(self.world);
        let passed = if self.slower == 1.0 { passed } else { passed.mul_f64(1.0 / self.slower) };
        self.device + passed
    }

    fn of_world(&self, own: Time) -> Time {
        self.world + self.stretched(own.since(self.device))
    }

    fn stretched(&self, span: Span) -> Span {
        if self.slower == 1.0 { span } else { span.mul_f64(self.slower) }
    }
}

impl Devices {
    pub(super) fn new(options: &ServerOptions, seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("devices");
        let count = options.count * options.spindles;
        let spindles = (0..count).map(|_| Spindle {
            device: options.device.build(rng.bits()),
            clock: DeviceClock { world: Time::ZERO, device: Time::ZERO, slower: 1.0 },
            due: Time::NEVER,
            due_own: Time::NEVER,
            watch: invariants::OneAtATime::new(options.device.name() == "hdd"),
        });
        Self {
            spindles: spindles.collect(),
            per_server: options.spindles,
            chunk_bytes: options.chunk,
        }
    }

    /// A stretch of a server's bytes as pieces of its spindles: chunks go round.
    pub(super) fn cut(
        &self,
        server: u32,
        piece: Piece,
    ) -> impl Iterator<Item = (u32, Piece)> + use<> {
        let (count, chunk) = (u64::from(self.per_server), self.chunk_bytes);
        let end = piece.offset_bytes.saturating_add(piece.length_bytes);
        let mut at = piece.offset_bytes;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            if count == 1 {
                at = end;
                return Some((server, piece));
            }
            let (number, within) = (at / chunk, at % chunk);
            let length_bytes = (chunk - within).min(end - at);
            let offset_bytes = number / count * chunk + within;
            at += length_bytes;
            let spindle = server * count as u32 + (number % count) as u32;
            Some((spindle, Piece { offset_bytes, length_bytes }))
        })
    }

    /// Hands a transfer over; gives the time for which an event is to be put in, if it is new.
    pub(super) fn submit(
        &mut self,
        now: Time,
        spindle: u32,
        request: u32,
        write: bool,
        piece: Piece,
    ) -> Option<Time> {
        let one = &mut self.spindles[spindle as usize];
        let Piece { offset_bytes, length_bytes } = piece;
        let request = DeviceRequest { id: u64::from(request), write, offset_bytes, length_bytes };
        one.device.submit(one.clock.own(now), request);
        one.look(now)
    }

    /// Whether the event that comes `now` is the one for the next completion.
    pub(super) fn is_due(&self, now: Time, spindle: u32) -> bool {
        self.spindles[spindle as usize].due == now
    }

    /// What a spindle has finished by its due time: a request, and how long the device worked.
    pub(super) fn poll(&mut self, spindle: u32) -> Option<(u32, Span)> {
        let one = &mut self.spindles[spindle as usize];
        let done = one.device.poll(one.due_own)?;
        one.watch.worked(done.at, done.access);
        Some((done.id as u32, one.clock.stretched(done.access)))
    }

    /// Forgets the completion that was due, and gives the time of the next.
    pub(super) fn next_due(&mut self, now: Time, spindle: u32) -> Option<Time> {
        let one = &mut self.spindles[spindle as usize];
        (one.due, one.due_own) = (Time::NEVER, Time::NEVER);
        one.look(now)
    }

    /// What watches a spindle.
    #[cfg(test)]
    pub(crate) fn watch(&mut self, spindle: u32) -> &mut invariants::OneAtATime {
        &mut self.spindles[spindle as usize].watch
    }

    /// From `now` on the spindles of a server are `slower` times slower than they should be.
    /// Events that were put in for them are void; gives those to put in instead.
    pub(crate) fn slow(&mut self, now: Time, server: u32, slower: f64) -> Vec<(Time, u32)> {
        let first = server * self.per_server;
        let mut due = Vec::new();
        for spindle in first..first + self.per_server {
            let one = &mut self.spindles[spindle as usize];
            one.clock = DeviceClock { world: now, device: one.clock.own(now), slower };
            if let Some(time) = self.next_due(now, spindle) {
                due.push((time, spindle));
            }
        }
        due
    }
}

impl Spindle {
    fn look(&mut self, now: Time) -> Option<Time> {
        let own = self.device.next_done()?;
        if own >= self.due_own {
            return None;
        }
        self.due_own = own;
        // Rounding to and from the time of a slow device may lose a nanosecond.
        self.due = self.clock.of_world(own).max(now);
        Some(self.due)
    }
}
