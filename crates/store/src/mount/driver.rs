//! The thread that owns the client, and the operations that others hand to it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use afflux_core::setting::Setting;
use afflux_core::units::Span;
use afflux_node::clock;

use crate::client::{Client, Identity, Operation, Outcome, Waker};
use crate::engine::{Engine, EngineError};

/// How long the thread waits before it looks whether anybody is left who could ask.
const LOOK: Span = Span::from_secs(1);

/// Runs operations of many threads on one client, so that they share its paths.
pub(super) struct Driver {
    asks: mpsc::Sender<Ask>,
    waker: Waker,
}

type Answer = Result<Outcome, EngineError>;

struct Ask {
    operation: Operation,
    answer: mpsc::Sender<Answer>,
}

impl Driver {
    /// Starts the thread, with a client under `setting`.
    pub(super) fn start(engine: Arc<dyn Engine>, setting: &Setting) -> io::Result<Self> {
        let client = Client::new(engine, setting, Identity::ALONE);
        let (waker, (asks, asked)) = (client.waker(), mpsc::channel());
        thread::Builder::new().name("mount".into()).spawn(move || drive(client, &asked))?;
        Ok(Self { asks, waker })
    }

    /// Runs an operation to its end; other threads' go on meanwhile.
    pub(super) fn finish(&self, operation: Operation) -> Answer {
        let (answer, answered) = mpsc::channel();
        // The thread is gone only after a panic.
        self.asks.send(Ask { operation, answer }).map_err(|_| EngineError::Cancelled)?;
        self.waker.wake();
        answered.recv().map_err(|_| EngineError::Cancelled)?
    }
}

fn drive(mut client: Client, asked: &mpsc::Receiver<Ask>) {
    let mut answers: BTreeMap<u64, mpsc::Sender<Answer>> = BTreeMap::new();
    let mut next = 0;
    loop {
        loop {
            match asked.try_recv() {
                Ok(Ask { operation, answer }) => {
                    answers.insert(next, answer);
                    client.submit(clock::now(), next, operation);
                    next += 1;
                }
                Err(mpsc::TryRecvError::Disconnected) if answers.is_empty() => return,
                Err(_) => break,
            }
        }
        for done in client.wait(clock::now() + LOOK, None) {
            if let Some(answer) = answers.remove(&done.id) {
                // Who asked waits for it.
                let _ = answer.send(done.outcome);
            }
        }
    }
}
