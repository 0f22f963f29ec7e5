//! Limits: what may be in flight, who says so, and why a request is held.
//!
//! A path's window is the least of what the rules, the server's credits and the administrator's cap
//! allow; on top come the fan-in of the whole client and the turn. Every hold names its reason.
//!
//! ```
//! use afflux_core::limits::{HoldReason, Limits};
//!
//! let limits = Limits { credits: Some(3), cap: Some(16), ..Limits::default() };
//! assert_eq!(limits.window(8.6), (3, HoldReason::Credits));
//! assert_eq!(Limits::default().window(0.2), (1, HoldReason::Window));
//! ```

use serde::{Deserialize, Serialize};

use crate::units::{Span, Time};

/// The limits of a path besides its rules, as they stand at one moment. `None` does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests that the server allows this client to have in flight (RCC).
    pub credits: Option<u32>,
    /// Requests that the administrator allows on this path.
    pub cap: Option<u32>,
    /// Requests that the client may have in flight over all its paths together.
    pub fan_in: Option<FanIn>,
    /// When this client may send to this server.
    pub turn: Option<Turn>,
}

/// The client-wide limit, and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FanIn {
    /// Requests that may be in flight.
    pub limit: u32,
    /// Requests that are.
    pub in_flight: u32,
}

/// Slots of the local clock: in each, one of `of` clients may send to a given server.
///
/// Clients need no messages for it, only clocks that agree to a fraction of a slot. Not from the
/// papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Length of a slot; not zero.
    pub slot: Span,
    /// How many clients take turns.
    pub of: u32,
    /// Which of them has its turn in slot 0; shift it by the server so that servers differ.
    pub mine: u32,
}

impl Turn {
    /// The time at which the turn comes; `now` or earlier while it is on.
    ///
    /// ```
    /// use afflux_core::{limits::Turn, units::{Span, Time}};
    /// let turn = Turn { slot: Span::from_millis(100), of: 4, mine: 2 };
    /// let now = Time::from_nanos(30_000_000);
    /// assert_eq!(turn.next(now), Time::ZERO + Span::from_millis(200));
    /// assert_eq!(turn.next(turn.next(now)), turn.next(now));
    /// ```
    pub fn next(&self, now: Time) -> Time {
        let (slot_nanos, of) = (self.slot.as_nanos().max(1), u64::from(self.of.max(1)));
        let slot = now.as_nanos() / slot_nanos;
        let slots_to_go = (u64::from(self.mine) % of + of - slot % of) % of;
        Time::from_nanos((slot + slots_to_go).saturating_mul(slot_nanos))
    }
}

/// Why a request may not be sent yet.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldReason {
    /// The path's own window, set by its rules, is full.
    Window,
    /// The gap since the last send has not passed.
    Gap,
    /// The server granted no more credits.
    Credits,
    /// The administrator's cap is reached.
    Cap,
    /// The client has enough in flight over all its paths.
    FanIn,
    /// It is another client's turn.
    Turn,
}

impl HoldReason {
    /// All reasons, in the order of their index.
    pub const ALL: [Self; 6] =
        [Self::Window, Self::Gap, Self::Credits, Self::Cap, Self::FanIn, Self::Turn];

    /// Position in [`HoldReason::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Gap => "gap",
            Self::Credits => "credits",
            Self::Cap => "cap",
            Self::FanIn => "fan-in",
            Self::Turn => "turn",
        }
    }
}

/// A request that may not be sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: HoldReason,
    /// When to ask again; [`Time::NEVER`] means after the next reply.
    pub until: Time,
}

impl Limits {
    /// How many requests may be in flight on a path whose rules allow `rules`, and who says so.
    ///
    /// Never under one, since a path without requests would never hear that things got better.
    #[inline]
    pub fn window(&self, rules: f64) -> (u32, HoldReason) {
        // The cast rounds down, and sends what is negative or not a number to zero.
        let mut least = ((rules as u32).max(1), HoldReason::Window);
        for (limit, reason) in [(self.credits, HoldReason::Credits), (self.cap, HoldReason::Cap)] {
            if let Some(limit) = limit
                && limit.max(1) < least.0
            {
                least = (limit.max(1), reason);
            }
        }
        least
    }
}
