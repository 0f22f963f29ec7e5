//! The memory of the switch.
//!
//! A port takes what it needs up to a fixed limit, or all ports share one memory and each may take
//! a multiple, alpha, of what is free (Choudhury and Hahne, "Dynamic queue length thresholds for
//! shared-memory packet switches", 1998). One busy port thus gets `alpha / (1 + alpha)` of the
//! memory, and many leave some for a port that was idle.

use crate::scenario::Network as Keys;

/// How many bytes wait in all ports together, and how many may in one.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Of one port; the greatest number is no limit.
    port_bytes: u64,
    /// Of all together, with alpha in thousandths.
    shared: Option<(u64, u64)>,
    held_bytes: u64,
}

impl Buffers {
    pub(super) fn new(network: &Keys) -> Self {
        Self {
            port_bytes: network.buffer.unwrap_or(u64::MAX),
            shared: network.shared_buffer.map(|bytes| (bytes, (network.alpha * 1e3) as u64)),
            held_bytes: 0,
        }
    }

    /// What one port may hold at this moment together with another `bytes`.
    pub(super) fn room(&self, bytes: u64) -> u64 {
        let Some((all, alpha)) = self.shared else { return self.port_bytes };
        let free = all.saturating_sub(self.held_bytes);
        if bytes > free { 0 } else { self.port_bytes.min(free * alpha / 1_000) }
    }

    /// A port has taken a segment.
    pub(super) const fn take(&mut self, bytes: u64) {
        self.held_bytes += bytes;
    }

    /// A segment has left its port.
    pub(super) const fn give_back(&mut self, bytes: u64) {
        self.held_bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With alpha 1 one busy port gets half of the memory, with 2 two thirds.
    #[test]
    fn one_busy_port_gets_its_part_of_the_memory() {
        for (alpha, expected) in [(0.5, 100), (1.0, 150), (2.0, 200)] {
            let network =
                Keys { shared_buffer: Some(300_000), alpha, ..crate::Scenario::default().network };
            let mut buffers = Buffers::new(&network);
            while buffers.room(1_000) >= buffers.held_bytes + 1_000 {
                buffers.take(1_000);
            }
            assert_eq!(buffers.held_bytes / 1_000, expected, "{alpha}");
        }
    }
}
