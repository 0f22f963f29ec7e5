//! What one process can see of a segment.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use afflux_core::class::Class;
use afflux_core::limits::HoldReason;
use afflux_core::path::{HoldTotals, PathKey};
use afflux_core::rules::{RuleFile, shipped};
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use afflux_node::shared::{AttachError, FIRST_NAMED, Mode, Refused, Shared, remove_if_unused};

use crate::worker::{KEY, Place};

fn file(place: &Place) -> std::path::PathBuf {
    std::path::PathBuf::from(std::ffi::OsStr::from_bytes(place.segment().to_bytes()))
}

#[test]
fn two_attachments_share_one_window() {
    let place = Place::new();
    let path = place.set("fixed:2");
    let (one, other) = (place.shared(), place.shared());
    let mut holds = HoldTotals::default();
    let soon = || clock::now() + Span::from_millis(20);
    let first = one.admit(path, clock::now(), 4096, soon(), &mut holds).unwrap();
    let second = other.admit(path, clock::now(), 4096, soon(), &mut holds).unwrap();
    assert_eq!(holds, HoldTotals::default());
    let third = one.admit(path, clock::now(), 4096, soon(), &mut holds);
    assert_eq!(third.unwrap_err(), Refused::Deadline);
    assert_eq!(holds.holds[HoldReason::Window.index()], 1);
    assert!(holds.held(HoldReason::Window) >= Span::from_millis(19), "{holds:?}");
    first.reply(clock::now()).unwrap();
    drop(one.admit(path, clock::now(), 4096, soon(), &mut holds).unwrap());
    second.fault(clock::now());
    let report = &other.paths()[0];
    assert_eq!((report.key, report.waiting), (KEY, 0));
    assert_eq!(report.state.unwrap().in_flight(), 0);
    assert_eq!((report.counted.replies, report.counted.bytes), (1, 4096));
    assert_eq!(report.counted.holds.holds[HoldReason::Window.index()], 1);
}

#[test]
fn an_observer_is_never_held_and_a_pause_lets_all_go() {
    let place = Place::new();
    let path = place.set("fixed:1");
    let shared = place.shared();
    let slots: Vec<_> = (0..5).map(|_| shared.observe(path, clock::now(), 4096).unwrap()).collect();
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 5);
    let mut holds = HoldTotals::default();
    let soon = clock::now() + Span::from_millis(5);
    assert!(shared.admit(path, clock::now(), 4096, soon, &mut holds).is_err());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut holds = HoldTotals::default();
            drop(shared.admit(path, clock::now(), 4096, Time::NEVER, &mut holds).unwrap());
        });
        clock::sleep(Span::from_millis(5));
        shared.set_mode(KEY.tenant, Mode::Pause).unwrap();
        waits.join().unwrap();
    });
    drop(slots);
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 0);
    assert_eq!(shared.setting_of(KEY.tenant), Some((1, Mode::Pause, "fixed:1".to_owned())));
}

#[test]
fn settings_change_while_requests_are_under_way() {
    let place = Place::new();
    let path = place.set("fixed:4");
    let shared = place.shared();
    let window = || shared.paths()[0].state.unwrap().window();
    let mut holds = HoldTotals::default();
    let slot = shared.admit(path, clock::now(), 4096, Time::NEVER, &mut holds).unwrap();
    assert_eq!(window(), 4.0);
    place.set("fixed:7");
    slot.reply(clock::now()).unwrap();
    assert_eq!(window(), 7.0);
    let text = shipped("two-step").unwrap();
    let rules = Setting::rules("two-step", &RuleFile::checked(text).unwrap()).unwrap();
    assert_eq!(shared.set(KEY.tenant, &rules, text, true), Ok(3));
    for _ in 0..20 {
        let slot = shared.admit(path, clock::now(), 4096, Time::NEVER, &mut holds).unwrap();
        let arrived = slot.sent() + Span::from_millis(1);
        assert!(slot.reply(arrived).unwrap().rule.is_some());
    }
    let counted = &shared.paths()[0].counted;
    assert_eq!(counted.hits.iter().map(|hits| hits.count).sum::<u64>(), 20);
    assert_eq!(counted.replies, 21);
    assert_eq!(shared.setting_of(KEY.tenant), Some((3, Mode::Gate, text.to_owned())));
    assert_eq!(shared.setting_of(1), None);
}

/// The segment's controller is core's: the same calls lead to the same states and rulings.
#[test]
fn decisions_are_those_of_core() {
    let place = Place::new();
    let text = shipped("deep").unwrap();
    let setting = Setting::rules("deep", &RuleFile::checked(text).unwrap()).unwrap();
    let shared = place.shared();
    shared.set(KEY.tenant, &setting, text, false).unwrap();
    let path = shared.path(KEY).unwrap();
    let controller = setting.controller(KEY.class);
    let mut state = controller.start();
    let mut rng = afflux_core::rng::Rng::new(6);
    let (mut now, mut holds) = (Time::from_nanos(5_000_000_000), HoldTotals::default());
    for _ in 0..3_000 {
        now += Span::from_micros(1_000 + rng.below(60_000));
        let size = 1 << (12 + rng.below(9));
        let limits = afflux_core::limits::Limits::default();
        // The past as a deadline: one look, no wait.
        let slot = shared.admit(path, now, size, Time::ZERO, &mut holds);
        let admitted = controller.admit(&mut state, now, size, &limits);
        assert_eq!(slot.is_ok(), admitted.is_ok());
        if let Ok(slot) = slot {
            now += Span::from_micros(rng.below(90_000));
            let (built, sent) = (slot.sent(), slot.sent());
            let reply = afflux_core::path::Reply { built, sent, arrived: now, size_bytes: size };
            assert_eq!(slot.reply(now), Some(controller.reply(&mut state, &reply)));
        }
        assert_eq!(shared.paths()[0].state, Some(state));
    }
}

#[test]
fn limits_name_their_reasons() {
    let place = Place::new();
    let path = place.set("fixed:9+cap=3+fan-in=2");
    let shared = place.shared();
    let other = shared.path(PathKey { server: 4, ..KEY }).unwrap();
    let mut holds = HoldTotals::default();
    let mut admit = |path| {
        let soon = clock::now() + Span::from_millis(3);
        shared.admit(path, clock::now(), 4096, soon, &mut holds)
    };
    let slots = [admit(path).unwrap(), admit(other).unwrap()];
    assert_eq!(admit(path).unwrap_err(), Refused::Deadline);
    drop(slots);
    let slots = [admit(other).unwrap(), admit(other).unwrap()];
    assert!(admit(other).is_err());
    drop(slots);
    shared.set_credits(other, Some(1));
    let slot = admit(other).unwrap();
    assert!(admit(other).is_err());
    drop(slot);
    let counts = [HoldReason::FanIn, HoldReason::Credits, HoldReason::Window]
        .map(|reason| holds.holds[reason.index()]);
    assert_eq!(counts, [2, 1, 0], "{holds:?}");
    assert!(shared.paths().iter().all(|path| path.state.unwrap().in_flight() == 0));
}

#[test]
fn a_gap_is_kept_by_all_together() {
    let place = Place::new();
    let path = place.set("fixed:9,gap=2ms");
    let shared = place.shared();
    let mut sent: Vec<Time> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut holds = HoldTotals::default();
                    let mut one = || {
                        let now = clock::now();
                        let slot = shared.admit(path, now, 1 << 20, Time::NEVER, &mut holds);
                        slot.unwrap().sent()
                    };
                    (0..10).map(|_| one()).collect::<Vec<Time>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    sent.sort_unstable();
    assert!(sent.windows(2).all(|pair| pair[1].since(pair[0]) >= Span::from_millis(2)));
}

#[test]
fn names_are_numbered_alike() {
    let place = Place::new();
    let (one, other) = (place.shared(), place.shared());
    let number = one.name("ost:scratch-OST0003").unwrap();
    assert_eq!(other.name("ost:scratch-OST0003"), Ok(number));
    assert_eq!(other.name_of(number).as_deref(), Some("ost:scratch-OST0003"));
    let long = "x".repeat(300);
    let other_number = other.name(&long).unwrap();
    assert!(other_number != number);
    assert_eq!(one.name_of(other_number).as_deref(), Some(&long[..112]));
    assert_eq!((one.name_of(0), one.name_of(9_999)), (None, None));
    let full = (0..2_000).find_map(|at| one.name(&format!("server {at}")).err()).unwrap();
    assert!(full.to_string().contains("names"));
    // Jobs have numbers of their own.
    assert_eq!(one.tenant("ost:scratch-OST0003"), other.tenant("ost:scratch-OST0003"));
    assert!(one.tenant("another").unwrap() >= FIRST_NAMED);
}

#[test]
fn paths_come_to_an_end_with_an_error() {
    let place = Place::new();
    let shared = place.shared();
    let path = |server| shared.path(PathKey { server, class: Class::Read, tenant: 0 });
    let full = (0..2_000).find_map(|server| path(server).err()).unwrap();
    assert_eq!(full.to_string(), "the segment has no room for more paths: at most 1024");
    assert_eq!(path(5), path(5));
    assert!(path(1 << 30).is_err());
}

#[test]
fn what_is_no_segment_of_ours_is_refused() {
    let place = Place::new();
    place.shared();
    let file = file(&place);
    let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o644);
    let refused = |place: &Place| Shared::attach(&place.segment()).unwrap_err();
    assert!(matches!(refused(&place), AttachError::NotOurs { mode: 0o644, .. }));
    mode(0o600);
    // The layout's number stands after the magic word.
    let mut bytes = vec![0; 24];
    std::io::Read::read_exact(&mut std::fs::File::open(&file).unwrap(), &mut bytes).unwrap();
    bytes[8] += 1;
    std::os::unix::fs::FileExt::write_at(
        &std::fs::File::options().write(true).open(&file).unwrap(),
        &bytes,
        0,
    )
    .unwrap();
    let AttachError::Version { found, ours } = refused(&place) else { panic!() };
    assert_eq!(found, ours + 1);
    assert!(refused(&place).to_string().contains("remove the segment"));
    // This process still has it mapped; nobody has a file that was never one.
    assert!(!remove_if_unused(&place.segment()) && file.exists());
    let other = Place::new();
    std::fs::write(self::file(&other), "of another version").unwrap();
    assert!(remove_if_unused(&other.segment()) && !self::file(&other).exists());
    std::fs::write(&file, "something else").unwrap();
    assert_eq!(refused(&place), AttachError::Foreign);
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/null", &file).unwrap();
    assert!(matches!(refused(&place), AttachError::System { doing: "open", .. }));
}

/// Whatever somebody scribbled over it, nothing panics, hangs or leaves the segment.
#[test]
fn a_scribbled_segment_does_no_harm() {
    let place = Place::new();
    let path = place.set("fixed:2");
    let shared = place.shared();
    let mut rng = afflux_core::rng::Rng::new(11);
    let file = std::fs::File::options().write(true).open(file(&place)).unwrap();
    for round in 0..12 {
        let mut noise = vec![0_u8; 1 << 18];
        noise.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
        // What stands in front is checked when a process attaches, and the keys would be gone.
        for start in [64, 9_000, 1 << 18, 1 << 20, 10 << 20] {
            let end = noise.len().min(2_000 + 10_000 * round);
            std::os::unix::fs::FileExt::write_at(&file, &noise[..end], start).unwrap();
        }
        let mut holds = HoldTotals::default();
        let soon = clock::now() + Span::from_millis(2);
        if let Ok(slot) = shared.admit(path, clock::now(), 4096, soon, &mut holds) {
            slot.reply(clock::now());
        }
        if let Ok(path) = shared.path(KEY)
            && let Ok(slot) = shared.admit(path, clock::now(), 4096, soon, &mut holds)
        {
            slot.fault(clock::now());
        }
        shared.sweep();
        shared.paths();
        let _ = shared.name("anything");
        let _ = shared.tenant("anything");
        let _ = shared.setting_of(KEY.tenant);
    }
}
