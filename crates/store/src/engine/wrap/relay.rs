//! The one engine behind all wrappers that hold requests back or have them end otherwise.
//!
//! A [`Manner`] decides, and is told the time; the [`Relay`] does. What may go when it is submitted
//! goes on the caller's thread; everything that becomes due later is done by one thread. Answers
//! pass through on the inner engine's own threads.
//!
//! A request is in one table at a time: held, or sent, or sent with its answer lost; who takes it
//! out ends it. To the inner engine it goes under a number of the relay's own, so that callers that
//! share a relay may use the same tags.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use afflux_core::units::{Span, Time};
use afflux_node::clock;

use crate::engine::{
    Capabilities, Completion, CompletionSender, Engine, EngineError, Place, Receive, Request,
    ServerStatistics,
};
use crate::sync::{lock, wait, wait_for};

const STACK_BYTES: usize = 256 << 10;

/// What a wrapper decides about the requests that it holds, which it knows by number.
pub(super) trait Manner: fmt::Debug + Send {
    /// A request was submitted, and is held from now on.
    fn came(&mut self, now: Time, number: u64, request: &Request);

    /// What is to be done next at `now`; asked until it names a time.
    fn next(&mut self, now: Time) -> Next;

    /// A request is no longer held: its caller gave it up, or its deadline is over.
    fn left(&mut self, number: u64, place: Place);

    /// A request that was handed on has ended.
    fn ended(&mut self, _place: Place) {}

    /// After how long a request is given up whose answer is lost and that names no deadline.
    fn patience(&self) -> Span {
        Span::MAX
    }
}

/// The next step of a [`Manner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Hands a held request on.
    Pass(u64),
    /// Hands it on, and keeps its answer from the caller.
    Lose(u64),
    /// Ends it as if its server were not there.
    Refuse(u64),
    /// There is nothing to do before this.
    At(Time),
}

/// An engine around another, in one [`Manner`].
pub(super) struct Relay {
    name: &'static str,
    inner: Arc<dyn Engine>,
    shared: Arc<Shared>,
    // To where the inner engine delivers.
    back: CompletionSender,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    manner: Box<dyn Manner>,
    held: BTreeMap<u64, (Request, Caller)>,
    // Nobody waits for those whose answer is lost, or that were lost and have timed out.
    sent: BTreeMap<u64, (Place, Option<Caller>)>,
    lost: BTreeMap<u64, Caller>,
    // Of what is held and what is lost.
    deadlines: BTreeSet<(Time, u64)>,
    last_number: u64,
    closing: bool,
}

/// Who waits for the end of a request.
#[derive(Debug)]
struct Caller {
    tag: u64,
    place: Place,
    done: CompletionSender,
    came: Time,
    after: Option<Span>,
    waited: Span,
}

/// What is done without the lock.
enum Step {
    Submit(Request),
    End(Caller, EngineError),
}

impl Relay {
    /// Puts a relay that is called `name` around `inner`.
    pub(super) fn start(
        name: &'static str,
        inner: Arc<dyn Engine>,
        manner: Box<dyn Manner>,
    ) -> io::Result<Self> {
        let state = State {
            manner,
            held: BTreeMap::new(),
            sent: BTreeMap::new(),
            lost: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            last_number: 0,
            closing: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let back = CompletionSender::to(Arc::clone(&shared) as Arc<dyn Receive>);
        let builder = thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
        let thread = {
            let (inner, shared, back) = (Arc::clone(&inner), Arc::clone(&shared), back.clone());
            builder.spawn(move || shared.run(inner.as_ref(), &back))?
        };
        Ok(Self { name, inner, shared, back, thread: Some(thread) })
    }
}

impl State {
    /// All that is to be done at `now`, and when to look again.
    fn steps(&mut self, now: Time) -> (Vec<Step>, Time) {
        let mut steps = self.overdue(now);
        loop {
            match self.manner.next(now) {
                Next::Pass(number) => steps.extend(self.send(now, number, false)),
                Next::Lose(number) => steps.extend(self.send(now, number, true)),
                Next::Refuse(number) => {
                    if let Some((_, caller)) = self.release(number) {
                        let server = caller.place.to_string();
                        let why = "a wrapper was told to fail requests".to_owned();
                        let error = EngineError::Unreachable { server, why };
                        steps.push(Step::End(caller, error));
                    }
                }
                Next::At(time) => {
                    let deadline = self.deadlines.first().map_or(Time::NEVER, |first| first.0);
                    return (steps, time.min(deadline));
                }
            }
        }
    }

    /// Ends what has waited too long.
    fn overdue(&mut self, now: Time) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(&(deadline, number)) = self.deadlines.first() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_first();
            let caller = match self.held.remove(&number) {
                Some((request, caller)) => {
                    self.manner.left(number, request.place);
                    Some(caller)
                }
                None => self.lost.remove(&number),
            };
            steps.extend(caller.map(|caller| {
                let server = caller.place.to_string();
                let error = EngineError::TimedOut { server, after: deadline.since(caller.came) };
                Step::End(caller, error)
            }));
        }
        steps
    }

    /// Takes a request out of those that are held.
    fn release(&mut self, number: u64) -> Option<(Request, Caller)> {
        let (request, caller) = self.held.remove(&number)?;
        if let Some(after) = caller.after {
            self.deadlines.remove(&(caller.came + after, number));
        }
        Some((request, caller))
    }

    fn send(&mut self, now: Time, number: u64, lose: bool) -> Option<Step> {
        let (mut request, mut caller) = self.release(number)?;
        let place = caller.place;
        caller.waited = now.since(caller.came);
        request.tag = number;
        request.deadline = caller.after.map(|after| after.saturating_sub(caller.waited));
        let caller = if lose {
            let gives_up = caller.came + caller.after.unwrap_or(self.manner.patience());
            self.deadlines.insert((gives_up, number));
            self.lost.insert(number, caller);
            None
        } else {
            Some(caller)
        };
        self.sent.insert(number, (place, caller));
        Some(Step::Submit(request))
    }

    /// Gives up a request that is held, or whose answer is lost.
    fn give_up(&mut self, tag: u64) -> Option<Caller> {
        let held = self.held.iter().find(|(_, (_, caller))| caller.tag == tag);
        if let Some(number) = held.map(|(number, _)| *number) {
            let (request, caller) = self.release(number)?;
            self.manner.left(number, request.place);
            return Some(caller);
        }
        let lost = self.lost.iter().find(|(_, caller)| caller.tag == tag);
        let number = lost.map(|(number, _)| *number)?;
        self.deadlines.retain(|(_, other)| *other != number);
        self.lost.remove(&number)
    }

    /// The number under which the inner engine has a caller's request.
    fn sent_as(&self, tag: u64) -> Option<u64> {
        let is_it = |caller: &Option<Caller>| caller.as_ref().is_some_and(|one| one.tag == tag);
        self.sent.iter().find(|(_, (_, caller))| is_it(caller)).map(|(number, _)| *number)
    }
}

impl Shared {
    fn run(&self, inner: &dyn Engine, back: &CompletionSender) {
        let mut state = lock(&self.state);
        while !state.closing {
            let now = clock::now();
            let (steps, wake) = state.steps(now);
            if !steps.is_empty() {
                drop(state);
                act(steps, inner, back);
                state = lock(&self.state);
                continue;
            }
            state = match wake {
                Time::NEVER => wait(&self.changed, state),
                wake => wait_for(&self.changed, state, clock::std_duration(wake.since(now))),
            };
        }
    }
}

fn act(steps: Vec<Step>, inner: &dyn Engine, back: &CompletionSender) {
    for step in steps {
        match step {
            Step::Submit(request) => inner.submit(request, back),
            Step::End(caller, error) => caller.fail(error),
        }
    }
}

impl Caller {
    fn fail(self, error: EngineError) {
        self.done.send(Completion::failed(self.tag, self.place, error));
    }
}

impl Receive for Shared {
    fn receive(&self, completion: Completion) {
        let mut state = lock(&self.state);
        let Some((place, caller)) = state.sent.remove(&completion.tag) else { return };
        state.manner.ended(place);
        let waits = !state.held.is_empty();
        drop(state);
        if waits {
            self.changed.notify_one();
        }
        let Some(caller) = caller else { return };
        let outcome = completion.outcome.map_err(|error| match (error, caller.after) {
            // The inner engine was given what was left of the caller's deadline.
            (EngineError::TimedOut { server, .. }, Some(after)) => {
                EngineError::TimedOut { server, after }
            }
            (error, _) => error,
        });
        let queued = completion.queued + caller.waited;
        caller.done.send(Completion { tag: caller.tag, outcome, queued, ..completion });
    }
}

impl Engine for Relay {
    fn name(&self) -> &'static str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn servers(&self) -> u32 {
        self.inner.servers()
    }

    fn submit(&self, request: Request, done: &CompletionSender) {
        let Request { tag, place, deadline: after, .. } = request;
        let mut state = lock(&self.shared.state);
        // Within the lock, so that requests come in the order of their times.
        let came = clock::now();
        state.last_number += 1;
        let number = state.last_number;
        state.manner.came(came, number, &request);
        state.deadlines.extend(after.map(|after| (came + after, number)));
        let caller = Caller { tag, place, done: done.clone(), came, after, waited: Span::ZERO };
        state.held.insert(number, (request, caller));
        let (steps, wake) = state.steps(came);
        drop(state);
        if wake < Time::NEVER {
            self.shared.changed.notify_one();
        }
        act(steps, self.inner.as_ref(), &self.back);
    }

    fn cancel(&self, tag: u64) {
        let mut state = lock(&self.shared.state);
        let ended = state.give_up(tag);
        let sent = if ended.is_none() { state.sent_as(tag) } else { None };
        drop(state);
        if let Some(caller) = ended {
            caller.fail(EngineError::Cancelled);
        }
        if let Some(number) = sent {
            self.inner.cancel(number);
        }
    }

    fn greeting(&self, place: Place) -> (u64, u16) {
        self.inner.greeting(place)
    }

    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError> {
        self.inner.statistics()
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }
}

impl Drop for Relay {
    /// Ends what the inner engine was not given; what it was, it ends itself.
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.closing = true;
        let held = std::mem::take(&mut state.held);
        let lost = std::mem::take(&mut state.lost);
        drop(state);
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked is through as well.
            let _ = thread.join();
        }
        let held = held.into_values().map(|(_, caller)| caller);
        for caller in held.chain(lost.into_values()) {
            caller.fail(EngineError::Cancelled);
        }
    }
}
