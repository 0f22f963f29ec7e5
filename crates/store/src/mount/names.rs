//! What the kernel's numbers stand for, and directories that no name begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

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
        let nodes = BTreeMap::from([(ROOT, Known { node: root, told: 1 })]);
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
        let known = state.nodes.entry(number).or_insert(Known { node: node.clone(), told: 0 });
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
        if known.told == 0 {
            let key = known.node.key();
            state.nodes.remove(&number);
            state.numbers.remove(&key);
        }
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
