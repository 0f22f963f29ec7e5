//! The only place where Afflux reads a clock or waits for one.
//!
//! All processes of a machine read the same monotonic clock, so that stamps taken in one can be
//! compared with stamps taken in another.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;

use afflux_core::units::{Span, Time};
use rustix::thread::{ClockId, Timespec, futex};

/// Nanoseconds of the machine's monotonic clock.
///
/// ```
/// let before = afflux_node::clock::now();
/// assert!(afflux_node::clock::now() >= before);
/// ```
pub fn now() -> Time {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Time::from_nanos(at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64)
}

/// The same clock to some milliseconds, at a quarter of the cost: for which second it is.
pub fn coarse() -> Time {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Time::from_nanos(at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64)
}

/// Seconds since 1970 in UTC, as the machine's calendar has them; it may jump, and is for reports.
pub fn calendar_secs() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(at.tv_sec).unwrap_or(0)
}

fn timespec(at: Time) -> Timespec {
    let nanos = at.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// Waits until `wake`, by the same clock; a signal does not shorten the wait.
pub fn sleep_until(wake: Time) {
    let at = timespec(wake);
    let interrupted = Err(rustix::io::Errno::INTR);
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at) == interrupted {}
}

/// Waits until another thread or process wakes whoever waits on `word`, which must still have
/// `value`, or until `wake`. False when the time ended the wait; else somebody woke it, the value
/// had changed, or a signal came.
pub fn wait_until(word: &AtomicU32, value: u32, wake: Time) -> bool {
    let at = (wake < Time::NEVER).then(|| timespec(wake));
    let any = NonZeroU32::MAX;
    let waited = futex::wait_bitset(word, futex::Flags::empty(), value, at.as_ref(), any);
    waited != Err(rustix::io::Errno::TIMEDOUT)
}

/// Waits for `span`.
pub fn sleep(span: Span) {
    sleep_until(now() + span);
}

/// `span` as the standard library's type, for waits on channels and sockets.
pub fn std_duration(span: Span) -> std::time::Duration {
    std::time::Duration::from_nanos(span.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_at_least_as_long_as_asked() {
        let before = now();
        sleep(Span::from_millis(5));
        assert!(now().since(before) >= Span::from_millis(5));
    }
}
