//! The server of names: some threads that take equally long for every request.

use afflux_core::units::{Span, Time};

use crate::scenario;

/// The server of names. Since all requests take the same time and are served in order, the n-th
/// begins when the one `threads` before it has ended.
#[derive(Debug)]
pub(crate) struct Metadata {
    service: Span,
    /// When each thread is free, the one that is free first at `next`.
    free: Vec<Time>,
    next: usize,
}

impl Metadata {
    pub(crate) fn new(options: &scenario::Metadata) -> Self {
        Self { service: options.service, free: vec![Time::ZERO; options.threads as usize], next: 0 }
    }

    /// Takes a request that arrives at `now`; gives the time at which it is done. Requests are told
    /// in the order of their arrival.
    pub(crate) fn serve(&mut self, now: Time) -> Time {
        let done = now.max(self.free[self.next]) + self.service;
        self.free[self.next] = done;
        self.next = (self.next + 1) % self.free.len();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_at_once_as_there_are_threads() {
        let service = Span::from_micros(100);
        let mut server = Metadata::new(&scenario::Metadata { threads: 2, service });
        let done: Vec<_> = (0..5).map(|_| server.serve(Time::ZERO).as_nanos() / 1_000).collect();
        assert_eq!(done, [100, 100, 200, 200, 300]);
        assert_eq!(server.serve(Time::from_nanos(1_000_000)).as_nanos(), 1_100_000);
    }
}
