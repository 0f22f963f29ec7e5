//! What must hold at every moment of a run, reckoned apart from the controllers' own books.

use std::collections::VecDeque;

use afflux_core::limits::{Hold, HoldReason};
use afflux_core::path::PathState;
use afflux_core::rules::RuleFile;
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};

use crate::world::Scenario;

/// A client and a server.
pub(crate) type Pair = (usize, usize);

/// How long a path with demand may go without a reply, turns left out. Generous, for 12 clients
/// with 24 requests each at a disk wait for 5 s; what is stuck waits for ever.
const PATIENCE: Span = Span::from_secs(12);

/// The books of a run.
pub(crate) struct Checks {
    scenario: Scenario,
    cap: u32,
    fan_in: u32,
    turn_slot: Option<Span>,
    /// The most that the rules may set the window to, and how often a second.
    rules: Option<(f64, u32)>,
    patience: Span,
    paths: Vec<Vec<Path>>,
}

#[derive(Default)]
struct Path {
    in_flight: u32,
    last_send: Option<Time>,
    /// Window changes of the last second.
    changes: VecDeque<Time>,
    /// The last reply, or since when there has been demand.
    progress: Time,
    replies: u64,
}

impl Checks {
    pub(crate) fn new(scenario: &Scenario, setting: &Setting, rules: Option<&RuleFile>) -> Self {
        let rules = rules.and_then(|file| file.set(scenario.class));
        let round = setting.turn_slot.map_or(0, Span::as_nanos) * scenario.clients as u64;
        let path = |_| (0..scenario.servers).map(|_| Path::default()).collect();
        Self {
            scenario: scenario.clone(),
            cap: setting.cap.unwrap_or(u32::MAX),
            fan_in: setting.fan_in.unwrap_or(u32::MAX),
            turn_slot: setting.turn_slot,
            rules: rules.map(|set| (set.window_max, set.window_changes_per_s)),
            patience: PATIENCE + Span::from_nanos(2 * round),
            paths: (0..scenario.clients).map(path).collect(),
        }
    }

    /// A request was admitted.
    pub(crate) fn sent(&mut self, now: Time, who: Pair, before: &PathState, after: &PathState) {
        let (client, server) = who;
        let path = &mut self.paths[client][server];
        path.in_flight += 1;
        let allowed = (before.window() as u32).max(1).min(self.cap);
        let counted = path.in_flight;
        assert_eq!(after.in_flight(), counted, "{who:?} at {now:?}: {:?}", self.scenario);
        assert!(counted <= allowed, "{counted} of {allowed}, {who:?}, {:?}", self.scenario);
        if let Some(last) = path.last_send.replace(now) {
            let size = f64::from(self.scenario.request_bytes) / f64::from(1 << 20);
            let gap = before.gap().mul_f64(0.5 + 0.5 * size);
            let since = now.since(last);
            // One nanosecond for rounding.
            let kept = since + Span::from_nanos(1) >= gap;
            assert!(kept, "{since} after {gap}, {who:?} at {now:?}: {:?}", self.scenario);
        }
        let all: u32 = self.paths[client].iter().map(|path| path.in_flight).sum();
        assert!(all <= self.fan_in, "fan-in {all}, {who:?} at {now:?}: {:?}", self.scenario);
        if let Some(slot) = self.turn_slot {
            let turn = now.as_nanos() / slot.as_nanos() % self.scenario.clients as u64;
            let mine = (client + server) % self.scenario.clients;
            assert_eq!(turn, mine as u64, "{who:?} at {now:?}: {:?}", self.scenario);
        }
    }

    /// A reply was taken.
    pub(crate) fn replied(&mut self, now: Time, who: Pair, before: &PathState, after: &PathState) {
        self.progress(now, who);
        let path = &mut self.paths[who.0][who.1];
        path.in_flight -= 1;
        path.replies += 1;
        assert_eq!(after.in_flight(), path.in_flight, "{who:?} at {now:?}: {:?}", self.scenario);
        let window = after.window();
        assert!((1.0..=256.0).contains(&window), "window {window}, {:?}", self.scenario);
        let Some((most, changes_per_s)) = self.rules else { return };
        assert!(window <= most.max(8.0), "window {window} of {most}, {:?}", self.scenario);
        if window != before.window() {
            path.changes.push_back(now);
            let second = Span::from_secs(1);
            while path.changes.front().is_some_and(|change| now.since(*change) >= second) {
                path.changes.pop_front();
            }
            let count = path.changes.len();
            assert!(count <= changes_per_s as usize, "{count} changes, {:?}", self.scenario);
        }
    }

    /// A send was refused: something must be under way that will end the wait.
    pub(crate) fn held(&self, now: Time, who: Pair, path: &PathState, hold: &Hold) {
        let (client, server) = who;
        let said = || format!("{hold:?} of {who:?} at {now:?}: {:?}", self.scenario);
        let mine = self.paths[client][server].in_flight;
        let all: u32 = self.paths[client].iter().map(|path| path.in_flight).sum();
        let wait = hold.until.since(now);
        match hold.reason {
            HoldReason::Window => assert!(mine >= (path.window() as u32).max(1), "{}", said()),
            HoldReason::Cap => assert!(mine >= self.cap, "{}", said()),
            HoldReason::FanIn => assert!(all >= self.fan_in, "{}", said()),
            HoldReason::Gap => assert!(wait <= path.gap(), "{}", said()),
            HoldReason::Turn => {
                let slot = self.turn_slot.map_or(0, Span::as_nanos);
                let round = slot * self.scenario.clients as u64;
                assert!(wait.as_nanos() <= round, "{}", said());
            }
            HoldReason::Credits => panic!("nobody grants credits here: {}", said()),
        }
        // Whoever waits for a reply must have one coming, and whoever waits for a time a time.
        if hold.until == Time::NEVER {
            assert!(all > 0, "nothing will wake it: {}", said());
        } else {
            assert!(wait > Span::ZERO, "{}", said());
        }
    }

    /// The run is over.
    pub(crate) fn end(&mut self, now: Time) {
        for client in 0..self.scenario.clients {
            for server in 0..self.scenario.servers {
                if self.scenario.has_demand(client, now) {
                    self.progress(now, (client, server));
                }
                let replies = self.paths[client][server].replies;
                let who = (client, server);
                assert!(replies > 0, "{who:?} never got a reply: {:?}", self.scenario);
            }
        }
    }

    fn progress(&mut self, now: Time, who: Pair) {
        let path = &mut self.paths[who.0][who.1];
        // A pause of all clients does not count as waiting.
        let since = match self.scenario.pause {
            Some((from, to)) if path.progress <= to && now >= from => now.since(to),
            _ => now.since(path.progress),
        };
        assert!(
            since <= self.patience,
            "{who:?} waited {since} until {now:?}: {:?}",
            self.scenario
        );
        path.progress = now;
    }
}

/// A check that cannot fail is none: each is shown what it must refuse.
mod teeth {
    use super::*;
    use crate::world;
    use afflux_core::limits::Limits;
    use afflux_core::path::{Controller, Reply};
    use std::sync::Arc;

    const WHO: Pair = (0, 0);

    fn books(setting: &str) -> (Checks, Arc<Controller>) {
        let scenario = Scenario::new(setting, 1, 0);
        let (setting, rules) = world::setting(setting);
        let checks = Checks::new(&scenario, &setting, rules.as_ref());
        (checks, Arc::clone(setting.controller(scenario.class)))
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// Sends at the given times, and keeps the books as if the path were one of `setting`.
    fn send(setting: &str, really: &str, millis: &[u64]) {
        let (mut checks, _) = books(setting);
        let (_, controller) = books(really);
        let shown = books(setting).1.start();
        let mut path = controller.start();
        for millis in millis {
            controller.admit(&mut path, at(*millis), 1 << 20, &Limits::default()).unwrap();
            checks.sent(at(*millis), WHO, &shown, &path);
        }
    }

    #[test]
    #[should_panic(expected = "3 of 2")]
    fn sees_more_in_flight_than_the_window() {
        send("fixed:2", "fixed:9", &[1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "2 of 1")]
    fn sees_more_in_flight_than_the_cap() {
        send("fixed:9+cap=1", "fixed:9", &[1, 2]);
    }

    #[test]
    #[should_panic(expected = "fan-in 3")]
    fn sees_more_in_flight_than_the_fan_in() {
        send("fixed:9+fan-in=2", "fixed:9", &[1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "9ms after 10ms")]
    fn sees_sends_closer_than_the_gap() {
        send("fixed:9,gap=10ms", "fixed:9", &[1, 11, 20]);
    }

    #[test]
    #[should_panic(expected = "assertion `left == right` failed")]
    fn sees_a_send_out_of_turn() {
        let scenario = Scenario::new("turn=10ms", 2, 0);
        let (setting, _) = world::setting(&scenario.setting);
        let mut path = setting.controller(scenario.class).start();
        let before = path;
        let controller = setting.controller(scenario.class);
        controller.admit(&mut path, at(15), 1 << 20, &Limits::default()).unwrap();
        Checks::new(&scenario, &setting, None).sent(at(15), WHO, &before, &path);
    }

    #[test]
    #[should_panic(expected = "3 changes")]
    fn sees_a_window_that_changes_too_often() {
        let (mut checks, _) = books("shipped:calm-2");
        let windows = ["fixed:2", "fixed:3"].map(|setting| books(setting).1.start());
        for change in 0..3 {
            checks.paths[0][0].in_flight = 1;
            checks.replied(
                at(400 * change as u64),
                WHO,
                &windows[change % 2],
                &windows[1 - change % 2],
            );
        }
    }

    #[test]
    #[should_panic(expected = "nothing will wake it")]
    fn sees_a_wait_for_nothing() {
        let (checks, _) = books("none");
        // The path has a gap without end, for otherwise the length of the wait alone is refused.
        let endless = books(&format!("fixed:1,gap={}ns", u64::MAX)).1.start();
        let hold = Hold { reason: HoldReason::Gap, until: Time::NEVER };
        checks.held(Time::ZERO, WHO, &endless, &hold);
    }

    #[test]
    #[should_panic(expected = "waited")]
    fn sees_a_path_that_is_stuck() {
        let (mut checks, controller) = books("none");
        let mut path = controller.start();
        controller.admit(&mut path, at(1), 1 << 20, &Limits::default()).unwrap();
        checks.sent(at(1), WHO, &controller.start(), &path);
        let before = path;
        let (sent, arrived) = (at(1), at(20_000));
        controller.reply(&mut path, &Reply { built: sent, sent, arrived, size_bytes: 1 << 20 });
        checks.replied(arrived, WHO, &before, &path);
    }

    #[test]
    #[should_panic(expected = "never got a reply")]
    fn sees_a_client_without_any_reply() {
        books("none").0.end(at(1_000));
    }
}
