//! The client's side of credits: what one server has granted, and how much of it is used.
//!
//! Source: the credits paper, algorithm 1, lines 1 to 8 and 20 to 25; the name is Lustre's. One
//! import stands for all paths of a client to a server: credits count whatever a request asks.

use crate::limits::Credits;
use crate::units::{Span, Time};

/// After so long without a word from the server, its last grant counts for nothing: by then it may
/// have given the room to others. The paper's period of pings; below its `STL`.
pub const STALE: Span = Span::from_secs(25);

/// What a client knows of its credits at one server.
///
/// ```
/// use afflux_core::credits::import::Import;
/// use afflux_core::limits::Credits;
/// use afflux_core::units::{Span, Time};
///
/// let at = |secs| Time::ZERO + Span::from_secs(secs);
/// let mut import = Import::default();
/// assert_eq!(import.credits(at(0)), None, "a server that grants nothing limits nothing");
/// import.welcome(1, at(0));
/// import.sent();
/// assert_eq!(import.credits(at(0)), Some(Credits { granted: 1, used: 1 }));
/// assert_eq!(import.wanted(9), 10);
/// import.replied(12, at(2));
/// assert_eq!(import.credits(at(2)), Some(Credits { granted: 12, used: 0 }));
/// assert_eq!(import.credits(at(60)), Some(Credits { granted: 1, used: 0 }), "stale");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Import {
    /// Requests in flight.
    used: u32,
    /// Requests that may be; zero where the server grants none and so limits nothing.
    granted: u32,
    /// What counts when nothing was heard for long, or a request was lost.
    least: u32,
    heard: Time,
}

impl Import {
    /// A connection begins: the server grants `least` until it knows more. Zero means that this
    /// server knows no credits. What is in flight still is: it will be sent again.
    pub const fn welcome(&mut self, least: u32, now: Time) {
        (self.granted, self.least, self.heard) = (least, least, now);
    }

    /// The credits as they stand; `None` where there are none to keep.
    pub fn credits(&mut self, now: Time) -> Option<Credits> {
        if self.granted == 0 {
            return None;
        }
        // A client that has requests at the server is not forgotten there.
        if self.used == 0 && now.since(self.heard) > STALE {
            self.fall_back();
        }
        Some(Credits { granted: self.granted, used: self.used })
    }

    /// A request was sent (lines 2 to 6).
    pub const fn sent(&mut self) {
        self.used += 1;
    }

    /// A reply came with the grant `credits` (lines 21 and 22); zero says nothing of credits.
    pub fn replied(&mut self, credits: u32, now: Time) {
        self.used = self.used.saturating_sub(1);
        if credits > 0 {
            self.granted = credits;
            // A server that was never welcomed by says by its first grant that it has credits.
            self.least = self.least.max(1);
            self.heard = now;
        }
    }

    /// A request was not answered. Whatever became of the server, its word is void: the next
    /// requests go out as if it were new.
    pub fn lost(&mut self) {
        self.used = self.used.saturating_sub(1);
        self.fall_back();
    }

    /// What to ask for: as many requests in flight as the pending data need, of which `waiting` are
    /// not sent yet (line 4).
    pub const fn wanted(&self, waiting: u32) -> u32 {
        self.used.saturating_add(waiting)
    }

    /// Requests in flight.
    pub const fn used(&self) -> u32 {
        self.used
    }

    fn fall_back(&mut self) {
        self.granted = self.granted.min(self.least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    #[test]
    fn a_restarted_server_is_met_with_the_least_and_no_storm() {
        let mut import = Import::default();
        import.welcome(1, at(0));
        for _ in 0..3 {
            import.sent();
            import.replied(8, at(1));
        }
        for _ in 0..8 {
            import.sent();
        }
        import.welcome(1, at(2));
        assert_eq!(import.credits(at(2)), Some(Credits { granted: 1, used: 8 }));
        import.replied(4, at(3));
        assert_eq!(import.credits(at(3)), Some(Credits { granted: 4, used: 7 }));
    }

    #[test]
    fn a_lost_request_takes_the_grant_with_it_but_not_where_there_is_none() {
        let mut import = Import::default();
        import.sent();
        import.lost();
        assert_eq!(import.credits(at(0)), None);
        import.replied(9, at(1));
        import.lost();
        assert_eq!(import.credits(at(1)), Some(Credits { granted: 1, used: 0 }));
    }

    #[test]
    fn a_clock_that_jumps_back_neither_expires_nor_panics() {
        let mut import = Import::default();
        import.welcome(2, at(100));
        import.replied(7, at(100));
        assert_eq!(import.credits(at(1)), Some(Credits { granted: 7, used: 0 }));
        import.replied(0, at(1));
        assert_eq!(import.used(), 0);
    }
}
