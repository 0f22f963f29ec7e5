//! The mechanism of a path: it counts, paces and clamps; a policy only proposes.
//!
//! Think of a ferry landing. The window is the number of boats that may be on the water, the gap is
//! the pause between two departures, and every boat that comes back tells how the crossing was. The
//! policy reads those tales and says how many boats there should be; the landing keeps the count
//! right, whatever the policy says.
//!
//! Source: ASCAR, sections III-B to III-D. Departures from the original code are options, and
//! [`Options::original`] restores it.

use crate::indicator::{ACK_EWMA, INDICATORS, Sample, Signals};
use crate::limits::{Hold, HoldReason, Limits};
use crate::path::state::{CHANGED, LIMITED, PathState, REPLIED, SENT};
use crate::policy::{Decision, Policy, Seen};
use crate::rules::Gap;
use crate::units::{Span, Time};

/// What a controller is set to. The defaults are ours; see [`Options::original`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The window at the start. 8, which is also Lustre's default.
    pub initial_window: f64,
    /// The least window that is kept. Ours 1; the original lets the kept value fall to 0 and uses
    /// at least 1, so that it must climb back before anything changes.
    pub window_min: f64,
    /// The greatest window that is kept. Ours 256; the original 30.
    pub window_max: f64,
    /// The largest request, for which a gap holds in full.
    pub max_request_bytes: u32,
    /// The part of a gap that does not depend on the request's size: a small request costs a disk
    /// nearly as much as a large one. Ours 0.5; the original 1, as its requests have one size.
    pub gap_fixed_part: f64,
    /// A pause between replies after which the averages start anew. Ours 10 s, since what was
    /// before is no news after that; the original 10 minutes.
    pub silence: Span,
    /// Count time in which the path had nothing in flight and nothing to send as part of the gaps
    /// between replies and sends. Ours not: a pause of the application is no congestion, and a gap
    /// that is a fraction of `ack_ewma` would keep it alive for long. The original does.
    pub count_idle: bool,
    /// How long a least process time is trusted, see [`PathState`]. Ours 60 s; the original zero,
    /// which means for ever.
    pub least_pt_period: Span,
    /// Let the window grow though the sender does not fill it. Ours not, since such a window says
    /// nothing about the server and lets a burst loose later; the original does.
    pub grow_unfilled: bool,
    /// Where the process time starts. Ours at the send; the original when the request is built, so
    /// that it contains the delay of its own pacing.
    pub stamp: StampPoint,
    /// Use the truncating integer average of the original.
    pub truncate: bool,
}

/// Where the process time of a request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampPoint {
    /// When it was sent.
    Sent,
    /// When it was built, before pacing.
    Built,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            initial_window: 8.0,
            window_min: 1.0,
            window_max: 256.0,
            max_request_bytes: 1 << 20,
            gap_fixed_part: 0.5,
            silence: Span::from_secs(10),
            count_idle: false,
            least_pt_period: Span::from_secs(60),
            grow_unfilled: false,
            stamp: StampPoint::Sent,
            truncate: false,
        }
    }
}

impl Options {
    /// As the original code behaves. Its racing pacer, which lets concurrent senders go out closer
    /// than the gap, is not brought back.
    pub fn original() -> Self {
        Self {
            window_min: 0.0,
            window_max: 30.0,
            gap_fixed_part: 1.0,
            silence: Span::from_secs(600),
            count_idle: true,
            least_pt_period: Span::ZERO,
            grow_unfilled: true,
            stamp: StampPoint::Built,
            truncate: true,
            ..Self::default()
        }
    }
}

/// The end of a request that the server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When the request was built.
    pub built: Time,
    /// When it was sent.
    pub sent: Time,
    /// When the reply arrived.
    pub arrived: Time,
    /// The request's size.
    pub size_bytes: u32,
}

/// What a reply led to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ruling {
    /// The indicators after the reply.
    pub signals: Signals,
    /// The rule that matched, when the policy has rules.
    pub rule: Option<u32>,
    /// Whether the window changed.
    pub window_changed: bool,
}

/// Drives paths under one policy. Immutable, so that any number of paths can share it.
///
/// ```
/// use afflux_core::limits::{HoldReason, Limits};
/// use afflux_core::path::{Controller, Options, Reply};
/// use afflux_core::policy::fixed::Fixed;
/// use afflux_core::rules::Gap;
/// use afflux_core::units::{Span, Time};
///
/// let policy = Fixed { window: 1.0, gap: Gap::NONE };
/// let controller = Controller::new(Options::default(), Box::new(policy));
/// let mut path = controller.start();
/// let (sent, size_bytes) = (Time::from_nanos(1_000), 1 << 20);
/// assert!(controller.admit(&mut path, sent, size_bytes, &Limits::default()).is_ok());
/// let hold = controller.admit(&mut path, sent, size_bytes, &Limits::default()).unwrap_err();
/// assert_eq!((hold.reason, hold.until), (HoldReason::Window, Time::NEVER));
///
/// let arrived = sent + Span::from_millis(9);
/// controller.reply(&mut path, &Reply { built: sent, sent, arrived, size_bytes });
/// assert_eq!(path.signals()[afflux_core::indicator::PT_RATIO], 1_000);
/// assert!(controller.admit(&mut path, arrived, size_bytes, &Limits::default()).is_ok());
/// ```
pub struct Controller<P = Box<dyn Policy>> {
    options: Options,
    policy: P,
}

impl Controller {
    /// A controller that follows `policy`.
    pub fn new(options: Options, policy: Box<dyn Policy>) -> Self {
        Self { options, policy }
    }

    /// The policy that it follows.
    pub fn policy(&self) -> &dyn Policy {
        self.policy.as_ref()
    }
}

impl<P: Policy> Controller<P> {
    /// A controller that follows a policy of one known kind, which needs no memory of its own.
    #[inline]
    pub fn of(options: Options, policy: P) -> Self {
        Self { options, policy }
    }

    /// What it is set to.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The state of a path on which nothing was sent yet.
    pub fn start(&self) -> PathState {
        let first = self.policy.start();
        let window = first.window.unwrap_or(self.options.initial_window);
        let gap = first.gap.map_or(Span::ZERO, |gap| self.gap_of(gap, 0));
        PathState::new(self.clamp(window), gap)
    }

    /// Counts a request of `size_bytes` as sent at `now`, unless a limit holds it.
    ///
    /// Admission and pacing are one step on one state, so that however many senders ask, two sends
    /// are never closer than the gap. A refused request costs nothing; ask again at the hold's
    /// time, or after the next reply.
    #[inline]
    pub fn admit(
        &self,
        path: &mut PathState,
        now: Time,
        size_bytes: u32,
        limits: &Limits,
    ) -> Result<(), Hold> {
        let (window, reason) = limits.window(path.window, path.in_flight);
        if path.in_flight >= window {
            if reason == HoldReason::Window {
                path.flags |= LIMITED;
            }
            return Err(Hold { reason, until: Time::NEVER });
        }
        if let Some(fan_in) = limits.fan_in
            && fan_in.in_flight >= fan_in.limit.max(1)
        {
            return Err(Hold { reason: HoldReason::FanIn, until: Time::NEVER });
        }
        if let Some(turn) = limits.turn {
            let next = turn.next(now);
            if next > now {
                return Err(Hold { reason: HoldReason::Turn, until: next });
            }
        }
        if path.gap > Span::ZERO && path.has(SENT) {
            let next = path.last_send + self.scaled_gap(path);
            if next > now {
                return Err(Hold { reason: HoldReason::Gap, until: next });
            }
        }
        self.sent(path, now, size_bytes);
        Ok(())
    }

    /// Counts a request as sent at `now` that nobody asked admission for: what an observer does.
    #[inline]
    pub fn sent(&self, path: &mut PathState, now: Time, size_bytes: u32) {
        if path.in_flight == 0 && path.has(REPLIED) && !self.options.count_idle {
            self.skip_idle(path, now);
        }
        path.in_flight = path.in_flight.saturating_add(1);
        path.last_send = now;
        path.flags |= SENT;
        path.last_size_bytes = size_bytes;
    }

    /// Takes over a path that followed another policy: what was measured carries over, and so does
    /// the window unless this policy starts with one of its own.
    pub fn adopt(&self, path: &mut PathState) {
        let first = self.policy.start();
        path.policy = [0; 2];
        path.window = self.clamp(first.window.unwrap_or(path.window));
        path.gap = first.gap.map_or(Span::ZERO, |gap| self.gap_of(gap, path.signals()[ACK_EWMA]));
        path.flags &= !(CHANGED | LIMITED);
    }

    /// Takes a reply: updates the indicators, asks the policy, applies what it says.
    pub fn reply(&self, path: &mut PathState, reply: &Reply) -> Ruling {
        path.in_flight = path.in_flight.saturating_sub(1);
        let now = reply.arrived;
        let start = match self.options.stamp {
            StampPoint::Sent => reply.sent,
            StampPoint::Built => reply.built,
        };
        let process_time = now.since(start);
        let (size, period) = (reply.size_bytes, self.options.least_pt_period);
        let least = path.observe_process_time(now, process_time, size, period);
        let sample = self.sample(path, reply, process_time, least);
        let mut signals = Signals::default();
        for (axis, indicator) in INDICATORS.iter().enumerate() {
            path.memory[axis] = (indicator.observe)(path.memory[axis], &sample);
            signals[axis] = (indicator.value)(path.memory[axis]);
        }
        path.last_reply = now;
        path.last_answered_send = reply.sent;
        path.flags |= REPLIED;
        let seen = Seen {
            now,
            signals: &signals,
            window: path.window,
            process_time,
            least_process_time: least,
            limited: path.has(LIMITED),
        };
        let decision = self.policy.on_reply(&mut path.policy, &seen);
        let window_changed = self.apply(path, now, &decision, signals[ACK_EWMA]);
        Ruling { signals, rule: decision.rule, window_changed }
    }

    /// Takes the end of a request that was not answered (a time-out, a lost connection).
    pub fn fault(&self, path: &mut PathState, now: Time) {
        path.in_flight = path.in_flight.saturating_sub(1);
        let signals = path.signals();
        let decision = self.policy.on_fault(&mut path.policy, path.window, now);
        self.apply(path, now, &decision, signals[ACK_EWMA]);
    }

    /// Takes back an admitted request that was never sent.
    pub fn withdraw(&self, path: &mut PathState) {
        path.in_flight = path.in_flight.saturating_sub(1);
    }

    /// Leaves the time since the path could have sent, but had nothing to send, out of the gaps to
    /// come; after a long silence they start anew.
    fn skip_idle(&self, path: &mut PathState, now: Time) {
        let could_send = path.last_reply.max(path.last_send + self.scaled_gap(path));
        let idle = now.since(could_send);
        if idle > self.options.silence {
            path.memory = Default::default();
            path.flags &= !REPLIED;
        } else {
            path.last_reply += idle;
            path.last_answered_send += idle;
        }
    }

    #[inline]
    fn sample(&self, path: &mut PathState, reply: &Reply, pt: Span, least: Span) -> Sample {
        let first = !path.has(REPLIED);
        let ack_gap = reply.arrived.distance(path.last_reply);
        let silent = !first && ack_gap > self.options.silence;
        if silent {
            path.memory = Default::default();
        }
        let counts = !first && !silent;
        Sample {
            ack_gap: counts.then_some(ack_gap),
            send_gap: counts.then(|| reply.sent.distance(path.last_answered_send)),
            process_time: pt,
            least_process_time: least,
            truncate: self.options.truncate,
        }
    }

    #[inline]
    fn apply(&self, path: &mut PathState, now: Time, decision: &Decision, ack: u64) -> bool {
        if let Some(gap) = decision.gap {
            path.gap = self.gap_of(gap, ack);
        }
        let Some(proposed) = decision.window else { return false };
        let since = now.since(path.last_window_change);
        if path.has(CHANGED) && since < self.policy.window_interval() {
            return false;
        }
        let window = self.clamp(proposed.min(decision.window_max.unwrap_or(f64::INFINITY)));
        let grows = window > path.window;
        if window == path.window || (grows && !path.has(LIMITED) && !self.options.grow_unfilled) {
            return false;
        }
        path.window = window;
        path.last_window_change = now;
        path.flags = (path.flags | CHANGED) & !LIMITED;
        true
    }

    /// A policy's window within the limits; what is not a number counts as the least.
    fn clamp(&self, window: f64) -> f64 {
        window.max(self.options.window_min).min(self.options.window_max)
    }

    fn gap_of(&self, gap: Gap, ack_nanos: u64) -> Span {
        match gap {
            Gap::Time(span) => span,
            Gap::OfAck(fraction) => Span::from_nanos(ack_nanos).mul_f64(fraction),
        }
    }

    /// Gap after the last admitted request: `gap * (f + (1 - f) * size / max_request)`, DESIGN 4.1.
    fn scaled_gap(&self, path: &PathState) -> Span {
        if path.gap == Span::ZERO || path.last_size_bytes >= self.options.max_request_bytes {
            return path.gap;
        }
        let size = f64::from(path.last_size_bytes) / f64::from(self.options.max_request_bytes);
        let fixed = self.options.gap_fixed_part;
        path.gap.mul_f64(fixed + (1.0 - fixed) * size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::Credits;
    use crate::policy::{self, fixed::Fixed};

    const MIB: u32 = 1 << 20;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn controller(policy: &str) -> Controller {
        Controller::new(Options::default(), policy::parse(policy).unwrap())
    }

    fn reply(sent: Time, arrived: Time, size_bytes: u32) -> Reply {
        Reply { built: sent, sent, arrived, size_bytes }
    }

    #[test]
    fn a_gap_holds_in_full_for_full_size_and_less_for_small_requests() {
        let controller = controller("fixed:8,gap=40ms");
        for (size, gap_micros) in [(MIB, 40_000), (MIB / 2, 30_000), (0, 20_000)] {
            let mut path = controller.start();
            controller.admit(&mut path, at(1_000), size, &Limits::default()).unwrap();
            let early = at(1_000 + gap_micros - 1);
            let hold = controller.admit(&mut path, early, MIB, &Limits::default()).unwrap_err();
            assert_eq!((hold.reason, hold.until), (HoldReason::Gap, at(1_000 + gap_micros)));
            assert!(controller.admit(&mut path, hold.until, MIB, &Limits::default()).is_ok());
        }
    }

    #[test]
    fn process_time_starts_at_the_send_unless_the_original_is_asked_for() {
        let (built, sent, arrived) = (at(0), at(30_000), at(40_000));
        let reply = Reply { built, sent, arrived, size_bytes: MIB };
        for (options, ratio) in [(Options::default(), 1_000), (Options::original(), 4_000)] {
            let controller = Controller::new(options, policy::none());
            let mut path = controller.start();
            // A first request without pacing delay sets the least process time to 10 ms.
            let first = Reply { built: at(0), sent: at(0), arrived: at(10_000), ..reply };
            controller.reply(&mut path, &first);
            assert_eq!(controller.reply(&mut path, &reply).signals[2], ratio);
        }
    }

    #[test]
    fn a_small_request_is_compared_with_small_ones() {
        let controller = controller("none");
        let mut path = controller.start();
        controller.reply(&mut path, &reply(at(0), at(1_000), 4_096));
        let ruling = controller.reply(&mut path, &reply(at(0), at(9_000), MIB));
        assert_eq!(ruling.signals[2], 1_000);
        let ruling = controller.reply(&mut path, &reply(at(9_000), at(11_000), 4_096));
        assert!(ruling.signals[2].abs_diff(2_000) <= 1, "{:?}", ruling.signals);
    }

    #[test]
    fn a_stale_minimum_is_forgotten_and_the_original_keeps_it() {
        for (options, ratio) in [(Options::default(), 1_000), (Options::original(), 10_000)] {
            let controller = Controller::new(options, policy::none());
            let mut path = controller.start();
            controller.reply(&mut path, &reply(at(0), at(1_000), MIB));
            let mut last = 0;
            for second in 0..200 {
                let sent = at(second * 1_000_000);
                let arrived = sent + Span::from_millis(10);
                last = controller.reply(&mut path, &reply(sent, arrived, MIB)).signals[2];
            }
            assert!(last.abs_diff(ratio) < 100, "{last} is not near {ratio}");
        }
    }

    #[test]
    fn a_long_silence_starts_the_averages_anew() {
        let controller = controller("none");
        let mut path = controller.start();
        for millis in 1..50 {
            let sent = at(millis * 1_000);
            controller.reply(&mut path, &reply(sent, sent + Span::from_millis(1), MIB));
        }
        let before = path.signals()[0];
        assert!((990_000..1_010_000).contains(&before), "{before}");
        let late = at(30_000_000);
        assert_eq!(controller.reply(&mut path, &reply(late, late, MIB)).signals[0], 0);
    }

    /// One request at a time, a pause of 2 s after each: only the original takes it for congestion.
    #[test]
    fn a_pause_of_the_application_is_no_gap_between_replies() {
        for (options, gap_micros) in [(Options::default(), 5_000), (Options::original(), 2_005_000)]
        {
            let controller = Controller::new(options, policy::none());
            let mut path = controller.start();
            for round in 0..100 {
                let sent = at(round * 2_005_000);
                controller.admit(&mut path, sent, MIB, &Limits::default()).unwrap();
                controller.reply(&mut path, &reply(sent, sent + Span::from_micros(5_000), MIB));
            }
            let micros = path.signals()[0] / 1_000;
            assert!(micros.abs_diff(gap_micros) <= gap_micros / 50, "{micros}");
        }
    }

    /// What holds a request back is no pause: a paced path knows how far apart its replies are.
    #[test]
    fn time_held_by_the_gap_counts() {
        let controller = controller("fixed:1,gap=40ms");
        let mut path = controller.start();
        let mut now = at(0);
        for _ in 0..100 {
            while let Err(hold) = controller.admit(&mut path, now, MIB, &Limits::default()) {
                now = hold.until;
            }
            controller.reply(&mut path, &reply(now, now + Span::from_millis(5), MIB));
            now += Span::from_millis(5);
        }
        assert!(path.signals()[0].abs_diff(40_000_000) < 1_000_000, "{:?}", path.signals());
    }

    #[test]
    fn replies_out_of_order_count_by_distance() {
        let controller = controller("none");
        let mut path = controller.start();
        controller.reply(&mut path, &reply(at(5_000), at(10_000), MIB));
        controller.reply(&mut path, &reply(at(1_000), at(11_000), MIB));
        assert_eq!(path.signals()[1], 4_000_000 / 8);
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow() {
        let controller = controller("aimd");
        let mut path = controller.start();
        for micros in 1..1_000 {
            let sent = at(micros * 1_000);
            controller.admit(&mut path, sent, MIB, &Limits::default()).unwrap();
            controller.reply(&mut path, &reply(sent, sent + Span::from_micros(500), MIB));
        }
        assert_eq!(path.window(), 8.0);
    }

    /// Sends from `senders` that ask again whenever they are told to, and replies in random order.
    fn drive(policy: &str, steps: &[(u8, u16)], limits: &Limits) -> Vec<Time> {
        let controller = controller(policy);
        let mut path = controller.start();
        let (mut now, mut sent, mut under_way) = (at(0), Vec::new(), Vec::new());
        let mut last_change = None;
        for &(choice, micros) in steps {
            now += Span::from_micros(u64::from(micros));
            if choice % 2 == 0 {
                if controller.admit(&mut path, now, MIB, limits).is_ok() {
                    sent.push(now);
                    under_way.push(now);
                }
            } else if !under_way.is_empty() {
                let answered = under_way.swap_remove(usize::from(choice) % under_way.len());
                if choice % 16 == 15 {
                    controller.fault(&mut path, now);
                } else {
                    let before = path.window();
                    controller.reply(&mut path, &reply(answered, now, MIB));
                    if path.window() != before {
                        let since = last_change.replace(now).map(|last| now.since(last));
                        let least = controller.policy().window_interval();
                        assert!(since.is_none_or(|since| since >= least));
                    }
                }
            }
            assert_eq!(path.in_flight() as usize, under_way.len());
            assert!(path.window() >= 1.0 && path.window() <= 256.0, "{}", path.window());
            assert!(under_way.len() <= 256);
        }
        sent
    }

    proptest! {
        #[test]
        fn window_and_in_flight_stay_within_bounds_under_every_policy(
            steps in prop::collection::vec((any::<u8>(), 0_u16..20_000), 1..400),
        ) {
            for policy in policy::POLICIES {
                let name = if policy.name == "fixed" { "fixed:3.7" } else { policy.name };
                drive(name, &steps, &Limits::default());
            }
        }

        /// Whoever asks, and however often: two sends are never closer than the gap.
        #[test]
        fn concurrent_senders_cannot_beat_the_gap(
            steps in prop::collection::vec((any::<u8>(), 0_u16..5_000), 1..400),
        ) {
            let sent = drive("fixed:256,gap=7ms", &steps, &Limits::default());
            let gap = Span::from_millis(7);
            prop_assert!(sent.windows(2).all(|pair| pair[1].since(pair[0]) >= gap));
        }

        /// A fixed window is never exceeded, and no limit is.
        #[test]
        fn in_flight_never_exceeds_the_least_limit(
            steps in prop::collection::vec((0_u8..8, 0_u16..500), 1..300),
            window in 1_u32..20, credits in 1_u32..20, cap in 1_u32..20,
        ) {
            let policy = Fixed { window: f64::from(window) + 0.9, gap: Gap::NONE };
            let controller = Controller::new(Options::default(), Box::new(policy));
            let mut path = controller.start();
            let mut now = at(0);
            for (choice, micros) in steps {
                now += Span::from_micros(u64::from(micros));
                let before = path.in_flight();
                let granted = Some(Credits { granted: credits, used: before });
                let limits = Limits { credits: granted, cap: Some(cap), ..Limits::default() };
                if choice > 1 {
                    let admitted = controller.admit(&mut path, now, MIB, &limits);
                    let least = window.min(credits).min(cap);
                    prop_assert_eq!(admitted.is_ok(), before < least);
                    prop_assert!(path.in_flight() <= least);
                } else if before > 0 {
                    controller.reply(&mut path, &reply(now, now, MIB));
                }
            }
        }
    }
}
