//! What a scenario has go wrong, and when.

use afflux_core::units::Time;

use crate::events::Event;
use crate::scenario::{Fault, FaultKind};
use crate::world::World;

impl World {
    /// Puts in the beginnings and ends of all faults.
    pub(crate) fn schedule_faults(&mut self) {
        for (number, fault) in (0..).zip(self.scenario.faults.clone()) {
            let begins = Time::ZERO + fault.at;
            self.events.push(begins, Event::FaultBegins(number));
            self.events.push(begins + fault.lasts, Event::FaultEnds(number));
        }
    }

    pub(crate) fn fault_begins(&mut self, now: Time, fault: u32) {
        self.change(now, fault, true);
    }

    pub(crate) fn fault_ends(&mut self, now: Time, fault: u32) {
        self.change(now, fault, false);
    }

    fn change(&mut self, now: Time, fault: u32, begins: bool) {
        let Fault { what, which, factor, .. } = self.scenario.faults[fault as usize].clone();
        let servers = match which {
            Some(one) => one..one + 1,
            None => 0..self.scenario.servers.count,
        };
        let factor = if begins { factor } else { 1.0 };
        for server in servers {
            match what {
                FaultKind::Stall => {
                    self.servers.each[server as usize].stalled = begins;
                    self.start_services(now, server);
                }
                FaultKind::Die if begins => self.kill(server),
                FaultKind::Die => self.servers.each[server as usize].dead = false,
                FaultKind::SlowLink => self.network.slow(server, factor),
                FaultKind::SlowDisk => {
                    for (due, spindle) in self.servers.devices.slow(now, server, factor) {
                        self.events.push(due, Event::Device(spindle));
                    }
                }
            }
        }
    }
}
