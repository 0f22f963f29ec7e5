//! Checks of the map: who knows whom, what is registered, what ARCHITECTURE.md names.

use std::collections::BTreeSet;

use crate::source::{code_of, words};
use crate::tree::Tree;

/// Which crates of ours a crate may know; `sim` besides in the tests of `store`.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("sim", &["core"]),
    ("node", &["core"]),
    ("librados", &[]),
    ("store", &["core", "node", "librados"]),
    ("preload", &["core", "node"]),
    ("agent", &["core", "node", "store"]),
    ("manager", &["core"]),
    ("afflux", &["core", "sim", "node", "store", "agent", "manager"]),
];

/// What only `manager` may use.
const ASYNC_AND_SQL: &[&str] =
    &["tokio", "axum", "hyper", "async-std", "smol", "rusqlite", "sqlx", "diesel"];

/// Dependencies against [`MAY_KNOW`] and [`ASYNC_AND_SQL`].
pub(crate) fn dependencies(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let text = tree.text(&path);
        let Ok(manifest) = text.parse::<toml::Table>() else {
            complaints.push(format!("{path}:1: is missing or no TOML: write it"));
            continue;
        };
        let Some((_, may_know)) = MAY_KNOW.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!(
                "{path}:1: nobody said what {name} may know: add it to MAY_KNOW in \
                 crates/afflux/tests/tidy/map.rs and to ARCHITECTURE.md"
            ));
            continue;
        };
        for (dependency, for_tests) in dependencies_of(&manifest) {
            let at =
                text.lines().position(|line| line.contains(&dependency)).map_or(1, |at| at + 1);
            if let Some(ours) = dependency.strip_prefix("afflux-") {
                let excused = for_tests && name == "store" && ours == "sim";
                if !may_know.contains(&ours) && !excused {
                    complaints.push(format!(
                        "{path}:{at}: {name} may not know {ours}: move what both need to core, or \
                         let the binary bring them together"
                    ));
                }
            } else if name != "manager" && ASYNC_AND_SQL.contains(&dependency.as_str()) {
                complaints.push(format!(
                    "{path}:{at}: {dependency} is for the manager only: use threads here"
                ));
            }
        }
    }
    complaints
}

/// Names of the packages that a manifest depends on, and whether only its tests do.
fn dependencies_of(manifest: &toml::Table) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for (section, content) in manifest {
        let Some(table) = content.as_table() else { continue };
        if section == "target" {
            // Those of a platform are tables of the same shape, one for each platform.
            found
                .extend(table.values().filter_map(toml::Value::as_table).flat_map(dependencies_of));
        } else if section.ends_with("dependencies") {
            for (key, value) in table {
                let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
                found.push((package.to_owned(), section == "dev-dependencies"));
            }
        }
    }
    found
}

/// Where files of one kind stand, and the file that must name each of them.
struct Registry {
    folder: &'static str,
    /// The file with the table.
    table: &'static str,
    /// How the table names `{}`: a word of code, or a part of the text.
    named: Named,
    /// Files of the folder that are not of the kind.
    besides: &'static [&'static str],
}

enum Named {
    /// Modules whose code the table names as `{}::`.
    Module,
    /// Other files, which the table includes by this end of their path.
    Included(&'static str, &'static str),
}

static REGISTRIES: &[Registry] = &[
    Registry {
        folder: "crates/node/src/placement",
        table: "crates/node/src/placement/mod.rs",
        named: Named::Module,
        besides: &[],
    },
    Registry {
        folder: "crates/core/src/indicator",
        table: "crates/core/src/indicator/mod.rs",
        named: Named::Module,
        besides: &[],
    },
    Registry {
        folder: "crates/core/src/policy",
        table: "crates/core/src/policy/mod.rs",
        named: Named::Module,
        // What runs rule files, which come by their own option.
        besides: &["by_rules"],
    },
    Registry {
        folder: "crates/core/src/search",
        table: "crates/core/src/search/mod.rs",
        named: Named::Module,
        // What methods and their tests share.
        besides: &["candidate", "desk", "dice", "testing", "told", "walk"],
    },
    Registry {
        folder: "crates/core/src/device/elevator",
        table: "crates/core/src/device/elevator/mod.rs",
        named: Named::Module,
        besides: &[],
    },
    Registry {
        folder: "crates/store/src/engine",
        table: "crates/store/src/engine/registry.rs",
        named: Named::Module,
        besides: &["registry", "conformance"],
    },
    Registry {
        folder: "crates/store/src/engine/wrap",
        table: "crates/store/src/engine/wrap/mod.rs",
        named: Named::Module,
        // What wrappers share.
        besides: &["lines", "relay"],
    },
    Registry {
        folder: "crates/core/workloads",
        table: "crates/core/src/workload/presets.rs",
        named: Named::Included("workloads/", ".toml"),
        besides: &[],
    },
    Registry {
        folder: "scenarios",
        table: "crates/sim/src/scenario/shipped.rs",
        named: Named::Included("scenarios/", ".toml"),
        besides: &[],
    },
    Registry {
        folder: "crates/core/rules",
        table: "crates/core/src/rules/shipped.rs",
        named: Named::Included("rules/", ".rules"),
        besides: &[],
    },
];

/// Files that no table names, and modules that no file is behind.
pub(crate) fn registries(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for registry in REGISTRIES.iter().filter(|registry| tree.exists(registry.folder)) {
        let Registry { folder, table, .. } = registry;
        let said = match registry.named {
            Named::Module => code_of(tree.text(table)),
            Named::Included(..) => tree.text(table).to_owned(),
        };
        for (path, name) in members(tree, registry) {
            if registry.besides.contains(&name.as_str()) {
                continue;
            }
            let is_named = match registry.named {
                Named::Module => {
                    words(&said, &name).any(|at| said[at + name.len()..].starts_with("::"))
                }
                Named::Included(before, after) => {
                    said.contains(&format!("{before}{name}{after}\""))
                }
            };
            if !is_named {
                complaints.push(format!("{path}:1: {table} does not name it: add its line there"));
            }
        }
        if matches!(registry.named, Named::Module) {
            complaints.extend(modules(tree, folder));
        }
    }
    complaints
}

/// The files of a registry's kind with their names.
fn members(tree: &Tree, registry: &Registry) -> Vec<(String, String)> {
    let folder = registry.folder;
    let end = match registry.named {
        Named::Module => ".rs",
        Named::Included(_, end) => end,
    };
    let files = tree.in_folder(folder).into_iter();
    let names = files.filter_map(|(file, _)| file.strip_suffix(end)).filter(|name| *name != "mod");
    let mut found: Vec<_> =
        names.map(|name| (format!("{folder}/{name}{end}"), name.to_owned())).collect();
    if matches!(registry.named, Named::Module) {
        let folders = tree.folders(folder).into_iter();
        found.extend(folders.map(|name| (format!("{folder}/{name}/mod.rs"), name.to_owned())));
    }
    found
}

/// Modules that `folder/mod.rs` declares against those that are there.
fn modules(tree: &Tree, folder: &str) -> Vec<String> {
    let head = format!("{folder}/mod.rs");
    let code = code_of(tree.text(&head));
    let declared: BTreeSet<&str> = words(&code, "mod")
        .filter_map(|at| code[at + 3..].split_once(';').map(|(name, _)| name.trim()))
        .collect();
    let is_there = |name: &str| {
        tree.exists(&format!("{folder}/{name}.rs"))
            || tree.exists(&format!("{folder}/{name}/mod.rs"))
    };
    let files = tree.in_folder(folder).into_iter().filter_map(|(file, _)| file.strip_suffix(".rs"));
    let there: BTreeSet<&str> =
        files.chain(tree.folders(folder)).filter(|name| *name != "mod").collect();
    let missing =
        declared.iter().filter(|name| !name.contains(' ') && !is_there(name)).map(|name| {
            format!(
                "{head}:1: declares `mod {name}`, which has no file: write it or take the line out"
            )
        });
    let undeclared = there.difference(&declared).map(|name| {
        format!("{head}:1: does not declare `mod {name}`, though it is there: add it or delete it")
    });
    missing.chain(undeclared).collect()
}

/// Crates and their first-level modules that ARCHITECTURE.md does not name.
pub(crate) fn architecture(tree: &Tree) -> Vec<String> {
    let document = "ARCHITECTURE.md";
    let text = tree.text(document);
    if text.is_empty() {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for name in tree.crates() {
        if !text.contains(&format!("`crates/{name}`")) {
            complaints.push(format!("{document}:1: does not name `crates/{name}`: say what it is"));
        }
        // A crate with a section of its own has its modules named there, else anywhere.
        let section = section(text, &name);
        let line = section.map_or(1, |(line, _)| line);
        let said = section.map_or(text, |(_, section)| section);
        for module in first_level(tree, &name) {
            let ends = [format!("`{module}`"), format!("`{module}/`"), format!("/{module}.rs`")];
            if !ends.iter().any(|end| said.contains(end)) {
                complaints.push(format!(
                    "{document}:{line}: does not name `{module}` of crates/{name}/src: add its line"
                ));
            }
        }
    }
    complaints
}

/// The part under `## NAME`, and the line of that heading.
fn section<'a>(text: &'a str, name: &str) -> Option<(usize, &'a str)> {
    let heading = format!("\n## {name}\n");
    let start = text.find(&heading)?;
    let rest = &text[start + heading.len()..];
    let line = text[..start].matches('\n').count() + 2;
    Some((line, rest.find("\n## ").map_or(rest, |end| &rest[..end])))
}

fn first_level<'a>(tree: &'a Tree, crate_name: &str) -> BTreeSet<&'a str> {
    let folder = format!("crates/{crate_name}/src");
    let files =
        tree.in_folder(&folder).into_iter().filter_map(|(file, _)| file.strip_suffix(".rs"));
    let files = files.filter(|name| !["lib", "main"].contains(name));
    files.chain(tree.folders(&folder)).collect()
}

#[test]
fn forbidden_acquaintance_is_seen_in_every_section() {
    let count = |name: &str, text: &str| {
        dependencies(&Tree::of(&[(&format!("crates/{name}/Cargo.toml"), text)])).len()
    };
    assert_eq!(count("core", "[dependencies]\nafflux-node.workspace = true"), 1);
    assert_eq!(count("core", "[dev-dependencies]\nn = { package = \"afflux-node\" }"), 1);
    assert_eq!(count("node", "[target.'cfg(unix)'.dependencies]\nafflux-store = \"1\""), 1);
    assert_eq!(count("afflux", "[build-dependencies]\nafflux-preload = \"1\""), 1);
    assert_eq!(count("store", "[dependencies]\nafflux-sim = \"1\""), 1);
    assert_eq!(count("store", "[dev-dependencies]\nafflux-sim = \"1\""), 0);
    assert_eq!(count("store", "[dependencies.tokio]\nversion = \"1\""), 1);
    assert_eq!(count("manager", "[dependencies]\ntokio = \"1\"\nafflux-core = \"1\""), 0);
    assert_eq!(count("cellar", "[dependencies]"), 1);
    assert_eq!(count("core", "no toml"), 1);
    let path = "crates/core/Cargo.toml";
    let said = dependencies(&Tree::of(&[(path, "[dependencies]\n\naxum = \"1\"")]));
    assert!(said[0].starts_with("crates/core/Cargo.toml:3: axum"), "{said:?}");
}

#[test]
fn what_no_table_names_is_seen() {
    let head = "crates/core/src/policy/mod.rs";
    let count = |files: &[(&str, &str)]| registries(&Tree::of(files)).len();
    let good = "mod aimd; mod by_rules;\nstatic P: &[E] = &[aimd::ENTRY];";
    let files = ["aimd", "by_rules"].map(|name| format!("crates/core/src/policy/{name}.rs"));
    let [aimd, by_rules] = &files;
    assert_eq!(count(&[(head, good), (aimd, ""), (by_rules, "")]), 0);
    // A comment is no entry.
    let lost = "mod aimd; mod by_rules; // aimd::ENTRY";
    assert_eq!(count(&[(head, lost), (aimd, ""), (by_rules, "")]), 1);
    assert_eq!(count(&[(head, good), (aimd, "")]), 1);
    let folder = "crates/core/src/policy/new/mod.rs";
    assert_eq!(count(&[(head, good), (aimd, ""), (by_rules, ""), (folder, "")]), 2);
    let table = "crates/core/src/workload/presets.rs";
    let preset = "crates/core/workloads/a.toml";
    assert_eq!(count(&[(table, "include_str!(\"../../workloads/a.toml\")"), (preset, "")]), 0);
    assert_eq!(count(&[(table, "include_str!(\"../../workloads/aa.toml\")"), (preset, "")]), 1);
}

#[test]
fn what_the_map_does_not_show_is_seen() {
    let files = [("crates/core/src/lib.rs", ""), ("crates/core/src/path/mod.rs", "")];
    let count = |text: &str| {
        architecture(&Tree::of(&[files[0], files[1], ("ARCHITECTURE.md", text)])).len()
    };
    assert_eq!(architecture(&Tree::of(&files)).len(), 0);
    assert_eq!(count("nothing"), 2);
    assert_eq!(count("`crates/core` has `path/`"), 0);
    assert_eq!(count("`crates/core`, `path/`\n\n## core\n\nno\n"), 1);
    assert_eq!(count("`crates/core`\n\n## core\n\nno\n\n## store\n\n`path`\n"), 1);
    assert_eq!(count("`crates/core`\n\n## core\n\n`path`\n\n## store\n"), 0);
}
