//! A modelled device under the real clock: requests wait until the model has finished them.
//!
//! The model keeps its own virtual clock. A thread that wakes late delays the answers, never the
//! device: what comes next starts where the model finished, not where the thread woke.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle, Thread};

use afflux_core::device::placement::Piece;
use afflux_core::device::{Device, DeviceRequest};
use afflux_core::units::{Span, Time};
use afflux_node::clock;

use crate::sync::{lock, wait, wait_for};

/// A device model and the thread that runs it. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct HeldDevice {
    shared: Arc<Shared>,
    runner: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    sooner: Condvar,
}

struct State {
    device: Box<dyn Device>,
    waiting: BTreeMap<u64, Waiting>,
    next_id: u64,
    // When the runner will look next, unless it is woken.
    looks_at: Time,
    stopping: bool,
}

struct Waiting {
    thread: Thread,
    access: Option<Span>,
}

/// Requests under way on a device; [`Submitted::wait`] must be called on the thread that submitted.
pub(crate) struct Submitted {
    shared: Arc<Shared>,
    ids: Vec<u64>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl HeldDevice {
    /// Starts a thread for `device`.
    pub(crate) fn start(device: Box<dyn Device>) -> std::io::Result<Self> {
        let state = State {
            device,
            waiting: BTreeMap::new(),
            next_id: 0,
            looks_at: Time::NEVER,
            stopping: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), sooner: Condvar::new() });
        let runner = {
            let shared = Arc::clone(&shared);
            let named = thread::Builder::new().name("device".into()).stack_size(256 << 10);
            named.spawn(move || shared.run())?
        };
        Ok(Self { shared, runner: Some(runner) })
    }

    /// Hands stretches of the device over, all at once.
    pub(crate) fn submit(&self, write: bool, pieces: &[Piece]) -> Submitted {
        let mut ids = Vec::with_capacity(pieces.len());
        let mut state = lock(&self.shared.state);
        let now = clock::now();
        for piece in pieces {
            let id = state.next_id;
            state.next_id += 1;
            let (offset_bytes, length_bytes) = (piece.offset_bytes, piece.length_bytes);
            state.device.submit(now, DeviceRequest { id, write, offset_bytes, length_bytes });
            state.waiting.insert(id, Waiting { thread: thread::current(), access: None });
            ids.push(id);
        }
        let next = state.device.next_done();
        if next.is_some_and(|next| next < state.looks_at) {
            self.shared.sooner.notify_one();
        }
        Submitted { shared: Arc::clone(&self.shared), ids }
    }
}

impl Drop for HeldDevice {
    fn drop(&mut self) {
        lock(&self.shared.state).stopping = true;
        self.shared.sooner.notify_one();
        if let Some(runner) = self.runner.take() {
            // A runner that panicked has nothing left to be waited for.
            let _ = runner.join();
        }
    }
}

impl Submitted {
    /// Waits until the device is through with all of it, and says how long it worked on it.
    pub(crate) fn wait(self) -> Span {
        let mut access = Span::ZERO;
        for id in self.ids {
            loop {
                let mut state = lock(&self.shared.state);
                if let Some(worked) = state.waiting.get(&id).and_then(|waiting| waiting.access) {
                    state.waiting.remove(&id);
                    access += worked;
                    break;
                }
                if state.stopping {
                    state.waiting.remove(&id);
                    break;
                }
                drop(state);
                thread::park();
            }
        }
        access
    }
}

impl Shared {
    fn run(&self) {
        // The default slack of 50 us would be added to every request; a lateness that the kernel
        // does not let us lower is only that.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut state = lock(&self.state);
        while !state.stopping {
            let now = clock::now();
            while let Some(done) = state.device.poll(now) {
                if let Some(waiting) = state.waiting.get_mut(&done.id) {
                    waiting.access = Some(done.access);
                    waiting.thread.unpark();
                }
            }
            state = match state.device.next_done() {
                None => {
                    state.looks_at = Time::NEVER;
                    wait(&self.sooner, state)
                }
                Some(next) if next <= now => state,
                Some(next) => {
                    state.looks_at = next;
                    wait_for(&self.sooner, state, clock::std_duration(next.since(now)))
                }
            };
        }
        for waiting in state.waiting.values() {
            waiting.thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use afflux_core::device::DeviceSpec;

    use super::*;

    #[test]
    fn threads_wait_as_long_as_the_device_works() {
        let spec: DeviceSpec = "hdd".parse().unwrap();
        let device = HeldDevice::start(spec.build(1)).unwrap();
        let before = clock::now();
        let total: Span = thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    let device = &device;
                    scope.spawn(move || {
                        let offset_bytes = thread << 32;
                        let piece = Piece { offset_bytes, length_bytes: 1 << 20 };
                        device.submit(false, &[piece]).wait()
                    })
                })
                .collect();
            threads.into_iter().fold(Span::ZERO, |sum, thread| sum + thread.join().unwrap())
        });
        // One arm serves one after the other, so the accesses add up to the time that passed.
        let passed = clock::now().since(before);
        assert!(total > Span::from_millis(4 * 9), "{total}");
        assert!(passed >= total.mul_f64(0.99), "{passed} {total}");
    }
}
