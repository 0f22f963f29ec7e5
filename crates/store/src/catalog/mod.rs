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

use crate::engine::{Answer, CatalogOperation, EngineError, FileRecord, Taken};

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// The most records of one listing; a larger limit gives this many.
pub const MAX_LIST: u32 = 4096;
// Removals and renames are remembered for clients that ask again because the answer was lost.
const REMEMBERED: usize = 1024;

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
    /// A file got another name.
    Renamed {
        /// Its number.
        file: u64,
        /// The name that it had.
        from: String,
        /// The name that it has.
        to: String,
        /// The file that had that name: under its next one, or else as it was when it went.
        displaced: Option<FileRecord>,
        /// Who renamed it.
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
    // The last changes that took names away, in their order.
    past: VecDeque<Change>,
}

impl Catalog {
    /// An empty catalog of files over `servers` storage servers.
    pub const fn new(servers: u32) -> Self {
        Self {
            servers,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            next: 1,
            past: VecDeque::new(),
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
            CatalogOperation::Rename { from, to, taken } => self.rename(from, to, taken, origin),
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
        let same = |change: &&Change| {
            matches!(change, Change::Unlinked { record, origin: by }
                if *by == origin && record.name == name)
        };
        if let Some(Change::Unlinked { record, .. }) = self.repeated(origin, same) {
            return Ok((Answer::File(record.clone()), None));
        }
        let (record, _) =
            self.files.get(name).ok_or_else(|| EngineError::NotFound(name.to_owned()))?;
        let change = Change::Unlinked { record: record.clone(), origin };
        Ok((Answer::File(record.clone()), Some(change)))
    }

    fn rename(
        &self,
        from: &str,
        to: &str,
        taken: &Taken,
        origin: Origin,
    ) -> Result<(Answer, Option<Change>), EngineError> {
        check_rename(from, to, taken)?;
        let answer =
            |displaced: &Option<FileRecord>| displaced.clone().map_or(Answer::Done, Answer::File);
        let same = |change: &&Change| {
            matches!(change, Change::Renamed { from: old, to: new, origin: by, .. }
                if *by == origin && old == from && new == to)
        };
        if let Some(Change::Renamed { displaced, .. }) = self.repeated(origin, same) {
            return Ok((answer(displaced), None));
        }
        let (record, _) =
            self.files.get(from).ok_or_else(|| EngineError::NotFound(from.to_owned()))?;
        let holder = self.files.get(to).map(|(record, _)| record);
        let is_free = |name: &str| !self.files.contains_key(name);
        let Some(displaced) = displace(from, to, holder, taken, is_free)? else {
            return Ok((Answer::Done, None));
        };
        let (from, to) = (from.to_owned(), to.to_owned());
        let answer = answer(&displaced);
        let change = Change::Renamed { file: record.file, from, to, displaced, origin };
        Ok((answer, Some(change)))
    }

    /// The change that a request made which is asked again; `same` tells it from others.
    fn repeated(&self, origin: Origin, same: impl Fn(&&Change) -> bool) -> Option<&Change> {
        if origin == Origin::default() {
            return None;
        }
        self.past.iter().find(same)
    }

    fn remember(&mut self, change: &Change) {
        self.past.push_back(change.clone());
        if self.past.len() > REMEMBERED {
            self.past.pop_front();
        }
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
                let last = self.names.insert(record.file, record.name.clone());
                if let Some(last) = last.filter(|last| *last != record.name) {
                    self.files.remove(&last);
                }
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
            Change::Unlinked { record, .. } => {
                if let Some(name) = self.names.remove(&record.file) {
                    self.files.remove(&name);
                }
                self.next = self.next.max(record.file.saturating_add(1));
                self.remember(change);
            }
            Change::Renamed { file, from, to, displaced, .. } => {
                if self.names.get(file) == Some(from) {
                    self.apply_rename(from, to, displaced.as_ref());
                }
                self.remember(change);
            }
        }
    }

    fn apply_rename(&mut self, from: &str, to: &str, displaced: Option<&FileRecord>) {
        let Some((record, maker)) = self.files.remove(from) else { return };
        if let Some((old, maker)) = self.files.remove(to) {
            self.names.remove(&old.file);
            if let Some(moved) = displaced.filter(|moved| moved.name != to) {
                self.put(moved.clone(), maker);
            }
        }
        self.put(FileRecord { name: to.to_owned(), ..record }, maker);
    }

    fn put(&mut self, record: FileRecord, maker: Origin) {
        self.names.insert(record.file, record.name.clone());
        self.files.insert(record.name.clone(), (record, maker));
    }

    /// Changes that lead from an empty catalog to this one.
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        let numbered = Change::Numbered { next: self.next };
        let files = self.files.values();
        // What is past finds no files yet, and is only remembered.
        std::iter::once(numbered).chain(self.past.iter().cloned()).chain(
            files.map(|(record, origin)| Change::Created {
                record: record.clone(),
                origin: *origin,
            }),
        )
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

/// Refuses a rename that cannot be, whatever files there are.
pub(crate) fn check_rename(from: &str, to: &str, taken: &Taken) -> Result<(), EngineError> {
    check_name(from)?;
    check_name(to)?;
    let Taken::Moved(aside) = taken else { return Ok(()) };
    check_name(aside)?;
    if [from, to].contains(&aside.as_str()) {
        let why = "a file that makes room for another cannot take one of the two names";
        return Err(EngineError::Invalid(why.to_owned()));
    }
    Ok(())
}

/// What a rename, of a file that is there, makes of the `holder` of the new name: `None` when
/// nothing changes, else its record under its next name, or as it was when it goes.
pub(crate) fn displace(
    from: &str,
    to: &str,
    holder: Option<&FileRecord>,
    taken: &Taken,
    is_free: impl FnOnce(&str) -> bool,
) -> Result<Option<Option<FileRecord>>, EngineError> {
    let Some(holder) = holder else { return Ok(Some(None)) };
    match taken {
        Taken::Refused => Err(EngineError::Exists(to.to_owned())),
        _ if from == to => Ok(None),
        Taken::Replaced => Ok(Some(Some(holder.clone()))),
        Taken::Moved(aside) if is_free(aside) => {
            Ok(Some(Some(FileRecord { name: aside.clone(), ..holder.clone() })))
        }
        Taken::Moved(aside) => Err(EngineError::Exists(aside.clone())),
    }
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

    fn rename(from: &str, to: &str, taken: Taken) -> CatalogOperation {
        CatalogOperation::Rename { from: from.into(), to: to.into(), taken }
    }

    #[test]
    fn a_repeated_rename_gets_its_first_answer_and_moves_nothing_else() {
        let mut catalog = Catalog::new(2);
        run(&mut catalog, &create("a"), 1).unwrap();
        let Ok(Answer::File(b)) = run(&mut catalog, &create("b"), 2) else { panic!() };
        let over = rename("a", "b", Taken::Replaced);
        assert_eq!(run(&mut catalog, &over, 3), Ok(Answer::File(b.clone())));
        // Another file has the old name by the time that the request comes again.
        run(&mut catalog, &create("a"), 4).unwrap();
        let before = catalog.files.clone();
        assert_eq!(run(&mut catalog, &over, 3), Ok(Answer::File(b)));
        assert_eq!(catalog.files, before);
        assert_eq!(
            run(&mut catalog, &rename("b", "a", Taken::Refused), 5),
            Err(EngineError::Exists("a".into()))
        );
    }

    fn operations() -> impl Strategy<Value = CatalogOperation> {
        let name = "[ab]{1,2}";
        let taken = prop_oneof![
            Just(Taken::Refused),
            Just(Taken::Replaced),
            "[abc]{1,2}".prop_map(Taken::Moved),
        ];
        prop_oneof![
            (name, name, taken).prop_map(|(from, to, taken)| rename(&from, &to, taken)),
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
                prop_assert_eq!(catalog.names.len(), catalog.files.len());
                for (name, (record, _)) in &catalog.files {
                    prop_assert_eq!(name, &record.name);
                    prop_assert_eq!(catalog.names.get(&record.file), Some(name));
                }
            }
            let mut rebuilt = Catalog::new(2);
            for change in catalog.changes().collect::<Vec<_>>() {
                rebuilt.apply(&change);
            }
            prop_assert_eq!(&rebuilt.files, &catalog.files);
            prop_assert_eq!(&rebuilt.names, &catalog.names);
            prop_assert_eq!(&rebuilt.past, &catalog.past);
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
