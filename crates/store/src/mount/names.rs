//! What the kernel's numbers stand for, and directories that no name begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::removed::is_removed;
use crate::engine::FileRecord;
use crate::sync::lock;

/// The root's number.
const ROOT: u64 = 1;

/// The nodes that the kernel knows. A directory's name ends in no slash; the root's is empty.
#[derive(Debug)]
pub(super) struct Names(Mutex<State>);

#[derive(Debug)]
struct State {
    nodes: BTreeMap<u64, Known>,
    /// Numbers of directories and of files.
    numbers: BTreeMap<(String, bool), u64>,
    next: u64,
    /// Directories that were made here, or emptied here.
    made: BTreeSet<String>,
}

#[derive(Debug)]
struct Known {
    node: Node,
    /// How often the kernel was told of it, less how often it forgot.
    told: u64,
    /// How many have it open.
    opened: u32,
}

/// A file or a directory.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A directory, by its name.
    Directory(String),
    /// A file; its size is at least what the record says.
    File(FileRecord),
}

impl Node {
    fn key(&self) -> (String, bool) {
        match self {
            Self::Directory(name) => (name.clone(), true),
            Self::File(record) => (record.name.clone(), false),
        }
    }
}

impl Names {
    pub(super) fn new() -> Self {
        let root = Node::Directory(String::new());
        let numbers = BTreeMap::from([(root.key(), ROOT)]);
        let nodes = BTreeMap::from([(ROOT, Known { node: root, told: 1, opened: 0 })]);
        Self(Mutex::new(State { nodes, numbers, next: ROOT + 1, made: BTreeSet::new() }))
    }

    /// The number of a node that the kernel is told of.
    pub(super) fn tell(&self, node: &Node) -> u64 {
        let mut state = lock(&self.0);
        let state = &mut *state;
        let number = *state.numbers.entry(node.key()).or_insert_with(|| {
            state.next += 1;
            state.next - 1
        });
        let fresh = || Known { node: node.clone(), told: 0, opened: 0 };
        let known = state.nodes.entry(number).or_insert_with(fresh);
        known.told += 1;
        if let Node::File(record) = node {
            renew(&mut known.node, record);
        }
        number
    }

    /// The kernel forgets what it was told `times` times.
    pub(super) fn forget(&self, number: u64, times: u64) {
        let mut state = lock(&self.0);
        let Some(known) = state.nodes.get_mut(&number).filter(|_| number != ROOT) else { return };
        known.told = known.told.saturating_sub(times);
        state.drop_unused(number);
    }

    /// Somebody opens a file; says whether it is there.
    pub(super) fn open(&self, number: u64) -> bool {
        let mut state = lock(&self.0);
        let known = state.nodes.get_mut(&number);
        known.map(|known| known.opened += 1).is_some()
    }

    /// Somebody closes a file. Gives one back that nobody has open any more and that lost its name
    /// while it was open: it is to be removed.
    pub(super) fn close(&self, number: u64) -> Option<FileRecord> {
        let mut state = lock(&self.0);
        let known = state.nodes.get_mut(&number)?;
        known.opened = known.opened.saturating_sub(1);
        let ends = known.opened == 0;
        let removed = match &known.node {
            Node::File(record) if ends && is_removed(&record.name) => Some(record.clone()),
            _ => None,
        };
        if removed.is_some() {
            state.nodes.remove(&number);
        } else {
            state.drop_unused(number);
        }
        removed
    }

    /// Whether somebody has the file of a name open.
    pub(super) fn is_open(&self, name: &str) -> bool {
        let state = lock(&self.0);
        let number = state.numbers.get(&(name.to_owned(), false));
        number.and_then(|number| state.nodes.get(number)).is_some_and(|known| known.opened > 0)
    }

    /// The file of a name lost it, and is `record` now. Says whether it is kept for those who have
    /// it open: it must have got another name then.
    pub(super) fn remove(&self, name: &str, record: &FileRecord) -> bool {
        lock(&self.0).remove(name, record)
    }

    /// A file has another name. That which had this name is `displaced` now; says whether it is
    /// kept, as [`Names::remove`] does.
    pub(super) fn rename(&self, from: &str, to: &str, displaced: Option<&FileRecord>) -> bool {
        let mut state = lock(&self.0);
        let is_kept = match displaced {
            Some(displaced) => state.remove(to, displaced),
            None => {
                // What was known by this name, others have removed.
                if let Some(number) = state.numbers.remove(&(to.to_owned(), false)) {
                    state.nodes.remove(&number);
                }
                false
            }
        };
        let Some(number) = state.numbers.remove(&(from.to_owned(), false)) else { return is_kept };
        state.numbers.insert((to.to_owned(), false), number);
        if let Some(Known { node: Node::File(record), .. }) = state.nodes.get_mut(&number) {
            to.clone_into(&mut record.name);
        }
        is_kept
    }

    /// What a number stands for.
    pub(super) fn node(&self, number: u64) -> Option<Node> {
        lock(&self.0).nodes.get(&number).map(|known| known.node.clone())
    }

    /// The record of a file is newer, or another file has its name now.
    pub(super) fn renew(&self, number: u64, record: &FileRecord) {
        if let Some(known) = lock(&self.0).nodes.get_mut(&number) {
            renew(&mut known.node, record);
        }
    }

    /// A directory is there although no name begins with it.
    pub(super) fn make(&self, directory: &str) {
        lock(&self.0).made.insert(directory.to_owned());
    }

    /// It is there only as long as names begin with it.
    pub(super) fn unmake(&self, directory: &str) {
        lock(&self.0).made.remove(directory);
    }

    /// Whether it was made here, or one below it.
    pub(super) fn is_made(&self, directory: &str) -> bool {
        lock(&self.0).made.iter().any(|made| made == directory || is_below(made, directory))
    }

    /// The directories in a directory of which one was made here, it or one below.
    pub(super) fn made_in(&self, directory: &str) -> BTreeSet<String> {
        let state = lock(&self.0);
        let below = state.made.iter().filter(|made| is_below(made, directory));
        let start = if directory.is_empty() { 0 } else { directory.len() + 1 };
        below.filter_map(|made| made[start..].split('/').next()).map(str::to_owned).collect()
    }
}

impl State {
    /// Drops a node that neither the kernel nor anybody else knows.
    fn drop_unused(&mut self, number: u64) {
        let Some(known) = self.nodes.get(&number) else { return };
        if known.told > 0 || known.opened > 0 {
            return;
        }
        let key = known.node.key();
        self.nodes.remove(&number);
        if self.numbers.get(&key) == Some(&number) {
            self.numbers.remove(&key);
        }
    }

    fn remove(&mut self, name: &str, record: &FileRecord) -> bool {
        // A new file of this name has another number.
        let Some(number) = self.numbers.remove(&(name.to_owned(), false)) else { return false };
        let Some(known) = self.nodes.get_mut(&number) else { return false };
        let is_kept = known.opened > 0 && is_removed(&record.name);
        if is_kept {
            renew(&mut known.node, record);
        } else {
            self.nodes.remove(&number);
        }
        is_kept
    }
}

/// Takes what is newer. A file never shrinks; one of another number is another file.
fn renew(node: &mut Node, record: &FileRecord) {
    if let Node::File(known) = node {
        let size_bytes = match known.file == record.file {
            true => known.size_bytes.max(record.size_bytes),
            false => record.size_bytes,
        };
        *known = FileRecord { size_bytes, ..record.clone() };
    }
}

/// Whether a name lies in a directory or below.
fn is_below(name: &str, directory: &str) -> bool {
    directory.is_empty() || name.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}
