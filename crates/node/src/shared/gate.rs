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
    /// The job's limit over all paths, if it has one.
    fan_in: Option<u32>,
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
        let mut hold = Hold { reason: HoldReason::Window, until: Time::NEVER };
        if !self.anybody_waits(path.index as usize) {
            match self.try_enter(path, now, size_bytes, Ask::Gate)? {
                Ok(entered) if entered.fan_in.is_none() => {
                    return Ok(self.slot(path, entered, size_bytes));
                }
                Ok(entered) => {
                    let slot = self.slot(path, entered, size_bytes);
                    return self.enter_all_paths(slot, entered.fan_in, deadline, holds);
                }
                Err(held) => hold = held,
            }
        }
        let entered =
            self.enter_slowly(path, now, size_bytes, deadline, holds, (Ask::Gate, hold))?;
        let slot = self.slot(path, entered, size_bytes);
        match entered.fan_in {
            None => Ok(slot),
            some => self.enter_all_paths(slot, some, deadline, holds),
        }
    }

    /// Counts a request as sent at `now` whatever the window says: what an observer does.
    ///
    /// # Errors
    /// See [`Refused`]; never [`Refused::Deadline`].
    pub fn observe(&self, path: PathId, now: Time, size_bytes: u32) -> Result<Slot<'_>, Refused> {
        match self.look_in(path, now, size_bytes, Ask::Observe)? {
            Ok(entered) => Ok(self.slot(path, entered, size_bytes)),
            Err(_) => Err(Refused::Busy),
        }
    }

    #[inline(always)]
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

    /// Takes a place among the requests of the job over all paths, of which there may be `limit`.
    #[cold]
    fn enter_all_paths<'s>(
        &'s self,
        mut slot: Slot<'s>,
        limit: Option<u32>,
        deadline: Time,
        holds: &mut HoldTotals,
    ) -> Result<Slot<'s>, Refused> {
        let Some(limit) = limit else { return Ok(slot) };
        let key = paths::unpack(slot.path.key).ok_or(Refused::Gone)?;
        let all = PathKey { server: ALL_SERVERS, class: Class::Metadata, tenant: key.tenant };
        let all = self.path(all).map_err(|_| Refused::Memory)?;
        let (ask, now, size_bytes) = (Ask::FanIn(limit), slot.sent, slot.size_bytes);
        let mut hold = Hold { reason: HoldReason::FanIn, until: Time::NEVER };
        let mut entered = None;
        if !self.anybody_waits(all.index as usize) {
            match self.look_in(all, now, size_bytes, ask)? {
                Ok(at_once) => entered = Some(at_once),
                Err(held) => hold = held,
            }
        }
        let entered = match entered {
            Some(entered) => entered,
            None => self.enter_slowly(all, now, size_bytes, deadline, holds, (ask, hold))?,
        };
        slot.sent = entered.at;
        slot.fan_in = Some(all);
        Ok(slot)
    }

    /// Waits for a place; `hold` is what holds the request at first.
    #[cold]
    fn enter_slowly(
        &self,
        path: PathId,
        now: Time,
        size_bytes: u32,
        deadline: Time,
        holds: &mut HoldTotals,
        (ask, hold): (Ask, Hold),
    ) -> Result<Entered, Refused> {
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
    #[inline(always)]
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
        let (mut answer, mut fan_in, mut held) = (Ok(true), None, 0);
        self.step(lease.lane, path.index as usize, Some(path.key), |in_force, draft| {
            let controller = self.controller(in_force, class, draft);
            let state = &mut draft.state;
            if ask == Ask::Observe || self.pauses(in_force) {
                controller.sent(state, now, size_bytes);
                answer = Ok(true);
            } else if let Ask::FanIn(limit) = ask {
                answer = count_in(state, now, size_bytes, limit);
            } else {
                let before = self.limits(in_force, entry, state.in_flight());
                answer = controller.admit(state, now, size_bytes, &before).map(|()| {
                    let in_flight = state.in_flight();
                    let after = self.limits(in_force, entry, in_flight);
                    after.window(state.window(), in_flight).0 > in_flight
                });
            }
            if answer.is_err() {
                // The controller may have noted that the window held somebody back.
                return Want::PublishChanged;
            }
            draft.held += 1;
            held = draft.held;
            fan_in = if ask == Ask::Gate { self.fan_in(in_force) } else { None };
            Want::Publish
        })?;
        self.note_drift(&lease, held);
        Ok(answer.map(|room| Entered { at: now, hint: lease.hint, room, fan_in }))
    }

    #[inline(never)]
    fn look_in(
        &self,
        path: PathId,
        now: Time,
        size_bytes: u32,
        ask: Ask,
    ) -> Result<Result<Entered, Hold>, Refused> {
        self.try_enter(path, now, size_bytes, ask)
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
                match self.look_in(path, now, size_bytes, ask)? {
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
            self.leave_all_paths(all, slot);
        }
        ruling
    }

    #[cold]
    fn leave_all_paths(&self, all: PathId, slot: &Slot<'_>) {
        self.leave(all, slot, End::Withdraw);
    }

    #[inline(always)]
    fn leave(&self, path: PathId, slot: &Slot<'_>, end: End) -> Option<Ruling> {
        let index = path.index as usize;
        let lease = self.lane(slot.hint).ok()?;
        let class = class_of(path);
        let (mut generation, mut ruling, mut held) = (0, None, 0);
        let ended = self.step(lease.lane, index, Some(path.key), |in_force, draft| {
            let controller = self.controller(in_force, class, draft);
            draft.held -= 1;
            held = draft.held;
            match end {
                End::Reply(arrived) => {
                    generation = in_force.generation;
                    ruling = Some(controller.reply(&mut draft.state, &slot.reply_at(arrived)));
                }
                End::Fault(now) => controller.fault(&mut draft.state, now),
                End::Withdraw => controller.withdraw(&mut draft.state),
            }
            Want::Publish
        });
        ended.ok()?;
        if let (End::Reply(arrived), Some(ruling)) = (end, &ruling) {
            self.count(lease.lane, index, generation, &slot.reply_at(arrived), ruling);
        }
        self.note_drift(&lease, held);
        drop(lease);
        if self.anybody_waits(index) {
            self.call_first(index);
        }
        ruling
    }
}

impl Slot<'_> {
    #[inline(always)]
    fn reply_at(&self, arrived: Time) -> Reply {
        Reply { built: self.sent, sent: self.sent, arrived, size_bytes: self.size_bytes }
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
