//! The operations of one client, one after the other, as a pure state machine.

use std::collections::BTreeSet;

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
    client: u32,
    workload: Workload,
    rng: Rng,
    threads: Vec<Thread>,
    streams: Vec<StreamState>,
    present: Vec<u32>,
    absent: Vec<u32>,
    /// Files with an operation under way, which must not be deleted from under it.
    busy: BTreeSet<u32>,
    next_stream: usize,
}

#[derive(Clone, Debug)]
struct Thread {
    stream: usize,
    step: usize,
    ready: Time,
    running: Option<AppOperation>,
}

#[derive(Clone, Debug, Default)]
struct StreamState {
    issued: u64,
    running: u32,
    cursor_bytes: u64,
    burst_left: u32,
    resume: Time,
    threads: std::ops::Range<usize>,
}

impl Generator {
    /// The generator of client `client`. The same seed gives every client the same operations under
    /// every setting, so that settings are compared on equal terms.
    pub fn new(workload: &Workload, client: u32, seed: u64) -> Self {
        let rng = Rng::new(seed).fork(&format!("client {client}"));
        let mut threads = Vec::new();
        let mut streams = Vec::new();
        for (number, stream) in workload.streams.iter().enumerate() {
            let mine = stream.clients.is_none_or(|[divisor, rest]| client % divisor == rest);
            let first = threads.len();
            for _ in 0..if mine { stream.threads } else { 0 } {
                threads.push(Thread {
                    stream: number,
                    step: 0,
                    ready: Time::ZERO + stream.steps[0].think,
                    running: None,
                });
            }
            streams.push(StreamState {
                burst_left: stream.burst.map_or(u32::MAX, |burst| burst.operations),
                threads: first..threads.len(),
                ..StreamState::default()
            });
        }
        let present = (u64::from(workload.files.each) * u64::from(workload.files.present_percent)
            / 100) as u32;
        Self {
            client,
            rng,
            threads,
            streams,
            present: (0..present).collect(),
            absent: (present..workload.files.each).collect(),
            busy: BTreeSet::new(),
            workload: workload.clone(),
            next_stream: 0,
        }
    }

    /// The files that must exist before the first operation.
    pub fn files_at_start(&self) -> &[u32] {
        &self.present
    }

    /// What to do at `now`. Start an operation and ask again, until there is none to start.
    pub fn next(&mut self, now: Time) -> Next {
        let count = self.streams.len();
        let mut wake = Time::NEVER;
        for turn in 0..count {
            let stream = (self.next_stream + turn) % count;
            match self.next_of(stream, now) {
                Next::Start(operation) => {
                    // The streams take turns, so that one with many threads does not hide others.
                    self.next_stream = (stream + 1) % count;
                    return Next::Start(operation);
                }
                Next::At(time) => wake = wake.min(time),
                Next::AfterCompletion => {}
            }
        }
        if wake == Time::NEVER { Next::AfterCompletion } else { Next::At(wake) }
    }

    /// Takes the end of the operation that `thread` had under way.
    pub fn complete(&mut self, now: Time, thread: u32) {
        let Some(thread) = self.threads.get_mut(thread as usize) else { return };
        let Some(operation) = thread.running.take() else { return };
        let steps = &self.workload.streams[thread.stream].steps;
        thread.step = (thread.step + 1) % steps.len();
        thread.ready = now + steps[thread.step].think;
        let stream = &mut self.streams[thread.stream];
        stream.running -= 1;
        if let Some(burst) = self.workload.streams[thread.stream].burst
            && stream.burst_left == 0
            && stream.running == 0
        {
            stream.burst_left = burst.operations;
            stream.resume = now + burst.pause;
        }
        if self.workload.files.each > 1 {
            self.busy.remove(&operation.file);
        }
        match operation.kind {
            Kind::Create => self.present.push(operation.file),
            Kind::Delete => self.absent.push(operation.file),
            _ => {}
        }
    }

    fn next_of(&mut self, number: usize, now: Time) -> Next {
        let stream = &self.streams[number];
        if stream.burst_left == 0 || stream.threads.is_empty() || self.is_ahead(number) {
            return Next::AfterCompletion;
        }
        if stream.resume > now {
            return Next::At(stream.resume);
        }
        let mut wake = Time::NEVER;
        for index in stream.threads.clone() {
            let thread = &self.threads[index];
            if thread.running.is_some() {
                continue;
            }
            if thread.ready > now {
                wake = wake.min(thread.ready);
                continue;
            }
            let step = self.workload.streams[number].steps[thread.step];
            if let Some(operation) = self.operation(number, index as u32, &step) {
                self.threads[index].running = Some(operation);
                let stream = &mut self.streams[number];
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

    /// Whether the stream has begun all that its share allows before the others have.
    fn is_ahead(&self, number: usize) -> bool {
        let cycle = |number: usize| {
            let share = self.workload.streams[number].share?;
            let state = &self.streams[number];
            (!state.threads.is_empty()).then(|| state.issued / u64::from(share))
        };
        let Some(mine) = cycle(number) else { return false };
        (0..self.streams.len()).filter_map(cycle).any(|other| other < mine)
    }

    fn operation(&mut self, number: usize, thread: u32, step: &Step) -> Option<AppOperation> {
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
        let operation = match (step.kind, step.access) {
            (Kind::Create, _) => make(take_any(&mut self.rng, &mut self.absent)?, 0, length_bytes),
            (Kind::Delete, _) => {
                let at = self.pick_idle()?;
                make(self.present.swap_remove(at), 0, 0)
            }
            (Kind::Stat, _) => {
                let at = self.pick_idle()?;
                make(self.present[at], 0, 0)
            }
            (Kind::Append, _) => {
                let at = self.pick_idle()?;
                make(self.present[at], 0, length_bytes)
            }
            (Kind::Read | Kind::Write, _)
                if self.workload.changes_files() && step.size.is_none() =>
            {
                let at = self.pick_idle()?;
                make(self.present[at], 0, length_bytes)
            }
            (Kind::Read | Kind::Write, Access::Sequential | Access::Backward) => {
                let backward = step.access == Access::Backward;
                let (file, offset) = self.advance(number, length_bytes, backward)?;
                make(file, offset, length_bytes)
            }
            (Kind::Read | Kind::Write, Access::Random) => {
                let at = self.pick_idle()?;
                let file = self.present[at];
                let slots = (file_bytes / length_bytes).max(1);
                make(file, self.rng.below(slots) * length_bytes, length_bytes)
            }
        };
        if self.workload.changes_files() {
            self.busy.insert(operation.file);
        }
        Some(operation)
    }

    /// Where a sequential stream goes on: file by file, and again from the first. Clients that
    /// share files start at different places, else they would all read what one has just read.
    fn advance(
        &mut self,
        number: usize,
        length_bytes: u64,
        backward: bool,
    ) -> Option<(u32, u64)> {
        let files = self.present.len() as u64;
        let per_file = (self.workload.files.size / length_bytes).max(1);
        let slots = files.checked_mul(per_file).filter(|&slots| slots > 0)?;
        let start = match self.workload.files.placing {
            Placing::PerClient => 0,
            Placing::Shared => {
                slots * u64::from(self.client) / u64::from(self.workload.clients.max(1))
            }
        };
        let slot = (start + self.streams[number].cursor_bytes / length_bytes) % slots;
        self.streams[number].cursor_bytes += length_bytes;
        let slot = if backward { slots - 1 - slot } else { slot };
        let file = self.present[(slot / per_file) as usize];
        Some((file, slot % per_file * length_bytes))
    }

    /// Position in `present` of a file that nothing is under way on.
    fn pick_idle(&mut self) -> Option<usize> {
        for _ in 0..16 {
            let at = self.rng.below(self.present.len() as u64) as usize;
            if !self.busy.contains(self.present.get(at)?) {
                return Some(at);
            }
        }
        self.present.iter().position(|file| !self.busy.contains(file))
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
}
