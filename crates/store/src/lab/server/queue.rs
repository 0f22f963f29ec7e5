//! The bounded queue between the connections and the service threads: one line in the order of
//! arrival, or one for each connection where clients are to be contained.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use afflux_core::credits::Options as CreditOptions;
use afflux_core::credits::queue::{FairQueue, Next};
use afflux_core::units::Time;
use afflux_node::clock;
use bytes::Bytes;

use super::connection::Connection;
use crate::lab::wire::Header;
use crate::sync::{lock, wait, wait_for};

/// A request that waits for a service thread.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) header: Header,
    pub(super) payload: Bytes,
    pub(super) arrived: Time,
    pub(super) connection: Arc<Connection>,
}

/// Requests, bounded by number and by bytes.
#[derive(Debug)]
pub(super) struct RequestQueue {
    most_requests: usize,
    most_bytes: usize,
    /// Requests of one connection that wait here; past it, that one is not read from.
    most_of_one: usize,
    state: Mutex<State>,
    room: Condvar,
    work: Condvar,
}

#[derive(Debug)]
struct State {
    jobs: Jobs,
    bytes: usize,
    closed: bool,
    // A signal costs a system call even if nobody waits for it.
    wanting_room: usize,
    wanting_work: usize,
}

/// What waits, and in which order.
#[derive(Debug)]
enum Jobs {
    /// As it arrived.
    One(VecDeque<Job>),
    /// In turns.
    Each(FairQueue<Job>),
}

impl Jobs {
    fn len(&self) -> usize {
        match self {
            Self::One(jobs) => jobs.len(),
            Self::Each(jobs) => jobs.len(),
        }
    }

    /// How many of a connection wait, where that is known.
    fn of(&self, connection: &Connection) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Each(jobs) => jobs.waiting(connection.number()),
        }
    }

    fn push(&mut self, job: Job) {
        match self {
            Self::One(jobs) => jobs.push_back(job),
            Self::Each(jobs) => {
                let (client, tenant) = (job.connection.number(), job.header.job);
                let bytes = job.payload.len().max(job.header.fourth as usize) as u64;
                jobs.push(client, tenant, bytes, job);
            }
        }
    }

    fn pop(&mut self) -> Next<Job> {
        match self {
            Self::One(jobs) => jobs.pop_front().map_or(Next::Nothing, Next::Item),
            Self::Each(jobs) => jobs.pop(clock::now()),
        }
    }
}

impl RequestQueue {
    /// An empty queue of so many requests and bytes of payload. `credits` may ask for a line for
    /// each connection.
    pub(super) fn new(
        most_requests: usize,
        most_bytes: usize,
        credits: Option<&CreditOptions>,
    ) -> Self {
        let lines = credits.filter(|one| one.keeps_lines());
        let jobs = match lines {
            Some(one) => Jobs::Each(FairQueue::new(&one.shares)),
            None => Jobs::One(VecDeque::new()),
        };
        let state = State { jobs, bytes: 0, closed: false, wanting_room: 0, wanting_work: 0 };
        Self {
            most_requests,
            most_bytes,
            most_of_one: credits
                .and_then(|one| one.contain)
                .map_or(usize::MAX, |most| most as usize),
            state: Mutex::new(state),
            room: Condvar::new(),
            work: Condvar::new(),
        }
    }

    /// Puts a request at the end; waits while the queue is full, which keeps the connection from
    /// reading on. A queue that is closed swallows it.
    pub(super) fn push(&self, job: Job) {
        let mut state = lock(&self.state);
        // One request is always let in, however large.
        while !state.closed
            && state.jobs.len() > 0
            && (state.jobs.len() >= self.most_requests
                || state.bytes + job.payload.len() > self.most_bytes
                || state.jobs.of(&job.connection) >= self.most_of_one)
        {
            state.wanting_room += 1;
            state = wait(&self.room, state);
            state.wanting_room -= 1;
        }
        if !state.closed {
            state.bytes += job.payload.len();
            state.jobs.push(job);
            if state.wanting_work > 0 {
                self.work.notify_one();
            }
        }
    }

    /// The next request; waits for one, and ends when the queue was closed.
    pub(super) fn take(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            let until = match state.jobs.pop() {
                Next::Item(job) => {
                    state.bytes -= job.payload.len();
                    // Several small ones may fit where one large one stood.
                    if state.wanting_room > 0 {
                        self.room.notify_all();
                    }
                    return Some(job);
                }
                Next::At(time) => Some(time.since(clock::now())),
                Next::Nothing => None,
            };
            state.wanting_work += 1;
            state = match until {
                Some(left) => wait_for(&self.work, state, clock::std_duration(left)),
                None => wait(&self.work, state),
            };
            state.wanting_work -= 1;
        }
    }

    /// Drops what waits and lets all threads go.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let jobs = std::mem::replace(&mut state.jobs, Jobs::One(VecDeque::new()));
        drop(state);
        drop(jobs);
        self.room.notify_all();
        self.work.notify_all();
    }
}
