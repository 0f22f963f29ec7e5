//! A user's own command under the library as something to measure on: `--on 'cmd:COMMAND LINE'`.
//!
//! Each trial starts the command, once for each client, with the trial's setting in force in the
//! node's controllers, and ends it when the run's length is over. What it moved is taken from the
//! counters of its paths, second by second. The shell that runs it is looked after by
//! `afflux guard`, so that no command outlives this process, however that ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use afflux_core::class::Class;
use afflux_core::limits::HoldReason;
use afflux_core::measure::{ClientMeasurement, Measurement};
use afflux_core::setting::Setting;
use afflux_core::target::{Run, Target, TargetError};
use afflux_core::units::{Span, Time};
use afflux_core::workload::Workload;
use afflux_node::clock;
use afflux_node::tally::bucket_end;
use tempfile::TempDir;

use crate::commands::guard::{self, exit_code};
use crate::failure::Failure;
use crate::run::collect::Gathered;
use crate::run::folder::{self, About};
use crate::run::job::{self, Joined};
use crate::run::library;
use crate::run::record::PathRecord;

/// How often is looked whether the command has ended, and how often counters are gathered.
const LOOK: Span = Span::from_millis(20);
const GATHER: Span = Span::from_millis(500);

/// What a client of several finds its number in, from 0.
const CLIENT: &str = "AFFLUX_CLIENT";

const SECOND: u64 = 1_000_000_000;

/// Paths by server and class.
type Paths = BTreeMap<(String, String), PathRecord>;

/// A command line under the library.
pub(crate) struct CommandTarget {
    name: String,
    command: String,
    library: PathBuf,
    clients: u32,
    setting: Setting,
    jobs: Vec<(String, Joined)>,
}

impl CommandTarget {
    /// What runs `command` in a shell; `name` is as written after `--on`.
    pub(crate) fn new(name: &str, command: &str) -> Result<Self, Failure> {
        if command.trim().is_empty() {
            return Err(Failure::input("there is no command: write one, as in --on 'cmd:./app'"));
        }
        let library = library::find()?;
        let (name, command, setting) = (name.to_owned(), command.to_owned(), Setting::none());
        Ok(Self { name, command, library, clients: 1, setting, jobs: Vec::new() })
    }

    fn failed(&self, doing: &str, why: impl std::fmt::Display) -> TargetError {
        let (target, doing) = (self.name.clone(), doing.to_owned());
        TargetError::Failed { target, doing, why: why.to_string() }
    }

    /// Puts the setting in force for each client, with controllers that start anew.
    fn regulate(&mut self) -> Result<(), TargetError> {
        for client in self.jobs.len()..self.clients as usize {
            let job = format!("trial {}-{client}-{}", std::process::id(), clock::calendar_secs());
            let mut said = Vec::new();
            let joined = job::join(&job, &self.setting, &mut said);
            let joined = joined.map_err(|error| self.failed("regulating", error))?;
            // Without them each process would follow the text of a setting, which a search's
            // candidates have none of.
            let joined = joined
                .ok_or_else(|| self.failed("regulating", String::from_utf8_lossy(&said).trim()))?;
            self.jobs.push((job, joined));
        }
        for (_, joined) in &self.jobs {
            joined.restart(&self.setting).map_err(|full| self.failed("regulating", full))?;
        }
        Ok(())
    }

    /// Waits until all clients have ended, and ends them when their time is over.
    fn watch(&self, started: &mut [Started], run: &Run<'_>, start: Time) {
        let length = run.settle + run.length;
        let mut gather = start + GATHER;
        loop {
            let now = clock::now();
            started.iter_mut().for_each(|one| one.look(now));
            if run.settle > Span::ZERO && now.since(start) >= run.settle {
                started.iter_mut().for_each(Started::settle);
            }
            let is_over = now.since(start) >= length || run.progress.is_cancelled();
            if is_over || started.iter().all(|one| one.ended.is_some()) {
                break;
            }
            if now >= gather {
                gather = now + GATHER;
                started.iter_mut().for_each(|one| one.gather(false));
                self.jobs.iter().for_each(|(_, joined)| joined.keep());
                run.progress.reached(now.since(start).as_secs_f64() / length.as_secs_f64());
            }
            clock::sleep(LOOK);
        }
        // All are told before any is waited for.
        started.iter_mut().for_each(|one| drop(one.guard.stdin.take()));
        for one in started {
            let _ = one.guard.wait();
            one.gather(true);
        }
    }

    fn measurement(
        &self,
        started: &[Started],
        run: &Run<'_>,
        start: Time,
    ) -> Result<Measurement, TargetError> {
        for one in started {
            self.check(one)?;
        }
        let ends = started.iter().map(|one| one.ended.map_or(Time::NEVER, |(at, _)| at));
        let lived = ends.max().unwrap_or(start).since(start);
        let first = run.settle.as_nanos().div_ceil(SECOND) as usize;
        let most = (run.length.as_nanos() / SECOND) as usize;
        let seconds = ((lived.as_nanos() / SECOND) as usize).saturating_sub(first).min(most);
        if seconds == 0 {
            let why = format!(
                "the command ended after {:.1} s, before a second was counted: give it more to \
                 do, or count from its start with --settle 0s",
                lived.as_secs_f64()
            );
            return Err(TargetError::Unsuitable { target: self.name.clone(), why });
        }
        let clients = started.iter().map(|one| one.measured(first, seconds)).collect();
        Ok(Measurement { counted_secs: seconds as f64, clients })
    }

    /// Whether what a client did can be counted on.
    fn check(&self, one: &Started) -> Result<(), TargetError> {
        if let Some((_, status)) = one.ended.filter(|(_, status)| !status.success()) {
            let why = format!("it ended with {}: {}", exit_code(status), one.last_words());
            return Err(self.failed("running the command", why));
        }
        let gathered = &one.gathered;
        if gathered.faults > 0 || gathered.private > 0 || gathered.lost > 0 {
            let why = format!(
                "{} errors in the library, {} programs on their own, {} without counters",
                gathered.faults, gathered.private, gathered.lost
            );
            return Err(self.failed("counting", why));
        }
        if gathered.paths.values().all(|path| path.bytes == 0) {
            let why = "the library saw no byte of a file that storage is behind: the command is \
                       static or privileged, or it uses memory and pipes only"
                .to_owned();
            return Err(TargetError::Unsuitable { target: self.name.clone(), why });
        }
        Ok(())
    }
}

impl Target for CommandTarget {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// Files are the command's own affair; the workload only says how many clients there are.
    fn prepare(&mut self, workload: &Workload) -> Result<(), TargetError> {
        self.clients = workload.clients;
        self.jobs.truncate(self.clients as usize);
        Ok(())
    }

    fn deploy(&mut self, setting: &Setting) -> Result<(), TargetError> {
        job::check(setting).map_err(|error| {
            let (target, why) = (self.name.clone(), error.to_string());
            TargetError::Unsuitable { target, why }
        })?;
        self.setting = setting.clone();
        Ok(())
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Measurement, TargetError> {
        self.regulate()?;
        let start = clock::now();
        let mut started = Vec::new();
        for client in 0..self.jobs.len() {
            let begun = Started::start(self, client, start);
            started.push(begun.map_err(|error| self.failed("starting the command", error))?);
        }
        self.watch(&mut started, run, start);
        if run.progress.is_cancelled() {
            return Err(TargetError::Cancelled);
        }
        self.measurement(&started, run, start)
    }
}

/// The command of one client while it runs, and after.
struct Started {
    guard: Child,
    folder: TempDir,
    gathered: Gathered,
    /// The paths as they were when counting began, where that was not at the start.
    before: Option<Paths>,
    /// When and how it ended by itself.
    ended: Option<(Time, ExitStatus)>,
}

impl Started {
    fn start(target: &CommandTarget, client: usize, start: Time) -> Result<Self, Failure> {
        let (command, (job, joined)) = (&target.command, &target.jobs[client]);
        let about = About {
            pid: std::process::id(),
            job: job.clone(),
            command: vec![command.clone()],
            mode: "gate".to_owned(),
            segment: Some(joined.segment.name().to_owned()),
        };
        let folder = folder::make(&about)?;
        let errors = File::create(folder.path().join(ERRORS)).map_err(Failure::broken)?;
        let before = std::env::var_os("LD_PRELOAD");
        let preload = library::preload(&target.library, before.as_deref())?;
        let executable = std::env::current_exe().map_err(Failure::broken)?;
        let guard = Command::new(executable)
            .args([guard::NAME, "--at-once", "--", &under(&preload, command)?])
            .env("AFFLUX_RUN", folder.path())
            .env("AFFLUX_MODE", &about.mode)
            .env("AFFLUX_ROOTS", "")
            .env("AFFLUX_JOB", job)
            .env("AFFLUX_SEGMENT", joined.segment.name())
            .env("AFFLUX_SETTING", "none")
            .env("AFFLUX_PATIENCE", "60")
            .env("AFFLUX_START", start.as_nanos().to_string())
            .env(CLIENT, client.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(errors)
            // Ctrl-C is for us: commands are ended when the run has come to a stop.
            .process_group(0)
            .spawn()
            .map_err(Failure::broken)?;
        Ok(Self { guard, folder, gathered: Gathered::default(), before: None, ended: None })
    }

    fn look(&mut self, now: Time) {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.guard.try_wait()
        {
            self.ended = Some((now, status));
        }
    }

    fn gather(&mut self, all: bool) {
        self.gathered.gather(self.folder.path(), all);
    }

    /// Counting begins now, if it has not.
    fn settle(&mut self) {
        let so_far = || self.gathered.paths_so_far(self.folder.path());
        self.before.get_or_insert_with(so_far);
    }

    /// What it did in so many seconds from `first` on. Which rules decided is not told.
    fn measured(&self, first: usize, seconds: usize) -> ClientMeasurement {
        let mut client = ClientMeasurement {
            seconds: vec![[0; 2]; seconds],
            active_secs: seconds as f64,
            ..ClientMeasurement::default()
        };
        for (key, path) in &self.gathered.paths {
            let Ok(class) = path.class.parse::<Class>() else { continue };
            let before = self.before.as_ref().and_then(|paths| paths.get(key));
            add_path(&mut client, class, path, before.unwrap_or(&PathRecord::default()));
            let counted = path.bytes_by_second.iter().skip(first);
            // Only reads and writes move bytes.
            for (sum, bytes) in client.seconds.iter_mut().zip(counted) {
                if let Some(sum) = sum.get_mut(class.index()) {
                    *sum += bytes;
                }
            }
        }
        client
    }

    /// The end of what it said was wrong.
    fn last_words(&self) -> String {
        let said = fs::read(self.folder.path().join(ERRORS)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<_> = said.lines().rev().take(3).collect();
        match lines.is_empty() {
            true => "it said nothing".to_owned(),
            false => lines.into_iter().rev().collect::<Vec<_>>().join("; "),
        }
    }
}

/// Where in the folder of a run the command's errors go.
const ERRORS: &str = "errors";

/// The command line with the library under it, and under nothing before it.
fn under(preload: &OsStr, command: &str) -> Result<String, Failure> {
    let quoted = |text: &str| {
        let quoted = shlex::try_quote(text).map(std::borrow::Cow::into_owned);
        quoted.map_err(|error| Failure::input(format!("`{}`: {error}", text.escape_debug())))
    };
    let preload = format!("LD_PRELOAD={}", preload.to_string_lossy());
    Ok(format!("exec env {} sh -c {}", quoted(&preload)?, quoted(command)?))
}

/// Adds the requests of a path that came after those of `before`.
fn add_path(client: &mut ClientMeasurement, class: Class, path: &PathRecord, before: &PathRecord) {
    client.data_paths += u32::from(class != Class::Metadata && path.requests > before.requests);
    let longest = Span::from_nanos(path.pt_max_nanos);
    let earlier = before.pt_buckets.iter().copied().chain(std::iter::repeat(0));
    for (bucket, (count, earlier)) in path.pt_buckets.iter().zip(earlier).enumerate() {
        let times = &mut client.process_time[class.index()];
        times.record_all(bucket_end(bucket).min(longest), count.saturating_sub(earlier));
    }
    let totals = &mut client.holds[class.index()];
    for reason in HoldReason::ALL {
        let of = |path: &PathRecord| path.holds.get(reason.name()).copied().unwrap_or_default();
        let (all, earlier) = (of(path), of(before));
        totals.holds[reason.index()] += all.count.saturating_sub(earlier.count);
        totals.held_nanos[reason.index()] += all.nanos.saturating_sub(earlier.nanos);
    }
}
