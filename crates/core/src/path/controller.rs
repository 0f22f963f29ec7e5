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
    /// A pause between replies after which the averages start anew. Ours 10 s, since one pause of
    /// the application should not look like congestion; the original 10 minutes.
    pub silence: Span,
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
pub struct Controller {
    options: Options,
    policy: Box<dyn Policy>,
}

impl Controller {
    /// A controller that follows `policy`.
    pub fn new(options: Options, policy: Box<dyn Policy>) -> Self {
        Self { options, policy }
    }

    /// What it is set to.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The policy that it follows.
    pub fn policy(&self) -> &dyn Policy {
        self.policy.as_ref()
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
    pub fn admit(
        &self,
        path: &mut PathState,
        now: Time,
        size_bytes: u32,
        limits: &Limits,
    ) -> Result<(), Hold> {
        let (window, reason) = limits.window(path.window);
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
        path.in_flight += 1;
        path.last_send = now;
        path.flags |= SENT;
        path.last_size_bytes = size_bytes;
        Ok(())
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
        if path.last_size_bytes >= self.options.max_request_bytes {
            return path.gap;
        }
        let size = f64::from(path.last_size_bytes) / f64::from(self.options.max_request_bytes);
        let fixed = self.options.gap_fixed_part;
        path.gap.mul_f64(fixed + (1.0 - fixed) * size)
    }
}
