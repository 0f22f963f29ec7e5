//! The three calls that a client makes of its controllers, and the log of one client's.

use afflux_core::limits::{Hold, Limits};
use afflux_core::path::{DecisionLog, LoggedPath, PathState, Reply, Ruling};
use afflux_core::units::Time;

use super::Clients;
use crate::request::NONE;

impl Clients {
    /// Asks whether the next request of a path may go.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        client: u32,
        path: u32,
        size_bytes: u32,
        limits: &Limits,
    ) -> Result<(), Hold> {
        let controller = self.controllers.of(self.obeys(client), self.lanes[path as usize].class);
        let state = &mut self.states[path as usize];
        let answer = controller.admit(state, now, size_bytes, limits);
        if let Some((log, path, state)) = self.log(client, path) {
            log.ask(now, path, size_bytes, limits, &answer, state);
        }
        answer
    }

    /// Tells of a reply.
    pub(crate) fn hear(&mut self, client: u32, path: u32, reply: &Reply) -> Ruling {
        let controller = self.controllers.of(self.obeys(client), self.lanes[path as usize].class);
        let ruling = controller.reply(&mut self.states[path as usize], reply);
        if let Some((log, path, state)) = self.log(client, path) {
            log.reply(path, reply, &ruling, state);
        }
        ruling
    }

    /// Tells of a request that was not answered.
    pub(crate) fn fault(&mut self, now: Time, client: u32, path: u32) {
        let controller = self.controllers.of(self.obeys(client), self.lanes[path as usize].class);
        controller.fault(&mut self.states[path as usize], now);
        if let Some((log, path, state)) = self.log(client, path) {
            log.fault(now, path, state);
        }
    }

    /// The log, if it is this client's, with what it wants to know of the path.
    fn log(
        &mut self,
        client: u32,
        path: u32,
    ) -> Option<(&mut DecisionLog, LoggedPath, &PathState)> {
        let (logged, log) = self.decisions.as_mut()?;
        if *logged != client {
            return None;
        }
        let lane = &self.lanes[path as usize];
        let server = if lane.server == NONE { None } else { Some(lane.server) };
        Some((log, (server, lane.class), &self.states[path as usize]))
    }
}
