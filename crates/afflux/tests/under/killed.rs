//! Programs are killed at every kind of moment: what they held must be had by others.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use afflux_core::path::HoldTotals;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use afflux_node::shared::{PathId, Shared};

use crate::built::{afflux_run, compile};
use crate::common::{controllers, on_disk, tenant};

/// How many points: 50, or what `AFFLUX_KILLS` says.
fn kills() -> u64 {
    std::env::var("AFFLUX_KILLS").map_or(50, |kills| kills.parse().unwrap())
}

const WINDOW: u32 = 2;

/// A run that kills the victim wherever it is told to.
struct Executioner {
    run: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Executioner {
    fn new(dir: &std::path::Path, job: &str) -> Self {
        compile(dir, "kill_at", include_str!("kill_at.c"));
        compile(dir, "victim", include_str!("victim.c"));
        let setting = format!("fixed:{WINDOW}");
        let mode = ["--mode", "write-behind", "--quiet"];
        let mut run = afflux_run(&["--policy", &setting, "--job", job]);
        run.args(mode).arg("--root").arg(dir).args(["--", "sh", "-c"]);
        run.arg("while read point; do ./kill_at $point ./victim; done");
        run.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = run.spawn().unwrap();
        let orders = run.stdin.take().unwrap();
        let answers = BufReader::new(run.stdout.take().unwrap());
        Self { run, orders, answers }
    }

    /// Kills a new victim at a point; how it ended, and how many points it came to.
    fn kill_at(&mut self, point: u64) -> (String, u64) {
        writeln!(self.orders, "{point}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let (how, points) = answer.trim().split_once(' ').expect("an answer");
        (how.to_owned(), points.parse().unwrap())
    }

    fn end(self) {
        let Self { mut run, orders, .. } = self;
        drop(orders);
        assert!(run.wait().unwrap().success());
    }
}

/// Requests of a job that are counted as on their way, and its paths.
pub(crate) fn of_job(shared: &Shared, job: &str) -> (u32, Vec<PathId>) {
    let tenant = tenant(shared, job);
    let paths = shared.paths().into_iter().filter(|path| path.key.tenant == tenant);
    paths.fold((0, Vec::new()), |(in_flight, mut ids), path| {
        ids.push(shared.path(path.key).unwrap());
        (in_flight + path.state.map_or(0, |state| state.in_flight()), ids)
    })
}

/// Takes the whole window, for which it need not wait long, and no more than that.
fn take_window(shared: &Shared, path: PathId, when: &str) {
    let mut holds = HoldTotals::default();
    let mut admit = |deadline: Time| shared.admit(path, clock::now(), 4096, deadline, &mut holds);
    let soon = clock::now() + Span::from_secs(5);
    let slots: Vec<_> = (0..WINDOW)
        .map(|slot| admit(soon).unwrap_or_else(|why| panic!("slot {slot} {when}: {why:?}")))
        .collect();
    assert!(admit(clock::now()).is_err(), "the window is {WINDOW} {when}");
    drop(slots);
}

#[test]
fn killed_at_any_system_call_nothing_leaks() {
    let dir = on_disk();
    let job = format!("to be killed {}", std::process::id());
    let mut executioner = Executioner::new(dir.path(), &job);
    let (how, all) = executioner.kill_at(0);
    if how == "refused" {
        println!(
            "SKIPPED: programs may not be traced here (ptrace): allow it, as in a container \
                  with --cap-add=SYS_PTRACE"
        );
        return executioner.end();
    }
    assert!(how == "ended" && all > 200, "{how} {all}");
    let shared = controllers();
    let (mut killed, mut holding) = (0, 0);
    for number in 0..kills() {
        // Spread over all points, the last of which may not come: threads do not repeat themselves.
        let point = 1 + number * (all - 1) / kills();
        let (how, _) = executioner.kill_at(point);
        killed += u64::from(how == "killed");
        let (in_flight, paths) = of_job(&shared, &job);
        holding += u64::from(in_flight > 0);
        assert!(!paths.is_empty(), "nothing was regulated");
        for path in paths {
            take_window(&shared, path, &format!("after a kill at point {point} of {all}"));
        }
    }
    executioner.end();
    println!("{killed} of {} killed at {all} points, {holding} with places", kills());
    assert!(killed >= kills() * 4 / 5, "{killed}");
    // Else the test would show nothing. About one kill in six finds places taken, by chance more or
    // less, and those that the run itself has given back by now are not seen.
    assert!(holding > 0);
}
