//! The server's side of credits: how much is there, who is active, and what each reply grants.
//!
//! Source: the credits paper, sections III-B and III-C. A ledger is told of every arrival and every
//! reply and keeps, for each active client, some 40 bytes; nothing it does takes longer when there
//! are more of them.
//!
//! Three things are done another way to the same end. Pings need no messages: the ledger looks at
//! one client after the other itself, as often as the paper's clients call. `IOPS` is taken anew
//! when a step of its window ends ("measured periodically"), and `L_max * IOPS` with it, so that a
//! reply compares `D > L_max * IOPS` where the paper has `D / IOPS > L_max`. And a client's seat is
//! given back when it is no longer counted, so that memory follows those that are.

use std::collections::VecDeque;

use super::rate::BusyRate;
use super::timeout::{Advice, advise};
use super::{BoundOn, Options};
use crate::units::{Span, Time};

/// Where a ledger keeps a client. A driver keeps the seat for its client and hands it back with
/// each call; one that was given back in the meantime is known by its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    slot: u32,
    generation: u32,
}

impl Seat {
    /// The seat of a client that has none.
    pub const NONE: Self = Self { slot: u32::MAX, generation: 0 };
}

/// What the ledger knows of a client; the paper's export.
#[derive(Clone, Copy, Debug)]
struct Export {
    /// Odd while the seat is taken, so that no seat is known that is free.
    generation: u32,
    /// Requests of it at the server; the paper's `q`.
    pending: u32,
    /// Requests that a client which obeys may have here, see [`Ledger::arrival`].
    allowed: u32,
    /// Arrivals beyond that.
    overdrawn: u32,
    /// When it was last heard of, by the ledger's own clock.
    last: Span,
    group: u32,
}

/// Whether the bound can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Too little was done yet, so that the rate is not known.
    Unknown,
    /// It can: with at most `depth_max` requests here (`D_max = L_max * IOPS`).
    Held {
        /// `D_max`.
        depth_max: u64,
    },
    /// It cannot: with the least credits for each active client the latency is still above it.
    Broken {
        /// `RCC_min * C / IOPS`.
        latency: Span,
    },
}

/// What a ledger counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that arrived.
    pub arrivals: u64,
    /// Replies.
    pub replies: u64,
    /// Replies above the bound.
    pub late: u64,
    /// Replies to requests that never arrived here, or whose client was forgotten.
    pub unknown: u64,
    /// Arrivals beyond what their client was granted.
    pub overdrawn: u64,
    /// Most requests at the server.
    pub deepest: u64,
}

/// A tenant, or all that are not named.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Active clients of it.
    active: u32,
    weight: u32,
    /// Its part of what may be at the server.
    quota: u64,
    /// What of that each client has; and what while the bound is broken, where there are weights.
    parts: [Part; 2],
    /// What was left over and not granted yet.
    carry: u64,
}

/// A quota between the clients of a group, and what is left over. Divided when something changes,
/// since a division takes longer than all else in a reply.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    share: u32,
    rest: u64,
}

impl Part {
    fn of(quota: u64, clients: u32) -> Self {
        let clients = u64::from(clients.max(1));
        let share = u32::try_from(quota / clients).unwrap_or(u32::MAX);
        Self { share, rest: quota % clients }
    }
}

/// The ledger of one server.
#[derive(Clone, Debug)]
pub struct Ledger {
    options: Options,
    threads: u64,
    /// `D_low`.
    low_depth: u64,
    rate: BusyRate,
    /// The driver's clock at the last call, and the time that has passed in steps forward.
    seen: Time,
    clock: Span,
    /// `D`.
    depth: u64,
    /// `C`.
    active: u32,
    /// `D_max`; not known before the first step of the rate's window ended, since a rate from a few
    /// requests lets far too many in.
    depth_max: Option<u64>,
    /// What may be at the server: `D_max`, or the part of it that keeps the percentile.
    room: u64,
    fractions: bool,
    weighted: bool,
    exports: Vec<Export>,
    free: Vec<u32>,
    /// When to look at which client again, the earliest first.
    rounds: VecDeque<(Span, Seat)>,
    groups: Vec<Group>,
    aim: Aim,
    counts: Counts,
}

/// What keeps a percentile under the bound: the part of `D_max` that is let in, which shrinks while
/// too many replies are late and grows back while they are not.
#[derive(Clone, Copy, Debug)]
struct Aim {
    part: u64,
    late: u64,
    replies: u64,
    since: Span,
}

/// All of `D_max`, in parts of [`Aim`].
const WHOLE: u64 = 4_096;
/// Clients that one call looks at, so that no call takes longer for those that all fell silent.
const LOOKS: usize = 2;

impl Ledger {
    /// A ledger of a server of so many service `threads`, which nobody has called yet.
    pub fn new(options: &Options, threads: u32) -> Self {
        let shares = &options.shares;
        let group = |group| Group { weight: shares.weight(group), ..Group::default() };
        Self {
            threads: u64::from(threads),
            low_depth: u64::from(options.low_depth.unwrap_or(threads)),
            rate: BusyRate::new(options.window),
            seen: Time::ZERO,
            clock: Span::ZERO,
            depth: 0,
            active: 0,
            depth_max: None,
            room: 0,
            fractions: options.fractions || shares.weights.len() > 1,
            weighted: shares.weights.len() > 1,
            exports: Vec::new(),
            free: Vec::new(),
            rounds: VecDeque::new(),
            groups: (0..shares.groups()).map(group).collect(),
            aim: Aim { part: WHOLE, late: 0, replies: 0, since: Span::ZERO },
            counts: Counts::default(),
            options: options.clone(),
        }
    }

    /// A request of the client at `seat` arrives (algorithm 1, lines 9 to 13). Returns the seat to
    /// keep for it: another one when it had none, or was no longer counted.
    ///
    /// A client that obeys never has more here than its grant or, after a smaller one, than it had
    /// before less the replies since. What comes beyond that is counted against it.
    pub fn arrival(&mut self, seat: Seat, tenant: u32, now: Time) -> Seat {
        self.advance(now);
        let seat = if self.knows(seat) { seat } else { self.take_seat(tenant) };
        self.depth += 1;
        self.counts.arrivals += 1;
        self.counts.deepest = self.counts.deepest.max(self.depth);
        let clock = self.clock;
        let export = &mut self.exports[seat.slot as usize];
        export.pending += 1;
        export.last = clock;
        if export.pending > export.allowed {
            export.overdrawn = export.overdrawn.saturating_add(1);
            self.counts.overdrawn += 1;
        }
        seat
    }

    /// A request that `arrived` is answered now; its client asks for `requested` credits. Returns
    /// the credits that the reply carries (algorithm 1, lines 14 to 19; algorithm 2).
    pub fn reply(&mut self, seat: Seat, requested: u32, arrived: Time, now: Time) -> u32 {
        let here = self.has_pending(seat);
        if here {
            // Before time passes, so that a step that ends now has it.
            self.rate.done();
        }
        self.advance(now);
        if !here || !self.leave(seat) {
            self.counts.unknown += 1;
            return self.options.credits_min;
        }
        self.counts.replies += 1;
        let served = now.since(arrived);
        let late = served > self.options.latency_max;
        self.counts.late += u64::from(late);
        (self.aim.replies, self.aim.late) = (self.aim.replies + 1, self.aim.late + u64::from(late));
        let slot = seat.slot as usize;
        let credits = self.grant(self.exports[slot].group as usize, requested, late);
        let export = &mut self.exports[slot];
        export.allowed = credits.max(export.allowed.saturating_sub(1));
        export.last = self.clock;
        credits
    }

    /// A request leaves unanswered: dropped, or lost with its connection.
    pub fn withdraw(&mut self, seat: Seat, now: Time) {
        self.advance(now);
        if !self.leave(seat) {
            self.counts.unknown += 1;
        }
    }

    /// A client says that it is there: it is no longer counted when it had nothing here for longer
    /// than `STL` (section III-C). Says whether it still is.
    pub fn ping(&mut self, seat: Seat, now: Time) -> bool {
        self.advance(now);
        self.knows(seat) && !self.retire_if_silent(seat)
    }

    /// A client is gone, and with it what it had here.
    pub fn gone(&mut self, seat: Seat, now: Time) {
        self.advance(now);
        if self.knows(seat) {
            let pending = self.exports[seat.slot as usize].pending;
            self.depth = self.depth.saturating_sub(u64::from(pending));
            self.give_back(seat);
        }
    }

    /// Looks at all clients that are due, for a driver that has been idle.
    pub fn tick(&mut self, now: Time) {
        self.advance(now);
        self.look(usize::MAX);
    }

    /// `D`: requests that wait or are in service.
    pub const fn depth(&self) -> u64 {
        self.depth
    }

    /// `C`: active clients.
    pub const fn active(&self) -> u32 {
        self.active
    }

    /// The rate of the server.
    pub const fn rate(&self) -> &BusyRate {
        &self.rate
    }

    /// What was counted.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Credits that a client of `tenant` is granted while the server is not under light load, parts
    /// left out; none before the rate is known.
    pub fn share(&self, tenant: u32) -> Option<u32> {
        self.depth_max?;
        Some(self.clamp(self.groups[self.options.shares.group(tenant)].parts[0].share))
    }

    /// Whether the bound can be kept with the clients that are active now.
    pub fn bound(&self) -> Bound {
        let least = u64::from(self.options.credits_min) * u64::from(self.active);
        let Some(depth_max) = self.depth_max else { return Bound::Unknown };
        match self.rate.time_for(least) {
            Some(latency) if least > depth_max => Bound::Broken { latency },
            _ => Bound::Held { depth_max },
        }
    }

    /// After how long clients may give up, with the paper's λ and allowance for the network.
    pub fn timeout(&self) -> Option<Advice> {
        let (lambda, network) = (super::timeout::LAMBDA, super::timeout::NETWORK);
        advise(&self.rate, self.active, self.options.latency_max, lambda, network)
    }

    /// Arrivals of the client at `seat` beyond what it was granted.
    pub fn overdrawn(&self, seat: Seat) -> u32 {
        if self.knows(seat) { self.exports[seat.slot as usize].overdrawn } else { 0 }
    }

    /// Whether the client at `seat` ignores its credits: it went beyond them more often than it
    /// could by chance, once for each that there may be.
    pub fn ignores_credits(&self, seat: Seat) -> bool {
        self.overdrawn(seat) > self.options.credits_max
    }

    /// What it is set to.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Time passes. A clock that jumps back stands still until it goes on from there; one that
    /// jumps ahead ends what was to end by then, and nothing else.
    fn advance(&mut self, now: Time) {
        let elapsed = now.since(self.seen);
        self.seen = now;
        self.clock = Span::from_nanos(self.clock.as_nanos().saturating_add(elapsed.as_nanos()));
        if self.depth > 0 && self.rate.busy(elapsed) {
            self.measure();
        }
        self.look(LOOKS);
    }

    /// Takes `D_max` anew, and with it each tenant's part.
    fn measure(&mut self) {
        self.depth_max = self.rate.done_in(self.options.latency_max);
        self.aim();
        let room = u128::from(self.depth_max.unwrap_or(0)) * u128::from(self.aim.part);
        self.room = (room / u128::from(WHOLE)) as u64;
        if self.options.low_depth.is_none() {
            // The paper's N, which there is far below `D_max`. Where it is not, whoever is answered
            // at the right moment would get all that it asks for, and the others nothing. Shares
            // that are rounded down fill more than half of `D_max`.
            self.low_depth = self.threads.min(self.room / 2);
        }
        self.divide();
    }

    /// Lets in less while more replies are late than the percentile allows. Not before those that
    /// were let in under the last correction have been answered.
    fn aim(&mut self) {
        let BoundOn::Percentile(thousandths) = self.options.bound else { return };
        let period = self.options.latency_max.max(self.rate.step());
        if self.clock.saturating_sub(self.aim.since) < period || self.aim.replies == 0 {
            return;
        }
        let Aim { part, late, replies, .. } = self.aim;
        let allowed = 1_000 - u64::from(thousandths.min(1_000));
        // In proportion to the difference, so that it is none on average.
        let less = (late * 1_000) as i64 - (replies * allowed) as i64;
        let less = less * (WHOLE / 2) as i64 / (replies * 1_000) as i64;
        let part = part.saturating_add_signed(-less.min((WHOLE / 4) as i64)).clamp(1, WHOLE);
        self.aim = Aim { part, late: 0, replies: 0, since: self.clock };
    }

    /// Divides the room between the tenants that have active clients.
    fn divide(&mut self) {
        let active = self.groups.iter().filter(|group| group.active > 0);
        let weights: u64 = active.map(|group| u64::from(group.weight)).sum();
        for group in &mut self.groups {
            let part = u128::from(self.room) * u128::from(group.weight);
            group.quota = (part / u128::from(weights.max(1))) as u64;
            // Where the paper takes one from each client, each tenant gives by its weight, or the
            // ratio would suffer: as much as one from each of all clients in sum.
            let less = u128::from(group.quota) * u128::from(self.active);
            let less = (less / u128::from(self.room.max(1))) as u64;
            let lower = group.quota.saturating_sub(less);
            group.parts = [group.quota, lower].map(|quota| Part::of(quota, group.active));
        }
    }

    /// Algorithm 2, CalcRCC; the numbers are its lines.
    fn grant(&mut self, group: usize, requested: u32, late: bool) -> u32 {
        let credits = if self.depth < self.low_depth {
            requested // 2, 3
        } else {
            // 6 to 8: `L_e > L_max` or `T_s > L_max`.
            let above = self.depth > self.room || late;
            let share = self.part(group, above); // 5
            share.saturating_sub(u32::from(above && !self.weighted)) // 9
        };
        self.clamp(credits) // 12
    }

    /// `L_max * IOPS / C`, of a tenant's part.
    fn part(&mut self, group: usize, above: bool) -> u32 {
        let group = &mut self.groups[group];
        let part = group.parts[usize::from(above && self.weighted)];
        if self.fractions {
            let clients = u64::from(group.active.max(1));
            group.carry += part.rest;
            if group.carry >= clients {
                // The number of clients may have shrunk under what was left over.
                group.carry = (group.carry - clients).min(clients);
                return part.share.saturating_add(1);
            }
        }
        part.share
    }

    fn clamp(&self, credits: u32) -> u32 {
        credits.min(self.options.credits_max).max(self.options.credits_min)
    }

    fn knows(&self, seat: Seat) -> bool {
        let export = self.exports.get(seat.slot as usize);
        seat.generation % 2 == 1
            && export.is_some_and(|export| export.generation == seat.generation)
    }

    /// Takes one request of a client out; false when it has none here.
    fn leave(&mut self, seat: Seat) -> bool {
        let leaves = self.has_pending(seat);
        if leaves {
            self.exports[seat.slot as usize].pending -= 1;
            self.depth -= 1;
        }
        leaves
    }

    fn has_pending(&self, seat: Seat) -> bool {
        self.knows(seat) && self.exports[seat.slot as usize].pending > 0
    }

    fn take_seat(&mut self, tenant: u32) -> Seat {
        let group = self.options.shares.group(tenant);
        let fresh = Export {
            generation: 0,
            pending: 0,
            // What it was granted before is not known any more.
            allowed: self.options.credits_max,
            overdrawn: 0,
            last: self.clock,
            group: group as u32,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.exports.push(fresh);
            self.exports.len() as u32 - 1
        });
        let export = &mut self.exports[slot as usize];
        let generation = export.generation.wrapping_add(1);
        *export = Export { generation, ..fresh };
        let seat = Seat { slot, generation };
        self.active += 1;
        self.groups[group].active += 1;
        self.divide();
        self.rounds.push_back((self.next_round(), seat));
        seat
    }

    fn give_back(&mut self, seat: Seat) {
        let export = &mut self.exports[seat.slot as usize];
        export.generation = export.generation.wrapping_add(1);
        let group = &mut self.groups[export.group as usize];
        group.active -= 1;
        self.active -= 1;
        self.divide();
        self.free.push(seat.slot);
    }

    fn next_round(&self) -> Span {
        Span::from_nanos(self.clock.as_nanos().saturating_add(self.options.ping.as_nanos()))
    }

    fn look(&mut self, most: usize) {
        // Each is looked at once, even where the time between two looks is none.
        for _ in 0..most.min(self.rounds.len()) {
            let Some(&(due, seat)) = self.rounds.front().filter(|(due, _)| *due <= self.clock)
            else {
                return;
            };
            debug_assert!(due <= self.clock);
            self.rounds.pop_front();
            if self.knows(seat) && !self.retire_if_silent(seat) {
                self.rounds.push_back((self.next_round(), seat));
            }
        }
    }

    fn retire_if_silent(&mut self, seat: Seat) -> bool {
        let export = &self.exports[seat.slot as usize];
        let silent = self.clock.saturating_sub(export.last) > self.options.silence;
        let retires = export.pending == 0 && silent;
        if retires {
            self.give_back(seat);
        }
        retires
    }
}

#[cfg(test)]
mod tests;
