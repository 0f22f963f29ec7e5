//! Locks on files that clients share.
//!
//! A lock belongs to one client at a time, or to any number of readers where they may share it. Who
//! comes while others wait goes to the end of the line, unless the lock is its own and it has begun
//! fewer operations under it than it may in a row. A lock that nobody uses stays with its last
//! owner, who takes it again at no cost; any other waits for it to be handed over. An operation
//! over several objects takes the lock of the first.

use std::collections::VecDeque;

use afflux_core::units::{Span, Time};
use afflux_core::workload::{Kind, Placing};

use crate::client::Cast;
use crate::events::Event;
use crate::request::NONE;
use crate::scenario::{self, LockScope};
use crate::world::World;

/// All locks.
#[derive(Debug)]
pub(crate) struct Locks {
    scope: LockScope,
    shared_reads: bool,
    handover: Span,
    batch: u32,
    /// The first lock of each application.
    first: Vec<u32>,
    each: Vec<Lock>,
}

#[derive(Clone, Debug)]
struct Lock {
    /// The client that had it last.
    owner: u32,
    /// Operations under way under it.
    users: u32,
    /// Operations that the owner has begun, since it got the lock or others want it.
    begun: u32,
    /// Whether those who use it only read.
    reading: bool,
    waiting: VecDeque<u32>,
}

impl Lock {
    const FREE: Self =
        Self { owner: NONE, users: 0, begun: 0, reading: false, waiting: VecDeque::new() };
}

impl Locks {
    pub(crate) fn new(options: &scenario::Locks, casts: &[Cast]) -> Self {
        let mut count = 0;
        let first = casts
            .iter()
            .map(|cast| {
                let first = count;
                count += match options.scope {
                    LockScope::None => 0,
                    LockScope::File => cast.workload.files.each,
                    LockScope::Object => cast.workload.files.each * cast.layout().count,
                };
                first
            })
            .collect();
        Self {
            scope: options.scope,
            shared_reads: options.shared_reads,
            handover: options.handover,
            batch: options.batch.unwrap_or(u32::MAX),
            first,
            each: vec![Lock::FREE; count as usize],
        }
    }

    /// Gives a lock to an operation of `client` if it may have it now: the time until it has it.
    /// Who is taken `from_line` has waited for its turn.
    fn grant(&mut self, lock: u32, client: u32, reads: bool, from_line: bool) -> Option<Span> {
        let reads = reads && self.shared_reads;
        let one = &mut self.each[lock as usize];
        let own = one.owner == client;
        let free = one.users == 0;
        let wanted = from_line || !one.waiting.is_empty();
        let goes_on = own && (!wanted || one.begun < self.batch);
        let in_turn = from_line || !wanted || goes_on;
        let fits = free || if one.reading { reads } else { goes_on };
        if !in_turn || !fits {
            return None;
        }
        if free {
            one.reading = reads;
        }
        // What was done while nobody else wanted the lock does not count.
        let new_turn = !own || !wanted || free && from_line;
        one.begun = if new_turn { 1 } else { one.begun + 1 };
        let moves = !own && one.owner != NONE;
        one.owner = client;
        one.users += 1;
        Some(if moves { self.handover } else { Span::ZERO })
    }
}

impl World {
    /// Asks for the lock of an operation, if there is one; whether the operation has to wait.
    pub(crate) fn waits_for_lock(&mut self, now: Time, index: u32) -> bool {
        let operation = self.operations[index];
        let data = matches!(operation.kind, Kind::Read | Kind::Write | Kind::Append);
        let application = self.clients.each[operation.client as usize].application as usize;
        let cast = &self.clients.casts[application];
        let shared = cast.workload.files.placing == Placing::Shared;
        if self.locks.scope == LockScope::None || !data || !shared {
            return false;
        }
        let lock = match self.locks.scope {
            LockScope::Object => {
                let layout = cast.layout();
                let unit = operation.offset_bytes / u64::from(layout.unit_bytes);
                operation.file * layout.count + (unit % u64::from(layout.count)) as u32
            }
            _ => operation.file,
        };
        let lock = self.locks.first[application] + lock;
        self.operations[index].lock = lock;
        let reads = operation.kind == Kind::Read;
        match self.locks.grant(lock, operation.client, reads, false) {
            Some(Span::ZERO) => false,
            Some(handover) => {
                self.totals.handovers += 1;
                self.events.push(now + handover, Event::Lock(index));
                true
            }
            None => {
                self.locks.each[lock as usize].waiting.push_back(index);
                true
            }
        }
    }

    /// Takes an operation out of the line for its lock; whether it stood there.
    pub(crate) fn leave_line(&mut self, index: u32) -> bool {
        let lock = self.operations[index].lock;
        if lock == NONE {
            return false;
        }
        let line = &mut self.locks.each[lock as usize].waiting;
        let place = line.iter().position(|waiting| *waiting == index);
        place.is_some_and(|place| line.remove(place).is_some())
    }

    /// A lock is with the client of this operation.
    pub(crate) fn locked(&mut self, now: Time, index: u32) {
        let client = self.operations[index].client;
        self.advance(now, index);
        self.start_operations(now, client);
    }

    /// An operation has ended, and its lock may go to those who wait: first to others of its owner
    /// while they are in their turn, then in order.
    pub(crate) fn release_lock(&mut self, now: Time, lock: u32) {
        if lock == NONE {
            return;
        }
        self.locks.each[lock as usize].users -= 1;
        loop {
            let one = &self.locks.each[lock as usize];
            let own = |index: &u32| self.operations[*index].client == one.owner;
            let goes_on = one.begun < self.locks.batch;
            let at = if goes_on { one.waiting.iter().position(own) } else { None };
            let Some(&next) = one.waiting.get(at.unwrap_or(0)) else { return };
            let operation = self.operations[next];
            let reads = operation.kind == Kind::Read;
            let granted = self.locks.grant(lock, operation.client, reads, at.is_none());
            let Some(handover) = granted else { return };
            self.locks.each[lock as usize].waiting.remove(at.unwrap_or(0));
            self.totals.handovers += u64::from(handover > Span::ZERO);
            self.events.push(now + handover, Event::Lock(next));
        }
    }
}
