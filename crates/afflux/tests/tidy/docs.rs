//! Checks of what people read: links, commands and targets that exist; nothing of this machine.

use crate::tree::Tree;

/// Documents for the public, by path.
fn documents(tree: &Tree) -> Vec<(&str, &str)> {
    let named = ["README.md", "ARCHITECTURE.md", "HACKING.md", "CHANGELOG.md"];
    let is_one = |path: &str| named.contains(&path) || path.starts_with("docs/");
    tree.files().filter(|(path, _)| path.ends_with(".md") && is_one(path)).collect()
}

/// Links that lead nowhere, and commands and targets that do not exist.
pub(crate) fn promises(tree: &Tree) -> Vec<String> {
    let targets = targets(tree.text("Makefile"));
    let mut complaints = Vec::new();
    for (path, text) in documents(tree) {
        let mut fenced = false;
        for (number, line) in (1..).zip(text.lines()) {
            let at = format!("{path}:{number}");
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            if !fenced {
                for link in links(line) {
                    if !resolves(tree, path, link) {
                        complaints.push(format!("{at}: {link} does not exist: mend the link"));
                    }
                }
            }
            let pieces = if fenced { vec![line] } else { spans(line) };
            for command in pieces.iter().flat_map(|piece| commands(piece)) {
                let file = format!("crates/afflux/src/commands/{command}");
                let known = [format!("{file}.rs"), format!("{file}/mod.rs")];
                if command != "help" && !known.iter().any(|path| tree.exists(path)) {
                    complaints.push(format!(
                        "{at}: there is no `afflux {command}`: name one that exists, or write \
                         {file}.rs"
                    ));
                }
            }
            for target in pieces.iter().filter_map(|piece| target(piece)) {
                if !targets.contains(&target) {
                    complaints.push(format!(
                        "{at}: there is no `make {target}`: name one that exists, or add it to \
                         the Makefile"
                    ));
                }
            }
        }
    }
    complaints
}

/// Where the links of a line lead.
fn links(line: &str) -> Vec<&str> {
    let pieces = line.split("](").skip(1);
    pieces.filter_map(|piece| Some(piece.split_once(')')?.0)).collect()
}

/// Whether a link of the document at `path` leads to a file, or out of the tree.
fn resolves(tree: &Tree, path: &str, link: &str) -> bool {
    let file = link.split('#').next().unwrap_or_default();
    if link.contains("://") || link.starts_with("mailto:") || file.is_empty() {
        return true;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.is_empty() => return false,
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    tree.exists(&parts.join("/"))
}

/// What stands between backticks.
fn spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// The words after `afflux` in a command line, when they look like subcommands.
fn commands(text: &str) -> Vec<&str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_program = |at: usize| {
        let name = words[at].rsplit('/').next().unwrap_or_default();
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        name == "afflux" && !["-p", "--package", "--bin"].contains(&before)
    };
    let word = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    };
    let after = (0..words.len()).filter(|at| is_program(*at)).filter_map(|at| words.get(at + 1));
    // `lab up|down` and `up,` are words too; what follows the word is not.
    after
        .map(|text| text.split(['|', ',', ';', ')']).next().unwrap_or_default())
        .filter(word)
        .collect()
}

/// The target of a line that calls make.
fn target(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace().filter(|word| *word != "$");
    let call = words.next()?;
    words.next().filter(|word| call == "make" && !word.starts_with('-') && !word.contains('='))
}

/// The targets of a Makefile.
fn targets(text: &str) -> Vec<&str> {
    let rules = text.lines().filter(|line| !line.starts_with(['\t', '#', '.', ' ']));
    let heads = rules.filter_map(|line| line.split_once(':'));
    let names = heads.filter(|(_, after)| !after.starts_with('='));
    names.flat_map(|(names, _)| names.split_whitespace()).collect()
}

/// What only makes sense where this was written, and the hosts of package registries; put together
/// here, so that this file does not name them either.
const LEAKS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/tmp", "/wt"),
    concat!("../sha", "red"),
    concat!("crates", ".io"),
    concat!("py", "pi"),
    concat!("npm", "js"),
];

/// Tracked files that name [`LEAKS`].
pub(crate) fn leaks(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files() {
        // A test may use the papers' data where they are, if it says that it was skipped elsewhere.
        let skips = path.contains("/tests/") && text.contains("skipped:");
        for (number, line) in (1..).zip(text.lines()) {
            let source = path == "Cargo.lock" && line.starts_with("source = \"registry+");
            for leak in LEAKS.iter().filter(|leak| line.contains(**leak)) {
                if source || (skips && *leak == LEAKS[2]) {
                    continue;
                }
                complaints.push(format!(
                    "{path}:{number}: names {leak}, which others do not have: take it out (or, in \
                     a test, print `skipped:` where it is not there)"
                ));
            }
        }
    }
    complaints
}

fn said(check: fn(&Tree) -> Vec<String>, path: &str, text: &str) -> usize {
    let command = ("crates/afflux/src/commands/lab.rs", "");
    let make = ("Makefile", "X := 1\n.PHONY: gone\nall: test\ntest lint:\n\tmake: x\n");
    check(&Tree::of(&[(path, text), ("docs/a.md", ""), command, make])).len()
}

#[test]
fn links_lead_somewhere() {
    assert_eq!(said(promises, "README.md", "[a](docs/a.md) [b](docs/) [c](#x) [d](https://e)"), 0);
    assert_eq!(said(promises, "README.md", "[a](docs/b.md) [b](a.md)"), 2);
    assert_eq!(said(promises, "docs/b.md", "[a](a.md#x) [b](../docs/a.md)"), 0);
    assert_eq!(said(promises, "docs/b.md", "[a](docs/a.md) [b](../../README.md)"), 2);
    assert_eq!(said(promises, "notes/b.md", "[a](nowhere)"), 0);
}

#[test]
fn commands_exist() {
    assert_eq!(said(promises, "README.md", "`afflux lab up` afflux is `afflux --help`"), 0);
    assert_eq!(said(promises, "README.md", "`afflux fly` and `afflux lab|dance`"), 1);
    assert_eq!(said(promises, "README.md", "```\ntarget/release/afflux fly\n```\nafflux fly"), 1);
    assert_eq!(said(promises, "README.md", "`cargo test -p afflux lib`, `afflux (one)`"), 0);
    assert_eq!(said(promises, "docs/b.md", "```\n$ afflux sing, afflux lab\n```"), 1);
}

#[test]
fn targets_exist() {
    assert_eq!(
        said(promises, "HACKING.md", "`make test`, `make`, `make -j2`, `make X=1` make it"),
        0
    );
    assert_eq!(said(promises, "HACKING.md", "`make gone` `make X`\n```\n$ make lunch\n```"), 3);
}

#[test]
fn nothing_of_this_machine_is_seen_through() {
    let [work, worktree, shared, index, ..] = LEAKS else { panic!() };
    assert_eq!(said(leaks, "a.rs", &format!("let a = \"{work}main\";\n// {shared}/x")), 2);
    assert_eq!(said(leaks, "a.md", &LEAKS[3..].join(" and ")), 3);
    let test = "crates/core/tests/a.rs";
    assert_eq!(said(leaks, test, &format!("skip(\"{shared}/x\")")), 1);
    assert_eq!(said(leaks, test, &format!("println!(\"skipped: no {shared}\")")), 0);
    assert_eq!(said(leaks, test, &format!("// skipped: {worktree}")), 1);
    let source = &format!("source = \"registry+https://example/{index}-index\"");
    assert_eq!((said(leaks, "Cargo.lock", source), said(leaks, "Cargo.toml", source)), (0, 1));
}
