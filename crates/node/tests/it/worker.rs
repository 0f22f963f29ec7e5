//! Worker processes: this test's own program, started again.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;

use afflux_core::class::Class;
use afflux_core::path::{HoldTotals, PathKey};
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use afflux_node::shared::{PathId, Shared};

use crate::board::Board;

pub(crate) const KEY: PathKey = PathKey { server: 3, class: Class::Write, tenant: 9 };

/// Set for workers whose segment is kept for all users.
pub(crate) const KEPT: &str = "AFFLUX_KEPT";

/// A segment and a board in a folder of a memory file system.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        Self { folder: folder.unwrap() }
    }

    pub(crate) fn segment(&self) -> CString {
        segment_in(self.folder.path())
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        Box::leak(Box::new(Shared::attach(&self.segment()).unwrap()))
    }

    pub(crate) fn board(&self) -> &'static Board {
        Board::open(&self.folder.path().join("board"))
    }

    /// Puts a setting in force for the job of [`KEY`].
    pub(crate) fn set(&self, setting: &str) -> PathId {
        let parsed = Setting::parse(setting, &|_| Err("no files".to_owned())).unwrap();
        let shared = self.shared();
        shared.set(KEY.tenant, &parsed, setting, false).unwrap();
        shared.path(KEY).unwrap()
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts worker `number`, which does what `task` says.
    pub(crate) fn start(&self, task: &str, number: usize) -> Child {
        self.command(task, number).spawn().unwrap()
    }

    /// What starts a worker.
    pub(crate) fn command(&self, task: &str, number: usize) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "worker::worker", "--ignored", "--nocapture"]);
        command.env("AFFLUX_WORKER", format!("{task} {number}"));
        command.env("AFFLUX_FOLDER", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts workers and waits until all are ready.
    pub(crate) fn crew(&self, task: &str, size: usize) -> Vec<Child> {
        let board = self.board();
        let crew = (0..size).map(|number| self.start(task, number)).collect();
        until("the workers are ready", || board.ready.load(SeqCst) == size as u64);
        crew
    }
}

fn segment_in(folder: &Path) -> CString {
    CString::new(folder.join("segment").to_str().unwrap()).unwrap()
}

/// Waits for something that must come.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = clock::now() + Span::from_secs(60);
    while !done() {
        assert!(clock::now() < end, "waited in vain: {what}");
        clock::sleep(Span::from_micros(200));
    }
}

/// Not a test: what a worker runs.
#[test]
#[ignore = "this is what worker processes run"]
fn worker() {
    let Ok(task) = std::env::var("AFFLUX_WORKER") else { return };
    // It does not outlive a test that fails.
    let end = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(end).unwrap();
    let folder = PathBuf::from(std::env::var("AFFLUX_FOLDER").unwrap());
    let words: Vec<&str> = task.split(' ').collect();
    let number: usize = words.last().unwrap().parse().unwrap();
    let segment = segment_in(&folder);
    let shared = match std::env::var_os(KEPT) {
        Some(_) => Shared::kept_at(&segment),
        None => Shared::attach(&segment),
    };
    let shared: &'static Shared = Box::leak(Box::new(shared.unwrap()));
    let work = Work { shared, board: Board::open(&folder.join("board")), number };
    match words[0] {
        "turns" => work.turns(words[1].parse().unwrap()),
        "threads" => work.threads(),
        "hold" => work.hold(words[1].parse().unwrap()),
        "once" => work.once(),
        "jump" => work.jump(words[1] == "lent", words[2] == "waits"),
        "exec" => work.exec(),
        other => panic!("no task {other}"),
    }
}

struct Work {
    shared: &'static Shared,
    board: &'static Board,
    number: usize,
}

impl Work {
    /// One request after the other, each as long as `micros` say.
    fn turns(&self, micros: u64) {
        let path = self.shared.path(KEY).unwrap();
        self.board.ready.fetch_add(1, SeqCst);
        until("the start", || self.board.begin.load(SeqCst) != 0);
        self.requests(path, self.number, micros);
    }

    fn requests(&self, path: PathId, line: usize, micros: u64) {
        let line = &self.board.lines[line];
        let mut holds = HoldTotals::default();
        while self.board.end.load(SeqCst) == 0 {
            let asked = clock::now();
            match self.shared.admit(path, asked, 1 << 20, Time::NEVER, &mut holds) {
                Ok(slot) => {
                    self.board.enter();
                    line.longest.fetch_max(slot.sent().since(asked).as_nanos(), SeqCst);
                    if micros > 0 {
                        clock::sleep(Span::from_micros(micros));
                    }
                    self.board.leave();
                    slot.reply(clock::now());
                    line.admitted.fetch_add(1, SeqCst);
                }
                Err(_) => _ = line.refused.fetch_add(1, SeqCst),
            }
        }
    }

    /// The same from eight threads.
    fn threads(&self) {
        let path = self.shared.path(KEY).unwrap();
        self.board.ready.fetch_add(1, SeqCst);
        until("the start", || self.board.begin.load(SeqCst) != 0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || self.requests(path, 8 * self.number + thread, 0));
            }
        });
    }

    /// Takes `count` slots and keeps them until the end.
    fn hold(&self, count: usize) {
        let path = self.shared.path(KEY).unwrap();
        let mut holds = HoldTotals::default();
        let mut admit =
            || self.shared.admit(path, clock::now(), 4096, Time::NEVER, &mut holds).unwrap();
        let slots: Vec<_> = (0..count).map(|_| admit()).collect();
        self.board.ready.fetch_add(1, SeqCst);
        until("the end", || self.board.end.load(SeqCst) != 0);
        drop(slots);
    }

    /// Takes two slots and becomes another program, which knows nothing of them.
    fn exec(&self) {
        let path = self.shared.path(KEY).unwrap();
        let mut holds = HoldTotals::default();
        for _ in 0..2 {
            let slot = self.shared.admit(path, clock::now(), 4096, Time::NEVER, &mut holds);
            std::mem::forget(slot.unwrap());
        }
        self.board.ready.fetch_add(1, SeqCst);
        panic!("{}", std::os::unix::process::CommandExt::exec(Command::new("sleep").arg("60")));
    }

    /// Warms up, waits to be watched, and then makes one request.
    fn once(&self) {
        let path = self.shared.path(KEY).unwrap();
        let mut holds = HoldTotals::default();
        let mut request = |now| {
            let slot = self.shared.admit(path, now, 4096, Time::NEVER, &mut holds).unwrap();
            let arrived = slot.sent() + Span::from_millis(1);
            slot.reply(arrived).unwrap();
        };
        (1..5).for_each(|second| request(Time::from_nanos(second * 1_000_000_000)));
        self.wait_to_be_followed();
        request(Time::from_nanos(9_000_000_000));
        self.board.ready.store(2, SeqCst);
        clock::sleep(Span::from_secs(600));
    }
    fn wait_to_be_followed(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        self.board.thread.store(thread, SeqCst);
        self.board.ready.store(1, SeqCst);
        while self.board.begin.load(SeqCst) == 0 {}
    }

    /// The same with the place in its hand; a signal ends that as by a long jump, after which the
    /// thread makes three more requests. Where others of its threads keep all lanes that can be
    /// kept, it is lent one for each step. With its path full, it waits for a moment.
    fn jump(self, is_lent: bool, waits: bool) {
        let path = self.shared.path(KEY).unwrap();
        let crowd = if is_lent { 16 } else { 0 };
        for _ in 0..crowd {
            let (there, is_there) = std::sync::mpsc::channel();
            let shared = self.shared;
            std::thread::spawn(move || {
                shared.observe(path, clock::now(), 4096).unwrap().reply(clock::now()).unwrap();
                there.send(()).unwrap();
                clock::sleep(Span::from_secs(600));
            });
            is_there.recv().unwrap();
        }
        let (shared, board) = (self.shared, self.board);
        let request = move |patience| {
            let now = clock::now();
            let mut holds = HoldTotals::default();
            if shared.take(path, now, 4096, now + patience, &mut holds).is_ok() {
                shared.answer(clock::now()).unwrap();
            }
        };
        crate::board::on_signal_forever(Box::new(move || {
            let quiet = afflux_node::signals::hold_back();
            shared.abandon();
            while !shared.is_empty_handed() {
                shared.put_back();
            }
            drop(quiet);
            (0..3).for_each(|_| request(Span::ZERO));
            board.ready.store(3, SeqCst);
        }));
        (0..4).for_each(|_| request(Span::ZERO));
        self.wait_to_be_followed();
        request(if waits { Span::from_millis(20) } else { Span::ZERO });
        self.board.ready.store(2, SeqCst);
        clock::sleep(Span::from_secs(600));
    }
}
