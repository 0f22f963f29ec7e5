//! Admission and its end: what every request passes.

use afflux_core::class::Class;
use afflux_core::limits::{FanIn, Hold, HoldReason, Limits};
use afflux_core::path::{
    Controller, HoldLedger, HoldTotals, Options, PathKey, PathState, Reply, Ruling,
};
use afflux_core::policy::fixed::Fixed;
use afflux_core::rules::Gap;
use afflux_core::units::{Span, Time};

use super::paths::{self, ALL_SERVERS};
use super::step::Want;
use super::turns::Woken;
use super::{PathId, Refused, Shared, Slot};
use crate::clock;

/// How a request asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// It keeps to the path's limits.
    Gate,
    /// It is only counted.
    Observe,
    /// It keeps to the job's limit over all paths.
    FanIn(u32),
}

/// How a request ended.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// It was answered at that time.
    Reply(Time),
    /// It was lost by that time.
    Fault(Time),
    /// It was never sent.
    Withdraw,
}

/// A request that was let in.
#[derive(Clone, Copy)]
struct Entered {
    at: Time,
    /// The lane that counts it, as a number of its process.
    hint: u8,
    /// Whether there is room for another.
    room: bool,
}

/// When somebody looks again for whom there was no seat.
const CROWDED: Span = Span::from_millis(2);

impl Shared {
    /// Asks for a place in the window of `path` for a request of `size_bytes` at `now`, and waits
    /// for it in turn until `deadline`. What held it is added to `holds` and to the path's totals.
    /// A deadline that has passed means one look without waiting.
    ///
    /// A signal does not end the wait. Signal handlers may call this and may leave it by a long
    /// jump. Where the job has a limit on requests over all paths (fan-in), its place there is
    /// asked for once the path has admitted it.
    ///
    /// # Errors
    /// See [`Refused`]: the request is then sent ungated.
    #[inline]
    pub fn admit(
        &self,
        path: PathId,
        now: Time,
        size_bytes: u32,
        deadline: Time,
        holds: &mut HoldTotals,
    ) -> Result<Slot<'_>, Refused> {
        let entered = self.enter(path, now, size_bytes, deadline, holds, Ask::Gate)?;
        let mut slot = self.slot(path, entered, size_bytes);
        if let Some(limit) = self.fan_in(&self.memory.image.paths[path.index as usize]) {
            let all = self.all_paths_of(path)?;
            let ask = Ask::FanIn(limit);
            let entered = self.enter(all, entered.at, size_bytes, deadline, holds, ask)?;
            slot.sent = entered.at;
            slot.fan_in = Some(all);
        }
        Ok(slot)
    }

    /// Counts a request as sent at `now` whatever the window says: what an observer does.
    ///
    /// # Errors
    /// See [`Refused`]; never [`Refused::Deadline`].
    #[inline]
    pub fn observe(&self, path: PathId, now: Time, size_bytes: u32) -> Result<Slot<'_>, Refused> {
        match self.try_enter(path, now, size_bytes, Ask::Observe)? {
            Ok(entered) => Ok(self.slot(path, entered, size_bytes)),
            Err(_) => Err(Refused::Busy),
        }
    }

    fn slot(&self, path: PathId, entered: Entered, size_bytes: u32) -> Slot<'_> {
        Slot {
            shared: self,
            path,
            owner: self.identity(),
            sent: entered.at,
            size_bytes,
            hint: entered.hint,
            fan_in: None,
        }
    }

    /// Where the requests of a path's job are counted over all paths.
    fn all_paths_of(&self, path: PathId) -> Result<PathId, Refused> {
        let key = paths::unpack(path.key).ok_or(Refused::Gone)?;
        let all = PathKey { server: ALL_SERVERS, class: Class::Metadata, tenant: key.tenant };
        self.path(all).map_err(|_| Refused::Memory)
    }

    #[inline]
    fn enter(
        &self,
        path: PathId,
        now: Time,
        size_bytes: u32,
        deadline: Time,
        holds: &mut HoldTotals,
        ask: Ask,
    ) -> Result<Entered, Refused> {
        let reason = if let Ask::FanIn(_) = ask { HoldReason::FanIn } else { HoldReason::Window };
        let mut hold = Hold { reason, until: Time::NEVER };
        if !self.anybody_waits(path.index as usize) {
            match self.try_enter(path, now, size_bytes, ask)? {
                Ok(entered) => return Ok(entered),
                Err(held) => hold = held,
            }
        }
        let mut ledger = HoldLedger::default();
        ledger.note(now, Some(hold.reason));
        let entered = match now < deadline {
            true => self.wait_in_turn(path, size_bytes, deadline, ask, hold, &mut ledger),
            false => Err(Refused::Deadline),
        };
        let end = match entered {
            Ok(entered) => entered.at,
            Err(_) if now < deadline => clock::now(),
            Err(_) => now,
        };
        let totals = ledger.totals(end);
        holds.add(&totals);
        self.count_holds(path.index as usize, &totals);
        // Who comes next: after this one, or in its stead.
        if entered.map_or(now < deadline, |entered| entered.room) {
            self.call_first(path.index as usize);
        }
        entered
    }

    /// One look whether a request may go, which counts it if so.
    #[inline]
    fn try_enter(
        &self,
        path: PathId,
        now: Time,
        size_bytes: u32,
        ask: Ask,
    ) -> Result<Result<Entered, Hold>, Refused> {
        let lease = self.lane(0)?;
        let entry = &self.memory.image.paths[path.index as usize];
        let class = class_of(path);
        let mut answer = Ok(true);
        self.step(lease.lane, path.index as usize, Some(path.key), |in_force, draft| {
            let controller = self.controller(in_force, class, draft);
            let state = &mut draft.state;
            if ask == Ask::Observe || self.pauses(in_force) {
                controller.sent(state, now, size_bytes);
                answer = Ok(true);
            } else if let Ask::FanIn(limit) = ask {
                answer = count_in(state, now, size_bytes, limit);
            } else {
                let limits = self.limits(in_force, entry);
                let admitted = controller.admit(state, now, size_bytes, &limits);
                answer = admitted.map(|()| limits.window(state.window()).0 > state.in_flight());
            }
            if answer.is_ok() {
                draft.held += 1;
                return Want::Publish;
            }
            // The controller may have noted that the window held somebody back.
            if draft.differs() { Want::Publish } else { Want::Leave }
        })?;
        Ok(answer.map(|room| Entered { at: now, hint: lease.hint, room }))
    }

    #[cold]
    fn wait_in_turn(
        &self,
        path: PathId,
        size_bytes: u32,
        deadline: Time,
        ask: Ask,
        mut hold: Hold,
        ledger: &mut HoldLedger,
    ) -> Result<Entered, Refused> {
        // A process that waits has a lane, by which the others can tell that it was there.
        drop(self.lane(0)?);
        let mut sitting = self.sit_down(path.index as usize);
        let mut woken = Woken::Early;
        let mut last_version = 0;
        loop {
            let now = clock::now();
            let rank = sitting.as_ref().map_or(0, |sitting| sitting.rank());
            if rank == 0 || woken == Woken::Late {
                match self.try_enter(path, now, size_bytes, ask)? {
                    Ok(entered) => {
                        if let Some(sitting) = sitting.as_ref().filter(|_| rank > 0) {
                            sitting.pass_over();
                        }
                        return Ok(entered);
                    }
                    Err(held) => hold = held,
                }
                ledger.note(now, Some(hold.reason));
            }
            if now >= deadline {
                return Err(Refused::Deadline);
            }
            let version = self.head_of(path.index as usize);
            let full = hold.until == Time::NEVER;
            if woken == Woken::Late && full && version == last_version {
                self.sweep_if_due(now);
            }
            last_version = version;
            let until = if rank == 0 { hold.until } else { Time::NEVER };
            woken = match &mut sitting {
                Some(sitting) => sitting.wait(now, until.min(deadline), rank),
                None => {
                    clock::sleep_until(until.max(now + CROWDED).min(deadline));
                    Woken::Late
                }
            };
        }
    }

    /// Ends a request: gives its place back and tells the controller.
    #[inline]
    pub(super) fn end_request(&self, slot: &Slot<'_>, end: End) -> Option<Ruling> {
        // In a forked child the slot is its parent's.
        if slot.owner != self.identity() {
            return None;
        }
        let ruling = self.leave(slot.path, slot, end);
        if let Some(all) = slot.fan_in {
            self.leave(all, slot, End::Withdraw);
        }
        ruling
    }

    #[inline]
    fn leave(&self, path: PathId, slot: &Slot<'_>, end: End) -> Option<Ruling> {
        let index = path.index as usize;
        let lease = self.lane(slot.hint).ok()?;
        let (sent, size_bytes) = (slot.sent, slot.size_bytes);
        let class = class_of(path);
        let mut counted = None;
        let ended = self.step(lease.lane, index, Some(path.key), |in_force, draft| {
            let controller = self.controller(in_force, class, draft);
            draft.held -= 1;
            match end {
                End::Reply(arrived) => {
                    let reply = Reply { built: sent, sent, arrived, size_bytes };
                    let ruling = controller.reply(&mut draft.state, &reply);
                    counted = Some((in_force.generation, reply, ruling));
                }
                End::Fault(now) => controller.fault(&mut draft.state, now),
                End::Withdraw => controller.withdraw(&mut draft.state),
            }
            Want::Publish
        });
        ended.ok()?;
        if let Some((generation, reply, ruling)) = &counted {
            self.count(lease.lane, index, *generation, reply, ruling);
        }
        drop(lease);
        if self.anybody_waits(index) {
            self.call_first(index);
        }
        counted.map(|(.., ruling)| ruling)
    }
}

/// Counts a request among those of all paths of its job. Whatever the job's setting says besides,
/// the window there is no limit.
#[cold]
fn count_in(state: &mut PathState, now: Time, size_bytes: u32, limit: u32) -> Result<bool, Hold> {
    let policy = Fixed { window: f64::from(u16::MAX), gap: Gap::NONE };
    let open = Options { window_max: policy.window, ..Options::default() };
    let counter = Controller::of(open, policy);
    counter.adopt(state);
    let fan_in = Some(FanIn { limit, in_flight: state.in_flight() });
    let limits = Limits { fan_in, ..Limits::default() };
    counter.admit(state, now, size_bytes, &limits)?;
    Ok(state.in_flight() < limit)
}

#[inline]
fn class_of(path: PathId) -> Class {
    paths::unpack(path.key).map_or(Class::Metadata, |key| key.class)
}
