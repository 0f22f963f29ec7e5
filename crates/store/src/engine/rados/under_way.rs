//! Requests under way, and what ends them: an answer, their deadline, or the caller.
//!
//! Ceph's library rides out servers that go away, for as long as it takes. How long a caller waits
//! is for the caller to say; so each request has a deadline here, and a thread that looks at it.

use std::collections::{BTreeMap, BTreeSet};
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
    deadlines: BTreeSet<(Time, u64)>,
    // When the thread will look next, unless it is woken.
    looks_at: Option<Time>,
    closing: bool,
}

/// One request under way.
#[derive(Debug)]
pub(super) struct Ticket {
    tag: u64,
    place: Place,
    pub(super) server: String,
    patience: Span,
    deadline: Time,
    done: CompletionSender,
    calls: Mutex<Calls>,
}

/// What the library was asked for a request.
#[derive(Debug)]
enum Calls {
    Open(Vec<Call>),
    /// The caller was answered; what still comes is of no interest.
    Ended,
}

impl Ticket {
    /// Notes a call that was made for this request; gives it up if the request has ended.
    pub(super) fn add(&self, call: Option<Call>) {
        let Some(call) = call else { return };
        match &mut *lock(&self.calls) {
            Calls::Open(calls) => calls.push(call),
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
        server: &str,
        patience: Span,
        done: &CompletionSender,
    ) -> Arc<Ticket> {
        let deadline = clock::now() + patience;
        let (server, done) = (server.to_owned(), done.clone());
        let calls = Mutex::new(Calls::Open(Vec::new()));
        let ticket = Arc::new(Ticket { tag, place, server, patience, deadline, done, calls });
        let mut state = lock(&self.state);
        state.tickets.insert(tag, Arc::clone(&ticket));
        state.deadlines.insert((deadline, tag));
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
        let Calls::Open(calls) = before else { return };
        let mut state = lock(&self.state);
        state.tickets.remove(&ticket.tag);
        state.deadlines.remove(&(ticket.deadline, ticket.tag));
        drop(state);
        if outcome.is_err() {
            calls.iter().for_each(Call::cancel);
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
    pub(super) fn watch(&self) {
        let mut state = lock(&self.state);
        while !state.closing {
            let Some(&(deadline, tag)) = state.deadlines.first() else {
                state.looks_at = None;
                state = wait(&self.sooner, state);
                continue;
            };
            let now = clock::now();
            if deadline > now {
                state.looks_at = Some(deadline);
                let left = clock::std_duration(deadline.since(now));
                state = wait_for(&self.sooner, state, left);
                continue;
            }
            state.deadlines.remove(&(deadline, tag));
            let expired = state.tickets.get(&tag).cloned();
            drop(state);
            if let Some(ticket) = expired {
                let (server, after) = (ticket.server.clone(), ticket.patience);
                self.end(&ticket, Err(EngineError::TimedOut { server, after }));
            }
            state = lock(&self.state);
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
