//! The credits of a server: core's ledger behind a lock, told of every arrival and reply.

use std::sync::Mutex;

use afflux_core::credits::Options;
use afflux_core::credits::ledger::{Bound, Ledger, Seat};
use afflux_core::units::Time;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use crate::lab::wire::Header;
use crate::sync::lock;

/// A ledger, and what its clients are greeted with.
#[derive(Debug)]
pub(super) struct Desk {
    ledger: Mutex<Ledger>,
    welcome: u16,
}

/// What a server says of its credits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CreditReport {
    /// Active clients (C).
    pub active: u32,
    /// Requests that wait or are in service (D).
    pub depth: u64,
    /// Requests done in a second of busy time (IOPS).
    pub iops: f64,
    /// Credits of a client while the server is not under light load; none before the rate is known.
    pub granted: Option<u32>,
    /// The bound on the latency, in seconds.
    pub bound_secs: f64,
    /// Most requests here for which it holds; none where it cannot be held, or the rate is unknown.
    pub depth_max: Option<u64>,
    /// The latency that the least credits lead to, where that is above the bound.
    pub broken_secs: Option<f64>,
    /// After how long clients may give up.
    pub timeout_secs: Option<f64>,
    /// Replies, and those of them above the bound.
    pub replies: u64,
    /// Replies above the bound.
    pub late: u64,
    /// Requests beyond their client's credits.
    pub overdrawn: u64,
    /// Clients that ignore their credits, and the requests beyond them.
    pub ignoring: Vec<(String, u32)>,
}

impl Desk {
    /// The desk of a server of so many service threads.
    pub(super) fn new(options: &Options, threads: usize) -> Self {
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        Self {
            ledger: Mutex::new(Ledger::new(options, threads)),
            welcome: credit(options.credits_min),
        }
    }

    /// What a client may have in flight before it was answered for the first time.
    pub(super) const fn welcome(&self) -> u16 {
        self.welcome
    }

    /// A request came in over `connection`.
    pub(super) fn arrive(&self, connection: &Connection, header: &Header, now: Time) {
        // Always in this order: the ledger, then a seat.
        let mut ledger = lock(&self.ledger);
        let mut seat = lock(connection.seat());
        *seat = ledger.arrival(*seat, header.job, now);
    }

    /// A request is answered: what its reply grants.
    pub(super) fn reply(
        &self,
        connection: &Connection,
        header: &Header,
        arrived: Time,
        now: Time,
    ) -> u16 {
        let seat = *lock(connection.seat());
        let wanted = u32::from(header.credit_wanted);
        credit(lock(&self.ledger).reply(seat, wanted, arrived, now))
    }

    /// A request leaves without having been carried out: its client is told to begin anew.
    pub(super) fn withdraw(&self, connection: &Connection, now: Time) -> u16 {
        let seat = *lock(connection.seat());
        lock(&self.ledger).withdraw(seat, now);
        self.welcome
    }

    /// A connection ends.
    pub(super) fn gone(&self, connection: &Connection, now: Time) {
        let mut ledger = lock(&self.ledger);
        let mut seat = lock(connection.seat());
        ledger.gone(*seat, now);
        *seat = Seat::NONE;
    }

    /// What there is to say.
    pub(super) fn report(&self, connections: &[std::sync::Arc<Connection>]) -> CreditReport {
        let ledger = lock(&self.ledger);
        let bound = ledger.bound();
        let ignoring = connections.iter().filter_map(|connection| {
            let seat = *lock(connection.seat());
            let ignores = ledger.ignores_credits(seat);
            ignores.then(|| (connection.describe(), ledger.overdrawn(seat)))
        });
        CreditReport {
            active: ledger.active(),
            depth: ledger.depth(),
            iops: ledger.rate().per_second(),
            granted: ledger.share(0),
            bound_secs: ledger.options().latency_max.as_secs_f64(),
            depth_max: match bound {
                Bound::Held { depth_max } => Some(depth_max),
                Bound::Unknown | Bound::Broken { .. } => None,
            },
            broken_secs: match bound {
                Bound::Broken { latency } => Some(latency.as_secs_f64()),
                Bound::Unknown | Bound::Held { .. } => None,
            },
            timeout_secs: ledger.timeout().map(|advice| advice.timeout.as_secs_f64()),
            replies: ledger.counts().replies,
            late: ledger.counts().late,
            overdrawn: ledger.counts().overdrawn,
            ignoring: ignoring.collect(),
        }
    }
}

fn credit(credits: u32) -> u16 {
    u16::try_from(credits).unwrap_or(u16::MAX)
}
