//! What is left when processes are killed.

use std::sync::atomic::Ordering::SeqCst;

use afflux_core::path::HoldTotals;
use afflux_core::rng::Rng;
use afflux_core::units::{Span, Time};
use afflux_node::clock;

use crate::board::fork_and_die;
use crate::worker::{Place, until};

/// How many points: 50, or what `AFFLUX_KILLS` says.
pub(crate) fn kills() -> u64 {
    std::env::var("AFFLUX_KILLS").map_or(50, |kills| kills.parse().unwrap())
}

#[test]
fn who_waits_gets_the_slots_of_the_dead() {
    let place = Place::new();
    let path = place.set("fixed:4");
    let mut holder = place.crew("hold 4", 1).pop().unwrap();
    let shared = place.shared();
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 4);
    let mut holds = HoldTotals::default();
    let soon = clock::now() + Span::from_millis(50);
    assert!(shared.admit(path, clock::now(), 4096, soon, &mut holds).is_err());
    holder.kill().unwrap();
    let killed = clock::now();
    // It is not even waited for: a zombie holds nothing.
    let slot = shared.admit(path, clock::now(), 4096, Time::NEVER, &mut holds).unwrap();
    let late = slot.sent().since(killed);
    assert!(late < Span::from_secs(2), "{late}");
    drop(slot);
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 0);
    holder.wait().unwrap();
}

/// Sixteen processes at work, of which one after the other dies and is replaced.
#[test]
fn killed_at_random_nothing_leaks_and_nobody_hangs() {
    let seed = std::env::var("AFFLUX_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut rng = Rng::new(seed);
    let place = Place::new();
    let path = place.set("fixed:3");
    let (shared, board) = (place.shared(), place.board());
    let mut crew = place.crew("turns 0", 8);
    board.begin.store(1, SeqCst);
    for kill in 0..kills() {
        clock::sleep(Span::from_micros(rng.below(20_000)));
        let victim = rng.below(8) as usize;
        let ready = board.ready.load(SeqCst);
        crew[victim].kill().unwrap();
        crew[victim].wait().unwrap();
        crew[victim] = place.start("turns 0", victim);
        until("the next worker is ready", || board.ready.load(SeqCst) > ready);
        let before = board.admitted();
        until(&format!("work goes on after kill {kill} of seed {seed}"), || {
            board.admitted() > before + 100
        });
        // What the dead had entered on the board stays there, so that only the path is asked.
        assert!(shared.paths()[0].state.unwrap().in_flight() <= 3);
    }
    board.end.store(1, SeqCst);
    for mut worker in crew {
        worker.wait().unwrap();
    }
    shared.sweep();
    let report = &shared.paths()[0];
    assert_eq!((report.state.unwrap().in_flight(), report.waiting), (0, 0), "seed {seed}");
    let mut holds = HoldTotals::default();
    let slots: Vec<_> = (0..3)
        .map(|_| shared.admit(path, clock::now(), 4096, clock::now(), &mut holds).unwrap())
        .collect();
    assert!(shared.admit(path, clock::now(), 4096, clock::now(), &mut holds).is_err());
    drop(slots);
}

/// A forked child has slots of its own, and leaves those of its parent alone.
#[test]
fn a_forked_child_dies_alone() {
    let place = Place::new();
    let path = place.set("fixed:5");
    let shared = place.shared();
    let in_flight = || shared.paths()[0].state.unwrap().in_flight();
    let mut holds = HoldTotals::default();
    let own = shared.admit(path, clock::now(), 4096, Time::NEVER, &mut holds).unwrap();
    let child = fork_and_die(|| {
        for _ in 0..2 {
            let mut holds = HoldTotals::default();
            let slot = shared.admit(path, clock::now(), 4096, Time::NEVER, &mut holds);
            std::mem::forget(slot);
        }
        // Its parent's slot is not the child's to give back.
        std::mem::forget(shared.observe(path, clock::now(), 4096));
        shared.sweep();
    });
    until("the child is dead", || nix::sys::wait::waitpid(child, None).is_ok());
    assert_eq!(in_flight(), 4);
    assert_eq!(shared.sweep(), 1);
    assert_eq!(in_flight(), 1);
    own.reply(clock::now()).unwrap();
    assert_eq!(in_flight(), 0);
}

/// After an `exec` the process lives on, but the program that had the slots does not.
#[test]
fn a_program_that_becomes_another_leaves_its_slots() {
    let place = Place::new();
    place.set("fixed:5");
    let mut worker = place.crew("exec", 1).pop().unwrap();
    let shared = place.shared();
    until("the other program runs", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", worker.id())).unwrap();
        name.trim() == "sleep"
    });
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 2);
    assert_eq!(shared.sweep(), 1);
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 0);
    worker.kill().unwrap();
    worker.wait().unwrap();
}

/// Stopped processes are alive and keep their slots, but nobody waits for one that only waits.
#[test]
fn stopped_processes_hold_nobody_up() {
    let place = Place::new();
    place.set("fixed:8");
    let board = place.board();
    let mut crew = place.crew("turns 100", 12);
    board.begin.store(1, SeqCst);
    clock::sleep(Span::from_millis(200));
    let signal = |worker: &std::process::Child, signal| {
        let pid = rustix::process::Pid::from_raw(worker.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    // Seven of them have at most seven slots.
    crew[..7].iter().for_each(|worker| signal(worker, rustix::process::Signal::STOP));
    for _ in 0..5 {
        let before = board.admitted();
        until("the others go on", || board.admitted() > before + 200);
    }
    crew[..7].iter().for_each(|worker| signal(worker, rustix::process::Signal::CONT));
    let before: Vec<u64> = board.lines.iter().map(|line| line.admitted.load(SeqCst)).collect();
    until("all go on", || {
        (0..12).all(|line| board.lines[line].admitted.load(SeqCst) > before[line] + 10)
    });
    board.end.store(1, SeqCst);
    crew.iter_mut().for_each(|worker| assert!(worker.wait().unwrap().success()));
    assert!(board.most.load(SeqCst) <= 8);
    assert_eq!(place.shared().paths()[0].state.unwrap().in_flight(), 0);
}
