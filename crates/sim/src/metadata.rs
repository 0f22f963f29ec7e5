//! The server of names: some threads that take equally long for every request.
//!
//! Its faults are known from the beginning, so that what becomes of a request is known when it
//! arrives. While it stalls it begins nothing. When it dies, what waits or is in service is lost,
//! and what arrives before it is back.

use afflux_core::units::{Span, Time};

use crate::scenario::{self, Fault, FaultKind};

/// The server of names. Since all requests take the same time and are served in order, the n-th
/// begins when the one `threads` before it has ended.
#[derive(Debug)]
pub(crate) struct Metadata {
    service: Span,
    /// When each thread is free, the one that is free first at `next`.
    free: Vec<Time>,
    next: usize,
    /// From when to when it stalls or is dead, and whether it is dead; those that never end too.
    faults: Vec<(Time, Time, bool)>,
}

impl Metadata {
    pub(crate) fn new(options: &scenario::Metadata, faults: &[Fault]) -> Self {
        let of_names = |fault: &Fault| {
            let dead = match fault.what {
                FaultKind::NamesStall => false,
                FaultKind::NamesDie => true,
                _ => return None,
            };
            let begins = Time::ZERO + fault.at;
            Some((begins, fault.lasts.map_or(Time::NEVER, |lasts| begins + lasts), dead))
        };
        let mut faults: Vec<_> = faults.iter().filter_map(of_names).collect();
        faults.sort_unstable();
        let free = vec![Time::ZERO; options.threads as usize];
        Self { service: options.service, free, next: 0, faults }
    }

    /// Takes a request that arrives at `now`; gives the time at which it is done, or nothing when
    /// it is never answered. Requests are told in the order of their arrival.
    pub(crate) fn serve(&mut self, now: Time) -> Option<Time> {
        let mut start = now.max(self.free[self.next]);
        for &(begins, ends, dead) in &self.faults {
            let done = start + self.service;
            if dead && now < ends && done > begins {
                // Its thread has nothing to do with it any more.
                self.free[self.next] = self.free[self.next].min(begins.max(now));
                return None;
            }
            if !dead && (begins..ends).contains(&start) {
                start = ends;
            }
        }
        if start == Time::NEVER {
            return None;
        }
        let done = start + self.service;
        self.free[self.next] = done;
        self.next = (self.next + 1) % self.free.len();
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_at_once_as_there_are_threads() {
        let service = Span::from_micros(100);
        let mut server = Metadata::new(&scenario::Metadata { threads: 2, service }, &[]);
        assert_eq!([0; 5].map(|at| micros(&mut server, at)), [100, 100, 200, 200, 300].map(Some));
        assert_eq!(micros(&mut server, 1_000), Some(1_100));
    }

    #[test]
    fn what_meets_a_fault_waits_or_is_lost() {
        let fault =
            |what, lasts| Fault { what, at: Span::from_micros(250), lasts, ..Fault::default() };
        let service = Span::from_micros(100);
        let with = |fault| Metadata::new(&scenario::Metadata { threads: 1, service }, &[fault]);
        let lasts = Some(Span::from_micros(500));
        // Who is in service goes on; who waits does so until the end.
        let mut stalls = with(fault(FaultKind::NamesStall, lasts));
        let done = [0, 0, 0, 0, 300, 900, 2_000].map(|at| micros(&mut stalls, at));
        assert_eq!(done, [100, 200, 300, 850, 950, 1_050, 2_100].map(Some));
        // Who is in service or waits is lost, and who comes before it is back.
        let mut dies = with(fault(FaultKind::NamesDie, lasts));
        let done = [0, 0, 0, 0, 300, 750, 760].map(|at| micros(&mut dies, at));
        assert_eq!(done, [Some(100), Some(200), None, None, None, Some(850), Some(950)]);
        for what in [FaultKind::NamesStall, FaultKind::NamesDie] {
            let mut server = with(fault(what, None));
            assert_eq!(
                [0, 300, 1_000_000].map(|at| micros(&mut server, at)),
                [Some(100), None, None]
            );
        }
    }

    fn micros(server: &mut Metadata, at: u64) -> Option<u64> {
        server.serve(Time::from_nanos(at * 1_000)).map(|done| done.as_nanos() / 1_000)
    }
}
