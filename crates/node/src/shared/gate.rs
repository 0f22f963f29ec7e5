//! Admission and its end: what every request passes.

use afflux_core::class::Class;
use afflux_core::limits::{FanIn, Hold, HoldReason, Limits};
use afflux_core::path::{
    Controller, HoldLedger, HoldTotals, Options, PathKey, PathState, Reply, Ruling,
};
use afflux_core::policy::fixed::Fixed;
use afflux_core::rules::Gap;
use afflux_core::units::{Span, Time};

use super::hand::{Hand, Place};
use super::paths::{self, ALL_SERVERS};
use super::step::Want;
use super::thread::{THREAD, Thread};
use super::turns::Woken;
use super::{PathId, Refused, Shared, Slot};
use crate::clock;

/// A request that asks for a place.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) path: PathId,
    pub(super) size_bytes: u32,
    pub(super) ask: Ask,
    /// The hand that will have the place; none when its caller will.
    pub(super) hand: Option<&'a Hand>,
}

/// How a request asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
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
pub(super) struct Entered {
    pub(super) at: Time,
    /// The lane that counts it, as a number of its process.
    hint: u8,
    /// Whether there is room for another.
    room: bool,
    /// The job's limit over all paths, if it has one.
    pub(super) fan_in: Option<u32>,
}

/// When somebody looks again for whom there was no seat.
const CROWDED: Span = Span::from_millis(2);

impl Shared {
    /// Asks for a place in the window of `path` for a request of `size_bytes` at `now`, and waits
    /// for it in turn until `deadline`. What held it is added to `holds` and to the path's totals.
    /// A deadline that has passed means one look without waiting.
    ///
    /// A signal does not end the wait. Signal handlers may call this. Where the job has a limit on
    /// requests over all paths (fan-in), its place there is asked for once the path has admitted
    /// it.
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
        let request = Request { path, size_bytes, ask: Ask::Gate, hand: None };
        // What a closure returns is copied, so that the slot is made outside of it.
        let entered = THREAD.with(|thread| self.enter(thread, &request, now, deadline, holds))?;
        let mut slot = self.slot(&request, &entered);
        if let Some(limit) = entered.fan_in {
            let limit = (limit, entered.at);
            let all = THREAD
                .with(|thread| self.enter_all_paths(thread, &request, limit, deadline, holds))?;
            (slot.fan_in, slot.place.sent) = (Some(all.0), all.1);
        }
        Ok(slot)
    }

    /// Counts a request as sent at `now` whatever the window says: what an observer does.
    ///
    /// # Errors
    /// See [`Refused`]; never [`Refused::Deadline`].
    pub fn observe(&self, path: PathId, now: Time, size_bytes: u32) -> Result<Slot<'_>, Refused> {
        let request = Request { path, size_bytes, ask: Ask::Observe, hand: None };
        match THREAD.with(|thread| self.look_in(thread, &request, now))? {
            Ok(entered) => Ok(self.slot(&request, &entered)),
            Err(_) => Err(Refused::Busy),
        }
    }

    #[inline(always)]
    fn slot(&self, request: &Request<'_>, entered: &Entered) -> Slot<'_> {
        Slot {
            shared: self,
            place: self.place_for(request, entered.at, entered.hint),
            fan_in: None,
        }
    }

    #[inline(always)]
    fn place_for(&self, request: &Request<'_>, sent: Time, hint: u8) -> Place {
        let &Request { path, size_bytes, ask, .. } = request;
        let is_of_all = matches!(ask, Ask::FanIn(_));
        Place { path, owner: self.identity(), sent, size_bytes, hint, is_of_all }
    }

    /// Takes a place at once, or waits for it.
    #[inline(always)]
    pub(super) fn enter(
        &self,
        thread: &Thread,
        request: &Request<'_>,
        now: Time,
        deadline: Time,
        holds: &mut HoldTotals,
    ) -> Result<Entered, Refused> {
        let reason = match request.ask {
            Ask::FanIn(_) => HoldReason::FanIn,
            _ => HoldReason::Window,
        };
        let mut hold = Hold { reason, until: Time::NEVER };
        if !self.anybody_waits(request.path.index as usize) {
            match self.try_enter(thread, request, now)? {
                Ok(entered) => return Ok(entered),
                Err(held) => hold = held,
            }
        }
        self.enter_slowly(thread, request, now, deadline, holds, hold)
    }

    /// Takes a place among the requests of the job over all paths, of which there may be so many,
    /// for a request that was let in on its path at that time. Which path that is, and when it was
    /// let in there.
    #[cold]
    pub(super) fn enter_all_paths(
        &self,
        thread: &Thread,
        request: &Request<'_>,
        (limit, now): (u32, Time),
        deadline: Time,
        holds: &mut HoldTotals,
    ) -> Result<(PathId, Time), Refused> {
        let key = paths::unpack(request.path.key).ok_or(Refused::Gone)?;
        let all = PathKey { server: ALL_SERVERS, class: Class::Metadata, tenant: key.tenant };
        let all = self.path(all).map_err(|_| Refused::Memory)?;
        let request = Request { path: all, ask: Ask::FanIn(limit), ..*request };
        let entered = self.enter(thread, &request, now, deadline, holds)?;
        Ok((all, entered.at))
    }

    /// Waits for a place; `hold` is what holds the request at first.
    #[cold]
    fn enter_slowly(
        &self,
        thread: &Thread,
        request: &Request<'_>,
        now: Time,
        deadline: Time,
        holds: &mut HoldTotals,
        hold: Hold,
    ) -> Result<Entered, Refused> {
        let index = request.path.index as usize;
        let mut ledger = HoldLedger::default();
        ledger.note(now, Some(hold.reason));
        let entered = match now < deadline {
            true => self.wait_in_turn(thread, request, deadline, hold, &mut ledger),
            false => Err(Refused::Deadline),
        };
        let end = match entered {
            Ok(entered) => entered.at,
            Err(_) if now < deadline => clock::now(),
            Err(_) => now,
        };
        let totals = ledger.totals(end);
        holds.add(&totals);
        self.count_holds(index, &totals);
        // Who comes next: after this one, or in its stead.
        if entered.map_or(now < deadline, |entered| entered.room) {
            self.call_first(index);
        }
        entered
    }

    /// One look whether a request may go, which counts it if so.
    #[inline(always)]
    fn try_enter(
        &self,
        thread: &Thread,
        request: &Request<'_>,
        now: Time,
    ) -> Result<Result<Entered, Hold>, Refused> {
        let &Request { path, size_bytes, ask, hand } = request;
        let lease = self.lane(thread, 0)?;
        if let Some(hand) = hand
            && !hand.will_take(self.place_for(request, now, lease.hint))
        {
            return Err(Refused::Busy);
        }
        let entry = &self.memory.image.paths[path.index as usize];
        let class = class_of(path);
        let (mut answer, mut fan_in, mut held) = (Ok(true), None, 0);
        let step = self.step(lease.lane, path.index as usize, Some(path.key), |in_force, draft| {
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
            if let Some(hand) = hand {
                hand.takes(lease.lane, held);
            }
            Want::Publish
        });
        if let Some(hand) = hand {
            hand.took(step.is_ok() && answer.is_ok());
        }
        step?;
        self.note_drift(&lease, held);
        Ok(answer.map(|room| Entered { at: now, hint: lease.hint, room, fan_in }))
    }

    #[inline(never)]
    fn look_in(
        &self,
        thread: &Thread,
        request: &Request<'_>,
        now: Time,
    ) -> Result<Result<Entered, Hold>, Refused> {
        self.try_enter(thread, request, now)
    }

    #[cold]
    fn wait_in_turn(
        &self,
        thread: &Thread,
        request: &Request<'_>,
        deadline: Time,
        mut hold: Hold,
        ledger: &mut HoldLedger,
    ) -> Result<Entered, Refused> {
        // A process that waits has a lane, by which the others can tell that it was there.
        drop(self.lane(thread, 0)?);
        let index = request.path.index as usize;
        let mut sitting = self.sit_down(thread, index);
        let mut woken = Woken::Early;
        let mut last_version = 0;
        loop {
            let now = clock::now();
            let rank = sitting.as_ref().map_or(0, |sitting| sitting.rank());
            if rank == 0 || woken == Woken::Late {
                match self.look_in(thread, request, now)? {
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
            let version = self.head_of(index);
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
        if slot.place.owner != self.identity() {
            return None;
        }
        let mut ruling = None;
        THREAD.with(|thread| {
            ruling = self.leave(thread, &slot.place, end, None);
            if let Some(all) = slot.fan_in {
                self.leave_all_paths(thread, Place { path: all, ..slot.place });
            }
        });
        ruling
    }

    #[cold]
    fn leave_all_paths(&self, thread: &Thread, place: Place) {
        self.leave(thread, &place, End::Withdraw, None);
    }

    /// Gives a place back, which is the last of `hand` if there is one.
    #[inline(always)]
    pub(super) fn leave(
        &self,
        thread: &Thread,
        place: &Place,
        end: End,
        hand: Option<&Hand>,
    ) -> Option<Ruling> {
        let path = place.path;
        let index = path.index as usize;
        let lease = self.lane(thread, place.hint);
        let Ok(lease) = lease else {
            hand.inspect(|hand| hand.gave());
            return None;
        };
        let class = class_of(path);
        let (mut generation, mut ruling, mut held) = (0, None, 0);
        let ended = self.step(lease.lane, index, Some(path.key), |in_force, draft| {
            let controller = self.controller(in_force, class, draft);
            draft.held -= 1;
            held = draft.held;
            match end {
                End::Reply(arrived) => {
                    generation = in_force.generation;
                    ruling = Some(controller.reply(&mut draft.state, &place.reply_at(arrived)));
                }
                End::Fault(now) => controller.fault(&mut draft.state, now),
                End::Withdraw => controller.withdraw(&mut draft.state),
            }
            if let Some(hand) = hand {
                hand.gives(lease.lane, held);
            }
            Want::Publish
        });
        hand.inspect(|hand| hand.gave());
        ended.ok()?;
        if let (End::Reply(arrived), Some(ruling)) = (end, &ruling) {
            self.count(lease.lane, index, generation, &place.reply_at(arrived), ruling);
        }
        self.note_drift(&lease, held);
        drop(lease);
        if self.anybody_waits(index) {
            self.call_first(index);
        }
        ruling
    }
}

impl Place {
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
