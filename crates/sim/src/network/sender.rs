//! The sending end of a flow: what it may send next, and how it learns of losses.
//!
//! TCP without reordering, as Linux does it. Slow start and congestion avoidance (RFC 5681) by a
//! window of bytes; what was sent and not acknowledged is kept segment by segment, since a
//! receiver tells what has arrived beyond a gap (SACK). In recovery as much goes out as arrives
//! (proportional rate reduction, RFC 6937). When too little arrives to tell of a loss, only the
//! time-out notices (RFC 6298), and the sender begins again with one segment.
//!
//! Generations differ in how they learn of losses: [`Recovery::Sack`] needs three segments that
//! were sent later, and waits for the time-out when a repeated segment is lost again (RFC 6675);
//! [`Recovery::Rack`] takes what was sent before something that arrived for lost (RFC 8985, with a
//! reordering window of zero); [`Recovery::RackTlp`] besides repeats the last segment when nothing
//! comes back (section 7).

use std::collections::VecDeque;

use afflux_core::units::{Span, Time};

use crate::scenario::{Network, Recovery};

/// The most bytes of a window.
const MOST_BYTES: u64 = 4 << 20;

/// Segments that must arrive beyond a gap before it counts as a loss (RFC 6675).
const DUPLICATES: usize = 3;

/// The longest time-out.
const LONGEST: Span = Span::from_secs(60);

/// What a probe waits for besides two round trips: two ticks of a kernel with 250 a second.
const TICKS: Span = Span::from_millis(8);

/// What all senders of a world have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) segment_bytes: u64,
    initial_bytes: u64,
    /// The least time-out.
    rto: Span,
    recovery: Recovery,
}

impl Rules {
    pub(super) fn new(network: &Network) -> Self {
        Self {
            segment_bytes: network.train(),
            initial_bytes: network.train() * u64::from(network.initial_window),
            rto: network.rto,
            recovery: network.recovery,
        }
    }
}

/// One segment on its way. Positions count bytes from the flow's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Its place in the order of sending.
    order: u64,
    sent: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Arrived,
    Lost,
}

/// A segment that was sent, and is not acknowledged together with all before it.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    bytes: u64,
    order: u64,
    fate: Fate,
    repeated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Losses are repaired as segments arrive, until all sent before has.
    Recovery,
    /// Everything is sent again after a time-out.
    Loss,
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// End of what there is to send.
    written: u64,
    /// The next byte that was never sent.
    next: u64,
    board: VecDeque<Sent>,
    /// Bytes that were sent, have not arrived, and are not taken for lost.
    in_flight: u64,
    /// Segments of the board that are lost and not yet repeated, and those that have arrived.
    lost: usize,
    arrived: usize,
    window: u64,
    threshold: u64,
    state: State,
    /// Until this is acknowledged, losses belong to the same congestion.
    recover: u64,
    /// Bytes in flight when recovery began, and those that arrived and were sent since.
    reduction: (u64, u64, u64),
    /// Segments sent so far, and the latest of those that arrived.
    orders: u64,
    latest: u64,
    /// Nanoseconds of a round trip: smoothed, and their mean deviation; zero before the first.
    round_trip: u64,
    deviation: u64,
    backoff: u32,
    last_sent: Time,
    /// When the timer is due.
    pub(super) due: Time,
    /// Whether it is that of a probe, and whether one was sent since the last progress.
    probing: bool,
    probed: bool,
}

impl Sender {
    pub(super) const fn new(rules: &Rules) -> Self {
        Self {
            written: 0,
            next: 0,
            board: VecDeque::new(),
            in_flight: 0,
            lost: 0,
            arrived: 0,
            window: rules.initial_bytes,
            threshold: MOST_BYTES,
            state: State::Open,
            recover: 0,
            reduction: (0, 0, 0),
            orders: 0,
            latest: 0,
            round_trip: 0,
            deviation: 0,
            backoff: 0,
            last_sent: Time::ZERO,
            due: Time::NEVER,
            probing: false,
            probed: false,
        }
    }

    /// Takes bytes to send; gives the end of all that was written.
    pub(super) fn write(&mut self, now: Time, bytes: u64, rules: &Rules) -> u64 {
        if self.board.is_empty() && self.next == self.written {
            self.rest(now, rules);
        }
        self.written += bytes;
        self.written
    }

    /// What the window was tells less after each time-out's length without sending (RFC 2861).
    fn rest(&mut self, now: Time, rules: &Rules) {
        let rto = self.time_out(rules);
        let mut idle = now.since(self.last_sent);
        if idle > rto && self.window > rules.initial_bytes {
            self.threshold = self.threshold.max(self.window / 4 * 3);
        }
        while idle > rto && self.window > rules.initial_bytes {
            self.window = (self.window / 2).max(rules.initial_bytes);
            idle = idle.saturating_sub(rto);
        }
    }

    /// The next segment that may go: first what was lost, then what was never sent.
    pub(super) fn pour(&mut self, now: Time, rules: &Rules) -> Option<Segment> {
        if self.lost > 0 {
            let at = self.board.iter().position(|sent| sent.fate == Fate::Lost)?;
            if self.in_flight + self.board[at].bytes > self.window {
                return None;
            }
            self.lost -= 1;
            self.in_flight += self.board[at].bytes;
            return Some(self.repeat(now, at, rules));
        }
        let bytes = (self.written - self.next).min(rules.segment_bytes);
        if bytes == 0 || self.in_flight + bytes > self.window {
            return None;
        }
        Some(self.send_new(now, bytes, rules))
    }

    fn send_new(&mut self, now: Time, bytes: u64, rules: &Rules) -> Segment {
        let segment = self.departs(now, self.next, bytes);
        let Segment { start, order, .. } = segment;
        self.board.push_back(Sent { start, bytes, order, fate: Fate::UnderWay, repeated: false });
        self.next += bytes;
        self.in_flight += bytes;
        if self.due == Time::NEVER || (rules.recovery == Recovery::RackTlp && !self.probed) {
            self.arm(now, rules);
        }
        segment
    }

    fn repeat(&mut self, now: Time, at: usize, rules: &Rules) -> Segment {
        let Sent { start, bytes, .. } = self.board[at];
        let segment = self.departs(now, start, bytes);
        let sent = &mut self.board[at];
        (sent.order, sent.fate, sent.repeated) = (segment.order, Fate::UnderWay, true);
        if at == 0 {
            self.arm(now, rules);
        }
        segment
    }

    fn departs(&mut self, now: Time, start: u64, bytes: u64) -> Segment {
        self.orders += 1;
        self.last_sent = now;
        self.reduction.2 += bytes;
        Segment { start, bytes, order: self.orders, sent: now }
    }

    /// The receiver has told that a segment has arrived.
    pub(super) fn acknowledged(&mut self, now: Time, segment: Segment, rules: &Rules) {
        self.measure(now.since(segment.sent));
        let Ok(at) = self.board.binary_search_by_key(&segment.start, |sent| sent.start) else {
            return;
        };
        let sent = self.board[at];
        match sent.fate {
            Fate::Arrived => return,
            Fate::UnderWay => self.in_flight -= sent.bytes,
            Fate::Lost => self.lost -= 1,
        }
        let used = self.in_flight + sent.bytes;
        self.board[at].fate = Fate::Arrived;
        self.arrived += 1;
        self.latest = self.latest.max(segment.order);
        let mended = self.state == State::Open && sent.repeated;
        let progress = self.advance();
        self.find_losses(rules);
        let lossy = self.state == State::Open && self.lost > 0;
        if lossy || mended {
            // A probe that repaired a loss tells of congestion too (RFC 8985, section 7.4).
            self.threshold = (self.window / 2).max(2 * rules.segment_bytes);
            self.window = self.threshold;
        }
        if lossy {
            (self.state, self.recover) = (State::Recovery, self.next);
            self.reduction = (used, 0, 0);
        }
        self.adapt(used, sent.bytes, progress, rules);
        if progress || lossy {
            self.arm(now, rules);
        }
    }

    /// Takes off the board what has arrived without a gap; says whether anything has.
    fn advance(&mut self) -> bool {
        let before = self.board.len();
        while self.board.pop_front_if(|sent| sent.fate == Fate::Arrived).is_some() {}
        let off = before - self.board.len();
        self.arrived -= off;
        if off == 0 {
            return false;
        }
        (self.backoff, self.probed) = (0, false);
        let first = self.board.front().map_or(self.next, |sent| sent.start);
        if self.state != State::Open && first >= self.recover {
            if self.state == State::Recovery {
                self.window = self.threshold;
            }
            self.state = State::Open;
        }
        true
    }

    /// Marks what is lost by what has arrived.
    fn find_losses(&mut self, rules: &Rules) {
        // Once there was a loss, every other gap is filled (RFC 6675, rule 3 of `NextSeg`).
        let enough = if self.state == State::Recovery { 1 } else { DUPLICATES };
        let in_order = self.board.front().is_none_or(|sent| sent.order > self.latest);
        if match rules.recovery {
            Recovery::Sack => self.arrived < enough,
            Recovery::Rack | Recovery::RackTlp => self.state == State::Open && in_order,
        } {
            return;
        }
        let mut beyond = 0;
        for sent in self.board.iter_mut().rev() {
            let lost = match rules.recovery {
                Recovery::Sack => beyond >= enough && !sent.repeated,
                Recovery::Rack | Recovery::RackTlp => sent.order < self.latest,
            };
            if sent.fate == Fate::Arrived {
                beyond += 1;
            } else if lost && sent.fate == Fate::UnderWay {
                sent.fate = Fate::Lost;
                self.lost += 1;
                self.in_flight -= sent.bytes;
            }
        }
    }

    /// The window after `arrived` bytes, of `used` that were in flight.
    fn adapt(&mut self, used: u64, arrived: u64, progress: bool, rules: &Rules) {
        let segment = rules.segment_bytes;
        if self.state == State::Recovery {
            self.reduction.1 += arrived;
            let (flight, delivered, out) = self.reduction;
            let may = if self.in_flight > self.threshold {
                (delivered * self.threshold).div_ceil(flight).saturating_sub(out)
            } else {
                let room = self.threshold - self.in_flight;
                room.min(delivered.saturating_sub(out).max(arrived) + segment)
            };
            // What was found lost first goes at once.
            let least = if out == 0 { segment } else { 0 };
            self.window = self.in_flight + may.max(least);
        } else if progress && self.window < self.threshold {
            if self.window < 2 * used || self.state == State::Loss {
                self.window = (self.window + arrived).min(MOST_BYTES);
            }
        } else if progress && used + segment > self.window {
            let more = (segment * arrived / self.window).max(1);
            self.window = (self.window + more).min(MOST_BYTES);
        }
    }

    /// Takes a round trip into account (RFC 6298, section 2).
    const fn measure(&mut self, round_trip: Span) {
        let (now, mean, deviation) = (round_trip.as_nanos(), self.round_trip, self.deviation);
        (self.round_trip, self.deviation) = if mean == 0 {
            (now, now / 2)
        } else {
            ((7 * mean + now) / 8, (3 * deviation + mean.abs_diff(now)) / 4)
        };
    }

    /// Linux adds the least time-out to the round trip, where RFC 6298 takes the larger of both.
    fn time_out(&self, rules: &Rules) -> Span {
        let first = self.round_trip + (4 * self.deviation).max(rules.rto.as_nanos());
        Span::from_nanos(first << self.backoff).min(LONGEST)
    }

    fn arm(&mut self, now: Time, rules: &Rules) {
        if self.board.is_empty() {
            self.due = Time::NEVER;
            return;
        }
        let rto = self.time_out(rules);
        self.probing =
            rules.recovery == Recovery::RackTlp && self.state == State::Open && !self.probed;
        self.due = now + rto;
        if self.probing {
            // A receiver may keep the acknowledgement of a single segment for a while.
            let more = if self.board.len() == 1 { rules.rto } else { TICKS };
            self.due = now + (Span::from_nanos(2 * self.round_trip) + more).min(rto);
        }
    }

    /// A new segment, or the last of those that are under way once more. What has arrived behind a
    /// gap tells of it already and is no probe (RFC 8985, section 7.3).
    fn probe(&mut self, now: Time, rules: &Rules) -> Option<Segment> {
        let bytes = (self.written - self.next).min(rules.segment_bytes);
        let last = self.board.iter().rposition(|sent| sent.fate == Fate::UnderWay);
        self.probed = true;
        let probe = if bytes > 0 {
            self.send_new(now, bytes, rules)
        } else {
            self.repeat(now, last?, rules)
        };
        self.arm(now, rules);
        Some(probe)
    }

    /// The timer is due. Gives the probe to send, or nothing after a time-out.
    pub(super) fn expire(&mut self, now: Time, rules: &Rules) -> Option<Segment> {
        if self.probing
            && let Some(probe) = self.probe(now, rules)
        {
            return Some(probe);
        }
        if self.state == State::Open {
            self.threshold = (self.window / 2).max(2 * rules.segment_bytes);
        }
        for sent in self.board.iter_mut().filter(|sent| sent.fate == Fate::UnderWay) {
            sent.fate = Fate::Lost;
            self.lost += 1;
        }
        (self.in_flight, self.window) = (0, rules.segment_bytes);
        (self.state, self.recover, self.probed) = (State::Loss, self.next, false);
        self.backoff = (self.backoff + 1).min(8);
        self.due = Time::NEVER;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(10);

    fn rules(recovery: Recovery) -> Rules {
        Rules { segment_bytes: 1_000, initial_bytes: 10_000, rto: Span::from_millis(200), recovery }
    }

    /// Sends `bytes` over a way that loses the first copies of the segments in `lost`; gives the
    /// time at which all is acknowledged.
    fn transfer(bytes: u64, lost: &[u64], recovery: Recovery) -> (Time, Sender) {
        let rules = rules(recovery);
        let (mut sender, mut now) = (Sender::new(&rules), Time::ZERO);
        let mut under_way: VecDeque<(Time, Segment)> = VecDeque::new();
        let mut lost = lost.to_vec();
        sender.write(now, bytes, &rules);
        loop {
            let mut send =
                |segment: Segment| match lost.iter().position(|one| one * 1_000 == segment.start) {
                    Some(at) => drop(lost.remove(at)),
                    None => under_way.push_back((now + RTT, segment)),
                };
            while let Some(segment) = sender.pour(now, &rules) {
                assert!(sender.in_flight <= sender.window);
                send(segment);
            }
            let next = under_way.front().map_or(Time::NEVER, |(time, _)| *time);
            if sender.due < next {
                now = sender.due;
                let probe = sender.expire(now, &rules);
                under_way.extend(probe.map(|segment| (now + RTT, segment)));
                continue;
            }
            let Some((time, segment)) = under_way.pop_front() else { return (now, sender) };
            now = time;
            sender.acknowledged(now, segment, &rules);
        }
    }

    fn millis(bytes: u64, lost: &[u64], recovery: Recovery) -> u64 {
        transfer(bytes, lost, recovery).0.as_nanos() / 1_000_000
    }

    #[test]
    fn slow_start_doubles_the_window_each_round_trip() {
        // 10 + 20 + 40 segments.
        assert_eq!(millis(70_000, &[], Recovery::Sack), 30);
        assert_eq!(millis(71_000, &[], Recovery::Sack), 40);
    }

    #[test]
    fn a_loss_in_the_middle_costs_a_round_trip_and_half_the_window() {
        for recovery in [Recovery::Sack, Recovery::Rack, Recovery::RackTlp] {
            let (took, sender) = transfer(10_000, &[3], recovery);
            assert_eq!(took.as_nanos() / 1_000_000, 20, "{recovery:?}");
            // Ten and the three that arrived before the gap, halved.
            assert_eq!(sender.window / 1_000, 6, "{recovery:?}");
        }
    }

    #[test]
    fn a_lost_tail_waits_for_the_time_out_or_for_a_probe() {
        // The last of all: no later segment tells of it. Smoothed round trip of 10 ms, 200 ms more.
        assert_eq!(millis(10_000, &[9], Recovery::Sack), 230);
        assert_eq!(millis(10_000, &[9], Recovery::Rack), 230);
        // The last but one: one segment tells of it, which is enough for RACK.
        assert_eq!(millis(10_000, &[8], Recovery::Sack), 230);
        assert_eq!(millis(10_000, &[8], Recovery::Rack), 20);
        // The last two: the probe comes after two round trips and two ticks, and tells of both.
        assert_eq!(millis(10_000, &[8, 9], Recovery::Rack), 240);
        assert!(millis(10_000, &[8, 9], Recovery::RackTlp) < 80);
    }

    #[test]
    fn what_is_lost_twice_waits_for_the_time_out_without_rack() {
        assert!(millis(10_000, &[3, 3], Recovery::Sack) > 200);
        assert!(millis(30_000, &[3, 3], Recovery::Rack) < 100);
    }

    #[test]
    fn time_outs_double_and_the_window_begins_again_at_one() {
        let (took, sender) = transfer(1_000, &[0, 0, 0], Recovery::Sack);
        // 200 + 400 + 800 ms without any round trip measured.
        assert_eq!(took.as_nanos() / 1_000_000, 1_410);
        assert!(sender.window <= 2_000 && sender.threshold == 5_000, "{sender:?}");
    }
}
