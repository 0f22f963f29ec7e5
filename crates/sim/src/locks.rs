//! Locks on shared files.

use afflux_core::units::Time;

use crate::world::World;

impl World {
    pub(crate) fn waits_for_lock(&mut self, _now: Time, _operation: u32) -> bool {
        false
    }

    pub(crate) fn release_lock(&mut self, _now: Time, _operation: u32) {}
}
