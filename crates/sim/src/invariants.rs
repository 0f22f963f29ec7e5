//! What must hold whatever happens: watched in debug and test builds, and where the feature `watch`
//! asks for it.

use afflux_core::path::PathState;
use afflux_core::target::Unwatched;
use afflux_core::units::{Span, Time};

use crate::world::World;

/// Whether anything is watched.
pub(crate) const WATCHED: bool = cfg!(any(debug_assertions, feature = "watch"));

/// A path has sent a request: no more may be in flight than its window lets.
pub(crate) fn within_window(state: &PathState) {
    if WATCHED {
        let (in_flight, window) = (state.in_flight(), state.window());
        assert!(
            in_flight <= (window as u32).max(1),
            "{in_flight} in flight in a window of {window}"
        );
    }
}

/// There is one less of what is counted, and never less than none.
pub(crate) fn less(count: &mut u32, what: &str) {
    if WATCHED {
        assert!(*count > 0, "fewer than no {what}");
    }
    *count = count.wrapping_sub(1);
}

/// A device that does one thing at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneAtATime {
    /// End of the last work; never where several things may go on at once.
    until: Option<Time>,
}

impl OneAtATime {
    pub(crate) fn new(holds: bool) -> Self {
        Self { until: (WATCHED && holds).then_some(Time::ZERO) }
    }

    /// It has worked for `access` until `end`.
    pub(crate) fn worked(&mut self, end: Time, access: Span) {
        if let Some(until) = &mut self.until {
            assert!(end - access >= *until, "a device did two things at {until:?}");
            *until = end;
        }
    }
}

/// Bytes on their way from the applications to the devices and back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Bytes that operations asked to be moved.
    pub(crate) asked_bytes: u64,
    /// Bytes that were answered.
    pub(crate) answered_bytes: u64,
    /// Bytes of requests that were given up, or not sent since their operation had failed.
    pub(crate) dropped_bytes: u64,
    /// Bytes that devices were asked to move.
    pub(crate) device_bytes: u64,
    /// Bytes that servers read from their memory instead.
    pub(crate) memory_bytes: u64,
}

impl World {
    /// Lets everything that is under way come to its end, and looks whether all of it did.
    pub(crate) fn audit(&mut self) {
        self.draining = true;
        self.lift_faults(self.now);
        let faults = self.scenario.faults.iter();
        let faults = faults.filter_map(|fault| Some(Time::ZERO + fault.at + fault.lasts?));
        let last = faults.max().unwrap_or(Time::ZERO);
        // What was begun is over long before; a world that goes on for ever has lost something.
        self.end = self.now.max(last) + Span::from_secs(1_000_000);
        let done = self.go(&Unwatched);
        assert!(done.is_ok(), "the end of a run failed: {done:?}");
        let Self { requests, operations, clients, servers, ledger, totals, .. } = self;
        assert_eq!((requests.len(), operations.len()), (0, 0), "left under way");
        for (number, client) in clients.each.iter().enumerate() {
            assert_eq!((client.in_flight, client.under_way), (0, 0), "client {number}");
        }
        assert!(clients.states.iter().all(|state| state.in_flight() == 0), "paths in flight");
        for (number, server) in servers.each.iter().enumerate() {
            let left = (server.busy, server.waiting, server.held_bytes);
            assert_eq!(left, (0, 0, 0), "server {number}");
        }
        servers.behind.assert_caught_up();
        let ended = ledger.answered_bytes + ledger.dropped_bytes;
        assert_eq!(ledger.asked_bytes, ended, "bytes came to no end");
        let moved = ledger.device_bytes + ledger.memory_bytes;
        assert!(moved >= ledger.answered_bytes, "bytes that no device saw");
        if totals.resent + totals.lost + totals.failed + totals.died == 0 {
            assert_eq!(moved, ledger.asked_bytes, "bytes that nobody asked for");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use afflux_core::path::{Controller, Options};
    use afflux_core::policy;
    use afflux_core::setting::Setting;
    use afflux_core::target::{Progress, Run, Target};
    use afflux_core::workload::preset;

    use super::*;
    use crate::scenario::shipped;
    use crate::{SimTarget, Simulation};

    /// What a panic says.
    fn said<T>(broken: impl FnOnce() -> T) -> String {
        let Err(panic) = catch_unwind(AssertUnwindSafe(broken)) else { panic!("nothing broke") };
        *panic.downcast::<String>().unwrap()
    }

    #[test]
    fn each_watch_sees_what_it_watches_for() {
        let at = |micros| Time::ZERO + Span::from_micros(micros);
        let mut disk = OneAtATime::new(true);
        disk.worked(at(5), Span::from_micros(5));
        let two = said(|| disk.worked(at(9), Span::from_micros(5)));
        assert!(two.contains("a device did two things"), "{two}");
        OneAtATime::new(false).worked(at(5), Span::from_micros(5));
        let mut count = 1;
        less(&mut count, "busy threads");
        assert_eq!(said(|| less(&mut count, "busy threads")), "fewer than no busy threads");
        let fresh = Controller::new(Options::default(), policy::none()).start();
        within_window(&fresh.recounted(8));
        assert_eq!(said(|| within_window(&fresh.recounted(9))), "9 in flight in a window of 8");
    }

    #[test]
    fn a_broken_invariant_names_the_run_and_how_it_is_made_again() {
        let changed = ["servers.count=2", "clients.count=3", "run.length=1s"];
        let scenario = shipped("contended").unwrap().scenario().with(&changed).unwrap();
        let setting = Setting::parse("fixed:4", &|name| Err(name.to_owned())).unwrap();
        let run = |wrong: &dyn Fn(&mut World)| {
            let mut simulation = Simulation::new(&scenario, &setting, 7).unwrap();
            wrong(&mut simulation.world);
            said(|| simulation.run(&Unwatched))
        };
        let end = Time::ZERO + Span::from_secs(2);
        let busy = |world: &mut World| {
            *world.servers.devices.watch(0) = OneAtATime { until: Some(end) };
        };
        for (said, says, when) in [
            // Found by the audit, after the end.
            (run(&|world| world.ledger.asked_bytes += 1), "bytes came to no end", 6.0..1e6),
            // Found in the middle of the run.
            (run(&busy), "a device did two things", 0.001..1.0),
        ] {
            assert!(said.contains(says), "{said}");
            let of = "in scenario `contended` with servers.count=2 clients.count=3 run.length=1s, \
                      seed 7, at ";
            let (_, time) = said.split_once(of).unwrap_or_else(|| panic!("{said}"));
            let (secs, _) = time.split_once(" s of its time").unwrap();
            assert!(when.contains(&secs.parse::<f64>().unwrap()), "{said}");
            let again = "again by: cargo run --package afflux -- sim contended --set \
                         servers.count=2 --set clients.count=3 --set run.length=1s --policy \
                         fixed:4 --seed 7";
            assert!(said.ends_with(again), "{said}");
        }
    }

    #[test]
    fn a_run_for_another_command_is_made_again_by_that_one() {
        let scenario = shipped("contended").unwrap().scenario();
        let mut target = SimTarget::new("sim:contended", scenario);
        target.prepare(&preset("random-read").unwrap().workload()).unwrap();
        let progress = &Panics;
        let (settle, length) = (Span::from_millis(10), Span::from_secs(1));
        let run = Run { seed: 3, settle, length, progress, trace: None };
        let said = said(|| target.run(&run));
        let again = "again by: cargo run --package afflux -- bench random-read --on sim:contended \
                     --policy none --clients 8 --settle 10ms --length 1s --seed 3";
        assert!(said.starts_with("deliberate") && said.ends_with(again), "{said}");
    }

    /// A mistake in the middle of a run.
    struct Panics;

    impl Progress for Panics {
        fn moved(&self, _bytes: u64) {
            panic!("deliberate");
        }

        fn is_cancelled(&self) -> bool {
            false
        }
    }
}
