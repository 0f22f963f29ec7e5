//! The catalog: names, layouts and sizes of files.
//!
//! [`Catalog`] is a plain state machine: [`Catalog::decide`] says what an operation would answer
//! and change, [`Catalog::apply`] carries the change out. In between the caller writes the change
//! down ([`journal`], [`kept`]), so that what is answered was kept before.

pub mod journal;
pub mod kept;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use afflux_core::layout::Layout;
use serde::{Deserialize, Serialize};

use crate::engine::{Answer, CatalogOperation, EngineError, FileRecord};

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// The most records of one listing; a larger limit gives this many.
pub const MAX_LIST: u32 = 4096;
// Removed files are remembered for clients that ask again because the answer was lost.
const REMEMBERED_REMOVALS: usize = 1024;

/// Which request made a change; a client that repeats a request repeats this, and gets the same
/// answer again instead of an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The client's number.
    pub client: u64,
    /// The request's, among the client's.
    pub request: u64,
}

/// A change of the catalog, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Change {
    /// File numbers below this were given out.
    Numbered {
        /// The next number.
        next: u64,
    },
    /// A file came.
    Created {
        /// Its record.
        record: FileRecord,
        /// Who made it.
        origin: Origin,
    },
    /// A file grew.
    Extended {
        /// Its number.
        file: u64,
        /// Its size now.
        size_bytes: u64,
    },
    /// A file went.
    Unlinked {
        /// Its last record.
        record: FileRecord,
        /// Who removed it.
        origin: Origin,
    },
}

/// Names, layouts and sizes.
///
/// ```
/// use afflux_core::layout::Layout;
/// use afflux_store::catalog::{Catalog, Origin};
/// use afflux_store::engine::CatalogOperation;
///
/// let mut catalog = Catalog::new(4);
/// let layout = Layout { unit_bytes: 1 << 20, first_server: 0, count: 4 };
/// let create = CatalogOperation::Create { name: "a".into(), layout };
/// let (_answer, change) = catalog.decide(&create, Origin::default()).unwrap();
/// catalog.apply(&change.unwrap());
/// assert!(catalog.decide(&create, Origin { client: 1, request: 1 }).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Catalog {
    servers: u32,
    files: BTreeMap<String, (FileRecord, Origin)>,
    names: BTreeMap<u64, String>,
    next: u64,
    removed: VecDeque<(FileRecord, Origin)>,
}

impl Catalog {
    /// An empty catalog of files over `servers` storage servers.
    pub const fn new(servers: u32) -> Self {
        Self {
            servers,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            next: 1,
            removed: VecDeque::new(),
        }
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// What `operation` answers, and what it changes.
    pub fn decide(
        &self,
        operation: &CatalogOperation,
        origin: Origin,
    ) -> Result<(Answer, Option<Change>), EngineError> {
        match operation {
            CatalogOperation::Create { name, layout } => {
                check_name(name)?;
                if let Some((record, maker)) = self.files.get(name) {
                    return if *maker == origin && origin != Origin::default() {
                        Ok((Answer::File(record.clone()), None))
                    } else {
                        Err(EngineError::Exists(name.clone()))
                    };
                }
                check_layout(layout, self.servers)?;
                let (name, layout) = (name.clone(), *layout);
                let record = FileRecord { name, file: self.next, layout, size_bytes: 0 };
                let change = Change::Created { record: record.clone(), origin };
                Ok((Answer::File(record), Some(change)))
            }
            CatalogOperation::Open { name } => {
                check_name(name)?;
                let (record, _) =
                    self.files.get(name).ok_or_else(|| EngineError::NotFound(name.clone()))?;
                Ok((Answer::File(record.clone()), None))
            }
            CatalogOperation::Extend { file, size_bytes } => self.extend(*file, *size_bytes),
            CatalogOperation::Unlink { name } => self.unlink(name, origin),
            CatalogOperation::List { prefix, after, limit } => {
                Ok((Answer::Files(self.list(prefix, after, *limit)), None))
            }
        }
    }

    fn extend(&self, file: u64, size_bytes: u64) -> Result<(Answer, Option<Change>), EngineError> {
        let name = self.names.get(&file);
        let Some((record, _)) = name.and_then(|name| self.files.get(name)) else {
            return Err(EngineError::NotFound(format!("number {file}")));
        };
        let grows = size_bytes > record.size_bytes;
        Ok((Answer::Done, grows.then_some(Change::Extended { file, size_bytes })))
    }

    fn unlink(&self, name: &str, origin: Origin) -> Result<(Answer, Option<Change>), EngineError> {
        check_name(name)?;
        // A repeated request comes first: the name may have been given to another file since.
        let same = |(record, by): &&(FileRecord, Origin)| *by == origin && record.name == name;
        if origin != Origin::default()
            && let Some((record, _)) = self.removed.iter().find(same)
        {
            return Ok((Answer::File(record.clone()), None));
        }
        let (record, _) =
            self.files.get(name).ok_or_else(|| EngineError::NotFound(name.to_owned()))?;
        let change = Change::Unlinked { record: record.clone(), origin };
        Ok((Answer::File(record.clone()), Some(change)))
    }

    fn list(&self, prefix: &str, after: &str, limit: u32) -> Vec<FileRecord> {
        let from = if after >= prefix {
            Bound::Excluded(after)
        } else {
            // Names with the prefix start at the prefix itself, which may be a name too.
            Bound::Included(prefix)
        };
        self.files
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(prefix))
            .take(limit.min(MAX_LIST) as usize)
            .map(|(_, (record, _))| record.clone())
            .collect()
    }

    /// Carries a change out. Changes that were carried out before, or that name files which are not
    /// there, do no harm, so that a journal may be read over a state that is ahead of it.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Numbered { next } => self.next = self.next.max(*next),
            Change::Created { record, origin } => {
                self.next = self.next.max(record.file.saturating_add(1));
                self.names.insert(record.file, record.name.clone());
                let old = self.files.insert(record.name.clone(), (record.clone(), *origin));
                if let Some((old, _)) = old
                    && old.file != record.file
                {
                    self.names.remove(&old.file);
                }
            }
            Change::Extended { file, size_bytes } => {
                let name = self.names.get(file);
                if let Some((record, _)) = name.and_then(|name| self.files.get_mut(name)) {
                    record.size_bytes = record.size_bytes.max(*size_bytes);
                }
            }
            Change::Unlinked { record, origin } => {
                if self.names.remove(&record.file).is_some() {
                    self.files.remove(&record.name);
                }
                self.next = self.next.max(record.file.saturating_add(1));
                self.removed.push_back((record.clone(), *origin));
                if self.removed.len() > REMEMBERED_REMOVALS {
                    self.removed.pop_front();
                }
            }
        }
    }

    /// Changes that lead from an empty catalog to this one.
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        let numbered = Change::Numbered { next: self.next };
        let removed = self.removed.iter();
        let files = self.files.values();
        std::iter::once(numbered)
            .chain(removed.map(|(record, origin)| Change::Unlinked {
                record: record.clone(),
                origin: *origin,
            }))
            .chain(files.map(|(record, origin)| Change::Created {
                record: record.clone(),
                origin: *origin,
            }))
    }
}

/// Refuses layouts that cannot be, over so many servers.
pub(crate) fn check_layout(layout: &Layout, servers: u32) -> Result<(), EngineError> {
    let wrong = if layout.unit_bytes == 0 {
        "the stripe unit is zero".to_owned()
    } else if layout.count == 0 || layout.count > servers {
        format!("{} stripes, with {servers} servers it must be 1 to {servers}", layout.count)
    } else if layout.first_server >= servers {
        format!("first server {}, the last one is {}", layout.first_server, servers - 1)
    } else {
        return Ok(());
    };
    Err(EngineError::Invalid(format!("layout: {wrong}")))
}

/// Refuses what cannot be a file's name.
pub(crate) fn check_name(name: &str) -> Result<(), EngineError> {
    let wrong = match name.len() {
        0 => "the name is empty".to_owned(),
        length if length > MAX_NAME_BYTES => {
            format!("the name has {length} bytes, at most {MAX_NAME_BYTES} are allowed")
        }
        _ if name.contains('\0') => "the name contains a zero byte".to_owned(),
        _ => return Ok(()),
    };
    Err(EngineError::Invalid(wrong))
}

#[cfg(test)]
mod tests {
    use afflux_core::layout::Layout;
    use proptest::prelude::*;

    use super::*;

    fn create(name: &str) -> CatalogOperation {
        let layout = Layout { unit_bytes: 65_536, first_server: 0, count: 2 };
        CatalogOperation::Create { name: name.into(), layout }
    }

    fn run(
        catalog: &mut Catalog,
        operation: &CatalogOperation,
        request: u64,
    ) -> Result<Answer, EngineError> {
        let origin = Origin { client: 9, request };
        let (answer, change) = catalog.decide(operation, origin)?;
        if let Some(change) = change {
            catalog.apply(&change);
        }
        Ok(answer)
    }

    #[test]
    fn a_repeated_request_gets_its_first_answer() {
        let mut catalog = Catalog::new(2);
        let first = run(&mut catalog, &create("a"), 1).unwrap();
        assert_eq!(run(&mut catalog, &create("a"), 1), Ok(first.clone()));
        assert_eq!(run(&mut catalog, &create("a"), 2), Err(EngineError::Exists("a".into())));
        let unlink = CatalogOperation::Unlink { name: "a".into() };
        assert_eq!(run(&mut catalog, &unlink, 3), Ok(first.clone()));
        // The name is in use again when the repeated removal comes: it must not remove the new
        // file.
        let second = run(&mut catalog, &create("a"), 4).unwrap();
        assert_ne!(first, second, "file numbers are never reused");
        assert_eq!(run(&mut catalog, &unlink, 3), Ok(first));
        let open = CatalogOperation::Open { name: "a".into() };
        assert_eq!(run(&mut catalog, &open, 5), Ok(second));
    }

    #[test]
    fn wrong_layouts_and_names_say_what_is_allowed() {
        let catalog = Catalog::new(2);
        for (unit_bytes, first_server, count) in [(0, 0, 1), (1, 2, 1), (1, 0, 3), (1, 0, 0)] {
            let layout = Layout { unit_bytes, first_server, count };
            let operation = CatalogOperation::Create { name: "a".into(), layout };
            let error = catalog.decide(&operation, Origin::default()).unwrap_err();
            assert!(matches!(error, EngineError::Invalid(_)), "{error}");
        }
        for name in ["", "a\0b", &"x".repeat(256)] {
            let error = catalog.decide(&create(name), Origin::default()).unwrap_err();
            assert!(matches!(error, EngineError::Invalid(_)), "{error}");
        }
    }

    fn operations() -> impl Strategy<Value = CatalogOperation> {
        let name = "[ab]{1,2}";
        prop_oneof![
            name.prop_map(|name| create(&name)),
            name.prop_map(|name| CatalogOperation::Unlink { name }),
            (1_u64..12, any::<u32>()).prop_map(|(file, size)| CatalogOperation::Extend {
                file,
                size_bytes: size.into()
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_catalog_rebuilt_from_its_changes_is_the_same(
            operations in proptest::collection::vec(operations(), 0..60),
        ) {
            let mut catalog = Catalog::new(2);
            for (request, operation) in operations.iter().enumerate() {
                let _ = run(&mut catalog, operation, request as u64 + 1);
            }
            let mut rebuilt = Catalog::new(2);
            for change in catalog.changes().collect::<Vec<_>>() {
                rebuilt.apply(&change);
            }
            prop_assert_eq!(&rebuilt.files, &catalog.files);
            prop_assert_eq!(&rebuilt.names, &catalog.names);
            prop_assert_eq!(&rebuilt.removed, &catalog.removed);
            prop_assert_eq!(rebuilt.next, catalog.next);
            let list = |after: &str| catalog.list("a", after, 1);
            let mut paged = Vec::new();
            while let [record] = &list(paged.last().map_or("", String::as_str))[..] {
                paged.push(record.name.clone());
            }
            let all = catalog.list("a", "", 100);
            prop_assert_eq!(paged, all.into_iter().map(|record| record.name).collect::<Vec<_>>());
        }
    }
}
