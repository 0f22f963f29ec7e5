//! Credits: the ledgers of core at the servers, and its imports at the clients.
//!
//! A client's import and its seat at a server stand together, since each is of one pair of them.
//! Worlds without credits keep nothing here.

use afflux_core::credits::import::Import;
use afflux_core::credits::ledger::{Bound, Ledger, Seat};
use afflux_core::limits::Credits;
use afflux_core::units::Time;

use crate::client::Clients;
use crate::outcome::LedgerOutcome;
use crate::request::{NONE, Request};
use crate::scenario::Scenario;
use crate::series::CreditSeries;
use crate::world::World;

/// Requests that a client counts at most when it says how many credits it could use.
const MOST_WANTED: u32 = u16::MAX as u32;

/// All credits of a world.
pub(crate) struct CreditBook {
    /// One for each server.
    pub(crate) ledgers: Vec<Ledger>,
    pairs: Vec<Pair>,
    /// When each request arrived at its server, by its place in the table.
    arrived: Vec<Time>,
}

/// A client and a server.
#[derive(Clone, Copy)]
struct Pair {
    import: Import,
    seat: Seat,
}

impl CreditBook {
    /// The book of a scenario, if its servers grant credits.
    pub(crate) fn new(scenario: &Scenario, clients: &Clients) -> Option<Self> {
        let options = scenario.servers.credits.as_ref()?;
        let mut import = Import::default();
        import.welcome(options.credits_min, Time::ZERO);
        let pairs = clients.casts.iter().map(|cast| cast.clients * cast.data_paths()).sum::<u32>();
        Some(Self {
            ledgers: vec![
                Ledger::new(options, scenario.servers.threads);
                scenario.servers.count as usize
            ],
            pairs: vec![Pair { import, seat: Seat::NONE }; pairs as usize],
            arrived: Vec::new(),
        })
    }

    /// What a client was granted by a server and uses.
    pub(crate) fn credits(&mut self, pair: u32, now: Time) -> Option<Credits> {
        self.pairs.get_mut(pair as usize)?.import.credits(now)
    }

    /// Looks whether everything that was counted in was counted out.
    pub(crate) fn audit(&self) {
        for (server, ledger) in self.ledgers.iter().enumerate() {
            assert_eq!(ledger.depth(), 0, "requests in the ledger of server {server}");
        }
        assert!(self.pairs.iter().all(|pair| pair.import.used() == 0), "credits in use");
    }

    /// Adds a step to the course of a run.
    pub(crate) fn describe(&self, series: &mut CreditSeries) {
        let mean = |of: fn(&Ledger) -> f64| {
            self.ledgers.iter().map(of).sum::<f64>() / self.ledgers.len().max(1) as f64
        };
        series.active.push(mean(|ledger| f64::from(ledger.active())));
        series.iops.push(mean(|ledger| ledger.rate().per_second()));
        series.granted.push(mean(|ledger| ledger.share(0).map_or(0.0, f64::from)));
    }

    /// What became of each server's ledger.
    pub(crate) fn outcomes(&self, clients: &Clients) -> Vec<LedgerOutcome> {
        let of = |(server, ledger): (u32, &Ledger)| LedgerOutcome {
            ignoring: self.ignoring(clients, server),
            active: ledger.active(),
            iops: ledger.rate().per_second(),
            depth_max: match ledger.bound() {
                Bound::Held { depth_max } => Some(depth_max),
                Bound::Unknown | Bound::Broken { .. } => None,
            },
            broken_secs: match ledger.bound() {
                Bound::Broken { latency } => Some(latency.as_secs_f64()),
                Bound::Unknown | Bound::Held { .. } => None,
            },
            timeout_secs: ledger.timeout().map(|advice| advice.timeout.as_secs_f64()),
            late: ledger.counts().late,
            overdrawn: ledger.counts().overdrawn,
        };
        (0..).zip(&self.ledgers).map(of).collect()
    }

    /// Clients that a server knows to ignore their credits.
    fn ignoring(&self, clients: &Clients, server: u32) -> Vec<u32> {
        let mut found = Vec::new();
        for cast in &clients.casts {
            for local in 0..cast.clients {
                for among in 0..cast.data_paths() {
                    let pair = cast.first_pair + local * cast.data_paths() + among;
                    let ignores = cast.end_of(local, cast.slot_of(among)).0 == server
                        && self.ledgers[server as usize]
                            .ignores_credits(self.pairs[pair as usize].seat);
                    if ignores {
                        found.push(cast.first_client + local);
                    }
                }
            }
        }
        found
    }

    /// A request arrives at its server.
    pub(crate) fn arrive(&mut self, now: Time, index: u32, pair: u32, server: u32, tenant: u32) {
        if self.arrived.len() <= index as usize {
            self.arrived.resize(index as usize + 1, now);
        }
        self.arrived[index as usize] = now;
        let seat = &mut self.pairs[pair as usize].seat;
        *seat = self.ledgers[server as usize].arrival(*seat, tenant, now);
    }

    /// A request that asked for so many credits is answered: what the answer grants.
    pub(crate) fn answer(
        &mut self,
        now: Time,
        index: u32,
        pair: u32,
        server: u32,
        asked: u16,
    ) -> u16 {
        let (seat, arrived) = (self.pairs[pair as usize].seat, self.arrived[index as usize]);
        let granted = self.ledgers[server as usize].reply(seat, u32::from(asked), arrived, now);
        u16::try_from(granted).unwrap_or(u16::MAX)
    }
}

impl World {
    /// The pair of a path's client and server; none of the catalog.
    pub(crate) fn pair_of(&self, client: u32, path: u32) -> u32 {
        if self.credits.is_none() {
            return NONE;
        }
        let cast = self.cast_of(client);
        let at = path - cast.first_path;
        let (local, slot) = (at / cast.paths_per_client, at % cast.paths_per_client);
        match cast.among(slot) {
            Some(among) => cast.first_pair + local * cast.data_paths() + among,
            None => NONE,
        }
    }

    /// Notes that `request` goes out, and what it asks for.
    pub(crate) fn spend_credit(&mut self, index: u32) {
        let Request { client, path, .. } = self.requests[index];
        let pair = self.pair_of(client, path);
        if pair == NONE {
            return;
        }
        let waiting = self.waiting(client, path);
        let Some(book) = self.credits.as_mut() else { return };
        if let Some(pair) = book.pairs.get_mut(pair as usize) {
            pair.import.sent();
            let wanted = pair.import.wanted(waiting).min(MOST_WANTED);
            self.requests[index].credits = wanted as u16;
        }
    }

    /// Takes what the answer to `request` grants.
    pub(crate) fn earn_credit(&mut self, now: Time, request: &Request) {
        let pair = self.pair_of(request.client, request.path);
        let Some(book) = self.credits.as_mut() else { return };
        if let Some(pair) = book.pairs.get_mut(pair as usize) {
            pair.import.replied(u32::from(request.credits), now);
        }
    }

    /// A request was given up on.
    pub(crate) fn lose_credit(&mut self, request: &Request) {
        let pair = self.pair_of(request.client, request.path);
        let Some(book) = self.credits.as_mut() else { return };
        if let Some(pair) = book.pairs.get_mut(pair as usize) {
            pair.import.lost();
        }
    }

    /// A request leaves its server without an answer, since its client is gone.
    pub(crate) fn withdraw_credit(&mut self, now: Time, request: &Request) {
        let pair = self.pair_of(request.client, request.path);
        let Some(book) = self.credits.as_mut() else { return };
        if let Some(Pair { seat, .. }) = book.pairs.get(pair as usize) {
            book.ledgers[request.server as usize].withdraw(*seat, now);
        }
    }

    /// A client dies, and with it what it knew of its servers.
    pub(crate) fn forget_imports(&mut self, client: u32) {
        let cast = self.cast_of(client);
        let first = cast.first_pair + (client - cast.first_client) * cast.data_paths();
        let pairs = first as usize..(first + cast.data_paths()) as usize;
        let options = self.scenario.servers.credits.as_ref();
        let (Some(book), Some(options)) = (self.credits.as_mut(), options) else { return };
        for pair in &mut book.pairs[pairs] {
            pair.import = Import::default();
            pair.import.welcome(options.credits_min, Time::ZERO);
        }
    }

    /// A server dies, and with it all that it knew of its clients.
    pub(crate) fn forget_credits(&mut self, server: u32) {
        let options = self.scenario.servers.credits.as_ref();
        let (Some(book), Some(options)) = (self.credits.as_mut(), options) else { return };
        book.ledgers[server as usize] = Ledger::new(options, self.scenario.servers.threads);
        for cast in &self.clients.casts {
            for local in 0..cast.clients {
                for among in 0..cast.data_paths() {
                    let of = cast.end_of(local, cast.slot_of(among)).0;
                    if of == server {
                        let pair = cast.first_pair + local * cast.data_paths() + among;
                        book.pairs[pair as usize].seat = Seat::NONE;
                    }
                }
            }
        }
    }

    /// Paths of a client to the same server share its credits: one's reply may let another send.
    pub(crate) fn pump_siblings(&mut self, now: Time, client: u32, path: u32) {
        let cast = self.cast_of(client);
        let (classes, slot) =
            (cast.class_count(), (path - cast.first_path) % cast.paths_per_client);
        if cast.among(slot).is_none() {
            return self.pump(now, client, path);
        }
        let first = path - slot % classes;
        // The next one first, so that none of them starves.
        for turn in 1..=classes {
            self.pump(now, client, first + (slot % classes + turn) % classes);
        }
    }

    /// Requests that the data which wait at a path and its siblings need, or as many as can be
    /// asked for.
    fn waiting(&self, client: u32, path: u32) -> u32 {
        let cast = self.cast_of(client);
        let most = self.scenario.servers.credits.as_ref().map_or(0, |one| one.credits_max);
        let slot = (path - cast.first_path) % cast.paths_per_client;
        let (classes, mut waiting) = (cast.class_count(), 0);
        for sibling in 0..classes {
            let lane = &self.clients.lanes[(path - slot % classes + sibling) as usize];
            let mut next = lane.queue.first;
            while next != NONE && waiting < most {
                waiting += self.pieces(next);
                next = self.requests[next].next;
            }
        }
        waiting
    }

    /// About how many requests will be made of one that waits.
    fn pieces(&self, index: u32) -> u32 {
        let request = &self.requests[index];
        if request.cut {
            return 1;
        }
        let cast = self.cast_of(request.client);
        let operation = &self.operations[request.operation];
        let left = operation.offset_bytes + operation.length_bytes - request.offset_bytes;
        let stripes = u64::from(cast.layout().count.max(1));
        let most = u64::from(cast.workload.max_request);
        u32::try_from(left.div_ceil(most * stripes)).unwrap_or(u32::MAX).clamp(1, MOST_WANTED)
    }
}
