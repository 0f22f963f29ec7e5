//! Death at any instruction: a process makes one request under the eyes of this one, which lets it
//! go on for so many instructions and no further.

use std::process::Child;
use std::sync::atomic::Ordering::SeqCst;

use afflux_core::path::HoldTotals;
use afflux_node::clock;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::death::kills;
use crate::worker::{Place, until};

/// Starts a worker that is about to make its request, and follows it. None when this machine does
/// not allow that.
fn follow(place: &Place, task: &str) -> Option<(Child, Pid)> {
    let board = place.board();
    board.ready.store(0, SeqCst);
    board.begin.store(0, SeqCst);
    let mut worker = place.start(task, 0);
    until("the worker is ready", || board.ready.load(SeqCst) == 1);
    let thread = Pid::from_raw(board.thread.load(SeqCst) as i32);
    if ptrace::attach(thread).is_err() {
        println!("SKIPPED: this machine does not let a process follow another: allow ptrace");
        worker.kill().unwrap();
        worker.wait().unwrap();
        return None;
    }
    stopped(thread);
    board.begin.store(1, SeqCst);
    Some((worker, thread))
}

fn stopped(thread: Pid) {
    waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
}

fn go_on(thread: Pid) {
    ptrace::step(thread, None).unwrap();
    stopped(thread);
}

/// Has workers make one request each and stops them after ever more instructions, `points` times;
/// calls `at_point` with each, and with how many instructions the worker has made.
fn at_all_points(
    place: &Place,
    task: &str,
    points: u64,
    mut at_point: impl FnMut(Child, Pid, u64),
) -> u64 {
    let board = place.board();
    let mut instructions = 0;
    for point in 0..=points {
        let Some((worker, thread)) = follow(place, task) else { return 0 };
        let steps = if point == 0 { u64::MAX } else { point * instructions / points };
        let mut made = 0;
        while made < steps && board.ready.load(SeqCst) < 2 {
            go_on(thread);
            made += 1;
        }
        if point == 0 {
            instructions = made;
        }
        at_point(worker, thread, made);
    }
    instructions
}

fn end(mut worker: Child, thread: Pid) {
    worker.kill().unwrap();
    let _ = waitpid(thread, Some(WaitPidFlag::__WALL));
    worker.wait().unwrap();
}

#[test]
fn death_at_any_instruction_changes_nothing_or_all() {
    let place = Place::new();
    let path = place.set("fixed:2");
    let (shared, points) = (place.shared(), kills());
    let mut with_a_slot = 0;
    let instructions = at_all_points(&place, "once", points, |worker, thread, made| {
        with_a_slot += u64::from(shared.paths()[0].state.unwrap().in_flight());
        end(worker, thread);
        shared.sweep();
        let state = shared.paths()[0].state.unwrap();
        assert_eq!((state.in_flight(), state.window()), (0, 2.0), "after {made} instructions");
        let mut holds = HoldTotals::default();
        let mut admit = || shared.admit(path, clock::now(), 4096, clock::now(), &mut holds);
        let slots = [admit().unwrap(), admit().unwrap()];
        assert!(admit().is_err());
        drop(slots);
    });
    println!("{instructions} instructions; of {points} deaths {with_a_slot} with a slot");
    // Else the points were not where they should be.
    let there = with_a_slot > points / 10 && with_a_slot < points;
    assert!(instructions == 0 || there, "{with_a_slot} of {points}");
}

/// Another process may be put aside anywhere, for however long: the others go on, and it does when
/// its time comes, with nothing counted twice and nothing lost.
#[test]
fn a_pause_at_any_instruction_holds_nobody_up() {
    let place = Place::new();
    let path = place.set("fixed:2");
    let (shared, board, points) = (place.shared(), place.board(), kills());
    let mut replies = 0;
    at_all_points(&place, "once", points, |worker, thread, made| {
        let held = shared.paths()[0].state.unwrap().in_flight();
        let mut holds = HoldTotals::default();
        let mut admit = || shared.admit(path, clock::now(), 4096, clock::now(), &mut holds);
        for _ in 0..3 {
            let slots: Vec<_> = (held..2).map(|_| admit().unwrap()).collect();
            assert!(admit().is_err(), "after {made} instructions");
            for slot in slots {
                slot.reply(clock::now()).unwrap();
                replies += 1;
            }
        }
        ptrace::detach(thread, None).unwrap();
        until("it goes on", || board.ready.load(SeqCst) == 2);
        replies += 5;
        let report = &shared.paths()[0];
        assert_eq!(report.state.unwrap().in_flight(), 0, "after {made} instructions");
        assert_eq!(report.counted.replies, replies, "after {made} instructions");
        end(worker, thread);
    });
}

/// A signal handler that ends a request at any instruction, as by a long jump, leaves nothing of it
/// behind: no place, no seat, no lane. `others` are places that this process holds meanwhile.
fn jump_at_all_points(task: &str, setting: &str, others: usize) {
    let place = Place::new();
    let path = place.set(setting);
    let (shared, board, points) = (place.shared(), place.board(), kills());
    let mut holds = HoldTotals::default();
    let mut admit = || shared.admit(path, clock::now(), 4096, clock::now(), &mut holds);
    let held: Vec<_> = (0..others).map(|_| admit().unwrap()).collect();
    let mut with_a_slot = 0;
    let instructions = at_all_points(&place, task, points, |worker, thread, made| {
        // The first counts the instructions of those after it.
        let state = || shared.paths()[0].state.unwrap();
        with_a_slot += u64::from(state().in_flight()) - others as u64;
        let replies = shared.paths()[0].counted.replies;
        ptrace::detach(thread, Signal::SIGUSR1).unwrap();
        until(&format!("the handler is done after {made} instructions of {task}"), || {
            board.ready.load(SeqCst) == 3
        });
        let report = &shared.paths()[0];
        let left = (report.waiting, state().in_flight());
        assert_eq!(left, (0, others as u32), "{task}: after {made} instructions");
        let then = if others == 0 { 3 } else { 0 };
        let since = report.counted.replies - replies;
        // What it had ended is counted, unless it was just about to be.
        assert!(since == then || since == then + 1, "{task}: {since} after {made} instructions");
        end(worker, thread);
        let slots: Vec<_> = (others..2).map(|_| admit().unwrap()).collect();
        assert!(admit().is_err());
        drop(slots);
        // The dead hold nothing, so that there is nothing to give back.
        shared.sweep();
        assert_eq!(state().in_flight(), others as u32);
    });
    drop(held);
    println!("{task}: {instructions} instructions; of {points} jumps {with_a_slot} with a slot");
    let there = others > 0 || (with_a_slot > points / 10 && with_a_slot < points);
    assert!(instructions == 0 || there, "{with_a_slot} of {points}");
}

#[test]
fn a_long_jump_at_any_instruction_keeps_nothing() {
    jump_at_all_points("jump kept now", "fixed:2", 0);
}

#[test]
fn a_long_jump_at_any_instruction_keeps_nothing_of_a_job_with_a_limit_over_all_paths() {
    jump_at_all_points("jump kept now", "fixed:9+fan-in=2", 0);
}

#[test]
fn a_long_jump_at_any_instruction_of_a_lent_lane_keeps_nothing() {
    jump_at_all_points("jump lent now", "fixed:2", 0);
}

#[test]
fn a_long_jump_at_any_instruction_of_a_wait_keeps_nothing() {
    jump_at_all_points("jump kept waits", "fixed:2", 2);
}
