//! The tracked files of the workspace, as text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files by their path from the workspace's root; those that are not text are empty.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// What git tracks here; without git, everything but hidden folders and build output.
    pub(crate) fn of_the_workspace() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(&root).output();
        let mut paths: Vec<String> = match listed {
            Ok(listed) if listed.status.success() => {
                let names = String::from_utf8(listed.stdout).unwrap();
                names.split_terminator('\0').map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        if paths.is_empty() {
            walk(&root, &root, &mut paths);
        }
        // A file may be deleted and not yet forgotten by git.
        let read = |path: String| Some((path.clone(), std::fs::read(root.join(path)).ok()?));
        let text = |(path, bytes)| (path, String::from_utf8(bytes).unwrap_or_default());
        Self { files: paths.into_iter().filter_map(read).map(text).collect() }
    }

    /// A tree for a test.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { files: files.iter().map(owned).collect() }
    }

    /// All files.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// The text of a file; empty when there is none.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    /// Whether a file or a folder of that path exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(inside.clone()..)
                .next()
                .is_some_and(|(at, _)| at.starts_with(&inside))
    }

    /// Files directly in `folder`, by name.
    pub(crate) fn in_folder<'a>(&'a self, folder: &str) -> Vec<(&'a str, &'a str)> {
        let prefix = format!("{folder}/");
        let files =
            self.files().filter_map(|(path, text)| Some((path.strip_prefix(&prefix)?, text)));
        files.filter(|(name, _)| !name.contains('/')).collect()
    }

    /// Folders directly in `folder`.
    pub(crate) fn folders(&self, folder: &str) -> Vec<&str> {
        let prefix = format!("{folder}/");
        let inside = self.files.keys().filter_map(|path| path.strip_prefix(&prefix));
        let mut names: Vec<&str> =
            inside.filter_map(|path| Some(path.split_once('/')?.0)).collect();
        names.dedup();
        names
    }

    /// Folders under `crates`.
    pub(crate) fn crates(&self) -> Vec<String> {
        self.folders("crates").into_iter().map(str::to_owned).collect()
    }

    /// The Rust files under the `src` of a crate.
    pub(crate) fn sources(&self, crate_name: &str) -> Vec<(&str, &str)> {
        let prefix = format!("crates/{crate_name}/src/");
        self.rust().filter(|(path, _)| path.starts_with(&prefix)).collect()
    }

    /// The Rust files under the `src` of any crate.
    pub(crate) fn all_sources(&self) -> Vec<(&str, &str)> {
        self.crates().iter().flat_map(|name| self.sources(name)).collect()
    }
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "out" {
                walk(root, &entry, paths);
            }
        } else {
            paths.push(entry.strip_prefix(root).unwrap().to_string_lossy().into_owned());
        }
    }
}

#[test]
fn files_and_folders_are_told_apart() {
    let tree = Tree::of(&[("a/b/c.rs", "x"), ("a/d.rs", "y"), ("a.b", "")]);
    assert!(tree.exists("a/b/") && tree.exists("a") && tree.exists("a/d.rs"));
    assert!(!tree.exists("a/c") && !tree.exists("b"));
    assert_eq!((tree.in_folder("a"), tree.folders("a")), (vec![("d.rs", "y")], vec!["b"]));
}

#[test]
fn without_git_the_same_files_are_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    walk(root, root, &mut paths);
    assert!(paths.contains(&"src/main.rs".to_owned()), "{paths:?}");
}
