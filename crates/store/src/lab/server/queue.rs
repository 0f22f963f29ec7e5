//! The bounded queue between the connections and the service threads.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use afflux_core::units::Time;
use bytes::Bytes;

use super::connection::Connection;
use crate::lab::wire::Header;
use crate::sync::{lock, wait};

/// A request that waits for a service thread.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) header: Header,
    pub(super) payload: Bytes,
    pub(super) arrived: Time,
    pub(super) connection: Arc<Connection>,
}

/// Requests in the order of their arrival, bounded by number and by bytes.
#[derive(Debug)]
pub(super) struct RequestQueue {
    most_requests: usize,
    most_bytes: usize,
    state: Mutex<State>,
    room: Condvar,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    closed: bool,
    // A signal costs a system call even if nobody waits for it.
    wanting_room: usize,
    wanting_work: usize,
}

impl RequestQueue {
    /// An empty queue of so many requests and bytes of payload.
    pub(super) fn new(most_requests: usize, most_bytes: usize) -> Self {
        let (state, room, work) = (Mutex::default(), Condvar::new(), Condvar::new());
        Self { most_requests, most_bytes, state, room, work }
    }

    /// Puts a request at the end; waits while the queue is full, which keeps the connection from
    /// reading on. A queue that is closed swallows it.
    pub(super) fn push(&self, job: Job) {
        let mut state = lock(&self.state);
        // One request is always let in, however large.
        while !state.closed
            && !state.jobs.is_empty()
            && (state.jobs.len() >= self.most_requests
                || state.bytes + job.payload.len() > self.most_bytes)
        {
            state.wanting_room += 1;
            state = wait(&self.room, state);
            state.wanting_room -= 1;
        }
        if !state.closed {
            state.bytes += job.payload.len();
            state.jobs.push_back(job);
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
            if let Some(job) = state.jobs.pop_front() {
                state.bytes -= job.payload.len();
                // Several small ones may fit where one large one stood.
                if state.wanting_room > 0 {
                    self.room.notify_all();
                }
                return Some(job);
            }
            state.wanting_work += 1;
            state = wait(&self.work, state);
            state.wanting_work -= 1;
        }
    }

    /// Drops what waits and lets all threads go.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        drop(jobs);
        self.room.notify_all();
        self.work.notify_all();
    }
}
