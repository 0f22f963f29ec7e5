//! What a path remembers between replies.

use crate::indicator::{COUNT, INDICATORS, Signals};
use crate::policy::Words;
use crate::units::{Span, Time};

/// The state of one path: fixed size, no pointers, so that it can live on a stack, in an array of a
/// million, or in memory that processes share.
///
/// All fields are private: [`Controller`](super::Controller) keeps their invariants, which are that
/// the window lies within the controller's limits and that `in_flight` counts admitted requests
/// whose end was not yet told. A process that dies inside may leave any bits behind; then the state
/// is made anew and the slots are recounted, see [`PathState::recounted`].
///
/// Aligned so that it covers two cache lines and never a third, which is what a cold path waits
/// for.
///
/// ```
/// use afflux_core::path::{Controller, Options, PathState};
/// use afflux_core::policy;
///
/// assert!(size_of::<PathState>() <= 128);
/// let controller = Controller::new(Options::default(), policy::none());
/// let path = controller.start();
/// assert_eq!((path.window(), path.in_flight()), (8.0, 0));
/// ```
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathState {
    /// One word for each indicator; only its own functions know what it means.
    pub(super) memory: [u64; COUNT],
    /// Arrival of the last reply, if [`REPLIED`].
    pub(super) last_reply: Time,
    /// Send stamp of the request that the last reply answered.
    pub(super) last_answered_send: Time,
    /// When the last request was admitted, if [`SENT`].
    pub(super) last_send: Time,
    /// When the window last changed, if [`CHANGED`].
    pub(super) last_window_change: Time,
    /// Least process times by size class, of this period and of the one before, in [`PT_TICK`]s.
    pub(super) least_pt: [[u32; SIZE_CLASSES]; 2],
    /// The window as the policy left it: a real number, used rounded down.
    pub(super) window: f64,
    /// Gap for a full-size request.
    pub(super) gap: Span,
    /// Two words for the policy's own use.
    pub(super) policy: [u32; 2],
    /// Requests admitted and not yet ended.
    pub(super) in_flight: u32,
    /// Size of the request that was admitted last.
    pub(super) last_size_bytes: u32,
    /// When the current period of `least_pt` began, in whole seconds of the driver's clock.
    pub(super) least_pt_since_secs: u32,
    /// A set of the bits below.
    pub(super) flags: u32,
}

/// Something was admitted on this path.
pub(super) const SENT: u32 = 1;
/// A reply came in on this path.
pub(super) const REPLIED: u32 = 2;
/// The window has changed since the start.
pub(super) const CHANGED: u32 = 4;
/// The window held a sender back since it last changed.
pub(super) const LIMITED: u32 = 8;

/// Process times are compared within classes of request size: up to 64 KiB, 256 KiB, and above.
pub(super) const SIZE_CLASSES: usize = 3;

/// Grain of the stored least process times: 64 ns, so that 32 bits reach beyond four minutes.
const PT_TICK: u64 = 64;

const NONE_SEEN: u32 = u32::MAX;

const _: () = assert!(size_of::<PathState>() <= 128, "DESIGN section 3: at most 128 bytes");

/// The greatest window that is believed when a state is read.
const WINDOW_READ_MAX: f64 = 65_536.0;

/// A window that is none becomes zero, which is used as one.
#[inline]
fn believed(window: f64) -> f64 {
    if (0.0..=WINDOW_READ_MAX).contains(&window) { window } else { 0.0 }
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

impl PathState {
    /// How many words a state takes.
    pub const WORDS: usize = 15;

    /// The state of no controller, to be overwritten by one's [`start`](super::Controller::start).
    pub const BLANK: Self = Self::new(1.0, Span::ZERO);

    pub(super) const fn new(window: f64, gap: Span) -> Self {
        Self {
            memory: [0; COUNT],
            last_reply: Time::ZERO,
            last_answered_send: Time::ZERO,
            last_send: Time::ZERO,
            last_window_change: Time::ZERO,
            least_pt: [[NONE_SEEN; SIZE_CLASSES]; 2],
            window,
            gap,
            policy: [0; 2],
            in_flight: 0,
            last_size_bytes: 0,
            least_pt_since_secs: 0,
            flags: 0,
        }
    }

    /// The congestion window: a real number, of which the whole part is used.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// The gap for a full-size request.
    pub fn gap(&self) -> Span {
        self.gap
    }

    /// Requests admitted and not yet ended.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// When the last request was admitted; the clock's origin before the first.
    pub fn last_send(&self) -> Time {
        self.last_send
    }

    /// The indicators as of the last reply.
    pub fn signals(&self) -> Signals {
        std::array::from_fn(|axis| (INDICATORS[axis].value)(self.memory[axis]))
    }

    pub(super) const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The state as words, for memory that processes share.
    ///
    /// ```
    /// use afflux_core::path::{Controller, Options, PathState};
    /// use afflux_core::policy;
    ///
    /// let path = Controller::new(Options::default(), policy::none()).start();
    /// assert_eq!(PathState::from_words(&path.to_words()[..]), path);
    /// ```
    #[inline]
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let [[a, b, c], [d, e, f]] = self.least_pt;
        let [m0, m1, m2] = self.memory;
        [
            m0,
            m1,
            m2,
            self.last_reply.as_nanos(),
            self.last_answered_send.as_nanos(),
            self.last_send.as_nanos(),
            self.last_window_change.as_nanos(),
            pair(a, b),
            pair(c, d),
            pair(e, f),
            self.window.to_bits(),
            self.gap.as_nanos(),
            pair(self.policy[0], self.policy[1]),
            pair(self.in_flight, self.last_size_bytes),
            pair(self.least_pt_since_secs, self.flags),
        ]
    }

    /// A state from words that may have been anybody's: whatever they are, it is a state with which
    /// a [`Controller`](super::Controller) can go on.
    #[inline]
    pub fn from_words<W: Words + ?Sized>(words: &W) -> Self {
        let word = |index| words.word(index);
        let [[a, b], [c, d], [e, f]] = [halves(word(7)), halves(word(8)), halves(word(9))];
        let ([in_flight, last_size_bytes], [least_pt_since_secs, flags]) =
            (halves(word(13)), halves(word(14)));
        Self {
            memory: [word(0), word(1), word(2)],
            last_reply: Time::from_nanos(word(3)),
            last_answered_send: Time::from_nanos(word(4)),
            last_send: Time::from_nanos(word(5)),
            last_window_change: Time::from_nanos(word(6)),
            least_pt: [[a, b, c], [d, e, f]],
            window: believed(f64::from_bits(word(10))),
            gap: Span::from_nanos(word(11)),
            policy: halves(word(12)),
            in_flight,
            last_size_bytes,
            least_pt_since_secs,
            flags,
        }
    }

    /// This state with `in_flight` set right, after the owner of some slots died.
    #[must_use]
    pub fn recounted(mut self, in_flight: u32) -> Self {
        self.in_flight = in_flight;
        self
    }

    /// Takes a process time into the minimum of its size class and returns that minimum.
    ///
    /// The minimum covers this period and the one before; with each new period the oldest is
    /// forgotten and what the path can do is learned anew, since a minimum from a better day would
    /// mislead for ever. A zero `period` keeps it for ever, as the original code does.
    #[inline]
    pub(super) fn observe_process_time(
        &mut self,
        now: Time,
        process_time: Span,
        size_bytes: u32,
        period: Span,
    ) -> Span {
        let now_secs = (now.as_nanos() / 1_000_000_000) as u32;
        let period_secs = (period.as_nanos() / 1_000_000_000) as u32;
        if period_secs > 0 && now_secs.wrapping_sub(self.least_pt_since_secs) >= period_secs {
            let stale = now_secs.wrapping_sub(self.least_pt_since_secs) >= 2 * period_secs;
            self.least_pt[1] = if stale { [NONE_SEEN; SIZE_CLASSES] } else { self.least_pt[0] };
            self.least_pt[0] = [NONE_SEEN; SIZE_CLASSES];
            self.least_pt_since_secs = now_secs;
        }
        let class = match size_bytes {
            0..=0x1_0000 => 0,
            0x1_0001..=0x4_0000 => 1,
            _ => 2,
        };
        let ticks = (process_time.as_nanos() / PT_TICK).clamp(1, u64::from(NONE_SEEN) - 1) as u32;
        let current = &mut self.least_pt[0][class];
        *current = (*current).min(ticks);
        let least = (*current).min(self.least_pt[1][class]);
        Span::from_nanos(u64::from(least) * PT_TICK)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::Limits;
    use crate::path::{Controller, Options, Reply};
    use crate::policy;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn controller(policy: &str) -> Controller {
        Controller::new(Options::default(), policy::parse(policy).unwrap())
    }

    fn reply(sent: Time, arrived: Time) -> Reply {
        Reply { built: sent, sent, arrived, size_bytes: 1 << 20 }
    }

    /// Another policy keeps what was measured; one that has a window of its own puts it in force.
    #[test]
    fn a_path_changes_hands() {
        let mut path = controller("aimd").start();
        for micros in 1..100 {
            let sent = at(micros * 1_000);
            controller("aimd").reply(&mut path, &reply(sent, sent + Span::from_micros(500)));
        }
        let signals = path.signals();
        controller("gradient").adopt(&mut path);
        assert_eq!((path.window(), path.signals(), path.policy), (8.0, signals, [0, 0]));
        controller("fixed:3,gap=7ms").adopt(&mut path);
        assert_eq!((path.window(), path.gap()), (3.0, Span::from_millis(7)));
        controller("none").adopt(&mut path);
        assert_eq!((path.window(), path.gap(), path.signals()), (3.0, Span::ZERO, signals));
    }

    proptest! {
        /// Whatever somebody wrote over a state, going on with it neither panics nor leaves bounds.
        #[test]
        fn any_words_are_a_state(
            words in prop::array::uniform15(any::<u64>()),
            steps in prop::collection::vec((0_u8..4, any::<u32>(), any::<u32>()), 1..30),
        ) {
            for policy in ["none", "fixed:3", "aimd", "gradient"] {
                let controller = controller(policy);
                let mut path = PathState::from_words(&words[..]);
                prop_assert_eq!(PathState::from_words(&path.to_words()[..]), path);
                for &(choice, micros, size) in &steps {
                    let now = at(u64::from(micros));
                    match choice {
                        0 => drop(controller.admit(&mut path, now, size, &Limits::default())),
                        1 => controller.fault(&mut path, now),
                        2 => controller.adopt(&mut path),
                        _ => drop(controller.reply(&mut path, &reply(at(7), now))),
                    }
                }
                controller.adopt(&mut path);
                prop_assert!((1.0..=256.0).contains(&path.window()), "{}", path.window());
            }
        }
    }
}
