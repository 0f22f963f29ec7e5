//! The operations of clients, one after the other, as a pure state machine.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::rng::Rng;
use crate::units::Time;
use crate::workload::{Access, Kind, Placing, Step, Workload};

/// One operation of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppOperation {
    /// Handed back to [`Generator::complete`]; one operation at a time carries it.
    pub thread: u32,
    /// The stream that it belongs to, by position in the workload.
    pub stream: u32,
    /// What is done.
    pub kind: Kind,
    /// The file, below `files.each`; of this client, or shared.
    pub file: u32,
    /// First byte. For appends the driver's knowledge of the end counts, and this is zero.
    pub offset_bytes: u64,
    /// Number of bytes; zero for metadata.
    pub length_bytes: u64,
}

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Starts this operation, now.
    Start(AppOperation),
    /// Asks again at this time, or after the next completion.
    At(Time),
    /// Asks again after the next completion.
    AfterCompletion,
}

/// Generates the operations of one client.
#[derive(Clone, Debug)]
pub struct Generator {
    all: Generators,
}

/// Generates the operations of many clients of one workload, each as if it were alone.
///
/// What they have in common is kept once, and the rest in tables without holes, so that a client
/// with one thread takes 88 bytes.
#[derive(Clone, Debug)]
pub struct Generators {
    workload: Arc<Workload>,
    /// Whether files come, go or grow.
    changes_files: bool,
    /// The first thread of each stream, and the number of all.
    first_threads: Vec<u32>,
    /// The files that exist at the start.
    present: Vec<u32>,
    first_client: u32,
    clients: Vec<Cursor>,
    threads: Vec<Thread>,
    streams: Vec<StreamState>,
    /// Files of each client, where they change.
    files: Vec<ClientFiles>,
}

/// What a client has besides its threads, streams and files.
#[derive(Clone, Debug)]
struct Cursor {
    rng: Rng,
    next_stream: u32,
}

#[derive(Clone, Debug)]
struct Thread {
    ready: Time,
    step: u16,
    /// What it has under way, and on which file.
    running: Option<Kind>,
    file: u32,
}

#[derive(Clone, Debug, Default)]
struct StreamState {
    issued: u64,
    cursor_bytes: u64,
    resume: Time,
    running: u32,
    burst_left: u32,
}

#[derive(Clone, Debug)]
struct ClientFiles {
    present: Vec<u32>,
    absent: Vec<u32>,
    /// Files with an operation under way, which must not be deleted from under it.
    busy: BTreeSet<u32>,
}

impl Generator {
    /// The generator of client `client`. The same seed gives every client the same operations under
    /// every setting, so that settings are compared on equal terms.
    pub fn new(workload: &Workload, client: u32, seed: u64) -> Self {
        Self { all: Generators::new(Arc::new(workload.clone()), client..client + 1, seed) }
    }

    /// The files that must exist before the first operation.
    pub fn files_at_start(&self) -> &[u32] {
        &self.all.present
    }

    /// What to do at `now`. Start an operation and ask again, until there is none to start.
    pub fn next(&mut self, now: Time) -> Next {
        let client = self.all.first_client;
        self.all.next(client, now)
    }

    /// Takes the end of the operation that `thread` had under way.
    pub fn complete(&mut self, now: Time, thread: u32) {
        let client = self.all.first_client;
        self.all.complete(client, now, thread);
    }
}

impl Generators {
    /// The generators of the clients in the range; see [`Generator::new`].
    pub fn new(workload: Arc<Workload>, clients: Range<u32>, seed: u64) -> Self {
        let mut first_threads = vec![0];
        for stream in &workload.streams {
            first_threads.push(first_threads.last().unwrap_or(&0) + stream.threads);
        }
        let files = &workload.files;
        let present = u64::from(files.each) * u64::from(files.present_percent) / 100;
        let count = clients.len();
        let mut all = Self {
            changes_files: workload.changes_files(),
            present: (0..present as u32).collect(),
            first_client: clients.start,
            clients: Vec::with_capacity(count),
            threads: Vec::with_capacity(count * first_threads[workload.streams.len()] as usize),
            streams: Vec::with_capacity(count * workload.streams.len()),
            files: Vec::new(),
            first_threads,
            workload,
        };
        let root = Rng::new(seed);
        for client in clients {
            all.add(root.fork(&format!("client {client}")));
        }
        all
    }

    fn add(&mut self, rng: Rng) {
        self.clients.push(Cursor { rng, next_stream: 0 });
        for stream in &self.workload.streams {
            let ready = Time::ZERO + stream.steps[0].think;
            let idle = Thread { ready, step: 0, running: None, file: 0 };
            self.threads.extend(std::iter::repeat_n(idle, stream.threads as usize));
            let burst_left = stream.burst.map_or(u32::MAX, |burst| burst.operations);
            self.streams.push(StreamState { burst_left, ..StreamState::default() });
        }
        if self.changes_files {
            self.files.push(ClientFiles {
                present: self.present.clone(),
                absent: (self.present.len() as u32..self.workload.files.each).collect(),
                busy: BTreeSet::new(),
            });
        }
    }

    /// What `client` does at `now`. Start an operation and ask again, until there is none to start.
    pub fn next(&mut self, client: u32, now: Time) -> Next {
        let count = self.workload.streams.len();
        let at = self.at(client);
        let mut wake = Time::NEVER;
        for turn in 0..count {
            let stream = (self.clients[at].next_stream as usize + turn) % count;
            match self.next_of(client, stream, now) {
                Next::Start(operation) => {
                    // The streams take turns, so that one with many threads does not hide others.
                    self.clients[at].next_stream = ((stream + 1) % count) as u32;
                    return Next::Start(operation);
                }
                Next::At(time) => wake = wake.min(time),
                Next::AfterCompletion => {}
            }
        }
        if wake == Time::NEVER { Next::AfterCompletion } else { Next::At(wake) }
    }

    /// Takes the end of the operation that `thread` of `client` had under way.
    pub fn complete(&mut self, client: u32, now: Time, thread: u32) {
        let count = self.workload.streams.len();
        if thread >= self.first_threads[count] {
            return;
        }
        let number = self.first_threads.partition_point(|first| *first <= thread) - 1;
        let (at, of) = (self.thread(client, thread), self.stream(client, number));
        let thread = &mut self.threads[at];
        let Some(kind) = thread.running.take() else { return };
        let file = thread.file;
        let stream = &self.workload.streams[number];
        thread.step = ((usize::from(thread.step) + 1) % stream.steps.len()) as u16;
        thread.ready = now + stream.steps[usize::from(thread.step)].think;
        let state = &mut self.streams[of];
        state.running -= 1;
        if let Some(burst) = stream.burst
            && state.burst_left == 0
            && state.running == 0
        {
            state.burst_left = burst.operations;
            state.resume = now + burst.pause;
        }
        let at = self.at(client);
        let Some(files) = self.files.get_mut(at) else { return };
        if self.workload.files.each > 1 {
            files.busy.remove(&file);
        }
        match kind {
            Kind::Create => files.present.push(file),
            Kind::Delete => files.absent.push(file),
            _ => {}
        }
    }

    fn next_of(&mut self, client: u32, number: usize, now: Time) -> Next {
        let at = self.stream(client, number);
        let stream = &self.streams[at];
        if stream.burst_left == 0 || !self.has(client, number) || self.is_ahead(client, number) {
            return Next::AfterCompletion;
        }
        if stream.resume > now {
            return Next::At(stream.resume);
        }
        let mut wake = Time::NEVER;
        for index in self.first_threads[number]..self.first_threads[number + 1] {
            let thread = &self.threads[self.thread(client, index)];
            if thread.running.is_some() {
                continue;
            }
            if thread.ready > now {
                wake = wake.min(thread.ready);
                continue;
            }
            let step = self.workload.streams[number].steps[thread.step as usize];
            if let Some(operation) = self.operation(client, number, index, &step) {
                let thread = self.thread(client, index);
                let thread = &mut self.threads[thread];
                (thread.running, thread.file) = (Some(operation.kind), operation.file);
                let stream = &mut self.streams[at];
                stream.issued += 1;
                stream.running += 1;
                if stream.burst_left != u32::MAX {
                    stream.burst_left -= 1;
                }
                return Next::Start(operation);
            }
        }
        if wake == Time::NEVER { Next::AfterCompletion } else { Next::At(wake) }
    }

    /// Whether a client runs a stream.
    fn has(&self, client: u32, number: usize) -> bool {
        self.workload.streams[number].clients.is_none_or(|[divisor, rest]| client % divisor == rest)
    }

    const fn at(&self, client: u32) -> usize {
        (client - self.first_client) as usize
    }

    /// Where a thread of a client stands.
    fn thread(&self, client: u32, thread: u32) -> usize {
        let each = self.first_threads[self.workload.streams.len()] as usize;
        self.at(client) * each + thread as usize
    }

    /// Where a stream of a client stands.
    fn stream(&self, client: u32, number: usize) -> usize {
        self.at(client) * self.workload.streams.len() + number
    }

    /// How many files of a client exist.
    fn present_len(&self, client: u32) -> usize {
        match self.files.get(self.at(client)) {
            Some(files) => files.present.len(),
            None => self.present.len(),
        }
    }

    /// One of the files of a client that exist.
    fn present(&self, client: u32, at: usize) -> Option<u32> {
        match self.files.get(self.at(client)) {
            Some(files) => files.present.get(at).copied(),
            None => self.present.get(at).copied(),
        }
    }

    /// Whether the stream has begun all that its share allows before the others have.
    fn is_ahead(&self, client: u32, number: usize) -> bool {
        let cycle = |number: usize| {
            let share = self.workload.streams[number].share?;
            let state = &self.streams[self.stream(client, number)];
            self.has(client, number).then(|| state.issued / u64::from(share))
        };
        let Some(mine) = cycle(number) else { return false };
        (0..self.workload.streams.len()).filter_map(cycle).any(|other| other < mine)
    }

    fn operation(
        &mut self,
        client: u32,
        number: usize,
        thread: u32,
        step: &Step,
    ) -> Option<AppOperation> {
        let file_bytes = self.workload.files.size;
        let length_bytes = step.size.unwrap_or(file_bytes);
        let make = |file, offset_bytes, length_bytes| AppOperation {
            thread,
            stream: number as u32,
            kind: step.kind,
            file,
            offset_bytes,
            length_bytes,
        };
        let at = self.at(client);
        let operation = match (step.kind, step.access) {
            (Kind::Create, _) => {
                let files = self.files.get_mut(at)?;
                make(take_any(&mut self.clients[at].rng, &mut files.absent)?, 0, length_bytes)
            }
            (Kind::Delete, _) => {
                let place = self.pick_idle(client)?;
                make(self.files.get_mut(at)?.present.swap_remove(place), 0, 0)
            }
            (Kind::Stat, _) => make(self.idle_file(client)?, 0, 0),
            (Kind::Append, _) => make(self.idle_file(client)?, 0, length_bytes),
            (Kind::Read | Kind::Write, _) if self.changes_files && step.size.is_none() => {
                make(self.idle_file(client)?, 0, length_bytes)
            }
            (Kind::Read | Kind::Write, Access::Sequential | Access::Backward) => {
                let backward = step.access == Access::Backward;
                let (file, offset) = self.advance(client, number, length_bytes, backward)?;
                make(file, offset, length_bytes)
            }
            (Kind::Read | Kind::Write, Access::Random) => {
                let file = self.idle_file(client)?;
                let slots = (file_bytes / length_bytes).max(1);
                make(file, self.clients[at].rng.below(slots) * length_bytes, length_bytes)
            }
        };
        if let Some(files) = self.files.get_mut(at) {
            files.busy.insert(operation.file);
        }
        Some(operation)
    }

    /// Where a sequential stream goes on: file by file, and again from the first. Clients that
    /// share files start at different places, else they would all read what one has just read.
    fn advance(
        &mut self,
        client: u32,
        number: usize,
        length_bytes: u64,
        backward: bool,
    ) -> Option<(u32, u64)> {
        let files = self.present_len(client) as u64;
        let per_file = (self.workload.files.size / length_bytes).max(1);
        let slots = files.checked_mul(per_file).filter(|&slots| slots > 0)?;
        let start = match self.workload.files.placing {
            Placing::PerClient => 0,
            Placing::Shared => slots * u64::from(client) / u64::from(self.workload.clients.max(1)),
        };
        let of = self.stream(client, number);
        let slot = (start + self.streams[of].cursor_bytes / length_bytes) % slots;
        self.streams[of].cursor_bytes += length_bytes;
        let slot = if backward { slots - 1 - slot } else { slot };
        let file = self.present(client, (slot / per_file) as usize)?;
        Some((file, slot % per_file * length_bytes))
    }

    /// A file that exists and that nothing is under way on.
    fn idle_file(&mut self, client: u32) -> Option<u32> {
        let place = self.pick_idle(client)?;
        self.present(client, place)
    }

    /// Position among the files that exist of one that nothing is under way on.
    fn pick_idle(&mut self, client: u32) -> Option<usize> {
        let (at, count) = (self.at(client), self.present_len(client));
        let files = self.files.get(at);
        let is_idle = |file: u32| files.is_none_or(|files| !files.busy.contains(&file));
        for _ in 0..16 {
            let place = self.clients[at].rng.below(count as u64) as usize;
            let file = match files {
                Some(files) => files.present.get(place),
                None => self.present.get(place),
            };
            if is_idle(*file?) {
                return Some(place);
            }
        }
        (0..count).find(|place| self.present(client, *place).is_some_and(is_idle))
    }
}

fn take_any(rng: &mut Rng, files: &mut Vec<u32>) -> Option<u32> {
    let at = rng.below(files.len() as u64) as usize;
    (!files.is_empty()).then(|| files.swap_remove(at))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::units::Span;

    fn workload(files: &str, streams: &str) -> Workload {
        Workload::parse(&format!(
            "afflux-workload = 1\nname = \"w\"\nclients = 4\n[files]\n{files}\n{streams}"
        ))
        .unwrap()
    }

    /// Runs `steps` operations; completes them in an order that depends on the seed.
    fn run(generator: &mut Generator, steps: usize, seed: u64) -> Vec<AppOperation> {
        let mut rng = Rng::new(seed);
        let (mut running, mut done, mut now) = (Vec::new(), Vec::new(), Time::ZERO);
        while done.len() < steps {
            match generator.next(now) {
                Next::Start(operation) => {
                    running.push(operation);
                    done.push(operation);
                }
                other => {
                    if running.is_empty() {
                        let Next::At(time) = other else { panic!("stuck: {other:?}") };
                        now = time;
                        continue;
                    }
                    now += Span::from_millis(1);
                    let finished = running.swap_remove(rng.below(running.len() as u64) as usize);
                    generator.complete(now, finished.thread);
                }
            }
        }
        done
    }

    #[test]
    fn the_ratio_is_held_exactly_at_every_cycle() {
        let streams = r#"
            [[stream]]
            threads = 3
            share = 2
            steps = [{ do = "read", access = "random", size = "1 MiB" }]
            [[stream]]
            threads = 5
            share = 10
            steps = [{ do = "write", access = "random", size = "1 MiB" }]"#;
        let workload = workload("each = 1\nsize = \"8 MiB\"", streams);
        for seed in 0..20 {
            let operations = run(&mut Generator::new(&workload, 0, seed), 1_200, seed);
            let mut counts = [0_u64; 2];
            for operation in operations {
                counts[operation.stream as usize] += 1;
                assert!(counts[0].div_ceil(2).abs_diff(counts[1].div_ceil(10)) <= 1, "{counts:?}");
            }
            assert_eq!(counts, [200, 1_000]);
        }
    }

    #[test]
    fn sequential_goes_through_all_files_and_shared_clients_start_apart() {
        let step = r#"[[stream]]
            threads = 1
            steps = [{ do = "read", size = "2 MiB" }]"#;
        let own = workload("each = 2\nsize = \"4 MiB\"", step);
        let places: Vec<_> = run(&mut Generator::new(&own, 1, 9), 5, 0)
            .iter()
            .map(|operation| (operation.file, operation.offset_bytes >> 20))
            .collect();
        assert_eq!(places, [(0, 0), (0, 2), (1, 0), (1, 2), (0, 0)]);
        let backward = step.replace("size =", "access = \"backward\", size =");
        let backward = workload("each = 2\nsize = \"4 MiB\"", &backward);
        let places: Vec<_> = run(&mut Generator::new(&backward, 1, 9), 5, 0)
            .iter()
            .map(|operation| (operation.file, operation.offset_bytes >> 20))
            .collect();
        assert_eq!(places, [(1, 2), (1, 0), (0, 2), (0, 0), (1, 2)]);
        let shared = workload("each = 2\nsize = \"4 MiB\"\nplacing = \"shared\"", step);
        let first = run(&mut Generator::new(&shared, 2, 9), 1, 0)[0];
        assert_eq!((first.file, first.offset_bytes), (1, 0));
    }

    #[test]
    fn files_that_come_and_go_are_never_used_while_absent_or_twice_at_once() {
        let streams = r#"[[stream]]
            threads = 6
            steps = [
              { do = "create" }, { do = "append", size = "1 MiB" }, { do = "read" },
              { do = "stat" }, { do = "delete" },
            ]"#;
        let workload = workload("each = 20\nsize = \"2 MiB\"\npresent_percent = 50", streams);
        let mut generator = Generator::new(&workload, 0, 5);
        let mut present: BTreeSet<u32> = generator.files_at_start().iter().copied().collect();
        let mut running: BTreeMap<u32, AppOperation> = BTreeMap::new();
        let mut rng = Rng::new(1);
        for _ in 0..5_000 {
            if let Next::Start(operation) = generator.next(Time::ZERO) {
                let exists = present.contains(&operation.file);
                assert_eq!(exists, operation.kind != Kind::Create, "{operation:?}");
                assert!(running.values().all(|other| other.file != operation.file));
                if operation.kind == Kind::Delete {
                    present.remove(&operation.file);
                }
                running.insert(operation.thread, operation);
                continue;
            }
            let at = rng.below(running.len() as u64) as usize;
            let thread = *running.keys().nth(at).unwrap();
            let finished = running.remove(&thread).unwrap();
            if finished.kind == Kind::Create {
                present.insert(finished.file);
            }
            generator.complete(Time::ZERO, thread);
        }
    }

    #[test]
    fn a_burst_ends_before_the_next_begins() {
        let streams = r#"[[stream]]
            threads = 4
            burst = { operations = 10, pause = "1s" }
            steps = [{ do = "write", size = "1 MiB" }]"#;
        let workload = workload("each = 1\nsize = \"64 MiB\"", streams);
        let mut generator = Generator::new(&workload, 0, 0);
        let mut started = Vec::new();
        while let Next::Start(operation) = generator.next(Time::ZERO) {
            started.push(operation.thread);
        }
        assert_eq!(started.len(), 4);
        let mut total = 4;
        while let Some(thread) = started.pop() {
            generator.complete(Time::ZERO, thread);
            if let Next::Start(operation) = generator.next(Time::ZERO) {
                started.push(operation.thread);
                total += 1;
            }
        }
        assert_eq!(total, 10);
        assert_eq!(generator.next(Time::ZERO), Next::At(Time::ZERO + Span::from_secs(1)));
    }

    /// A digest of what all presets generate: what comes out must not change with how it is kept.
    #[test]
    fn presets_generate_what_they_always_did() {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for preset in crate::workload::PRESETS {
            for client in [0, 3] {
                let mut generator = Generator::new(&preset.workload(), client, 11);
                for operation in run(&mut generator, 600, 5) {
                    for byte in format!("{operation:?}").bytes() {
                        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                    }
                }
            }
        }
        assert_eq!(format!("{hash:016x}"), "49d76f25c4f0d9ae");
    }
}
