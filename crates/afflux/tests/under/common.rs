//! Running programs under the library, and reading what it says of them.

use std::path::Path;
use std::process::{Command, Output};

use afflux_node::shared::{Segment, Shared};
use serde_json::Value;

use crate::built;

/// A run that has ended.
pub(crate) struct Ran {
    pub(crate) output: Output,
    pub(crate) report: Value,
}

impl Ran {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Fails with what was printed unless the command ended well and the library stood firm.
    pub(crate) fn expect_success(self) -> Self {
        let (out, err) = (self.stdout(), self.stderr());
        assert!(self.output.status.success(), "{:?}\n{out}\n{err}", self.output.status);
        assert_eq!(self.report["faults"], 0, "{out}\n{err}");
        assert_eq!(self.report["remarks"], serde_json::json!([]), "{err}");
        self
    }

    /// Bytes of files that were seen, and that the kernel counted: reads, then writes.
    pub(crate) fn coverage(&self) -> [(u64, u64); 2] {
        ["read", "written"].map(|way| {
            let of = |part: &Value| part[way].as_u64().unwrap();
            let (report, seen) = (&self.report, &self.report["seen"]);
            let program =
                of(&report["kernel"]).saturating_sub(of(&report["loader"]) + of(&report["own"]));
            let files = program.saturating_sub(of(&seen["other"]));
            (of(&seen["regulated"]) + of(&seen["files"]), files)
        })
    }

    /// The same, with what is known to have escaped: bytes accounted for, and those of the kernel.
    pub(crate) fn accounted(&self) -> [(u64, u64); 2] {
        let escaped = ["read", "written"].map(|way| self.report["seen"]["escaped"][way].as_u64());
        let [read, written] = self.coverage();
        [(read, escaped[0]), (written, escaped[1])]
            .map(|((seen, counted), escaped)| (seen + escaped.unwrap(), counted))
    }

    /// Calls of a class, and the bytes of regulated files that they moved.
    pub(crate) fn calls(&self, class: &str) -> (u64, u64) {
        let calls = &self.report["calls"][class];
        (calls["calls"].as_u64().unwrap_or(0), calls["bytes"][0].as_u64().unwrap_or(0))
    }

    /// How often something escaped for this cause.
    pub(crate) fn escapes(&self, cause: &str) -> u64 {
        self.report["escapes"][cause]["count"].as_u64().unwrap_or(0)
    }

    /// Requests that reached a server, over all paths of a class.
    pub(crate) fn requests(&self, class: &str) -> u64 {
        self.sum(class, |path| path["requests"].as_u64())
    }

    /// Bytes of all calls, over all paths of a class.
    pub(crate) fn bytes(&self, class: &str) -> u64 {
        self.sum(class, |path| path["bytes"].as_u64())
    }

    fn sum(&self, class: &str, of: impl Fn(&Value) -> Option<u64>) -> u64 {
        let paths = self.report["paths"].as_array().unwrap();
        let mine = paths.iter().filter(|path| path["class"] == class);
        mine.map(|path| of(path).unwrap()).sum()
    }

    /// How often, and for how long in nanoseconds, requests were held for a reason.
    pub(crate) fn held(&self, reason: &str) -> (u64, u64) {
        let paths = self.report["paths"].as_array().unwrap();
        let holds = paths.iter().map(|path| &path["holds"][reason]);
        holds.fold((0, 0), |(count, nanos), hold| {
            let of = |name: &str| hold[name].as_u64().unwrap_or(0);
            (count + of("count"), nanos + of("nanos"))
        })
    }
}

/// Runs a command under `afflux run` with these arguments; files below `dir` are regulated.
pub(crate) fn under(dir: &Path, arguments: &[&str], command: &[&str]) -> Ran {
    under_with(dir, arguments, command, |_| {})
}

/// The same with changes to how `afflux run` itself is started.
pub(crate) fn under_with(
    dir: &Path,
    arguments: &[&str],
    command: &[&str],
    change: impl FnOnce(&mut Command),
) -> Ran {
    let reports = tempfile::tempdir().unwrap();
    let mut afflux = built::afflux_run(&["--quiet", "--report"]);
    afflux.arg(reports.path()).arg("--root").arg(dir).args(arguments).arg("--").args(command);
    afflux.current_dir(dir);
    change(&mut afflux);
    let output = afflux.output().unwrap();
    Ran { report: read_report(reports.path(), &output), output }
}

fn read_report(reports: &Path, output: &Output) -> Value {
    let file = std::fs::read_dir(reports).unwrap().flatten().next();
    let file = file.unwrap_or_else(|| {
        panic!("there is no report: {}", String::from_utf8_lossy(&output.stderr))
    });
    serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap()
}

/// Whether a program of a Debian package is installed; says how to install it when it is not.
pub(crate) fn has(program: &str, package: &str) -> bool {
    has_by(program, &format!("apt-get install {package}, or `make deps`"))
}

/// Whether a program is installed; says which command brings it when it is not.
pub(crate) fn has_by(program: &str, command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !there {
        println!("SKIPPED: there is no {program}: {command}");
    }
    there
}

/// A directory on the disk that the build is on, so that there is storage behind it.
pub(crate) fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The controllers that runs of this user use here.
pub(crate) fn controllers() -> Shared {
    Shared::of(Segment::Node).or_else(|_| Shared::of(Segment::User)).unwrap()
}

/// The number of a job of this user there.
pub(crate) fn tenant(shared: &Shared, job: &str) -> u32 {
    let user = rustix::process::geteuid().as_raw();
    shared.tenant(&format!("{job} of user {user}")).unwrap()
}

/// A command line for a shell.
pub(crate) fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}
