//! The settings of jobs, as words that every process runs from.
//!
//! A job has room for two settings: the one in force and the next. Its generation says which is
//! which. Who reads looks at the generation again before it publishes what came of it, so that a
//! setting that changed under its hands leads to nothing.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use afflux_core::class::Class;
use afflux_core::limits::{Credits, Limits};
use afflux_core::path::{Controller, Options};
use afflux_core::policy::{self, Decision, Policy, Seen, Words};
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};

use super::image::{self, Path, SETTING_WORDS};
use super::step::{Draft, InForce, Want};
use super::thread::THREAD;
use super::{Full, Mode, Shared, paths};
use crate::signals;

// What stands where in a setting's words. Limits are stored plus one; zero is none.
const AFRESH: usize = 0;
const CAP: usize = 1;
const FAN_IN: usize = 2;
const CLASSES: usize = 4;
const TEXT: usize = CLASSES + Class::ALL.len();
const TEXT_BYTES: usize = TEXT + 1;
const FIRST: usize = TEXT_BYTES + 1;

/// After so many settings all paths of a job are made to adopt the one in force. Well below the 256
/// after which a path could no longer tell that anything has changed, see [`super::step`], so that
/// one that could not be stepped in time has more chances.
const ADOPTED_EVERY: u32 = 64;

/// The policy of one class in the setting in force.
#[derive(Clone, Copy)]
pub(super) struct InSegment {
    setting: Option<&'static image::Setting>,
    /// Where the words of the class begin.
    start: usize,
}

impl Words for InSegment {
    #[inline]
    fn word(&self, index: usize) -> u64 {
        let Some(setting) = self.setting else { return 0 };
        setting.words.get(self.start.wrapping_add(index)).map_or(0, |word| word.load(Relaxed))
    }
}

impl Policy for InSegment {
    fn name(&self) -> String {
        policy::with(self, |policy| policy.name())
    }

    fn words(&self) -> Vec<u64> {
        policy::with(self, |policy| policy.words())
    }

    #[inline]
    fn on_reply(&self, memory: &mut [u32; 2], seen: &Seen<'_>) -> Decision {
        policy::with(self, |policy| policy.on_reply(memory, seen))
    }

    fn on_fault(&self, memory: &mut [u32; 2], window: f64, now: Time) -> Decision {
        policy::with(self, |policy| policy.on_fault(memory, window, now))
    }

    fn start(&self) -> Decision {
        policy::with(self, |policy| policy.start())
    }

    #[inline]
    fn window_interval(&self) -> Span {
        policy::with(self, |policy| policy.window_interval())
    }
}

impl Shared {
    #[inline(always)]
    fn setting(&self, in_force: &InForce) -> Option<&'static image::Setting> {
        let of_job = self.memory.image.settings.get((in_force.job as usize).wrapping_sub(1))?;
        (in_force.generation > 0).then(|| &of_job[(in_force.generation & 1) as usize])
    }

    /// The controller of a path. The draft's state becomes one of its own: made or adopted if need
    /// be.
    #[inline]
    pub(super) fn controller(
        &self,
        in_force: &InForce,
        class: Class,
        draft: &mut Draft,
    ) -> Controller<InSegment> {
        let setting = self.setting(in_force);
        let start = setting.map_or(0, |of| of.words[CLASSES + class.index()].load(Relaxed));
        let policy = InSegment { setting, start: start as usize };
        let controller = Controller::of(Options::default(), policy);
        if !draft.started || draft.generation != in_force.generation as u8 {
            let afresh = setting.is_some_and(|of| of.words[AFRESH].load(Relaxed) != 0);
            take_over(&controller, draft, afresh);
            draft.generation = in_force.generation as u8;
        }
        controller
    }

    /// The limits of a path besides its window. Its credits are its own, so that what is in flight
    /// on it is what is used of them.
    #[inline]
    pub(super) fn limits(&self, in_force: &InForce, entry: &Path, in_flight: u32) -> Limits {
        let granted = entry.credits.load(Relaxed);
        let cap = self.setting(in_force).map_or(0, |of| of.words[CAP].load(Relaxed));
        Limits {
            credits: (granted > 0).then_some(Credits { granted, used: in_flight }),
            cap: u32::try_from(cap).ok().and_then(|cap| cap.checked_sub(1)),
            ..Limits::default()
        }
    }

    /// The node-wide limit on requests in flight of a job.
    #[inline]
    pub(super) fn fan_in(&self, in_force: &InForce) -> Option<u32> {
        let fan_in = self.setting(in_force)?.words[FAN_IN].load(Relaxed);
        u32::try_from(fan_in).ok()?.checked_sub(1)
    }

    /// Whether the job of a path pauses.
    #[inline]
    pub(super) fn pauses(&self, in_force: &InForce) -> bool {
        let job = self.memory.image.jobs.get((in_force.job as usize).wrapping_sub(1));
        job.is_some_and(|job| job.paused.load(Relaxed) != 0)
    }

    /// Puts `setting` in force for the job `tenant`, on its paths that are and will be; `text` is
    /// kept beside it for people. Their windows carry over unless `afresh`, which starts all
    /// controllers of the job anew. Returns the generation. Allocates and uses system calls.
    ///
    /// # Errors
    /// There are too many jobs, or the setting is too large.
    pub fn set(
        &self,
        tenant: u32,
        setting: &Setting,
        text: &str,
        afresh: bool,
    ) -> Result<u32, Full> {
        let (number, job) = self.job(tenant)?;
        let words = words(setting, text, afresh)?;
        self.lock(&job.writer)?;
        let generation = job.generation.load(Acquire).wrapping_add(1).max(1);
        // After the last generation comes one of the same parity as the first: none in practice.
        let room = &self.memory.image.settings[number][(generation & 1) as usize];
        let backed = self.memory.back(room);
        if backed.is_ok() {
            for (place, word) in room.words.iter().zip(&words) {
                place.store(*word, Relaxed);
            }
            job.generation.store(generation, SeqCst);
        }
        job.writer.store(0, Release);
        backed.map_err(|_| Full { what: "memory", most: 0 })?;
        self.assign(tenant, number);
        if generation.is_multiple_of(ADOPTED_EVERY) {
            self.have_adopted(tenant);
        }
        self.call_all(tenant);
        Ok(generation)
    }

    /// Pauses or resumes the job `tenant`; who waits is let go.
    ///
    /// # Errors
    /// There are too many jobs.
    pub fn set_mode(&self, tenant: u32, mode: Mode) -> Result<(), Full> {
        let (number, job) = self.job(tenant)?;
        job.paused.store(u32::from(mode == Mode::Pause), SeqCst);
        self.assign(tenant, number);
        self.call_all(tenant);
        Ok(())
    }

    /// The setting in force for a job: its generation, its mode and the text that was given with
    /// it. None when it has none of its own. Allocates.
    pub fn setting_of(&self, tenant: u32) -> Option<(u32, Mode, String)> {
        let number = self.job_of(tenant)?;
        let job = &self.memory.image.jobs[number];
        let mode = if job.paused.load(Relaxed) == 0 { Mode::Gate } else { Mode::Pause };
        loop {
            let generation = job.generation.load(SeqCst);
            let in_force = InForce { job: number as u32 + 1, generation };
            let text = self.setting(&in_force).map_or_else(String::new, text_of);
            if job.generation.load(SeqCst) == generation {
                return Some((generation, mode, text));
            }
        }
    }

    /// Tells all paths of a job that it has a setting.
    fn assign(&self, tenant: u32, number: usize) {
        for entry in &self.memory.image.paths {
            if paths::unpack(entry.key.load(SeqCst)).is_some_and(|key| key.tenant == tenant) {
                entry.job.store(number as u32 + 1, SeqCst);
            }
        }
    }
}

impl Shared {
    /// Has each path of a job adopt the setting in force, as its next request would. A path keeps
    /// only the last bits of the generation that it follows: were it left alone for all of their
    /// values, it would take a new setting for its own.
    #[cold]
    fn have_adopted(&self, tenant: u32) {
        let _quiet = signals::hold_back();
        THREAD.with(|thread| {
            for (path, entry) in self.memory.image.paths.iter().enumerate() {
                let word = entry.key.load(SeqCst);
                let key = paths::unpack(word).filter(|key| key.tenant == tenant);
                let (Some(key), Ok(lease)) = (key, self.lane(thread, 0)) else { continue };
                // Who is gone, or finds no memory, has no requests to be regulated either.
                let _ = self.step(lease.lane, path, Some(word), |in_force, draft| {
                    if !draft.started {
                        return Want::Leave;
                    }
                    self.controller(in_force, key.class, draft);
                    Want::Publish
                });
            }
        });
    }
}

#[cold]
fn take_over(controller: &Controller<InSegment>, draft: &mut Draft, afresh: bool) {
    if !draft.started {
        draft.started = true;
        draft.state = controller.start();
    } else if afresh {
        draft.state = controller.start().recounted(draft.state.in_flight());
    } else {
        controller.adopt(&mut draft.state);
    }
}

fn words(setting: &Setting, text: &str, afresh: bool) -> Result<Vec<u64>, Full> {
    let mut words = vec![0; FIRST];
    words[AFRESH] = u64::from(afresh);
    words[CAP] = setting.cap.map_or(0, |cap| u64::from(cap) + 1);
    words[FAN_IN] = setting.fan_in.map_or(0, |fan_in| u64::from(fan_in) + 1);
    for class in Class::ALL {
        words[CLASSES + class.index()] = words.len() as u64;
        words.extend(setting.controller(class).policy().words());
    }
    words[TEXT] = words.len() as u64;
    words[TEXT_BYTES] = text.len() as u64;
    for part in text.as_bytes().chunks(8) {
        let mut eight = [0; 8];
        eight[..part.len()].copy_from_slice(part);
        words.push(u64::from_le_bytes(eight));
    }
    match words.len() <= SETTING_WORDS {
        true => Ok(words),
        false => Err(Full { what: "words of a setting", most: SETTING_WORDS }),
    }
}

fn text_of(setting: &'static image::Setting) -> String {
    let at = setting.words[TEXT].load(Relaxed) as usize;
    let length = (setting.words[TEXT_BYTES].load(Relaxed) as usize).min(8 * SETTING_WORDS);
    let words = setting.words.iter().skip(at).take(length.div_ceil(8));
    let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    bytes.truncate(length);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use afflux_core::path::{HoldTotals, PathKey};

    /// A path that was idle while 256 settings came keeps the last bits of a generation that is in
    /// force again.
    #[test]
    fn a_setting_is_noticed_however_many_came_since_the_last_request() {
        let shared = Shared::private().unwrap();
        let set = |text: &str| {
            let setting = Setting::parse(text, &|_| Err("none".to_owned())).unwrap();
            shared.set(9, &setting, text, false).unwrap()
        };
        let path = shared.path(PathKey { server: 1, class: Class::Write, tenant: 9 }).unwrap();
        let (now, mut holds) = (clock::now(), HoldTotals::default());
        let mut admitted = || {
            let admit = |_| shared.admit(path, now, 4096, now, &mut holds).ok();
            (0..9).map_while(admit).collect::<Vec<_>>().len()
        };
        // From none, which is generation 0, and from the first one.
        assert_eq!(admitted(), 8);
        (1..256).for_each(|_| _ = set("fixed:5"));
        assert_eq!((set("fixed:3"), admitted()), (256, 3));
        for changes in [1, 255, 256, 257] {
            set("fixed:4");
            assert_eq!(admitted(), 4, "before {changes} changes");
            (1..changes).for_each(|_| _ = set("fixed:5"));
            set("fixed:2");
            assert_eq!(admitted(), 2, "after {changes} changes");
        }
    }
}
