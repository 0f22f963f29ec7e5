//! What every engine must do, as checks that any engine's tests can run.
//!
//! Each check takes a way to make clients of one and the same store, and panics with a message when
//! the engine does otherwise. What an engine says it cannot do is not asked of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use afflux_core::layout::Layout;
use afflux_core::rng::Rng;
use afflux_core::units::Span;
use afflux_node::clock;
use bytes::Bytes;

use super::{
    Answer, CatalogOperation, CompletionQueue, Engine, EngineError, FileRecord, ObjectId,
    Operation, Place, Request, Taken,
};

/// A way to make one more client of the store that is checked.
pub type Connect<'a> = &'a dyn Fn() -> Arc<dyn Engine>;

/// One check.
#[derive(Debug)]
pub struct Check {
    /// What it is about.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(Connect<'_>),
}

/// All checks. Each uses files and objects of its own, so they may run in any order on one store.
pub static CHECKS: &[Check] = &[
    Check { name: "reads give what was written", run: reads_give_what_was_written },
    Check { name: "holes and ends", run: holes_and_ends },
    Check { name: "random writes", run: random_writes },
    Check { name: "removal", run: removal },
    Check { name: "catalog", run: catalog },
    Check { name: "renaming", run: renaming },
    Check { name: "renaming at once", run: renaming_at_once },
    Check { name: "listing", run: listing },
    Check { name: "bad names and layouts", run: bad_names_and_layouts },
    Check { name: "wrong places", run: wrong_places },
    Check { name: "many in flight", run: many_in_flight },
    Check { name: "cancel", run: cancel },
    Check { name: "concurrent clients", run: concurrent_clients },
    Check { name: "statistics", run: statistics },
];

/// Runs all checks and names the one that fails.
pub fn run_all(connect: Connect<'_>) {
    for check in CHECKS {
        // The test harness shows this only when the test fails, and then it says where.
        println!("conformance: {}", check.name);
        (check.run)(connect);
    }
}

/// One client that asks and waits.
#[derive(Clone)]
struct Client {
    engine: Arc<dyn Engine>,
}

impl Client {
    fn new(connect: Connect<'_>) -> Self {
        Self { engine: connect() }
    }

    fn keeps_data(&self) -> bool {
        self.engine.capabilities().keeps_data
    }

    fn ask(&self, place: Place, operation: Operation) -> Result<Answer, EngineError> {
        let queue = CompletionQueue::new();
        let before = clock::now();
        self.engine.submit(Request::new(u64::MAX, place, operation), &queue.sender());
        let wake = Some(clock::now() + Span::from_secs(60));
        let completion = queue.wait(wake).expect("a completion within a minute");
        assert_eq!((completion.tag, completion.place), (u64::MAX, place));
        assert!(completion.arrived >= before, "it arrived before it was asked for");
        assert!(queue.poll().is_none(), "a second completion");
        completion.outcome
    }

    fn write(&self, object: ObjectId, offset_bytes: u64, data: &[u8]) {
        let data = Bytes::copy_from_slice(data);
        let write = Operation::Write { object, offset_bytes, data };
        assert_eq!(self.ask(Place::Storage(0), write), Ok(Answer::Done));
    }

    fn read(&self, object: ObjectId, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
        // A buffer that was used before, and not for zeros.
        let buffer = vec![0xaa; 100];
        let read = Operation::Read { object, offset_bytes, length_bytes, buffer };
        match self.ask(Place::Storage(0), read) {
            Ok(Answer::Read(data)) => data,
            other => panic!("a read ended with {other:?}"),
        }
    }

    fn names(&self, operation: CatalogOperation) -> Result<Answer, EngineError> {
        self.ask(Place::Metadata, Operation::Catalog(operation))
    }

    fn create(&self, name: &str) -> Result<FileRecord, EngineError> {
        let layout = Layout { unit_bytes: 1 << 16, first_server: 0, count: 1 };
        let created = self.names(CatalogOperation::Create { name: name.to_owned(), layout })?;
        let Answer::File(record) = created else { panic!("a create gave {created:?}") };
        assert_eq!((&record.name[..], record.layout, record.size_bytes), (name, layout, 0));
        Ok(record)
    }

    fn open(&self, name: &str) -> Result<FileRecord, EngineError> {
        match self.names(CatalogOperation::Open { name: name.to_owned() })? {
            Answer::File(record) => Ok(record),
            other => panic!("an open gave {other:?}"),
        }
    }

    /// The record of the file that had the new name, if there was one.
    fn rename(
        &self,
        from: &str,
        to: &str,
        taken: Taken,
    ) -> Result<Option<FileRecord>, EngineError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        match self.names(CatalogOperation::Rename { from, to, taken })? {
            Answer::Done => Ok(None),
            Answer::File(record) => Ok(Some(record)),
            other => panic!("a rename gave {other:?}"),
        }
    }

    /// An object that no other check uses.
    fn object(&self, name: &str) -> ObjectId {
        let record = self.create(&format!("conformance/{name}")).expect("a name that is free");
        ObjectId { file: record.file, stripe: 0 }
    }
}

/// Read-your-writes and overwriting.
pub fn reads_give_what_was_written(connect: Connect<'_>) {
    let client = Client::new(connect);
    let object = client.object("written");
    client.write(object, 0, b"one two three");
    client.write(object, 4, b"TWO");
    let data = client.read(object, 0, 13);
    assert_eq!(data.len(), 13);
    if client.keeps_data() {
        assert_eq!(data, b"one TWO three");
        let other = Client::new(connect);
        assert_eq!(other.read(object, 4, 3), b"TWO", "another client sees it too");
        let stripe = ObjectId { stripe: 1, ..object };
        assert_eq!(client.read(stripe, 0, 3), b"", "stripes are objects of their own");
    }
}

/// Holes read as zeros; reads past the end come back shorter.
pub fn holes_and_ends(connect: Connect<'_>) {
    let client = Client::new(connect);
    if !client.keeps_data() {
        return;
    }
    let object = client.object("holes");
    assert_eq!(client.read(object, 0, 10), b"", "an object that was never written");
    client.write(object, 1_000_000, b"end");
    assert_eq!(client.read(object, 999_998, 100), b"\0\0end");
    assert_eq!(client.read(object, 1_000_002, 1), b"d");
    assert_eq!(client.read(object, 1_000_003, 10), b"");
    assert_eq!(client.read(object, 5_000_000, 10), b"");
    let hole = client.read(object, 0, 900_000);
    assert!(hole.len() == 900_000 && hole.iter().all(|&byte| byte == 0));
    client.write(object, 2_000_000, b"");
    assert_eq!(client.read(object, 1_000_000, 0), b"");
}

/// Writes and reads of all sizes and alignments against a plain array.
pub fn random_writes(connect: Connect<'_>) {
    let client = Client::new(connect);
    if !client.keeps_data() {
        return;
    }
    let seed = 7;
    let mut rng = Rng::new(seed);
    let object = client.object("random");
    let mut model = vec![0; 3 << 20];
    let mut end = 0;
    for round in 0..60 {
        let length = if rng.below(2) == 0 { rng.below(5_000) } else { 4096 * rng.below(200) };
        let offset = if rng.below(2) == 0 { rng.below(2 << 20) } else { 4096 * rng.below(500) };
        let (offset, length) = (offset as usize, length as usize);
        let data: Vec<u8> = (0..length).map(|at| (at * 7 + round) as u8).collect();
        client.write(object, offset as u64, &data);
        model[offset..offset + length].copy_from_slice(&data);
        end = if length > 0 { end.max(offset + length) } else { end };
        let from = rng.below(2 << 20) as usize;
        let read = client.read(object, from as u64, 1 << 20);
        let expected = &model[from.min(end)..(from + (1 << 20)).min(end).max(from.min(end))];
        assert!(read == expected, "round {round}, seed {seed}: {} bytes differ", read.len());
    }
}

/// A removed object is empty, can be removed again, and can be written again.
pub fn removal(connect: Connect<'_>) {
    let client = Client::new(connect);
    let object = client.object("removed");
    let remove = || Operation::Remove { object };
    assert_eq!(client.ask(Place::Storage(0), remove()), Ok(Answer::Done), "it is not there yet");
    client.write(object, 0, b"old");
    assert_eq!(client.ask(Place::Storage(0), remove()), Ok(Answer::Done));
    if client.keeps_data() {
        assert_eq!(client.read(object, 0, 10), b"");
        client.write(object, 1, b"new");
        assert_eq!(client.read(object, 0, 10), b"\0new");
    }
    assert_eq!(client.ask(Place::Storage(0), remove()), Ok(Answer::Done));
    assert_eq!(client.ask(Place::Storage(0), remove()), Ok(Answer::Done));
}

/// Create, open, extend, unlink.
pub fn catalog(connect: Connect<'_>) {
    let client = Client::new(connect);
    let name = "conformance/catalog — ü";
    let open = || CatalogOperation::Open { name: name.to_owned() };
    let missing = Err(EngineError::NotFound(name.to_owned()));
    assert_eq!(client.names(open()), missing);
    let record = client.create(name).expect("a name that is free");
    assert_eq!(client.create(name), Err(EngineError::Exists(name.to_owned())));
    let file = record.file;
    for size_bytes in [10, 5] {
        let extend = CatalogOperation::Extend { file, size_bytes };
        assert_eq!(client.names(extend), Ok(Answer::Done));
    }
    let sized = FileRecord { size_bytes: 10, ..record };
    assert_eq!(client.names(open()), Ok(Answer::File(sized.clone())), "the larger size holds");
    let unlink = || CatalogOperation::Unlink { name: name.to_owned() };
    assert_eq!(client.names(unlink()), Ok(Answer::File(sized)));
    assert_eq!(client.names(unlink()), missing);
    assert_eq!(client.names(open()), missing);
    let gone = client.names(CatalogOperation::Extend { file, size_bytes: 20 });
    assert!(matches!(gone, Err(EngineError::NotFound(_))), "{gone:?}");
    let again = client.create(name).expect("a name that is free");
    assert!(again.file > file, "file numbers are not used again");
    client.names(unlink()).expect("a name that is there");
}

/// A file under another name is the same file; one that had the name goes, or moves, or stays.
pub fn renaming(connect: Connect<'_>) {
    let client = Client::new(connect);
    let [a, b, c] = ["a", "b", "c"].map(|name| format!("conformance/rename {name} ü"));
    let missing = |name: &str| EngineError::NotFound(name.to_owned());
    let taken = |name: &str| EngineError::Exists(name.to_owned());
    assert_eq!(client.rename(&a, &b, Taken::Replaced), Err(missing(&a)));
    assert_eq!(client.rename(&a, &a, Taken::Replaced), Err(missing(&a)));
    let first = client.create(&a).expect("a name that is free");
    let extend =
        |file, size_bytes| client.names(CatalogOperation::Extend { file, size_bytes }).map(drop);
    assert_eq!(extend(first.file, 10), Ok(()));
    assert_eq!(client.rename(&a, &b, Taken::Refused), Ok(None));
    // Who knows only the number makes it longer under its new name.
    assert_eq!(extend(first.file, 20), Ok(()));
    let first = FileRecord { name: b.clone(), size_bytes: 20, ..first };
    assert_eq!((client.open(&a), client.open(&b)), (Err(missing(&a)), Ok(first.clone())));
    assert_eq!(client.rename(&b, &b, Taken::Replaced), Ok(None), "it has that name");
    assert_eq!(client.rename(&b, &b, Taken::Refused), Err(taken(&b)));
    // Its old name is free, and the new file of that name is another one.
    let second = client.create(&a).expect("a name that is free");
    assert!(second.file > first.file, "file numbers are not used again");
    assert_eq!(client.rename(&a, &b, Taken::Refused), Err(taken(&b)));
    assert_eq!(client.rename(&a, &b, Taken::Replaced), Ok(Some(first.clone())));
    let second = FileRecord { name: b.clone(), ..second };
    assert_eq!((client.open(&a), client.open(&b)), (Err(missing(&a)), Ok(second.clone())));
    assert_eq!(extend(first.file, 30), Err(missing(&format!("number {}", first.file))));
    // A file that makes room keeps its number and its size.
    let third = client.create(&a).expect("a name that is free");
    assert_eq!(extend(second.file, 7), Ok(()));
    let aside = || Taken::Moved(c.clone());
    let moved = FileRecord { name: c.clone(), size_bytes: 7, ..second };
    assert_eq!(client.rename(&a, &b, aside()), Ok(Some(moved.clone())));
    assert_eq!(client.open(&c), Ok(moved.clone()));
    assert_eq!(client.open(&b).map(|record| record.file), Ok(third.file));
    assert_eq!(extend(moved.file, 8), Ok(()));
    assert_eq!(client.open(&c).map(|record| record.size_bytes), Ok(8));
    // Nothing makes room for a name that is free, and none where there is no room.
    assert_eq!(client.rename(&b, &a, aside()), Ok(None));
    client.create(&b).expect("a name that is free");
    assert_eq!(client.rename(&b, &a, aside()), Err(taken(&c)));
    assert_eq!(client.open(&a).map(|record| record.file), Ok(third.file), "nothing was changed");
    for name in [&a, &b, &c] {
        let unlink = CatalogOperation::Unlink { name: name.clone() };
        client.names(unlink).expect("a name that is there");
        assert_eq!(client.open(name), Err(missing(name)));
    }
}

/// Several clients that rename to one name, and from one name: each file has one name, or went
/// once.
pub fn renaming_at_once(connect: Connect<'_>) {
    let first = Client::new(connect);
    let many = first.keeps_data();
    let clients: Vec<_> =
        (0..4).map(|_| if many { Client::new(connect) } else { first.clone() }).collect();
    let common = "conformance/at once";
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, client)| {
                scope.spawn(move || {
                    let (mut made, mut gone) = (Vec::new(), Vec::new());
                    for round in 0..20 {
                        let own = format!("{common}/{number}.{round}");
                        let record = client.create(&own).expect("a name that is free");
                        made.push(record.file);
                        let replaced = client.rename(&own, common, Taken::Replaced);
                        gone.extend(replaced.expect("a rename").map(|record| record.file));
                        // It grows under whatever name it has, unless it went by now.
                        let (file, size_bytes) = (record.file, round + 1);
                        let grown = client.names(CatalogOperation::Extend { file, size_bytes });
                        assert!(
                            matches!(grown, Ok(Answer::Done) | Err(EngineError::NotFound(_))),
                            "{grown:?}"
                        );
                        // One of those that want the common file away wins at a time.
                        match client.rename(common, &own, Taken::Refused) {
                            Ok(displaced) => {
                                assert_eq!(displaced, None);
                                let back = client.rename(&own, common, Taken::Replaced);
                                gone.extend(back.expect("a rename").map(|record| record.file));
                            }
                            other => {
                                let missing = EngineError::NotFound(common.to_owned());
                                assert_eq!(other, Err(missing));
                            }
                        }
                    }
                    (made, gone)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let made: BTreeSet<_> = outcomes.iter().flat_map(|(made, _)| made).copied().collect();
    let gone: Vec<_> = outcomes.iter().flat_map(|(_, gone)| gone).copied().collect();
    let last = first.open(common).expect("one file is left").file;
    let ends: BTreeSet<_> = gone.iter().copied().chain([last]).collect();
    assert_eq!((ends.len(), &ends), (gone.len() + 1, &made), "each file ends once");
    let (prefix, after) = (format!("{common}/"), String::new());
    let list = CatalogOperation::List { prefix, after, limit: 10 };
    assert_eq!(first.names(list), Ok(Answer::Files(Vec::new())), "no old name is left");
}

/// Names come in order, by prefix, page by page.
pub fn listing(connect: Connect<'_>) {
    let client = Client::new(connect);
    let names: Vec<_> = (0..25).map(|number| format!("list/{number:02}")).collect();
    for name in names.iter().rev().chain([&"lisa".to_owned(), &"list0".to_owned()]) {
        client.create(name).expect("a name that is free");
    }
    for limit in [1, 7, 25, 1000] {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let after = seen.last().cloned().unwrap_or_default();
            let list = CatalogOperation::List { prefix: "list/".to_owned(), after, limit };
            let Ok(Answer::Files(page)) = client.names(list) else { panic!("no listing") };
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|record| record.name));
        }
        assert_eq!(seen, names);
    }
}

/// Names and layouts that are refused.
pub fn bad_names_and_layouts(connect: Connect<'_>) {
    let client = Client::new(connect);
    let invalid = |outcome: Result<Answer, EngineError>| {
        assert!(matches!(outcome, Err(EngineError::Invalid(_))), "{outcome:?}");
    };
    let servers = client.engine.servers();
    let good = Layout { unit_bytes: 4096, first_server: 0, count: 1 };
    for name in [String::new(), "a\0b".to_owned(), "x".repeat(256), "ü".repeat(128)] {
        invalid(client.names(CatalogOperation::Create { name: name.clone(), layout: good }));
        invalid(client.names(CatalogOperation::Open { name: name.clone() }));
        invalid(client.names(CatalogOperation::Unlink { name: name.clone() }));
        let good = || "conformance/good".to_owned();
        for [from, to, aside] in [
            [name.clone(), good(), "aside".to_owned()],
            [good(), name.clone(), "aside".to_owned()],
            [good(), "conformance/other".to_owned(), name],
            [good(), "conformance/other".to_owned(), good()],
        ] {
            let taken = Taken::Moved(aside);
            invalid(client.names(CatalogOperation::Rename { from, to, taken }));
        }
    }
    for layout in [
        Layout { unit_bytes: 0, ..good },
        Layout { count: 0, ..good },
        Layout { count: servers + 1, ..good },
        Layout { first_server: servers, ..good },
    ] {
        let name = "conformance/bad".to_owned();
        invalid(client.names(CatalogOperation::Create { name, layout }));
    }
    let longest = "\u{1}".repeat(255);
    client.create(&longest).expect("a name that is free");
    assert!(client.names(CatalogOperation::Open { name: longest }).is_ok());
}

/// Requests that go to a server which is not there or is not for them.
pub fn wrong_places(connect: Connect<'_>) {
    let client = Client::new(connect);
    let object = ObjectId { file: 1, stripe: 0 };
    let invalid = |outcome: Result<Answer, EngineError>| {
        assert!(matches!(outcome, Err(EngineError::Invalid(_))), "{outcome:?}");
    };
    let servers = client.engine.servers();
    invalid(client.ask(Place::Storage(servers), Operation::Remove { object }));
    invalid(client.ask(Place::Metadata, Operation::Remove { object }));
    let list = CatalogOperation::List { prefix: String::new(), after: String::new(), limit: 1 };
    invalid(client.ask(Place::Storage(0), Operation::Catalog(list)));
    if client.keeps_data() {
        let data = Bytes::from_static(b"x");
        let write = Operation::Write { object, offset_bytes: u64::MAX, data };
        invalid(client.ask(Place::Storage(0), write));
    }
}

/// Exactly one completion for each tag, in whatever order.
pub fn many_in_flight(connect: Connect<'_>) {
    let client = Client::new(connect);
    let object = client.object("many");
    let queue = CompletionQueue::new();
    let count = 500;
    for tag in 0..count {
        let data = Bytes::from(vec![tag as u8; 1000]);
        let write = Operation::Write { object, offset_bytes: tag * 1000, data };
        client.engine.submit(Request::new(tag, Place::Storage(0), write), &queue.sender());
    }
    let mut seen = BTreeSet::new();
    while seen.len() < count as usize {
        let wake = Some(clock::now() + Span::from_secs(60));
        let completion = queue.wait(wake).expect("a completion within a minute");
        assert_eq!(completion.outcome, Ok(Answer::Done));
        assert!(seen.insert(completion.tag), "tag {} twice", completion.tag);
    }
    clock::sleep(Span::from_millis(20));
    assert!(queue.poll().is_none(), "more completions than requests");
    if client.keeps_data() {
        let data = client.read(object, 0, count as u32 * 1000);
        let right = data.chunks(1000).enumerate();
        assert!(right.into_iter().all(|(tag, chunk)| chunk == vec![tag as u8; 1000]));
    }
}

/// A request that is given up completes once, cancelled or done.
pub fn cancel(connect: Connect<'_>) {
    let client = Client::new(connect);
    let object = client.object("cancelled");
    let queue = CompletionQueue::new();
    client.engine.cancel(99);
    for tag in 0..100 {
        let data = Bytes::from(vec![1; 10_000]);
        let write = Operation::Write { object, offset_bytes: 0, data };
        client.engine.submit(Request::new(tag, Place::Storage(0), write), &queue.sender());
        client.engine.cancel(tag);
    }
    let wake = Some(clock::now() + Span::from_secs(60));
    let ended: BTreeSet<_> = std::iter::from_fn(|| queue.wait(wake))
        .take(100)
        .inspect(|completion| {
            let outcome = &completion.outcome;
            assert!(
                matches!(outcome, Ok(Answer::Done) | Err(EngineError::Cancelled)),
                "{outcome:?}"
            );
        })
        .map(|completion| completion.tag)
        .collect();
    assert_eq!(ended.len(), 100);
    // The connection still works, and no late answer ends anything twice.
    client.write(object, 0, b"after");
    assert!(queue.poll().is_none());
}

/// Several clients at once, each with an object and files of its own and one in common.
pub fn concurrent_clients(connect: Connect<'_>) {
    let first = Client::new(connect);
    let common = first.object("common");
    let keeps = first.keeps_data();
    let clients: Vec<_> =
        (0..4_u8).map(|_| if keeps { Client::new(connect) } else { first.clone() }).collect();
    std::thread::scope(|scope| {
        for (number, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                let own = client.object(&format!("concurrent {number}"));
                for round in 0..20_u64 {
                    let data = vec![number as u8 + 1; 3000];
                    client.write(own, round * 3000, &data);
                    client.write(common, (round * 4 + number as u64) * 3000, &data);
                    if client.keeps_data() {
                        assert_eq!(client.read(own, round * 3000, 3000), data);
                    }
                }
            });
        }
    });
    if keeps {
        let data = first.read(common, 0, 80 * 3000);
        let mut chunks = data.chunks(3000).enumerate();
        assert!(chunks.all(|(at, chunk)| chunk == vec![(at % 4) as u8 + 1; 3000]));
    }
}

/// Statistics count what was done, for every server.
pub fn statistics(connect: Connect<'_>) {
    let client = Client::new(connect);
    let object = client.object("counted");
    let before = client.engine.statistics().expect("statistics");
    assert_eq!(
        before.len(),
        client.engine.servers() as usize + 1,
        "the metadata server comes last"
    );
    client.write(object, 0, &[1; 5000]);
    let read = client.read(object, 0, 2000).len() as u64;
    let after = client.engine.statistics().expect("statistics");
    let grown = |get: fn(&super::ServerStatistics) -> u64| get(&after[0]) - get(&before[0]);
    assert_eq!(grown(|server| server.requests), 2);
    assert_eq!(grown(|server| server.written_bytes), 5000);
    assert_eq!(grown(|server| server.read_bytes), read);
    if let (true, Some(stored)) = (client.keeps_data(), before[0].stored_bytes) {
        assert_eq!(after[0].stored_bytes, Some(stored + 5000));
    }
    assert!(after[0].queue_depth_max >= u64::from(after[0].queue_depth > 0));
    assert!(after.iter().all(|server| !server.server.is_empty()));
}
