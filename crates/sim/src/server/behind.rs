//! Writes that a server acknowledges before they are on a device.
//!
//! A drive does so with its write cache, a server with memory on a battery. The device has each
//! write from the moment at which it would have had it anyway; only the answer comes earlier,
//! as long as what was answered and is not yet on the device fits into the limit. Others are
//! answered in order when there is room, or when they are on the device themselves.

use std::collections::VecDeque;

use afflux_core::units::Time;

use crate::world::World;

/// What each server has answered ahead of its devices.
#[derive(Debug)]
pub(crate) struct Behind {
    /// Bytes for each server; zero writes through.
    limit_bytes: u64,
    each: Vec<Ahead>,
}

#[derive(Clone, Debug, Default)]
struct Ahead {
    bytes: u64,
    /// Writes that wait for room, in order.
    waiting: VecDeque<u32>,
}

impl Behind {
    pub(super) fn new(servers: u32, limit_bytes: u64) -> Self {
        let servers = if limit_bytes == 0 { 0 } else { servers as usize };
        Self { limit_bytes, each: vec![Ahead::default(); servers] }
    }

    /// Fails unless all that was answered is on devices.
    pub(crate) fn assert_caught_up(&self) {
        for (number, ahead) in self.each.iter().enumerate() {
            let left = (ahead.bytes, ahead.waiting.len());
            assert_eq!(left, (0, 0), "server {number} has bytes to write and writes to answer");
        }
    }

    /// Forgets the writes that wait: their server has died.
    pub(super) fn forget_waiting(&mut self, server: u32) {
        if let Some(ahead) = self.each.get_mut(server as usize) {
            ahead.waiting.clear();
        }
    }
}

impl World {
    /// A write is with the devices: it is answered now if there is room.
    pub(super) fn write_behind(&mut self, now: Time, index: u32) {
        let server = self.requests[index].server;
        if let Some(ahead) = self.servers.behind.each.get_mut(server as usize) {
            ahead.waiting.push_back(index);
            self.answer_ahead(now, server);
        }
    }

    fn answer_ahead(&mut self, now: Time, server: u32) {
        loop {
            let limit = self.servers.behind.limit_bytes;
            let ahead = &mut self.servers.behind.each[server as usize];
            let Some(&index) = ahead.waiting.front() else { return };
            let after = ahead.bytes + u64::from(self.requests[index].length_bytes);
            if after > limit && ahead.bytes > 0 {
                return;
            }
            ahead.waiting.pop_front();
            ahead.bytes = after;
            self.requests[index].behind = true;
            self.answer(now, index);
        }
    }

    /// A request is on its device; whether it had been answered before.
    pub(super) fn caught_up(&mut self, now: Time, index: u32) -> bool {
        let request = self.requests[index];
        let Some(ahead) = self.servers.behind.each.get_mut(request.server as usize) else {
            return false;
        };
        if request.behind {
            ahead.bytes -= u64::from(request.length_bytes);
            self.requests[index].behind = false;
            if !request.awaited && !request.under_way {
                self.requests.remove(index);
            }
            self.answer_ahead(now, request.server);
        } else {
            ahead.waiting.retain(|waiting| *waiting != index);
        }
        request.behind
    }
}
