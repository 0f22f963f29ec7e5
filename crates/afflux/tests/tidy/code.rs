//! Checks of the Rust code itself.

use crate::source::{code_of, functions, line_of, without_tests, words};
use crate::tree::Tree;

/// Files that may name the streams of the process.
const PRINTERS: &[&str] = &[
    "crates/afflux/src/main.rs",
    "crates/afflux/src/printer.rs",
    "crates/afflux/src/progress.rs",
    // The log of a lab's server, a process of its own whose stderr `lab up` sends to a file.
    "crates/store/src/lab/server/mod.rs",
    // The C library's streams of the program that the library is put under; nothing is printed.
    "crates/preload/src/stream.rs",
    "crates/preload/src/wrap/streams.rs",
    "crates/preload/src/wrap/text.rs",
];

/// Files that may use print macros.
const PRINT_MACROS: &[&str] = &[
    // The suite that the tests of all engines run; a test shows what it prints when it fails.
    "crates/store/src/engine/conformance.rs",
];

/// Files that may contain `unsafe`, each with a reason beside it.
const UNSAFE: &[&str] = &[
    // Defines functions of the C library, which are unsafe to call and are called from C.
    "crates/preload/src/next.rs",
    "crates/preload/src/wrap/asynchronous.rs",
    "crates/preload/src/wrap/bytes.rs",
    "crates/preload/src/wrap/descriptors.rs",
    "crates/preload/src/wrap/durable.rs",
    "crates/preload/src/wrap/files.rs",
    "crates/preload/src/wrap/library.rs",
    "crates/preload/src/wrap/process.rs",
    "crates/preload/src/wrap/streams.rs",
    "crates/preload/src/wrap/text.rs",
    // Makes system calls by itself, since the C library's names are its own.
    "crates/preload/src/raw.rs",
    "crates/preload/src/cache.rs",
    // The program's own pointers: buffers that a read is tried into, streams, paths, environment.
    "crates/preload/src/gate.rs",
    "crates/preload/src/stream.rs",
    "crates/preload/src/strangers.rs",
    // Counters that are mapped, and the functions that the dynamic linker calls.
    "crates/preload/src/run.rs",
    "crates/preload/src/start.rs",
    // Reads the buffers of long jumps, which are the C library's.
    "crates/preload/src/jump.rs",
    // Calls the functions of Ceph's client library, which are C's.
    "crates/librados/src/cluster.rs",
    "crates/librados/src/functions.rs",
    "crates/librados/src/keys.rs",
    "crates/librados/src/pool.rs",
    "crates/librados/src/request.rs",
    // Maps the memory that processes share.
    "crates/node/src/shared/memory.rs",
    // Holds signals back, for which the C library wants sets of its own making.
    "crates/node/src/signals.rs",
    // The same for the board on which the tests of that count.
    "crates/node/tests/it/board.rs",
];

/// The only file that reads a clock or waits for one.
const CLOCK: &str = "crates/node/src/clock.rs";

/// Lines of a file, of a function's body, and columns of a line, at most.
const FILE_LINES: usize = 600;
const BODY_LINES: usize = 70;
const COLUMNS: usize = 100;

/// The code of a file under `src`, without its tests; empty when the whole file is a test.
fn production(path: &str, text: &str) -> String {
    match path.ends_with("/tests.rs") || path.contains("/tests/") {
        true => String::new(),
        false => without_tests(&code_of(text)),
    }
}

/// Streams of the process: `stdout` and `stderr` that are not the field or the setting of a child.
pub(crate) fn streams(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.all_sources() {
        if PRINTERS.contains(&path) {
            continue;
        }
        let code = production(path, text);
        for name in ["stdout", "stderr", "Stdout", "Stderr"] {
            for at in words(&code, name).filter(|at| !code[..*at].trim_end().ends_with('.')) {
                complaints.push(format!(
                    "{path}:{}: names {name}: return what is to be told, or write to the streams \
                     that the printer hands over",
                    line_of(&code, at)
                ));
            }
        }
    }
    complaints
}

/// Macros that print wherever they stand.
pub(crate) fn prints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.all_sources() {
        if PRINT_MACROS.contains(&path) {
            continue;
        }
        let code = production(path, text);
        for name in ["println!", "eprintln!", "print!", "eprint!", "dbg!"] {
            for at in words(&code, name) {
                complaints.push(format!(
                    "{path}:{}: {name}: return it, or write it to a stream that was handed over",
                    line_of(&code, at)
                ));
            }
        }
    }
    complaints
}

/// Here the interface to the kernel names the type of calendar times; nobody reads the calendar.
const CALENDAR_TYPE: &str = "crates/store/src/mount/serve.rs";

/// Clocks, and waiting for them.
pub(crate) fn clocks(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.all_sources().into_iter().filter(|(path, _)| *path != CLOCK) {
        let calendar = if path == CALENDAR_TYPE { "SystemTime::now" } else { "SystemTime" };
        let all = ["Instant::now", calendar, "clock_gettime", "clock_nanosleep", "thread::sleep"];
        let code = production(path, text);
        // The command line shows the time that is left, which is nobody else's affair.
        let own_instant = path.starts_with("crates/afflux/");
        for name in all.iter().filter(|name| !(own_instant && **name == "Instant::now")) {
            for at in words(&code, name) {
                complaints.push(format!(
                    "{path}:{}: {name}: take the time as an argument, or use {CLOCK}",
                    line_of(&code, at)
                ));
            }
        }
    }
    complaints
}

/// Long files, functions and lines.
pub(crate) fn sizes(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.rust() {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            complaints.push(format!(
                "{path}:{lines}: {lines} lines: move a subject of its own into a file of its own, \
                 so that no file has more than {FILE_LINES}"
            ));
        }
        let code = code_of(text);
        for ((number, line), seen) in (1..).zip(text.lines()).zip(code.lines()) {
            let columns = line.chars().count();
            // A line that lies within a literal is data, which may not be breakable.
            let data = seen.trim().is_empty() && !line.trim_start().starts_with(['/', '*']);
            if columns > COLUMNS && !data {
                complaints.push(format!(
                    "{path}:{number}: {columns} columns: break the line at {COLUMNS}"
                ));
            }
        }
        for function in functions(&code) {
            if function.body_lines > BODY_LINES {
                complaints.push(format!(
                    "{path}:{}: `{}` has {} lines: give a part of it a name, so that no function \
                     has more than {BODY_LINES}",
                    function.line, function.name, function.body_lines
                ));
            }
        }
    }
    complaints
}

/// Names that say nothing.
pub(crate) fn names(tree: &Tree) -> Vec<String> {
    let empty = ["utils", "util", "helpers", "helper", "misc"];
    let mut complaints = Vec::new();
    for (path, text) in tree.rust() {
        let mut parts = path.trim_end_matches(".rs").split('/');
        if let Some(name) = parts.find(|part| empty.contains(part)) {
            complaints.push(format!("{path}:1: `{name}` says nothing: name it after its subject"));
        }
        let code = code_of(text);
        for at in words(&code, "mod") {
            let name =
                code[at + 3..].trim_start().split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(name) = name.take(1).find(|name| empty.contains(name)) {
                let line = line_of(&code, at);
                complaints.push(format!(
                    "{path}:{line}: `mod {name}` says nothing: name it after its subject"
                ));
            }
        }
    }
    complaints
}

/// `unsafe`, and crates that do not forbid it though they have none.
pub(crate) fn unsafety(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !UNSAFE.contains(path)) {
        let code = code_of(text);
        for at in words(&code, "unsafe") {
            complaints.push(format!(
                "{path}:{}: unsafe: find a safe way, or add the file with its reason to UNSAFE in \
                 crates/afflux/tests/tidy/code.rs",
                line_of(&code, at)
            ));
        }
    }
    for name in tree.crates() {
        if UNSAFE.iter().any(|path| path.starts_with(&format!("crates/{name}/src/"))) {
            continue;
        }
        for root in ["lib.rs", "main.rs"].map(|file| format!("crates/{name}/src/{file}")) {
            let code = code_of(tree.text(&root));
            if tree.exists(&root) && !code.contains("#![forbid(unsafe_code)]") {
                complaints.push(format!("{root}:1: write #![forbid(unsafe_code)] below its head"));
            }
        }
    }
    complaints
}

/// What the check says of one file.
fn said(check: fn(&Tree) -> Vec<String>, path: &str, text: &str) -> usize {
    check(&Tree::of(&[(path, text)])).len()
}

#[test]
fn streams_are_seen_and_those_of_children_are_not_meant() {
    let path = "crates/store/src/a.rs";
    assert_eq!(said(streams, path, "use std::io::stdout;\nfn f() { io::stderr().lock(); }"), 2);
    assert_eq!(said(streams, path, "fn f(s: std::io::Stdout) {}"), 1);
    assert_eq!(said(streams, path, "// stdout\nlet a = \"stderr\"; child.stdout.take();"), 0);
    assert_eq!(said(streams, path, "command\n  .stderr(Stdio::null())"), 0);
    assert_eq!(said(streams, path, "#[cfg(test)]\nmod tests { fn f() { io::stdout(); } }"), 0);
    assert_eq!(said(streams, "crates/afflux/src/printer.rs", "io::stdout()"), 0);
}

#[test]
fn print_macros_are_seen_outside_of_tests() {
    let text = "fn f() { println!(); eprintln!(\"dbg!\"); dbg!(1); print!(); eprint!() }";
    assert_eq!(said(prints, "crates/core/src/a.rs", text), 5);
    assert_eq!(said(prints, "crates/core/tests/a.rs", text), 0);
    assert_eq!(said(prints, "crates/core/src/a/tests.rs", text), 0);
}

#[test]
fn clocks_are_seen_outside_of_their_place() {
    let text = "fn f() { Instant::now(); thread::sleep(x); rustix::time::clock_gettime(y); }";
    assert_eq!(said(clocks, "crates/store/src/a.rs", text), 3);
    assert_eq!(said(clocks, "crates/afflux/src/a.rs", text), 2);
    assert_eq!(said(clocks, CLOCK, text), 0);
    assert_eq!(said(clocks, "crates/store/src/a.rs", "use std::time::SystemTime;"), 1);
    assert_eq!(said(clocks, CALENDAR_TYPE, "use std::time::SystemTime;"), 0);
    assert_eq!(said(clocks, CALENDAR_TYPE, "fn f() { SystemTime::now(); }"), 1);
}

#[test]
fn what_is_too_long_is_seen() {
    let path = "crates/core/tests/a.rs";
    assert_eq!(said(sizes, path, &"\n".repeat(600)), 0);
    assert_eq!(said(sizes, path, &"\n".repeat(601)), 1);
    assert_eq!(said(sizes, path, &"é".repeat(100)), 0);
    assert_eq!(said(sizes, path, &"é".repeat(101)), 1);
    assert_eq!(said(sizes, path, &format!("\"\n{}\n\"", "é".repeat(101))), 0);
    assert_eq!(said(sizes, path, &format!("    // {}", "é".repeat(101))), 1);
    let function = |lines| format!("fn long() {{\n{}}}\n", "x;\n".repeat(lines));
    assert_eq!(said(sizes, path, &function(70)), 0);
    assert_eq!(said(sizes, path, &function(71)), 1);
}

#[test]
fn empty_names_are_seen() {
    assert_eq!(said(names, "crates/core/src/utils.rs", ""), 1);
    assert_eq!(said(names, "crates/core/src/misc/a.rs", ""), 1);
    assert_eq!(said(names, "crates/core/src/a.rs", "mod helpers {}\nmod helpers_of_kings;"), 1);
}

#[test]
fn unsafe_code_is_seen_and_its_absence_is_declared() {
    let forbids = "//! Head.\n#![forbid(unsafe_code)]\n";
    assert_eq!(said(unsafety, "crates/core/src/lib.rs", forbids), 0);
    assert_eq!(said(unsafety, "crates/core/src/lib.rs", "//! #![forbid(unsafe_code)]"), 1);
    assert_eq!(said(unsafety, "crates/core/src/a.rs", "// unsafe\nfn f() { unsafe { g() } }"), 1);
    assert_eq!(said(unsafety, "crates/core/benches/a.rs", "unsafe fn f() {}"), 1);
}
