//! What a scenario has go wrong, and when.

use afflux_core::units::Time;

use crate::events::Event;
use crate::scenario::{Fault, FaultKind, FaultOf};
use crate::world::World;

impl World {
    /// Puts in the beginnings and ends of all faults.
    pub(crate) fn schedule_faults(&mut self) {
        for (number, fault) in (0..).zip(self.scenario.faults.clone()) {
            let begins = Time::ZERO + fault.at;
            self.events.push(begins, Event::FaultBegins(number));
            if let Some(lasts) = fault.lasts {
                self.events.push(begins + lasts, Event::FaultEnds(number));
            }
        }
    }

    /// Ends what would never end by itself.
    pub(crate) fn lift_faults(&mut self, now: Time) {
        for fault in 0..self.scenario.faults.len() {
            if self.scenario.faults[fault].lasts.is_none() {
                self.change(now, fault as u32, false);
            }
        }
    }

    pub(crate) fn fault_begins(&mut self, now: Time, fault: u32) {
        // What comes to its end meets nothing new.
        if !self.draining {
            self.change(now, fault, true);
        }
    }

    pub(crate) fn fault_ends(&mut self, now: Time, fault: u32) {
        self.change(now, fault, false);
    }

    fn change(&mut self, now: Time, fault: u32, begins: bool) {
        let Fault { what, which, factor, .. } = self.scenario.faults[fault as usize].clone();
        let there = match what.of() {
            FaultOf::Server => self.scenario.servers.count,
            FaultOf::Client => self.scenario.client_count(),
            // The server of names has known of its faults from the beginning.
            FaultOf::Names => return,
        };
        let factor = if begins { factor } else { 1.0 };
        for one in which.map_or(0..there, |one| one..one + 1) {
            match what {
                FaultKind::Stall => {
                    self.servers.each[one as usize].stalled = begins;
                    self.start_services(now, one);
                }
                FaultKind::Die if begins => self.kill(one),
                FaultKind::Die => self.servers.each[one as usize].dead = false,
                FaultKind::SlowLink => self.network.slow(one, factor),
                FaultKind::SlowDisk => {
                    for (due, spindle) in self.servers.devices.slow(now, one, factor) {
                        self.events.push(due, Event::Device(spindle));
                    }
                }
                FaultKind::ClientDie if begins => self.client_dies(now, one),
                FaultKind::ClientDie => self.client_returns(now, one),
                FaultKind::NamesStall | FaultKind::NamesDie => {}
            }
        }
    }
}
