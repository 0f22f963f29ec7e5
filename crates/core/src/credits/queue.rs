//! A server's queue that contains clients: each has a line of its own, and they are served in
//! turns, by the weights of their tenants and under their caps.
//!
//! Not from the paper, whose servers trust their clients. Between tenants it is deficit round robin
//! (Shreedhar and Varghese, 1995): a tenant may take its weight in megabytes each round and keeps
//! what it could not use while it has something to send. Within a tenant clients take turns request
//! by request. Whoever sends more than its share only makes its own line longer.

use std::collections::{BTreeMap, VecDeque};

use super::shares::Shares;
use crate::units::{Span, Time};

/// What a tenant of weight 1 may take in a round: the largest usual request.
const QUANTUM_BYTES: u64 = 1 << 20;
/// What a request costs besides its bytes, so that empty ones are not free.
const REQUEST_BYTES: u64 = 4_096;
/// A tenant that was under its cap may make up for as much.
const BURST: Span = Span::from_millis(100);

/// Items of many clients, waiting to be served.
///
/// ```
/// use afflux_core::credits::{queue::{FairQueue, Next}, shares::Shares};
/// use afflux_core::units::Time;
///
/// let mut queue = FairQueue::new(&Shares::default());
/// for item in 0..3 {
///     queue.push(7, 0, 1 << 20, ("greedy", item));
/// }
/// queue.push(8, 0, 1 << 20, ("modest", 0));
/// let next = |queue: &mut FairQueue<_>| match queue.pop(Time::ZERO) {
///     Next::Item(item) => item,
///     other => panic!("{other:?}"),
/// };
/// assert_eq!(next(&mut queue), ("greedy", 0));
/// assert_eq!(next(&mut queue), ("modest", 0));
/// assert_eq!((next(&mut queue), queue.waiting(7)), (("greedy", 1), 1));
/// ```
#[derive(Clone, Debug)]
pub struct FairQueue<T> {
    lines: BTreeMap<u64, Line<T>>,
    groups: Vec<Group>,
    shares: Shares,
    /// The group whose turn it is.
    turn: usize,
    len: usize,
}

#[derive(Clone, Debug)]
struct Line<T> {
    items: VecDeque<(u64, T)>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// Clients that have something here, the next first.
    ring: VecDeque<u64>,
    quantum: u64,
    deficit: u64,
    /// Most bytes a second, and when the next may go.
    cap: Option<u64>,
    free: Time,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// This.
    Item(T),
    /// Only what is capped, and not before this time.
    At(Time),
    /// Nothing waits.
    Nothing,
}

impl<T> FairQueue<T> {
    /// An empty queue for tenants with these weights and caps.
    pub fn new(shares: &Shares) -> Self {
        let group = |group| Group {
            quantum: u64::from(shares.weight(group)) * QUANTUM_BYTES,
            cap: shares.cap(group),
            ..Group::default()
        };
        Self {
            lines: BTreeMap::new(),
            groups: (0..shares.groups()).map(group).collect(),
            shares: shares.clone(),
            turn: 0,
            len: 0,
        }
    }

    /// Puts an item of `bytes` at the end of a client's line. A client has one tenant.
    pub fn push(&mut self, client: u64, tenant: u32, bytes: u64, item: T) {
        let group = self.shares.group(tenant);
        let line = self.lines.entry(client).or_insert(Line { items: VecDeque::new() });
        if line.items.is_empty() {
            self.groups[group].ring.push_back(client);
        }
        line.items.push_back((bytes.saturating_add(REQUEST_BYTES), item));
        self.len += 1;
    }

    /// Items of a client that wait.
    pub fn waiting(&self, client: u64) -> usize {
        self.lines.get(&client).map_or(0, |line| line.items.len())
    }

    /// Items that wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the next item out.
    pub fn pop(&mut self, now: Time) -> Next<T> {
        let mut first_free = Time::NEVER;
        // Tenants that were passed over in a row because of their caps, or since nothing waits.
        let mut passed = 0;
        while passed < self.groups.len() && self.len > 0 {
            let group = &mut self.groups[self.turn];
            let Some(&client) = group.ring.front() else {
                group.deficit = 0;
                passed += 1;
                self.pass();
                continue;
            };
            if group.free > now {
                first_free = first_free.min(group.free);
                passed += 1;
                self.pass();
                continue;
            }
            let cost = self.lines.get(&client).and_then(|line| line.items.front());
            let cost = cost.map_or(0, |(cost, _)| *cost);
            if group.deficit < cost {
                // It goes on with that when its turn comes again.
                group.deficit += group.quantum;
                passed = 0;
                self.pass();
                continue;
            }
            if let Some(item) = self.take(client, now) {
                return Next::Item(item);
            }
        }
        if first_free == Time::NEVER { Next::Nothing } else { Next::At(first_free) }
    }

    /// Takes all items out, in no order that matters.
    pub fn drain(&mut self) -> Vec<T> {
        self.len = 0;
        self.groups.iter_mut().for_each(|group| group.ring.clear());
        let lines = std::mem::take(&mut self.lines).into_values();
        lines.flat_map(|line| line.items).map(|(_, item)| item).collect()
    }

    fn pass(&mut self) {
        self.turn = (self.turn + 1) % self.groups.len();
    }

    /// Takes the first item of a client of the group whose turn it is.
    fn take(&mut self, client: u64, now: Time) -> Option<T> {
        let group = &mut self.groups[self.turn];
        group.ring.pop_front();
        let line = self.lines.get_mut(&client)?;
        let (cost, item) = line.items.pop_front()?;
        if line.items.is_empty() {
            self.lines.remove(&client);
        } else {
            group.ring.push_back(client);
        }
        group.deficit -= cost;
        if let Some(rate) = group.cap {
            let nanos = u128::from(cost) * 1_000_000_000 / u128::from(rate);
            let takes = Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            group.free = group.free.max(now - BURST) + takes;
        }
        self.len -= 1;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn shares(options: &str) -> Shares {
        format!("L_max=1s,{options}").parse::<super::super::Options>().unwrap().shares
    }

    #[test]
    fn a_flood_of_one_client_holds_up_nobody_else() {
        let mut queue = FairQueue::new(&Shares::default());
        for item in 0..1_000 {
            queue.push(1, 0, MIB, (1, item));
        }
        for client in 2..6 {
            queue.push(client, 0, MIB, (client, 0));
        }
        let first: Vec<_> = (0..5)
            .map(|_| match queue.pop(Time::ZERO) {
                Next::Item((client, _)) => client,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(first, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn weights_divide_and_a_tenant_alone_gets_all() {
        let mut queue = FairQueue::new(&shares("shares=3:1"));
        for item in 0..400 {
            queue.push(1, 1, MIB, 1);
            queue.push(2, 2, MIB, 2);
            queue.push(3, 2, if item % 2 == 0 { 4_096 } else { MIB }, 2);
        }
        let mut bytes = [0_u64; 3];
        for _ in 0..400 {
            let Next::Item(tenant) = queue.pop(Time::ZERO) else { panic!("work is there") };
            bytes[tenant] += 1;
        }
        // Tenant 2 also has small requests, which cost less.
        assert!((270..=310).contains(&bytes[1]), "{bytes:?}");
        let rest = std::iter::from_fn(|| match queue.pop(Time::ZERO) {
            Next::Item(tenant) => Some(tenant),
            _ => None,
        });
        assert_eq!(rest.count(), 800);
        assert!(queue.is_empty() && queue.lines.is_empty());
    }

    #[test]
    fn a_cap_holds_though_the_server_is_idle() {
        let mut queue = FairQueue::new(&shares("caps=none:10MB/s"));
        for item in 0..100 {
            queue.push(2, 2, 1_000_000 - REQUEST_BYTES, item);
        }
        let (mut now, mut taken) = (Time::ZERO + Span::from_secs(1), 0);
        let end = now + Span::from_secs(2);
        while now < end {
            match queue.pop(now) {
                Next::Item(_) => taken += 1,
                Next::At(time) => now = time,
                Next::Nothing => panic!("a hundred megabytes are there"),
            }
        }
        assert!((20..=22).contains(&taken), "{taken} MB in 2 s");
        queue.push(1, 1, MIB, 1_000);
        let next = [queue.pop(now), queue.pop(now)];
        assert!(next.contains(&Next::Item(1_000)), "others are not capped: {next:?}");
    }

    proptest! {
        /// What goes in comes out once, whatever it weighs.
        #[test]
        fn nothing_is_lost(
            pushes in prop::collection::vec((0_u64..8, 0_u32..4, 0_u64..16 * MIB), 1..300),
        ) {
            let mut queue = FairQueue::new(&shares("shares=3:1:9"));
            let mut tenants = BTreeMap::new();
            for (number, (client, tenant, bytes)) in pushes.iter().enumerate() {
                let tenant = *tenants.entry(client).or_insert(*tenant);
                queue.push(*client, tenant, *bytes, number);
            }
            let mut seen = vec![false; pushes.len()];
            while let Next::Item(number) = queue.pop(Time::ZERO) {
                prop_assert!(!std::mem::replace(&mut seen[number], true));
            }
            prop_assert!(seen.iter().all(|seen| *seen) && queue.is_empty());
        }
    }
}
