//! Many processes and threads on one path.

use std::process::Child;
use std::sync::atomic::Ordering::SeqCst;

use afflux_core::limits::HoldReason;
use afflux_core::units::Span;
use afflux_node::clock;

use crate::board::Board;
use crate::worker::Place;

/// Lets a crew work for a while, ends it, and returns what it was admitted to a second.
fn run(board: &Board, crew: Vec<Child>, length: Span) -> f64 {
    board.begin.store(1, SeqCst);
    let start = clock::now();
    clock::sleep(length);
    board.end.store(1, SeqCst);
    let admitted = board.admitted() as f64 / clock::now().since(start).as_secs_f64();
    for mut worker in crew {
        assert!(worker.wait().unwrap().success());
    }
    admitted
}

/// The path is as it was: nothing is held, nobody waits, and all that came in was counted.
fn all_is_left(place: &Place, board: &Board) {
    let report = &place.shared().paths()[0];
    assert_eq!((report.state.unwrap().in_flight(), report.waiting), (0, 0));
    assert_eq!(board.under_way.load(SeqCst), 0);
    assert_eq!(report.counted.replies, board.admitted());
}

#[test]
fn sixteen_processes_never_exceed_a_window_and_none_starves() {
    for (window, micros) in [(1, 0), (3, 0), (5, 100)] {
        let place = Place::new();
        place.set(&format!("fixed:{window}"));
        let board = place.board();
        let crew = place.crew(&format!("turns {micros}"), 16);
        run(board, crew, Span::from_secs(1));
        let most = board.most.load(SeqCst);
        // Requests of no length need not meet.
        assert!(most <= window && (micros == 0 || most == window), "{most} of {window}");
        all_is_left(&place, board);
        let counts: Vec<u64> =
            board.lines[..16].iter().map(|line| line.admitted.load(SeqCst)).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        // A process may have the path to itself until the others have started, when requests take
        // no time; those that take some meet.
        assert!(*least > 0 && (micros == 0 || most / least < 4), "{counts:?}");
        let waits = board.lines[..16].iter().map(|line| line.longest.load(SeqCst));
        let longest = Span::from_nanos(waits.max().unwrap());
        println!(
            "window {window}, {micros} us: {} admitted, longest wait {longest}",
            counts.iter().sum::<u64>()
        );
        assert!(longest < Span::from_millis(500), "{longest}");
        let holds = place.shared().paths()[0].counted.holds;
        assert!(holds.holds[HoldReason::Window.index()] > 0);
    }
}

#[test]
fn an_open_window_lets_all_through() {
    let place = Place::new();
    place.set("fixed:64");
    let board = place.board();
    let crew = place.crew("turns 0", 16);
    run(board, crew, Span::from_secs(1));
    assert!(board.most.load(SeqCst) <= 16);
    all_is_left(&place, board);
    assert_eq!(place.shared().paths()[0].counted.holds.holds, [0; 6]);
}

#[test]
fn threads_count_as_well() {
    let place = Place::new();
    place.set("fixed:3");
    let board = place.board();
    let crew = place.crew("threads", 4);
    run(board, crew, Span::from_secs(1));
    assert!(board.most.load(SeqCst) <= 3);
    all_is_left(&place, board);
}
