//! The deadline elevator, as Linux has it for disks by default (mq-deadline).

use super::{Elevator, Queued};
use crate::device::disk::{Aim, DiskOptions};
use crate::units::{Span, Time};

/// Reads and writes apart, each scanned upwards in batches of neighbours.
///
/// A batch is up to `batch` requests of one direction at or above the last one taken. Between
/// batches reads go before writes, except that writes get a batch after `writes_starved` batches of
/// reads. A batch starts where the scan stands, unless the oldest request of its direction has
/// expired or nothing lies above: then it starts from the oldest. Expiry is looked at only there,
/// so that under load a full batch still runs in order.
///
/// Bound: once expired, a request with `n` older ones of its direction is taken after at most
/// `(n + 2) * batch * (writes_starved + 1)` more picks: what is left of the running batch, then one
/// batch for each older one and its own, each behind `writes_starved` batches of reads if it writes
/// (behind one of writes at most if it reads). In the strict variant the earliest deadline that has
/// passed goes first at every pick, so that only earlier deadlines are served before.
#[derive(Debug)]
pub(super) struct Deadline {
    /// Reads and writes, each in order of arrival.
    lanes: [Lane; 2],
    batch: u32,
    writes_starved: u32,
    strict: bool,
    /// Direction of the batch that runs.
    writing: bool,
    /// Requests taken from it so far.
    batched: u32,
    /// Batches of reads since writes had one.
    passed_writes: u32,
}

#[derive(Debug)]
struct Lane {
    waiting: Vec<Queued>,
    expire: Span,
    /// End of the last request taken.
    scan: u64,
}

impl Lane {
    const fn new(expire: Span) -> Self {
        Self { waiting: Vec::new(), expire, scan: 0 }
    }

    /// The nearest request at or above the scan.
    fn ahead(&self) -> Option<usize> {
        let above = self.waiting.iter().enumerate();
        above
            .filter(|(_, queued)| queued.request.offset_bytes >= self.scan)
            .min_by_key(|(_, queued)| queued.request.offset_bytes)
            .map(|(index, _)| index)
    }

    /// When the oldest request expires or expired.
    fn deadline(&self) -> Option<Time> {
        self.waiting.first().map(|oldest| oldest.since + self.expire)
    }

    fn has_expired(&self, now: Time) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    fn take(&mut self, index: usize) -> Queued {
        let taken = self.waiting.remove(index);
        self.scan = taken.request.offset_bytes.saturating_add(taken.request.length_bytes);
        taken
    }
}

impl Deadline {
    pub(super) fn new(options: &DiskOptions, strict: bool) -> Self {
        Self {
            lanes: [Lane::new(options.read_expire), Lane::new(options.write_expire)],
            batch: options.batch,
            writes_starved: options.writes_starved,
            strict,
            writing: false,
            // No batch runs yet: the first request opens one by the rules.
            batched: options.batch,
            passed_writes: 0,
        }
    }

    fn lane(&mut self, write: bool) -> &mut Lane {
        &mut self.lanes[usize::from(write)]
    }

    /// The direction whose oldest request expired first, if any has.
    fn expired_direction(&self, now: Time) -> Option<bool> {
        let expired = [false, true].into_iter().filter_map(|write| {
            let deadline = self.lanes[usize::from(write)].deadline()?;
            (deadline <= now).then_some((deadline, write))
        });
        expired.min().map(|(_, write)| write)
    }

    /// The direction of the next batch; `None` when nothing waits.
    fn next_direction(&mut self) -> Option<bool> {
        let [reads, writes] = self.lanes.each_ref().map(|lane| !lane.waiting.is_empty());
        if reads && !(writes && self.passed_writes >= self.writes_starved) {
            self.passed_writes += u32::from(writes);
            return Some(false);
        }
        self.passed_writes = 0;
        writes.then_some(true)
    }
}

impl Elevator for Deadline {
    fn insert(&mut self, queued: Queued) {
        self.lane(queued.request.write).waiting.push(queued);
    }

    fn next(&mut self, _aim: &Aim<'_>, now: Time) -> Option<Queued> {
        if self.strict
            && let Some(write) = self.expired_direction(now)
        {
            (self.writing, self.batched) = (write, 1);
            return Some(self.lane(write).take(0));
        }
        if self.batched < self.batch {
            let writing = self.writing;
            if let Some(index) = self.lane(writing).ahead() {
                self.batched += 1;
                return Some(self.lane(writing).take(index));
            }
        }
        let write = self.next_direction()?;
        (self.writing, self.batched) = (write, 1);
        let lane = self.lane(write);
        let start = if lane.has_expired(now) { None } else { lane.ahead() };
        Some(lane.take(start.unwrap_or(0)))
    }

    fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::device::elevator::tests::{order, queued};
    use crate::units::{Span, Time};

    const MB: u64 = 1_000_000;

    #[test]
    fn reads_go_before_writes_until_writes_have_starved() {
        let reads = (0..40).map(|id| queued(id, id * MB, false, Time::ZERO));
        let writes = (100..120).map(|id| queued(id, id * MB, true, Time::ZERO));
        let requests: Vec<_> = writes.chain(reads).collect();
        let ids = order("deadline", &requests, Time::ZERO);
        let batches: Vec<_> = (0..16).chain(16..32).chain(100..116).chain(32..40).collect();
        assert_eq!(ids[..56], batches);
        assert_eq!(ids[56..], [116, 117, 118, 119]);
    }

    #[test]
    fn a_scan_without_anything_above_starts_again_from_the_oldest() {
        let requests = [(0, 50), (1, 90), (2, 20), (3, 30)]
            .map(|(id, mega)| queued(id, mega * MB, false, Time::ZERO));
        assert_eq!(order("deadline", &requests, Time::ZERO), [2, 3, 0, 1]);
        let mut late = requests.to_vec();
        // The oldest has expired: the batch starts there, and what lies below comes after.
        late.iter_mut().skip(1).for_each(|queued| queued.since = Time::from_nanos(600_000_000));
        assert_eq!(order("deadline", &late, Time::from_nanos(600_000_000)), [0, 1, 2, 3]);
    }

    #[test]
    fn expiry_waits_for_the_end_of_a_batch_unless_strict() {
        // The oldest, at the top, expires soon after the first batch has begun at the bottom.
        let start = Time::ZERO + Span::from_millis(495);
        let mut requests = vec![queued(99, 1000 * MB, false, Time::ZERO)];
        requests.extend((0..40).map(|id| queued(id, id * MB, false, start)));
        let place = |name| {
            let ids = order(name, &requests, start);
            ids.iter().position(|id| *id == 99).unwrap()
        };
        assert_eq!(place("deadline"), 16);
        let strict = place("deadline-strict");
        assert!((1..5).contains(&strict), "{strict}");
    }
}
