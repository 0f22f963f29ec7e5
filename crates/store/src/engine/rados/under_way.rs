//! Requests under way, and what ends them: an answer, their deadline, or the caller.
//!
//! Ceph's library rides out servers that go away, for as long as it takes. How long a caller waits
//! is for the caller to say; so each request has a deadline here, and a thread that looks at it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use afflux_core::units::{Span, Time};
use afflux_librados::Call;
use afflux_node::clock;

use crate::engine::{Answer, Completion, CompletionSender, EngineError, Place};
use crate::sync::{lock, wait, wait_for};

/// All requests of a client that have not ended.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    state: Mutex<State>,
    sooner: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tickets: BTreeMap<u64, Arc<Ticket>>,
    // When the thread will look next, unless it is woken.
    looks_at: Option<Time>,
    closing: bool,
}

/// One request under way.
#[derive(Debug)]
pub(super) struct Ticket {
    tag: u64,
    place: Place,
    pub(super) server: Arc<str>,
    patience: Span,
    deadline: Time,
    done: CompletionSender,
    calls: Mutex<Calls>,
}

/// What the library was asked for a request.
#[derive(Debug)]
enum Calls {
    /// Most requests make one call.
    Open(Option<Call>, Vec<Call>),
    /// The caller was answered; what still comes is of no interest.
    Ended,
}

impl Ticket {
    /// Notes a call that was made for this request; gives it up if the request has ended.
    pub(super) fn add(&self, call: Option<Call>) {
        let Some(call) = call else { return };
        match &mut *lock(&self.calls) {
            Calls::Open(first @ None, _) => *first = Some(call),
            Calls::Open(Some(_), more) => more.push(call),
            Calls::Ended => call.cancel(),
        }
    }

    /// Whether the caller was answered.
    pub(super) fn has_ended(&self) -> bool {
        matches!(*lock(&self.calls), Calls::Ended)
    }
}

impl UnderWay {
    /// Takes a request in; its `server` is for messages.
    pub(super) fn begin(
        &self,
        (tag, place): (u64, Place),
        server: &Arc<str>,
        patience: Span,
        done: &CompletionSender,
    ) -> Arc<Ticket> {
        let deadline = clock::now() + patience;
        let (server, done) = (Arc::clone(server), done.clone());
        let calls = Mutex::new(Calls::Open(None, Vec::new()));
        let ticket = Arc::new(Ticket { tag, place, server, patience, deadline, done, calls });
        let mut state = lock(&self.state);
        state.tickets.insert(tag, Arc::clone(&ticket));
        if state.looks_at.is_none_or(|looks_at| deadline < looks_at) {
            self.sooner.notify_one();
        }
        ticket
    }

    /// Ends a request, unless it has ended: the caller is told, and what was not answered is given
    /// up.
    pub(super) fn end(&self, ticket: &Ticket, outcome: Result<Answer, EngineError>) {
        let arrived = clock::now();
        let before = std::mem::replace(&mut *lock(&ticket.calls), Calls::Ended);
        let Calls::Open(first, more) = before else { return };
        lock(&self.state).tickets.remove(&ticket.tag);
        if outcome.is_err() {
            first.iter().chain(&more).for_each(Call::cancel);
        }
        let (tag, place) = (ticket.tag, ticket.place);
        let (access, queued) = (Span::ZERO, Span::ZERO);
        ticket.done.send(Completion { tag, place, outcome, arrived, access, queued, credit: 0 });
    }

    /// The request with this tag.
    pub(super) fn find(&self, tag: u64) -> Option<Arc<Ticket>> {
        lock(&self.state).tickets.get(&tag).cloned()
    }

    /// Ends the requests whose deadlines pass, until [`UnderWay::close`].
    ///
    /// All requests are looked at whenever the earliest deadline of the last look has come, which
    /// is seldom: most requests have ended long before. So none is sorted by its deadline.
    pub(super) fn watch(&self) {
        let mut state = lock(&self.state);
        while !state.closing {
            let now = clock::now();
            let is_due = |ticket: &&Arc<Ticket>| ticket.deadline <= now;
            let expired: Vec<_> = state.tickets.values().filter(is_due).cloned().collect();
            if !expired.is_empty() {
                drop(state);
                for ticket in expired {
                    let (server, after) = (ticket.server.to_string(), ticket.patience);
                    self.end(&ticket, Err(EngineError::TimedOut { server, after }));
                }
                state = lock(&self.state);
                continue;
            }
            state.looks_at = state.tickets.values().map(|ticket| ticket.deadline).min();
            state = match state.looks_at {
                None => wait(&self.sooner, state),
                Some(deadline) => {
                    let left = clock::std_duration(deadline.since(now));
                    wait_for(&self.sooner, state, left)
                }
            };
        }
    }

    /// Gives everything up, and lets [`UnderWay::watch`] return.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closing = true;
        let tickets: Vec<_> = state.tickets.values().cloned().collect();
        drop(state);
        self.sooner.notify_one();
        for ticket in tickets {
            self.end(&ticket, Err(EngineError::Cancelled));
        }
    }
}
