//! Waiting for what other processes do.

use afflux_core::units::Span;
use afflux_node::clock;

/// Waits until it is so; the machine may be busy.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = clock::now() + Span::from_secs(60);
    while !is_so() {
        assert!(clock::now() < until, "not after a minute: {what}");
        clock::sleep(Span::from_millis(20));
    }
}
