//! The house rules that a test can hold: what ARCHITECTURE.md promises, checked against the files.
//!
//! Each check takes the tree as text and says what is wrong, where, and what to do. Beside it stand
//! small trees that it must refuse, since a check that cannot fail is a defect. What a check is
//! about may not exist yet (a crate, a document); it then holds as soon as that appears.

#![allow(clippy::unwrap_used, reason = "a tree that cannot be read fails the test")]

#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/docs.rs"]
mod docs;
#[path = "tidy/map.rs"]
mod map;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tree.rs"]
mod tree;

use tree::Tree;

/// A rule of the house.
struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<String>,
}

static RULES: &[Rule] = &[
    Rule { name: "who may know whom", check: map::dependencies },
    Rule { name: "files stand in their registries", check: map::registries },
    Rule { name: "ARCHITECTURE.md names every part", check: map::architecture },
    Rule { name: "only the printer prints", check: code::streams },
    Rule { name: "no print macros", check: code::prints },
    Rule { name: "one clock", check: code::clocks },
    Rule { name: "files, functions and lines stay short", check: code::sizes },
    Rule { name: "names say what is inside", check: code::names },
    Rule { name: "no unsafe code", check: code::unsafety },
    Rule { name: "documents tell what exists", check: docs::promises },
    Rule { name: "nothing of this machine", check: docs::leaks },
];

#[test]
fn the_house_is_tidy() {
    let tree = Tree::of_the_workspace();
    let mut complaints = Vec::new();
    for rule in RULES {
        complaints.extend((rule.check)(&tree).iter().map(|text| format!("{text} [{}]", rule.name)));
    }
    assert!(complaints.is_empty(), "{}\n", complaints.join("\n"));
}

#[test]
fn the_tree_is_really_there() {
    let tree = Tree::of_the_workspace();
    for path in ["Cargo.toml", "crates/core/src/lib.rs", "crates/afflux/tests/tidy.rs"] {
        assert!(!tree.text(path).is_empty(), "{path} was not read");
    }
    for crate_name in tree.crates() {
        assert!(!tree.sources(&crate_name).is_empty(), "{crate_name} has no sources");
    }
}
