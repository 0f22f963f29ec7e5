//! The table of jobs: the settings of each are kept in its place, and its name is a number here.
//!
//! Places are given away once a job is over, its number is never used again: whatever still speaks
//! of the former job then finds none, and not a stranger's.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use afflux_core::units::{Span, Time};

use super::image::{JOBS, Job, PATHS};
use super::{Full, Shared, identity, names, paths};
use crate::clock;

/// Jobs that have a name are numbered from here on. Who numbers jobs by itself stays below.
pub const FIRST_NAMED: u32 = 1 << 16;

/// How long nobody spoke of a job whose place is given away for want of room.
const IDLE: Span = Span::from_secs(60);

impl Shared {
    /// The number of the job `name`, which is the same in all processes; made when there is none.
    /// The job is over when nothing was sent for a minute, nobody called [`Shared::keep`] either,
    /// and its place is needed. Names are told apart by a hash; their first 112 bytes are kept.
    ///
    /// # Errors
    /// There are too many jobs.
    pub fn tenant(&self, name: &str) -> Result<u32, Full> {
        let hash = names::hash(name.as_bytes()).max(1);
        let (_, job) = self.place(
            || self.named(hash),
            |job| {
                names::write(&job.name, hash, name);
                FIRST_NAMED + self.memory.image.header.tenants.fetch_add(1, Relaxed)
            },
        )?;
        Ok((job.tenant.load(Acquire) as u32).saturating_sub(1))
    }

    /// The name of a job, as far as it was kept. Allocates.
    pub fn tenant_name(&self, tenant: u32) -> Option<String> {
        names::text(&self.memory.image.jobs[self.job_of(tenant)?].name)
    }

    /// Says that a job is not over, though nothing may have been sent for long.
    pub fn keep(&self, tenant: u32) {
        if let Some(number) = self.job_of(tenant) {
            self.memory.image.jobs[number].kept.store(clock::now().as_nanos(), Relaxed);
        }
    }

    fn named(&self, hash: u64) -> Option<usize> {
        let of = |job: &Job| job.tenant.load(Acquire) != 0 && job.name.hash.load(Relaxed) == hash;
        self.memory.image.jobs.iter().position(of)
    }

    /// The index of a job's entry, if it has one.
    pub(super) fn job_of(&self, tenant: u32) -> Option<usize> {
        let of = |job: &Job| job.tenant.load(Acquire) == u64::from(tenant) + 1;
        self.memory.image.jobs.iter().position(of)
    }

    /// A job's entry, made when there is none.
    pub(super) fn job(&self, tenant: u32) -> Result<(usize, &'static Job), Full> {
        let number = |job: &Job| {
            names::write(&job.name, 0, "");
            tenant
        };
        self.place(|| self.job_of(tenant), number)
    }

    /// The entry that `find` finds; else a free one, which `name` names, returning its number.
    fn place(
        &self,
        find: impl Fn() -> Option<usize>,
        name: impl FnOnce(&Job) -> u32,
    ) -> Result<(usize, &'static Job), Full> {
        let image = self.memory.image;
        let found = || find().map(|number| (number, &image.jobs[number]));
        if let Some((number, job)) = found() {
            job.kept.store(clock::now().as_nanos(), Relaxed);
            return Ok((number, job));
        }
        let writer = &image.header.jobs_writer;
        self.lock(writer)?;
        let placed = found().map_or_else(
            || {
                let (number, job) = self.free_place()?;
                self.open(job, name(job));
                Ok((number, job))
            },
            Ok,
        );
        writer.store(0, Release);
        placed
    }

    /// Makes a free place that of `tenant`. Only for who has the lock of the table.
    fn open(&self, job: &Job, tenant: u32) {
        job.kept.store(clock::now().as_nanos(), Relaxed);
        job.paused.store(0, Relaxed);
        job.generation.store(0, Relaxed);
        job.tenant.store(u64::from(tenant) + 1, Release);
    }

    /// A place that no job has. Only for who has the lock of the table.
    fn free_place(&self) -> Result<(usize, &'static Job), Full> {
        let jobs = &self.memory.image.jobs;
        let free = || jobs.iter().position(|job| job.tenant.load(Acquire) == 0);
        let number = free().or_else(|| {
            self.retire_paths();
            self.close_idle();
            free()
        });
        let full = Full { what: "jobs with settings of their own", most: JOBS };
        number.map(|number| (number, &jobs[number])).ok_or(full)
    }

    /// Gives away the places of jobs of which nobody speaks and that have no path left.
    fn close_idle(&self) {
        let now = clock::now();
        for job in &self.memory.image.jobs {
            let tenant = job.tenant.load(Acquire);
            let used = || {
                (0..PATHS).any(|path| {
                    paths::tenant(self.memory.image.paths[path].key.load(Acquire))
                        .is_some_and(|of| u64::from(of) + 1 == tenant)
                })
            };
            let kept = Time::from_nanos(job.kept.load(Relaxed));
            if tenant != 0 && now.since(kept) >= IDLE && !used() {
                job.tenant.store(0, Release);
            }
        }
    }

    /// Becomes the one who may write what `writer` guards, which is zero when nobody does. Nobody
    /// keeps it for longer than some loads and stores, and the dead lose it.
    pub(super) fn lock(&self, writer: &AtomicU64) -> Result<(), Full> {
        let me = self.identity();
        for _ in 0..1_000 {
            let now = writer.load(Acquire);
            let free = now == 0 || (now != me && !identity::is_alive(now));
            if free && writer.compare_exchange(now, me, AcqRel, Relaxed).is_ok() {
                return Ok(());
            }
            clock::sleep(Span::from_millis(1));
        }
        Err(Full { what: "writers of one setting", most: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Mode;
    use afflux_core::class::Class;
    use afflux_core::path::{HoldTotals, PathKey};
    use afflux_core::setting::Setting;

    fn set(shared: &Shared, tenant: u32, text: &str) {
        let setting = Setting::parse(text, &|_| Err("none".to_owned())).unwrap();
        shared.set(tenant, &setting, text, true).unwrap();
    }

    /// How many of three requests of a job may be in flight at once.
    fn admitted(shared: &Shared, tenant: u32) -> usize {
        let path = shared.path(PathKey { server: 1, class: Class::Write, tenant }).unwrap();
        let (now, mut holds) = (clock::now(), HoldTotals::default());
        let slots: Vec<_> =
            (0..3).map_while(|_| shared.admit(path, now, 4096, now, &mut holds).ok()).collect();
        slots.len()
    }

    #[test]
    fn a_place_that_is_used_again_has_nothing_of_the_job_before() {
        let shared = Shared::private().unwrap();
        let tenant = |name: &str| shared.tenant(name);
        let first: Vec<_> = (0..JOBS).map(|at| tenant(&format!("job {at}")).unwrap()).collect();
        assert_eq!(tenant("job 7"), Ok(first[7]));
        assert_eq!(shared.tenant_name(first[7]).as_deref(), Some("job 7"));
        for job in &first {
            set(&shared, *job, "fixed:2");
            shared.set_mode(*job, Mode::Pause).unwrap();
        }
        let full = tenant("one more").unwrap_err();
        assert_eq!(full.what, "jobs with settings of their own");
        // As if a minute had passed for all but one of them.
        for job in &shared.memory.image.jobs {
            job.kept.store(0, Relaxed);
        }
        shared.keep(first[7]);
        let more: Vec<_> = (1..JOBS).map(|at| tenant(&format!("more {at}")).unwrap()).collect();
        assert!(tenant("too many").is_err());
        assert!(more.iter().all(|job| !first.contains(job)));
        assert_eq!(tenant("job 7"), Ok(first[7]));
        assert_eq!(shared.setting_of(more[0]), Some((0, Mode::Gate, String::new())));
        set(&shared, more[0], "fixed:1");
        assert_eq!((admitted(&shared, first[7]), admitted(&shared, more[0])), (3, 1));
        // Who still speaks of a job that is over finds no setting, and not that of another.
        assert!(shared.setting_of(first[8]).is_none() && shared.tenant_name(first[8]).is_none());
    }

    #[test]
    fn a_path_does_not_follow_the_job_that_came_into_the_place_of_its_own() {
        let shared = Shared::private().unwrap();
        let old = shared.tenant("old").unwrap();
        set(&shared, old, "fixed:2");
        assert_eq!(admitted(&shared, old), 2);
        // Its place is given away although it has a path: as if the path had come a moment later.
        let place = shared.job_of(old).unwrap();
        shared.memory.image.jobs[place].tenant.store(0, Relaxed);
        let new = shared.tenant("new").unwrap();
        assert_eq!(shared.job_of(new), Some(place));
        set(&shared, new, "fixed:1");
        // The old one keeps the window that it had.
        assert_eq!((admitted(&shared, new), admitted(&shared, old)), (1, 2));
    }

    /// Even where all numbers are those of before: place of the job, place of the path, generation.
    #[test]
    fn a_path_in_the_place_of_another_starts_with_its_own_setting() {
        let shared = Shared::private().unwrap();
        set(&shared, 9, "fixed:2");
        let key = PathKey { server: 1, class: Class::Write, tenant: 9 };
        let path = shared.path(key).unwrap();
        let long_ago = Time::from_nanos(1);
        shared.observe(path, long_ago, 4096).unwrap().reply(long_ago).unwrap();
        let (entry, place) = (path.words()[0] as usize, shared.job_of(9).unwrap());
        shared.memory.image.paths[entry].made.store(0, Relaxed);
        assert_eq!(shared.retire_paths(), 1);
        shared.memory.image.jobs[place].tenant.store(0, Relaxed);
        set(&shared, 9, "fixed:1");
        assert_eq!(shared.path(key), Ok(path));
        assert_eq!((shared.job_of(9), shared.peek(entry)), (Some(place), None));
        assert_eq!(admitted(&shared, 9), 1);
    }

    #[test]
    fn who_dies_while_changing_the_table_does_not_block_it() {
        let shared = Shared::private().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = u64::from(child.id());
        child.wait().unwrap();
        shared.memory.image.header.jobs_writer.store(dead, Relaxed);
        assert!(shared.tenant("anything").is_ok());
    }
}
